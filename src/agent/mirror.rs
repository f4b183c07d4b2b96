//! The terminal that an agent gets, and the way from there to the user's: whatever the agent shows is
//! copied at once. If nobody reads it the agent has to wait, so it never takes memory.

use std::fmt;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use filedescriptor::FileDescriptor;
use portable_pty::{MasterPty, PtySize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, isatty, tcgetattr, tcsetattr,
};

use super::terminal::{self, RawTerminal};

/// How long a terminal that nobody reads is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much is read at a time, and handed on together.
const CHUNK: usize = 32 << 10;
/// How long output that has been shown may wait for more, to be handed on together.
const MOMENT: Duration = Duration::from_millis(5);

/// Why a session can't have a terminal. It can be held without.
#[derive(Debug)]
pub enum NoTerminal {
    /// There is nowhere to take keys from.
    Stdin,
    /// There is nowhere to show it.
    Stdout,
    /// The system has none to give.
    NotGiven(io::Error),
}

impl fmt::Display for NoTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTerminal::Stdin => f.write_str("stdin is no terminal"),
            NoTerminal::Stdout => f.write_str("stdout is no terminal"),
            NoTerminal::NotGiven(error) => {
                write!(f, "the system gives no terminal to the agent: {error}")
            }
        }
    }
}

impl std::error::Error for NoTerminal {}

/// Both ends of a new terminal.
pub(super) struct Pair {
    /// Gives it another size.
    pub(super) master: Box<dyn MasterPty + Send>,
    /// Ours: what is written here is typed there, and what is shown there is read here.
    pub(super) ours: Arc<OwnedFd>,
    pub(super) agents: OwnedFd,
}

impl Pair {
    /// Makes one of this size, if the user has a terminal to show it on; and to type on, if the agent is
    /// to get keys.
    pub(super) fn open(interactive: bool, size: PtySize) -> Result<Pair, NoTerminal> {
        if interactive && !isatty(stdin()) {
            return Err(NoTerminal::Stdin);
        }
        if !isatty(stdout()) {
            return Err(NoTerminal::Stdout);
        }
        let pair = Pair::new(size).map_err(NoTerminal::NotGiven)?;
        if !interactive {
            end_input(&pair.agents).map_err(|error| NoTerminal::NotGiven(error.into()))?;
        }
        Ok(pair)
    }

    fn new(size: PtySize) -> io::Result<Pair> {
        let (master, agents) = terminal::open_pty(size)?;
        // Not by the library's writer: when that is dropped, it types Enter and Ctrl+D.
        let descriptor = master.as_raw_fd().ok_or(io::ErrorKind::Unsupported)?;
        let ours = FileDescriptor::dup(&descriptor).map_err(io::Error::other)?;
        let ours = ours.as_fd().try_clone_to_owned()?;
        // The thread that types must not have to wait for an agent that does not read.
        ioctl_fionbio(&ours, true)?;
        Ok(Pair { master, ours: Arc::new(ours), agents })
    }
}

/// Has every read of this terminal return nothing, which means the end of its input. A program that wants
/// keys sets modes of its own; it just never gets any.
fn end_input(terminal: &OwnedFd) -> rustix::io::Result<()> {
    let mut modes = tcgetattr(terminal)?;
    modes.local_modes -= LocalModes::ICANON;
    modes.special_codes[SpecialCodeIndex::VMIN] = 0;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(terminal, OptionalActions::Now, &modes)
}

/// The user's terminal while it shows what an agent shows. When this is dropped, by whatever way, it
/// shows no more of it, and is as it was.
#[derive(Debug)]
pub(super) struct Display {
    gate: Gate,
    terminal: RawTerminal,
}

/// Whether the agent's output is still shown. Locked while it is being written.
pub(super) type Gate = Arc<Mutex<bool>>;

impl Display {
    pub(super) fn open() -> io::Result<Display> {
        Ok(Display { gate: Arc::new(Mutex::new(true)), terminal: RawTerminal::enter()? })
    }

    /// Tells whether the agent has left the alternate screen on.
    pub(super) fn set_alternate(&mut self, alternate: bool) {
        self.terminal.alternate = alternate;
    }

    pub(super) fn gate(&self) -> Gate {
        Arc::clone(&self.gate)
    }

    /// Ralph was suspended and goes on: another program had the terminal.
    pub(super) fn resume(&self) {
        // If it is gone, a signal tells.
        let _ = self.terminal.again();
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        // Something is being written that nobody may ever read.
        while Instant::now() < deadline {
            match self.gate.try_lock() {
                Ok(mut open) => return *open = false,
                Err(TryLockError::Poisoned(open)) => return *open.into_inner() = false,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Shows what the agent shows, until it has closed its terminal or the other end of `stopped` is closed.
/// What has been shown is collected for a moment, and then handed on to `each`.
pub(super) fn copy(
    agent: &OwnedFd,
    gate: &Gate,
    stopped: &PipeReader,
    mut each: impl FnMut(Vec<u8>),
) {
    let mut buffer = vec![0; CHUNK];
    let mut shown = Vec::new();
    loop {
        match rustix::io::read(agent, &mut buffer) {
            Ok(count @ 1..) => {
                show(&buffer[..count], gate);
                shown.extend_from_slice(&buffer[..count]);
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => match wait(agent, stopped, !shown.is_empty()) {
                Wake::Output => {}
                Wake::Pause => each(std::mem::take(&mut shown)),
                Wake::Stopped => break,
            },
            // The last one that had it has closed it.
            Ok(_) | Err(_) => break,
        }
        if shown.len() >= CHUNK {
            each(std::mem::take(&mut shown));
        }
    }
    if !shown.is_empty() {
        each(shown);
    }
}

enum Wake {
    Output,
    Pause,
    Stopped,
}

fn wait(agent: &OwnedFd, stopped: &PipeReader, briefly: bool) -> Wake {
    let input = PollFlags::IN;
    let mut fds = [PollFd::new(agent, input), PollFd::new(stopped, input)];
    let pause = briefly.then(|| Timespec::try_from(MOMENT).ok()).flatten();
    match poll(&mut fds, pause.as_ref()) {
        Ok(0) => Wake::Pause,
        _ if fds[0].revents().is_empty() && !fds[1].revents().is_empty() => Wake::Stopped,
        _ => Wake::Output,
    }
}

fn show(bytes: &[u8], gate: &Gate) {
    let open = gate.lock().unwrap_or_else(PoisonError::into_inner);
    if *open {
        // Work goes on if nobody can look any more.
        let _ = terminal::write_all(stdout(), bytes);
    }
}
