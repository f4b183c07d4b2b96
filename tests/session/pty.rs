//! The same in a terminal of its own. The screen is the agent's, so what happens goes to files: `--tell`
//! gets a line for each event, `--report` what came of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use ralph::agent::{
    Invocation, Listener, Mailbox, NoTerminal, Permission, PtyOptions, Scratch, Session,
    converse_in_pty, open_in_pty,
};
use ralph::engine::forward_signals;
use ralph::event::AgentEvent;
use serde_json::json;

use super::{Options, facts, print, shown, threads_left};

/// The threads that are there before and after a session: this one and the one that waits for signals.
const OWN_THREADS: u64 = 2;

/// How a session in a terminal is to be, besides its limits.
pub(crate) struct Terminal {
    interactive: bool,
    pub(crate) hooks: bool,
    pub(crate) report: Option<PathBuf>,
    pub(crate) tell: PathBuf,
}

impl Terminal {
    pub(crate) fn new(mode: &OsStr) -> Terminal {
        Terminal {
            interactive: mode == "interactive",
            hooks: true,
            report: None,
            tell: "/dev/null".into(),
        }
    }
}

pub(crate) fn run(terminal: &Terminal, options: &Options) -> Result<()> {
    let mailbox = Mailbox::new();
    forward_signals(&mailbox, true, || {})?;
    let prompt = fs::read_to_string(&options.prompt)?;
    let pty = PtyOptions {
        prompt: &prompt,
        usual_size: (24, 80),
        interactive: terminal.interactive,
        idle: options.limits.silence.filter(|idle| !idle.is_zero()),
        answer: options.answer,
        turn_grace: options.limits.exit_grace,
        deadline: options.limits.deadline,
    };
    let mut teller = Teller {
        file: File::create(&terminal.tell)?,
        panic_after: options.teller.panic_after.clone(),
    };
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let session = Session { scratch: Some(scratch.path().to_owned()), ..options.session()? };
    let (mut invocation, hooks) =
        open_in_pty(&session, &prompt, &Permission::Everything, true, &scratch)?;
    if !terminal.hooks {
        invocation = Invocation { arguments: options.agent[1..].to_vec(), ..invocation };
    }
    let mut log = Tail::default();
    let result = converse_in_pty(&invocation, &hooks, pty, &mailbox, &mut log, &mut teller);
    let report = match result {
        Err(error) if error.is::<NoTerminal>() => {
            print(&format!("without a terminal: {error}"));
            return Ok(());
        }
        result => result?,
    };
    let mut facts = facts(&report);
    facts["threads_left"] = json!(threads_left(OWN_THREADS));
    facts["log"] = json!(String::from_utf8_lossy(&log.0));
    if let Some(path) = &terminal.report {
        write_whole(path, &facts.to_string())?;
    }
    print("the session is over");
    Ok(())
}

/// Whoever waits for the file finds it whole.
fn write_whole(path: &PathBuf, text: &str) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, text).and_then(|()| fs::rename(&part, path)).context("the report")
}

/// A log of which only the end is kept.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        self.0.drain(..self.0.len().saturating_sub(4096));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Teller {
    file: File,
    panic_after: Option<String>,
}

impl Listener for Teller {
    fn event(&mut self, event: &AgentEvent<'_>) {
        let line = shown(event);
        let written: io::Result<()> = writeln!(self.file, "{line}");
        drop(written);
        if let Some(text) = &self.panic_after {
            assert!(!line.contains(text), "told to panic after {text:?}");
        }
    }

    fn caught_up(&mut self) {}
}
