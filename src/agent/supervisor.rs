//! The small process between ralph and an agent, which sees to it that nothing the agent started
//! outlives the session. It is the same program, started again: as a child subreaper it inherits
//! whatever the agent leaves behind, and it learns by its stdin what to do. When that is closed,
//! ralph is gone or has had enough, and everything is ended at once.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use portable_pty::PtySize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgid, getpid, kill_process, kill_process_group,
    setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;

use super::claude::{Invocation, Stdin};
use super::descendants::{PATIENCE, descendants};
use super::descriptors::close_inherited;
use super::sandbox::agent_of;
use super::terminal::open_pty;

/// The first argument that makes a ralph a supervisor.
pub(super) const SUPERVISE: &str = "__supervise";
/// The first argument that makes a ralph heed signals again, and become the program behind it.
pub(super) const HEED: &str = "__heed";
/// How long what the agent left behind has to end by itself.
pub(super) const GRACE: Duration = Duration::from_millis(250);
/// How often it is looked whether an orphan has died.
pub(super) const ROUND: Duration = Duration::from_secs(1);
/// The exit code when the agent could not be started, as in a shell.
const NOT_STARTED: u8 = 127;
/// Stands for a file that there is none of.
const NONE: &str = "-";
/// Stands for a terminal in place of a file.
const TERMINAL: &str = "+";

/// What ralph can ask of a supervisor, a byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Ask the agent to stop, as Ctrl+C does.
    Interrupt,
    /// Tell the agent to end.
    Terminate,
    /// End everything at once.
    Kill,
}

impl Order {
    pub(super) fn byte(self) -> u8 {
        match self {
            Order::Interrupt => b'i',
            Order::Terminate => b't',
            Order::Kill => b'k',
        }
    }

    fn from_byte(byte: u8) -> Option<Order> {
        [Order::Interrupt, Order::Terminate, Order::Kill].into_iter().find(|it| it.byte() == byte)
    }
}

/// The arguments by which a supervisor is told what to start, after the first.
pub(super) fn arguments(invocation: &Invocation, program: PathBuf) -> Vec<OsString> {
    let stdin = match &invocation.stdin {
        Stdin::Nothing => NONE.into(),
        Stdin::Terminal => TERMINAL.into(),
        Stdin::File(path) => path.clone().into(),
    };
    let scratch = invocation.scratch.clone().map_or(NONE.into(), PathBuf::into);
    let own = [stdin, scratch, program.into()];
    own.into_iter().chain(invocation.arguments.iter().cloned()).collect()
}

/// What a supervisor was told to start.
pub(super) struct Orders {
    stdin: Stdin,
    scratch: Option<PathBuf>,
    program: OsString,
    rest: Vec<OsString>,
}

impl Orders {
    pub(super) fn read(mut arguments: impl Iterator<Item = OsString>) -> Option<Orders> {
        let stdin = match arguments.next()? {
            nothing if nothing == NONE => Stdin::Nothing,
            terminal if terminal == TERMINAL => Stdin::Terminal,
            path => Stdin::File(path.into()),
        };
        let scratch = Some(arguments.next()?).filter(|it| it != NONE).map(PathBuf::from);
        Some(Orders { stdin, scratch, program: arguments.next()?, rest: arguments.collect() })
    }

    /// Starts the agent as `adapt` would have it, sees to it with `watch` until it has ended or must,
    /// and leaves nothing behind, whatever happens.
    pub(super) fn carry_out(
        self,
        adapt: impl FnOnce(&mut Command) -> Result<()>,
        watch: impl FnOnce(&mut Supervisor) -> Duration,
    ) -> ExitCode {
        adopt_orphans();
        let mut command = Command::new(&self.program);
        command.args(&self.rest);
        let started = adapt(&mut command)
            .and_then(|()| command.spawn().with_context(|| starting(&self.program)));
        let exit = match started {
            Ok(child) => {
                // The child is waited for by number: `wait` has to see all children.
                let mut supervisor = Supervisor { agent: Pid::from_child(&child), ended: None };
                let grace = watch(&mut supervisor);
                supervisor.sweep(grace);
                Some(supervisor)
            }
            Err(error) => {
                // Ralph reads it as the last words of the agent.
                let _ = write!(io::stderr(), "{error:#}");
                None
            }
        };
        if let Some(scratch) = &self.scratch {
            // Ralph does it as well; but it may have been killed.
            let _ = fs::remove_dir_all(scratch);
        }
        exit.map_or(ExitCode::from(NOT_STARTED), |supervisor| supervisor.exit_alike())
    }
}

fn starting(program: &OsStr) -> String {
    format!("can't start `{}`", program.display())
}

/// Supervises an agent that nobody sits in front of.
pub(super) fn supervise(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(orders) = Orders::read(arguments) else { return ExitCode::from(NOT_STARTED) };
    close_inherited();
    // It fails for the leader of a process group, which we are not: ralph has just started us.
    let _ = setsid();
    let stdin = orders.stdin.clone();
    // Whoever has the other side of a terminal must keep it for as long as the agent lives.
    let mut other_side = None;
    let adapt = |command: &mut Command| {
        command.process_group(0).stdin(match &stdin {
            Stdin::Nothing => Stdio::null(),
            Stdin::File(path) => {
                File::open(path).with_context(|| format!("can't read `{}`", path.display()))?.into()
            }
            Stdin::Terminal => {
                let (side, terminal) =
                    open_pty(PtySize::default()).context("can't get a terminal")?;
                other_side = Some(side);
                terminal.into()
            }
        });
        Ok(())
    };
    orders.carry_out(adapt, |supervisor| {
        let_go_of_output();
        supervisor.watch()
    })
}

/// Becomes a program to which signals mean what they always mean, although we were started with some of
/// them ignored: a handler, unlike "ignore", is not passed on.
pub(super) fn heed(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = arguments.next() else { return ExitCode::from(NOT_STARTED) };
    for signal in [SIGINT, SIGQUIT, SIGTERM] {
        let _ = flag::register(signal, Arc::default());
    }
    let error = Command::new(&program).args(arguments).exec();
    // Ralph reads it as the last words of the agent.
    let _ = write!(io::stderr(), "{}: {error}", starting(&program));
    ExitCode::from(NOT_STARTED)
}

/// The output is the agent's: as long as we had it, too, nobody would see the agent close it.
pub(super) fn let_go_of_output() {
    if let Ok(nothing) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = dup2_stdout(&nothing);
        let _ = dup2_stderr(&nothing);
    }
}

/// Whoever waits for an agent and for all that it leaves behind.
pub(super) struct Supervisor {
    pub(super) agent: Pid,
    pub(super) ended: Option<WaitStatus>,
}

impl Supervisor {
    /// Follows orders until the agent has ended or everything is to end; returns how long what is
    /// left then has to end by itself.
    pub(super) fn watch(&mut self) -> Duration {
        // Not by way of its buffer: what waits there wakes nobody.
        let orders = io::stdin();
        let agent = handle_of(self.agent);
        let mut bytes = [0; 16];
        loop {
            match wait_for_input(&orders, agent.as_ref()) {
                Wake::Child => {
                    self.reap();
                    if self.ended.is_some() {
                        return GRACE;
                    }
                }
                Wake::Input => match rustix::io::read(&orders, &mut bytes) {
                    Err(rustix::io::Errno::INTR) => {}
                    Ok(0) | Err(_) => return Duration::ZERO,
                    Ok(count) => {
                        for order in bytes[..count].iter().copied().filter_map(Order::from_byte) {
                            match order {
                                Order::Interrupt => self.signal(Signal::INT),
                                Order::Terminate => self.signal(Signal::TERM),
                                Order::Kill => return Duration::ZERO,
                            }
                        }
                    }
                },
            }
        }
    }

    /// Signals the agent's group, as a terminal does. We have not reaped our child, so the numbers are
    /// still their own. A sandbox passes no signal on: the agent is the one inside.
    fn signal(&self, signal: Signal) {
        let agent = agent_of(self.agent);
        let group = getpgid(Some(agent)).unwrap_or(agent);
        let _ = kill_process_group(group, signal).or_else(|_| kill_process(agent, signal));
    }

    /// Takes note of every child that has ended; false when there is none left.
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.agent => self.ended = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Ends everything below us. Orphans become our children, so nothing is left once we have none.
    fn sweep(&mut self, grace: Duration) {
        let began = Instant::now();
        let mut asked = HashSet::new();
        while self.reap() && began.elapsed() < PATIENCE {
            let gently = began.elapsed() < grace;
            for pid in descendants(getpid()) {
                if !gently {
                    let _ = kill_process(pid, Signal::KILL);
                } else if asked.insert(pid) {
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends as the agent did, so that ralph sees how.
    fn exit_alike(&self) -> ExitCode {
        let Some(status) = self.ended else { return ExitCode::from(NOT_STARTED) };
        if let Some(signal) = status.terminating_signal() {
            // Not by a plain `kill`: the runtime ignores some signals and handles others.
            let _ = emulate_default_handler(signal);
        }
        ExitCode::from(status.exit_status().map_or(NOT_STARTED, |code| code as u8))
    }
}

enum Wake {
    Input,
    Child,
}

/// What can be waited for together with an input; none where the system has no such thing.
#[cfg(target_os = "linux")]
fn handle_of(agent: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(agent, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn handle_of(_agent: Pid) -> Option<OwnedFd> {
    None
}

/// Sleeps until there is something to read, the agent has ended, or it is time to look for orphans.
/// Without a handle of the agent it is looked often.
fn wait_for_input(input: &impl AsFd, agent: Option<&OwnedFd>) -> Wake {
    let mut fds = vec![PollFd::new(input, PollFlags::IN)];
    fds.extend(agent.map(|agent| PollFd::new(agent, PollFlags::IN)));
    let time = if agent.is_some() { ROUND } else { ROUND / 50 };
    let _ = poll(&mut fds, Timespec::try_from(time).ok().as_ref());
    // A child that has ended comes first: its orders are of no use any more.
    let agent_ended = fds.get(1).is_some_and(|agent| !agent.revents().is_empty());
    if agent_ended || fds[0].revents().is_empty() { Wake::Child } else { Wake::Input }
}

#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // Only a kernel from before 2013 has no such thing.
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_pipe() {
        for order in [Order::Interrupt, Order::Terminate, Order::Kill] {
            assert_eq!(Order::from_byte(order.byte()), Some(order));
        }
        assert_eq!(Order::from_byte(b'x'), None);
    }

    #[test]
    fn without_a_handle_of_the_agent_the_wait_is_short_but_still_a_wait() {
        let (input, mut output) = std::io::pipe().unwrap();
        let began = Instant::now();
        assert!(matches!(wait_for_input(&input, None), Wake::Child));
        assert!(began.elapsed() >= ROUND / 50);
        output.write_all(b"k").unwrap();
        assert!(matches!(wait_for_input(&input, None), Wake::Input));
    }
}
