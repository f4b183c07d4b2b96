//! What sessions cost: what ralph says is what Claude Code itself says, and where that says nothing, what
//! it has streamed counts.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::{Answer, Request, Role, agent, bash, say};
use crate::install::{OLDER, PINNED};
use crate::interrupts::{signal, wait_for_file};
use crate::rig::Rig;
use crate::run::done;
use crate::shown;

/// Half of the least amount that is told apart.
const NOISE: f64 = 5e-7;

/// Asserts that each session has cost what Claude Code has said, if it has; that an attempt has cost what
/// its sessions have; and that the status sums all of them. Returns of how many sessions Claude Code has
/// said it.
#[track_caller]
pub(crate) fn assert_adds_up(rig: &Rig) -> usize {
    let export = rig.project.export();
    let records: Vec<Value> =
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_type = |kind: &'static str| records.iter().filter(move |it| it["type"] == kind);
    let home = rig.project.base().join("home/.claude");
    let mut told = 0;
    for session in of_type("session") {
        let log = session["log_path"].as_str().map(Path::new);
        let said = log.and_then(said_in_log).or_else(|| said_in_transcript(&home, session));
        let cost = session["cost_usd"].as_f64().unwrap();
        told += usize::from(said.is_some());
        match said {
            Some((said, false)) => assert!((cost - said).abs() < NOISE, "{said}: {session:#}"),
            // What was cut off is not in what it says.
            Some((said, true)) => assert!(cost > said - NOISE, "{said}: {session:#}"),
            None => {}
        }
    }
    let sum = |sessions: &mut dyn Iterator<Item = &Value>| -> f64 {
        sessions.filter_map(|it| it["cost_usd"].as_f64()).sum()
    };
    for attempt in of_type("attempt").filter(|it| it["cost_usd"].is_number()) {
        let parts = sum(&mut of_type("session").filter(|it| it["attempt"] == attempt["id"]));
        assert!((attempt["cost_usd"].as_f64().unwrap() - parts).abs() < NOISE, "{attempt:#}");
    }
    let status = rig.project.ralph(["status", "--json"]).json();
    let total = status["cost_usd"].as_f64().unwrap();
    assert!((total - sum(&mut of_type("session"))).abs() < NOISE, "{status:#}\n{export}");
    told
}

/// The last total in the stream of a session, and whether it was cut off.
fn said_in_log(log: &Path) -> Option<(f64, bool)> {
    let text = String::from_utf8_lossy(&fs::read(log).ok()?).into_owned();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = lines.rfind(|it| it["type"] == "result")?;
    let why = last["terminal_reason"].as_str().unwrap_or_default();
    Some((last["total_cost_usd"].as_f64()?, why.starts_with("aborted")))
}

/// The last total that a session at a terminal has written down.
fn said_in_transcript(home: &Path, session: &Value) -> Option<(f64, bool)> {
    let name = format!("{}.jsonl", session["session_id"].as_str()?);
    let projects = fs::read_dir(home.join("projects")).ok()?;
    let mut files = projects.map(|it| it.unwrap().path().join(&name));
    let file: PathBuf = files.find(|file| file.is_file())?;
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = lines.rfind(|it| it["type"] == "cost-state")?;
    Some((last["totalCostUSD"].as_f64()?, false))
}

fn costs(rig: &Rig) -> Value {
    rig.project.ralph(["status", "--json"]).json()
}

/// Has a part of the task done by a subagent, and reads and writes the cache.
fn with_subagent(request: &Request) -> Answer {
    match (request.role, request.is_subagent, request.turn) {
        (Role::Build, ..) if request.turn == 1 => {
            bash(format!("ralph task add One --parent {}", request.task)).costing(30_000)
        }
        (Role::Work, true, _) => say("A part is done.").costing(7_000).cached(500, 60),
        (Role::Work, false, 1) => agent(&request.task).cached(40_000, 3_000),
        (Role::Work, false, _) => done(request),
        (Role::Verify, ..) => say("<verify-pass/>").costing(1_000),
        _ => say("That is all."),
    }
}

#[test]
fn subagents_and_the_cache_are_counted_and_status_sums_builds_work_and_verification() {
    for version in [PINNED, OLDER] {
        let Some(rig) = Rig::with_version(version, with_subagent) else { continue };
        rig.project.write_feature("login", "# Spec\nR1: it works", "# Plan\nPhase 1: a table");
        rig.finish(rig.ralph(&["feature", "build", "login"])).with_code(0);
        let ended = rig.run(&["login"]).with_code(0);
        let end = &ended.events("iteration_end")[0];
        assert_eq!(end["billing"], "api", "{version}: {end:#}");
        assert_eq!(end["cache_read_tokens"], 40_500, "{version}: {end:#}");
        assert_eq!(end["cache_write_tokens"], 3_060, "{version}: {end:#}");
        // Every message has 100 that are new. In some versions a subagent goes on in the background, and
        // the agent is asked once more when it is done.
        let asked = rig.asked(Role::Work).len() + rig.asked(Role::Verify).len();
        assert_eq!(end["input_tokens"], json!(100 * asked), "{version}: {end:#}");
        assert!(end["output_tokens"].as_u64() > Some(8_000), "{version}: {end:#}");
        assert_eq!(assert_adds_up(&rig), 3, "{version}: build, work, verification");
        let status = costs(&rig);
        for kind in ["work", "verify", "build"] {
            assert!(status["costs"][kind].as_f64() > Some(0.0), "{version}: {status:#}");
        }
        let shown = rig.project.ralph(["status"]).stdout();
        assert!(shown.contains(" (work $") && shown.contains(", builds $"), "{shown}");
        assert!(end["cost_usd"].as_f64() < status["cost_usd"].as_f64(), "{version}: {status:#}");
    }
}

#[test]
fn a_session_that_is_cut_off_has_cost_what_it_has_streamed() {
    // Killed by itself, out of time, and told to end in the middle of an answer.
    for how in ["killed", "time", "told"] {
        let rig = Rig::new(move |request: &Request| match (how, request.turn) {
            (_, 1) => bash("touch started").costing(50_000),
            ("killed", _) => bash("kill -9 $PPID").costing(10_000),
            ("time", _) => bash("while :; do sleep 1; done").costing(10_000),
            _ => say("one two three four five six seven eight nine ten").stops_dead(5),
        });
        let Some(rig) = rig else { return };
        let task = rig.project.add(["Do it"]);
        let arguments = match how {
            "time" => &["--max-time", "6s"][..],
            _ => &["--max-retries", "0"],
        };
        let running = rig.start(rig.ralph(&[&["run", "--no-verify"], arguments].concat()));
        if how == "told" {
            wait_for_file(&rig, "started");
            signal(&running, Signal::TERM);
        }
        let ended = rig.ended(running);
        let attempt = &rig.project.show(&task)["history"][0];
        assert!(
            attempt["output_tokens"].as_u64() >= Some(50_000),
            "{how}: {attempt:#}\n{ended:#?}"
        );
        assert!(attempt["cost_usd"].as_f64() > Some(0.1), "{how}: {attempt:#}");
        assert_eq!(costs(&rig)["cost_usd"], attempt["cost_usd"], "{how}");
    }
}

#[test]
fn what_a_subscription_covers_is_shown_at_api_prices() {
    let Some(rig) = Rig::new(|request: &Request| done(request).costing(50_000)) else { return };
    let task = rig.project.add(["Do it"]);
    let mut command = rig.ralph(&["run", "--headless", "--no-verify", "--model", "opus"]);
    command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "no-token-at-all");
    let shown = rig.finish(command).with_code(0).lines.join("\n");
    for amount in ["≈ $1.0004 at API prices", "≈ $1.00 at API prices"] {
        assert!(shown.contains(amount), "{amount}: {shown}");
    }
    assert_eq!(rig.project.show(&task)["history"][0]["billing"], "subscription");
    assert_eq!(costs(&rig)["billing"], "subscription");
    let status = rig.project.ralph(["status"]).stdout();
    assert!(status.contains("cost ≈ $1.00 at API prices"), "{status}");
}

#[test]
fn a_session_on_a_screen_has_its_cost_with_every_version() {
    for version in [PINNED, OLDER] {
        let rig = Rig::with_version(version, |request| match request.turn {
            1 => bash("echo work > file && git add file && git commit -q -m file").cached(1_000, 0),
            _ => done(request).costing(5_000),
        });
        let Some(rig) = rig else { continue };
        rig.answer_first_questions(true);
        let task = rig.project.add(["Do it", "-d", "All of it"]);
        let arguments = ["run", "--no-verify", "--observe", "--max-cost", "9", "--model", "opus"];
        shown::finish(&rig, &arguments, 0);
        let attempt = &rig.project.show(&task)["history"][0];
        assert_eq!(attempt["cache_read_tokens"], 1_000, "{version}: {attempt:#}");
        assert_eq!(attempt["output_tokens"], 5_020, "{version}: {attempt:#}");
        assert!(attempt["cost_usd"].as_f64() > Some(0.1), "{version}: {attempt:#}");
    }
}

#[test]
fn a_cost_limit_counts_what_verification_costs() {
    let rig = Rig::new(|request: &Request| match request.role {
        Role::Work => done(request).costing(1_000),
        _ => say("<verify-pass/>").costing(100_000),
    });
    let Some(rig) = rig else { return };
    rig.project.add(["One"]);
    rig.project.add(["Two"]);
    let ended = rig.run(&["--model", "opus", "--max-cost", "1.5"]);
    let ended = ended.with_code(3);
    assert_eq!(ended.events("iteration_end").len(), 1, "{ended:#?}");
}
