//! The keys that a run knows while it shows itself on a terminal: `p` pauses it, and lets it go on. They
//! are only listened for while ralph is in the foreground: a background job that reads the terminal, or
//! changes its modes, is stopped by the system.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::SIGCONT;
use signal_hook::low_level::{pipe, unregister};

use crate::agent::is_in_foreground;

/// How often a background job looks whether it is in the foreground now. The shell's `fg` sends no
/// signal to a job that is running.
const LOOK: Duration = Duration::from_millis(500);

/// The terminal with keys that arrive one by one and are not shown; as before when this is dropped.
#[derive(Debug)]
pub(super) struct Keyboard {
    modes: Modes,
    resumed: SigId,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Listens to the keys of the terminal, which make and remove the file `pause`.
    pub(super) fn listen(pause: &Path) -> io::Result<Keyboard> {
        let (stopped, stop) = io::pipe()?;
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let resumed = pipe::register(SIGCONT, waker)?;
        let modes = Modes::default();
        let listener = Listener { modes: modes.clone(), pause: pause.to_owned() };
        let thread = Some(thread::spawn(move || listener.run(&stopped, woken)));
        Ok(Keyboard { modes, resumed, stop: Some(stop), thread })
    }

    /// What makes the terminal as it was, for a thread that has to end the process without us.
    pub(super) fn restorer(&self) -> impl Fn() + Send + 'static {
        let modes = self.modes.clone();
        move || modes.restore()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop = None;
        unregister(self.resumed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.modes.restore();
    }
}

/// The modes of the terminal before its keys were listened for; none if they never were.
#[derive(Debug, Clone, Default)]
struct Modes(Arc<Mutex<Option<Termios>>>);

impl Modes {
    /// Has keys arrive one by one; false if there is no terminal any more.
    fn take(&self) -> bool {
        let mut saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = saved.clone().or_else(|| tcgetattr(stdin()).ok()) else { return false };
        let mut by_key = before.clone();
        by_key.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        *saved = Some(before);
        tcsetattr(stdin(), OptionalActions::Now, &by_key).is_ok()
    }

    fn restore(&self) {
        let saved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = saved.as_ref().filter(|_| is_in_foreground()) {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

struct Listener {
    modes: Modes,
    pause: PathBuf,
}

impl Listener {
    fn run(&self, stopped: &PipeReader, mut woken: UnixStream) {
        let mut listens = false;
        loop {
            if !is_in_foreground() {
                listens = false;
            } else if !listens {
                listens = self.modes.take();
            }
            let ready = wait(stopped, &woken, listens);
            if ready.stopped {
                return;
            }
            if ready.resumed {
                let _ = woken.read(&mut [0; 64]);
                // In between the terminal was the shell's.
                listens = false;
            }
            if listens && ready.keys && is_in_foreground() && !self.read() {
                return;
            }
        }
    }

    /// Reads what was typed; false if the terminal is gone.
    fn read(&self) -> bool {
        let mut keys = [0; 64];
        match rustix::io::read(stdin(), &mut keys) {
            Ok(count @ 1..) => {
                for _ in keys[..count].iter().filter(|&&key| key == b'p') {
                    self.toggle_pause();
                }
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Ok(_) | Err(_) => false,
        }
    }

    fn toggle_pause(&self) {
        // That the file can't be made or removed is seen at once: nothing happens.
        let _ = if self.pause.exists() {
            std::fs::remove_file(&self.pause)
        } else {
            std::fs::write(&self.pause, "")
        };
    }
}

/// What there is to do.
struct Ready {
    stopped: bool,
    resumed: bool,
    keys: bool,
}

fn wait(stopped: &PipeReader, woken: &UnixStream, listens: bool) -> Ready {
    let (keys, input) = (stdin(), PollFlags::IN);
    let mut fds = vec![PollFd::new(stopped, input), PollFd::new(woken, input)];
    if listens {
        fds.push(PollFd::new(&keys, input));
    }
    let time = if listens { None } else { Timespec::try_from(LOOK).ok() };
    let _ = poll(&mut fds, time.as_ref());
    let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
    Ready { stopped: is_ready(0), resumed: is_ready(1), keys: is_ready(2) }
}
