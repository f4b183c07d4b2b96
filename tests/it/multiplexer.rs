//! What stands on the screen of a real tmux and a real GNU screen after a session. Where there is none
//! nothing is tried, and that is said aloud.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::time::Instant;

use crate::harness::{DEADLINE, FAKE_CLAUDE, Project, RALPH, assert_no_process_left, wait_until};

const SESSION: &str = env!("CARGO_BIN_EXE_ralph-session");
const CTRL_BACKSLASH: &str = "\x1c";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tmux,
    Screen,
}

/// A multiplexer of its own, with one window that has a shell in it.
struct Multiplexer {
    kind: Kind,
    project: Project,
}

impl Multiplexer {
    /// None where there is no such program.
    fn new(kind: Kind, script: &str) -> Option<Multiplexer> {
        let multiplexer = Multiplexer { kind, project: Project::new() };
        let base = multiplexer.project.base();
        fs::create_dir(base.join("sockets")).unwrap();
        fs::set_permissions(base.join("sockets"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(base.join("screenrc"), "altscreen on\nstartup_message off\n").unwrap();
        let config = base.join("screenrc").display().to_string();
        let start = match kind {
            Kind::Tmux => &["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"][..],
            Kind::Screen => &["-c", &config, "-dmS", "test"],
        };
        let mut command = multiplexer.command(start);
        command
            .args(["bash", "--norc", "--noprofile", "--noediting", "-i"])
            .env("PS1", "shell> ")
            .env("FAKE_CLAUDE", script)
            .env("RALPH_AGENT_COMMAND", FAKE_CLAUDE);
        match command.status() {
            Ok(status) if status.success() => Some(multiplexer),
            _ => {
                // Not by a macro: those are only heard when a test fails.
                let _ = writeln!(io::stderr(), "\nSKIPPED: there is no {kind:?}.");
                None
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let sockets = self.project.base().join("sockets");
        let mut command = match self.kind {
            Kind::Tmux => self.project.command("tmux"),
            Kind::Screen => self.project.command("screen"),
        };
        if self.kind == Kind::Tmux {
            command.arg("-S").arg(sockets.join("tmux"));
        }
        command.args(arguments).env("SCREENDIR", sockets).env("TERM", "xterm-256color");
        command
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    }

    fn screen(&self) -> String {
        let screen = match self.kind {
            Kind::Tmux => self.call(&["capture-pane", "-p"]).stdout,
            Kind::Screen => {
                let file = self.project.base().join("hardcopy");
                let copy = ["-S", "test", "-X", "hardcopy", file.to_str().unwrap()];
                // Both the session and the file may come some time later: `wait_for` looks again.
                let _ = self.command(&copy).output().unwrap();
                fs::read(&file).unwrap_or_default()
            }
        };
        let screen = String::from_utf8_lossy(&screen);
        screen.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Waits until this stands on the screen: what stands there then.
    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        let look = || Some(self.screen()).filter(|screen| screen.contains(text));
        let seen = wait_until(Instant::now() + DEADLINE, look);
        seen.unwrap_or_else(|| panic!("{text:?} never came:\n{}", self.screen()))
    }

    fn press(&self, keys: &str) {
        match self.kind {
            Kind::Tmux => self.call(&["send-keys", "-l", keys]),
            Kind::Screen => self.call(&["-S", "test", "-X", "stuff", keys]),
        };
    }

    /// Has the shell run a line. It stands in a file, because each program reads quotes in its own way.
    fn enter(&self, line: &str) {
        let file = self.project.base().join("line");
        fs::write(&file, format!("{line}\n")).unwrap();
        self.press(&format!(". {}\r", file.display()));
    }

    /// Asserts that the terminal shows the ordinary screen and its cursor, and sends ordinary keys.
    fn assert_sane(&self, screen: &str) {
        if self.kind == Kind::Tmux {
            let modes =
                "#{alternate_on}#{cursor_flag}#{mouse_any_flag}#{keypad_cursor_flag}#{keypad_flag}";
            let modes = self.call(&["display-message", "-p", modes]).stdout;
            assert_eq!(String::from_utf8_lossy(&modes).trim(), "01000", "{screen}");
        }
    }
}

impl Drop for Multiplexer {
    fn drop(&mut self) {
        let end = match self.kind {
            Kind::Tmux => &["kill-server"][..],
            Kind::Screen => &["-S", "test", "-X", "quit"],
        };
        let _ = self.command(end).output();
    }
}

/// Uses the alternate screen as a pager does, so that a position is remembered, prints three lines, and
/// then does what is given. What was printed before and after must all stand there.
#[track_caller]
fn nothing_is_overwritten(script: &str, line: &str, act: impl Fn(&Multiplexer), shown: &[&str]) {
    for kind in [Kind::Tmux, Kind::Screen] {
        if let Some(multiplexer) = Multiplexer::new(kind, script) {
            nothing_is_overwritten_in(&multiplexer, line, &act, shown);
        }
    }
}

#[track_caller]
fn nothing_is_overwritten_in(
    window: &Multiplexer,
    line: &str,
    act: &impl Fn(&Multiplexer),
    shown: &[&str],
) {
    window.wait_for("shell>");
    window.enter("PS1=; stty -echo; printf '\\033[H\\033[2Jtop\\n\\033[?1049hpager\\033[?1049l'");
    window.wait_for("top");
    window.enter("printf 'one\\ntwo\\nthree\\n'");
    window.wait_for("three");
    window.enter(&format!("{line}; echo \"code $?\"; stty -a | grep -o ' .\\?icanon'; echo after"));
    act(window);
    let screen = window.wait_for("after");
    let mut rest = screen.as_str();
    for expected in [&["top", "one", "two", "three"], shown, &["icanon", "after"]].concat() {
        let at = rest.find(expected);
        let at = at.unwrap_or_else(|| panic!("{expected:?} is missing or out of order:\n{screen}"));
        rest = &rest[at + expected.len()..];
    }
    assert!(!screen.contains("-icanon"), "{screen}");
    window.assert_sane(&screen);
    window.press("exit\r");
    assert_no_process_left(&window.project);
}

fn session(flags: &str) -> String {
    format!("{SESSION} --pty interactive --grace-ms 0 {flags} {FAKE_CLAUDE}")
}

#[test]
fn what_an_agent_has_printed_stands_above_what_ralph_prints_after_it() {
    let printed = "print first line\\nlast line\\n";
    let shown = ["first line", "last line", "the session is over"];
    for ending in ["exit 0", "exit 1", "kill SIGKILL", "say bye"] {
        let script = format!("{printed} | {ending}");
        nothing_is_overwritten(&script, &session(""), |_| {}, &shown);
    }
    let script = format!("{printed} | hang");
    nothing_is_overwritten(&script, &session("--silence-ms 700"), |_| {}, &shown);
    let kill = |window: &Multiplexer| {
        window.wait_for("last line");
        window.press(CTRL_BACKSLASH);
    };
    nothing_is_overwritten(&script, &session(""), kill, &shown);
}

#[test]
fn an_agent_that_leaves_the_alternate_screen_on_is_put_right() {
    let script = "print first line\\n | raw-mode | print \\e[?1049hfull screen";
    let shown = ["first line", "the session is over"];
    nothing_is_overwritten(&format!("{script} | kill SIGKILL"), &session(""), |_| {}, &shown);
    let kill = |window: &Multiplexer| {
        window.wait_for("full screen");
        window.press(CTRL_BACKSLASH);
    };
    nothing_is_overwritten(&format!("{script} | hang"), &session(""), kill, &shown);
}

#[test]
fn an_interview_that_ends_badly_leaves_everything_where_it_stands() {
    let line = format!("{RALPH} feature spec login");
    let shown = ["first line", "last line", "ended with code 3", "no spec was written", "code 1"];
    let script = "print first line\\nlast line\\n | exit 3";
    nothing_is_overwritten(script, &line, |_| {}, &shown);
    let shown = ["was ended by signal 9", "no spec was written", "code 1"];
    let script = "raw-mode | print \\e[?1049hfull screen | kill SIGKILL";
    nothing_is_overwritten(script, &line, |_| {}, &shown);
}
