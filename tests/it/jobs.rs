//! Runs that are jobs of a real shell: started in the background, suspended, sent there, brought back, and
//! without a terminal at all.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{DEADLINE, Project, RALPH, wait_until};
use crate::terminal::Terminal;

/// A project with one task, whose agent says `ready` and works until it is let go.
struct Job {
    project: Project,
    task: String,
    command: Command,
}

impl Job {
    fn new() -> Job {
        let project = Project::new();
        let task = project.add(["Do it"]);
        let command = project.ralph_with("say ready | wait-file go | done", ["run", "--no-verify"]);
        Job { project, task, command }
    }

    fn shell(&self) -> Terminal {
        Terminal::shell(&self.command)
    }

    fn let_go(&self) {
        self.project.write("go", "");
    }

    fn pause_file(&self) -> PathBuf {
        self.project.root().join(".ralph-pause")
    }

    /// Pauses the run in the foreground, and lets it go on.
    #[track_caller]
    fn pause_by_key(&self, shell: &mut Terminal) {
        // A key that comes too early is only a letter on the screen.
        let paused = wait_until(Instant::now() + DEADLINE, || {
            shell.press("p");
            let pressed = Instant::now() + Duration::from_secs(10);
            wait_until(pressed, || self.pause_file().exists().then_some(()))
        });
        assert!(paused.is_some(), "{}", shell.screen());
        fs::remove_file(self.pause_file()).unwrap();
    }

    fn status(&self) -> String {
        self.project.show(&self.task)["status"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn finish(&self, mut shell: Terminal) {
        shell.press("exit\n");
        shell.finish();
        assert_eq!(self.status(), "done");
        self.project.assert_nothing_left();
    }
}

/// What the job of a shell is doing, by the system's account: `T` is stopped.
fn state(shell: &Terminal) -> Option<char> {
    let children = format!("/proc/{0}/task/{0}/children", shell.id());
    let child = fs::read_to_string(children).ok()?.split_whitespace().next()?.to_owned();
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[track_caller]
fn wait_for_state(shell: &Terminal, stopped: bool) {
    let deadline = Instant::now() + DEADLINE;
    let reached = wait_until(deadline, || ((state(shell)? == 'T') == stopped).then_some(()));
    assert!(reached.is_some(), "stopped: {:?}\n{}", state(shell), shell.screen());
}

#[test]
fn a_run_in_the_background_is_not_stopped_and_leaves_the_terminal_alone() {
    let job = Job::new();
    let mut shell = job.shell();
    let (before, after) = (job.project.base().join("before"), job.project.base().join("after"));
    shell.press(&format!("stty -a > {}; {RALPH} run --no-verify &\n", before.display()));
    shell.wait_for("ready");
    // A line that the shell reads is echoed, and no key of it is taken by the run.
    shell.press(&format!("stty -a > {}; echo p-p-p | tr p q\n", after.display()));
    shell.wait_for("q-q-q");
    assert!(!job.pause_file().exists());
    assert_eq!(fs::read_to_string(before).unwrap(), fs::read_to_string(after).unwrap());
    job.let_go();
    shell.press("wait $!; echo code $?\n");
    shell.wait_for("code 0");
    job.finish(shell);
}

#[test]
fn a_run_draws_no_line_over_the_shell_while_it_is_in_the_background() {
    let mut job = Job::new();
    job.command.env("FAKE_CLAUDE", "say ready | sleep 2500 | touch later | wait-file go | done");
    let mut shell = job.shell();
    shell.press(&format!("{RALPH} run --no-verify &\n"));
    shell.wait_for("ready");
    // The line is drawn every second, and stays until something else is written.
    let later = job.project.root().join("later");
    wait_until(Instant::now() + DEADLINE, || later.exists().then_some(())).expect("it works on");
    assert!(!shell.screen().contains('►'), "{}", shell.screen());
    shell.press("fg\n");
    shell.wait_for("► ");
    job.let_go();
    shell.wait_for("everything is done").wait_for_times("shell> ", 3);
    job.finish(shell);
}

#[test]
fn a_run_that_was_started_in_the_background_listens_when_it_is_brought_back() {
    let job = Job::new();
    let mut shell = job.shell();
    shell.press(&format!("{RALPH} run --no-verify &\n"));
    shell.wait_for("ready");
    shell.press("fg\n");
    job.pause_by_key(&mut shell);
    job.let_go();
    shell.wait_for("everything is done").wait_for_times("shell> ", 3);
    job.finish(shell);
}

#[test]
fn a_run_that_was_suspended_goes_on_in_the_background_and_in_the_foreground() {
    let job = Job::new();
    let mut shell = job.shell();
    let (before, after) = (job.project.base().join("before"), job.project.base().join("after"));
    shell.press(&format!("stty -a > {}\n", before.display()));
    shell.wait_for_times("shell> ", 2);
    shell.press(&format!("clear; {RALPH} run --no-verify\n"));
    shell.wait_for("ready").press("p");
    let deadline = Instant::now() + DEADLINE;
    wait_until(deadline, || job.pause_file().exists().then_some(())).expect("`p` is heard");
    shell.press("p");
    wait_until(deadline, || (!job.pause_file().exists()).then_some(())).expect("and once more");
    shell.press("\x1a");
    shell.wait_for("Stopped");
    wait_for_state(&shell, true);
    shell.press("bg\n");
    wait_for_state(&shell, false);
    shell.press(&format!("stty -a > {}; echo still | tr s S\n", after.display()));
    shell.wait_for("Still");
    wait_for_state(&shell, false);
    shell.press("fg\n");
    job.pause_by_key(&mut shell);
    job.let_go();
    shell.wait_for("everything is done");
    // Keys are ralph's until the shell has its terminal back: at its prompt after `bg`, `stty`, `fg` and the run.
    shell.wait_for_times("shell> ", 4);
    shell.press(&format!("stty -a > {}; echo over | tr o O\n", after.display()));
    shell.wait_for("Over");
    assert_eq!(fs::read_to_string(before).unwrap(), fs::read_to_string(after).unwrap());
    job.finish(shell);
}

#[test]
fn a_run_that_is_to_survive_its_terminal_does() {
    let mut job = Job::new();
    let mut command = job.project.command("nohup");
    command.arg(RALPH).args(["run", "--no-verify"]);
    for (name, value) in job.command.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    job.command = command;
    let running = job.project.start(std::mem::replace(&mut job.command, Command::new("true")));
    while !running.next_line().expect("it has ended").contains("ready") {}
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::HUP).unwrap();
    job.let_go();
    let (status, lines, stderr) = running.finish();
    assert_eq!(status.code(), Some(0), "{lines:?} {stderr}");
    assert_eq!(job.status(), "done");
    job.project.assert_nothing_left();
}

#[test]
fn in_the_background_a_question_is_refused_and_not_waited_for() {
    let job = Job::new();
    let mut shell = job.shell();
    shell.press(&format!("{RALPH} task delete {} & wait $!; echo code $?\n", job.task));
    shell.wait_for("there is no terminal to ask on").wait_for("code 2");
    shell.press("exit\n");
    shell.finish();
    assert_eq!(job.status(), "pending");
}
