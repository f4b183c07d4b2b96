//! The terminal that ralph itself runs in: what it was like before an agent had it, and how it becomes
//! so again.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode, window_size};
use portable_pty::{MasterPty, PtyPair, PtySize, native_pty_system};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr};

/// How long a terminal that nobody reads is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Leaves the alternate screen, if it is shown. To leave it moves the cursor to where it was when the
/// alternate screen was entered, in tmux and in other terminals even if it is not shown. So it is entered
/// first: where it is shown already, that does nothing, and where it is not, the cursor comes back to where
/// it is now.
const LEAVE_ALTERNATE_SCREEN: &[u8] = b"\x1b[?1049h\x1b[?1049l";
/// Shows the cursor, ends an update that was not finished, and turns off
/// reports of mouse, focus and colour scheme, bracketed paste, the keyboard protocols, odd key codes,
/// other character sets and colours.
const RESET: &[u8] = b"\x1b[?2026l\x1b[?25h\x1b[?7h\
    \x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2031l\x1b[?2004l\
    \x1b[<u\x1b[>4m\x1b[?1l\x1b>\x1b(B\x1b[0m";

/// The modes of the terminal before an agent had it.
#[derive(Debug)]
pub(super) struct SavedTerminal {
    modes: Termios,
}

impl SavedTerminal {
    /// None, if there is no terminal.
    pub(super) fn save() -> Option<SavedTerminal> {
        tcgetattr(stdin()).ok().map(|modes| SavedTerminal { modes })
    }

    pub(super) fn restore(&self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.modes);
    }

    /// An agent that could not clean up has left the screen, too, as it wanted it.
    pub(super) fn restore_with_screen(&self) {
        if isatty(stdout()) {
            write_soon(&reset(true));
        }
        self.restore();
    }
}

/// Whether this process is in the foreground of the terminal on its stdin. Others who read the terminal
/// or change its modes are stopped by the system.
pub fn is_in_foreground() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// Whether another job of the shell has the terminal on stdout.
pub fn is_in_background() -> bool {
    tcgetpgrp(stdout()).is_ok_and(|group| group != getpgrp())
}

/// The terminal while every key is handed on as it is. When this is dropped, by whatever way, the
/// terminal is as it was.
#[derive(Debug)]
pub(super) struct RawTerminal {
    /// Whether it may show the alternate screen.
    pub(super) alternate: bool,
}

impl RawTerminal {
    /// Where stdin is no terminal, there are no keys to hand on, and only the screen is put right in the
    /// end.
    pub(super) fn enter() -> io::Result<RawTerminal> {
        let terminal = RawTerminal { alternate: true };
        terminal.again()?;
        Ok(terminal)
    }

    /// Enters raw mode once more: while ralph was suspended, the shell had the terminal.
    pub(super) fn again(&self) -> io::Result<()> {
        if !is_in_foreground() {
            return Ok(());
        }
        // Enabling does nothing while it is believed to be on.
        disable_raw_mode()?;
        enable_raw_mode()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if isatty(stdout()) {
            write_soon(&reset(self.alternate));
        }
        leave_raw_mode();
    }
}

/// What puts the screen right after an agent, which may have left the alternate screen on.
pub(super) fn reset(alternate: bool) -> Vec<u8> {
    let leave = if alternate { LEAVE_ALTERNATE_SCREEN } else { b"" };
    [leave, RESET].concat()
}

/// Makes the modes of the terminal as they were, if they were changed for an agent.
pub fn leave_raw_mode() {
    if is_in_foreground() {
        let _ = disable_raw_mode();
    }
}

/// How large the user's terminal is; if it does not tell, `usual`.
pub(super) fn size(usual: PtySize) -> PtySize {
    let told = window_size().ok().filter(|size| size.rows > 0 && size.columns > 0);
    told.map_or(usual, |size| PtySize {
        rows: size.rows,
        cols: size.columns,
        pixel_width: size.width,
        pixel_height: size.height,
    })
}

/// Both ends of a new terminal. The agent's end is one of its own and not the library's, which closes it
/// only with its own way to start a program.
pub(super) fn open_pty(size: PtySize) -> io::Result<(Box<dyn MasterPty + Send>, OwnedFd)> {
    // The library tells its errors in words that are not for people.
    let PtyPair { master, slave } =
        native_pty_system().openpty(size).map_err(|_| io::Error::last_os_error())?;
    let name = master.tty_name().ok_or(io::ErrorKind::NotFound)?;
    let agents = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    drop(slave);
    Ok((master, agents))
}

/// Writes to a terminal at once, past every buffer of ours; waits as long as nobody reads it.
pub(super) fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // Somebody who shares the terminal with us does not want to wait; we do.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&to, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a few bytes to the user's terminal, unless nobody reads it for a while: we do not hang because
/// of it. A byte at a time, because nobody can say how many there is room for.
pub(super) fn write_soon(bytes: &[u8]) {
    let deadline = Instant::now() + PATIENCE;
    for byte in bytes {
        let left = deadline.saturating_duration_since(Instant::now());
        let out = stdout();
        let mut fds = [PollFd::new(&out, PollFlags::OUT)];
        let ready = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        if ready == Ok(0) || write_all(out, std::slice::from_ref(byte)).is_err() {
            return;
        }
    }
}
