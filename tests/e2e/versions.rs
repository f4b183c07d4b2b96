//! What differs between versions of Claude Code, and must not be seen.

use crate::api::{Answer, LOOP, Request, Role, refuse, say, think};
use crate::install::{OLDER, PINNED};
use crate::rig::Rig;

/// Works and says so, in texts that come in several pieces each.
fn work(request: &Request) -> Answer {
    let beginning = think("I think about the file, and about what has to be in it.")
        .say("I begin with the file that the task is about.");
    match (request.role, request.turn) {
        (Role::Work | Role::Loop, 1) => {
            beginning.bash("echo work > file && git add file && git commit -q -m file")
        }
        (Role::Work, _) => say(format!(
            "The file is complete, and it is committed.\n\n<task-done>{}</task-done>",
            request.task
        )),
        (Role::Loop, _) => say("The file is complete, and it is committed.\n\nLOOP_COMPLETE"),
        _ => refuse(400, "this is no part of the scenario"),
    }
}

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

#[test]
fn a_task_is_done_and_everything_is_told_once_by_every_version() {
    for version in [PINNED, OLDER] {
        let Some(rig) = Rig::with_version(version, work) else { continue };
        let task = rig.project.add(["Do it"]);
        let ended = rig.finish(rig.ralph(&["run", "--headless", "--no-verify"])).with_code(0);
        assert_told_once(&ended.lines.join("\n"), version);
        let attempt = &rig.project.show(&task)["history"][0];
        assert_eq!(attempt["outcome"], "done", "{version}: {attempt:#}");
        assert!(attempt["cost_usd"].as_f64().unwrap() > 0.0, "{version}: {attempt:#}");
        assert_eq!(rig.project.git(["log", "--oneline"]).lines().count(), 2, "{version}");
    }
}

#[test]
fn a_machine_is_told_each_text_once_by_every_version() {
    for version in [PINNED, OLDER] {
        let Some(rig) = Rig::with_version(version, work) else { continue };
        rig.project.add(["Do it"]);
        let ended = rig.run(&["--no-verify"]).with_code(0);
        assert_eq!(ended.events("text").len(), 2, "{version}: {ended:#?}");
        assert_eq!(ended.events("reasoning").len(), 1, "{version}: {ended:#?}");
    }
}

#[test]
fn a_loop_ends_with_the_promise_of_every_version() {
    for version in [PINNED, OLDER] {
        let Some(rig) = Rig::with_version(version, work) else { continue };
        let ended = rig.finish(rig.ralph(&["loop", "-a", "3", LOOP])).with_code(0);
        let shown = ended.lines.join("\n");
        assert_told_once(&shown, version);
        assert!(shown.contains("the loop is complete: the agent said LOOP_COMPLETE"), "{shown}");
    }
}
