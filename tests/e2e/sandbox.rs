//! The real agent inside a sandbox, which it does not notice as long as it does what it should.

use std::path::Path;

use rustix::process::Signal;

use crate::api::{Role, bash, say};
use crate::harness::{RALPH, working_sandboxes};
use crate::interrupts::{signal, wait_for_file};
use crate::rig::Rig;
use crate::run::done;

#[test]
fn a_session_that_is_held_works_and_gets_nowhere_else() {
    for backend in working_sandboxes() {
        let rig = Rig::new(|request| match (request.role, request.session, request.turn) {
            (Role::Verify, _, 1) => bash("ls work; touch seen; git log --oneline"),
            (Role::Verify, ..) => say("<verify-pass/>"),
            (Role::Work, 1, 1) if request.title == "Do it" => bash(
                "echo work > work && git add work && git commit -q -m work && command -v ralph && \
                 ralph task add Extra -d found; touch /usr/local/ralph-e2e .git/hooks/hook .mcp.json; true",
            ),
            _ => done(request),
        });
        let Some(rig) = rig else { return };
        let task = rig.project.add(["Do it", "--priority", "-1"]);
        let ended = rig.run(&["--sandbox", backend]).with_code(0);
        let sandbox = ended.events("start")[0]["sandbox"].as_str().unwrap().to_owned();
        assert!(sandbox.starts_with(backend), "{sandbox}");
        assert_eq!(rig.status(&task), "done", "{backend}");
        let printed = &rig.asked(Role::Work)[1].printed;
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(Path::new(lines[0]), Path::new(RALPH), "{backend}: {printed}");
        assert_eq!(rig.project.show(lines[1])["title"], "Extra", "{backend}: {printed}");
        assert_eq!(rig.project.git(["log", "-1", "--format=%s"]), "work", "{backend}");
        assert_eq!(rig.project.git(["status", "--porcelain"]), "", "{backend}");
        for forbidden in ["/usr/local/ralph-e2e", ".git/hooks/hook", ".mcp.json", "seen"] {
            assert!(!rig.project.root().join(forbidden).exists(), "{backend}: {forbidden}");
        }
    }
}

#[test]
fn an_interrupt_reaches_a_session_that_is_held() {
    for backend in working_sandboxes() {
        let rig = Rig::new(|_| bash("setsid sleep 600 & touch started; while :; do sleep 1; done"));
        let Some(rig) = rig else { return };
        let task = rig.project.add(["Do it"]);
        let running = rig.start(rig.ralph(&["run", "--sandbox", backend]));
        wait_for_file(&rig, "started");
        signal(&running, Signal::INT);
        let ended = rig.ended(running).with_code(130);
        assert_eq!(rig.history(&task)[0].0, "interrupted", "{backend}: {ended:#?}");
    }
}
