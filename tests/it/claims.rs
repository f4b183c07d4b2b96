//! A run whose task is decided, deleted or taken away while a session works on it: the run goes on, what
//! the session has cost stays on record, and every iteration that began is said to have ended.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Output, Project, check_rules, wait_until, working_sandboxes};

/// What a person types in another terminal while a session runs: the session's own environment is not
/// there.
const PERSON: &str = "run env -u RALPH_SOCKET ralph task";

/// Runs `ralph run --format jsonl` with these scripts and asserts that nothing is left.
fn run(project: &Project, scripts: &[&str], arguments: &[&str]) -> Told {
    let arguments = ["run", "--no-verify", "--format", "jsonl"].iter().chain(arguments);
    finish(project, project.ralph_playing(scripts, arguments))
}

fn finish(project: &Project, command: Command) -> Told {
    let output = project.run(command, None);
    project.assert_nothing_left();
    check_rules(project);
    let events = output.stdout().lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    Told { output, events }
}

/// What a run told.
struct Told {
    output: Output,
    events: Vec<Value>,
}

impl Told {
    fn of(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|it| it["type"] == kind).collect()
    }

    /// The warnings, after it is clear that the run ended like this, and each iteration before it.
    #[track_caller]
    fn ended(&self, code: i32) -> String {
        assert_eq!(self.output.status.code(), Some(code), "{:?}", self.output);
        let iterations = |kind| -> Vec<&Value> {
            self.of(kind).into_iter().map(|it| &it["iteration"]).collect()
        };
        assert_eq!(iterations("iteration_start"), iterations("iteration_end"));
        let warnings = self.of("error").into_iter().map(|it| it["message"].as_str().unwrap());
        warnings.collect::<Vec<_>>().join("\n")
    }

    fn summary(&self) -> &Value {
        self.events.last().filter(|it| it["type"] == "complete").expect("a summary at the end")
    }
}

#[track_caller]
fn assert_cost(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
}

#[test]
fn a_task_that_is_deleted_while_a_session_works_on_it_does_not_end_the_run() {
    let project = Project::new();
    project.git_init();
    let first = project.add(["First"]);
    let second = project.add(["Second"]);
    let delete = format!("cost 0.5 | {PERSON} delete {first} --yes | write left text | done");
    let told = run(&project, &[&delete, "cost 0.25 | done"], &[]);
    let warnings = told.ended(0);
    assert!(warnings.contains(&format!("`{first}` was deleted while a session")), "{warnings}");
    let ended = told.of("iteration_end")[0];
    assert_eq!((&ended["outcome"], &ended["status"]), (&json!("overruled"), &json!(null)));
    assert_cost(&ended["cost_usd"], 0.5);
    assert_cost(&told.summary()["cost_usd"], 0.75);
    assert_eq!(told.summary()["iterations"], 2);
    assert_eq!(project.show(&second)["status"], "done");
}

#[test]
fn an_agent_splits_its_task_by_adding_what_it_waits_for() {
    let project = Project::new();
    let task = project.add(["Large"]);
    let split =
        "run one=$(ralph task add One) && ralph task deps add $one $RALPH_TASK_ID | fail too large";
    let told = run(&project, &[split, "done", "done"], &[]);
    told.ended(0);
    let order = told.of("iteration_start").iter().map(|it| it["title"].clone()).collect::<Vec<_>>();
    assert_eq!(order, ["Large", "One", "Large"]);
    assert_eq!(project.show(&task)["status"], "done");
}

#[test]
fn a_run_whose_target_is_deleted_ends_as_one_without_tasks() {
    let project = Project::new();
    let task = project.add(["Alone"]);
    let delete = format!("{PERSON} delete {task} --yes | done");
    let told = run(&project, &[&delete], &[&task]);
    told.ended(4);
    assert_eq!(told.summary()["message"], "there are no tasks");
}

#[test]
fn a_task_that_is_deleted_before_its_session_begins_costs_no_iteration() {
    let project = Project::new();
    let first = project.add(["First"]);
    project.add(["Second"]);
    // The run reads this prompt after it has claimed the task and before it starts a session.
    std::fs::create_dir(project.root().join(".ralph/prompts")).unwrap();
    let prompt = project.root().join(".ralph/prompts/work.md");
    assert!(Command::new("mkfifo").arg(&prompt).status().unwrap().success());
    let program = project.ralph_playing(&["done"], ["run", "--no-verify", "--format", "jsonl"]);
    let run = project.start(program);
    let mut teller = project.command("timeout");
    let tell = format!(
        "exec 3>{0} && rm {0} && ralph task delete {first} --yes && echo work >&3",
        prompt.display()
    );
    teller.args(["60", "sh", "-c", &tell]).env(
        "PATH",
        format!(
            "{}:/usr/bin:/bin",
            std::path::Path::new(crate::harness::RALPH).parent().unwrap().display()
        ),
    );
    project.run(teller, None).ok();
    let (status, lines, said) = run.finish();
    assert!(status.success(), "{said}");
    let events: Vec<Value> = lines.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    let starts = events.iter().filter(|it| it["type"] == "iteration_start");
    assert_eq!(starts.map(|it| &it["iteration"]).collect::<Vec<_>>(), [1]);
    project.assert_nothing_left();
}

#[test]
fn what_an_overruled_session_has_cost_and_committed_is_counted() {
    let project = Project::new();
    project.git_init();
    let task = project.add(["Contested"]);
    project.add(["Another"]);
    let commit =
        |name: &str| format!("run echo x > {name} && git add . && git commit -q -m {name}");
    let overruled = format!("cost 0.5 | {} | {PERSON} done {task} | fail no", commit("one"));
    let other = format!("cost 0.25 | {} | done", commit("two"));
    let told = run(&project, &[&overruled, &other], &[]);
    let warnings = told.ended(0);
    assert!(warnings.contains(&format!("a person decided `{task}`")), "{warnings}");
    let ended = told.of("iteration_end")[0];
    assert_eq!((&ended["outcome"], &ended["status"]), (&json!("overruled"), &json!("done")));
    assert_cost(&told.summary()["cost_usd"], 0.75);
    assert_eq!(told.summary()["commits"], 2);
    let results = told.summary()["results"].as_array().unwrap();
    assert_eq!((&results[0]["task"], &results[0]["outcome"]), (&json!(task), &json!("overruled")));
    assert_cost(&project.ralph(["status", "--json"]).json()["cost_usd"], 0.75);
    let shown = project.show(&task);
    let attempt = &shown["history"][0];
    assert_eq!((&shown["status"], &attempt["outcome"]), (&json!("done"), &json!("overruled")));
    assert_cost(&attempt["cost_usd"], 0.5);
    assert_eq!(attempt["exit_code"], 0);
    assert!(attempt["log_path"].is_string() && attempt["head_after"].is_string(), "{attempt}");
}

#[test]
fn what_a_session_has_cost_whose_claim_was_taken_back_is_counted() {
    let project = Project::new();
    let task = project.add(["Silent"]);
    let go = project.base().join("go");
    let waiting = format!("cost 0.5 | wait-file {} | fail no", go.display());
    let scripts = [waiting.as_str(), "cost 0.25 | done"];
    let program = project.ralph_playing(&scripts, ["run", "--no-verify", "--format", "jsonl"]);
    let run = project.start(program);
    while !run.next_line().expect("an event").contains("iteration_start") {}
    // Another machine on this database, which has not heard of the run for too long.
    let later = ralph::time::Timestamp::now().plus(2 * ralph::store::LEASE);
    let taken = project.store().take_back(|_| ralph::process::Life::Unknown, later).unwrap();
    assert_eq!(taken.len(), 1);
    std::fs::write(&go, "").unwrap();
    let (status, lines, said) = run.finish();
    assert!(status.success(), "{said}");
    let of = |kind: &str| -> Vec<Value> {
        let events = lines.iter().map(|it| serde_json::from_str::<Value>(it).unwrap());
        events.filter(|it| it["type"] == kind).collect()
    };
    assert_eq!(of("iteration_end")[0]["outcome"], "crashed");
    assert_cost(&of("complete")[0]["cost_usd"], 0.75);
    assert_cost(&project.ralph(["status", "--json"]).json()["cost_usd"], 0.75);
    let shown = project.show(&task);
    assert_eq!(shown["history"][0]["outcome"], "crashed");
    assert_cost(&shown["history"][0]["cost_usd"], 0.5);
    assert_eq!(shown["status"], "done");
    project.assert_nothing_left();
}

#[test]
fn a_session_in_a_sandbox_keeps_the_claim_of_its_run_after_the_machine_has_slept() {
    if !working_sandboxes().contains(&"bwrap") {
        eprintln!("skipped: bwrap does not work here");
        return;
    }
    let project = Project::new();
    let task = project.add(["Sleepy"]);
    let (ready, go) = (project.root().join("ready"), project.root().join("go"));
    let script = format!(
        "touch {} | wait-file {} | run ralph task log {task} -m awake | done",
        ready.display(),
        go.display()
    );
    let arguments = ["run", "--no-verify", "--sandbox", "bwrap"];
    let run = project.start(project.ralph_playing(&[&script], arguments));
    wait_until(Instant::now() + DEADLINE, || ready.exists().then_some(())).expect("a session");
    let mut store = project.store();
    let claim = store.activity().unwrap().open.remove(0);
    let long_ago = chrono::Utc::now().timestamp() - 3600;
    let long_ago = ralph::time::Timestamp::from_epoch(long_ago).unwrap();
    store.heartbeat(claim.run.unwrap(), long_ago).unwrap();
    std::fs::write(&go, "").unwrap();
    let (status, lines, said) = run.finish();
    assert!(status.success(), "{lines:?} {said}");
    assert_eq!(project.show(&task)["history"][0]["outcome"], "done");
}

#[test]
fn a_task_that_is_not_due_is_waited_for_until_a_person_changes_its_time() {
    let project = Project::new();
    let task = project.add(["Later"]);
    let group = project.add(["Group", "--group"]);
    project.refuses(1, ["task", "update", &group, "--not-before", "1h"]);
    project.refuses(2, ["task", "update", &task, "--not-before", "soon"]);
    project.ralph(["task", "update", &task, "--not-before", "2099-01-01T08:00:00+01:00"]).ok();
    assert_eq!(project.show(&task)["not_before"], "2099-01-01T07:00:00.000Z");
    let arguments = ["run", &task, "--no-verify", "--format", "jsonl"];
    let run = project.start(project.ralph_with("done", arguments));
    while !run.next_line().expect("it waits").contains("\"idle\"") {}
    project.ralph(["task", "update", &task, "--not-before", "1s"]).ok();
    let (status, _, said) = run.finish();
    assert!(status.success(), "{said}");
    assert_eq!(project.show(&task)["status"], "done");
    project.assert_nothing_left();
}

#[test]
fn a_task_is_added_with_the_time_before_which_no_run_starts_it() {
    let project = Project::new();
    let later = project.add(["Later", "--not-before", "2099-01-01T08:00:00+01:00"]);
    let lines = [
        r#"{"title": "In an hour", "not_before": "1h"}"#,
        r#"{"title": "At noon", "not_before": "2099-01-01T12:00:00Z"}"#,
        r#"{"title": "Now", "not_before": "none"}"#,
        r#"{"title": "At once", "not_before": null}"#,
    ];
    let tasks = project.add_lines(lines.join("\n"));
    let start = |task: &str| project.show(task)["not_before"].clone();
    assert_eq!(start(&later), "2099-01-01T07:00:00.000Z");
    assert_eq!(start(&tasks[1]), "2099-01-01T12:00:00.000Z");
    assert!(start(&tasks[0]).is_string());
    assert!(start(&tasks[2]).is_null() && start(&tasks[3]).is_null());
    let next = project.ralph(["task", "next", "--json"]).json();
    assert_eq!(next["id"], *tasks[2], "{next}");
    let refused = project.refuses(1, ["task", "add", "Group", "--group", "--not-before", "1h"]);
    insta::assert_snapshot!(refused, @"
    error: a group can't be given a time to start
    hint: give one to the tasks inside it
    ");
    project.refuses(2, ["task", "add", "Wrong", "--not-before", "soon"]);
    let wrong = r#"{"title": "Wrong", "not_before": "soon"}"#;
    let refused = project.refuses_reading(1, wrong, ["task", "add", "--stdin"]);
    insta::assert_snapshot!(refused, @"error: line 1: `not_before`: it must be a time such as `2026-11-16T08:00:00Z`, a while from now such as `2h30m`, or `none` (column 40)");
}
