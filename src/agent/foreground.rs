//! A conversation between an agent and the person at the terminal. Ralph hands the terminal over:
//! agent, supervisor and ralph are one job of the user's shell, and the keys belong to the agent.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getppid, kill_process, kill_process_group, waitid,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};

use super::claude::Invocation;
use super::descendants::Marker;
use super::facts::Exit;
use super::process::{exit_of, not_started, supervisor};
use super::sandbox::agent_of;
use super::supervisor::{GRACE, Orders, ROUND, Supervisor};
use super::terminal::SavedTerminal;

/// The first argument that makes a ralph the supervisor of a conversation.
pub(super) const ATTEND: &str = "__attend";
/// How long an agent has to end that was told to.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it has when ralph is gone, and nobody is left to wait for it.
const ORPHANED: Duration = Duration::from_millis(700);
/// How long a stopped agent must be stopped to count as such.
const STOPPED: Duration = Duration::from_millis(20);

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandedBack {
    /// How the agent ended.
    pub exit: Exit,
    /// Whether ralph was told to end while it lasted.
    pub told_to_end: bool,
    /// Whether an interrupt reached the whole job, ralph included.
    pub interrupted: bool,
}

/// Leaves the terminal to an agent until it has ended.
pub fn hand_over(invocation: &Invocation) -> Result<HandedBack> {
    let marker = Marker::new();
    let mut command = supervisor(invocation, ATTEND)?;
    command.envs([marker.variable()]);
    let mut signals = Signals::listen()?;
    let terminal = SavedTerminal::save();
    let mut supervisor = command.spawn().with_context(|| not_started(invocation))?;
    let mut told_to_end = false;
    let status: ExitStatus = loop {
        if let Some(status) = supervisor.try_wait()? {
            break status;
        }
        if signals.told_to_end() {
            told_to_end = true;
            // It is our child and has not been waited for, so the number is still its own.
            let _ = kill_process(Pid::from_child(&supervisor), Signal::TERM);
        }
        signals.wait(ROUND);
    };
    // The supervisor may have been killed. If not, there is nothing left to end.
    marker.end();
    let exit = exit_of(status);
    match (terminal, exit) {
        (Some(terminal), Exit::Code(0)) => terminal.restore(),
        (Some(terminal), Exit::Code(_) | Exit::Signal(_)) => terminal.restore_with_screen(),
        (None, _) => {}
    }
    Ok(HandedBack { exit, told_to_end, interrupted: signals.interrupted() })
}

/// Supervises an agent that a person talks to.
pub(super) fn attend(arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let (Some(orders), Ok(signals)) = (Orders::read(arguments), Signals::listen()) else {
        return ExitCode::FAILURE;
    };
    end_with_parent();
    let inherit_everything = |_: &mut Command| Ok(());
    orders.carry_out(inherit_everything, |supervisor| watch(supervisor, signals))
}

/// Waits for the end of the agent; returns how long what it leaves behind has to end.
fn watch(supervisor: &mut Supervisor, mut signals: Signals) -> Duration {
    let ralph = getppid();
    let mut kill_at: Option<Instant> = None;
    loop {
        if is_stopped(supervisor.agent) {
            // Whoever suspends the agent means the job; the shell wakes all of it.
            let _ = kill_process_group(getpgrp(), Signal::TSTP);
        }
        supervisor.reap();
        if supervisor.ended.is_some() {
            return GRACE;
        }
        let patience = if getppid() != ralph {
            Some(ORPHANED)
        } else {
            signals.told_to_end().then_some(PATIENCE)
        };
        if let Some(patience) = patience {
            if kill_at.is_none() {
                let _ = kill_process(agent_of(supervisor.agent), Signal::TERM);
            }
            let at = Instant::now() + patience;
            kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
        }
        let left = kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => return Duration::ZERO,
            Some(left) => signals.wait(left.min(ROUND)),
            None => signals.wait(ROUND),
        }
    }
}

/// Whether a child is stopped, and has been for a moment: when a whole job is woken, we may be awake
/// before the child is.
fn is_stopped(child: Pid) -> bool {
    let look = |more: WaitIdOptions| {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | more;
        matches!(waitid(WaitId::Pid(child), options), Ok(Some(status)) if status.stopped())
    };
    look(WaitIdOptions::NOWAIT) && {
        std::thread::sleep(STOPPED);
        look(WaitIdOptions::empty())
    }
}

/// Asks to be told when ralph is gone; where that can't be had, it is looked once in a while.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
}

/// What wakes us. The keys that would end us are for the agent alone.
struct Signals {
    wake: UnixStream,
    told: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&told))?;
        }
        for signal in [SIGTERM, SIGHUP, SIGCHLD] {
            low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGQUIT] {
            // A handler, unlike "ignore", is not passed on to the agent.
            flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Signals { wake, told, interrupted })
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    fn told_to_end(&self) -> bool {
        self.told.swap(false, Ordering::SeqCst)
    }

    fn wait(&mut self, time: Duration) {
        let mut fds = [PollFd::new(&self.wake, PollFlags::IN)];
        let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
        let _ = self.wake.read(&mut [0; 64]);
    }
}
