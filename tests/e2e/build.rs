//! `ralph feature build` with the real agent, which creates the tasks with its Bash tool.

use rustix::process::Signal;

use crate::api::{Answer, Request, Role, bash, refuse, say, think};
use crate::interrupts::{signal, wait_for_file};
use crate::rig::Rig;
use crate::run::done;

/// Adds two tasks of which one waits for the other, and says so.
pub(crate) fn decompose(request: &Request) -> Answer {
    let root = &request.task;
    match request.turn {
        1 => think("Two tasks will do.").say("I decompose the plan.").bash(format!(
            "SCHEMA=$(ralph task add 'Add the table' --parent {root} -d 'R1') &&
             ralph task add 'Use the table' --parent {root} --after $SCHEMA -d - <<'END'
Do `this` with $HOME untouched.
END"
        )),
        2 => bash(format!("ralph task tree {root}")),
        _ => say("There are two tasks."),
    }
}

#[test]
fn a_build_creates_its_tasks_with_the_bash_tool_whoever_starts_it() {
    // As root Claude skips its permissions only if it believes that something holds it.
    for is_held in [false, true] {
        let Some(rig) = Rig::new(decompose) else { return };
        rig.project.write_feature("login", "# Spec\nR1: it works", "# Plan\nPhase 1: a table");
        let mut command = rig.ralph(&["feature", "build", "login", "--model", "haiku"]);
        if is_held {
            command.env("IS_SANDBOX", "1");
        }
        let ended = rig.finish(command).with_code(0);
        assert!(ended.stderr.contains("2 tasks in `login`"), "{ended:#?}");
        assert!(ended.lines.iter().any(|line| line == "I decompose the plan."), "{ended:#?}");
        let feature = rig.project.ralph(["feature", "show", "login", "--json"]).json();
        assert_eq!(feature["status"], "ready", "{feature}");
        let tasks = rig.project.ralph(["task", "list", "--json"]).json();
        let [_, table, using] = &tasks.as_array().unwrap()[..] else { panic!("{tasks}") };
        assert_eq!(using["after"], serde_json::json!([table["id"]]));
        assert_eq!(using["description"], "Do `this` with $HOME untouched.\n");
        let asked = rig.asked(Role::Build);
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked[2].printed.contains("Use the table"), "{}", asked[2].printed);
        assert!(asked[0].model.contains("haiku"), "{}", asked[0].model);
        assert!(asked[0].prompt.contains("Read the spec and plan"), "{}", asked[0].prompt);
    }
}

#[test]
fn a_spec_of_300_kb_arrives_whole() {
    let rig = Rig::new(|request| match request.role {
        Role::Build => decompose(request),
        Role::Work | Role::Verify | Role::Loop | Role::Interview => done(request),
    });
    let Some(rig) = rig else { return };
    let requirement = |number| format!("R{number}: everything that is read is also written\n");
    let spec: String = (1..).map(requirement).take(300_000 / requirement(1000).len()).collect();
    let last = spec.lines().last().unwrap();
    rig.project.write_feature("login", &spec, "# Plan\nPhase 1: a table");
    rig.finish(rig.ralph(&["feature", "build", "login"])).with_code(0);
    rig.run(&["login", "--no-verify"]).with_code(0);
    assert!(rig.asked(Role::Build)[0].system.contains(last));
    let worked = rig.asked(Role::Work);
    assert_eq!(worked.len(), 2, "one for each task");
    assert!(worked.iter().all(|it| it.system.contains(last)));
}

#[test]
fn a_build_that_the_api_refuses_leaves_the_feature_as_it_was() {
    let Some(rig) = Rig::new(|_| refuse(400, "No.")) else { return };
    rig.project.write_feature("login", "# Spec\nR1: it works", "# Plan\nPhase 1: a table");
    let ended = rig.finish(rig.ralph(&["feature", "build", "login"])).with_code(1);
    assert!(ended.stderr.contains("the build failed"), "{ended:#?}");
    let feature = rig.project.ralph(["feature", "show", "login", "--json"]).json();
    assert_eq!(feature["status"], "planned", "{feature}");
    assert_eq!(rig.project.ralph(["task", "list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn an_interrupted_build_keeps_what_it_has_made() {
    let rig = Rig::new(|request| {
        let root = &request.task;
        bash(format!(
            "ralph task add Half --parent {root} && touch half; while :; do sleep 1; done"
        ))
    });
    let Some(rig) = rig else { return };
    rig.project.write_feature("login", "# Spec\nR1: it works", "# Plan\nPhase 1: a table");
    let running = rig.start(rig.ralph(&["feature", "build", "login"]));
    wait_for_file(&rig, "half");
    signal(&running, Signal::INT);
    let ended = rig.ended(running).with_code(130);
    assert!(ended.stderr.contains("interrupted: 1 task kept"), "{ended:#?}");
}
