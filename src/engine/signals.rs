//! Signals become requests in the mailbox, in one order with everything else.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use signal_hook::consts::{
    SIGABRT, SIGALRM, SIGHUP, SIGINT, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU,
};
use signal_hook::iterator::Signals;

use crate::agent::{Input, Mailbox, Request};

/// A process that is told to end at once and does not, because it waits for something that never comes,
/// is ended after this time. What it started notices, and ends as well.
const LAST_RESORT: Duration = Duration::from_secs(12);
/// The exit code then.
const INTERRUPTED: i32 = 130;
/// Every signal that would end this process, and that can be caught: the terminal would stay as it is,
/// and the claim with it. Ctrl+\ sends SIGQUIT.
const ENDING: [i32; 10] =
    [SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGALRM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGXCPU];

/// From now on these signals no longer end this process, but are for the reader of the mailbox. If that
/// does not end the process in time, it ends after `restore`; unless the keys are the agent's, then only
/// a signal that no key sends has that effect.
pub fn forward_signals(
    mailbox: &Mailbox,
    keys_are_ours: bool,
    restore: impl Fn() + Send + 'static,
) -> Result<()> {
    let ending = ENDING.into_iter().filter(|&signal| signal != SIGHUP || !ignores_hangup());
    let mut signals = Signals::new(ending.chain([SIGINT]))?;
    let sender = mailbox.sender();
    let mut restore = Some(restore);
    let mut interrupts = 0;
    thread::spawn(move || {
        for signal in signals.forever() {
            let is_key = matches!(signal, SIGINT | SIGQUIT);
            let request = if signal == SIGINT { Request::Interrupt } else { Request::Kill };
            interrupts += u32::from(signal == SIGINT && keys_are_ours);
            let is_final = request == Request::Kill && (keys_are_ours || !is_key);
            if (is_final || interrupts > 1)
                && let Some(restore) = restore.take()
            {
                thread::spawn(move || {
                    thread::sleep(LAST_RESORT);
                    restore();
                    signal_hook::low_level::exit(INTERRUPTED);
                });
            }
            if sender.send(Input::Request(request)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Whether we were started by `nohup`, which means that the end of the terminal is not ours.
#[cfg(target_os = "linux")]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, SIGHUP)
}

#[cfg(not(target_os = "linux"))]
fn ignores_hangup() -> bool {
    false
}

/// Whether a process with this `/proc/PID/status` ignores a signal.
#[cfg(any(target_os = "linux", test))]
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_told_by_a_mask() {
        assert!(ignores("Name:\tx\nSigIgn:\t0000000000001001\n", SIGHUP));
        assert!(!ignores("SigIgn:\t0000000000001000\n", SIGHUP));
        assert!(ignores("SigIgn:\t0000000000000004\n", SIGQUIT));
        assert!(!ignores("", SIGHUP));
    }
}
