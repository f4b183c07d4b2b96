//! Moves what is typed from the user's terminal to the agent's, and tells when one of the keys is ours or
//! the window has another size.

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portable_pty::{MasterPty, PtySize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::isatty;
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGWINCH};
use signal_hook::flag;
use signal_hook::low_level::{pipe, unregister};

use super::keys::{Key, Keys};
use super::terminal;

/// How much may wait for an agent that does not read. Then the person who types has to wait, too.
const MOST_WAITING: usize = 64 << 10;

/// How often ralph in the background looks whether it is in the foreground now. The shell's `fg` sends no
/// signal to a job that is running.
const LOOK: Duration = Duration::from_millis(500);

/// What was typed since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// When the agent got the last key that a person pressed.
    pub(super) forwarded: Option<Instant>,
    pub(super) stop: bool,
    pub(super) kill: bool,
    pub(super) resized: Option<PtySize>,
    /// Ralph was suspended or in the background, and has the terminal again.
    pub(super) resumed: bool,
}

/// The user's keyboard while an agent has it.
#[derive(Debug)]
pub(super) struct Keyboard {
    typed: Arc<Mutex<Typed>>,
    signals: Vec<SigId>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Listens to it; `wake` is called whenever there is something to ask for. The keys go to `agent`,
    /// if it is to get any, and the size of the window, or else `usual`, to `master`.
    pub(super) fn listen(
        agent: Arc<OwnedFd>,
        master: Box<dyn MasterPty + Send>,
        forwards: bool,
        usual: PtySize,
        wake: impl Fn() + Send + 'static,
    ) -> io::Result<Keyboard> {
        let typed = Arc::new(Mutex::new(Typed::default()));
        let (stopped, stop) = io::pipe()?;
        let (woken, waker) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let mut keyboard =
            Keyboard { typed: Arc::clone(&typed), signals: vec![], stop: Some(stop), thread: None };
        let resumed = Arc::new(AtomicBool::new(false));
        keyboard.signals.push(flag::register(SIGCONT, Arc::clone(&resumed))?);
        for signal in [SIGWINCH, SIGCONT] {
            keyboard.signals.push(pipe::register(signal, waker.try_clone()?)?);
        }
        let mut typist = Typist {
            agent,
            master,
            usual,
            forwards,
            keys: Keys::default(),
            waiting: vec![],
            typed,
            resumed,
            listens: terminal::is_in_foreground(),
        };
        keyboard.thread = Some(thread::spawn(move || typist.run(&stopped, woken, &wake)));
        Ok(keyboard)
    }

    /// What was typed since this was asked last.
    pub(super) fn typed(&self) -> Typed {
        std::mem::take(&mut *self.typed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Keyboard {
    /// Afterwards ralph takes no keys that are for another program.
    fn drop(&mut self) {
        self.stop = None;
        for signal in self.signals.drain(..) {
            unregister(signal);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Typist {
    agent: Arc<OwnedFd>,
    master: Box<dyn MasterPty + Send>,
    /// The size of the window if it does not tell.
    usual: PtySize,
    forwards: bool,
    keys: Keys,
    /// What the agent has not read yet.
    waiting: Vec<u8>,
    typed: Arc<Mutex<Typed>>,
    /// Set by the signal that tells ralph to go on.
    resumed: Arc<AtomicBool>,
    /// Ralph is in the foreground, so that it may read the terminal.
    listens: bool,
}

/// What there is to do.
struct Ready {
    keys: bool,
    signal: bool,
    stopped: bool,
}

impl Typist {
    fn run(&mut self, stopped: &PipeReader, mut woken: UnixStream, wake: &dyn Fn()) {
        // It may have changed before we were told of changes.
        self.look_at_window();
        let mut open = isatty(stdin());
        loop {
            if open && self.look_for_foreground() {
                wake();
            }
            let ready = self.wait(stopped, &woken, open);
            if ready.stopped {
                return;
            }
            if ready.signal {
                let _ = woken.read(&mut [0; 64]);
                self.look_at_window();
                wake();
            }
            let mut buffer = [0; 4096];
            let may_read = ready.keys && terminal::is_in_foreground();
            let read = if may_read { rustix::io::read(stdin(), &mut buffer) } else { Ok(0) };
            // A terminal that is gone is told to ralph by a signal.
            open &= !may_read || matches!(read, Ok(1..) | Err(Errno::INTR | Errno::AGAIN));
            if self.take(&buffer[..read.unwrap_or(0)], Instant::now()) {
                wake();
            }
            self.pass_on();
        }
    }

    fn wait(&self, stopped: &PipeReader, woken: &UnixStream, open: bool) -> Ready {
        let (keys, input) = (stdin(), PollFlags::IN);
        let listens = open && self.listens && self.waiting.len() < MOST_WAITING;
        let mut fds = vec![PollFd::new(stopped, input), PollFd::new(woken, input)];
        if listens {
            fds.push(PollFd::new(&keys, input));
        }
        if !self.waiting.is_empty() {
            fds.push(PollFd::new(&self.agent, PollFlags::OUT));
        }
        let left = self.keys.deadline().map(|it| it.saturating_duration_since(Instant::now()));
        let look = (open && !self.listens).then_some(LOOK);
        let left = left.into_iter().chain(look).min();
        let _ = poll(&mut fds, left.and_then(|it| Timespec::try_from(it).ok()).as_ref());
        let is_ready = |at: usize| !fds[at].revents().is_empty();
        Ready { stopped: is_ready(0), signal: is_ready(1), keys: listens && is_ready(2) }
    }

    /// Takes note of what was typed; true if there is something to tell.
    fn take(&mut self, bytes: &[u8], now: Instant) -> bool {
        let (forwards, waiting) = (self.forwards, &mut self.waiting);
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tells = false;
        let mut each = |key: Key<'_>| {
            match key {
                Key::Forward(bytes) if forwards => {
                    waiting.extend_from_slice(bytes);
                    typed.forwarded = Some(now);
                }
                Key::Report(bytes) if forwards => return waiting.extend_from_slice(bytes),
                Key::Forward(_) | Key::Report(_) => return,
                Key::Stop => typed.stop = true,
                Key::Kill => typed.kill = true,
            }
            tells = true;
        };
        self.keys.expire(now, &mut each);
        self.keys.read(bytes, now, &mut each);
        tells
    }

    fn pass_on(&mut self) {
        while !self.waiting.is_empty() {
            match rustix::io::write(&self.agent, &self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Nobody is there any more to read it.
                Err(_) => self.waiting.clear(),
            }
        }
    }

    /// Takes note of whether the terminal is ours; true if it has become so.
    fn look_for_foreground(&mut self) -> bool {
        let before = std::mem::replace(&mut self.listens, terminal::is_in_foreground());
        let again = self.listens && (!before || self.resumed.swap(false, Ordering::SeqCst));
        if again {
            self.typed.lock().unwrap_or_else(PoisonError::into_inner).resumed = true;
        }
        again
    }

    fn look_at_window(&self) {
        let size = terminal::size(self.usual);
        // The kernel tells the agent, if it is another size than before.
        let _ = self.master.resize(size);
        self.typed.lock().unwrap_or_else(PoisonError::into_inner).resized = Some(size);
    }
}
