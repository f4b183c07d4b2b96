//! `ralph run` on a real database with real children: what a session says, what becomes of its task, and
//! how the run ends.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::harness::{FAKE_CLAUDE, Output, Project, check_rules};

/// Runs `ralph run` with these scripts, and asserts that nothing is left.
fn run(project: &Project, scripts: &[&str], arguments: &[&str]) -> Output {
    let command = project.ralph_playing(scripts, ["run"].iter().chain(arguments));
    finish(project, command)
}

fn finish(project: &Project, command: Command) -> Output {
    let output = project.run(command, None);
    project.assert_nothing_left();
    check_rules(project);
    output
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

/// The outcomes of the attempts on a task, with their reasons.
fn history(project: &Project, task: &str) -> Vec<(String, String)> {
    let task = project.show(task);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attempts = task["history"].as_array().unwrap();
    attempts.iter().map(|it| (text(&it["outcome"]), text(&it["reason"]))).collect()
}

fn status(project: &Project, task: &str) -> String {
    project.show(task)["status"].as_str().unwrap().to_owned()
}

const PASS: &str = "say <verify-pass/>";

/// A project with one task, and the task.
fn one_task() -> (Project, String) {
    let project = Project::new();
    let task = project.add(["Do it", "-d", "All of it"]);
    (project, task)
}

#[test]
fn a_dag_is_worked_to_its_end_and_the_screen_tells_the_story() {
    let project = Project::new();
    project.git_init();
    let schema = project.add(["Schema", "-d", "Tables"]);
    let group = project.add(["API", "--group"]);
    project.add(["Endpoints", "--parent", &group, "--after", &schema]);
    let commit = "run echo one > file && git add file && git commit -q -m file";
    let output = run(
        &project,
        &[
            &format!("think Hm. | say I begin. | {commit} | done"),
            PASS,
            "write half.txt half | say No test. | fail It will not work.",
            "say Better. | done",
            PASS,
        ],
        &[],
    );
    assert_code(&output, 0);
    let shown = project.masked(&tidy(&output.stdout()));
    insta::assert_snapshot!(shown, @r"
    run      everything, 0/2 done
    sandbox  none (it is turned off): agents may use the allowed tools only

    ━━ 1 [A] Schema
       attempt 1 · sonnet · 0/2 done · 0 s · $0.00
       log [BASE]/home/.local/state/ralph/project-[HASH]/logs/[LOG].log
    sonnet
    │ Hm.
    I begin.
    -> Bash(echo one > file && git add file && git commit -q -m file)
    <task-done>[A]</task-done>
    ✓ [S] s  $0.0100  4 turns
    verify   … a second agent
       log [BASE]/home/.local/state/ralph/project-[HASH]/logs/[LOG]-verify.log
    sonnet
    <verify-pass/>
    ✓ [S] s  $0.0100  1 turn
    verify   ✓ a second agent
    ✓ done  0 s  $0.02
    git      1 commit, 1 file changed, +1 −0

    ━━ 2 [B] Endpoints
       attempt 1 · sonnet · 1/2 done · 0 s · $0.02
       log [BASE]/home/.local/state/ralph/project-[HASH]/logs/[LOG].log
    sonnet
    No test.
    It will not work.
    <task-failed>[B]</task-failed>
    ✓ [S] s  $0.0100  2 turns
    ✗ failed, will be tried again  0 s  $0.01
       No test.

       It will not work.
    git      uncommitted changes are kept as refs/ralph/salvage/[C]

    ━━ 3 [B] Endpoints
       attempt 2 · opus · 1/2 done · 0 s · $0.03
       log [BASE]/home/.local/state/ralph/project-[HASH]/logs/[LOG].log
    opus
    Better.
    <task-done>[B]</task-done>
    ✓ [S] s  $0.0100  2 turns
    verify   … a second agent
       log [BASE]/home/.local/state/ralph/project-[HASH]/logs/[LOG]-verify.log
    opus
    <verify-pass/>
    ✓ [S] s  $0.0100  1 turn
    verify   ✓ a second agent
    ✓ done  0 s  $0.02

    TASK      RESULT  TRIES  TIME  COST   TITLE AND REASON
    [A]  done    1      0 s   $0.02  Schema
    [B]  done    2      0 s   $0.03  Endpoints

    2/2 done · 3 iterations · 0 s · $0.05 · 1 commit, 1 file changed, +1 −0
    everything is done
    ");
    assert_eq!(output.stderr(), "");
    assert_eq!(status(&project, &group), "done");
}

/// The text without times that differ from run to run.
fn tidy(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if let Some(at) = line.find("/ralph/project-") {
            let hash = at + "/ralph/project-".len();
            line.replace_range(hash..hash + "1c0ffee5".len(), "[HASH]");
            let log = hash + "[HASH]/logs/".len();
            line.replace_range(log..log + "20261117203223300-a-3f9a01".len(), "[LOG]");
        }
        if let Some(rest) = line.strip_prefix("✓ ")
            && let Some((number, rest)) = rest.split_once(" s  ")
            && number.parse::<f64>().is_ok()
        {
            line = format!("✓ [S] s  {rest}");
        }
        for seconds in 1..20 {
            line = line.replace(&format!(" {seconds} s "), " 0 s ");
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[test]
fn what_a_session_says_decides_about_its_task() {
    // What it says, how the attempt ends, what the task is then, and why.
    let cases = [
        ("done", "done", "done", ""),
        ("say <task-done> $ID </task-done>", "done", "done", ""),
        ("fail no key", "failed", "failed", "no key"),
        ("block red or blue?", "blocked", "blocked", "red or blue?"),
        ("say I am done", "silent", "failed", "the session ended without a verdict"),
        (
            "say I will say `<task-done>$ID</task-done>` then",
            "silent",
            "failed",
            "without a verdict",
        ),
        ("say ```\\n<task-done>$ID</task-done>\\n```", "silent", "failed", "without a verdict"),
        ("say <task-done>t-zzzzzz</task-done>", "silent", "failed", "without a verdict"),
        ("say <task-done>t-zzzzzz</task-done> | done", "done", "done", ""),
        ("done | fail oh no", "silent", "failed", "both that it is done and that it is not"),
        ("say <task-done>$ID</task-done> <task-done>$ID</task-done>", "done", "done", ""),
        ("think <task-done>$ID</task-done>", "silent", "failed", "without an answer"),
        ("subagent <task-done>$ID</task-done>", "silent", "failed", "without"),
        ("run echo '<task-done>$ID</task-done>' | say hm", "silent", "failed", "without a verdict"),
        ("no-result", "crashed", "pending", "the session ended without a result"),
        ("say <task-done>$ID</task-done> | no-result", "failed", "failed", "without a result"),
        ("done | result-error error_max_turns max_turns", "failed", "failed", "limit on turns"),
        ("done | linger", "done", "done", ""),
        ("done | no-result | close-stdout | hang", "done", "done", ""),
        ("done | say and more | run true | say bye", "silent", "failed", "before its last message"),
        (
            "say I will say <task-done>$ID</task-done> | run true | say I can't",
            "silent",
            "failed",
            "done before its last message and not in it; its last message:\nI can't",
        ),
        ("fail no | run true | say bye", "silent", "failed", "failed before its last message"),
        (
            "block red? | run true | say bye",
            "silent",
            "failed",
            "blocked (\"red?\") before its last",
        ),
        (
            "say I'll start | run true | fail PAY_KEY is missing",
            "failed",
            "failed",
            "PAY_KEY is missing",
        ),
        (
            "run true | say It needs PAY_KEY.",
            "silent",
            "failed",
            "its last message:\nIt needs PAY_KEY.",
        ),
        (
            "raw {\"type\":\"result\",\"result\":\"<task-done>$ID</task-done>\"} | no-result",
            "done",
            "done",
            "",
        ),
        (
            "raw {\"type\":\"result\",\"is_error\":true,\"result\":\"<task-done>$ID</task-done>\"} | no-result",
            "crashed",
            "pending",
            "<task-done>",
        ),
        ("done | exit 3", "failed", "failed", "without a result (exit code 3)"),
        ("done | kill SIGSEGV", "failed", "failed", "without a result (signal 11)"),
    ];
    for (script, outcome, after, reason) in cases {
        let project = Project::new();
        project.write(".ralph.toml", "max_retries = 0\n[agent]\nexit_grace_secs = 1\n");
        let task = project.add(["Do it"]);
        let script = script.replace("$ID", &task);
        let output = run(&project, &[&script], &["--no-verify", "--once"]);
        let history = history(&project, &task);
        assert_eq!(history.len(), 1, "{script}: {output:?}");
        assert_eq!(history[0].0, outcome, "{script}: {history:?}");
        assert!(history[0].1.contains(reason), "{script}: {history:?}");
        assert_eq!(status(&project, &task), after, "{script}");
        let foreign = script.contains("t-zzzzzz") && outcome == "silent";
        let said =
            output.stderr().contains("ignored `<task-done>t-zzzzzz`: not this session's task");
        assert_eq!(said, foreign, "{script}: {output:?}");
    }
}

#[test]
fn a_group_without_children_is_named_as_what_holds_up_the_rest() {
    let project = Project::new();
    let group = project.add(["Later", "--group"]);
    project.add(["Ship it", "--after", &group]);
    let output = run(&project, &["done"], &[]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = format!("what is left waits for {group}\nNext: ralph task show {group}\n");
    assert!(output.stdout().ends_with(&said), "{output:?}");
}

#[test]
fn an_answer_and_the_notes_of_earlier_attempts_reach_the_next_agent() {
    let (project, task) = one_task();
    let first = format!("run ralph task log {task} -m 'the fence is blue' | block red or blue?");
    run(&project, &[&first], &["--no-verify"]);
    project.ralph(["task", "log", &task, "-m", "blue, as the fence"]).ok();
    project.ralph(["task", "reset", &task]).ok();
    let told = project.base().join("told");
    let second = format!("save-stdin {} | done", told.display());
    run(&project, &[&second], &["--no-verify"]).ok();
    let told = std::fs::read_to_string(told).unwrap();
    let (_, told) = told.split_once("# Questions and notes").expect(&told);
    insta::assert_snapshot!(told.trim(), @r"
    What a person says here is binding; what an agent says is not.

    Attempt 1 noted:

    > the fence is blue

    Attempt 1 asked:

    > red or blue?

    A person noted:

    > blue, as the fence
    ");
}

#[test]
fn inside_a_session_ralph_task_done_only_asks() {
    let cases = [
        ("run ralph task done $ID | say thanks", "done", "done", ""),
        ("run ralph task fail $ID -r 'no key' | say oh", "failed", "failed", "no key"),
        ("run ralph task block $ID -r 'red?' | say oh", "blocked", "blocked", "red?"),
        ("run ralph task done $ID | fail no", "silent", "failed", "both that it is done"),
        ("run ralph task done $ID | exit 1", "failed", "failed", "without a result"),
    ];
    for (script, outcome, after, reason) in cases {
        let project = Project::new();
        project.write(".ralph.toml", "max_retries = 0\n");
        let task = project.add(["Do it"]);
        run(&project, &[&script.replace("$ID", &task)], &["--no-verify", "--once"]);
        let history = history(&project, &task);
        assert_eq!(history[0].0, outcome, "{script}: {history:?}");
        assert!(history[0].1.contains(reason), "{script}: {history:?}");
        assert_eq!(status(&project, &task), after, "{script}");
    }
}

#[test]
fn a_session_decides_about_no_other_task_but_may_add_and_note() {
    let (project, task) = one_task();
    let other = project.add(["Other", "--priority", "9"]);
    let said = project.base().join("said");
    let script = format!(
        "run for verb in done 'fail -r x' 'block -r x' reset; do ralph task $verb {other}; done 2>{said}; \
         ralph task reset {task} 2>>{said}; new=$(ralph task add Extra -d found --after {other}); \
         ralph task log {task} -m 'a note' | done",
        said = said.display(),
        other = other,
        task = task
    );
    let output = run(&project, &[&script, "say bye"], &["--no-verify", "--once"]);
    assert_code(&output, 3);
    let said = project.masked(&fs::read_to_string(said).unwrap());
    assert_eq!(said.matches("this session is about `").count(), 3, "{said}");
    assert_eq!(said.matches("an agent can't reset").count(), 2, "{said}");
    assert_eq!(status(&project, &other), "pending");
    assert_eq!(status(&project, &task), "done");
    let all = project.ralph(["task", "list", "--json"]).json();
    assert_eq!(all[2]["title"], "Extra");
    let attempt = project.show(&task)["history"][0]["id"].clone();
    assert_eq!(all[2]["created_by"], attempt);
    let notes = project.show(&task)["log"].to_string();
    assert!(notes.contains("a note"), "{notes}");
}

#[test]
fn what_an_agent_adds_is_worked_on_in_the_same_run() {
    let (project, _) = one_task();
    let add = "run ralph task add Extra -d x | done";
    let output = run(&project, &[add, "done"], &["--no-verify"]);
    assert_code(&output, 0);
    let all = project.ralph(["task", "list", "--json"]).json();
    assert!(all.as_array().unwrap().iter().all(|task| task["status"] == "done"), "{all}");
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[test]
fn an_agent_that_splits_its_task_makes_it_a_group() {
    let (project, task) = one_task();
    let split = format!("run ralph task add Part --parent {task} | done");
    let output = run(&project, &[&split, "done"], &["--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(project.show(&task)["kind"], "group");
    assert_eq!(status(&project, &task), "done");
}

#[test]
fn complete_is_believed_only_when_it_is_true() {
    let (project, _) = one_task();
    project.add(["Another"]);
    let complete = "done | say <promise>COMPLETE</promise>";
    let output = run(&project, &[complete, complete], &["--no-verify"]);
    assert_code(&output, 0);
    let said = "warning: the agent said COMPLETE, but 1 tasks are not done; going on";
    assert_eq!(output.stderr().matches(said).count(), 1, "{output:?}");
}

#[test]
fn failure_releases_the_task_and_stops_the_run() {
    let (project, task) = one_task();
    let output = run(&project, &["say <promise>FAILURE</promise>"], &[]);
    assert_code(&output, 1);
    assert_eq!(status(&project, &task), "pending");
    assert_eq!(project.show(&task)["retries"], 0);
    assert!(output.stdout().contains("the agent said that the run must stop"), "{output:?}");
    let output = run(&project, &["fail broken | say <promise>FAILURE</promise>"], &[]);
    assert_code(&output, 1);
    assert_eq!(project.show(&task)["retries"], 1);
}

// Verification.

#[test]
fn commands_come_first_and_their_last_lines_are_told_to_the_next_attempt() {
    let (project, task) = one_task();
    project.write(
        ".ralph.toml",
        "[verify]\ncommands = [\"true\", \"echo line one; echo the end >&2; test -e ok\", \"false\"]\n",
    );
    let stdin = project.base().join("stdin");
    let retry = format!("save-stdin {} | touch ok | done", stdin.display());
    let arguments = ["--max-retries", "1", "--no-baseline"];
    let output = run(&project, &["done", &retry, "touch ok | done"], &arguments);
    assert_code(&output, 1);
    let history = history(&project, &task);
    assert!(history[0].1.contains("ended with code 1:\nline one\nthe end"), "{history:?}");
    assert!(history[1].1.starts_with("`false` ended with code 1"), "{history:?}");
    let told = fs::read_to_string(stdin).unwrap();
    assert!(told.contains("this is attempt 2 of 2"), "{told}");
    assert!(told.contains("> line one\n> the end"), "{told}");
    assert_eq!(project.show(&task)["history"][0]["verification_status"], "failed");
}

#[test]
fn a_command_that_hangs_or_leaves_something_behind_is_ended() {
    let (project, task) = one_task();
    project.write(
        ".ralph.toml",
        "max_retries = 0\n[verify]\ncommands = [\"echo begun; setsid sleep 600 & sleep 600\"]\ntimeout_secs = 1\n",
    );
    let output = run(&project, &["done"], &["--no-baseline"]);
    assert_code(&output, 1);
    let history = history(&project, &task);
    assert!(history[0].1.contains("took longer than 1 s:\nbegun"), "{history:?}");
}

#[test]
fn a_verifier_decides_and_its_log_is_kept() {
    let (project, task) = one_task();
    let expect = "expect-arg --tools Bash,Read,Glob,Grep | say <verify-fail>no test</verify-fail>";
    let output = run(&project, &["done", expect, "done", PASS], &[]);
    assert_code(&output, 0);
    let history = history(&project, &task);
    assert_eq!(history[0], ("failed".into(), "the verification failed: no test".into()));
    assert_eq!(history[1].0, "done");
    let attempts = project.show(&task)["history"].clone();
    assert_eq!(attempts[1]["verification_status"], "passed");
    for attempt in attempts.as_array().unwrap() {
        for log in ["log_path", "verify_log_path"] {
            let path = attempt[log].as_str().unwrap();
            assert!(fs::read_to_string(path).unwrap().contains("\"type\""), "{path}");
        }
    }
    let cost = attempts[0]["cost_usd"].as_f64().unwrap();
    assert!((cost - 0.02).abs() < 1e-9, "both sessions cost: {cost}");
}

#[test]
fn a_verifier_that_says_nothing_or_both_or_changes_something_is_no_pass() {
    for (verifier, reason) in [
        ("say fine", "the verifier did not say whether the work is done, also when asked again"),
        ("say fine", "\nread its answer with `ralph logs a-"),
        ("say <verify-pass/> <verify-fail>x</verify-fail>", "said both"),
        ("run date +%N >> new.txt | say <verify-pass/>", "the working tree changed whenever"),
        ("run git commit -q --allow-empty -m x | say <verify-pass/>", "the working tree changed"),
        ("exit 1", "ended without a word from the model: exit code 1"),
    ] {
        let (project, task) = one_task();
        project.git_init();
        let output = run(&project, &["done", verifier], &["--max-retries", "0"]);
        assert_code(&output, 1);
        let history = history(&project, &task);
        assert!(history[0].1.contains(reason), "{verifier}: {history:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_ralph_prints_into_the_working_tree_changes_nothing_for_a_verifier() {
    for redirection in ["> run.log", "2> run.log", "| tee run.log", "2>&1 | tee -a run.log | cat"] {
        let (project, task) = one_task();
        project.git_init();
        let script = format!("\"$@\" {redirection}");
        let ralph = project.ralph_playing(&["done", PASS], ["run", "--max-retries", "0"]);
        let mut command = project.command("sh");
        command.args(["-c", &script, "sh"]).arg(ralph.get_program()).args(ralph.get_args());
        command.envs(ralph.get_envs().filter_map(|(name, value)| Some((name, value?))));
        project.run(command, None).ok();
        assert_eq!(status(&project, &task), "done", "{redirection}");
        assert!(!project.git(["status", "--porcelain", "run.log"]).is_empty(), "{redirection}");
    }
}

#[test]
fn what_is_said_to_be_done_and_not_done_needs_a_verification() {
    let (project, task) = one_task();
    let output = run(&project, &["done | fail hm", PASS], &[]);
    assert_code(&output, 0);
    assert_eq!(status(&project, &task), "done");
    let (project, task) = one_task();
    project.write(".ralph.toml", "[verify]\ncommands = [\"true\"]\n");
    let output = run(&project, &["done | fail hm"], &["--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(project.show(&task)["history"][0]["verification_status"], "passed");
}

// Retries, limits and exit codes.

#[test]
fn n_retries_are_n_plus_one_attempts() {
    for (flags, attempts) in
        [(&["--max-retries", "0"][..], 1), (&["--max-retries", "2"], 3), (&[], 4)]
    {
        let (project, task) = one_task();
        let output = run(&project, &["fail no"], flags);
        assert_code(&output, 1);
        assert_eq!(history(&project, &task).len(), attempts);
    }
    let project = Project::new();
    let own = project.add(["Own", "--max-retries", "1"]);
    run(&project, &["fail no"], &["--max-retries", "5"]);
    assert_eq!(history(&project, &own).len(), 2);
}

#[test]
fn three_sessions_that_said_nothing_are_enough() {
    let (project, task) = one_task();
    let output = run(&project, &["say hm", "fail no", "say hm"], &["--max-retries", "50"]);
    assert_code(&output, 1);
    let outcomes: Vec<String> = history(&project, &task).into_iter().map(|it| it.0).collect();
    assert_eq!(outcomes, ["silent", "failed", "silent", "silent", "silent"]);
}

#[test]
fn once_is_one_iteration_and_limit_three_is_three() {
    for (flags, count, code) in [
        (&["--once"][..], 1, 3),
        (&["--limit", "3"], 3, 3),
        (&["--max-iterations", "2"], 2, 3),
        (&["--limit", "5"], 5, 0),
        (&[], 5, 0),
    ] {
        let project = Project::new();
        project.add_lines("{\"title\": \"T\"}\n".repeat(5));
        let output = run(&project, &["done"], &[&["--no-verify"], flags].concat());
        assert_code(&output, code);
        let done = project.ralph(["status", "--json"]).json()["done"].clone();
        assert_eq!(done, count, "{flags:?}");
        assert_eq!(output.stdout().contains("the limit on iterations was reached"), code == 3);
    }
}

#[test]
fn cost_is_a_limit_and_the_session_knows_what_is_left() {
    let project = Project::new();
    project.add_lines("{\"title\": \"T\"}\n".repeat(9));
    let first = "expect-arg --max-budget-usd 1.0000 | cost 0.6 | done";
    let second = "expect-arg --max-budget-usd 0.4000 | cost 0.6 | done";
    let output = run(&project, &[first, second, "done"], &["--no-verify", "--max-cost", "1"]);
    assert_code(&output, 3);
    assert!(output.stdout().contains("the limit on cost was reached"), "{output:?}");
    assert_eq!(project.ralph(["status", "--json"]).json()["done"], 2);
    let broke = "result-error error_max_budget_usd budget_exhausted";
    let output = run(&project, &[broke], &["--no-verify", "--max-cost", "1"]);
    assert_code(&output, 3);
    let task =
        project.ralph(["task", "list", "--json"]).json()[2]["id"].as_str().unwrap().to_owned();
    assert_eq!(history(&project, &task)[0].0, "limited");
    assert_eq!(project.show(&task)["retries"], 0);
}

#[test]
fn time_is_a_limit_for_the_running_session_too() {
    let (project, task) = one_task();
    let output = run(&project, &["orphan | hang"], &["--max-time", "1s"]);
    assert_code(&output, 3);
    assert!(output.stdout().contains("the limit on time was reached"), "{output:?}");
    assert_eq!(history(&project, &task)[0].0, "limited");
    assert_eq!(status(&project, &task), "pending");
}

#[test]
fn a_run_that_is_stuck_says_behind_what() {
    let project = Project::new();
    let first = project.add(["First"]);
    let second = project.add(["Second", "--after", &first]);
    project.add(["Third", "--after", &second]);
    let output = run(&project, &["fail no"], &["--max-retries", "0"]);
    assert_code(&output, 4);
    let said =
        format!("nothing can go on: what is left waits for {first}\nNext: ralph task show {first}");
    assert!(output.stdout().contains(&said), "{output:?}");
}

#[test]
fn a_question_leaves_the_rest_to_go_on_and_the_run_stuck() {
    let project = Project::new();
    let first = project.add(["First"]);
    project.add(["Second"]);
    let output = run(&project, &["block red?", "done"], &["--no-verify"]);
    assert_code(&output, 4);
    assert!(output.stdout().contains(&format!("waits for {first}")), "{output:?}");
    assert_eq!(project.show(&first)["reason"], "red?");
    assert_eq!(project.ralph(["status", "--json"]).json()["done"], 1);
}

#[test]
fn no_tasks_are_nothing_to_do() {
    let project = Project::new();
    let output = run(&project, &["done"], &[]);
    assert_code(&output, 4);
    assert!(output.stdout().contains("there are no tasks"), "{output:?}");
    let output = project.ralph(["run", "nonsense"]);
    assert!(output.fails(1).contains("there is no feature `nonsense`"));
    let output = project.ralph(["run", "t-zzz"]);
    assert!(output.fails(1).contains("there is no task `t-zzz`"));
}

#[test]
fn a_target_is_worked_on_and_nothing_else() {
    let project = Project::new();
    project.feature("login");
    let feature = project.add(["In the feature", "--feature", "login"]);
    let group = project.add(["Group", "--group"]);
    let inner = project.add(["Inside", "--parent", &group]);
    let other = project.add(["Other", "--priority", "-5"]);
    let output = run(&project, &["done"], &["login", "--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(status(&project, &feature), "done");
    let output = run(&project, &["done"], &[&group, "--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(status(&project, &inner), "done");
    assert_eq!(status(&project, &other), "pending");
}

#[test]
fn a_target_that_waits_for_something_outside_is_stuck_behind_it() {
    let project = Project::new();
    let outside = project.add(["Outside"]);
    let inside = project.add(["Inside", "--after", &outside]);
    let output = run(&project, &["done"], &[&inside]);
    assert_code(&output, 4);
    assert!(output.stdout().contains(&format!("waits for {outside}")), "{output:?}");
}

#[test]
fn the_status_of_a_feature_follows() {
    let project = Project::new();
    project.write_feature("login", "# Spec", "# Plan");
    let add = "run root=$(ralph task list --json \\| grep -o 't-......' \\| head -1); \
         ralph task add A -d x --parent $root; ralph task add B -d x --parent $root";
    project.run(project.ralph_with(add, ["feature", "build", "login"]), None).ok();
    let status = || project.ralph(["feature", "show", "login", "--json"]).json()["status"].clone();
    assert_eq!(status(), "ready");
    run(&project, &["done"], &["--no-verify", "--once"]);
    assert_eq!(status(), "ready");
    let look = "run env -u RALPH_SOCKET ralph feature show login --json > status.json | fail no";
    run(&project, &[look], &["--max-retries", "0"]);
    let during = fs::read_to_string(project.root().join("status.json")).unwrap();
    assert!(during.contains("running"), "{during}");
    assert_eq!(status(), "failed");
    run(&project, &["done"], &["--no-verify", "--yes"]);
    assert_eq!(status(), "done");
}

#[test]
fn what_failed_before_is_asked_about_reset_or_refused() {
    let (project, task) = one_task();
    project.ralph(["task", "fail", &task, "-r", "no"]).ok();
    let refused = project.ralph(["run"]).fails(2);
    insta::assert_snapshot!(refused, @r"
    error: there is no terminal to ask on: 1 task failed in an earlier run. Reset and try again?
    hint: repeat it with --yes
    ");
    let refused = project.ralph(["run", "--headless", "--no-auto-reset"]).fails(2);
    insta::assert_snapshot!(refused, @r"
    error: 1 task failed in an earlier run
    hint: `ralph task reset ID` puts one back, --yes all of them
    ");
    assert_eq!(status(&project, &task), "failed");
    let output = run(&project, &["done"], &["--headless", "--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(output.said(), format!("reset {task}\n"));
}

#[test]
fn the_command_that_goes_on_with_a_run_has_its_target_and_its_limits() {
    let project = Project::new();
    let group = project.add(["All of it", "--group"]);
    for _ in 0..2 {
        project.add(["Part", "--parent", &group]);
    }
    let flags =
        [&group, "--limit", "1", "--max-cost", "2.5", "--no-verify", "--agent", FAKE_CLAUDE];
    let output = run(&project, &["done"], &flags);
    assert_code(&output, 3);
    let next = format!("Next: ralph run {}", flags.join(" "));
    assert!(output.stdout().contains(&next), "{}", output.stdout());
}

#[test]
fn the_status_says_how_the_last_run_ended_and_why() {
    let (project, _) = one_task();
    let status = || project.ralph(["status"]).ok();
    assert!(!status().contains("last run"), "{}", status());
    let check = |scripts: &[&str], flags: &[&str], outcome: &str, why: &str| {
        run(&project, scripts, flags);
        let shown = status();
        assert!(shown.contains(&format!("the last run ended just now: {why}")), "{shown}");
        let json = project.ralph(["status", "--json"]).json();
        assert_eq!(json["last_run"]["outcome"], outcome, "{json}");
        assert!(json["last_run"]["message"].as_str().unwrap().starts_with(why), "{json}");
    };
    project.write(".ralph.toml", "[verify]\ncommands = [\"false\"]\n");
    check(&["done"], &[], "baseline", "`false` ended with code 1 before any work was done");
    project.write(".ralph.toml", "");
    let retry = ["--no-verify", "--once"];
    check(&["fail not yet"], &retry, "limit", "the limit on iterations was reached");
    check(&["done"], &["--no-verify"], "done", "everything is done");
}

#[test]
fn a_run_that_is_asked_to_end_does_so_after_its_session() {
    let project = Project::new();
    project.add_lines("{\"title\": \"T\"}\n".repeat(3));
    fs::create_dir(project.root().join("a")).unwrap();
    // One of an earlier run does not count.
    project.write("a/.ralph-done", "");
    let output = run(&project, &["done", "touch a/.ralph-done | done"], &["--no-verify"]);
    assert_code(&output, 130);
    let shown = output.stdout();
    assert!(shown.contains("stopped on request: `a/.ralph-done` was made"), "{shown}");
    assert!(shown.contains("Next: ralph run"), "{shown}");
    assert_eq!(project.ralph(["status", "--json"]).json()["done"], 2);
    assert!(!project.root().join("a/.ralph-done").exists());

    let output = run(&project, &["touch .ralph-done | done"], &["--no-verify"]);
    assert_code(&output, 0);
    assert!(!project.root().join(".ralph-done").exists());
}

#[test]
fn work_has_the_servers_of_the_project_that_the_person_has_approved() {
    let (project, task) = one_task();
    project.write(
        ".mcp.json",
        r#"{"mcpServers": {"db": {"command": "db"}, "other": {"command": "x"}}}"#,
    );
    let dry = || project.ralph(["run", "--dry-run", "--agent", "true"]).ok();
    assert!(dry().contains("\nmcp      none\n"), "{}", dry());
    fs::create_dir(project.root().join(".claude")).unwrap();
    project.write(".claude/settings.local.json", r#"{"enabledMcpjsonServers": ["db"]}"#);
    assert!(dry().contains("\nmcp      db\n"), "{}", dry());
    assert!(dry().contains("--mcp-config SCRATCH/mcp.json --strict-mcp-config"), "{}", dry());

    // What an agent approves changes nothing for the sessions after it, and a verifier has none.
    let (seen, saved) = (project.base().join("seen"), project.base().join("args"));
    let script = format!(
        "for word in $(cat {0}); do case $word in */mcp.json) cat $word;; esac; done >> {1}; echo >> {1}\n\
         echo '{{\"enableAllProjectMcpServers\": true}}' > .claude/settings.local.json\n",
        saved.display(),
        seen.display()
    );
    let look = project.base().join("look.sh");
    fs::write(&look, script).unwrap();
    let look = format!("save-args {} | run sh {}", saved.display(), look.display());
    let (worker, verifier) =
        (format!("{look} | done"), format!("{look} | say <verify-fail>no</verify-fail>"));
    let output = run(&project, &[&worker, &verifier, &worker, PASS], &[]);
    assert_code(&output, 0);
    assert_eq!(status(&project, &task), "done");
    let db = r#"{"mcpServers":{"db":{"command":"db"}}}"#;
    assert_eq!(fs::read_to_string(seen).unwrap(), format!("{db}\n\n{db}\n"));
    let mut command = project.ralph_command(["run", "--dry-run"]);
    command.env("RALPH_AGENT_MCP", "nope.json");
    let said = finish(&project, command).fails(1);
    assert!(said.contains("can't read `agent.mcp`"), "{said}");
}

// Models, skills and what an agent is told.

#[test]
fn a_locked_model_ignores_hints_and_says_so_once() {
    let project = Project::new();
    project.add_lines("{\"title\": \"T\"}\n".repeat(3));
    let hint = "done | say <next-model>opus</next-model>";
    let output = run(&project, &[hint], &["--no-verify", "--model-lock"]);
    assert_code(&output, 0);
    let said = format!("{}{}", output.stdout(), output.stderr());
    assert_eq!(said.matches("such hints are ignored").count(), 1, "{said}");
    assert!(!said.contains("as the last session asked"), "{said}");
}

#[test]
fn flags_and_variables_of_other_ralphs_are_understood() {
    let five = || {
        let project = Project::new();
        project.add_lines("{\"title\": \"T\"}\n".repeat(5));
        project
    };
    let project = five();
    assert_code(&run(&project, &["done"], &["--no-verify", "-o"]), 3);
    assert_code(&run(&project, &["done"], &["--no-verify", "--max-iterations", "1"]), 3);
    let others = ["--no-verify", "--model-strategy", "escalate", "--no-learn", "--limit", "0"];
    assert_code(&run(&project, &["expect-arg --model haiku | done"], &others), 0);
    assert_eq!(
        project.ralph(["task", "list", "--all", "--json"]).json().as_array().unwrap().len(),
        5
    );

    let project = five();
    let mut command =
        project.ralph_playing(&["expect-arg --model my-model | done"], ["run", "--no-verify"]);
    command.env("RALPH_LIMIT", "2").env("RALPH_MODEL", "my-model");
    assert_code(&finish(&project, command), 3);
    let mut command =
        project.ralph_playing(&["expect-arg --model haiku | done"], ["run", "--no-verify"]);
    command.env("RALPH_MODEL_STRATEGY", "escalate");
    assert_code(&finish(&project, command), 0);
    assert!(project.ralph(["run", "--help"]).ok().contains("--max-iterations"));
}

#[test]
fn models_follow_the_strategy_and_the_hint() {
    let models = |project: &Project| -> Vec<String> {
        let attempts = project.ralph(["logs", "--json"]).json();
        let model = |it: &Value| it["model"].as_str().unwrap().to_owned();
        attempts.as_array().unwrap().iter().rev().map(model).collect()
    };
    let five = || {
        let project = Project::new();
        project.add_lines("{\"title\": \"T\"}\n".repeat(5));
        project
    };
    let hint = "done | say <next-model>opus</next-model>";
    for (flags, scripts, expected) in [
        (&[][..], &["done"][..], &["sonnet", "sonnet", "sonnet", "haiku", "haiku"][..]),
        (&[], &["fail x", "done"], &["sonnet", "opus", "sonnet", "sonnet", "haiku", "haiku"]),
        (&[], &[hint, "done"], &["sonnet", "opus", "sonnet", "haiku", "haiku"]),
        (
            &["--model", "my-model"],
            &[hint, "done"],
            &["my-model", "opus", "my-model", "my-model", "my-model"],
        ),
        (&["--model", "my-model", "--model-lock"], &[hint], &["my-model"; 5]),
        (
            &["--strategy", "escalate"],
            &["done", "fail x", "done", "fail x", "done"],
            &["haiku", "haiku", "sonnet", "sonnet", "opus", "opus", "opus"],
        ),
        (
            &["--strategy", "plan-then-execute"],
            &["done"],
            &["opus", "sonnet", "sonnet", "sonnet", "sonnet"],
        ),
    ] {
        let project = five();
        let output = run(&project, scripts, &[&["--no-verify"], flags].concat());
        assert_code(&output, 0);
        assert_eq!(models(&project), expected, "{flags:?} {scripts:?}");
    }
    let project = five();
    run(&project, &[hint, "done"], &["--no-verify", "--limit", "2"]);
    let log =
        project.ralph(["task", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let log = project.ralph(["task", "log", &log]).ok();
    assert!(log.contains("asked for the model `opus` next"), "{log}");
    let refused = project.ralph(["run", "--strategy", "fixed"]).fails(1);
    assert!(refused.contains("the strategy `fixed` needs a model"), "{refused}");
}

#[test]
fn an_agent_is_told_everything_it_needs() {
    let project = Project::new();
    project.git_init();
    project.write_feature("login", "# Spec R1", "# Plan P1");
    let feature = project.ralph(["feature", "list", "--json"]).json();
    assert_eq!(feature.as_array().unwrap().len(), 0);
    let build = "run root=$(ralph task list --json \\| grep -o 't-......' \\| head -1); \
         a=$(ralph task add Before -d 'The first' --parent $root); \
         ralph task add After -d 'The second' --parent $root --after $a";
    project.run(project.ralph_with(build, ["feature", "build", "login"]), None).ok();
    fs::create_dir_all(project.root().join(".ralph/skills/test")).unwrap();
    project.write(".ralph/skills/test/SKILL.md", "---\ndescription: How to test\n---\n");
    let (system, stdin) = (project.base().join("system"), project.base().join("stdin"));
    let note = "run ralph task log $RALPH_TASK_ID -m 'the table is called users' | done";
    let fail = "write half.txt half | fail It was Tuesday.";
    let look = format!("save-system {} | save-stdin {} | done", system.display(), stdin.display());
    let output = run(&project, &[note, fail, &look], &["--no-verify", "--learn"]);
    assert_code(&output, 0);
    let told = fs::read_to_string(stdin).unwrap();
    for part in [
        "# Your task in this session: After",
        "The second",
        "## login (`t-",
        "## Before (`t-",
        "> the table is called users",
        "this is attempt 2 of 4",
        "> It was Tuesday.",
        "refs/ralph/salvage/a-",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let system = fs::read_to_string(system).unwrap();
    for part in [
        "<task-done>ID",
        "## What to keep",
        "# Spec R1",
        "# Plan P1",
        ".ralph/skills/test/SKILL.md`: How to test",
    ] {
        assert!(system.contains(part), "{part}: {system}");
    }
    assert!(!system.contains("{{") && !system.contains("`t-"), "{system}");
}

#[test]
fn the_environment_of_a_session_is_this_run() {
    let (project, task) = one_task();
    let script = format!(
        "expect-env RALPH_TASK_ID {task} | expect-env RALPH_ITERATION 1 | expect-env RALPH_MODEL sonnet \
         | expect-no-env RALPH_DB | expect-no-env CLAUDECODE | expect-arg --no-session-persistence \
         | expect-arg --allowed-tools Bash | expect-arg --model sonnet | run test -S $RALPH_SOCKET | done"
    );
    let mut command = project.ralph_playing(&[&script], ["run", "--no-verify"]);
    command.env("RALPH_DB", project.database());
    assert_code(&finish(&project, command), 0);
}

#[test]
fn a_huge_context_arrives_and_is_cut_where_it_must() {
    let project = Project::new();
    let story = project.base().join("story");
    fs::write(&story, "größe ".repeat(40_000)).unwrap();
    let task = project.add(["Long", "-d", &format!("@{}", story.display())]);
    let stdin = project.base().join("stdin");
    let output = run(
        &project,
        &[&format!("save-stdin {} | done", stdin.display())],
        &["--no-verify", &task],
    );
    assert_code(&output, 0);
    assert_eq!(fs::read_to_string(&stdin).unwrap().matches("größe").count(), 40_000);
    fs::write(&story, "大きさ".repeat(65_334)).unwrap();
    let task = project.add(["Longer", "-d", &format!("@{}", story.display())]);
    let script = format!("save-stdin {} | done", stdin.display());
    assert_code(&run(&project, &[&script], &["--no-verify", &task]), 0);
    let told = fs::read_to_string(&stdin).unwrap();
    assert!(told.chars().count() < 120_000, "{}", told.chars().count());
    assert!(told.contains(&format!("characters; `ralph task show {task}` prints the rest]")));
}

#[test]
fn a_dry_run_shows_everything_and_changes_nothing() {
    let (project, _) = one_task();
    let before = project.export();
    let files = || {
        let mut names: Vec<_> = fs::read_dir(project.root().join(".ralph"))
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let files_before = files();
    let shown = project.masked(&project.ralph(["run", "--dry-run", "--model", "opus"]).ok());
    assert!(shown.starts_with("task     [A]  Do it\nmodel    opus\nmcp      none\ncommand  claude --append-system-prompt-file SCRATCH/system.md --model opus --print"), "{shown}");
    assert!(shown.contains("< SCRATCH/prompt.md"), "{shown}");
    assert!(shown.contains("# Your task in this session: Do it\n\nId: `[A]`"), "{shown}");
    assert!(shown.contains("<task-done>ID</task-done>"), "{shown}");
    assert_eq!(project.export(), before);
    assert_eq!(files(), files_before);
    assert!(project.temporary_files().is_empty());
    project
        .ralph([
            "task",
            "done",
            project.ralph(["task", "next", "--json"]).json()["id"].as_str().unwrap(),
        ])
        .ok();
    assert_eq!(project.ralph(["run", "--dry-run"]).status.code(), Some(4));
}

// The repository.

#[test]
fn new_commits_are_pushed_and_a_failed_push_is_a_warning() {
    let (project, _) = one_task();
    project.add(["Another"]);
    project.git_init();
    let remote = project.base().join("remote.git");
    project.git(["init", "-q", "--bare", remote.to_str().unwrap()]);
    project.git(["remote", "add", "origin", remote.to_str().unwrap()]);
    project.git(["push", "-q", "-u", "origin", "main"]);
    let commit = "run git commit -q --allow-empty -m work | done";
    let output = run(&project, &[commit], &["--no-verify", "--auto-push", "--once"]);
    assert!(output.stdout().contains("1 commit, 0 files changed, +0 −0, pushed"), "{output:?}");
    let heads = |place: &str| project.git(["-C", place, "rev-parse", "main"]);
    assert_eq!(heads(remote.to_str().unwrap()), heads("."));
    fs::remove_dir_all(&remote).unwrap();
    let output = run(&project, &[commit], &["--no-verify", "--auto-push"]);
    assert_code(&output, 0);
    assert!(output.stderr().contains("warning: `git push` ended with code"), "{output:?}");
}

#[test]
fn what_a_failed_attempt_left_is_kept_and_the_tree_is_as_before() {
    let (project, task) = one_task();
    project.git_init();
    let output = run(&project, &["write half.txt half work | fail no"], &["--max-retries", "0"]);
    assert_code(&output, 1);
    let attempt = project.show(&task)["history"][0]["id"].as_str().unwrap().to_owned();
    let kept = project.git(["show", &format!("refs/ralph/salvage/{attempt}:half.txt")]);
    assert_eq!(kept, "half work");
    assert!(!project.root().join("half.txt").exists());
    assert_eq!(project.git(["log", "--oneline"]).lines().count(), 1);
}

#[test]
fn without_a_repository_everything_else_works() {
    let (project, task) = one_task();
    let output = run(&project, &["write half.txt x | fail no", "done"], &["--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(status(&project, &task), "done");
}

// What can go wrong around it.

#[test]
fn an_agent_that_is_not_there_is_said_and_takes_no_task() {
    let (project, task) = one_task();
    let mut command = project.ralph_command(["run"]);
    command.env("RALPH_AGENT_COMMAND", "no-such-claude");
    let said = finish(&project, command).fails(1);
    assert!(said.contains("the agent `no-such-claude` was not found"), "{said}");
    assert!(said.contains("hint: install Claude Code"), "{said}");
    assert_eq!(status(&project, &task), "pending");
    assert_eq!(history(&project, &task), []);
}

#[test]
fn a_log_directory_that_can_not_be_had_is_said_and_releases_the_task() {
    let (project, task) = one_task();
    project.write("file", "");
    project.write(".ralph.toml", "log_dir = \"file/logs\"\n");
    let said = finish(&project, project.ralph_with("done", ["run"])).fails(1);
    assert!(said.contains("can't write the log"), "{said}");
    assert_eq!(status(&project, &task), "pending");
}

#[test]
fn a_person_who_decides_in_between_is_right() {
    let (project, task) = one_task();
    project.add(["Another"]);
    // The environment of the session is taken away, so that this is a person.
    let overrule = format!("run env -u RALPH_SOCKET ralph task fail {task} -r 'I said no' | done");
    let output = run(&project, &[&overrule, "done"], &["--no-verify"]);
    assert!(output.stderr().contains("a person decided"), "{output:?}");
    assert_eq!(status(&project, &task), "failed");
    assert_code(&output, 1);
    assert_eq!(history(&project, &task)[0].0, "overruled");
}

#[test]
fn a_notification_is_sent_by_the_users_command_and_its_failure_is_none() {
    let (project, _) = one_task();
    let told = project.base().join("told");
    let line = format!("echo \\\"$RALPH_EVENT: $RALPH_MESSAGE\\\" >> {}; false", told.display());
    project.write(".ralph.toml", format!("[notify]\ncommand = \"{line}\"\n"));
    let output = run(&project, &["block red or blue?"], &[]);
    assert_code(&output, 4);
    let told = project.masked(&fs::read_to_string(&told).unwrap());
    insta::assert_snapshot!(told, @r"
    blocked: [A] asks: red or blue?
    stuck: nothing can go on: what is left waits for [A]
    ");
}
