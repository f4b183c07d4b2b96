//! Which process is behind a run, so that another process can tell whether it is still there. A pid
//! alone is not enough: pids are used again, and mean nothing in another container or after a reboot.

use std::io;

/// A process, named so that no other process ever has the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The machine since its last start, and the pid namespace.
    pub host: String,
    /// The process id there.
    pub pid: u32,
    /// When the process began, in a unit of the system's own; 0 if that can't be told.
    pub started: u64,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It is there and does its work.
    Alive,
    /// It is not there any more.
    Gone,
    /// It is of another host, or nothing can be found out about it: it may be anything. Or it was
    /// stopped, and may go on or not.
    Unknown,
}

/// A process that is there.
struct Seen {
    started: u64,
    is_stopped: bool,
}

impl Holder {
    /// The process that calls this.
    pub fn current() -> Holder {
        let pid = std::process::id();
        let started = look(pid).ok().flatten().map_or(0, |it| it.started);
        Holder { host: host(), pid, started }
    }

    /// Whether the process is there.
    pub fn life(&self) -> Life {
        if self.host != host() || self.started == 0 {
            return Life::Unknown;
        }
        match look(self.pid) {
            Ok(Some(seen)) if seen.started != self.started => Life::Gone,
            Ok(Some(Seen { is_stopped: false, .. })) => Life::Alive,
            Ok(Some(_)) | Err(_) => Life::Unknown,
            Ok(None) => Life::Gone,
        }
    }

    /// Whether the process is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.life() == Life::Gone
    }
}

/// When this machine was started, in seconds after the beginning of 1970. No process is older.
#[cfg(target_os = "linux")]
pub fn booted() -> Option<i64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// When this machine was started, in seconds after the beginning of 1970. No process is older.
#[cfg(not(target_os = "linux"))]
pub fn booted() -> Option<i64> {
    seconds_in_boottime(&host())
}

/// The seconds in `{ sec = 1794979211, usec = 0 } Wed Nov 18 05:20:11 2026`.
#[cfg(any(not(target_os = "linux"), test))]
fn seconds_in_boottime(text: &str) -> Option<i64> {
    let (_, after) = text.split_once("sec = ")?;
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(target_os = "linux")]
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// Looks at a living process, if there is one; it began so many clock ticks after boot.
#[cfg(target_os = "linux")]
fn look(pid: u32) -> io::Result<Option<Seen>> {
    let is_gone = |error: &io::Error| {
        let code = rustix::io::Errno::SRCH.raw_os_error();
        error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(code)
    };
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(seen_in_stat(&stat)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn host() -> String {
    output_of("sysctl", &["-n", "kern.boottime"]).unwrap_or_default()
}

/// Looks at a living process, if there is one; it began so many seconds after the beginning of 1970.
#[cfg(not(target_os = "linux"))]
fn look(pid: u32) -> io::Result<Option<Seen>> {
    let output = std::process::Command::new("ps")
        .args(["-o", "lstart=,state=", "-p", &pid.to_string()])
        // Every process must read the same, whatever language and time zone its user has.
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim() {
        "" => Ok(None),
        line => seen_in_ps(line).ok_or_else(|| io::Error::other(format!("ps says {line:?}"))),
    }
}

#[cfg(not(target_os = "linux"))]
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The process in a line such as `Wed Nov 18 05:20:11 2026     S+`; the inner none if it is dead already.
#[cfg(any(not(target_os = "linux"), test))]
fn seen_in_ps(line: &str) -> Option<Option<Seen>> {
    let (start, state) = line.trim().rsplit_once(' ')?;
    let start: Vec<&str> = start.split_ascii_whitespace().collect();
    let start = chrono::NaiveDateTime::parse_from_str(&start.join(" "), "%a %b %d %H:%M:%S %Y");
    let started = u64::try_from(start.ok()?.and_utc().timestamp()).ok()?;
    let is_stopped = state.starts_with('T');
    Some((!state.starts_with('Z')).then_some(Seen { started, is_stopped }))
}

/// The process in a line of `/proc/PID/stat`; none if it is dead already.
#[cfg(any(target_os = "linux", test))]
fn seen_in_stat(stat: &str) -> Option<Seen> {
    // The name in parentheses may hold anything, blanks and parentheses included.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    let is_stopped = matches!(state, "T" | "t");
    (!matches!(state, "Z" | "X")).then_some(Seen { started, is_stopped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_while_it_lives_and_gone_once_it_is_dead() {
        assert_eq!(Holder::current().life(), Life::Alive);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let holder = Holder {
            pid: child.id(),
            started: look(child.id()).unwrap().unwrap().started,
            ..Holder::current()
        };
        assert_eq!(holder.life(), Life::Alive);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        while holder.life() == Life::Alive {
            std::thread::yield_now();
        }
        assert_eq!(holder.life(), Life::Unknown, "stopped");
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
        let nameless = Holder { started: 0, ..Holder::current() };
        assert_eq!(nameless.life(), Life::Unknown);
    }

    #[test]
    fn what_ps_says_is_a_number_of_seconds() {
        let seen =
            |line: &str| seen_in_ps(line).map(|it| it.map(|seen| (seen.started, seen.is_stopped)));
        let started = 1_794_979_211;
        assert_eq!(seen("Wed Nov 18 05:20:11 2026     S+"), Some(Some((started, false))));
        assert_eq!(seen("Wed Nov 18 05:20:11 2026     T\n"), Some(Some((started, true))));
        assert_eq!(seen("Sun Nov  1 00:00:00 2026  Ss"), Some(Some((1_793_491_200, false))));
        assert_eq!(seen("Wed Nov 18 05:20:11 2026     Z+"), Some(None), "dead");
        assert_eq!(seen("Mi. 18 Nov. 05:20:11 2026     S+"), None);
        assert_eq!(seen("S+"), None);
    }

    #[test]
    fn the_machine_was_started_before_now() {
        let now = chrono::Utc::now().timestamp();
        assert!(booted().is_some_and(|booted| 0 < booted && booted <= now), "{:?}", booted());
        let text = "{ sec = 1794979211, usec = 99 } Wed Nov 18 05:20:11 2026";
        assert_eq!(seconds_in_boottime(text), Some(1_794_979_211));
        assert_eq!(seconds_in_boottime(""), None);
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        let started = |stat: &str| seen_in_stat(stat).map(|it| it.started);
        assert_eq!(started(&format!("77 (a b) c) {tail}")), Some(4242));
        assert_eq!(started(&format!("77 (x) {}", tail.replace('S', "Z"))), None);
        assert_eq!(started("nonsense"), None);
    }
}
