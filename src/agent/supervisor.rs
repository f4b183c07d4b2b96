//! The small process between ralph and an agent, which sees to it that nothing the agent started
//! outlives the session. It is the same program, started again: as a child subreaper it inherits
//! whatever the agent leaves behind, and it learns by its stdin what to do. When that is closed,
//! ralph is gone or has had enough, and everything is ended at once.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, setsid, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use signal_hook::low_level::emulate_default_handler;

/// The first argument that makes a ralph a supervisor.
pub const SUPERVISE: &str = "__supervise";
/// How long what the agent left behind has to end by itself.
const GRACE: Duration = Duration::from_millis(250);
/// How long it is tried to end what does not end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether an orphan has died.
const ROUND: Duration = Duration::from_secs(1);
/// The exit code when the agent could not be started, as in a shell.
const NOT_STARTED: u8 = 127;

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

/// Supervises an agent: `arguments` are what it reads (`-` for nothing), its program and the rest.
pub fn supervise(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(stdin), Some(program)) = (arguments.next(), arguments.next()) else {
        return ExitCode::from(NOT_STARTED);
    };
    // It fails for the leader of a process group, which we are not: ralph has just started us.
    let _ = setsid();
    adopt_orphans();
    let agent = match start(&stdin, &program, arguments) {
        Ok(agent) => agent,
        Err(error) => {
            // Ralph reads it as the last words of the agent.
            let _ = write!(io::stderr(), "{error:#}");
            return ExitCode::from(NOT_STARTED);
        }
    };
    let_go_of_output();
    let mut supervisor = Supervisor { agent, ended: None };
    let grace = supervisor.watch();
    supervisor.sweep(grace);
    supervisor.exit_alike()
}

fn start(stdin: &OsStr, program: &OsStr, arguments: impl Iterator<Item = OsString>) -> Result<Pid> {
    let open = || File::open(stdin).with_context(|| format!("can't read `{}`", stdin.display()));
    let stdin = if stdin == "-" { Stdio::null() } else { open()?.into() };
    let child = Command::new(program).args(arguments).stdin(stdin).process_group(0).spawn();
    let child = child.with_context(|| format!("can't start `{}`", program.display()))?;
    // The child is waited for by number: `wait` has to see all children, this one among them.
    Ok(Pid::from_child(&child))
}

/// The output is the agent's: as long as we had it, too, nobody would see the agent close it.
fn let_go_of_output() {
    if let Ok(nothing) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = dup2_stdout(&nothing);
        let _ = dup2_stderr(&nothing);
    }
}

struct Supervisor {
    agent: Pid,
    ended: Option<WaitStatus>,
}

impl Supervisor {
    /// Follows orders until the agent has ended or everything is to end; returns how long what is
    /// left then has to end by itself.
    fn watch(&mut self) -> Duration {
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

    /// Signals the agent's group. We have not reaped its leader, so the number is still its own.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.agent, signal);
    }

    /// Takes note of every child that has ended; false when there is none left.
    fn reap(&mut self) -> bool {
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

/// Every living process below `root`.
fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut ahead = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = ahead.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(pid));
            ahead.push(pid);
        }
    }
    found
}

/// Every living process with its parent.
#[cfg(target_os = "linux")]
fn processes() -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parent_in_stat(&stat)?))
        })
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn processes() -> Vec<(i32, i32)> {
    let Ok(output) = Command::new("ps").args(["-axo", "pid=,ppid="]).output() else {
        return Vec::new();
    };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
        .collect()
}

/// The parent in a line of `/proc/PID/stat`; none for a process that is dead already.
#[cfg(any(target_os = "linux", test))]
fn parent_in_stat(stat: &str) -> Option<i32> {
    // The name in parentheses may hold anything, blanks and parentheses included.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.next()?.parse().ok() }
}

/// Ends every process whose environment has this variable with this value: what is left of a session
/// when its supervisor, too, was killed.
#[cfg(target_os = "linux")]
pub fn end_marked(variable: &str, value: &str) -> usize {
    let marker = format!("{variable}={value}").into_bytes();
    let is_marked = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ"));
        environment.is_ok_and(|it| it.split(|&byte| byte == 0).any(|entry| entry == marker))
    };
    let own = getpid().as_raw_nonzero().get();
    let mut ended = HashSet::new();
    let began = Instant::now();
    // Again and again, because a process may have made another just before it ended.
    while began.elapsed() < PATIENCE {
        let marked: Vec<i32> = processes()
            .into_iter()
            .map(|(pid, _)| pid)
            .filter(|&pid| pid != own && is_marked(pid))
            .collect();
        if marked.is_empty() {
            break;
        }
        for pid in marked {
            let _ = Pid::from_raw(pid).map(|it| kill_process(it, Signal::KILL));
            ended.insert(pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    ended.len()
}

/// Where environments can't be read, the supervisor alone has to be enough.
#[cfg(not(target_os = "linux"))]
pub fn end_marked(_variable: &str, _value: &str) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_in_stat("77 (a b) c) S 42 77"), Some(42));
        assert_eq!(parent_in_stat("77 (x) Z 42 77"), None);
        assert_eq!(parent_in_stat(""), None);
    }

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

    #[test]
    fn our_own_children_are_below_us() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = descendants(getpid()).contains(&Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
