//! The JSON of events is a promise, and `docs/events.md` says what is promised.

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::dag::{Bill, Billing, Outcome, Status, Tokens};
use crate::time::Timestamp;

const DOCUMENT: &str = include_str!("../../docs/events.md");

/// The text under each heading.
fn sections() -> BTreeMap<&'static str, &'static str> {
    DOCUMENT
        .split("\n## ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect()
}

/// One of every kind; what is optional is there.
fn with_every_event(mut check: impl FnMut(&Event<'_>)) {
    let (task, attempt_id) = ("t-3f9a01".parse().unwrap(), "a-3f9a01".parse().unwrap());
    let at = Timestamp::from_epoch(1_794_798_343).unwrap();
    let said = || Said { iteration: 1, from: Speaker::Subagent, verifying: false, text: "x" };
    let diff = Diff { commits: 1, files: 1, insertions: 1, deletions: 1 };
    let progress = Progress { total: 1, done: 1, failed: 0, blocked: 0, in_progress: 0 };
    let input = serde_json::value::to_raw_value(&serde_json::json!({ "command": "ls" })).unwrap();
    let result = TaskResult {
        task,
        title: "x".into(),
        attempts: 1,
        outcome: Outcome::Done,
        status: Status::Done,
        reason: Some("x".into()),
        bill: Bill { cost_usd: 0.5, ..Bill::default() },
        duration_secs: 0.5,
    };
    let summary = Summary {
        outcome: "done",
        exit_code: 0,
        message: "x".into(),
        next: Some("x".into()),
        tasks: progress,
        iterations: 1,
        results: vec![result],
        diff,
        bill: Bill {
            cost_usd: 0.5,
            tokens: Tokens { input: 1, cache_read: 2, cache_write: 3, output: 4 },
            billing: Some(Billing::Api),
        },
        duration_secs: 0.5,
    };
    check(&Event::Start(Start {
        version: "1",
        project: "/p",
        command: RunCommand::Loop,
        target: Some("x"),
        mode: Mode::Afk,
        plan: Some("x"),
        loop_id: Some("x"),
        done: 0,
        total: 1,
        max_iterations: Some(1),
        max_seconds: Some(1),
        max_cost_usd: Some(1.0),
        sandbox: "none",
    }));
    check(&Event::IterationStart(IterationStart {
        iteration: 1,
        task: Some(task),
        title: "x",
        attempt: 1,
        attempt_id: Some(attempt_id),
        model: "x",
        hinted: false,
        done: 0,
        total: 1,
        elapsed_secs: 0.5,
        cost_usd: 0.5,
        log: "x",
    }));
    check(&Event::Text(said()));
    check(&Event::Reasoning(said()));
    check(&Event::Tool(ToolUse {
        iteration: 1,
        from: Speaker::Agent,
        verifying: false,
        name: "Bash",
        input: Some(&input),
    }));
    check(&Event::ToolError(ToolFailure {
        iteration: 1,
        from: Speaker::Agent,
        verifying: true,
        error: "x",
    }));
    check(&Event::Verify(Verify {
        iteration: 1,
        task: Some(task),
        by: Verifier::Command("cargo test"),
        status: VerifyStatus::Failed,
        reason: Some("x"),
        log: Some("x"),
    }));
    check(&Event::IterationEnd(IterationEnd {
        iteration: 1,
        task: Some(task),
        attempt_id: Some(attempt_id),
        outcome: Outcome::Failed,
        reason: Some("x"),
        status: Some(Status::Pending),
        model: "x",
        duration_secs: 0.5,
        bill: Bill {
            cost_usd: 0.5,
            tokens: Tokens { input: 1, cache_read: 2, cache_write: 3, output: 4 },
            billing: Some(Billing::Api),
        },
        turns: 1,
        log: "x",
    }));
    check(&Event::Stats(Stats {
        iteration: 1,
        head: Some("x"),
        diff,
        salvage: Some("x"),
        salvaged: Some(Left::Both),
        pushed: true,
    }));
    check(&Event::Progress(progress));
    check(&Event::LimitWait(LimitWait { reason: "x", until: at, seconds: 1 }));
    check(&Event::Pause);
    check(&Event::Resume);
    check(&Event::Idle(Idle { reason: "x", until: Some(at) }));
    check(&Event::Error(Problem { message: "x", fatal: true }));
    check(&Event::Complete(&summary));
}

fn json(event: &Event<'_>) -> Value {
    let ts = Timestamp::from_epoch(1_794_798_343).unwrap();
    let run = "r-3f9a01".parse().unwrap();
    serde_json::to_value(Stamped { ts, run: Some(run), event }).unwrap()
}

#[test]
fn every_event_and_every_field_is_documented_and_nothing_else() {
    let mut sections = sections();
    with_every_event(|event| {
        let json = json(event);
        let kind = json["type"].as_str().unwrap().to_owned();
        let text = sections.remove(&*kind).unwrap_or_else(|| panic!("no section on {kind}"));
        let mut fields: Vec<String> = json.as_object().unwrap().keys().cloned().collect();
        fields.extend(
            json["results"]
                .as_array()
                .into_iter()
                .flatten()
                .flat_map(|result| result.as_object().unwrap().keys().cloned().collect::<Vec<_>>()),
        );
        for field in fields.iter().filter(|it| !["type", "ts", "run"].contains(&it.as_str())) {
            assert!(text.contains(&format!("`{field}`")), "{kind} lacks `{field}`");
        }
        for cell in text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next()) {
            for field in cell.split(", ").map(|it| it.trim_matches('`')) {
                assert!(fields.iter().any(|it| it == field), "{kind} has no `{field}`");
            }
        }
    });
    assert!(sections.is_empty(), "there are no events {:?}", sections.keys());
}

#[test]
fn an_event_is_one_line_with_its_type_time_and_run() {
    with_every_event(|event| {
        let json = json(event);
        assert_eq!(json["ts"], "2026-11-16T03:05:43.000Z");
        assert_eq!(json["run"], "r-3f9a01");
        assert!(!json.to_string().contains('\n'));
    });
}
