//! Which processes there are, and how to end all that belong together.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

#[cfg(target_os = "linux")]
use super::{foreground::ATTEND, stage::STAGE, supervisor::SUPERVISE};

/// How long it is tried to end what does not end.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a supervisor that ralph has left alone has to end what is below it.
const DEFERENCE: Duration = Duration::from_secs(1);

/// By this variable the processes of a session are known.
const MARKER: &str = "RALPH_SESSION";

/// The processes of one session, wherever they are.
pub(super) struct Marker {
    pub(super) number: u32,
    value: String,
}

impl Marker {
    pub(super) fn new() -> Marker {
        let number = getrandom::u32().unwrap_or_default();
        Marker { number, value: format!("{}-{number:08x}", std::process::id()) }
    }

    /// What their environment has to have.
    pub(super) fn variable(&self) -> (&'static str, OsString) {
        (MARKER, self.value.clone().into())
    }

    /// Ends them, the supervisor among them.
    pub(super) fn end(&self) {
        end_with(MARKER, std::slice::from_ref(&self.value), Duration::ZERO);
    }
}

/// Every living process below `root`.
pub(super) fn descendants(root: Pid) -> Vec<Pid> {
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
    let Ok(output) = std::process::Command::new("ps").args(["-axo", "pid=,ppid="]).output() else {
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

/// Ends every process whose environment has this variable with one of these values: what is left of
/// sessions when their supervisors, too, were killed. One that was not is given some time: it finds even those
/// that have no environment, and begins as soon as ralph is gone.
pub fn end_marked(variable: &str, values: &[String]) -> usize {
    if values.is_empty() { 0 } else { end_with(variable, values, DEFERENCE) }
}

/// As `end_marked`, but a supervisor has this long to do it itself.
#[cfg(target_os = "linux")]
fn end_with(variable: &str, values: &[String], deference: Duration) -> usize {
    let markers: HashSet<Vec<u8>> =
        values.iter().map(|value| format!("{variable}={value}").into_bytes()).collect();
    let is_marked = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| markers.contains(entry))
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
        let is_due = began.elapsed() >= deference;
        for pid in marked.into_iter().filter(|&pid| is_due || !is_supervisor(pid)) {
            let _ = Pid::from_raw(pid).map(|it| kill_process(it, Signal::KILL));
            ended.insert(pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    ended.len()
}

/// Whether a process stands between ralph and an agent.
#[cfg(target_os = "linux")]
fn is_supervisor(pid: i32) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let role = arguments.split(|&byte| byte == 0).nth(1);
    role.is_some_and(|role| [SUPERVISE, STAGE, ATTEND].iter().any(|it| it.as_bytes() == role))
}

/// Where environments can't be read, the supervisor alone has to be enough.
#[cfg(not(target_os = "linux"))]
fn end_with(_variable: &str, _values: &[String], _deference: Duration) -> usize {
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
    fn our_own_children_are_below_us() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = descendants(getpid()).contains(&Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
    }
}
