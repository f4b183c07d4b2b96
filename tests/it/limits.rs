//! What a run does when the API refuses. In the program these tests run, every wait is over at once.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::harness::{Output, Project, check_rules};

/// `ralph run` in a time in which every wait is over at once.
fn clocked(project: &Project, scripts: &[&str], arguments: &[&str]) -> Command {
    let playing = project.ralph_playing(scripts, [""; 0]);
    let mut command = project.command(env!("CARGO_BIN_EXE_ralph-clocked"));
    command.envs(playing.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["run", "--no-verify", "--format", "jsonl"]).args(arguments);
    command
}

fn run(project: &Project, scripts: &[&str], arguments: &[&str]) -> (Output, Vec<Value>) {
    let output = project.run(clocked(project, scripts, arguments), None);
    project.assert_nothing_left();
    check_rules(project);
    let events = output.stdout().lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    (output, events)
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn in_seconds(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + seconds
}

/// A project with one task.
fn one_task() -> Project {
    let project = Project::new();
    project.add(["Do it"]);
    project
}

#[test]
fn a_usage_limit_is_waited_for_and_costs_no_retry() {
    for (window, hours) in [("five_hour", 4), ("seven_day", 100)] {
        let project = one_task();
        let limit = format!("limit {window} {}", in_seconds(hours * 3600));
        let (output, events) = run(&project, &[&limit, &limit, "done"], &["--max-retries", "0"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let waits = of_type(&events, "limit_wait");
        assert_eq!(waits.len(), 2, "{output:?}");
        assert_eq!(waits[0]["reason"], "the usage limit is reached");
        let seconds = waits[0]["seconds"].as_i64().unwrap();
        assert!((hours * 3600 - 60..=hours * 3600 + 60).contains(&seconds), "{seconds}");
        let outcomes: Vec<&Value> =
            of_type(&events, "iteration_end").iter().map(|it| &it["outcome"]).collect();
        assert_eq!(outcomes, ["limited", "limited", "done"]);
        assert_eq!(project.ralph(["task", "list", "--json"]).json()[0]["retries"], 0);
    }
}

/// How long was waited each time. Of a pause, some seconds may be over before a busy machine tells of it.
fn pauses(events: &[Value]) -> Vec<u64> {
    let waits = of_type(events, "limit_wait");
    waits.iter().map(|it| it["seconds"].as_u64().unwrap().next_multiple_of(30)).collect()
}

#[test]
fn a_limit_without_a_time_is_met_with_growing_pauses() {
    let project = one_task();
    let refusal = "error 429 rate_limit You've hit your session limit";
    let (output, events) = run(&project, &[refusal, refusal, refusal, "done"], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(pauses(&events), [300, 600, 900]);
}

#[test]
fn overload_failures_and_a_dead_line_are_waited_out() {
    for (refusal, reason) in [
        ("error 529 overloaded Overloaded", "the API is overloaded"),
        ("error 500 server_error Oops", "the API failed with status 500"),
        ("error 429 rate_limit Slow down", "too many requests at a time"),
        (
            &replayed("err_refused"),
            "the API could not be reached: Connection refused — a firewall or proxy may be \
             blocking it (ECONNREFUSED)",
        ),
        (&replayed("err_529"), "the API is overloaded"),
        (&replayed("err_429_retry_after_3600"), "too many requests at a time"),
        (&replayed("err_500"), "the API failed with status 500"),
    ] {
        let project = one_task();
        let (output, events) = run(&project, &[refusal, refusal, "done"], &["--max-retries", "0"]);
        assert_eq!(output.status.code(), Some(0), "{refusal}: {output:?}");
        let waits = of_type(&events, "limit_wait");
        assert_eq!(waits[0]["reason"], reason, "{refusal}");
        assert_eq!(pauses(&events), [30, 60], "{refusal}");
    }
}

/// A script that plays a capture of the real program and fails as it did.
fn replayed(capture: &str) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stream");
    format!("replay {fixtures}/{capture}.ndjson | exit 1")
}

#[test]
fn a_real_limit_is_recognised() {
    let project = one_task();
    for capture in ["limit_rejected_5h", "limit_rejected_7d", "limit_rejected_midrun"] {
        let (_, events) = run(&project, &[&replayed(capture)], &["--limit", "1"]);
        assert_eq!(of_type(&events, "iteration_end")[0]["outcome"], "limited", "{capture}");
        assert_eq!(
            of_type(&events, "limit_wait")[0]["reason"],
            "the usage limit is reached",
            "{capture}"
        );
    }
}

#[test]
fn a_wrong_key_and_no_credit_stop_the_run_at_once() {
    for (refusal, reason) in [
        (
            "error 401 authentication_failed Invalid key".to_owned(),
            "the API key or login was not accepted",
        ),
        (replayed("err_403"), "the API key or login was not accepted"),
        (replayed("err_400_credit"), "there is no credit left"),
        (replayed("err_404"), "there is no model `claude-opus-5-5` for this account"),
    ] {
        let project = one_task();
        let (output, events) = run(&project, &[&refusal], &[]);
        assert_eq!(output.status.code(), Some(1), "{refusal}: {output:?}");
        assert!(of_type(&events, "limit_wait").is_empty());
        assert_eq!(of_type(&events, "complete")[0]["message"], reason);
        assert_eq!(of_type(&events, "error")[0]["fatal"], true);
        let task = &project.ralph(["task", "list", "--json"]).json()[0];
        assert_eq!((&task["status"], &task["retries"]), (&"pending".into(), &0.into()));
    }
}

#[test]
fn a_cap_on_one_model_moves_the_run_to_another() {
    let project = one_task();
    let cap = format!("limit seven_day_sonnet {}", in_seconds(3600));
    let (output, events) = run(&project, &[&cap, "done"], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(of_type(&events, "limit_wait").is_empty(), "{output:?}");
    let models: Vec<&Value> =
        of_type(&events, "iteration_start").iter().map(|it| &it["model"]).collect();
    assert_eq!(models, ["sonnet", "opus"]);
    // Unless the model is fixed: then it is waited for.
    let project = one_task();
    let (output, events) = run(&project, &[&cap, "done"], &["--model", "sonnet"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(of_type(&events, "limit_wait").len(), 1);
}

#[test]
fn a_wait_ends_with_the_time_of_the_run() {
    let project = one_task();
    let limit = format!("limit five_hour {}", in_seconds(4 * 3600));
    let (output, events) = run(&project, &[&limit, "done"], &["--max-time", "1h"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(of_type(&events, "complete")[0]["message"], "the limit on time was reached");
    assert!(of_type(&events, "complete")[0]["duration_secs"].as_f64().unwrap() >= 3600.0);
    assert_eq!(project.ralph(["task", "list", "--json"]).json()[0]["status"], "pending");
}

#[test]
fn a_verifier_that_is_refused_is_asked_again_and_the_work_is_not_repeated() {
    let project = one_task();
    let limit = format!("limit five_hour {}", in_seconds(600));
    let mut command = clocked(&project, &["done", &limit, "say <verify-pass/>"], &[]);
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let environment: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = project.command(env!("CARGO_BIN_EXE_ralph-clocked"));
    command.envs(environment).args(arguments.iter().filter(|it| *it != "--no-verify"));
    let output = project.run(command, None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let task =
        project.ralph(["task", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    let history = project.show(&task)["history"].clone();
    assert_eq!(history.as_array().unwrap().len(), 1);
    assert_eq!(history[0]["verification_status"], "passed");
}

#[test]
fn a_success_ends_the_growth_of_the_pauses() {
    let project = Project::new();
    project.add_lines("{\"title\": \"T\"}\n".repeat(2));
    let refusal = "error 529 overloaded Overloaded";
    let (_, events) = run(&project, &[refusal, refusal, "done", refusal, "done"], &[]);
    assert_eq!(pauses(&events), [30, 60, 30]);
}

#[test]
fn a_verifier_that_comes_to_nothing_costs_the_task_nothing() {
    let project = one_task();
    let broken = "say hm | result-error error_max_turns max_turns";
    let task =
        || project.ralph(["task", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    // Twice it may come to nothing, and a run that stops then leaves the task as it was.
    let scripts = ["done", broken, broken, broken];
    let output = project.run(project.ralph_playing(&scripts, ["run", "--max-retries", "0"]), None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = project.show(&task());
    assert_eq!((&shown["status"], &shown["retries"]), (&"pending".into(), &0.into()), "{shown}");
    let reason = shown["history"][0]["reason"].as_str().unwrap();
    assert!(reason.ends_with("could not be verified: the limit on turns was reached"), "{reason}");
    let scripts = ["done", broken, "say fine", broken, "say <verify-pass/>"];
    let output = project.run(project.ralph_playing(&scripts, ["run", "--max-retries", "0"]), None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(project.show(&task())["history"].as_array().unwrap().len(), 2);
}

#[test]
fn silence_after_the_api_was_asked_is_that_of_the_api() {
    let asked =
        r#"no-result | raw {"type":"system","subtype":"status","status":"requesting"} | hang"#;
    let project = one_task();
    project.write(".ralph.toml", "[agent]\nsilence_timeout_secs = 2\n");
    let scripts = [asked, "done", asked, "say <verify-pass/>"];
    let mut command = project.command(env!("CARGO_BIN_EXE_ralph-clocked"));
    let playing = project.ralph_playing(&scripts, ["run", "--format", "jsonl"]);
    command.envs(playing.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(playing.get_args()).args(["--max-retries", "0"]);
    let output = project.run(command, None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let events: Vec<Value> =
        output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let waits = of_type(&events, "limit_wait");
    let reasons: Vec<&Value> = waits.iter().map(|it| &it["reason"]).collect();
    assert_eq!(reasons, ["the API was asked and did not answer"; 2], "{output:?}");
    let ends = of_type(&events, "iteration_end");
    let outcomes: Vec<&Value> = ends.iter().map(|it| &it["outcome"]).collect();
    assert_eq!(outcomes, ["limited", "done"], "{output:?}");
}
