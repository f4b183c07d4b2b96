//! Runs that are killed as nothing can prevent, at random moments, and started again until everything is
//! done: nothing is lost, nothing is done twice, nothing is left.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{DEADLINE, Project, assert_no_process_left, check_rules, wait_until};
use crate::random::Random;

/// How many runs are killed, unless `RALPH_TEST_RUN_KILLS` says otherwise.
const KILLS: u32 = 200;
const TASKS: usize = 20;

#[test]
fn every_task_is_done_exactly_once_however_often_the_run_is_killed() {
    let kills: u32 =
        env::var("RALPH_TEST_RUN_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut killed = 0;
    while killed < kills {
        killed += work_a_dag(&mut random, kills - killed);
    }
}

/// Works a DAG to its end with runs that are killed; returns how many were.
fn work_a_dag(random: &mut Random, most: u32) -> u32 {
    let project = Project::new();
    project.git_init();
    let mut lines = String::from("{\"title\": \"T0\", \"key\": \"k0\"}\n");
    for number in 1..TASKS {
        let after = random.below(number as u64);
        lines.push_str(&format!(
            "{{\"title\": \"T{number}\", \"key\": \"k{number}\", \"after\": [\"k{after}\"]}}\n"
        ));
    }
    let tasks = project.add_lines(lines);
    // An agent that begins with throwing away whatever is there: what it does not find any more must
    // be kept elsewhere. A git that was killed leaves its locks.
    let written = project.base().join("written");
    let script = format!(
        "orphan-setsid | run find .git -name '*.lock' -delete; git reset -q --hard; git clean -q -f -d \
         | run echo half > half-$RALPH_ATTEMPT_ID; echo half-$RALPH_ATTEMPT_ID >> {} | sleep 5 \
         | run git add -A; git commit -q -m $RALPH_TASK_ID | done",
        written.display()
    );
    let mut killed = 0;
    while project.ralph(["status", "--json"]).json()["done"] != TASKS {
        let mut run = project.start(project.ralph_playing(&[&script], ["run", "--no-verify"]));
        let is_over = killed >= most;
        let patience = match is_over {
            true => Duration::from_secs(60),
            false => Duration::from_millis(random.below(400)),
        };
        if !run.ends_within(patience) {
            assert!(!is_over, "the run does not end");
            run.kill();
            killed += 1;
        }
    }
    // The last one may have been killed after its work: one that is not tidies up after it.
    project.run(project.ralph_command(["run"]), None).ok();
    project.assert_nothing_left();
    check_rules(&project);
    check_attempts(&project, &tasks);
    check_salvage(&project);
    killed
}

/// Each task has one attempt that did it, and every other was a crash; none is open.
fn check_attempts(project: &Project, tasks: &[String]) {
    let mut sessions = 0;
    for task in tasks {
        let shown = project.show(task);
        assert_eq!(shown["status"], "done");
        assert_eq!(shown["retries"], 0, "{shown}");
        let mut outcomes: HashMap<&str, u32> = HashMap::new();
        let attempts = shown["history"].as_array().unwrap();
        for (index, attempt) in attempts.iter().enumerate() {
            assert_eq!(attempt["number"], index + 1);
            *outcomes.entry(attempt["outcome"].as_str().unwrap()).or_default() += 1;
            sessions += 1;
        }
        let crashes = attempts.len() as u32 - 1;
        assert_eq!(outcomes.remove("done"), Some(1), "{shown}");
        assert_eq!(outcomes.remove("crashed").unwrap_or(0), crashes, "{shown}");
        assert!(outcomes.is_empty(), "{shown}");
    }
    assert!(sessions >= tasks.len());
}

/// Whatever a session had written is in a commit: its own, or the one that was kept when it was killed.
fn check_salvage(project: &Project) {
    let history = project.git(["log", "--all", "--name-only", "--format="]);
    let written = fs::read_to_string(project.base().join("written")).unwrap();
    let lost: Vec<&str> = written.lines().filter(|file| !history.contains(file)).collect();
    assert!(lost.is_empty(), "{lost:?} of {} are lost", written.lines().count());
}

#[test]
fn whoever_looks_next_leaves_the_supervisor_the_time_to_end_what_only_it_can_find() {
    let project = Project::new();
    project.add(["Killed"]);
    let script = "orphan-hides-setsid-double-fork-ignore-term 61 | say ready | hang";
    let mut run = project.start(project.ralph_with(script, ["run"]));
    while !run.next_line().expect("it goes on").contains("ready") {}
    let child = |parent: u32, name: &str| {
        let deadline = Instant::now() + DEADLINE;
        wait_until(deadline, || child_of(parent, name)).expect("it is there")
    };
    let supervisor = child(run.id(), "exe");
    let (agent, orphan) = (child(supervisor, "fake-claude"), child(supervisor, "sleep"));
    // One that takes its time, as on a busy machine.
    signal(supervisor, Signal::STOP);
    run.kill();
    let next = project.start(project.ralph_command(["status"]));
    let is_gone = |pid: u32| stat(pid).is_none_or(|(_, state, _)| state == 'Z');
    let deadline = Instant::now() + DEADLINE;
    wait_until(deadline, || is_gone(agent).then_some(())).expect("the next command ends it");
    assert!(!is_gone(supervisor), "it has not done its work yet");
    signal(supervisor, Signal::CONT);
    let (status, ..) = next.finish();
    assert!(status.success());
    assert!(is_gone(orphan) && is_gone(supervisor), "something was left");
    assert!(project.temporary_files().is_empty(), "it had the time for these, too");
    run.finish();
    assert_no_process_left(&project);
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// The child of a process that has this name.
fn child_of(parent: u32, name: &str) -> Option<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|&pid| stat(pid).is_some_and(|(its, _, of)| its == name && of == parent))
}

/// The name, the state and the parent of a process.
fn stat(pid: u32) -> Option<(String, char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((name.to_owned(), fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
