//! Sessions in a terminal of their own, inside a real one: what is shown, who gets the keys, when they
//! end, and what the terminal is like afterwards.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{DEADLINE, FAKE_CLAUDE, Project, assert_no_process_left, wait_until};
use crate::terminal::Terminal;

const SESSION: &str = env!("CARGO_BIN_EXE_ralph-session");

const CTRL_C: &str = "\x03";
const CTRL_BACKSLASH: &str = "\x1c";

// What is shown.

#[test]
fn what_the_agent_shows_stands_on_the_screen_at_once_and_as_it_is() {
    let stage = Stage::new();
    let script =
        format!("expect-terminal | size | print \\e[31mred\\e[0m | wait-file {}", stage.go());
    let mut terminal = stage.start("interactive", &script, &["--grace-ms", "0"]);
    terminal.wait_for("size 24x80").wait_for("red");
    let colour = terminal.look(|screen| screen.cell(1, 0).unwrap().fgcolor());
    assert_eq!(colour, vt100::Color::Idx(1));
    stage.let_go();
    let facts = stage.finish(&mut terminal);
    assert!(facts["log"].as_str().unwrap().contains("\x1b[31mred\x1b[0m"), "{facts}");
    check(&facts, "Lingering", "Code(143)");
}

#[test]
fn what_turns_is_seen_turning() {
    let stage = Stage::new();
    let mut terminal = stage.start("observe", "spin 12 | say at last", &[]);
    terminal.wait_for("working");
    let facts = stage.finish(&mut terminal);
    let log = facts["log"].as_str().unwrap();
    for picture in ["\u{280b}", "\u{2819}", "\u{2839}", "\u{2838}"] {
        let frame = format!("\r\x1b[2K\x1b[35m{picture}\x1b[0m working");
        assert_eq!(log.matches(&frame).count(), 3, "{log:?}");
    }
    assert!(terminal.screen().contains("workingat last"), "{}", terminal.screen());
}

#[test]
fn the_agent_has_the_terminal_as_its_own() {
    let stage = Stage::new();
    let program = "echo by name > /dev/tty; ps -o pid= -o tpgid= -p $$; stty size";
    let mut terminal = stage.start_program("observe", &["sh", "-c", program], &[]);
    let facts = stage.finish(&mut terminal);
    let answer = facts["answer"].as_str().unwrap();
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!((lines[0], lines[2]), ("by name", "24 80"), "{answer}");
    let numbers: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "it is in the foreground: {answer}");
}

#[test]
fn another_size_of_the_window_is_passed_on() {
    let stage = Stage::new();
    let script = format!("report-size | say ready | wait-file {}", stage.go());
    let mut terminal = stage.start("observe", &script, &[]);
    terminal.wait_for("ready").resize(31, 97);
    terminal.wait_for("size 31x97").resize(10, 40);
    terminal.wait_for("size 10x40");
    stage.let_go();
    check(&stage.finish(&mut terminal), "Lingering", "Code(143)");
}

// Who gets the keys.

#[test]
fn keys_are_for_the_agent() {
    let stage = Stage::new();
    let keys = "y\r\x1b[A\x1b\x1bé東\x04\x1a\x13\x11";
    let script = format!("raw-mode | say ready | {}", stage.read_keys(keys.len(), "keys"));
    let mut terminal = stage.start("interactive", &script, &["--grace-ms", "0"]);
    terminal.wait_for("ready").press(keys);
    assert_eq!(stage.saved("keys"), keys);
    check(&stage.finish(&mut terminal), "Lingering", "Code(143)");
}

#[test]
fn a_line_that_is_typed_reaches_a_program_that_reads_lines() {
    let stage = Stage::new();
    let program = "printf 'name? '; read name; echo \"hello $name\"";
    let mut terminal = stage.start_program("interactive", &["sh", "-c", program], &[]);
    terminal.wait_for("name?").press("ralph\r");
    let facts = stage.finish(&mut terminal);
    assert_eq!(facts["answer"], "name? ralph\nhello ralph");
    check(&facts, "Itself", "Code(0)");
}

#[test]
fn one_interrupt_is_the_agents_and_a_second_one_soon_after_stops_it() {
    let stage = Stage::new();
    let script = format!(
        "raw-mode | say ready | {} | {} | hang",
        stage.read_keys(1, "first"),
        stage.read_keys(1, "second")
    );
    let mut terminal = stage.start("interactive", &script, &[]);
    terminal.wait_for("ready").press(CTRL_C);
    assert_eq!(stage.saved("first"), CTRL_C);
    terminal.press(CTRL_C);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Request", "Code(143)");
    assert_eq!(facts["trouble"], "Aborted");
    assert!(!stage.place("second").exists());
}

#[test]
fn two_interrupts_far_apart_are_both_the_agents() {
    let stage = Stage::new();
    let script = format!(
        "raw-mode | say ready | {} | {} | say fine",
        stage.read_keys(1, "first"),
        stage.read_keys(1, "second")
    );
    let mut terminal = stage.start("interactive", &script, &["--grace-ms", "0"]);
    terminal.wait_for("ready").press(CTRL_C);
    assert_eq!(stage.saved("first"), CTRL_C);
    thread::sleep(Duration::from_millis(1_050));
    terminal.press(CTRL_C);
    assert_eq!(stage.saved("second"), CTRL_C);
    let facts = stage.finish(&mut terminal);
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"ready\n\nfine".into()));
}

#[test]
fn an_interrupt_reaches_a_program_that_leaves_its_terminal_as_it_is() {
    let stage = Stage::new();
    let program = "trap 'echo caught; exit 7' INT; echo ready; sleep 60 & wait";
    let mut terminal = stage.start_program("interactive", &["sh", "-c", program], &[]);
    terminal.wait_for("ready").press(CTRL_C);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Itself", "Code(7)");
    assert!(facts["answer"].as_str().unwrap().contains("caught"), "{facts}");
}

#[test]
fn a_paste_is_text_whatever_it_holds() {
    let stage = Stage::new();
    let paste = "\x1b[200~\x03\x03\x1c\x1b[201~";
    let script = format!("raw-mode | say ready | {}", stage.read_keys(paste.len(), "keys"));
    let mut terminal = stage.start("interactive", &script, &["--grace-ms", "0"]);
    terminal.wait_for("ready").press(paste);
    assert_eq!(stage.saved("keys"), paste);
    check(&stage.finish(&mut terminal), "Lingering", "Code(143)");
}

#[test]
fn control_backslash_kills_at_once() {
    let stage = Stage::new();
    let script = "ignore SIGTERM | orphan-setsid-ignore-term | raw-mode | say ready | hang";
    for mode in ["interactive", "observe"] {
        let mut terminal = stage.start(mode, script, &[]);
        terminal.wait_for("ready").press(CTRL_BACKSLASH);
        let began = Instant::now();
        check(&stage.finish(&mut terminal), "Request", "Signal(9)");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    }
}

#[test]
fn whoever_only_looks_types_nothing() {
    let stage = Stage::new();
    let script = format!("raw-mode | say ready | {}", stage.read_keys(1, "keys"));
    let mut terminal = stage.start("observe", &script, &["--silence-ms", "1500"]);
    terminal.wait_for("ready");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1_000) {
        terminal.press("y\r ");
        terminal.press(CTRL_C);
        thread::sleep(Duration::from_millis(1_001).saturating_sub(began.elapsed()));
    }
    check(&stage.finish(&mut terminal), "Silence", "Code(143)");
    assert!(!stage.place("keys").exists());
}

#[test]
fn whoever_only_looks_can_stop_it() {
    let stage = Stage::new();
    let mut terminal = stage.start("observe", "raw-mode | say ready | hang", &[]);
    terminal.wait_for("ready").press("\x1b[99;5u\x1b[99;5u");
    check(&stage.finish(&mut terminal), "Request", "Code(143)");
}

#[test]
fn an_agent_that_suspends_itself_goes_on() {
    let stage = Stage::new();
    let mut terminal = stage.start("observe", "say ready | stop | say awake", &[]);
    let facts = stage.finish(&mut terminal);
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"ready\n\nawake".into()));
}

// When nothing happens.

#[test]
fn an_agent_that_does_nothing_is_ended() {
    let stage = Stage::new();
    for mode in ["interactive", "observe"] {
        let mut terminal = stage.start(mode, "say ready | hang", &["--silence-ms", "800"]);
        let facts = stage.finish(&mut terminal);
        check(&facts, "Silence", "Code(143)");
        assert_eq!(facts["trouble"], "Idle(800ms)");
    }
}

#[test]
fn keys_are_a_sign_of_life() {
    let stage = Stage::new();
    let mut terminal =
        stage.start("interactive", "raw-mode | say ready | hang", &["--silence-ms", "2500"]);
    terminal.wait_for("ready");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        assert!(!stage.place("report").exists(), "it has ended after {:?}", began.elapsed());
        terminal.press(" ");
        thread::sleep(Duration::from_millis(100));
    }
    check(&stage.finish(&mut terminal), "Silence", "Code(143)");
}

#[test]
fn output_is_a_sign_of_life() {
    let stage = Stage::new();
    let mut terminal = stage.start("observe", "spin 150 | say done", &["--silence-ms", "1500"]);
    let facts = stage.finish(&mut terminal);
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"done".into()));
}

#[test]
fn a_tool_at_work_may_be_silent() {
    let stage = Stage::new();
    let script = "tool Bash {\"command\":\"make\"} | sleep 2500 | say done";
    let mut terminal = stage.start("observe", script, &["--silence-ms", "1000"]);
    let facts = stage.finish(&mut terminal);
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"done".into()));
    assert_eq!(
        stage.told(),
        [
            "started opus",
            "tool Bash {\"command\":\"make\"}",
            "tool ended",
            "text done",
            "finished success"
        ]
    );
}

#[test]
fn a_tool_that_was_interrupted_by_a_key_is_not_at_work() {
    let stage = Stage::new();
    let script = format!(
        "raw-mode | tool Bash {{}} | say ready | tool Bash {{}} | {} | hang",
        stage.read_keys(1, "keys")
    );
    let mut terminal = stage.start("interactive", &script, &["--silence-ms", "1000"]);
    terminal.wait_for("ready");
    wait_until(Instant::now() + DEADLINE, || {
        (stage.told().iter().filter(|it| it.starts_with("tool Bash")).count() == 2).then_some(())
    })
    .expect("the second tool is at work");
    terminal.press("\x1b");
    check(&stage.finish(&mut terminal), "Silence", "Code(143)");
}

#[test]
fn without_an_idle_timeout_it_may_be_silent_for_ever() {
    let stage = Stage::new();
    let script = "say ready | sleep 1500 | say done";
    let mut terminal = stage.start("observe", script, &["--silence-ms", "0"]);
    assert_eq!(stage.finish(&mut terminal)["answer"], "ready\n\ndone");
}

#[test]
fn a_question_that_nobody_answers_is_named() {
    let stage = Stage::new();
    let script = "tool Write {} | ask-permission Write | hang";
    let mut terminal = stage.start("observe", script, &["--silence-ms", "3000"]);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Silence", "Code(143)");
    assert!(facts["trouble"].as_str().unwrap().contains("may it use `Write`?"), "{facts}");
}

#[test]
fn whatever_is_drawn_while_a_question_waits_is_no_sign_of_life() {
    let stage = Stage::new();
    let script = "tool Bash {} | ask-permission Bash | spin 100000";
    for mode in ["interactive", "observe"] {
        let mut terminal = stage.start(mode, script, &["--silence-ms", "1500"]);
        let facts = stage.finish(&mut terminal);
        check(&facts, "Silence", "Code(143)");
        assert!(facts["trouble"].as_str().unwrap().contains("may it use `Bash`?"), "{facts}");
    }
}

#[test]
fn a_key_makes_what_is_drawn_a_sign_of_life_again() {
    let stage = Stage::new();
    let script = format!(
        "raw-mode | tool Bash {{}} | ask-permission Bash | say ready | {} | spin 150 | say done",
        stage.read_keys(1, "keys")
    );
    let flags = ["--silence-ms", "1500", "--grace-ms", "0"];
    let mut terminal = stage.start("interactive", &script, &flags);
    terminal.wait_for("ready").press("y");
    let facts = stage.finish(&mut terminal);
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"ready\n\ndone".into()));
}

#[test]
fn what_the_agent_wants_to_know_is_kept() {
    let stage = Stage::new();
    let script =
        "tool AskUserQuestion {\"questions\":[{\"question\":\"Red or blue?\"}]} | spin 100000";
    // Nobody can answer where it is only looked at: it ends at once.
    for (mode, silence) in [("interactive", "1500"), ("observe", "0")] {
        let mut terminal = stage.start(mode, script, &["--silence-ms", silence]);
        let facts = stage.finish(&mut terminal);
        check(&facts, "Silence", "Code(143)");
        assert_eq!(facts["trouble"], "Question(\"Red or blue?\")", "{mode}");
    }
}

#[test]
fn a_question_of_the_first_start_ends_it_when_nobody_can_answer() {
    let stage = Stage::new();
    let dialog = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/terminal/dialogs.pty");
    let script = format!("dialog {} | hang", dialog.display());
    let mut terminal = stage.start("observe", &script, &["--silence-ms", "0"]);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Silence", "Code(143)");
    let trouble = facts["trouble"].as_str().unwrap();
    assert!(trouble.contains("it asks whether it may trust this directory"), "{facts}");
    assert!(stage.told()[0].contains("whether it may trust this directory"), "{:?}", stage.told());
}

#[test]
fn a_question_of_the_first_start_can_be_answered() {
    let stage = Stage::new();
    let dialog = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/terminal/dialogs.pty");
    let (dialog, answer) = (dialog.display(), stage.place("answer"));
    let script =
        format!("dialog {dialog} | read-line {} | tool Bash {{}} | say done", answer.display());
    let mut terminal = stage.start("interactive", &script, &["--grace-ms", "0"]);
    wait_until(Instant::now() + DEADLINE, || {
        stage.told().first().is_some_and(|it| it.contains("trust this directory")).then_some(())
    })
    .expect("the question is told");
    terminal.press("y\r");
    assert_eq!(stage.saved("answer"), "y\n");
    let facts = stage.finish(&mut terminal);
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"done".into()));
}

// How it ends, and what came of it.

#[test]
fn an_agent_that_will_not_end_is_killed_after_five_seconds() {
    let stage = Stage::new();
    let began = Instant::now();
    let script = "ignore SIGTERM | say ready | hang";
    let mut terminal = stage.start("observe", script, &["--silence-ms", "500"]);
    check(&stage.finish(&mut terminal), "Silence", "Signal(9)");
    assert!(began.elapsed() > Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn an_agent_that_ends_by_itself_is_left_alone() {
    let stage = Stage::new();
    let mut terminal = stage.start("observe", "say bye | exit 3", &[]);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Itself", "Code(3)");
    assert_eq!((&facts["trouble"], &facts["answer"]), (&"NoResult".into(), &"bye".into()));
}

#[test]
fn the_deadline_holds_whatever_it_does() {
    let stage = Stage::new();
    let flags = ["--deadline-ms", "1500", "--silence-ms", "0"];
    let mut terminal = stage.start("interactive", "say ready | spin 100000", &flags);
    check(&stage.finish(&mut terminal), "Deadline", "Code(143)");
}

#[test]
fn when_the_turn_is_over_a_session_that_is_only_looked_at_ends() {
    let stage = Stage::new();
    let script = "say It is <task-done>t-000001</task-done> | run true | say Bye. | cost 1.5";
    let mut terminal = stage.start("observe", script, &["--silence-ms", "0"]);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Lingering", "Code(143)");
    assert_eq!(facts["answer"], "It is <task-done>t-000001</task-done>\n\nBye.");
    assert_eq!(facts["trouble"], Value::Null);
}

#[test]
fn when_the_turn_is_over_whoever_may_type_has_a_moment_to_go_on() {
    let stage = Stage::new();
    let script = format!(
        "raw-mode | say one | result | {} | prompted | say two",
        stage.read_keys(1, "keys")
    );
    let mut terminal = stage.start("interactive", &script, &["--grace-ms", "2000"]);
    terminal.wait_for("one").press("x");
    assert_eq!(stage.saved("keys"), "x");
    let facts = stage.finish(&mut terminal);
    check(&facts, "Lingering", "Code(143)");
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"one\n\ntwo".into()));
}

#[test]
fn whoever_types_after_the_turn_is_not_cut_off() {
    let stage = Stage::new();
    let flags = ["--grace-ms", "1000", "--silence-ms", "2500"];
    let mut terminal =
        stage.start("interactive", "raw-mode | say one | result | print over | hang", &flags);
    terminal.wait_for("over");
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(100));
        terminal.press("x");
    }
    let began = Instant::now();
    let facts = stage.finish(&mut terminal);
    // The grace was over long before the silence was.
    check(&facts, "Silence", "Code(143)");
    assert!(began.elapsed() > Duration::from_millis(2_400), "{:?}", began.elapsed());
    assert_eq!((&facts["trouble"], &facts["answer"]), (&Value::Null, &"one".into()));
}

#[test]
fn what_the_api_refuses_is_the_same_trouble_as_without_a_terminal() {
    let stage = Stage::new();
    for (script, trouble) in [
        ("error 529 overloaded Overloaded", "Overloaded"),
        ("error 401 authentication_failed Invalid key", "Authentication"),
        ("error 400 invalid_request bad thing", "InvalidRequest(\"bad thing\")"),
    ] {
        let mut terminal = stage.start("observe", script, &[]);
        let facts = stage.finish(&mut terminal);
        assert_eq!(facts["trouble"], trouble, "{facts}");
    }
}

#[test]
fn whatever_is_drawn_an_api_that_does_not_answer_is_not_waited_for_for_ever() {
    let stage = Stage::new();
    for (script, trouble) in [
        ("spin 1000000", json!("Unanswered")),
        ("say I begin. | run true | spin 1000000", json!("Unanswered")),
        // A tool may take its time, and so may a person.
        ("run sleep 3 | say at last", Value::Null),
    ] {
        let flags = ["--silence-ms", "0", "--answer-ms", "1000"];
        let mut terminal = stage.start("observe", script, &flags);
        let facts = stage.finish(&mut terminal);
        assert_eq!(facts["trouble"], trouble, "{script}: {facts}");
    }
}

#[test]
fn without_hooks_what_it_says_is_what_a_terminal_would_show() {
    let stage = Stage::new();
    let sigil = "<task-done>t-0123456789abcdef</task-done>";
    let program = format!(
        "printf '\\033[1;36m  Thinking...\\033[0m\\r\\033[2K'; printf '%70s{sigil}\\n' ''; \
         printf 'All\\033[1Cdone. \\033[33mLOOP_COMPLETE\\033[0m\\n'; exit 0"
    );
    let mut terminal = stage.start_program("observe", &["sh", "-c", &program], &[]);
    let facts = stage.finish(&mut terminal);
    let answer = facts["answer"].as_str().unwrap();
    assert_eq!(answer.trim_start(), format!("{sigil}\nAll done. LOOP_COMPLETE"));
    assert_eq!((&facts["trouble"], &facts["on_screen"]), (&Value::Null, &true.into()));
    assert_eq!(facts["result"], facts["answer"]);
}

#[test]
fn a_program_without_hooks_that_falls_silent_has_said_it_all() {
    let stage = Stage::new();
    let program = "echo LOOP_COMPLETE; sleep 60";
    let mut terminal =
        stage.start_program("observe", &["sh", "-c", program], &["--silence-ms", "600"]);
    let facts = stage.finish(&mut terminal);
    let said = Value::from("LOOP_COMPLETE");
    assert_eq!(facts["ended_by"], "Silence");
    assert_eq!(facts["trouble"], "Idle(600ms)");
    assert_eq!((&facts["answer"], &facts["result"]), (&said, &said));
}

#[test]
fn a_program_that_hooks_are_offered_to_and_calls_none_is_read_from_its_screen() {
    let stage = Stage::new();
    let script = "no-hooks | raw-mode | print LOOP_COMPLETE\r\n | hang";
    let mut terminal = stage.start("observe", script, &["--silence-ms", "600"]);
    let facts = stage.finish(&mut terminal);
    check(&facts, "Silence", "Code(143)");
    assert_eq!((&facts["on_screen"], &facts["result"]), (&true.into(), &"LOOP_COMPLETE".into()));
}

#[test]
fn an_agent_that_is_only_observed_has_no_input() {
    let stage = Stage::new();
    let program = "cat; read line || echo no line; cat < /dev/tty; echo at the end";
    let flags = ["--silence-ms", "0"];
    let mut terminal = stage.start_program("observe", &["sh", "-c", program], &flags);
    let facts = stage.finish(&mut terminal);
    assert_eq!(facts["answer"], "no line\nat the end");
    check(&facts, "Itself", "Code(0)");
}

#[test]
fn to_observe_an_agent_takes_no_keyboard() {
    let stage = Stage::new();
    let mut shell = Terminal::shell(&stage.command("observe", "expect-terminal | say hello", &[]));
    shell.press(&format!("{} < /dev/null\n", stage.line("observe", &[])));
    shell.wait_for("hello").wait_for("the session is over");
    shell.press("exit\n");
    shell.finish();
    assert!(shell.is_sane(), "{}", shell.screen());
    stage.assert_nothing_left();
}

#[test]
fn what_can_not_be_started_is_said() {
    let stage = Stage::new();
    let mut terminal = stage.start_program("observe", &["no-such-program"], &[]);
    let (code, screen) = terminal.finish();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("the agent `no-such-program` was not found"), "{screen}");
    stage.assert_nothing_left();
    let broken = stage.project.write("broken", "#!/no/such/interpreter\n");
    Command::new("chmod").arg("+x").arg(&broken).status().unwrap();
    let mut terminal = stage.start_program("observe", &[broken.to_str().unwrap()], &[]);
    let facts = stage.finish(&mut terminal);
    assert!(facts["stderr"].as_str().unwrap().contains("can't start"), "{facts}");
    check(&facts, "Itself", "Code(127)");
}

// Nothing is left, whoever is killed.

#[test]
fn nothing_survives_when_ralph_is_killed() {
    let stage = Stage::new();
    let script = "ignore SIGTERM | orphan-setsid-double-fork-ignore-term | say ready | hang";
    let mut terminal = stage.start("interactive", script, &[]);
    terminal.wait_for("ready").signal(Signal::KILL);
    terminal.finish();
    stage.assert_nothing_left();
}

#[test]
fn nothing_survives_when_the_supervisor_is_killed() {
    let stage = Stage::new();
    let script = "ignore SIGTERM | orphan-setsid-double-fork-ignore-term | say ready | hang";
    let mut terminal = stage.start("interactive", script, &[]);
    terminal.wait_for("ready");
    send(child_of(terminal.id()), Signal::KILL);
    assert_eq!(stage.finish(&mut terminal)["exit"], "Signal(9)");
}

#[test]
fn nothing_survives_when_the_terminal_is_gone() {
    let stage = Stage::new();
    let script = "ignore SIGTERM | orphan-setsid | say ready | hang";
    let mut shell = Terminal::shell(&stage.command("interactive", script, &[]));
    shell.press(&format!("{}\n", stage.line("interactive", &[])));
    shell.wait_for("ready").signal(Signal::KILL);
    shell.finish();
    stage.assert_nothing_left();
}

#[test]
fn whoever_nobody_reads_takes_no_memory_and_can_be_ended() {
    let stage = Stage::new();
    let command = stage.command("observe", "flood-stdout", &["--silence-ms", "0"]);
    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut builder = CommandBuilder::new(command.get_program());
    builder.args(command.get_args());
    builder.env_clear();
    for (name, value) in command.get_envs() {
        builder.env(name, value.unwrap_or_default());
    }
    builder.cwd(command.get_current_dir().unwrap());
    let mut child = pair.slave.spawn_command(builder).unwrap();
    let pid = child.process_id().unwrap();
    let stands_still = wait_until(Instant::now() + DEADLINE, || {
        let before = read_by(pid);
        thread::sleep(Duration::from_millis(300));
        (before > 20_000 && read_by(pid) == before).then_some(before)
    });
    assert!(stands_still.is_some_and(|read| read < 4 << 20), "{stands_still:?}");
    assert!(peak_kb(pid) < 20 << 10, "{} kB", peak_kb(pid));
    send(pid, Signal::TERM);
    // The session is over although nobody reads; then whoever started it wants to say so.
    let facts: Value = serde_json::from_str(&stage.saved("report")).unwrap();
    check(&facts, "Request", "Signal(9)");
    let mut reader = pair.master.try_clone_reader().unwrap();
    thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let ended = wait_until(Instant::now() + DEADLINE, || child.try_wait().unwrap());
    assert!(ended.is_some(), "it does not end");
    stage.assert_nothing_left();
}

// The terminal afterwards.

#[test]
fn the_terminal_is_as_before_however_the_agent_ends() {
    for ending in ["say bye", "exit 1", "kill SIGKILL", "kill SIGSEGV", "error 529 overloaded Oh"] {
        as_before(&format!("raw-mode | {ending}"), &[], |_| {});
    }
}

#[test]
fn an_alternate_screen_is_left_once() {
    let stage = Stage::new();
    for (left, times) in [("", 1), ("\\e[?1049lbye\\r\\n", 1)] {
        let script = format!("no-hooks | raw-mode | print x{left} | exit 0");
        let command = stage.command("observe", &script, &[]);
        let mut shell = Terminal::shell(&command);
        let seen = stage.place("seen");
        shell.press(&format!(
            "script -qec '{}' {} > /dev/null\n",
            stage.line("observe", &[]),
            seen.display()
        ));
        shell.wait_for_times("shell> ", 2);
        shell.press("exit\n");
        shell.finish();
        let seen = fs::read(seen).unwrap();
        let leaves = seen.windows(8).filter(|it| *it == b"\x1b[?1049l").count();
        assert_eq!(leaves, times, "{left}: {}", String::from_utf8_lossy(&seen));
    }
}

#[test]
fn the_terminal_is_as_before_after_keys_that_end_it() {
    let script = "raw-mode | say ready | hang";
    as_before(script, &[], |shell| shell.wait_for("ready").press(CTRL_BACKSLASH));
    as_before(script, &[], |shell| shell.wait_for("ready").press("\x03\x03"));
}

#[test]
fn the_terminal_is_as_before_after_signals() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::ABORT] {
        as_before("raw-mode | say ready | hang", &[], |shell| {
            shell.wait_for("ready");
            send(child_of(shell.id()), signal);
        });
    }
}

#[test]
fn the_terminal_is_as_before_after_a_panic() {
    let script = "raw-mode | say ready | tool Boom {} | spin 100000";
    as_before(script, &["--panic-after", "Boom"], |_| {});
}

#[test]
fn the_terminal_is_raw_again_when_ralph_was_suspended_in_between() {
    let stage = Stage::new();
    let script = format!("raw-mode | say ready | {}", stage.read_keys(2, "keys"));
    let mut shell = Terminal::shell(&stage.command("interactive", &script, &[]));
    shell.press(&format!("{}\n", stage.line("interactive", &["--grace-ms", "0"])));
    shell.wait_for("ready");
    send(child_of(shell.id()), Signal::STOP);
    shell.wait_for("Stopped");
    shell.press("fg\n");
    let ralph = child_of(shell.id());
    let raw = wait_until(Instant::now() + DEADLINE, || {
        let modes =
            Command::new("stty").arg("-a").arg("-F").arg(terminal_of(ralph)).output().unwrap();
        String::from_utf8_lossy(&modes.stdout).contains("-icanon").then_some(())
    });
    raw.expect("it is raw again");
    shell.press("ab");
    assert_eq!(stage.saved("keys"), "ab");
    shell.wait_for("the session is over");
    shell.press("exit\n");
    shell.finish();
    stage.assert_nothing_left();
}

// When there is no terminal.

#[test]
fn without_a_terminal_the_caller_is_told_so() {
    let stage = Stage::new();
    for (mode, missing) in [("interactive", "stdin"), ("observe", "stdout")] {
        let command = stage.command(mode, "say never", &[]);
        let said = stage.project.run(command, None).ok();
        assert_eq!(said, format!("without a terminal: {missing} is no terminal"));
    }
    let mut shell = Terminal::shell(&stage.command("observe", "say never", &[]));
    shell.press(&format!("{} | cat\n", stage.line("observe", &[])));
    shell.wait_for("without a terminal: stdout is no terminal");
    shell.press("exit\n");
    let (_, screen) = shell.finish();
    assert!(!screen.contains("never"), "{screen}");
    stage.assert_nothing_left();
}

#[test]
fn whatever_the_system_does_not_give_is_said_and_the_terminal_is_as_before() {
    let stage = Stage::new();
    let mut seen = String::new();
    for files in 8..32 {
        let line = format!("ulimit -n {files}; exec {}", stage.line("observe", &[]));
        let mut command = stage.command("observe", "say fine", &[]);
        let environment: Vec<_> = command
            .get_envs()
            .map(|(name, value)| (name.to_owned(), value.unwrap().to_owned()))
            .collect();
        command = stage.project.command("sh");
        command.args(["-c", &line]).envs(environment);
        let mut terminal = Terminal::start(&command);
        let (_, screen) = terminal.finish();
        assert!(terminal.is_sane(), "{screen}");
        seen.push_str(&screen);
        seen.push('\n');
        stage.assert_nothing_left();
    }
    assert!(
        seen.contains("without a terminal: the system gives no terminal to the agent"),
        "{seen}"
    );
    assert!(seen.contains("the session is over"), "{seen}");
    assert!(!seen.contains("panicked"), "{seen}");
}

/// A place for sessions and what they save.
struct Stage {
    project: Project,
}

impl Stage {
    fn new() -> Stage {
        Stage { project: Project::bare() }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.project.base().join(name)
    }

    /// The file that a script waits for.
    fn go(&self) -> String {
        self.place("go").display().to_string()
    }

    fn let_go(&self) {
        fs::write(self.go(), "").unwrap();
    }

    fn read_keys(&self, count: usize, name: &str) -> String {
        format!("read-keys {count} {}", self.place(name).display())
    }

    /// What a script has saved, when it has.
    #[track_caller]
    fn saved(&self, name: &str) -> String {
        let file = wait_until(Instant::now() + DEADLINE, || fs::read(self.place(name)).ok());
        String::from_utf8(file.unwrap_or_else(|| panic!("{name} never came"))).unwrap()
    }

    fn told(&self) -> Vec<String> {
        let told = fs::read_to_string(self.place("tell")).unwrap_or_default();
        told.lines().map(str::to_owned).collect()
    }

    fn arguments(&self, mode: &str, flags: &[&str]) -> Vec<String> {
        let (report, tell) = (self.place("report"), self.place("tell"));
        let own =
            ["--pty", mode, "--report", report.to_str().unwrap(), "--tell", tell.to_str().unwrap()];
        own.iter().chain(flags).map(|it| (*it).to_owned()).collect()
    }

    fn command(&self, mode: &str, script: &str, flags: &[&str]) -> Command {
        let mut command = self.project.command(SESSION);
        command.args(self.arguments(mode, flags)).arg(FAKE_CLAUDE).env("FAKE_CLAUDE", script);
        command
    }

    /// The same as a line for a shell.
    fn line(&self, mode: &str, flags: &[&str]) -> String {
        format!("{SESSION} {} {FAKE_CLAUDE}", self.arguments(mode, flags).join(" "))
    }

    /// Starts a session whose agent plays this.
    fn start(&self, mode: &str, script: &str, flags: &[&str]) -> Terminal {
        Terminal::start(&self.command(mode, script, flags))
    }

    /// Starts a session with a program that knows no hooks.
    fn start_program(&self, mode: &str, program: &[&str], flags: &[&str]) -> Terminal {
        let mut command = self.project.command(SESSION);
        command.args(self.arguments(mode, flags)).args(["--hooks", "no"]).args(program);
        Terminal::start(&command)
    }

    /// Waits for the end, asserts that nothing is left, and returns what came of it.
    #[track_caller]
    fn finish(&self, terminal: &mut Terminal) -> Value {
        let (code, screen) = terminal.finish();
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains("the session is over"), "{screen}");
        assert!(terminal.is_sane(), "{screen}");
        self.assert_nothing_left();
        let report = fs::read_to_string(self.place("report")).unwrap();
        fs::remove_file(self.place("report")).unwrap();
        let facts: Value = serde_json::from_str(&report).unwrap();
        let left = (&facts["threads_left"], &facts["children_left"]);
        assert_eq!(left, (&0.into(), &0.into()), "{facts}");
        facts
    }

    #[track_caller]
    fn assert_nothing_left(&self) {
        assert_no_process_left(&self.project);
        assert_eq!(self.project.temporary_files(), [""; 0]);
    }
}

#[track_caller]
fn check(facts: &Value, ended_by: &str, exit: &str) {
    // On a busy machine an agent may not come to end by itself in the five seconds it has for that.
    let exit = if exit == "Code(143)" && facts["exit"] == "Signal(9)" { "Signal(9)" } else { exit };
    assert_eq!((&facts["ended_by"], &facts["exit"]), (&ended_by.into(), &exit.into()), "{facts}");
}

/// Asserts that the terminal is the same before and after a session to which `happen` happens.
fn as_before(script: &str, flags: &[&str], happen: impl FnOnce(&mut Terminal)) {
    let stage = Stage::new();
    let mut shell = Terminal::shell(&stage.command("interactive", script, flags));
    let flags = [flags, &["--grace-ms", "0"]].concat();
    let (before, after) = (stage.place("before"), stage.place("after"));
    shell.press(&format!(
        "stty -a > {}; {}; stty -a > {}\n",
        before.display(),
        stage.line("interactive", &flags),
        after.display()
    ));
    happen(&mut shell);
    shell.wait_for_times("shell> ", 2);
    assert_eq!(stage.saved("before"), stage.saved("after"), "{script}: {}", shell.screen());
    assert!(shell.is_sane(), "{script}: {}", shell.screen());
    shell.press("exit\n");
    shell.finish();
    stage.assert_nothing_left();
}

#[track_caller]
fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[track_caller]
fn child_of(parent: u32) -> u32 {
    let children = children_of(parent);
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

fn children_of(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children
        .flat_map(|it| it.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn terminal_of(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/fd/0")).unwrap()
}

/// How many bytes a process has read.
fn read_by(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/io"), "rchar:")
}

fn peak_kb(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmHWM:")
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
