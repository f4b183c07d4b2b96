//! `ralph run` and `ralph loop` with agents that have a terminal of their own, from the flags to what
//! becomes of the task, and every way to stop them there.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{DEADLINE, Project, check_rules, wait_until};
use crate::terminal::Terminal;

const CTRL_C: &str = "\x03";
const CTRL_BACKSLASH: &str = "\x1c";

/// A project with one task, and the task.
fn one_task() -> (Project, String) {
    let project = Project::new();
    project.git_init();
    let task = project.add(["Do it"]);
    (project, task)
}

fn run_command(project: &Project, scripts: &[&str], flags: &[&str]) -> Command {
    project.ralph_playing(scripts, ["run", "--no-verify"].iter().chain(flags))
}

#[track_caller]
fn finish(project: &Project, terminal: &mut Terminal, code: u32) -> String {
    let (exit, screen) = terminal.finish();
    assert_eq!(exit, code, "{screen}");
    assert!(terminal.is_sane(), "{screen}");
    project.assert_nothing_left();
    check_rules(project);
    screen
}

fn outcome(project: &Project, task: &str) -> String {
    let history = project.show(task)["history"].clone();
    history[0]["outcome"].as_str().unwrap_or("open").to_owned()
}

// The table of modes.

#[test]
fn flags_and_settings_decide_who_has_the_terminal() {
    // What the settings say, what the flags say, and whether the agent has a terminal that takes keys.
    let cases: &[(bool, &[&str], Option<bool>)] = &[
        (false, &[], None),
        (false, &["--pty"], Some(true)),
        (false, &["--pty", "--observe"], Some(false)),
        (false, &["--observe"], Some(false)),
        (true, &[], Some(true)),
        (true, &["--observe"], Some(false)),
        (true, &["--no-pty"], None),
    ];
    for &(pty_mode, flags, expected) in cases {
        let (project, task) = one_task();
        project.write(".ralph.toml", format!("pty_mode = {pty_mode}\n"));
        let keys = project.base().join("keys");
        let script = match expected {
            None => "expect-arg --print | done".to_owned(),
            Some(true) => {
                format!("expect-terminal | say ready | read-line {} | done", keys.display())
            }
            Some(false) => "expect-terminal | say ready | done".to_owned(),
        };
        let mut terminal = Terminal::start(&run_command(&project, &[&script], flags));
        if expected == Some(true) {
            terminal.wait_for("ready").press("yes\r");
            let deadline = Instant::now() + DEADLINE;
            wait_until(deadline, || keys.exists().then_some(())).expect("the keys reach the agent");
        }
        finish(&project, &mut terminal, 0);
        assert_eq!(outcome(&project, &task), "done", "{pty_mode} {flags:?}");
    }
}

#[test]
fn a_verdict_on_the_screen_of_a_program_without_hooks_is_read_as_a_terminal_shows_it() {
    let (project, task) = one_task();
    let program = project.base().join("agent");
    // Wrapped at the right edge, with colours and jumps of the cursor.
    let text = format!(
        "#!/bin/sh\nprintf 'I work hard on this for quite some time, as you can see from this text.\\033[31m'\n\
         printf '\\033[10C<task-done>{task}</task-done>\\033[0m\\n'\n"
    );
    fs::write(&program, text).unwrap();
    let mut permissions = fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&program, permissions).unwrap();
    let mut command = run_command(&project, &[""], &["--observe"]);
    command.env("RALPH_AGENT_COMMAND", &program);
    let mut terminal = Terminal::start(&command);
    finish(&project, &mut terminal, 0);
    assert_eq!(outcome(&project, &task), "done");
}

#[test]
fn without_a_terminal_it_is_said_and_the_run_goes_on() {
    let (project, task) = one_task();
    let output =
        project.run(run_command(&project, &["expect-arg --print | done"], &["--pty"]), None);
    assert!(output.status.success(), "{output:?}");
    let said = "PTY mode requested but stdout is not a TTY, falling back to headless\n";
    assert_eq!(output.stderr(), said);
    assert_eq!(outcome(&project, &task), "done");
}

#[test]
fn a_verifier_works_unseen_after_a_session_that_was_seen() {
    let (project, task) = one_task();
    let scripts = ["expect-terminal | done", "expect-arg --print | say <verify-pass/>"];
    let mut terminal = Terminal::start(&project.ralph_playing(&scripts, ["run", "--observe"]));
    finish(&project, &mut terminal, 0);
    assert_eq!(project.show(&task)["history"][0]["verification_status"], "passed");
}

#[test]
fn an_agent_that_does_nothing_any_more_is_ended_and_tried_again() {
    let (project, task) = one_task();
    let scripts = ["say hm | no-result | hang", "done"];
    let mut terminal =
        Terminal::start(&run_command(&project, &scripts, &["--observe", "--idle-timeout", "1"]));
    finish(&project, &mut terminal, 0);
    let history = project.show(&task)["history"].clone();
    let outcomes: Vec<&str> =
        history.as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["silent", "done"]);
}

// Every way to stop it.

#[test]
fn keys_and_signals_stop_a_run_whose_agent_has_the_terminal() {
    let deaf = "ignore SIGINT | ignore SIGTERM | orphan-setsid | say ready | no-result | hang";
    let polite = "orphan-setsid | say ready | no-result | hang";
    for mode in ["--pty", "--observe"] {
        for stop in ["ctrl-c twice", "ctrl-\\", "INT", "TERM", "HUP", "QUIT"] {
            let (project, task) = one_task();
            let script = if stop == "ctrl-\\" { deaf } else { polite };
            let flags = [mode, "--idle-timeout", "0"];
            let command = run_command(&project, &[script], &flags);
            let mut terminal = Terminal::shell(&command);
            let (before, after) = (project.base().join("before"), project.base().join("after"));
            let pid = project.base().join("pid");
            terminal.press(&format!(
                "clear; stty -a > {}; sh -c 'echo $$ > {}; exec {} run --no-verify {}'; echo code $?; stty -a > {}\n",
                before.display(),
                pid.display(),
                crate::harness::RALPH,
                flags.join(" "),
                after.display()
            ));
            terminal.wait_for("ready");
            let ralph = || {
                let text = fs::read_to_string(&pid).unwrap();
                rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap()
            };
            match stop {
                "ctrl-c twice" => terminal.press(&CTRL_C.repeat(2)),
                "ctrl-\\" => terminal.press(CTRL_BACKSLASH),
                signal => {
                    let signal = match signal {
                        "INT" => Signal::INT,
                        "TERM" => Signal::TERM,
                        "QUIT" => Signal::QUIT,
                        _ => Signal::HUP,
                    };
                    rustix::process::kill_process(ralph(), signal).unwrap();
                }
            }
            terminal.wait_for("code 130");
            let deadline = Instant::now() + DEADLINE;
            let modes = wait_until(deadline, || {
                fs::read_to_string(&after).ok().filter(|text| !text.is_empty())
            });
            assert_eq!(modes, fs::read_to_string(&before).ok(), "{mode} {stop}");
            assert!(terminal.is_sane(), "{mode} {stop}: {}", terminal.screen());
            terminal.press("exit\n");
            terminal.finish();
            assert_eq!(outcome(&project, &task), "interrupted", "{mode} {stop}");
            assert_eq!(project.show(&task)["status"], "pending");
            project.assert_nothing_left();
            check_rules(&project);
        }
    }
}

#[test]
fn nothing_survives_when_a_run_is_killed_whose_agent_has_a_terminal() {
    let (project, task) = one_task();
    let script = "orphan-setsid-double-fork | say ready | no-result | hang";
    let mut terminal = Terminal::start(&run_command(&project, &[script], &["--observe"]));
    terminal.wait_for("ready").signal(Signal::KILL);
    terminal.finish();
    // The next command takes the claim back, and what is left of it.
    assert_eq!(project.show(&task)["status"], "pending");
    crate::harness::assert_no_process_left(&project);
    let none = wait_until(Instant::now() + DEADLINE, || {
        project.temporary_files().is_empty().then_some(())
    });
    assert!(none.is_some(), "{:?}", project.temporary_files());
    assert_eq!(outcome(&project, &task), "crashed");
}

// Loops.

#[test]
fn a_loop_reads_its_completion_from_what_the_agent_hands_over() {
    let project = Project::bare();
    project.write("prompt.md", "Do the next thing. Say LOOP_COMPLETE when all is done.\n");
    let scripts = ["expect-terminal | say not yet", "say All is done.\\n\\nLOOP_COMPLETE"];
    let mut command = project.ralph_playing(&scripts, ["loop", "5", "--observe"]);
    command.env("RALPH_LOOP_PAUSE_SECS", "0");
    let mut terminal = Terminal::sized(&command, 40, 100);
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("the loop is complete: the agent said LOOP_COMPLETE"), "{screen}");
    assert!(screen.contains("2 iterations"), "{screen}");
    project.assert_nothing_left();
}

#[test]
fn ctrl_c_twice_stops_a_loop_whose_agent_has_the_terminal() {
    let project = Project::bare();
    project.write("prompt.md", "x");
    let script = "say ready | no-result | hang";
    let mut terminal = Terminal::start(&project.ralph_playing(&[script], ["loop", "5", "--pty"]));
    terminal.wait_for("ready").press(&CTRL_C.repeat(2));
    let (code, screen) = terminal.finish();
    assert_eq!(code, 130, "{screen}");
    assert!(terminal.is_sane(), "{screen}");
    project.assert_nothing_left();
}

/// A loop around a program that calls no hooks, on a terminal of this many rows.
fn loop_on_a_screen(project: &Project, script: &str, flags: &[&str]) -> (u32, String) {
    project.write("agent", format!("#!/bin/sh\ntest \"$1\" = --version && exit\n{script}\n"));
    let agent = project.root().join("agent");
    let mut permissions = fs::metadata(&agent).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&agent, permissions).unwrap();
    let agent = agent.display().to_string();
    let loops = ["loop", "3", "Say it when all is done.", "--no-sandbox", "--agent", &agent];
    let mut command = project.ralph_command(loops.iter().chain(flags));
    command.env("RALPH_LOOP_PAUSE_SECS", "0");
    let mut terminal = Terminal::sized(&command, 40, 100);
    let (code, screen) = terminal.finish();
    assert!(terminal.is_sane(), "{screen}");
    project.assert_nothing_left();
    (code, screen)
}

#[test]
fn a_promise_on_the_screen_completes_a_loop() {
    let in_colours = "printf '\\033[32mLOOP_COMPLETE\\033[0m\\n'";
    let early = "echo LOOP_COMPLETE; seq 1000";
    let never_ends = "echo LOOP_COMPLETE; sleep 600";
    for script in [in_colours, early, never_ends] {
        for mode in ["--pty", "--observe"] {
            let project = Project::bare();
            let (code, screen) = loop_on_a_screen(&project, script, &[mode, "--idle-timeout", "1"]);
            assert_eq!(code, 0, "{script} {mode}: {screen}");
            assert!(screen.contains("the agent said LOOP_COMPLETE"), "{script} {mode}: {screen}");
            assert!(screen.contains("1 iteration "), "{script} {mode}: {screen}");
            assert!(!screen.contains("no activity"), "{script} {mode}: {screen}");
        }
    }
}

#[test]
fn an_idle_timeout_is_told() {
    let told = "no activity for 1 s (--idle-timeout): session ended";
    let project = Project::bare();
    let script = "echo hm; sleep 600";
    let (code, screen) = loop_on_a_screen(&project, script, &["--observe", "--idle-timeout", "1"]);
    assert_eq!((code, screen.matches(told).count()), (3, 3), "{screen}");
    // With hooks, and as the reason of an attempt.
    for script in ["say hm | no-result | hang", "no-hooks | raw-mode | print hm | hang"] {
        let (project, task) = one_task();
        let flags = ["--observe", "--idle-timeout", "1", "--once"];
        let mut terminal = Terminal::start(&run_command(&project, &[script], &flags));
        terminal.finish();
        let attempt = project.show(&task)["history"][0].clone();
        assert_eq!(attempt["reason"], told, "{script}: {attempt}");
        project.assert_nothing_left();
    }
}

#[test]
fn the_size_that_the_environment_tells_counts_where_the_terminal_tells_none() {
    let project = Project::bare();
    let command = project.ralph_with("size | say bye", [""; 0]);
    let mut shell = Terminal::shell(&command);
    let ralph = crate::harness::RALPH;
    shell.press(&format!("stty rows 0 cols 0; COLUMNS=97 LINES=31 {ralph} loop 1 x --observe\n"));
    shell.wait_for("size 31x97").wait_for("the limit on iterations was reached");
    shell.press("exit\n");
    shell.finish();
    project.assert_nothing_left();
}
