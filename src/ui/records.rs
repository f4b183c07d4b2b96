//! A run for programs: every event as a line of JSON, or one object at the end.

use std::io::{self, Write};

use super::json;
use crate::event::{Activity, Event, Stamped, View};
use crate::time::Timestamp;

/// Every event as a line of JSON.
#[derive(Debug)]
pub struct JsonLines<W: Write> {
    out: W,
}

impl<W: Write> JsonLines<W> {
    /// Lines go to `out`, each as soon as it is known.
    pub fn new(out: W) -> JsonLines<W> {
        JsonLines { out }
    }
}

impl<W: Write> View for JsonLines<W> {
    fn event(&mut self, event: &Stamped<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, event)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    /// The reader may be gone while there is nothing to tell.
    fn tick(&mut self, _now: Timestamp, _activity: &Activity) -> io::Result<()> {
        self.out.flush()
    }
}

/// What came of the run, as one object at its end.
#[derive(Debug)]
pub struct JsonSummary<W: Write> {
    out: W,
}

impl<W: Write> JsonSummary<W> {
    /// The object goes to `out`.
    pub fn new(out: W) -> JsonSummary<W> {
        JsonSummary { out }
    }
}

impl<W: Write> View for JsonSummary<W> {
    fn event(&mut self, event: &Stamped<'_>) -> io::Result<()> {
        match event.event {
            Event::Complete(summary) => {
                json::write(&mut self.out, summary)?;
                self.out.flush()
            }
            _ => Ok(()),
        }
    }
}
