//! The sessions of a task, listed and shown again.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::Project;

/// A project with a task on which two sessions have worked; their logs are real ones.
fn worked() -> (Project, String) {
    let project = Project::new();
    let task = project.add(["Say hello"]);
    for (number, name, outcome) in [(1, "c_tool_errors", "failed"), (2, "b", "done")] {
        let fixture = format!("{}/tests/fixtures/stream/{name}.ndjson", env!("CARGO_MANIFEST_DIR"));
        let log = project.write(&format!("{number}.log"), std::fs::read(fixture).unwrap());
        let line = attempt(&task, number, outcome, &log);
        project.ralph_reading(format!("{line}\n"), ["import"]).ok();
    }
    (project, task)
}

fn attempt(task: &str, number: u32, outcome: &str, log: &Path) -> Value {
    json!({
        "type": "attempt", "id": format!("a-{number}00000"), "task": task, "number": number,
        "run": null, "model": "opus", "started_at": "2026-11-16T02:00:00.000Z",
        "ended_at": "2026-11-16T02:01:30.000Z", "outcome": outcome, "reason": null,
        "exit_code": 0, "cost_usd": 0.25, "input_tokens": 1, "output_tokens": 1, "turns": 1,
        "log_path": log, "session_id": null, "head_before": null, "head_after": null,
    })
}

#[test]
fn the_sessions_of_a_task_are_listed_with_what_came_of_them() {
    let (project, task) = worked();
    let list = project.ralph(["logs", &task]).ok();
    insta::assert_snapshot!(project.masked(&list), @"
    ATTEMPT   TASK      #  OUTCOME  BEGAN             TIME   COST   MODEL  LOG
    [A]  [B]  1  failed   2026-11-16 03:00  1 min  $0.25  opus   [ROOT]/1.log
    [C]  [B]  2  done     2026-11-16 03:00  1 min  $0.25  opus   [ROOT]/2.log
    ");
    let last = project.ralph(["logs", &task, "--json"]).json()[1].clone();
    assert_eq!(last["outcome"], "done");
    assert_eq!(last["started_at"], "2026-11-16T02:00:00.000Z", "a program reads UTC");
    let latest = project.ralph(["logs", "--json"]).json();
    let numbers: Vec<&Value> = latest.as_array().unwrap().iter().map(|it| &it["number"]).collect();
    assert_eq!(numbers, [2, 1], "the newest comes first");
}

#[test]
fn a_list_is_never_cut_without_a_word() {
    let (project, task) = worked();
    let log = project.write("0.log", "");
    let lines: Vec<String> = (3..=28)
        .map(|number| {
            let mut line = attempt(&task, number, "failed", &log);
            line["id"] = format!("a-z{number:02}000").into();
            line.to_string()
        })
        .collect();
    project.ralph_reading(lines.join("\n"), ["import"]).ok();
    let text = |arguments: &[&str]| {
        let shown = project.ralph([&["logs"], arguments].concat()).ok();
        let lines: Vec<String> = shown.lines().skip(1).map(str::to_owned).collect();
        (lines.iter().filter(|line| line.starts_with("a-")).count(), lines.last().unwrap().clone())
    };
    let json = |arguments: &[&str]| {
        let shown = project.ralph([&["logs", "--json"], arguments].concat()).json();
        shown.as_array().unwrap().len()
    };
    assert_eq!(text(&[]), (20, "and 8 more; --all shows them".to_owned()));
    assert_eq!(text(&["-n", "3"]), (3, "and 25 more; --all shows them".to_owned()));
    assert_eq!(text(&["--all"]).0, 28);
    assert_eq!(text(&["-n", "28"]).0, 28);
    assert_eq!(text(&[&task]).0, 28);
    assert_eq!(text(&[&task, "-n", "5"]), (5, "and 23 more; --all shows them".to_owned()));
    assert!(!text(&["--all"]).1.contains("more"));
    assert_eq!([json(&[]), json(&["--all"]), json(&["-n", "3"]), json(&[&task])], [28, 28, 3, 28]);
    let latest = project.ralph(["logs", &task, "-n", "1", "--json"]).json();
    assert_eq!(latest[0]["number"], 28);
    let refused = project.ralph(["logs", "a-z03", "--all"]).fails(1);
    assert!(refused.contains("`a-z03` is one session"), "{refused}");
}

#[test]
fn a_session_is_shown_again_as_it_looked() {
    let (project, task) = worked();
    let replay = project.ralph(["logs", &task, "2"]).ok();
    insta::assert_snapshot!(replay, @"
    claude-opus-5-5
    │ The user wants Y. I will run a command and write a file.
    I'll start by running a command.
    -> Bash(echo hello-from-bash; pwd)
    Now I write a file.
    -> Write(/home/dev/my-project/out.txt)
    -> Read(/home/dev/my-project/out.txt)
    All done.

    <task-done>t-abc</task-done>
    ✓ 1.0 s  $0.0085  4 turns
    ");
    assert_eq!(project.ralph(["logs", "a-200000"]).ok(), replay);
    assert_eq!(project.ralph(["logs", "a-2"]).ok(), replay, "a beginning is enough");
}

#[test]
fn the_session_that_verified_is_named_and_shown_again() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let scripts = ["say The work. | done", "say I have looked. <verify-pass/>"];
    project.run(project.ralph_playing(&scripts, ["run"]), None).ok();
    let attempt = project.show(&task)["history"][0]["id"].as_str().unwrap().to_owned();
    let told = format!("attempt 1 was verified by an agent: ralph logs {attempt} --verify");
    for arguments in [&["logs", &task][..], &["logs", &task, "1"], &["logs", &attempt]] {
        let shown = project.ralph(arguments).ok();
        assert_eq!(shown.lines().last(), Some(&*told), "{shown}");
    }
    for arguments in [&["logs", &attempt, "--verify"][..], &["logs", &task, "--verify"]] {
        let shown = project.ralph(arguments).ok();
        assert!(shown.contains("I have looked.") && !shown.contains("The work."), "{shown}");
        assert!(!shown.contains(&told), "{shown}");
    }
    let raw = project.ralph(["logs", &attempt, "--verify", "--raw"]).stdout();
    assert!(raw.starts_with('{') && raw.contains("I have looked."), "{raw}");
    let other = project.add(["Another"]);
    project.run(project.ralph_with("done", ["run", "--no-verify"]), None).ok();
    let refused = project.ralph(["logs", &other, "--verify"]).fails(1);
    assert!(refused.contains("no agent has verified attempt"), "{refused}");
}

#[test]
fn a_raw_log_is_the_file_to_the_byte() {
    let (project, task) = worked();
    let raw = std::fs::read_to_string(project.root().join("2.log")).unwrap();
    assert_eq!(project.ralph(["logs", &task, "--raw"]).stdout(), raw);
    assert_eq!(project.ralph(["logs", "a-200000", "--raw"]).stdout(), raw);
}

#[test]
fn a_session_that_is_not_there_is_said_to_be_missing() {
    let (project, task) = worked();
    let said = |arguments: &[&str]| project.masked(&project.ralph(arguments).fails(1));
    insta::assert_snapshot!(said(&["logs", &task, "3"]), @"
    error: `[A]` has no attempt 3
    hint: `ralph logs [A]` shows those it has
    ");
    insta::assert_snapshot!(said(&["logs", "a-zzzzzz"]), @"
    error: there is no attempt `[A]`
    hint: `ralph logs` shows the latest ones
    ");
    insta::assert_snapshot!(said(&["logs", "a-"]), @"
    error: `a-` is the beginning of more than one id
    hint: `ralph logs` shows the latest ones
    ");
    std::fs::remove_file(project.root().join("2.log")).unwrap();
    insta::assert_snapshot!(said(&["logs", "a-200000"]), @"
    error: the log of attempt `[A]` was removed: `[ROOT]/2.log`
    hint: `ralph doctor --clean` removes old logs, and an export takes none along
    ");
    let idle = project.add(["Nobody has worked on this"]);
    insta::assert_snapshot!(said(&["logs", &idle, "--raw"]), @"error: `[A]` has no sessions yet");
    insta::assert_snapshot!(project.ralph(["logs", &idle]).ok(), @"no sessions yet");
}

#[test]
fn the_agent_is_the_one_that_was_asked_for() {
    let project = Project::new();
    let agent = project.write("my-agent", "#!/bin/sh\necho '2.1.400 (Claude Code)'\n");
    std::process::Command::new("chmod").arg("+x").arg(&agent).status().unwrap();
    let checks = project.ralph(["--agent", agent.to_str().unwrap(), "doctor", "--json"]).json();
    let check = checks.as_array().unwrap().iter().find(|it| it["name"] == "agent").unwrap().clone();
    let detail = format!("{}, Claude Code 2.1.400", agent.display());
    assert_eq!((&check["result"], &check["detail"]), (&json!("ok"), &json!(detail)));
    let settings = project.ralph(["config", "show", "--agent", "other", "--json"]).json();
    let setting =
        settings.as_array().unwrap().iter().find(|it| it["key"] == "agent.command").unwrap();
    assert_eq!((&setting["value"], &setting["origin"]), (&json!("other"), &json!("flag --agent")));
}

#[test]
fn logs_go_where_programs_keep_their_state() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let log = || project.show(&task)["history"][0]["log_path"].as_str().unwrap().to_owned();
    let state = project.base().join("state");
    let mut command = project.ralph_with("done", ["run", "--no-verify"]);
    command.env("XDG_STATE_HOME", &state);
    project.run(command, None).ok();
    assert!(log().starts_with(&format!("{}/ralph/project-", state.display())), "{}", log());
    let shown = project.ralph(["logs", &task, "1"]).ok();
    assert!(shown.contains(&task), "{shown}");
    let other = project.add(["Another"]);
    let mut command = project.ralph_with("done", ["run", "--no-verify"]);
    command.env("XDG_STATE_HOME", "relative");
    project.run(command, None).ok();
    let log = project.show(&other)["history"][0]["log_path"].as_str().unwrap().to_owned();
    let home = project.base().join("home/.local/state/ralph/project-");
    assert!(log.starts_with(home.to_str().unwrap()), "{log}");
    project.assert_nothing_left();
}
