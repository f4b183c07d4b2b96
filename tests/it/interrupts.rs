//! Every way to stop a run, in every phase of it. Always: the exit code says so, the task is pending, the
//! attempt is closed, the terminal is as it was, and nothing is left.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{DEADLINE, Project, check_rules, wait_until, working_sandboxes};
use crate::terminal::Terminal;

const CTRL_BACKSLASH: &str = "\x1c";

/// Where a run can be when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Working,
    VerifyingByCommand,
    VerifyingByAgent,
    WaitingForTheApi,
    Paused,
    Idle,
    Pushing,
}

const PHASES: [Phase; 7] = [
    Phase::Working,
    Phase::VerifyingByCommand,
    Phase::VerifyingByAgent,
    Phase::WaitingForTheApi,
    Phase::Paused,
    Phase::Idle,
    Phase::Pushing,
];

impl Phase {
    /// Whether an agent or a command is running, which may clean up when it is asked to stop.
    fn has_session(self) -> bool {
        match self {
            Phase::Working | Phase::VerifyingByCommand | Phase::VerifyingByAgent => true,
            Phase::WaitingForTheApi | Phase::Paused | Phase::Idle | Phase::Pushing => false,
        }
    }
}

/// How it is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Interrupt,
    TwoInterrupts,
    Terminate,
    HangUp,
    InterruptThenTerminate,
}

const WAYS: [Way; 5] =
    [Way::Interrupt, Way::TwoInterrupts, Way::Terminate, Way::HangUp, Way::InterruptThenTerminate];

impl Way {
    fn signals(self) -> &'static [Signal] {
        match self {
            Way::Interrupt => &[Signal::INT],
            Way::TwoInterrupts => &[Signal::INT, Signal::INT],
            Way::Terminate => &[Signal::TERM],
            Way::HangUp => &[Signal::HUP],
            Way::InterruptThenTerminate => &[Signal::INT, Signal::TERM],
        }
    }

    /// Whether an agent that does not listen to SIGINT is ended by it at once.
    fn is_final(self) -> bool {
        self != Way::Interrupt
    }
}

/// A project in which a run comes to this phase and stays there, and the command for it.
fn prepare(phase: Phase, deaf: bool) -> (Project, Command) {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let trap = if deaf { "trap '' INT TERM; " } else { "" };
    let deaf = if deaf { "ignore SIGINT | ignore SIGTERM | " } else { "" };
    let hang = format!("{deaf}orphan-setsid | write left.txt x | say ready | hang");
    let far = "limit five_hour 32503680000";
    let scripts: &[&str] = match phase {
        Phase::Working => &[&hang],
        Phase::VerifyingByAgent => &["done", &hang],
        Phase::WaitingForTheApi => &[far],
        Phase::VerifyingByCommand | Phase::Paused | Phase::Idle => &["done"],
        Phase::Pushing => &["run git commit -q --allow-empty -m x | done"],
    };
    let flags: &[&str] = match phase {
        Phase::VerifyingByAgent => &["run"],
        Phase::VerifyingByCommand => &["run", "--no-verify", "--no-baseline"],
        Phase::Pushing => &["run", "--no-verify", "--auto-push"],
        _ => &["run", "--no-verify"],
    };
    project.git_init();
    match phase {
        Phase::VerifyingByCommand => {
            let command = format!("setsid sleep 600 & {trap}echo $$ >../begun; exec sleep 600");
            project.write(".ralph.toml", format!("[verify]\ncommands = [\"{command}\"]\n"));
        }
        Phase::Paused => drop(project.write(".ralph-pause", "")),
        Phase::Idle => {
            let mut store = project.store();
            let run = ralph::store::NewRun::new();
            let run = store.start_run(&run, ralph::time::Timestamp::now()).unwrap();
            let target = ralph::store::Target::Everything;
            // The test itself works on the task for as long as it runs.
            let claim = store.claim_next(run, &target, ralph::time::Timestamp::now()).unwrap();
            assert_eq!(claim.unwrap().task.to_string(), task);
        }
        Phase::Pushing => {
            project.add(["Another"]);
            let hook = project.root().join(".git/hooks/pre-push");
            fs::create_dir_all(hook.parent().unwrap()).unwrap();
            fs::write(&hook, "#!/bin/sh\necho $$ >../begun\nexec sleep 600\n").unwrap();
            let mut permissions = fs::metadata(&hook).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
            fs::set_permissions(&hook, permissions).unwrap();
            let remote = project.base().join("remote.git");
            project.git(["init", "-q", "--bare", remote.to_str().unwrap()]);
            project.git(["remote", "add", "origin", remote.to_str().unwrap()]);
            project.git(["config", "push.autoSetupRemote", "true"]);
        }
        Phase::Working | Phase::VerifyingByAgent | Phase::WaitingForTheApi => {}
    }
    let command = project.ralph_playing(scripts, flags);
    (project, command)
}

/// What is printed when a run is in this phase.
fn sign(phase: Phase) -> &'static str {
    match phase {
        Phase::Working | Phase::VerifyingByAgent => "ready",
        Phase::VerifyingByCommand => "verify   … setsid",
        Phase::WaitingForTheApi => "waiting until",
        Phase::Paused => "`ralph resume` goes on",
        Phase::Idle => "waits for another run",
        Phase::Pushing => "✓ done",
    }
}

/// Waits until the command of this phase, if it has one, is where it stays: a shell loses a signal that comes while
/// it starts a program.
fn wait_for_command(project: &Project, phase: Phase) {
    if matches!(phase, Phase::VerifyingByCommand | Phase::Pushing) {
        let begun = project.base().join("begun");
        let sleeps = || {
            let pid = fs::read_to_string(&begun).ok()?;
            let program = fs::read_to_string(format!("/proc/{}/comm", pid.trim())).ok()?;
            (program.trim() == "sleep").then_some(())
        };
        wait_until(Instant::now() + DEADLINE, sleeps).expect("the command sleeps");
    }
}

#[track_caller]
fn check_afterwards(project: &Project, phase: Phase, context: &str) {
    let open = match phase {
        // The claim is that of the test.
        Phase::Idle => 1,
        _ => 0,
    };
    let status = project.ralph(["status", "--json"]).json();
    assert_eq!(status["in_progress"], open, "{context}: {status}");
    let attempts = project.ralph(["logs", "--json"]).json();
    let outcomes: Vec<&str> =
        attempts.as_array().unwrap().iter().filter_map(|it| it["outcome"].as_str()).collect();
    let expected: &[&str] = match phase {
        Phase::Working | Phase::VerifyingByCommand | Phase::VerifyingByAgent => &["interrupted"],
        Phase::WaitingForTheApi => &["limited"],
        Phase::Paused | Phase::Idle => &[],
        Phase::Pushing => &["done"],
    };
    assert_eq!(outcomes, expected, "{context}");
    let task = &project.ralph(["task", "list", "--json"]).json()[0];
    assert_eq!(task["retries"], 0, "{context}");
    if matches!(phase, Phase::Working | Phase::VerifyingByAgent) {
        let attempt = attempts[0]["id"].as_str().unwrap();
        let kept = project.git(["show", &format!("refs/ralph/salvage/{attempt}:left.txt")]);
        assert_eq!(kept, "x", "{context}");
    }
    project.assert_nothing_left();
    check_rules(project);
}

fn stop_by_signal(phase: Phase, way: Way) {
    let context = format!("{phase:?} {way:?}");
    let (project, command) = prepare(phase, way.is_final());
    let running = project.start(command);
    while !running.next_line().expect(&context).contains(sign(phase)) {}
    wait_for_command(&project, phase);
    let pid = Pid::from_raw(running.id().cast_signed()).unwrap();
    for (index, signal) in way.signals().iter().enumerate() {
        if index > 0 && phase.has_session() {
            // Two signals at once are one.
            while !running.next_line().expect(&context).contains("Ctrl+C again") {}
        }
        // The first may have been enough.
        let _ = kill_process(pid, *signal);
    }
    let (status, lines, stderr) = running.finish();
    assert_eq!(status.code(), Some(130), "{context}: {lines:?} {stderr}");
    assert!(lines.iter().any(|line| line == "interrupted"), "{context}: {lines:?}");
    check_afterwards(&project, phase, &context);
}

fn stop_in_every_way(phase: Phase) {
    for way in WAYS {
        stop_by_signal(phase, way);
    }
}

#[test]
fn while_an_agent_works() {
    stop_in_every_way(Phase::Working);
}

#[test]
fn while_a_command_verifies() {
    stop_in_every_way(Phase::VerifyingByCommand);
}

#[test]
fn while_an_agent_verifies() {
    stop_in_every_way(Phase::VerifyingByAgent);
}

#[test]
fn while_it_waits_for_the_api() {
    stop_in_every_way(Phase::WaitingForTheApi);
}

#[test]
fn while_it_is_paused() {
    stop_in_every_way(Phase::Paused);
}

#[test]
fn while_it_waits_for_others() {
    stop_in_every_way(Phase::Idle);
}

#[test]
fn while_it_pushes() {
    stop_in_every_way(Phase::Pushing);
}

#[test]
fn by_keys_on_a_terminal() {
    for phase in PHASES {
        stop_by_keys(phase, "\x03", "");
        stop_by_keys(phase, CTRL_BACKSLASH, "");
        // Elsewhere the first one ends the run, and a second would be for the shell.
        if phase.has_session() {
            stop_by_keys(phase, "\x03\x03", "");
        }
    }
}

#[test]
fn by_keys_where_agents_have_terminals_and_none_has_one_just_now() {
    for phase in [Phase::VerifyingByCommand, Phase::VerifyingByAgent, Phase::Paused, Phase::Idle] {
        let keys = if phase.has_session() { "\x03\x03" } else { "\x03" };
        stop_by_keys(phase, keys, "--observe");
    }
}

fn stop_by_keys(phase: Phase, keys: &str, flag: &str) {
    let context = format!("{phase:?} {keys:?} {flag}");
    let (project, command) = prepare(phase, keys != "\x03");
    let mut terminal = Terminal::shell(&command);
    let (before, after) = (project.base().join("before"), project.base().join("after"));
    let arguments: Vec<String> =
        command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
    terminal.press(&format!(
        "clear; stty -a > {}; {} {} {flag}; echo code $?; stty -a > {}\n",
        before.display(),
        crate::harness::RALPH,
        arguments.join(" "),
        after.display()
    ));
    terminal.wait_for(sign(phase));
    wait_for_command(&project, phase);
    for (index, key) in keys.chars().enumerate() {
        if index > 0 && phase.has_session() {
            terminal.wait_for("Ctrl+C again");
        }
        terminal.press(&key.to_string());
    }
    terminal.wait_for("code 130");
    let deadline = Instant::now() + Duration::from_secs(30);
    let modes =
        wait_until(deadline, || fs::read_to_string(&after).ok().filter(|text| !text.is_empty()));
    assert_eq!(modes, fs::read_to_string(&before).ok(), "{context}");
    assert!(terminal.is_sane(), "{context}: {}", terminal.screen());
    let screen = terminal.screen();
    assert!(!screen.contains("►"), "the status line is left: {screen}");
    terminal.press("exit\n");
    terminal.finish();
    check_afterwards(&project, phase, &context);
}

#[test]
fn the_first_interrupt_says_what_the_second_will_do() {
    let (project, command) = prepare(Phase::Working, false);
    let mut command = command;
    command.env("FAKE_CLAUDE_SCRIPTS", project.scripts(&["say ready | wait-file go | done"]));
    let running = project.start(command);
    while !running.next_line().unwrap().contains("ready") {}
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (status, lines, _) = running.finish();
    assert_eq!(status.code(), Some(130));
    let said = "Waiting for fake-claude to finish; press Ctrl+C again to kill it";
    assert!(lines.iter().any(|line| line == said), "{lines:?}");
    project.assert_nothing_left();
}

#[test]
fn after_the_first_interrupt_a_clean_up_takes_as_long_as_it_takes() {
    for arguments in [&["run", "--no-verify"][..], &["loop", "-a", "2", "x"]] {
        let (project, _) = prepare(Phase::Working, false);
        project.write(".ralph.toml", "[agent]\nexit_grace_secs = 0\n");
        let script = "ignore SIGINT | say ready | wait-file go | say cleaned up";
        let running = project.start(project.ralph_with(script, arguments));
        while !running.next_line().unwrap().contains("ready") {}
        kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        while !running.next_line().unwrap().contains("press Ctrl+C again") {}
        // Without a result a session is over at once when nothing waits for it.
        std::thread::sleep(Duration::from_millis(200));
        project.write("go", "");
        let (status, lines, stderr) = running.finish();
        assert_eq!(status.code(), Some(130), "{lines:?} {stderr}");
        assert!(lines.iter().any(|line| line.contains("cleaned up")), "{lines:?}");
        project.assert_nothing_left();
    }
}

/// `ralph` with these arguments and an agent that is this shell script, in each sandbox that works here.
fn in_every_sandbox(script: &str, arguments: &[&str], check: impl Fn(&Project, Command, &str)) {
    for backend in working_sandboxes().into_iter().chain(["none"]) {
        let (project, _) = prepare(Phase::Working, false);
        let agent = project.base().join("agent");
        // Not `sh`: dash loses a signal that comes while it starts a command.
        fs::write(&agent, format!("#!/bin/bash\ntest \"$1\" = --version && exit\n{script}\n"))
            .unwrap();
        let mut permissions = fs::metadata(&agent).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        fs::set_permissions(&agent, permissions).unwrap();
        let mut command = project.ralph_command(arguments);
        command.arg("--agent").arg(&agent).env("RALPH_SANDBOX_BACKEND", backend);
        check(&project, command, backend);
        project.assert_nothing_left();
    }
}

#[track_caller]
fn wait_for_file(project: &Project, name: &str, context: &str) {
    let file = project.root().join(name);
    let deadline = Instant::now() + Duration::from_secs(30);
    wait_until(deadline, || file.exists().then_some(())).expect(context);
}

#[test]
fn an_interrupt_reaches_the_agent_and_what_it_waits_for_in_every_sandbox() {
    let script = ": >started; sleep 600; touch later";
    in_every_sandbox(script, &["run", "--no-verify"], |project, command, backend| {
        let running = project.start(command);
        wait_for_file(project, "started", backend);
        kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let (status, lines, stderr) = running.finish();
        assert_eq!(status.code(), Some(130), "{backend}: {lines:?} {stderr}");
        assert!(!project.root().join("later").exists(), "{backend}");
    });
}

#[test]
fn ctrl_c_at_the_terminal_lets_the_agent_clean_up_in_every_sandbox() {
    let script =
        "trap 'sleep 0.3; touch cleaned; exit 0' INT; touch started; while :; do sleep 0.1; done";
    in_every_sandbox(script, &["loop", "3", "x"], |project, command, backend| {
        let mut terminal = Terminal::start(&command);
        wait_for_file(project, "started", backend);
        terminal.press("\x03");
        let (code, screen) = terminal.finish();
        assert_eq!(code, 130, "{backend}: {screen}");
        assert!(project.root().join("cleaned").exists(), "{backend}: {screen}");
    });
}

#[test]
fn one_ctrl_c_in_a_terminal_of_its_own_is_the_agents_in_every_sandbox() {
    let script =
        "trap 'touch caught' INT; touch started; while ! [ -e go ]; do sleep 0.1; done; exit 0";
    let arguments = ["loop", "1", "x", "--pty", "--idle-timeout", "0"];
    in_every_sandbox(script, &arguments, |project, command, backend| {
        let mut terminal = Terminal::start(&command);
        wait_for_file(project, "started", backend);
        // A key that comes before the agent has the terminal is nobody's; two in a second are ralph's.
        let (caught, deadline) = (project.root().join("caught"), Instant::now() + DEADLINE);
        let seen = wait_until(deadline, || {
            terminal.press("\x03");
            wait_until(Instant::now() + Duration::from_secs(5), || caught.exists().then_some(()))
        });
        assert!(seen.is_some(), "{backend}: {}", terminal.screen());
        project.write("go", "");
        let (code, screen) = terminal.finish();
        assert_eq!(code, 3, "{backend}: {screen}");
        assert!(screen.contains("iteration complete"), "{backend}: {screen}");
    });
}
