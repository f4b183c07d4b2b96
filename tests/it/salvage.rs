//! What an attempt has not committed is kept, whatever the working tree looks like; and what can't be kept
//! is said.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use crate::harness::{Project, check_rules};

/// Where the first attempt on a task would be kept.
fn salvage_of(project: &Project, task: &str) -> String {
    let attempt = project.show(task)["history"][0]["id"].as_str().unwrap().to_owned();
    format!("refs/ralph/salvage/{attempt}")
}

fn has(project: &Project, object: &str) -> bool {
    let mut command = project.command("git");
    command.args(["rev-parse", "--verify", "--quiet", object]);
    project.run(command, None).status.success()
}

#[test]
fn a_repository_that_an_agent_makes_inside_ours_is_kept_with_its_files() {
    let project = Project::new();
    project.git_init();
    let task = project.add(["Do it"]);
    let script = "write half.txt half | run mkdir new && cd new && git init -q && echo inside > file \
                  | fail no";
    let output = project.run(project.ralph_with(script, ["run", "--max-retries", "0"]), None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!output.stderr().contains("warning"), "{output:?}");
    let kept = salvage_of(&project, &task);
    assert_eq!(project.git(["show", &format!("{kept}:half.txt")]), "half");
    assert_eq!(project.git(["show", &format!("{kept}:new/file")]), "inside");
    project.assert_nothing_left();
}

#[test]
fn what_can_not_be_kept_stays_where_it_is_and_stops_the_run() {
    let project = Project::new();
    project.git_init();
    let task = project.add(["Do it"]);
    let other = project.add(["Another"]);
    // While this is there, no reference can be made below it.
    let script = "write half.txt half | run mkdir -p .git/refs/ralph && echo x > .git/refs/ralph/salvage \
                  | fail no";
    let scripts = [script, "done"];
    let command = project.ralph_playing(&scripts, ["run", "--no-verify", "--no-sandbox"]);
    let output = project.run(command, None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = output.stderr();
    assert!(said.contains("error: can't put the working tree in order after attempt a-"), "{said}");
    assert!(said.contains("can't be kept: git: "), "{said}");
    assert_eq!(fs::read_to_string(project.root().join("half.txt")).unwrap(), "half");
    assert_eq!(project.show(&task)["history"][0]["outcome"], "failed");
    assert_eq!(project.show(&other)["status"], "pending");
    project.assert_nothing_left();
}

#[test]
fn what_a_crash_left_is_kept_by_a_run_in_the_same_working_tree_alone() {
    let project = Project::new();
    project.git_init();
    let other = project.base().join("other");
    project.git(["worktree", "add", "-q", other.to_str().unwrap()]);
    let task = project.add(["Crashes"]);
    project.add(["Goes on"]);
    let mut run =
        project.start(project.ralph_with("write left.txt left | say ready | hang", ["run"]));
    while !run.next_line().expect("the session begins").contains("ready") {}
    run.kill();
    run.finish();
    let saved = project.base().join("prompt");
    let save = format!("save-stdin {} | done", saved.display());
    let run_in = |root: &Path, script: &str| {
        let mut command =
            project.ralph_with(script, ["run", "--no-verify", "--once", "--allow-dirty"]);
        command.current_dir(root).env("RALPH_DB", project.database());
        let output = project.run(command, None);
        assert!(output.stdout().contains("✓ done"), "{output:?}");
    };
    fs::write(other.join("person.txt"), "a person's").unwrap();
    run_in(&other, &save);
    let kept = salvage_of(&project, &task);
    assert!(!has(&project, &kept), "that is another working tree");
    let told = fs::read_to_string(&saved).unwrap();
    assert!(told.contains("Crashes") && !told.contains("refs/ralph/salvage"), "{told}");
    run_in(project.root(), "done");
    assert_eq!(project.git(["show", &format!("{kept}:left.txt")]), "left");
    assert!(!has(&project, &format!("{kept}:person.txt")));
    check_rules(&project);
    project.assert_nothing_left();
}
