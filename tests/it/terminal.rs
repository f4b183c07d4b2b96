//! A real terminal around a real program: keys go in, and what a person would see comes out.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{DEADLINE, wait_until};

/// How long to wait for the last output of a program that has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A terminal with a program in it, which is ended when the test is.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    master: Box<dyn MasterPty + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    bells: Arc<AtomicUsize>,
    /// Ends when no process has the terminal any more and all of its output is on the screen.
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts a program in a terminal of the usual size.
    pub(crate) fn start(command: &Command) -> Terminal {
        Terminal::sized(command, 24, 80)
    }

    pub(crate) fn sized(command: &Command, rows: u16, cols: u16) -> Terminal {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let child = pair.slave.spawn_command(builder(command)).unwrap();
        let emulation =
            vt100::Parser::new(rows.try_into().unwrap(), cols.try_into().unwrap(), 10_000);
        let screen = Arc::new(Mutex::new(emulation));
        let (mut output, shown) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&screen));
        let bells = Arc::new(AtomicUsize::new(0));
        let ringing = Arc::clone(&bells);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            let mut waiting = Vec::new();
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                waiting.extend_from_slice(&buffer[..count]);
                let rung = buffer[..count].iter().filter(|&&byte| byte == 0x07).count();
                ringing.fetch_add(rung, Ordering::SeqCst);
                let rest = waiting.split_off(whole(&waiting));
                shown.lock().unwrap().process(&with_index(&waiting));
                waiting = rest;
            }
        });
        let keyboard = pair.master.take_writer().unwrap();
        Terminal { child, keyboard, master: pair.master, screen, bells, reader }
    }

    /// A shell with job control, ready for a command.
    pub(crate) fn shell(command: &Command) -> Terminal {
        let mut shell = Command::new("bash");
        shell.args(["--norc", "--noprofile", "--noediting", "-i"]);
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        shell.env("PS1", "shell> ").current_dir(command.get_current_dir().unwrap());
        let mut terminal = Terminal::start(&shell);
        terminal.wait_for("shell> ");
        terminal
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// What stands on the screen.
    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Asks something about the screen.
    pub(crate) fn look<T>(&self, ask: impl FnOnce(&vt100::Screen) -> T) -> T {
        ask(self.screen.lock().unwrap().screen())
    }

    /// Makes the window another size.
    pub(crate) fn resize(&mut self, rows: u16, cols: u16) {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).unwrap();
        let mut screen = self.screen.lock().unwrap();
        screen.set_size(rows.try_into().unwrap(), cols.try_into().unwrap());
    }

    /// Waits until this stands on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> &mut Terminal {
        self.wait_for_times(text, 1)
    }

    /// Waits until this stands on the screen so many times.
    #[track_caller]
    pub(crate) fn wait_for_times(&mut self, text: &str, times: usize) -> &mut Terminal {
        let deadline = Instant::now() + DEADLINE;
        let seen =
            wait_until(deadline, || (self.screen().matches(text).count() >= times).then_some(()));
        assert!(seen.is_some(), "{text:?} never came:\n{}", self.screen());
        self
    }

    /// How often the bell has rung.
    pub(crate) fn bells(&self) -> usize {
        self.bells.load(Ordering::SeqCst)
    }

    /// The process in the terminal.
    pub(crate) fn id(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the end of the program: its exit code, and the screen.
    #[track_caller]
    pub(crate) fn finish(&mut self) -> (u32, String) {
        let deadline = Instant::now() + DEADLINE;
        let status = wait_until(deadline, || self.child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it does not end:\n{}", self.screen()));
        // What it wrote last may still be on its way. A process that it left behind may keep the
        // terminal open for ever: other checks find that.
        let patience = Instant::now() + LAST_WORDS;
        let _ = wait_until(patience, || self.reader.is_finished().then_some(()));
        (status.exit_code(), self.screen())
    }

    /// Whether the cursor can be seen, and nothing but ordinary keys and text is asked for.
    pub(crate) fn is_sane(&self) -> bool {
        let parser = self.screen.lock().unwrap();
        let screen = parser.screen();
        !screen.hide_cursor()
            && !screen.alternate_screen()
            && !screen.bracketed_paste()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How many of these bytes the emulation can take: half a character or half a sequence at the end would
/// be lost, and its second half may still be on its way.
fn whole(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let length = match bytes[at] {
            0x80..=0xBF => continue,
            0x1B | 0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xFF => 4,
            _ => 1,
        };
        return if length > back { at } else { bytes.len() };
    }
    bytes.len()
}

/// The emulation does not know "index", by which a cursor goes down a line and scrolls; a line feed
/// without its carriage return is the same.
pub(crate) fn with_index(bytes: &[u8]) -> Vec<u8> {
    let mut known = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\x1bD") {
            known.push(b'\n');
            rest = after;
        } else {
            known.push(first);
            rest = after;
        }
    }
    known
}

fn builder(command: &Command) -> CommandBuilder {
    let mut builder = CommandBuilder::new(command.get_program());
    builder.env_clear();
    builder.args(command.get_args());
    for (name, value) in command.get_envs() {
        builder.env(name, value.unwrap_or_default());
    }
    builder.env("TERM", "xterm-256color");
    if let Some(directory) = command.get_current_dir() {
        builder.cwd(directory);
    }
    builder
}
