//! Which process is behind a run, so that another process can tell whether it is still there. A pid
//! alone is not enough: pids are used again, and mean nothing in another container or after a reboot.

/// A process, named so that no other process ever has the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The machine since its last start, and the pid namespace.
    pub host: String,
    /// The process id there.
    pub pid: u32,
    /// When the process began, in a unit of the system's own.
    pub started: u64,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is there.
    Alive,
    /// It is not there any more.
    Gone,
    /// It is of another host, and may be anything.
    Unknown,
}

impl Holder {
    /// The process that calls this.
    pub fn current() -> Holder {
        let pid = std::process::id();
        Holder { host: host(), pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether the process is there.
    pub fn life(&self) -> Life {
        if self.host != host() {
            Life::Unknown
        } else if started(self.pid) == Some(self.started) {
            Life::Alive
        } else {
            Life::Gone
        }
    }

    /// Whether the process is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.life() == Life::Gone
    }
}

#[cfg(target_os = "linux")]
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// When a living process began, in clock ticks since boot.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<u64> {
    start_in_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

#[cfg(not(target_os = "linux"))]
fn host() -> String {
    output_of("sysctl", &["-n", "kern.boottime"]).unwrap_or_default()
}

/// When a living process began, as a number made of the text `ps` has for it.
#[cfg(not(target_os = "linux"))]
fn started(pid: u32) -> Option<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let text = output_of("ps", &["-o", "lstart=,state=", "-p", &pid.to_string()])?;
    let (start, state) = text.rsplit_once(' ')?;
    let mut hasher = DefaultHasher::new();
    start.trim().hash(&mut hasher);
    // SQLite has signed integers.
    (!state.starts_with('Z')).then_some(hasher.finish() >> 1)
}

#[cfg(not(target_os = "linux"))]
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The start time in a line of `/proc/PID/stat`; none for a process that is dead already.
#[cfg(any(target_os = "linux", test))]
fn start_in_stat(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything, blanks and parentheses included.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_while_it_lives_and_gone_once_it_is_dead() {
        assert_eq!(Holder::current().life(), Life::Alive);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let holder =
            Holder { pid: child.id(), started: started(child.id()).unwrap(), ..Holder::current() };
        assert!(!holder.is_gone());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(holder.is_gone());
    }

    #[test]
    fn a_pid_that_was_used_again_is_another_process() {
        let mut other = Holder::current();
        other.started += 1;
        assert!(other.is_gone());
    }

    #[test]
    fn a_process_elsewhere_may_be_anything() {
        let elsewhere = Holder { host: "another machine".into(), pid: 1, started: 0 };
        assert_eq!(elsewhere.life(), Life::Unknown);
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(start_in_stat(&format!("77 (a b) c) {tail}")), Some(4242));
        assert_eq!(start_in_stat(&format!("77 (x) {}", tail.replace('S', "Z"))), None);
        assert_eq!(start_in_stat("nonsense"), None);
    }
}
