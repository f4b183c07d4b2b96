//! The time, as a run sees it. A run that would wait for hours can be told in a test that they are over.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::agent::{Mailbox, Request};
use crate::time::Timestamp;

/// The time of a run.
#[derive(Debug)]
pub struct Clock {
    began: Instant,
    skipped: Cell<Duration>,
    skips: bool,
}

impl Clock {
    /// The time of everybody.
    pub fn real() -> Clock {
        Clock { began: Instant::now(), skipped: Cell::new(Duration::ZERO), skips: false }
    }

    /// A time in which every wait is over at once.
    pub fn skipping() -> Clock {
        Clock { skips: true, ..Clock::real() }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        Timestamp::now().plus(self.skipped.get())
    }

    /// How long the run has lasted.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed() + self.skipped.get()
    }

    /// Waits this long, or until a person asks for something.
    pub fn wait(&self, mailbox: &Mailbox, time: Duration) -> Option<Request> {
        if !self.skips {
            return mailbox.wait(time);
        }
        let request = mailbox.wait(Duration::ZERO);
        if request.is_none() {
            self.skipped.set(self.skipped.get() + time);
        }
        request
    }
}
