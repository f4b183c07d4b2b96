//! The core of what ralph does, with every version of Claude Code: what differs between them must not be
//! seen. Each version has tests of its own, so that they run at the same time.

use rustix::process::Signal;
use serde_json::json;

use crate::api::{Answer, LOOP, Request, Role, bash, refuse, say, think, tool};
use crate::build::decompose;
use crate::harness::working_sandboxes;
use crate::install::{OLDER, PINNED, latest};
use crate::interrupts::{assert_released, endless, signal, wait_for_file};
use crate::rig::Rig;
use crate::run::{done, graph_of_three};
use crate::shown::finish;
use crate::terminal::Terminal;

/// Makes the tests of each version, if it is to be tried.
macro_rules! with_every_version {
    ($($name:ident: $version:expr;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn a_task_is_done_and_everything_is_told_once() {
                if let Some(version) = $version { super::everything_is_told_once(version); }
            }

            #[test]
            fn a_loop_ends_with_the_promise() {
                if let Some(version) = $version { super::loop_ends_with_the_promise(version); }
            }

            #[test]
            fn a_graph_is_worked_verified_tried_again_and_waits_for_a_limit() {
                if let Some(version) = $version { graph_of_three(version); }
            }

            #[test]
            fn an_interrupt_ends_everything() {
                if let Some(version) = $version { super::interrupt_ends_everything(version); }
            }

            #[test]
            fn a_build_creates_tasks() {
                if let Some(version) = $version { super::build_creates_tasks(version); }
            }

            #[test]
            fn an_observed_session_needs_no_answer_in_a_sandbox_and_a_question_blocks_its_task() {
                if let Some(version) = $version { super::observed_in_a_sandbox(version); }
            }

            #[test]
            fn a_session_with_a_person_needs_no_answer_in_a_sandbox_and_a_question_blocks_its_task() {
                if let Some(version) = $version { super::attended_in_a_sandbox(version); }
            }

            #[test]
            fn a_permission_that_nobody_gives_ends_a_session_with_a_person() {
                if let Some(version) = $version { super::permission_that_nobody_gives(version); }
            }
        })*
    };
}

with_every_version! {
    pinned: Some(PINNED);
    older: Some(OLDER);
    newest: latest();
}

/// Works and says so, in texts that come in several pieces each.
fn work(request: &Request) -> Answer {
    let beginning = think("I think about the file, and about what has to be in it.")
        .say("I begin with the file that the task is about.");
    match (request.role, request.turn) {
        (Role::Work | Role::Loop, 1) => beginning.bash(WORK),
        (Role::Work, _) => say(format!(
            "The file is complete, and it is committed.\n\n<task-done>{}</task-done>",
            request.task
        )),
        (Role::Loop, _) => say("The file is complete, and it is committed.\n\nLOOP_COMPLETE"),
        _ => refuse(400, "this is no part of the scenario"),
    }
}

const WORK: &str = "echo work > file && git add file && git commit -q -m file";

#[track_caller]
fn assert_told_once(shown: &str, version: &str) {
    for text in [
        "I think about the file, and about what has to be in it.",
        "I begin with the file that the task is about.",
        "The file is complete, and it is committed.",
    ] {
        assert_eq!(shown.matches(text).count(), 1, "{version}: {text}\n{shown}");
    }
}

/// To a person and to a machine.
fn everything_is_told_once(version: &'static str) {
    let Some(rig) = Rig::with_version(version, work) else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.finish(rig.ralph(&["run", "--headless", "--no-verify"])).with_code(0);
    assert_told_once(&ended.lines.join("\n"), version);
    let attempt = &rig.project.show(&task)["history"][0];
    assert_eq!(attempt["outcome"], "done", "{version}: {attempt:#}");
    assert!(attempt["cost_usd"].as_f64().unwrap() > 0.0, "{version}: {attempt:#}");
    assert_eq!(rig.project.git(["log", "--oneline"]).lines().count(), 2, "{version}");
    let doctor = rig.finish(rig.ralph(&["doctor"])).with_code(0).lines.join("\n");
    assert!(doctor.contains(&format!("/claude, Claude Code {version}\n")), "{doctor}");
    assert!(doctor.contains("ok       login     ANTHROPIC_API_KEY is set\n"), "{doctor}");
    let Some(rig) = Rig::with_version(version, work) else { return };
    rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify"]).with_code(0);
    assert_eq!(ended.events("text").len(), 2, "{version}: {ended:#?}");
    assert_eq!(ended.events("reasoning").len(), 1, "{version}: {ended:#?}");
}

fn loop_ends_with_the_promise(version: &'static str) {
    let Some(rig) = Rig::with_version(version, work) else { return };
    let ended = rig.finish(rig.ralph(&["loop", "-a", "3", LOOP])).with_code(0);
    let shown = ended.lines.join("\n");
    assert_told_once(&shown, version);
    assert!(shown.contains("the loop is complete: the agent said LOOP_COMPLETE"), "{shown}");
}

fn interrupt_ends_everything(version: &'static str) {
    let Some(rig) = Rig::with_version(version, |_| endless()) else { return };
    let task = rig.project.add(["Do it"]);
    let mut running = rig.start(rig.ralph(&["run"]));
    wait_for_file(&rig, "started");
    signal(&running, Signal::INT);
    // On a very busy machine Claude Code was once seen to go on after an interrupt: a person asks again.
    if !running.ends_within(crate::harness::DEADLINE / 2) {
        signal(&running, Signal::INT);
    }
    assert_released(&rig, &task, rig.ended(running));
}

fn build_creates_tasks(version: &'static str) {
    let Some(rig) = Rig::with_version(version, decompose) else { return };
    rig.project.write_feature("login", "# Spec\nR1: it works", "# Plan\nPhase 1: a table");
    let ended = rig.finish(rig.ralph(&["feature", "build", "login"])).with_code(0);
    assert!(ended.stderr.contains("2 tasks in `login`"), "{ended:#?}");
}

/// Works on one task, and wants to know something for the other.
fn work_or_ask(request: &Request) -> Answer {
    match (request.title.as_str(), request.turn) {
        ("Ask", 1) => tool(
            "AskUserQuestion",
            json!({ "questions": [{
                "question": "Which colour shall it have?", "header": "Colour", "multiSelect": false,
                "options": [
                    { "label": "Red", "description": "like a rose" },
                    { "label": "Blue", "description": "like the sky" },
                ],
            }] }),
        ),
        // The tool is denied where nobody can answer.
        ("Ask", _) => say(format!(
            "Nobody answers.\n\n<task-blocked>{}: Which colour shall it have?</task-blocked>",
            request.task
        )),
        (_, 1) => bash(WORK),
        _ => done(request),
    }
}

/// The person has never trusted the directory nor agreed that permissions may be skipped, and can't do so
/// where they only look. What the agent wants to know blocks its task.
fn shown_in_a_sandbox(version: &'static str, flags: &[&str], question: &str) {
    let rig = Rig::with_version(version, work_or_ask);
    let (Some(rig), Some(sandbox)) = (rig, working_sandboxes().first().copied()) else { return };
    rig.answer_first_questions(false);
    let task = rig.project.add(["Do it", "--priority", "-1"]);
    let asks = rig.project.add(["Ask"]);
    let arguments = ["run", "--no-verify", "--max-cost", "9", "--sandbox", sandbox];
    finish(&rig, &[&arguments, flags].concat(), 4);
    assert_eq!(rig.outcomes(&task), ["done"], "{version}");
    assert_eq!(rig.project.git(["log", "--oneline"]).lines().count(), 2, "{version}");
    let asked = [("blocked".to_owned(), question.to_owned())];
    assert_eq!(rig.history(&asks), asked, "{version}");
}

fn observed_in_a_sandbox(version: &'static str) {
    shown_in_a_sandbox(version, &["--observe"], "Which colour shall it have?");
}

/// Nobody answers, although they could.
fn attended_in_a_sandbox(version: &'static str) {
    let question = "Which colour shall it have? (Red / Blue)";
    shown_in_a_sandbox(version, &["--pty", "--idle-timeout", "6"], question);
}

/// Claude Code 2.1.325 blinks while it waits.
fn permission_that_nobody_gives(version: &'static str) {
    let rig = Rig::with_version(version, |request| match request.turn {
        1 => bash("touch forbidden"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.answer_first_questions(true);
    let toml = "max_retries = 0\n[agent]\nallowed_tools = [\"Read\"]\n";
    rig.project.write(".ralph.toml", toml);
    rig.project.git_init();
    let task = rig.project.add(["Do it"]);
    let arguments = ["run", "--no-verify", "--pty", "--max-cost", "9", "--idle-timeout", "5"];
    let mut terminal = Terminal::sized(&rig.ralph(&arguments), 40, 120);
    let (code, screen) = terminal.finish();
    assert_eq!(code, 1, "{version}: {screen}");
    assert!(terminal.is_sane(), "{version}: {screen}");
    let history = rig.history(&task);
    let reason = "the agent asked a question, and nobody answered: may it use `Bash`?";
    assert_eq!(history.len(), 1, "{version}: {history:?}");
    assert!(history[0].1.starts_with(reason), "{version}: {history:?}");
    assert!(!rig.project.root().join("forbidden").exists(), "{version}");
}
