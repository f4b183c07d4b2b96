//! Runs beside each other and in front of people: two at once, pauses, formats, the screen.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{
    Background, DEADLINE, FAKE_CLAUDE, Output, Project, check_rules, wait_until, without_remarks,
};
use crate::terminal::Terminal;

#[track_caller]
fn wait_for_line(running: &Background, text: &str) {
    while !running.next_line().expect("it has ended").contains(text) {}
}

fn tasks(project: &Project, count: usize) {
    project.add_lines("{\"title\": \"T\"}\n".repeat(count));
}

// Two at once.

#[test]
fn a_second_run_in_the_same_tree_is_told_who_has_it() {
    let project = Project::new();
    tasks(&project, 1);
    let go = project.base().join("go");
    let script = format!("say ready | wait-file {} | done", go.display());
    let first = project.start(project.ralph_playing(&[&script], ["run", "--no-verify"]));
    wait_for_line(&first, "ready");
    let said = project.run(project.ralph_with("say never", ["run"]), None).fails(1);
    let pid = first.id();
    assert!(said.starts_with("error: another run is working in `"), "{said}");
    assert!(said.contains(": run r-"), "{said}");
    assert!(said.contains(&format!("process {pid}, since ")), "{said}");
    assert!(said.contains("hint: wait for it, end it, or use another working tree"), "{said}");
    fs::write(go, "").unwrap();
    assert!(first.finish().0.success());
    project.assert_nothing_left();
}

#[test]
fn two_runs_in_two_worktrees_share_the_dag_and_never_a_task() {
    let project = Project::new();
    project.git_init();
    let other = project.base().join("worktree");
    project.git(["worktree", "add", "-q", other.to_str().unwrap(), "-b", "other"]);
    project.add_lines((0..12).map(|n| format!("{{\"title\": \"T{n}\"}}\n")).collect::<String>());
    let script = "run echo $RALPH_TASK_ID >> worked; git add worked; git commit -q -m worked | sleep 20 | done";
    let start = |directory: &std::path::Path| {
        let mut command = project.ralph_playing(&[script], ["run", "--no-verify"]);
        command.current_dir(directory).env("RALPH_DB", project.database());
        project.start(command)
    };
    let runs = [start(project.root()), start(&other)];
    for run in runs {
        let (status, lines, stderr) = run.finish();
        assert!(status.success(), "{lines:?} {stderr}");
    }
    let worked = |directory: &std::path::Path| -> Vec<String> {
        let text = fs::read_to_string(directory.join("worked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let (here, there) = (worked(project.root()), worked(&other));
    let mut all = [here.clone(), there.clone()].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 12);
    assert_eq!(here.len() + there.len(), 12, "no task twice: {here:?} {there:?}");
    assert!(!here.is_empty() && !there.is_empty(), "{here:?} {there:?}");
    project.assert_nothing_left();
    check_rules(&project);
}

#[test]
fn a_run_waits_for_what_another_one_is_working_on() {
    let project = Project::new();
    project.git_init();
    let first = project.add(["First"]);
    project.add(["Second", "--after", &first]);
    let other = project.base().join("worktree");
    project.git(["worktree", "add", "-q", other.to_str().unwrap(), "-b", "other"]);
    let go = project.base().join("go");
    let script = format!("say ready | wait-file {} | done", go.display());
    let working =
        project.start(project.ralph_playing(&[&script], ["run", "--no-verify", "--once"]));
    wait_for_line(&working, "ready");
    let mut command = project.ralph_playing(&["done"], ["run", "--no-verify"]);
    command.current_dir(&other).env("RALPH_DB", project.database());
    let waiting = project.start(command);
    wait_for_line(&waiting, "idle     what is left waits for another run");
    fs::write(go, "").unwrap();
    assert_eq!(working.finish().0.code(), Some(3));
    let (status, lines, _) = waiting.finish();
    assert!(status.success(), "{lines:?}");
    project.assert_nothing_left();
}

// Pauses.

#[test]
fn a_pause_holds_a_run_between_iterations() {
    let project = Project::new();
    tasks(&project, 2);
    let pause = "touch .ralph-pause | done";
    let running = project.start(project.ralph_playing(&[pause, "done"], ["run", "--no-verify"]));
    wait_for_line(&running, "pause    `ralph resume` goes on");
    assert!(project.root().join(".ralph-pause").exists());
    assert_eq!(project.ralph(["status", "--json"]).json()["done"], 1);
    let told = "paused: runs here wait for `ralph resume`";
    assert_eq!(project.ralph(["status"]).ok().lines().last(), Some(told));
    let resumed = project.ralph(["resume"]);
    assert_eq!(resumed.stderr(), "runs here go on\n");
    let (status, lines, _) = running.finish();
    assert!(status.success(), "{lines:?}");
    assert!(lines.iter().any(|line| line == "resume   going on"), "{lines:?}");
    assert_eq!(project.ralph(["resume"]).stderr(), "nothing was paused\n");
    project.assert_nothing_left();
}

#[test]
fn a_pause_holds_nothing_back_that_is_over() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    project.add(["Do this, too"]);
    let arguments = ["run", "--no-verify", "--once"];
    let output = project.run(project.ralph_with("touch .ralph-pause | done", arguments), None);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    project.ralph(["resume"]).ok();
    let arguments = ["loop", "-a", "1", "x"];
    let output = project.run(project.ralph_with("touch .ralph-pause | say ok", arguments), None);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let arguments = ["run", &task, "--no-verify"];
    project.run(project.ralph_with("done", arguments), None).ok();
}

// Formats.

fn events(project: &Project, scripts: &[&str], arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["run", "--format", "jsonl"], arguments].concat();
    let output = project.run(project.ralph_playing(scripts, arguments), None);
    project.assert_nothing_left();
    output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_prompt_that_is_too_long_is_read_by_another_model_that_no_agent_asked_for() {
    let project = Project::new();
    project.add(["Do it"]);
    let scripts = ["result-error success prompt_too_long", "expect-arg --model opus | done"];
    let events = events(&project, &scripts, &["--no-verify"]);
    let starts = events.iter().filter(|it| it["type"] == "iteration_start");
    let models: Vec<_> = starts.map(|it| (it["model"].as_str(), it["hinted"].as_bool())).collect();
    assert_eq!(models, [(Some("sonnet"), Some(false)), (Some("opus"), Some(false))]);
    assert_eq!(events.last().unwrap()["outcome"], "done", "{events:?}");
}

#[test]
fn every_line_of_jsonl_is_an_object_with_type_time_and_run() {
    let project = Project::new();
    project.git_init();
    project.write(".ralph.toml", "[verify]\ncommands = [\"true\"]\n");
    tasks(&project, 1);
    let script = "think Hm. | say I begin. | tool Read {\"file_path\": \"a\"} | tool-error no such file \
         | say ok | done";
    let events = events(&project, &[script, "say <verify-pass/>"], &[]);
    let verifying: Vec<&Value> =
        events.iter().filter(|it| it["type"] == "text").map(|it| &it["verifying"]).collect();
    assert_eq!(verifying, [false, false, false, true]);
    let kinds: Vec<&str> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "start",
            "verify",
            "verify",
            "iteration_start",
            "reasoning",
            "text",
            "tool",
            "tool_error",
            "text",
            "text",
            "verify",
            "verify",
            "verify",
            "text",
            "verify",
            "iteration_end",
            "stats",
            "progress",
            "complete",
        ]
    );
    let run = &events[0]["run"];
    for event in &events {
        assert_eq!(&event["run"], run);
        assert!(event["ts"].as_str().unwrap().ends_with('Z'), "{event}");
    }
    assert_eq!(events[6]["input"]["file_path"], "a");
    let end = &events[15];
    assert_eq!((&end["outcome"], &end["status"]), (&"done".into(), &"done".into()));
    let last = events.last().unwrap();
    assert_eq!((&last["outcome"], &last["exit_code"]), (&"done".into(), &0.into()));
    assert_eq!(last["results"][0]["title"], "T");
}

#[test]
fn json_is_one_object_at_the_end_and_nothing_else() {
    let project = Project::new();
    project.git_init();
    tasks(&project, 2);
    let commit = "run git commit -q --allow-empty -m x | done";
    let output = project.run(
        project.ralph_playing(&[commit, "fail no"], ["run", "--no-verify", "--format", "json"]),
        None,
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stderr(), "");
    let summary: Value = serde_json::from_str(&output.stdout()).unwrap();
    assert_eq!(summary["outcome"], "failed");
    assert_eq!(summary["exit_code"], 1);
    assert_eq!(summary["tasks"]["done"], 1);
    assert_eq!(summary["tasks"]["failed"], 1);
    assert_eq!(summary["iterations"], 5);
    assert_eq!(summary["commits"], 1);
    assert_eq!(summary["results"][1]["attempts"], 4);
    assert!(summary["input_tokens"].as_u64().unwrap() > 0);
    assert!(summary["duration_secs"].as_f64().unwrap() > 0.0);
}

#[test]
fn lines_can_have_their_time() {
    let project = Project::new();
    tasks(&project, 1);
    let arguments = ["run", "--no-verify", "--timestamps", "--headless"];
    let shown =
        project.run(project.ralph_playing(&["say two\\nlines | done"], arguments), None).ok();
    for line in shown.lines() {
        let (time, _) = line.split_once(' ').unwrap_or((line, ""));
        assert_eq!((time.len(), time.matches(':').count()), (8, 2), "{line:?}");
    }
    assert!(shown.contains(" lines\n"), "{shown}");
}

#[test]
fn a_reader_that_goes_away_interrupts_the_run() {
    for format in ["jsonl", "text"] {
        let project = Project::new();
        tasks(&project, 50);
        let command = project
            .ralph_playing(&["say hello | done"], ["run", "--no-verify", "--format", format]);
        let output = read_one_line(command);
        assert_eq!(output.status.code(), Some(130), "{format}: {output:?}");
        assert_eq!(without_remarks(&String::from_utf8_lossy(&output.stderr)), "", "{format}");
        let status = project.ralph(["status", "--json"]).json();
        assert!(status["done"].as_u64().unwrap() < 50, "{status}");
        assert_eq!((&status["in_progress"], &status["failed"]), (&0.into(), &0.into()));
        project.assert_nothing_left();
        check_rules(&project);
    }
}

#[test]
fn a_reader_that_goes_away_interrupts_the_loop() {
    for format in ["jsonl", "text"] {
        let project = Project::bare();
        let arguments = ["loop", "-a", "50", "hello", "--format", format];
        let output = read_one_line(project.ralph_playing(&["say hello"], arguments));
        assert_eq!(output.status.code(), Some(130), "{format}: {output:?}");
        assert_eq!(without_remarks(&String::from_utf8_lossy(&output.stderr)), "", "{format}");
        project.assert_nothing_left();
    }
}

#[test]
fn a_session_that_says_nothing_is_ended_when_its_reader_goes_away() {
    for format in ["jsonl", "text"] {
        let project = Project::new();
        let task = project.add(["Think"]);
        let arguments = ["run", "--no-verify", "--format", format];
        let mut command = project.ralph_playing(&["touch begun | hang"], arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + DEADLINE;
        let begun = project.root().join("begun");
        wait_until(deadline, || begun.exists().then_some(())).expect("the session begins");
        drop(child.stdout.take());
        let status = wait_until(deadline, || child.try_wait().unwrap());
        let Some(status) = status else {
            let _ = child.kill();
            panic!("{format}: the session goes on without a reader");
        };
        assert_eq!(status.code(), Some(130), "{format}");
        assert_eq!(project.show(&task)["status"], "pending");
        project.assert_nothing_left();
    }
}

#[test]
fn a_session_is_ended_when_its_reader_goes_away_after_a_stall() {
    let project = Project::new();
    let task = project.add(["Talk"]);
    // More than every pipe and the mailbox can hold, and then it would stay.
    let batch = format!("{}touch talked-", format!("say {}\n", "x".repeat(900)).repeat(20));
    let mut script: String = (0..200).map(|number| format!("{batch}{number}\n")).collect();
    script.push_str("wait-file never");
    let mut command = project.ralph_playing(&[&script], ["run", "--no-verify", "-H"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stalled = child.stdout.take().unwrap();
    let talked = |number: u32| project.root().join(format!("talked-{number}")).exists();
    let mut number = 0;
    let mut last_heard = Instant::now();
    // If the agent is only slow, the reader goes away a little early, which must work as well.
    while number == 0 || last_heard.elapsed() < Duration::from_secs(1) {
        if talked(number) {
            (number, last_heard) = (number + 1, Instant::now());
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(number < 200, "the agent was never held up");
    drop(stalled);
    let deadline = Instant::now() + DEADLINE;
    let status = wait_until(deadline, || child.try_wait().unwrap());
    let Some(status) = status else {
        let _ = child.kill();
        panic!("the session goes on without a reader");
    };
    assert_eq!(status.code(), Some(130));
    let task = project.show(&task);
    assert_eq!(task["status"], "pending", "{task}");
    let attempt = &task["history"][0];
    assert_eq!(attempt["outcome"], "interrupted", "{task}");
    assert_eq!(attempt["reason"], "the reader of the output is gone", "{task}");
    project.assert_nothing_left();
    check_rules(&project);
}

#[test]
fn a_run_that_was_over_keeps_its_exit_code_without_a_reader() {
    for (script, code) in [("done", 0), ("block Red or blue?", 4)] {
        let project = Project::new();
        tasks(&project, 1);
        let arguments = ["run", "--no-verify", "--format", "json"];
        let mut command = project.ralph_playing(&[script], arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        assert_eq!(without_remarks(&String::from_utf8_lossy(&output.stderr)), "", "{script}");
    }
}

/// Reads one line of what a command prints and then closes the pipe.
fn read_one_line(mut command: Command) -> std::process::Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    child.wait_with_output().unwrap()
}

// What breaks off a run.

/// The lines of a run that prints events, as JSON.
#[track_caller]
fn printed(output: &Output) -> Vec<Value> {
    let lines = output.stdout();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that these events end with a fatal error and the end of the run, and that each iteration that
/// began has ended.
#[track_caller]
fn assert_told(events: &[Value], message: &str) {
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("iteration_start"), count("iteration_end"), "{events:?}");
    let [.., error, complete] = events else { panic!("{events:?}") };
    assert_eq!((&error["type"], &error["fatal"]), (&"error".into(), &true.into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    assert_eq!(complete["type"], "complete", "{complete}");
    assert_failed(complete, message);
}

#[track_caller]
fn assert_failed(summary: &Value, message: &str) {
    assert_eq!((&summary["outcome"], &summary["exit_code"]), (&"error".into(), &1.into()));
    assert!(summary["message"].as_str().unwrap().contains(message), "{summary}");
}

/// A command whose agent is gone after its first session.
fn with_an_agent_that_vanishes(project: &Project, arguments: &[&str]) -> Command {
    let agent = project.base().join("agent");
    std::os::unix::fs::symlink(FAKE_CLAUDE, &agent).unwrap();
    let script = format!("run rm {} | done", agent.display());
    let mut command = project.ralph_playing(&[&script], arguments);
    command.env("RALPH_AGENT_COMMAND", agent);
    command
}

#[test]
fn an_error_that_ends_a_run_is_the_last_thing_but_one_that_is_told() {
    let told = "was not found";
    for arguments in [&["run", "--no-verify"][..], &["loop", "-a", "3", "hello"]] {
        let project = Project::new();
        tasks(&project, 3);
        project.write(".ralph.toml", "[loop]\npause_secs = 0");
        let arguments = [arguments, &["--format", "jsonl"]].concat();
        let output = project.run(with_an_agent_that_vanishes(&project, &arguments), None);
        assert!(output.fails(1).contains(told));
        let events = printed(&output);
        assert_told(&events, told);
        let complete = events.last().unwrap();
        assert_eq!((&complete["iterations"], &complete["cost_usd"]), (&2.into(), &0.01.into()));
        let ends: Vec<&Value> = events.iter().filter(|it| it["type"] == "iteration_end").collect();
        assert_eq!(ends[1]["outcome"], "interrupted");
        assert!(ends[1]["reason"].as_str().unwrap().contains(told), "{}", ends[1]);
        if arguments[0] == "run" {
            assert_eq!(complete["tasks"]["done"], 1);
            assert_eq!(ends[1]["status"], "pending");
        }
        project.assert_nothing_left();
    }
}

#[test]
fn an_error_that_ends_a_run_is_in_its_summary() {
    let project = Project::new();
    tasks(&project, 3);
    let arguments = ["run", "--no-verify", "--format", "json"];
    let output = project.run(with_an_agent_that_vanishes(&project, &arguments), None);
    assert!(output.fails(1).contains("was not found"));
    let summary: Value = serde_json::from_str(&output.stdout()).unwrap();
    assert_failed(&summary, "was not found");
    assert_eq!(summary["tasks"]["done"], 1, "{summary}");
}

#[test]
fn an_error_before_a_session_is_told_like_any_other() {
    for (settings, arguments, message) in [
        ("log_dir = \"occupied\"", &["run"][..], "occupied"),
        ("log_dir = \"occupied\"", &["loop", "-a", "3", "hello"], "occupied"),
        ("", &["run", "t-zzzzzz"], "t-zzzzzz"),
        ("", &["loop", "-a", "3"], "prompt.md"),
        ("nonsense = 1", &["run"], "nonsense"),
        ("nonsense = 1", &["loop", "-a", "3", "hello"], "nonsense"),
    ] {
        let project = Project::new();
        tasks(&project, 1);
        project.write("occupied", "");
        project.write(".ralph.toml", settings);
        let lines = [arguments, &["--format", "jsonl"]].concat();
        let output = project.run(project.ralph_with("done", lines), None);
        assert!(output.fails(1).contains(message), "{output:?}");
        assert_told(&printed(&output), message);
        let one = [arguments, &["--format", "json"]].concat();
        let output = project.run(project.ralph_with("done", one), None);
        assert!(output.fails(1).contains(message), "{output:?}");
        assert_failed(&serde_json::from_str(&output.stdout()).unwrap(), message);
    }
}

#[test]
fn a_person_is_notified_of_an_error_that_ends_a_run() {
    for format in ["jsonl", "json", "text"] {
        let project = Project::new();
        tasks(&project, 2);
        let notify = "echo \"$RALPH_EVENT: $RALPH_MESSAGE\" >>notified";
        project.write(".ralph.toml", format!("[notify]\ncommand = '{notify}'"));
        let arguments = ["run", "--no-verify", "--format", format];
        let output = project.run(with_an_agent_that_vanishes(&project, &arguments), None);
        output.fails(1);
        let notified = fs::read_to_string(project.root().join("notified")).unwrap();
        let is_told = notified.starts_with("error: ") && notified.contains("was not found");
        assert!(is_told && notified.lines().count() == 1, "{format}: {notified}");
    }
}

// On a terminal.

#[test]
fn the_status_line_stays_at_the_bottom_and_is_gone_in_the_end() {
    let project = Project::new();
    project.add(["Write the parser"]);
    let go = project.base().join("go");
    let lines: String = (0..40).map(|number| format!("line {number}\\n")).collect();
    let script = format!("say {lines}the end of it | wait-file {} | done", go.display());
    let command = project.ralph_playing(&[&script], ["run", "--no-verify"]);
    let mut terminal = Terminal::sized(&command, 12, 60);
    terminal.wait_for("the end of it").wait_for("► t-");
    let screen = terminal.screen();
    let last = screen.lines().last().unwrap();
    assert!(last.starts_with("► t-") && last.contains("Write the parser  0/1 · "), "{screen}");
    assert!(screen.contains("line 39"), "{screen}");
    fs::write(go, "").unwrap();
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains('►'), "{screen}");
    assert!(screen.trim_end().ends_with("everything is done"), "{screen}");
    assert!(terminal.is_sane());
    project.assert_nothing_left();
}

#[test]
fn the_key_p_holds_a_run_and_lets_it_go_on() {
    let project = Project::new();
    tasks(&project, 2);
    let go = project.base().join("go");
    let first = format!("say ready | wait-file {} | done", go.display());
    let command = project.ralph_playing(&[&first, "done"], ["run", "--no-verify"]);
    let mut terminal = Terminal::start(&command);
    terminal.wait_for("ready").press("p");
    let pause = project.root().join(".ralph-pause");
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    crate::harness::wait_until(deadline, || pause.exists().then_some(())).unwrap();
    fs::write(go, "").unwrap();
    terminal.wait_for("‖ paused").press("p");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(!pause.exists());
    project.assert_nothing_left();
}

#[test]
fn a_countdown_shows_how_long_it_will_take() {
    let project = Project::new();
    tasks(&project, 1);
    let in_an_hour =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
            + 3600;
    let script = format!("limit five_hour {in_an_hour}");
    let command = project.ralph_playing(&[&script], ["run", "--no-verify"]);
    let mut terminal = Terminal::sized(&command, 24, 100);
    terminal.wait_for("◷ waiting for the API until ").wait_for("59:5");
    terminal.press("\x03");
    assert_eq!(terminal.finish().0, 130);
    project.assert_nothing_left();
}

#[test]
fn a_person_is_asked_about_what_failed_before() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    for (answer, code) in [("n\n", 1), ("y\n", 0)] {
        project.ralph(["task", "fail", &task, "-r", "no"]).ok();
        let command = project.ralph_playing(&["done"], ["run", "--no-verify"]);
        let mut terminal = Terminal::start(&command);
        terminal
            .wait_for("1 task failed in an earlier run. Reset and try again? [y/N]")
            .press(answer);
        let (exit, screen) = terminal.finish();
        assert_eq!(exit, code, "{screen}");
    }
    project.assert_nothing_left();
}

#[test]
fn a_narrow_terminal_is_wide_enough() {
    let project = Project::new();
    project.add(["A task with a title that is longer than the screen is wide"]);
    let script = "say A long line that goes on and on and on | tool Bash {\"command\": \"echo a long command\"} | done";
    let command = project.ralph_playing(&[script], ["run", "--no-verify"]);
    let mut terminal = Terminal::sized(&command, 30, 30);
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("everything is done"), "{screen}");
}
