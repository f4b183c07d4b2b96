//! A program that ralph itself runs during a run, most often a shell command: it can be interrupted, has a time limit, leaves
//! nothing behind, and the end of what it printed is kept.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::agent::{self, EndedBy, Exit, Invocation, Limits, Listener, Mailbox, Stdin};
use crate::dag::BadEnd;

/// How much of what a command printed is kept: its end.
const TAIL_BYTES: usize = 256 << 10;
/// How many lines of it are passed on.
const TAIL_LINES: usize = 40;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It succeeded.
    Well,
    /// It did not.
    Badly {
        /// How, in a few words.
        how: String,
        /// The last lines it printed.
        tail: String,
        /// What it printed, or the end of it if that is very long.
        output: String,
    },
    /// A person ended it.
    Interrupted,
}

/// A command in a directory, to be run as a shell does.
pub(super) fn shell(command: &str, directory: &Path, path: &OsString) -> Invocation {
    Invocation {
        program: "sh".into(),
        arguments: vec!["-c".into(), format!("exec 2>&1\n{command}").into()],
        variables: vec![("PATH", path.clone()), ("GIT_TERMINAL_PROMPT", "0".into())],
        removed: vec![],
        stdin: Stdin::Nothing,
        scratch: None,
        directory: directory.to_owned(),
    }
}

/// Runs a program to its end; tells what it printed, too, or the end of it if that is very long.
pub(super) fn run(
    invocation: &Invocation,
    timeout: Option<Duration>,
    mailbox: &Mailbox,
    listener: &mut dyn Listener,
) -> Result<(Ended, String)> {
    let limits = Limits {
        silence: None,
        exit_grace: Duration::from_secs(5),
        deadline: timeout.map(|time| Instant::now() + time),
    };
    let mut tail = Tail::default();
    let report = agent::execute(invocation, limits, mailbox, &mut tail, listener)?;
    let how = match (report.ended_by, report.facts.exit) {
        (EndedBy::Request, _) => return Ok((Ended::Interrupted, tail.text())),
        (EndedBy::Deadline, _) => BadEnd::TooLong(timeout.unwrap_or_default().as_secs()),
        (_, Some(Exit::Code(0))) => return Ok((Ended::Well, tail.text())),
        (_, Some(Exit::Code(code))) => BadEnd::Code(code),
        (_, Some(Exit::Signal(signal))) => BadEnd::Signal(signal),
        (_, None) => BadEnd::Never,
    };
    // A command of a shell has no stderr of its own: it goes where its output goes.
    let output = format!("{}{}", tail.text(), report.stderr);
    Ok((Ended::Badly { how: how.to_string(), tail: last_lines(&output), output }, tail.text()))
}

/// The last lines of an output.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// Keeps the end of what is written to it.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    fn text(&self) -> String {
        let (first, second) = self.bytes.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }
}

impl Write for Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.bytes.len() + kept.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..excess);
        self.bytes.extend(kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut tail = Tail::default();
        for number in 0..10_000 {
            writeln!(tail, "line {number}").unwrap();
        }
        let lines = last_lines(&tail.text());
        assert_eq!(lines.lines().count(), TAIL_LINES);
        assert!(lines.ends_with("line 9999"));
        tail.write_all(&vec![b'x'; 3 * TAIL_BYTES]).unwrap();
        assert_eq!(tail.bytes.len(), TAIL_BYTES);
    }
}
