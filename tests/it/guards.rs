//! What keeps a run from spending money for nothing.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use insta::{allow_duplicates, assert_snapshot};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{
    DEADLINE, Output, Project, assert_no_process_left, check_rules, wait_until, working_sandboxes,
};
use crate::terminal::Terminal;

/// Runs `ralph run` with these scripts, and asserts that nothing is left.
fn run(project: &Project, scripts: &[&str], arguments: &[&str]) -> Output {
    let command = project.ralph_playing(scripts, ["run"].iter().chain(arguments));
    let output = project.run(command, None);
    project.assert_nothing_left();
    check_rules(project);
    output
}

/// The lines of `--format jsonl`.
fn events(output: &Output) -> Vec<Value> {
    output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[test]
fn what_a_check_prints_is_not_taken_for_words_of_the_agent() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let text = r#"{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"PRINTED"}]}}"#;
    let result = r#"{"type":"result","subtype":"success","result":"x","total_cost_usd":7.5}"#;
    project.write("stream", format!("{text}\n{result}\n"));
    // An agent that stays after its result is ended after five seconds; a check is not.
    project.write(".ralph.toml", "[verify]\ncommands = [\"cat stream; sleep 6\"]\n");
    let output = run(&project, &["cost 0.25 | done"], &["--no-verify", "--format", "jsonl"]);
    assert_code(&output, 0);
    let events = events(&output);
    let said = |event: &&Value| event["type"] == "text" && event["text"] == "PRINTED";
    assert_eq!(events.iter().find(said), None);
    assert_eq!(events.last().unwrap()["cost_usd"], 0.25, "{output:?}");
    assert_eq!(project.show(&task)["status"], "done");
}

/// The outcomes of the attempts on a task.
fn outcomes(project: &Project, task: &str) -> Vec<String> {
    let task = project.show(task);
    let attempts = task["history"].as_array().unwrap();
    attempts.iter().map(|it| it["outcome"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn assert_untried(project: &Project, task: &str) {
    let shown = project.show(task);
    assert_eq!((&shown["status"], &shown["retries"]), (&"pending".into(), &0.into()), "{shown}");
}

/// How a run of `--format jsonl` ended.
fn complete(output: &Output) -> Value {
    let last = events(output).pop().unwrap();
    assert_eq!(last["type"], "complete", "{output:?}");
    last
}

// Verdicts that are nearly right.

#[test]
fn what_is_nearly_a_verdict_is_told_to_the_next_attempt_and_code_marks_do_not_matter() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let brief = project.base().join("brief");
    let scripts = [
        format!("say <task-done>{task}: all tests pass</task-done>"),
        "say All is done: <task-done/>".to_owned(),
        format!("save-stdin {} | say Done.\\n\\n`<task-done>{task}</task-done>`", brief.display()),
    ];
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let output = run(&project, &scripts, &["--no-verify"]);
    assert_code(&output, 0);
    assert_eq!(outcomes(&project, &task), ["silent", "silent", "done"]);
    let brief = fs::read_to_string(brief).unwrap();
    let right = format!(
        "write <task-done>{task}</task-done>, without code marks, as the last line of the last message"
    );
    for told in [
        format!(
            "it said \"<task-done>{task}: all tests pass</task-done>\", which has more in the tag"
        ),
        "it said \"<task-done/>\", which has no id in it".to_owned(),
        right,
    ] {
        assert!(brief.contains(&told), "{told}: {brief}");
    }
}

// The breaker.

#[test]
fn three_sessions_without_a_word_from_the_model_stop_a_run() {
    let project = Project::new();
    let tasks: Vec<String> = (0..10).map(|it| project.add([&*format!("Task {it}")])).collect();
    let output = run(&project, &["exit 7"], &["--format", "jsonl"]);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["iterations"]), (&"breaker".into(), &3.into()));
    assert_eq!(end["next"], "ralph doctor");
    let message = end["message"].as_str().unwrap();
    let expected = "three sessions in a row ended without a word from the model: exit code 7";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(outcomes(&project, &tasks[0]), ["crashed"; 3]);
    tasks.iter().for_each(|task| assert_untried(&project, task));
    // Nothing was learned of the task: the model is the one it would have been at first.
    run(&project, &["expect-arg --model sonnet | done"], &["--no-verify", "--once"]);
    assert_eq!(project.show(&tasks[0])["status"], "done");
}

#[test]
fn an_agent_that_does_not_know_an_option_stops_a_run_at_once() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let words = "error: unknown option '--verbose'";
    let agent = project.write(
        "../agent",
        format!("#!/bin/sh\ntest \"$1\" = --version && exit\necho \"{words}\" >&2\nexit 1\n"),
    );
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.to_str().unwrap();
    let output = project.ralph(["run", "--format", "jsonl", "--agent", agent]);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["iterations"]), (&"breaker".into(), &1.into()), "{end}");
    assert_eq!(end["message"], format!("the agent can't be started: exit code 1: {words}"));
    assert_eq!(end["next"], format!("ralph doctor --agent {agent}"));
    assert_untried(&project, &task);
    assert_eq!(outcomes(&project, &task), ["crashed"]);
}

#[test]
fn a_sandbox_that_names_what_does_not_exist_stops_a_run_before_anything_is_claimed() {
    for backend in working_sandboxes() {
        let project = Project::new();
        let task = project.add(["Do it"]);
        let mut command = project.ralph_playing(&["done"], ["run", "--format", "jsonl"]);
        command.env("RALPH_SANDBOX_BACKEND", backend);
        project.write(".ralph.toml", "[sandbox]\nallow = [\"~/nowhere\"]\n");
        let output = project.run(command, None);
        assert_code(&output, 1);
        let message = "`sandbox.allow` names `~/nowhere`, which does not exist";
        let events = events(&output);
        let error = events.iter().find(|it| it["type"] == "error").unwrap();
        assert_eq!((&error["message"], &error["fatal"]), (&message.into(), &true.into()));
        assert_eq!(complete(&output)["message"], message);
        assert!(outcomes(&project, &task).is_empty(), "{output:?}");
        assert_untried(&project, &task);
    }
}

/// A session whose program says that all went well, and which the model had no part in.
const EMPTY_SUCCESS: &str = r#"no-result | raw {"type":"result","subtype":"success","result":""}"#;

#[test]
fn a_success_without_a_word_from_the_model_is_none() {
    let project = Project::new();
    let tasks: Vec<String> = (0..3).map(|it| project.add([&*format!("Task {it}")])).collect();
    let output = run(&project, &[EMPTY_SUCCESS], &["--no-verify", "--format", "jsonl"]);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["iterations"]), (&"breaker".into(), &3.into()), "{end}");
    tasks.iter().for_each(|task| assert_untried(&project, task));
    let arguments = ["loop", "-a", "50", "x", "--format", "jsonl"];
    let output = project.run(project.ralph_with(EMPTY_SUCCESS, arguments), None);
    assert_code(&output, 1);
    assert_eq!(complete(&output)["outcome"], "breaker");
}

#[test]
fn three_requests_that_the_api_does_not_accept_stop_a_run() {
    let project = Project::new();
    let tasks: Vec<String> = (0..3).map(|it| project.add([&*format!("Task {it}")])).collect();
    let refusal = "error 400 invalid_request API Error: 400 tools: not for this gateway";
    let output = run(&project, &[refusal], &["--format", "jsonl"]);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["iterations"]), (&"breaker".into(), &3.into()), "{end}");
    let message = end["message"].as_str().unwrap();
    assert!(message.ends_with(": tools: not for this gateway"), "{message}");
    tasks.iter().for_each(|task| assert_untried(&project, task));
    let reason = project.show(&tasks[0])["history"][0]["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason, "the API did not accept the request: tools: not for this gateway");
}

#[test]
fn a_crash_of_the_agent_costs_no_retry_and_no_better_model() {
    for strategy in ["cost-optimized", "escalate"] {
        let project = Project::new();
        let task = project.add(["Do it"]);
        let model = if strategy == "escalate" { "haiku" } else { "sonnet" };
        let done = format!("expect-arg --model {model} | done");
        let arguments = ["--no-verify", "--max-retries", "0", "--strategy", strategy];
        run(&project, &["exit 1", "kill SIGKILL", &done], &arguments).ok();
        assert_eq!(outcomes(&project, &task), ["crashed", "crashed", "done"]);
    }
}

#[test]
fn a_session_that_worked_and_then_died_counts() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let output = run(&project, &["say I begin | no-result | exit 1"], &["--max-retries", "3"]);
    assert_code(&output, 1);
    assert_eq!(outcomes(&project, &task), ["failed"; 4]);
    assert_eq!(project.show(&task)["status"], "failed");
}

#[test]
fn a_check_that_fails_alike_for_two_tasks_is_the_fault_of_neither() {
    let project = Project::new();
    let (one, other) = (project.add(["One"]), project.add(["Other"]));
    project.add(["Third"]);
    let check =
        "test ! -e broken || { date +%s%N; echo 'Start directory is not importable'; exit 1; }";
    project.write(".ralph.toml", format!("[verify]\ncommands = [\"{check}\"]\n"));
    let arguments = ["--no-verify", "--max-retries", "1", "--format", "jsonl"];
    let output = run(&project, &["touch broken | done"], &arguments);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["iterations"]), (&"breaker".into(), &3.into()), "{end}");
    let message = end["message"].as_str().unwrap();
    assert!(message.contains(&format!("for {one} and {other}")), "{message}");
    assert!(message.ends_with("Start directory is not importable"), "{message}");
    assert_eq!(end["tasks"]["failed"], 0);
    assert_eq!(end["results"][0]["status"], "pending");
    assert_eq!(outcomes(&project, &one), ["interrupted"; 2]);
    assert_eq!(outcomes(&project, &other), ["interrupted"]);
    [&one, &other].iter().for_each(|task| assert_untried(&project, task));
}

#[test]
fn a_loop_stops_after_three_sessions_without_a_word_from_the_model() {
    let project = Project::new();
    let arguments = ["loop", "-a", "50", "x", "--format", "jsonl"];
    let output = project.run(project.ralph_with("exit 1", arguments), None);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["iterations"]), (&"breaker".into(), &3.into()));
    project.assert_nothing_left();
}

#[test]
fn a_loop_whose_sessions_are_silent_may_be_complete_or_a_command() {
    let project = Project::new();
    let scripts = ["exit 1", "exit 1", "touch .ralph-complete | exit 1"];
    project.run(project.ralph_playing(&scripts, ["loop", "-a", "5", "x"]), None).ok();
    let output = project.ralph(["loop", "-a", "4", "x", "--command", "true", "--no-sandbox"]);
    assert_code(&output, 3);
}

// The agent.

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_agent_that_does_not_work_is_found_before_anything_is_claimed() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let agent = project.write("agent", "#!/bin/sh\necho 'node: not found'; exit 127\n");
    let told = |arguments: &[&str]| {
        let mut command = project.ralph_command(arguments);
        command.env("RALPH_SANDBOX_BACKEND", "none");
        let said = project.run(command, None).fails(1);
        project.assert_nothing_left();
        assert_untried(&project, &task);
        assert!(outcomes(&project, &task).is_empty());
        project.masked(&said)
    };
    for command in [&["run"][..], &["loop", "-a", "3", "x"]] {
        allow_duplicates! {
        let with = |agent: &'static str| [command, &["--agent", agent]].concat();
        assert_snapshot!(told(&with("no-such-agent")), @"
        error: the agent `no-such-agent` was not found
        hint: install Claude Code with `npm install -g @anthropic-ai/claude-code`, or name another program with --agent, RALPH_AGENT_COMMAND or agent.command
        ");
        set_mode(&agent, 0o644);
        assert_snapshot!(told(&with("./agent")), @"
        error: the agent `./agent` can't be started: `[ROOT]/./agent` is not executable
        hint: make it so with `chmod +x [ROOT]/./agent`
        ");
        set_mode(&agent, 0o755);
        assert_snapshot!(told(&with("./agent")), @"
        error: the agent does not work: `./agent --version` ended with code 127:
        node: not found
        hint: try it by hand, or name another program with --agent, RALPH_AGENT_COMMAND or agent.command
        ");
        assert_snapshot!(told(&with("sh ./agent")), @"
        error: the agent does not work: `sh ./agent --version` ended with code 127:
        node: not found
        hint: try it by hand, or name another program with --agent, RALPH_AGENT_COMMAND or agent.command
        ");
        }
    }
    assert_snapshot!(told(&["loop", "-a", "3", "x", "--command", "no-such-command"]), @"
    error: the agent `no-such-command` was not found
    hint: name another program with --command, RALPH_COMMAND or loop.command
    ");
}

#[test]
fn an_agent_is_not_asked_when_there_is_nothing_to_do() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    project.ralph(["task", "done", &task]).ok();
    project.ralph(["run", "--agent", "no-such-agent"]).ok();
}

// The checks before the first session.

#[test]
fn a_check_that_fails_before_any_work_stops_a_run() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let check = "echo begun; echo 'Start directory is not importable'; exit 1";
    project.write(".ralph.toml", format!("[verify]\ncommands = [\"true\", \"{check}\"]\n"));
    let output = run(&project, &["done"], &["--no-verify"]);
    assert_code(&output, 1);
    let shown = output.stdout();
    assert!(shown.contains("\nchecking … true\nchecking ✓ true\nchecking … echo"), "{shown}");
    assert!(shown.contains("\n   Start directory is not importable\n"), "{shown}");
    assert!(shown.contains("ended with code 1 before any work was done"), "{shown}");
    assert_untried(&project, &task);
    assert!(outcomes(&project, &task).is_empty());
    let output = run(&project, &["done"], &["--no-verify", "--format", "jsonl"]);
    assert_code(&output, 1);
    assert_eq!(complete(&output)["outcome"], "baseline");
    let told: Vec<Value> =
        events(&output).into_iter().filter(|it| it["type"] == "verify").collect();
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|it| it["task"].is_null() && it["iteration"] == 0), "{told:?}");
    for (setting, arguments) in [("green", &["--no-baseline"][..]), ("off", &[])] {
        project.write(
            ".ralph.toml",
            format!("[verify]\nbaseline = \"{setting}\"\ncommands = [\"test -e ok\"]\n"),
        );
        let task = project.add(["Another"]);
        let arguments = [&["--no-verify", &task][..], arguments].concat();
        run(&project, &["touch ok | done", "touch ok | done"], &arguments).ok();
        fs::remove_file(project.root().join("ok")).unwrap();
    }
    // A dry run tries nothing.
    project.write(".ralph.toml", "[verify]\ncommands = [\"touch tried\"]\n");
    project.write(".ralph-ding", "");
    project.run(project.ralph_with("done", ["run", "--dry-run"]), None).ok();
    assert!(!project.root().join("tried").exists());
    assert!(project.root().join(".ralph-ding").exists(), "it is for a loop that runs beside it");
}

#[test]
fn of_a_check_that_is_known_to_fail_only_new_failures_count() {
    let project = Project::new();
    let (one, other) = (project.add(["One"]), project.add(["Other"]));
    project.write("tests", "test a ... FAILED in 3 s\n");
    let settings = "[verify]\nbaseline = \"known-red\"\ncommands = [\"! cat tests\"]\n";
    project.write(".ralph.toml", settings);
    let same = "run echo 'test a ... FAILED in 14 s' > tests; echo 'test b ... ok' >> tests | done";
    let worse = "run echo 'test c ... FAILED in 2 s' >> tests | done";
    let output = run(&project, &[same, worse], &["--no-verify", "--max-retries", "0"]);
    assert_code(&output, 1);
    assert_eq!(outcomes(&project, &one), ["done"]);
    assert_eq!(outcomes(&project, &other), ["failed"]);
    let reason = project.show(&other)["history"][0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.ends_with("new since the run began:\ntest c ... FAILED in #"), "{reason}");
}

#[test]
fn a_person_can_end_a_run_while_its_checks_are_tried() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    // A shell goes on after an interrupt that its child did not die of; this one can't miss it.
    let check = "trap 'exit 1' INT; touch begun; sleep 600 & wait";
    project.write(".ralph.toml", format!("[verify]\ncommands = [\"{check}\"]\n"));
    let run = project.start(project.ralph_with("done", ["run"]));
    let begun = project.root().join("begun");
    wait_until(Instant::now() + DEADLINE, || begun.exists().then_some(())).unwrap();
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (status, lines, _) = run.finish();
    assert_eq!(status.code(), Some(130), "{lines:?}");
    project.assert_nothing_left();
    assert_untried(&project, &task);
}

// The working tree.

/// A project with a task in a repository in which everything is committed.
fn committed() -> (Project, String) {
    let project = Project::new();
    project.write("mine.txt", "mine");
    project.git_init();
    let task = project.add(["Do it"]);
    (project, task)
}

#[test]
fn uncommitted_work_is_named_and_refused_where_nobody_can_be_asked() {
    let (project, task) = committed();
    project.write("mine.txt", "changed");
    project.write("new file", "new");
    for command in [&["run", "--no-verify"][..], &["run", "-H"], &["loop", "-a", "1", "x"]] {
        let said = project.run(project.ralph_with("done", command), None).fails(2);
        allow_duplicates! { assert_snapshot!(said, @"
        error: 2 files have uncommitted changes, and there is no terminal to ask on:
          mine.txt
          new file
        hint: commit or stash them, or go on with --allow-dirty (run.allow_dirty)
        ") };
        project.assert_nothing_left();
        assert!(outcomes(&project, &task).is_empty());
    }
    run(&project, &["done"], &["--no-verify", "--allow-dirty"]).ok();
    project.ralph(["task", "reset", &task]).ok();
    // The tree is as the last run left it, until the person goes on.
    run(&project, &["done"], &["--no-verify"]).ok();
    project.ralph(["task", "reset", &task]).ok();
    project.write("new file", "newer");
    project.run(project.ralph_with("done", ["run", "--no-verify"]), None).fails(2);
    project.write(".ralph.toml", "[run]\nallow_dirty = true\n");
    run(&project, &["done"], &["--no-verify"]).ok();
}

#[test]
fn a_tree_that_git_can_not_look_at_is_not_taken_for_clean() {
    let (project, task) = committed();
    project.write(".git/index", "nonsense");
    let said = project.run(project.ralph_with("done", ["run"]), None).fails(1);
    assert!(said.starts_with("error: git: "), "{said}");
    assert!(outcomes(&project, &task).is_empty());
}

#[test]
fn what_is_ralphs_own_or_ignored_is_no_uncommitted_work() {
    let project = Project::bare();
    project.write(".gitignore", "target");
    project.write("mine.txt", "mine");
    project.git_init();
    project.ralph(["init", "--hooks"]).ok();
    project.write("target", "ignored");
    project.write(".ralph.toml", "log_dir = \"logs\"\n");
    project.write_feature("login", "spec", "plan");
    project.write("prompt.md", "go on");
    fs::create_dir(project.root().join("logs")).unwrap();
    project.write("logs/old.log", "");
    let output = project.run(project.ralph_with("say LOOP_COMPLETE", ["loop", "-a"]), None);
    assert_code(&output, 0);
    fs::remove_file(project.root().join("prompt.md")).unwrap();
    project.add(["Do it"]);
    run(&project, &["done"], &["--no-verify"]).ok();
    let output = project.run(project.ralph_with("done", ["run"]), None);
    assert_eq!(output.stderr(), "", "{output:?}");
    // Another line in the ignore file is work of a person.
    project.write(".gitignore", "target\nmine.txt\n");
    project.add(["Another"]);
    let said = project.run(project.ralph_with("done", ["run"]), None).fails(2);
    let expected = "error: 1 file has uncommitted changes, and there is no terminal to ask on:";
    assert!(said.starts_with(&format!("{expected}\n  .gitignore\n")), "{said}");
}

#[test]
fn what_a_session_left_behind_is_no_reason_to_refuse() {
    for (script, outcome) in [
        ("write left.txt half | fail no key", "failed"),
        ("write left.txt half | no-result | exit 1", "crashed"),
        ("write left.txt half | done", "failed"),
    ] {
        let (project, task) = committed();
        project.add(["Another"]);
        // The check would not pass on what was left.
        project.write(".ralph.toml", "[verify]\ncommands = [\"test ! -e left.txt\"]\n");
        run(&project, &[script], &["--no-verify", "--once"]);
        assert_eq!(outcomes(&project, &task), [outcome]);
        assert!(!project.root().join("left.txt").exists());
        let kept = project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/salvage"]);
        assert_eq!(project.git(["show", &format!("{kept}:left.txt")]), "half");
        let output = run(&project, &["done"], &["--no-verify"]);
        assert_code(&output, 0);
        assert_eq!(output.stderr(), "");
    }
}

#[test]
fn what_a_killed_run_left_behind_is_kept_and_no_reason_to_refuse() {
    let (project, task) = committed();
    let script = "write left.txt half | touch begun | hang";
    let mut killed = project.start(project.ralph_with(script, ["run", "--no-verify"]));
    let begun = project.root().join("begun");
    wait_until(Instant::now() + DEADLINE, || begun.exists().then_some(())).unwrap();
    killed.kill();
    killed.finish();
    assert_no_process_left(&project);
    let output = run(&project, &["done"], &["--no-verify"]);
    assert_code(&output, 0);
    assert_snapshot!(project.masked(output.stderr().trim_end()), @"note: attempt [A] was cut off; the working tree is as it was before, and its uncommitted changes are kept as refs/ralph/salvage/[A]");
    assert!(!begun.exists());
    assert_eq!(outcomes(&project, &task), ["crashed", "done"]);
}

#[test]
fn outside_a_repository_a_run_goes_on_with_a_warning() {
    let project = Project::new();
    project.add(["Do it"]);
    let output = run(&project, &["done"], &["--no-verify"]);
    assert_code(&output, 0);
    assert_snapshot!(output.stderr(), @"warning: not a git repository: what a failed attempt leaves can't be kept");
}

// Questions on a terminal.

#[test]
fn on_a_terminal_a_person_decides_about_uncommitted_work() {
    let (project, task) = committed();
    project.write("mine.txt", "changed");
    let question = "An agent may commit or overwrite them. Go on? [y/N]";
    for (answer, code, status) in [("\r", 130, "pending"), ("y\r", 0, "done")] {
        let mut terminal = Terminal::start(&project.ralph_with("done", ["run", "--no-verify"]));
        terminal.wait_for("1 file has uncommitted changes:").wait_for("mine.txt");
        terminal.wait_for(question).press(answer);
        let (ended, screen) = terminal.finish();
        assert_eq!(ended, code, "{screen}");
        assert_eq!(project.show(&task)["status"], status);
    }
}

#[test]
fn the_first_run_of_a_project_that_pays_by_use_asks_for_a_limit() {
    let (project, _) = committed();
    project.add(["Another"]);
    let paid = |arguments: &[&str]| {
        let mut command = project.ralph_with("cost 0.5 | done", ["run", "--no-verify"]);
        command.args(arguments).env("ANTHROPIC_API_KEY", "x");
        command
    };
    let question = "Stop when this much is spent, in USD (Enter: no limit):";
    let mut terminal = Terminal::start(&paid(&[]));
    terminal.wait_for("ANTHROPIC_API_KEY is set").wait_for(question).press("lots\r");
    terminal.wait_for("that is not an amount").press("$0.40\r");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 3, "{screen}");
    // It is not asked again, nor where a limit is given or nobody is there.
    let mut terminal = Terminal::start(&paid(&[]));
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains(question), "{screen}");
    for arguments in [&["--max-cost", "5"][..], &["--yes"], &["--headless"]] {
        let (project, _) = committed();
        let mut command = project.ralph_with("done", ["run", "--no-verify"]);
        command.args(arguments).env("ANTHROPIC_API_KEY", "x");
        let (code, screen) = Terminal::start(&command).finish();
        assert_eq!(code, 0, "{screen}");
    }
}

// Verification.

#[test]
fn a_cost_limit_that_the_verifier_hits_is_one_on_cost() {
    let (project, task) = committed();
    let broke = "result-error error_max_budget_usd budget";
    let output = run(&project, &["done", broke], &["--max-cost", "1", "--format", "jsonl"]);
    assert_code(&output, 3);
    assert_eq!(complete(&output)["message"], "the limit on cost was reached");
    assert_eq!(outcomes(&project, &task), ["limited"]);
}

#[test]
fn a_verifier_whose_model_is_used_up_takes_another() {
    let (project, _) = committed();
    let capped = "expect-arg --model sonnet | limit seven_day_sonnet 32503680000";
    let other = "expect-arg --model opus | say <verify-pass/>";
    run(&project, &["done", capped, other], &[]).ok();
}

#[test]
fn work_is_verified_again_when_the_tree_changed_meanwhile() {
    let (project, task) = committed();
    let change = "run date +%N >> new.txt | say <verify-pass/>";
    let output = run(&project, &["done", change, "say <verify-pass/>"], &["--max-retries", "0"]);
    assert_code(&output, 0);
    assert!(output.stderr().contains("changed while it was verified: once more"), "{output:?}");
    assert_eq!(outcomes(&project, &task), ["done"]);
    project.ralph(["task", "reset", &task]).ok();
    let scripts = ["done", change, change, change, "done", change];
    let output = run(&project, &scripts, &["--max-retries", "0", "--format", "jsonl"]);
    assert_code(&output, 1);
    let end = complete(&output);
    assert_eq!((&end["outcome"], &end["next"]), (&"breaker".into(), &"git status".into()));
    assert_eq!(outcomes(&project, &task), ["done", "interrupted", "interrupted"]);
    assert_untried(&project, &task);
}

#[test]
fn a_verifier_that_dies_without_a_word_is_not_held_against_the_task() {
    let (project, task) = committed();
    let scripts = ["done", "exit 1", "exit 1", "say <verify-pass/>"];
    run(&project, &scripts, &["--max-retries", "0"]).ok();
    assert_eq!(outcomes(&project, &task), ["done"]);
    project.ralph(["task", "reset", &task]).ok();
    let output = run(&project, &["done", "exit 1"], &["--max-retries", "0"]);
    assert_code(&output, 1);
    assert_untried(&project, &task);
}
