//! `ralph feature build`: a real child that calls the real ralph.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{
    Background, DEADLINE, Output, Project, assert_no_process_left, check_rules, wait_until,
};
use crate::terminal::Terminal;

/// A project with a feature that can be built.
fn planned(names: &[&str]) -> Project {
    let project = Project::new();
    for name in names {
        project.write_feature(name, "# Spec\nR1: it works", "# Plan\nPhase 1: make it work");
    }
    project
}

fn build_command(project: &Project, script: &str, arguments: &[&str]) -> Command {
    project.ralph_with(script, ["feature", "build"].iter().chain(arguments))
}

fn build(project: &Project, script: &str, arguments: &[&str]) -> Output {
    let output = project.run(build_command(project, script, arguments), None);
    assert_nothing_left(project);
    output
}

#[track_caller]
fn assert_nothing_left(project: &Project) {
    assert_no_process_left(project);
    assert_eq!(project.temporary_files(), [""; 0]);
}

fn feature(project: &Project, name: &str) -> Value {
    project.ralph(["feature", "show", name, "--json"]).json()
}

fn tasks(project: &Project) -> Vec<Value> {
    project.ralph(["task", "list", "--json"]).json().as_array().unwrap().clone()
}

fn titled<'a>(tasks: &'a [Value], title: &str) -> &'a Value {
    tasks.iter().find(|task| task["title"] == title).unwrap_or_else(|| panic!("no {title}"))
}

/// A step that adds tasks below the root, by the ralph on the `PATH`.
fn add(title: &str) -> String {
    format!(
        "run ralph task add '{title}' -d 'All of it' --parent $(ralph task list --json \\| grep -o 't-......' \\| head -1)"
    )
}

#[test]
fn a_build_makes_the_tasks_and_ends_with_their_tree() {
    let project = planned(&["login"]);
    let (system, stdin) = (project.base().join("system"), project.base().join("stdin"));
    let script = format!(
        "save-system {} | save-stdin {} | expect-arg --dangerously-skip-permissions \
         | expect-arg --model sonnet | say I begin. | {} | {} | say That is all.",
        system.display(),
        stdin.display(),
        add("First"),
        add("Second")
    );
    let mut command = build_command(&project, &script, &["login", "--model", "sonnet"]);
    command.env("IS_SANDBOX", "1");
    let output = project.run(command, None);
    assert_nothing_left(&project);
    let shown = project.masked(&output.ok());
    let tree = shown.split_once("turns\n\n").unwrap().1;
    insta::assert_snapshot!(tree, @r"
    ○ login  [A]  0/2
    ├─ ● First  [B]
    └─ ● Second  [C]
    ");
    assert!(shown.contains("I begin.\n-> Bash(ralph task add 'First'"), "{shown}");
    assert_eq!(output.stderr(), "2 tasks in `login`\nNext: ralph run login\n");
    assert_eq!(feature(&project, "login")["status"], "ready");
    let told = fs::read_to_string(system).unwrap();
    for part in ["R1: it works", "Phase 1: make it work", "ralph task deps add", "[None yet]"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("{{"), "{told}");
    let message = "Read the spec and plan, then create the task DAG. When done, stop.";
    assert_eq!(fs::read_to_string(stdin).unwrap(), message);
    check_rules(&project);
}

#[test]
fn sixty_tasks_with_a_hundred_dependencies_come_through() {
    let project = planned(&["login"]);
    let script = project.base().join("decompose.sh");
    fs::write(
        &script,
        r#"set -eu
root=$(ralph task list --json | grep -o 't-......' | head -1)
i=0
for group in 1 2 3 4 5 6; do
    g=$(ralph task add "Phase $group" --group --parent $root -d "Plan phase $group")
    for task in 1 2 3 4 5 6 7 8 9 10; do
        i=$((i + 1))
        id=$(ralph task add "Task $i" --parent $g -d - <<'END'
Do `this` and "that" with $HOME untouched.
END
)
        eval "id_$i=$id"
        if [ $i -gt 1 ]; then eval "ralph task deps add \$id_$((i - 1)) $id"; fi
        if [ $i -gt 19 ]; then eval "ralph task deps add \$id_$((i - 19)) $id"; fi
    done
done
"#,
    )
    .unwrap();
    let output = build(&project, &format!("run sh {} 2>&1", script.display()), &["login"]);
    assert!(output.stderr().starts_with("60 tasks in `login`"), "{output:?}");
    let all = tasks(&project);
    assert_eq!(all.len(), 67);
    let edges: usize = all.iter().map(|task| task["after"].as_array().unwrap().len()).sum();
    assert_eq!(edges, 59 + 41);
    let description = titled(&all, "Task 60")["description"].as_str().unwrap();
    assert_eq!(description, "Do `this` and \"that\" with $HOME untouched.\n");
    assert_eq!(output.ok().matches("Task ").count(), 60, "the tree has them all");
    check_rules(&project);
}

#[test]
fn two_builds_at_once_do_not_meet_and_two_of_one_feature_are_refused() {
    let project = planned(&["login", "export"]);
    let go = project.base().join("go");
    let script = |name: &str| {
        let step = format!(
            "run ralph task add 'Of {name}' -d x --feature {name} --parent $(ralph task list --feature {name} --json \\| grep -o 't-......' \\| head -1)"
        );
        format!("say ready | wait-file {} | {step}", go.display())
    };
    let start = |name: &str| {
        let running = project.start(build_command(&project, &script(name), &[name]));
        wait_for_line(&running, "ready");
        running
    };
    let (login, export) = (start("login"), start("export"));
    let refused = project.run(build_command(&project, "say never", &["login"]), None);
    assert!(refused.fails(1).contains("another ralph is working on the feature `login`"));
    fs::write(go, "").unwrap();
    for running in [login, export] {
        let (status, lines, stderr) = running.finish();
        assert!(status.success(), "{lines:?} {stderr}");
    }
    for name in ["login", "export"] {
        assert_eq!(feature(&project, name)["status"], "ready");
        let of = titled(&tasks(&project), &format!("Of {name}"))["feature"].clone();
        assert_eq!(of, name);
    }
    assert_nothing_left(&project);
    check_rules(&project);
}

#[track_caller]
fn wait_for_line(running: &Background, text: &str) {
    while !running.next_line().expect("it has ended").contains(text) {}
}

fn interrupted_half_way(project: &Project) {
    let script = format!("{} | {} | say half | hang", add("First"), add("Second"));
    let running = project.start(build_command(project, &script, &["login"]));
    wait_for_line(&running, "half");
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (status, lines, stderr) = running.finish();
    assert_eq!(status.code(), Some(130), "{lines:?} {stderr}");
    assert!(
        stderr.contains("Waiting for fake-claude to finish; press Ctrl+C again to kill it"),
        "{stderr}"
    );
    assert!(stderr.contains("interrupted: 2 tasks kept"), "{stderr}");
    assert_nothing_left(project);
}

#[test]
fn an_interrupted_build_keeps_what_it_made_and_says_so() {
    let project = planned(&["login"]);
    interrupted_half_way(&project);
    let shown = feature(&project, "login");
    assert_eq!(shown["status"], "planned");
    assert_eq!(shown["build_unfinished"], true);
    let text = project.masked(&project.ralph(["feature", "show", "login"]).ok());
    insta::assert_snapshot!(text, @r"
    login  planned  [A]
    spec  .ralph/features/login/spec.md
    plan  .ralph/features/login/plan.md
    ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  0/2 done  0%
    build not finished; `ralph feature build login` goes on

    ? login  [B]  0/2  its tasks are not all there: `ralph feature build login` goes on
    ├─ ○ First  [C]
    └─ ○ Second  [D]
    ");
    assert_eq!(project.ralph(["task", "list", "--ready", "--json"]).json().to_string(), "[]");
    let refused = build(&project, "say never", &["login"]).fails(2);
    insta::assert_snapshot!(refused, @r"
    error: there is no terminal to ask on: The feature `login` has 2 tasks, 0 of them done.
    hint: repeat it with --continue or --replace
    ");
}

#[test]
fn it_goes_on_when_it_is_told_to() {
    let project = planned(&["login"]);
    interrupted_half_way(&project);
    let system = project.base().join("system");
    let script = format!("save-system {} | {}", system.display(), add("Third"));
    let output = build(&project, &script, &["login", "--continue"]);
    assert!(output.stderr().contains("3 tasks in `login`"), "{output:?}");
    assert!(fs::read_to_string(system).unwrap().contains("├─ ○ First"));
    assert_eq!(feature(&project, "login")["status"], "ready");
    assert_eq!(
        project.ralph(["task", "list", "--ready", "--json"]).json().as_array().unwrap().len(),
        3
    );
    check_rules(&project);
}

#[test]
fn it_is_replaced_when_it_is_told_to_but_done_work_stays() {
    let project = planned(&["login"]);
    interrupted_half_way(&project);
    let first = titled(&tasks(&project), "First")["id"].as_str().unwrap().to_owned();
    let second = titled(&tasks(&project), "Second")["id"].as_str().unwrap().to_owned();
    project.ralph(["task", "deps", "add", &second, &first]).ok();
    project.ralph(["task", "done", &first]).ok();
    let output = build(&project, &add("Better"), &["login", "--replace"]);
    assert!(output.stderr().contains("removed 1 task; what is done stays"), "{output:?}");
    let all = tasks(&project);
    let titles: Vec<&str> = all.iter().map(|task| task["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["login", "First", "Better"]);
    assert_eq!(titled(&all, "First")["status"], "done");
    assert_eq!(feature(&project, "login")["status"], "ready");
    check_rules(&project);
}

#[test]
fn what_others_wait_for_is_not_replaced() {
    let project = planned(&["login"]);
    interrupted_half_way(&project);
    let first = titled(&tasks(&project), "First")["id"].as_str().unwrap().to_owned();
    project.add(["Outside", "--after", &first]);
    let before = project.export();
    let said = build(&project, "say never", &["login", "--replace"]).fails(1);
    assert!(said.contains("the tasks can't be replaced"), "{said}");
    assert_eq!(project.export(), before);
}

#[test]
fn a_person_is_asked_what_to_do_with_tasks_that_are_there() {
    let project = planned(&["login"]);
    interrupted_half_way(&project);
    let asked = |answer: &str, script: &str| {
        let mut terminal = Terminal::sized(&build_command(&project, script, &["login"]), 40, 120);
        terminal.wait_for("The feature `login` has 2 tasks, 0 of them done.");
        terminal.wait_for("[q]uit?").press(answer);
        terminal.finish()
    };
    let (code, screen) = asked("q\n", "say never");
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("nothing was changed"), "{screen}");
    let (code, screen) = asked("c\n", "say nothing is missing");
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Next: ralph run login"), "{screen}");
    let (code, screen) = asked("r\n", &add("New"));
    assert_eq!(code, 0, "{screen}");
    let titles: Vec<Value> = tasks(&project).iter().map(|task| task["title"].clone()).collect();
    assert_eq!(titles, ["login", "New"]);
    assert_nothing_left(&project);
}

#[test]
fn an_agent_that_closes_a_loop_gets_the_error_and_goes_on() {
    let project = planned(&["login"]);
    let seen = project.base().join("seen");
    let script = format!(
        "{} | {} | run ids=$(ralph task list --json \\| grep -o '\"id\": *\"t-......' \\| grep -o 't-......'); set -- $ids; \
         ralph task deps add $2 $3; ralph task deps add $3 $2 2>{} \\|\\| echo refused | {}",
        add("First"),
        add("Second"),
        seen.display(),
        add("Third")
    );
    let output = build(&project, &script, &["login"]);
    assert!(output.stderr().contains("3 tasks in `login`"), "{output:?}");
    let said = fs::read_to_string(seen).unwrap();
    assert!(said.contains("that closes a loop"), "{said}");
    assert_eq!(titled(&tasks(&project), "Third")["ready"], true);
    check_rules(&project);
}

#[test]
fn a_build_that_made_nothing_leaves_nothing() {
    let project = planned(&["login"]);
    for (script, said) in [
        ("say I will not.", "the build came to nothing: no task was created\n"),
        (
            "error 529 overloaded Overloaded",
            "the build failed: the API is overloaded; no task was created\n",
        ),
        ("exit 3", "the build failed: the session ended without a result; no task was created\n"),
    ] {
        let output = build(&project, script, &["login"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(output.stderr(), said);
        assert!(tasks(&project).is_empty());
        assert_eq!(feature(&project, "login")["status"], "planned");
    }
}

#[test]
fn a_build_that_failed_half_way_keeps_its_tasks_and_shows_the_last_words() {
    let project = planned(&["login"]);
    let script = format!("{} | run echo >&2 | exit 1", add("First"));
    let output = build(&project, &script, &["login"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr().contains("1 task kept"), "{output:?}");
    assert_eq!(feature(&project, "login")["build_unfinished"], true);
}

#[test]
fn a_build_needs_spec_and_plan() {
    let project = Project::new();
    let said = build(&project, "say never", &["login"]).fails(1);
    assert!(said.contains("there is no feature `login`"), "{said}");
    project.write_feature("login", "# Spec", "");
    let said = build(&project, "say never", &["login"]).fails(1);
    insta::assert_snapshot!(said, @r"
    error: the feature `login` has no plan yet
    hint: write it with `ralph feature plan login`
    ");
    project.write_feature("login", "# Spec", " \n");
    build(&project, "say never", &["login"]).fails(1);
    assert!(tasks(&project).is_empty());
}

#[test]
fn what_is_odd_is_remarked() {
    let project = planned(&["login"]);
    let script = "run root=$(ralph task list --json \\| grep -o 't-......' \\| head -1); \
         g=$(ralph task add G --group --parent $root); ralph task add A --parent $g --after $(ralph task add E --group --parent $root)";
    let output = build(&project, script, &["login"]);
    let said = project.masked(&output.stderr());
    insta::assert_snapshot!(said, @r"
    remark: no description: [A]
    remark: a group with one task only: [B]
    remark: a group with nothing in it, which will never be done: [C]
    remark: no task is ready: everything waits for something
    1 task in `login`
    Next: ralph run login
    ");
}

#[test]
fn a_killed_build_leaves_nothing_that_looks_whole() {
    let project = planned(&["login"]);
    let script = format!("{} | orphan-setsid | say half | hang", add("First"));
    let mut running = project.start(build_command(&project, &script, &["login"]));
    wait_for_line(&running, "half");
    running.kill();
    drop(running);
    let none = wait_until(Instant::now() + DEADLINE, || {
        project.temporary_files().is_empty().then_some(())
    });
    assert!(none.is_some(), "{:?}", project.temporary_files());
    assert_nothing_left(&project);
    assert_eq!(feature(&project, "login")["build_unfinished"], true);
    assert_eq!(project.ralph(["task", "list", "--ready", "--json"]).json().to_string(), "[]");
    let output = build(&project, "say all is there", &["login", "--continue"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(feature(&project, "login")["status"], "ready");
}

#[test]
fn a_second_interrupt_kills_a_build_at_once() {
    let project = planned(&["login"]);
    let script = "ignore SIGINT | ignore SIGTERM | say ready | hang";
    let mut running = project.start(build_command(&project, script, &["login"]));
    wait_for_line(&running, "ready");
    let pid = Pid::from_raw(running.id().cast_signed()).unwrap();
    let deadline = Instant::now() + DEADLINE;
    kill_process(pid, Signal::INT).unwrap();
    // Two signals at once are one: the second is sent until it is heard.
    while !running.ends_within(Duration::from_millis(200)) {
        assert!(Instant::now() < deadline, "it was not killed");
        kill_process(pid, Signal::INT).unwrap();
    }
    let (status, _, stderr) = running.finish();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert_nothing_left(&project);
}

#[test]
fn as_root_claude_is_given_tools_instead_of_everything() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let project = planned(&["login"]);
    let script = format!("expect-arg --allowed-tools Bash | {}", add("First"));
    assert!(build(&project, &script, &["login"]).status.success());
}
