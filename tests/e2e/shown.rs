//! The real screen of Claude Code in a terminal that ralph gives it, and loops.

use std::fs;
use std::process::Command;

use crate::api::{LOOP, Role, bash, refuse, say};
use crate::rig::{Ended, Rig};
use crate::run::done;
use crate::terminal::Terminal;

const WORK: &str = "echo work > file && git add file && git commit -q -m file";

#[track_caller]
pub(crate) fn finish(rig: &Rig, arguments: &[&str], code: u32) -> String {
    finish_command(rig, &rig.ralph(arguments), code)
}

/// Runs a command on a screen of its own to its end.
#[track_caller]
pub(crate) fn finish_command(rig: &Rig, command: &Command, code: u32) -> String {
    let mut terminal = Terminal::sized(command, 40, 120);
    let (exit, screen) = terminal.finish();
    let ended = Ended {
        code: Some(exit.cast_signed()),
        lines: vec![screen.clone()],
        stderr: String::new(),
    };
    assert_eq!(exit, code, "{screen}");
    assert!(terminal.is_sane(), "{screen}");
    rig.assert_nothing_left(&ended);
    screen
}

#[test]
fn the_screen_is_shown_and_the_verdict_comes_by_hooks() {
    let rig = Rig::new(|request| match request.turn {
        1 => bash(WORK),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.answer_first_questions(true);
    let task = rig.project.add(["Do it", "-d", "All of it"]);
    finish(&rig, &["run", "--no-verify", "--observe", "--max-cost", "9"], 0);
    assert_eq!(rig.outcomes(&task), ["done"]);
    assert_eq!(rig.project.git(["log", "--oneline"]).lines().count(), 2);
}

#[test]
fn a_question_at_the_very_first_start_stops_the_run_and_costs_nothing() {
    let Some(rig) = Rig::new(|_| refuse(400, "nobody gets here")) else { return };
    rig.answer_first_questions(false);
    let task = rig.project.add(["Do it"]);
    let arguments = ["run", "--no-verify", "--observe", "--max-cost", "9", "--max-retries", "0"];
    let screen = finish(&rig, &arguments, 1);
    let why = "it asks whether it may trust this directory";
    assert!(screen.contains(why), "{screen}");
    let history = rig.history(&task);
    assert_eq!((history.len(), &*history[0].0), (1, "limited"), "{history:?}");
    assert!(history[0].1.contains(why), "{history:?}");
    assert_eq!(rig.status(&task), "pending");
}

#[test]
fn a_loop_ends_with_the_promise_piped_and_on_the_screen() {
    for flags in [&["-a"][..], &["--observe"]] {
        let rig = Rig::new(|request| match (request.role, request.turn) {
            (Role::Loop, 1) => bash(WORK),
            (Role::Loop, _) => say("All is done.\n\nLOOP_COMPLETE"),
            _ => refuse(400, "this is a loop"),
        });
        let Some(rig) = rig else { return };
        rig.answer_first_questions(true);
        let arguments = [&["loop", "3", LOOP], flags].concat();
        let screen = finish(&rig, &arguments, 0);
        assert!(screen.contains("the loop is complete: the agent said LOOP_COMPLETE"), "{screen}");
        assert_eq!(rig.project.git(["log", "--oneline"]).lines().count(), 2, "{flags:?}");
    }
}

#[test]
fn with_hooks_switched_off_the_screen_says_that_a_loop_is_complete() {
    let rig = Rig::new(|request| match request.role {
        Role::Loop => say("All is done.\n\nLOOP_COMPLETE"),
        _ => refuse(400, "this is a loop"),
    });
    let Some(rig) = rig else { return };
    rig.answer_first_questions(true);
    let settings = rig.project.base().join("home/.claude");
    fs::create_dir_all(&settings).unwrap();
    fs::write(settings.join("settings.json"), r#"{"disableAllHooks": true}"#).unwrap();
    let screen = finish(&rig, &["loop", "3", LOOP, "--observe", "--idle-timeout", "8"], 0);
    assert!(screen.contains("the loop is complete: the agent said LOOP_COMPLETE"), "{screen}");
}

#[test]
fn an_interview_begins_with_a_question_and_goes_on_until_the_person_leaves() {
    let rig = Rig::new(|request| match request.turn {
        1 => say("What shall it do for you?"),
        _ => say("I see. Anything else?"),
    });
    let Some(rig) = rig else { return };
    rig.answer_first_questions(true);
    let mut terminal = Terminal::sized(&rig.ralph(&["feature", "spec", "login"]), 40, 120);
    terminal.wait_for("What shall it do for you?");
    terminal.press("Let me in");
    terminal.wait_for("Let me in");
    terminal.press("\r");
    terminal.wait_for("Anything else?");
    terminal.press("/exit");
    terminal.wait_for("/exit");
    terminal.press("\r");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("no spec was written"), "{screen}");
    assert!(terminal.is_sane(), "{screen}");
    let costs = rig.project.ralph(["status", "--json"]).json()["costs"].clone();
    assert!(costs["interview"].as_f64() > Some(0.0), "{costs}");
    let asked = rig.asked(Role::Interview);
    assert!(asked[0].prompt.contains("Start the spec interview for the feature \"login\"."));
    assert!(asked[0].system.contains("## Project context"));
    let ended = Ended { code: Some(1), lines: vec![screen], stderr: String::new() };
    rig.assert_nothing_left(&ended);
}

#[test]
fn a_long_draft_is_resumed_in_part_and_its_file_is_named() {
    let Some(rig) = Rig::new(|_| say("Where were we?")) else { return };
    rig.answer_first_questions(true);
    let draft =
        format!("# Spec\n\nIt begins.\n\n{}It ends.\n", "One of many lines.\n".repeat(1_300));
    rig.project.write_feature("login", &draft, "");
    let mut terminal = Terminal::sized(&rig.ralph(&["feature", "spec", "login"]), 40, 120);
    terminal.wait_for("Where were we?");
    terminal.press("/exit");
    terminal.wait_for("/exit");
    terminal.press("\r");
    terminal.finish();
    let system = &rig.asked(Role::Interview)[0].system;
    assert!(system.contains("It begins.") && !system.contains("It ends."), "{system}");
    let shown = system.matches("One of many lines.").count();
    assert!((400..600).contains(&shown), "10,000 characters are {shown} lines");
    assert!(system.contains("read the rest in `.ralph/features/login/spec.md`"), "{system}");
}
