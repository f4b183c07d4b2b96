//! Signals become requests in the mailbox, in one order with everything else.

use std::thread;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::agent::{Input, Mailbox, Request};

/// From now on these signals no longer end this process, but are for whoever reads the mailbox.
pub fn forward_signals(mailbox: &Mailbox) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let sender = mailbox.sender();
    thread::spawn(move || {
        for signal in signals.forever() {
            let request = if signal == SIGINT { Request::Interrupt } else { Request::Kill };
            if sender.send(Input::Request(request)).is_err() {
                return;
            }
        }
    });
    Ok(())
}
