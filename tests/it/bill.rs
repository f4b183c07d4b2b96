//! What sessions cost, with an agent that says what it uses: also when it never comes to say what it costs.

use std::fs;

use serde_json::{Value, json};

use crate::harness::Project;
#[cfg(target_os = "linux")]
use crate::harness::{DEADLINE, assert_no_process_left, wait_until};
#[cfg(target_os = "linux")]
use crate::terminal::Terminal;

/// A message of so many tokens, as it is streamed. A million of them cost 20 dollars.
fn message(id: &str, output_tokens: u64) -> String {
    let usage = |output: u64| json!({ "input_tokens": 0, "output_tokens": output });
    let start = json!({ "type": "message_start", "message": {
        "id": id, "model": "claude-opus-5-5", "usage": usage(1),
    } });
    let end = json!({ "type": "message_delta", "usage": usage(output_tokens) });
    let line = |event: Value| format!("raw {}", json!({ "type": "stream_event", "event": event }));
    format!("{} | {}", line(start), line(end))
}

/// Says something of which nothing is said that it costs.
fn words(text: &str) -> String {
    let message = json!({ "id": "w", "model": "x", "content": [{ "type": "text", "text": text }] });
    format!("raw {}", json!({ "type": "assistant", "message": message }))
}

fn status(project: &Project) -> Value {
    project.ralph(["status", "--json"]).json()
}

/// The sessions that are recorded, oldest first.
fn sessions(project: &Project) -> Vec<Value> {
    let export = project.export();
    let records = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|it| it["type"] == "session").collect()
}

#[test]
fn a_session_that_dies_has_cost_what_it_streamed_and_the_limit_counts_that() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let (begin, more) = (message("a", 50_000), message("b", 10_000));
    let script = format!("{begin} | {} | {more} | no-result | exit 1", words("I begin."));
    let run = ["run", "--no-verify", "--headless", "--max-cost", "1"];
    let output = project.run(project.ralph_with(&script, run), None);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let history = project.show(&task)["history"].clone();
    assert_eq!(history.as_array().unwrap().len(), 1, "{history:#}");
    assert_eq!(
        (&history[0]["cost_usd"], &history[0]["output_tokens"]),
        (&json!(1.2), &json!(60_000))
    );
    assert_eq!(status(&project)["cost_usd"], 1.2);
}

#[test]
fn a_run_that_is_killed_leaves_the_cost_of_its_session_in_the_log() {
    let project = Project::new();
    project.add(["Do it"]);
    let script = format!("{} | {} | hang", message("a", 50_000), words("ready"));
    let mut run = project.start(project.ralph_with(&script, ["run", "--no-verify"]));
    while !run.next_line().expect("it goes on").contains("ready") {}
    run.kill();
    for _ in 0..2 {
        let status = status(&project);
        assert_eq!(status["cost_usd"], 1.0, "{status:#}");
    }
}

#[test]
fn verification_is_a_session_of_its_own_and_in_the_cost_of_its_attempt() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let scripts = ["cost 0.5 | done", "cost 0.25 | say <verify-pass/>"];
    project.run(project.ralph_playing(&scripts, ["run", "--headless"]), None).ok();
    let kinds: Vec<(Value, Value)> =
        sessions(&project).iter().map(|it| (it["kind"].clone(), it["cost_usd"].clone())).collect();
    assert_eq!(kinds, [(json!("work"), json!(0.5)), (json!("verify"), json!(0.25))]);
    assert_eq!(project.show(&task)["history"][0]["cost_usd"], 0.75);
    let expected =
        json!({ "work": 0.5, "verify": 0.25, "build": 0.0, "interview": 0.0, "loop": 0.0 });
    assert_eq!(status(&project)["costs"], expected);
    let shown = project.ralph(["status"]).stdout();
    assert!(shown.contains("cost $0.75 (work $0.50, verification $0.25)"), "{shown}");
    // What was paid stays paid.
    project.ralph(["task", "delete", &task, "--yes"]).ok();
    assert_eq!(status(&project)["cost_usd"], 0.75);
}

#[test]
fn a_build_is_recorded_with_its_feature() {
    let project = Project::new();
    project.write_feature("login", "# Spec", "# Plan");
    let script = "cost 0.3 | run ralph task add One --feature login | result";
    project.run(project.ralph_with(script, ["feature", "build", "login"]), None);
    let sessions = sessions(&project);
    assert_eq!((sessions.len(), &sessions[0]["kind"]), (1, &json!("build")), "{sessions:#?}");
    assert_eq!(sessions[0]["cost_usd"], 0.3);
    assert!(sessions[0]["feature"].is_string() && sessions[0]["log_path"].is_string());
    assert_eq!(status(&project)["costs"]["build"], 0.3);
}

#[test]
fn what_a_subscription_covers_is_not_shown_as_charged() {
    let begin =
        json!({ "type": "system", "subtype": "init", "apiKeySource": "none", "model": "x" });
    for (token, billing, shown) in [
        (None, "subscription", "≈ $0.60 at API prices"),
        // A gateway charges by use, and the agent does not tell it from a login.
        (Some("x"), "api", "$0.60"),
    ] {
        let project = Project::new();
        let task = project.add(["Do it"]);
        let script = format!("raw {begin} | cost 0.6 | done");
        let mut command = project.ralph_with(&script, ["run", "--no-verify", "--headless"]);
        token.map(|token| command.env("ANTHROPIC_AUTH_TOKEN", token));
        let output = project.run(command, None).ok();
        assert!(output.contains(shown), "{output}");
        assert_eq!(output.contains("at API prices"), billing == "subscription", "{output}");
        assert_eq!(project.show(&task)["history"][0]["billing"], billing);
        assert_eq!(status(&project)["billing"], billing);
    }
}

#[test]
fn no_verifier_is_started_that_could_not_be_paid() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let run = ["run", "--headless", "--max-cost", "1"];
    let output = project.run(project.ralph_playing(&["cost 3 | done"], run), None);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(status(&project)["cost_usd"], 3.0);
    assert_eq!(project.show(&task)["history"][0]["outcome"], "limited");
}

/// What each session has cost that is recorded, by its kind.
fn spent(project: &Project) -> Vec<(String, Value)> {
    let kind = |it: &Value| it["kind"].as_str().unwrap().to_owned();
    sessions(project).iter().map(|it| (kind(it), it["cost_usd"].clone())).collect()
}

#[test]
fn a_verifier_that_is_killed_with_its_run_is_in_the_bill() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let verifier = format!("{} | {} | hang", message("a", 50_000), words("I look."));
    let scripts = ["cost 0.5 | done", &verifier];
    let mut run = project.start(project.ralph_playing(&scripts, ["run"]));
    while !run.next_line().expect("it goes on").contains("I look.") {}
    run.kill();
    run.finish();
    for _ in 0..2 {
        let status = status(&project);
        assert_eq!(
            (&status["costs"]["work"], &status["costs"]["verify"]),
            (&json!(0.5), &json!(1.0))
        );
        assert_eq!(project.show(&task)["history"][0]["cost_usd"], 1.5);
    }
    let expected = [("work".to_owned(), json!(0.5)), ("verify".to_owned(), json!(1.0))];
    assert_eq!(spent(&project), expected);
}

#[test]
fn a_build_that_is_killed_is_in_the_bill() {
    let project = Project::new();
    project.write_feature("login", "# Spec", "# Plan");
    let script = format!("{} | {} | hang", message("a", 50_000), words("I begin."));
    let mut build = project.start(project.ralph_with(&script, ["feature", "build", "login"]));
    while !build.next_line().expect("it goes on").contains("I begin.") {}
    assert_eq!(status(&project)["cost_usd"], 0.0, "it goes on");
    build.kill();
    build.finish();
    assert_eq!(status(&project)["costs"]["build"], 1.0);
    assert_eq!(spent(&project), [("build".to_owned(), json!(1.0))]);
}

/// Has a scripted agent write what it has used into its transcript, as Claude Code does.
#[cfg(target_os = "linux")]
fn transcribed(project: &Project) -> String {
    let directory = project.base().join("home/.claude/projects/x");
    fs::create_dir_all(&directory).unwrap();
    let line = json!({ "type": "assistant", "isSidechain": false, "message": {
        "id": "m", "model": "claude-opus-5-5", "usage": { "input_tokens": 0, "output_tokens": 50_000 },
    } });
    fs::write(project.base().join("line"), format!("{line}\n")).unwrap();
    let (arguments, directory) = (project.base().join("arguments"), directory.display());
    format!(
        "save-args {0} | run cp ../line {directory}/$(sed -n '/--session-id/{{n;p}}' {0}).jsonl; \
         touch ../transcribed",
        arguments.display()
    )
}

#[test]
#[cfg(target_os = "linux")]
fn an_interview_that_is_killed_is_in_the_bill() {
    let project = Project::new();
    let script = format!("{} | hang", transcribed(&project));
    let mut terminal = Terminal::start(&project.ralph_with(&script, ["feature", "spec", "login"]));
    let is_there = || project.base().join("transcribed").exists().then_some(());
    wait_until(std::time::Instant::now() + DEADLINE, is_there).expect("it has begun");
    terminal.signal(rustix::process::Signal::KILL);
    terminal.finish();
    assert_no_process_left(&project);
    assert_eq!(status(&project)["costs"]["interview"], 1.0);
    assert_eq!(spent(&project), [("interview".to_owned(), json!(1.0))]);
}

#[test]
fn sessions_of_a_loop_are_in_the_bill_of_their_project() {
    let project = Project::new();
    assert_eq!(status(&project)["cost_usd"], 0.0);
    let scripts = ["cost 0.25 | say one", "cost 0.5 | say two"];
    let mut command = project.ralph_playing(&scripts, ["loop", "-a", "2", "go on"]);
    command.env("RALPH_LOOP_PAUSE_SECS", "0");
    project.run(command, None);
    let expected = [("loop".to_owned(), json!(0.25)), ("loop".to_owned(), json!(0.5))];
    assert_eq!(spent(&project), expected);
    let status = status(&project);
    assert_eq!((&status["cost_usd"], &status["costs"]["loop"]), (&json!(0.75), &json!(0.75)));
    let recorded = &sessions(&project)[0];
    assert!(recorded["log_path"].is_string() && recorded["run"].is_string(), "{recorded:#}");
    project.add(["Do it"]);
    project.run(project.ralph_with("cost 0.5 | done", ["run", "--no-verify"]), None);
    let shown = project.ralph(["status"]).stdout();
    assert!(shown.contains("cost $1.25 (work $0.50, loops $0.75)"), "{shown}");
}

#[test]
fn a_loop_that_is_killed_is_in_the_bill_of_its_project() {
    let project = Project::new();
    assert_eq!(status(&project)["cost_usd"], 0.0);
    let script = format!("{} | {} | hang", message("a", 50_000), words("I begin."));
    let mut killed = project.start(project.ralph_with(&script, ["loop", "-a", "2", "go on"]));
    while !killed.next_line().expect("it goes on").contains("I begin.") {}
    killed.kill();
    killed.finish();
    assert_eq!(status(&project)["costs"]["loop"], 1.0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_session_of_a_loop_at_the_terminal_is_in_the_bill() {
    let project = Project::new();
    assert_eq!(status(&project)["cost_usd"], 0.0);
    let script = transcribed(&project);
    let (_, screen) =
        Terminal::start(&project.ralph_with(&script, ["loop", "1", "go on"])).finish();
    assert!(screen.contains("$1.00"), "{screen}");
    assert_eq!(status(&project)["costs"]["loop"], 1.0);
}

#[test]
fn a_loop_without_a_project_records_nothing_and_makes_nothing() {
    let project = Project::bare();
    let output =
        project.run(project.ralph_with("cost 0.5 | say one", ["loop", "-a", "1", "go"]), None);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let left: Vec<_> =
        fs::read_dir(project.root()).unwrap().flatten().map(|it| it.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}
