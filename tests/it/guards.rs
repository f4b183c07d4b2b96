//! What keeps a run from spending money for nothing.
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::harness::{Output, Project, check_rules};

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
