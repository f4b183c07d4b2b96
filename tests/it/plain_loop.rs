//! `ralph loop`: the same prompt again and again, until somebody says that it is complete.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{DEADLINE, FAKE_CLAUDE, Output, Project, wait_until};
use crate::terminal::Terminal;

/// A directory with a prompt and a repository, but no `ralph init`.
fn bare() -> Project {
    let project = Project::bare();
    project.write("prompt.md", "Do the next thing.\n");
    project.write(".gitignore", ".ralph*\n");
    project.git_init();
    project
}

fn loop_command(project: &Project, scripts: &[&str], arguments: &[&str]) -> Command {
    let mut command = project.ralph_playing(scripts, ["loop"].iter().chain(arguments));
    // Nobody wants to wait in a test.
    command.env("RALPH_LOOP_PAUSE_SECS", "0");
    command
}

fn run(project: &Project, scripts: &[&str], arguments: &[&str]) -> Output {
    let output = project.run(loop_command(project, scripts, arguments), None);
    project.assert_nothing_left();
    assert_no_sentinel(project);
    output
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[track_caller]
fn assert_no_sentinel(project: &Project) {
    for place in ["", "a/", "a/b/"] {
        for name in [".ralph-complete", ".ralph-done", ".ralph-ding"] {
            let file = project.root().join(format!("{place}{name}"));
            assert!(!file.exists(), "{} is left", file.display());
        }
    }
}

// Every case of the table.

#[test]
fn text_is_shown_verbatim_and_tools_as_one_liners() {
    let project = bare();
    let long = "x".repeat(200);
    let script = format!(
        "say I'll start by looking.\\nTwo lines. | tool Read {{\"file_path\": \"src/a.rs\", \"offset\": 1, \"limit\": 80}} \
         | tool Edit {{\"file_path\": \"src/a.rs\", \"old_string\": \"secret\", \"new_string\": \"other\"}} \
         | tool TodoWrite {{\"todos\": [1, 2, 3]}} | tool Bash {{\"command\": \"echo {long}\"}} | say Done."
    );
    let output = run(&project, &[&script], &["-a", "1"]);
    assert_code(&output, 3);
    let shown = output.stdout();
    assert!(shown.contains("I'll start by looking.\nTwo lines.\n-> Read(src/a.rs 1:80)\n-> Edit(src/a.rs)\n-> TodoWrite(3 items)\n"), "{shown}");
    assert!(shown.contains("xxx...)"), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("old_string"), "{shown}");
}

#[test]
fn a_completion_file_ends_the_loop_and_is_removed() {
    for place in [".ralph-complete", "a/.ralph-complete", "a/b/.ralph-done"] {
        let project = bare();
        fs::create_dir_all(project.root().join("a/b")).unwrap();
        let output = run(&project, &["say one", &format!("touch {place} | say two")], &["-a", "9"]);
        assert_code(&output, 0);
        let shown = output.stdout();
        assert!(shown.contains(&format!("the loop is complete: `{place}` was made")), "{shown}");
        assert!(shown.contains("2 iterations"), "{shown}");
    }
}

#[test]
fn a_completion_file_of_an_earlier_loop_does_not_count() {
    let project = bare();
    fs::create_dir_all(project.root().join("a")).unwrap();
    project.write("a/.ralph-complete", "");
    let output = run(&project, &["say one"], &["-a", "2"]);
    assert_code(&output, 3);
}

#[test]
fn iterations_that_are_used_up_are_a_limit() {
    let project = bare();
    let output = run(&project, &["say hello"], &["-a", "3"]);
    assert_code(&output, 3);
    let shown = output.stdout();
    for number in 1..=3 {
        assert!(shown.contains(&format!("━━ {number}/3 prompt.md\n")), "{shown}");
    }
    assert!(shown.contains("the limit on iterations was reached"), "{shown}");
}

#[test]
fn a_missing_prompt_is_an_error() {
    let project = Project::bare();
    let said = run(&project, &["say never"], &["-a", "3"]).fails(1);
    insta::assert_snapshot!(said, @r#"
    error: there is no prompt: `prompt.md` does not exist
    hint: write it, or name a file or the words themselves: ralph loop 5 "fix the login bug"
    "#);
}

#[test]
fn iterations_are_clamped_with_a_warning() {
    let project = bare();
    let output = run(&project, &["touch .ralph-complete"], &["-a", "500"]);
    assert_code(&output, 0);
    let warning = "warning: iterations limited to 100 by --max-iterations\n";
    assert_eq!(output.stderr(), warning);
    let output = run(&project, &["say x"], &["-a", "5", "--max-iterations", "2"]);
    assert_code(&output, 3);
    assert!(output.stdout().contains("━━ 2/2 "), "{output:?}");
}

#[test]
fn the_help_says_how_to_use_it() {
    let project = bare();
    let help = project.ralph(["loop", "--help"]).ok();
    for part in ["Usage: ralph loop", "[ITERATIONS]", "--afk", "--loop-id", "exit code 3"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

// Prompts.

#[test]
fn a_prompt_is_a_file_where_it_names_one_and_words_otherwise() {
    let project = bare();
    project.write("task.md", "From the file.");
    project.git(["add", "task.md"]);
    project.git(["commit", "-q", "-m", "task"]);
    for (arguments, said) in [
        (&["-a", "1"][..], "Do the next thing."),
        (&["-a", "1", "task.md"], "From the file."),
        (&["-a", "1", "fix the login bug"], "fix the login bug"),
        (&["-a", "1", "-p", "task.md"], "task.md"),
        (&["-a", "1", "-p", "--not-an-option"], "--not-an-option"),
    ] {
        let output =
            run(&project, &[&format!("expect-stdin {said} | touch .ralph-complete")], arguments);
        assert_code(&output, 0);
    }
}

#[test]
fn a_prompt_that_claude_would_expand_stands_in_the_system_prompt() {
    let project = bare();
    let system = project.base().join("system");
    for prompt in ["@task.md", "see @task.md", "/init it", "\n/init it"] {
        let script = format!(
            "expect-stdin Do what your system prompt says under \"Your task now\". | save-system {} | \
             touch .ralph-complete",
            system.display()
        );
        assert_code(&run(&project, &[&script], &["-a", "1", "-p", prompt]), 0);
        let told = fs::read_to_string(&system).unwrap();
        assert_eq!(told, format!("# Your task now\n\n{prompt}\n"));
    }
}

#[test]
fn a_prompt_file_is_read_anew_each_time_and_may_be_huge() {
    let project = bare();
    project.write("prompt.md", "größe ".repeat(60_000));
    let output = run(
        &project,
        &[
            "expect-stdin größe größe | run echo changed > prompt.md",
            "expect-stdin changed | touch .ralph-complete",
        ],
        &["-a", "5"],
    );
    assert_code(&output, 0);
}

#[test]
fn a_plan_is_named_in_the_prompt_and_its_items_are_the_progress() {
    let project = bare();
    project.write("plan.md", "# Plan\n- [x] one\n- [ ] two\n");
    let tick = "expect-stdin Work on plan.md now | run sed -i 's/\\[ \\]/[x]/' plan.md";
    let arguments = ["-a", "5", "Work on {plan} now", "--plan", "plan.md"];
    let output = run(&project, &["say nothing", tick], &arguments);
    assert_code(&output, 0);
    let shown = output.stdout();
    assert!(shown.contains("1/2 done"), "{shown}");
    assert!(shown.contains("every item of the plan is ticked off"), "{shown}");
}

#[test]
fn one_iteration_is_meant_where_only_a_prompt_is_given() {
    let project = bare();
    let output = run(&project, &["expect-stdin fix the bug"], &["-a", "fix the bug"]);
    assert_code(&output, 3);
    assert!(
        output.stdout().starts_with("loop     afk, 1 iteration\nprompt   fix the bug\n"),
        "{output:?}"
    );
    for words in [&["-a", "0"][..], &["-1"], &["99999999999"], &["fix", "the bug"]] {
        let said = run(&project, &["say never"], words).fails(2);
        assert!(said.contains("number"), "{words:?}: {said}");
    }
}

#[test]
fn what_would_only_cost_money_is_refused_before_anything_starts() {
    let project = bare();
    project.write("empty.md", " \n\t\n");
    project.write("named.md", "Do the next item of {plan}.");
    project.write("itemless.md", "# Plan\n\nNothing here.\n");
    for (arguments, code, expected) in [
        (&["-a", "3", ""][..], 2, "the prompt is empty"),
        (&["-a", ""], 2, "the prompt is empty"),
        (&["-a", "3", " \n "], 2, "the prompt is empty"),
        (&["-a", "3", "-p", ""], 2, "the prompt is empty"),
        (&["-a", "3", "empty.md"], 1, "empty.md` is empty"),
        (&["-a", "3", "named.md"], 2, "there is no --plan"),
        (&["-a", "3", "do {plan}"], 2, "there is no --plan"),
        (&["-a", "3", "x", "--plan", "nope.md"], 1, "can't read the plan"),
        (&["-a", "3", "x", "--plan", "itemless.md"], 1, "itemless.md` has no items"),
    ] {
        let output = run(&project, &["run touch started"], arguments);
        assert_eq!(output.stdout(), "", "{arguments:?}");
        let said = output.fails(code);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(!project.root().join("started").exists());
}

#[test]
fn a_plan_alone_is_enough() {
    let project = bare();
    fs::remove_file(project.root().join("prompt.md")).unwrap();
    fs::create_dir(project.root().join("docs")).unwrap();
    project.write("docs/plan.md", "- [ ] one\n- [ ] two\n");
    let tick =
        "expect-stdin The plan is `docs/plan.md` | run sed -i '0,/\\[ \\]/s//[x]/' docs/plan.md";
    let output = run(&project, &[tick], &["-a", "5", "--plan", "docs/plan.md"]);
    assert_code(&output, 0);
    let shown = output.stdout();
    assert!(
        shown.contains("prompt   one item of the plan\nplan     docs/plan.md, 0/2 done\n"),
        "{shown}"
    );
    assert!(shown.contains("2 iterations"), "{shown}");

    let output = run(&project, &["say never"], &["-a", "5", "--plan", "docs/plan.md"]);
    assert_code(&output, 0);
    let shown = output.stdout();
    assert!(shown.contains("every item of the plan is ticked off already"), "{shown}");
    assert!(!shown.contains("never"), "{shown}");

    fs::create_dir_all(project.root().join(".ralph/prompts")).unwrap();
    project.write(".ralph/prompts/loop_plan.md", "Ours: {{plan}}");
    project.write("docs/plan.md", "- [ ] one\n");
    let own = "expect-stdin Ours: docs/plan.md | touch .ralph-complete";
    assert_code(&run(&project, &[own], &["-a", "--plan", "docs/plan.md"]), 0);
}

// Promises.

#[test]
fn a_promise_in_the_final_answer_completes_the_loop_and_nowhere_else() {
    for (script, code) in [
        ("say All done.\\nLOOP_COMPLETE", 0),
        ("say All done. LOOP_COMPLETE", 3),
        ("say One test fails, so I do not say LOOP_COMPLETE yet", 3),
        ("run true | say **LOOP_COMPLETE**.", 0),
        ("raw {\"type\":\"result\",\"result\":\"All done.\\nLOOP_COMPLETE\"} | no-result", 0),
        ("say <promise>COMPLETE</promise>", 0),
        ("say I will say `LOOP_COMPLETE` then", 3),
        ("say LOOP_COMPLETE comes later | run true | say not yet", 3),
        ("think LOOP_COMPLETE", 3),
        ("run echo LOOP_COMPLETE | say hm", 3),
        ("say <promise>FAILURE</promise>", 1),
        ("say LOOP_COMPLETE | result-error error_max_turns max_turns", 3),
    ] {
        let project = bare();
        let output = run(&project, &[script], &["-a", "1"]);
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
    }
    let project = bare();
    project.write(".ralph.toml", "completion_promise = \"THE END\"\n");
    assert_code(&run(&project, &["say it is\\nTHE END"], &["-a", "1"]), 0);
}

// Around it.

#[test]
fn a_loop_without_its_command_is_told_what_it_is() {
    let project = bare();
    insta::assert_snapshot!(project.ralph(["10"]).fails(2), @"
    error: `10` is not a command
    hint: the plain loop is a command of its own: ralph loop 10
    ");
    let said = project.ralph(["-a", "5", "fix it"]).fails(2);
    assert!(said.contains("ralph loop -a 5 'fix it'"), "{said}");
}

#[test]
fn flags_that_scripts_pass_to_every_run_are_accepted() {
    let project = bare();
    for flag in ["--yes", "--no-auto-reset", "--max-time=60"] {
        assert_code(&run(&project, &["touch .ralph-complete"], &["-a", flag]), 0);
    }
}

#[test]
fn the_loop_id_is_on_every_banner() {
    let project = bare();
    let output = run(&project, &["say x"], &["-a", "2", "--loop-id", "build-auth-20260226"]);
    let shown = output.stdout();
    let banner =
        "loop     afk, 2 iterations, build-auth-20260226\nprompt   prompt.md\nsandbox  none";
    assert!(shown.starts_with(banner), "{shown}");
    assert_eq!(shown.matches("build-auth-20260226\n").count(), 3, "{shown}");
    assert!(shown.contains("-build-auth-20260226-2.log"), "{shown}");
}

#[test]
fn new_commits_are_pushed_when_that_is_wanted() {
    let project = bare();
    let remote = project.base().join("remote.git");
    project.git(["init", "-q", "--bare", remote.to_str().unwrap()]);
    project.git(["remote", "add", "origin", remote.to_str().unwrap()]);
    project.git(["push", "-q", "-u", "origin", "main"]);
    let commit = "run git commit -q --allow-empty -m work";
    for off in [&["-a", "1", "--auto-push=false"][..], &["-a", "--auto-push", "false", "1"]] {
        run(&project, &[commit], off);
    }
    let head = |place: &str| project.git(["-C", place, "rev-parse", "main"]);
    let remote = remote.to_str().unwrap();
    assert_ne!(head(remote), head("."));
    for on in [
        &["-a", "1", "--auto-push"][..],
        &["-a", "--auto-push", "true", "1"],
        &["-a", "--auto-push", "1", "x"],
    ] {
        let output = run(&project, &[commit], on);
        assert!(output.stdout().contains(", pushed"), "{output:?}");
        assert_eq!(head(remote), head("."));
    }
}

#[test]
fn a_session_that_failed_is_told_and_the_loop_goes_on() {
    let project = bare();
    let output = run(&project, &["exit 3", "touch .ralph-complete"], &["-a", "5"]);
    assert_code(&output, 0);
    assert!(output.stdout().contains("✗ failed"), "{output:?}");
}

#[test]
fn an_agent_that_is_not_there_is_an_error() {
    let project = bare();
    let output = run(&project, &[""], &["-a", "1", "--command", "no-such-claude"]);
    assert!(output.fails(1).contains("the agent `no-such-claude` was not found"));
}

/// An executable script in the project's own directory for programs.
fn program(project: &Project, name: &str, script: &str) -> PathBuf {
    let directory = project.base().join("bin");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Runs the loop with a program of ours in place of the scripted agent.
fn run_program(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = project.ralph_command(["loop"].iter().chain(arguments));
    command.env("RALPH_SANDBOX_BACKEND", "none").env("RALPH_LOOP_PAUSE_SECS", "0");
    command.envs(variables.iter().copied());
    let output = project.run(command, None);
    project.assert_nothing_left();
    output
}

#[test]
fn a_command_gets_the_prompt_on_stdin_and_no_arguments_and_may_print_plain_text() {
    let project = bare();
    let got = project.base().join("got");
    let plain = program(
        &project,
        "plain",
        &format!(
            "echo \"$#:$(cat):$(cat $RALPH_PROMPT_FILE)\" >> {}; echo Hello there.; echo; echo LOOP_COMPLETE",
            got.display()
        ),
    );
    let plain = plain.to_str().unwrap();
    let output = run_program(&project, &["-a", "3", "--command", plain], &[]);
    assert_code(&output, 0);
    let shown = output.stdout();
    assert!(shown.contains("Hello there.\n\nLOOP_COMPLETE\n"), "{shown}");
    let output = run_program(&project, &["-a", "3"], &[("RALPH_COMMAND", plain)]);
    assert_code(&output, 0);
    let once = "0:Do the next thing.:Do the next thing.\n";
    assert_eq!(fs::read_to_string(got).unwrap(), once.repeat(2));

    let stream = program(
        &project,
        "stream",
        r#"echo '{"type":"result","subtype":"success","is_error":false,"result":"LOOP_COMPLETE"}'"#,
    );
    let output = run_program(&project, &["-a", "3", "--command", stream.to_str().unwrap()], &[]);
    assert_code(&output, 0);
    assert!(!output.stdout().contains("{"), "{output:?}");
    let both = ["-a", "--command", plain, "--agent", "claude"];
    assert!(run_program(&project, &both, &[]).fails(2).contains("two programs"));
}

#[test]
fn an_agent_may_be_a_command_line_or_a_path_with_blanks() {
    let project = bare();
    let fake = format!("env FAKE_CLAUDE='touch .ralph-complete' {FAKE_CLAUDE}");
    assert_code(&run_program(&project, &["-a", "--agent", &fake], &[]), 0);
    assert_code(&run_program(&project, &["-a"], &[("RALPH_AGENT_COMMAND", &fake)]), 0);
    let doctor = project.ralph(["doctor", "--agent", &fake]);
    assert!(doctor.stdout().contains("/env, Claude Code 2.1.325\n"), "{doctor:?}");
    let blanks = program(&project, "my agent", &format!("exec {fake} \"$@\""));
    assert_code(&run_program(&project, &["-a", "--agent", blanks.to_str().unwrap()], &[]), 0);
    let said = run_program(&project, &["-a", "--agent", "claude 'x"], &[]).fails(1);
    assert!(said.contains("has a quote that is not closed"), "{said}");
}

#[test]
fn what_an_agent_says_on_stderr_is_in_the_log_and_in_the_reason_of_a_failure() {
    let project = bare();
    let fails = program(
        &project,
        "fails",
        "test \"$1\" = --version && exit; echo one >&2; echo OOPS >&2; exit 7",
    );
    let output = run_program(&project, &["-a", "--agent", fails.to_str().unwrap()], &[]);
    assert_code(&output, 1);
    let shown = output.stdout();
    assert!(shown.contains("the agent can't be started: exit code 7: one OOPS"), "{shown}");
    assert!(shown.contains("ended without a result (exit code 7)\n   one\n   OOPS\n"), "{shown}");

    let warns = program(&project, "warns", "echo careful >&2; echo fine");
    let output = run_program(
        &project,
        &["-a", "--command", warns.to_str().unwrap(), "--format", "jsonl"],
        &[],
    );
    let ends: Vec<Value> =
        output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = ends.iter().find(|it| it["type"] == "iteration_end").unwrap();
    assert_eq!(end["outcome"], "done");
    let log = fs::read_to_string(end["log"].as_str().unwrap()).unwrap();
    assert_eq!(log, "fine\nstderr: careful\n");
}

#[test]
fn formats_are_those_of_a_run() {
    let project = bare();
    let output = run(&project, &["say x | touch .ralph-complete"], &["3", "--format", "jsonl"]);
    assert_code(&output, 0);
    let events: Vec<Value> =
        output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["start", "iteration_start", "text", "iteration_end", "complete"]);
    assert_eq!(events[1]["task"], Value::Null);
    let output = run(&project, &["say x | touch .ralph-complete"], &["3", "--format", "json"]);
    let summary: Value = serde_json::from_str(&output.stdout()).unwrap();
    assert_eq!((&summary["outcome"], &summary["iterations"]), (&"done".into(), &1.into()));
}

#[test]
fn a_limit_is_waited_for_and_does_not_use_up_an_iteration() {
    let project = bare();
    let scripts = ["error 529 overloaded Overloaded", "say one", "touch .ralph-complete"];
    let playing = loop_command(&project, &scripts, &["-a", "2", "--format", "jsonl"]);
    let mut command = project.command(env!("CARGO_BIN_EXE_ralph-clocked"));
    command.envs(playing.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(playing.get_args());
    let output = project.run(command, None);
    assert_code(&output, 0);
    assert!(output.stdout().contains("\"type\":\"limit_wait\""), "{output:?}");
}

#[test]
fn inside_a_project_the_database_is_that_of_the_project() {
    let project = Project::new();
    project.write("prompt.md", "x");
    let output =
        run(&project, &["run ralph task add Found -d x | touch .ralph-complete"], &["-a", "1"]);
    assert_code(&output, 0);
    assert_eq!(project.ralph(["task", "list", "--json"]).json()[0]["title"], "Found");
}

// Interrupts.

#[track_caller]
fn interrupted(script: &str, signals: &[Signal]) -> (Project, Vec<String>, std::time::Duration) {
    let project = bare();
    let running = project.start(loop_command(&project, &[script], &["-a", "5"]));
    while !running.next_line().expect("it has ended").contains("ready") {}
    let began = Instant::now();
    let send = |signal: Signal| {
        let _ = kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), signal);
    };
    let (first, others) = signals.split_first().unwrap();
    send(*first);
    if !others.is_empty() {
        // Two signals at once are one.
        while !running.next_line().expect("it has ended").contains("Ctrl+C again") {}
        others.iter().for_each(|signal| send(*signal));
    }
    let (status, lines, stderr) = running.finish();
    assert_eq!(status.code(), Some(130), "{lines:?} {stderr}");
    project.assert_nothing_left();
    assert_no_sentinel(&project);
    (project, lines, began.elapsed())
}

#[test]
fn the_first_interrupt_lets_claude_clean_up_and_says_so() {
    let (_, lines, _) = interrupted("touch .ralph-ding | say ready | hang", &[Signal::INT]);
    let said = "Waiting for fake-claude to finish; press Ctrl+C again to kill it";
    assert!(lines.iter().any(|line| line == said), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("━━ 2/5")), "{lines:?}");
}

#[test]
fn a_second_interrupt_and_a_termination_kill_at_once() {
    let deaf = "ignore SIGINT | ignore SIGTERM | orphan-setsid | say ready | hang";
    for signals in [&[Signal::INT, Signal::INT][..], &[Signal::TERM], &[Signal::HUP]] {
        let (_, _, took) = interrupted(deaf, signals);
        assert!(took.as_secs() < 8, "{took:?}");
    }
}

#[test]
fn the_pause_between_iterations_can_be_interrupted() {
    let project = bare();
    let mut command = loop_command(&project, &["say ready"], &["-a", "5"]);
    command.env("RALPH_LOOP_PAUSE_SECS", "600");
    let running = project.start(command);
    while !running.next_line().expect("it has ended").contains("iteration complete") {}
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (status, lines, _) = running.finish();
    assert_eq!(status.code(), Some(130), "{lines:?}");
    assert!(lines.iter().any(|line| line == "interrupted"), "{lines:?}");
    project.assert_nothing_left();
}

#[test]
fn a_completion_file_that_is_made_in_the_pause_completes_the_loop() {
    let project = bare();
    let mut command = loop_command(&project, &["say ready"], &["-a", "5"]);
    command.env("RALPH_LOOP_PAUSE_SECS", "1");
    let running = project.start(command);
    while !running.next_line().expect("it has ended").contains("iteration complete") {}
    project.write(".ralph-done", "");
    let (status, lines, _) = running.finish();
    assert_eq!(status.code(), Some(0), "{lines:?}");
    assert_no_sentinel(&project);
}

// At the terminal.

#[test]
fn without_afk_claude_has_the_terminal_and_a_ding_rings() {
    let project = bare();
    let line = project.base().join("line");
    let script = format!(
        "expect-terminal | expect-arg -- Do the next thing. | say hello | touch .ralph-ding \
         | read-line {} | touch .ralph-complete",
        line.display()
    );
    let mut terminal = Terminal::start(&loop_command(&project, &[&script], &["3"]));
    terminal.wait_for("hello");
    let deadline = Instant::now() + DEADLINE;
    let ding = project.root().join(".ralph-ding");
    wait_until(deadline, || (!ding.exists() && terminal.bells() > 0).then_some(())).unwrap();
    terminal.press("an answer\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(fs::read_to_string(line).unwrap(), "an answer\n");
    assert!(screen.contains("the loop is complete: `.ralph-complete` was made"), "{screen}");
    project.assert_nothing_left();
    assert_no_sentinel(&project);
}

#[test]
fn ctrl_c_at_the_terminal_ends_claude_and_then_the_loop() {
    let project = bare();
    let mut terminal = Terminal::start(&loop_command(&project, &["say hello | hang"], &["3"]));
    terminal.wait_for("hello").press("\x03");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 130, "{screen}");
    assert!(terminal.is_sane(), "{screen}");
    project.assert_nothing_left();
}

#[test]
fn without_a_terminal_it_goes_on_as_afk() {
    let project = bare();
    let output = run(&project, &["touch .ralph-complete"], &["1"]);
    assert_code(&output, 0);
    assert_eq!(output.stderr(), "not a terminal: going on as with --afk\n");
}

#[test]
fn a_command_at_the_terminal_has_it_and_finds_its_prompt_in_a_file() {
    let project = bare();
    let shows = program(
        &project,
        "shows",
        "[ -t 0 ] && echo \"$#: $(cat \"$RALPH_PROMPT_FILE\")\"; echo; echo LOOP_COMPLETE; touch $SENTINEL",
    );
    // In the user's own terminal what it prints is between it and the person: a file completes the loop.
    for (flag, sentinel) in [("--no-pty", ".ralph-complete"), ("--observe", "../unseen")] {
        let mut command = project.ralph_command(["loop", "3", flag, "--command"]);
        command.arg(&shows).env("SENTINEL", sentinel);
        command.env("RALPH_SANDBOX_BACKEND", "none").env("RALPH_LOOP_PAUSE_SECS", "0");
        let (code, screen) = Terminal::start(&command).finish();
        assert_eq!(code, 0, "{flag}: {screen}");
        assert!(screen.contains("0: Do the next thing."), "{flag}: {screen}");
        project.assert_nothing_left();
    }
}
