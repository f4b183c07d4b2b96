//! Signals become requests in the mailbox, in one order with everything else.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::{Input, Mailbox, Request};

/// Whoever is told to end at once and does not, because it waits for something that never comes, is
/// ended after this time. What it started notices, and ends as well.
const LAST_RESORT: Duration = Duration::from_secs(12);
/// The exit code then.
const INTERRUPTED: i32 = 130;

/// From now on these signals no longer end this process, but are for whoever reads the mailbox. If
/// nobody does in time, the process ends after `restore`; unless the keys are for somebody else, then
/// only a signal that no key sends has that effect.
pub fn forward_signals(
    mailbox: &Mailbox,
    keys_are_ours: bool,
    restore: impl Fn() + Send + 'static,
) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let sender = mailbox.sender();
    let mut restore = Some(restore);
    let mut interrupts = 0;
    thread::spawn(move || {
        for signal in signals.forever() {
            let request = if signal == SIGINT { Request::Interrupt } else { Request::Kill };
            interrupts += u32::from(signal == SIGINT && keys_are_ours);
            if (request == Request::Kill || interrupts > 1)
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
