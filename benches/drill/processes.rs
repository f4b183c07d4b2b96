//! What the system tells of the processes of a drill, and signals for them that never reach a stranger.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process that is known by more than its number: whoever gets that after it is not signalled.
pub(crate) struct Process {
    pub(crate) pid: u32,
    handle: OwnedFd,
}

impl Process {
    pub(crate) fn of(pid: u32) -> Option<Process> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        Some(Process { pid, handle: pidfd_open(number, PidfdFlags::empty()).ok()? })
    }

    /// Sends a signal; false if it is gone.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        pidfd_send_signal(&self.handle, signal).is_ok()
    }

    /// Whether it is the agent of a session.
    pub(crate) fn is_agent(&self) -> bool {
        self.file("comm").trim_ascii_end() == b"fake-claude"
    }

    /// Whether it stands between ralph and an agent.
    pub(crate) fn is_supervisor(&self) -> bool {
        self.file("cmdline").split(|&byte| byte == 0).nth(1) == Some(b"__supervise")
    }

    /// What a variable of its environment is.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let environment = self.file("environ");
        let mut entries = environment.split(|&byte| byte == 0);
        let start = format!("{name}=");
        let value = entries.find_map(|entry| entry.strip_prefix(start.as_bytes()))?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// The letter for what it is doing: `T` is stopped, `Z` dead.
    pub(crate) fn state(&self) -> Option<char> {
        state_and_parent(self.pid).map(|(state, _)| state)
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, Iterator::count)
    }

    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, Iterator::count)
    }

    /// What it has in memory, in kilobytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = self.file("status");
        let status = String::from_utf8_lossy(&status);
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|it| it.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(format!("/proc/{}/{name}", self.pid)).unwrap_or_default()
    }
}

/// Every living process below this one, parents first.
pub(crate) fn below(root: u32) -> Vec<Process> {
    let all: Vec<(u32, u32)> = pids()
        .filter_map(|pid| match state_and_parent(pid)? {
            ('Z' | 'X', _) => None,
            (_, parent) => Some((pid, parent)),
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(Process::of).collect()
}

/// The processes that have this text in their arguments or their environment, as `pid name`.
pub(crate) fn with(text: &str) -> Vec<String> {
    let has = |bytes: &[u8]| memchr::memmem::find(bytes, text.as_bytes()).is_some();
    let is_one = |pid: &u32| {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        has(&read("environ")) || has(&read("cmdline"))
    };
    let name = |pid: u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid} {}", String::from_utf8_lossy(&arguments).replace('\0', " "))
    };
    pids().filter(is_one).map(name).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, blanks and parentheses included.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
