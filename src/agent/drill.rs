//! Ways in for the drills, which stand outside: to what reads hooks, keys and screens, and is nobody
//! else's business. An installed program does not have them.

use std::time::{Duration, Instant};

use super::dialog::question;
use super::facts::Facts;
use super::keys::{Key, Keys};
use super::screen::Screen;
use super::story::Story;
use super::watch::EndedBy;
use crate::event::AgentEvent;

/// What comes of a session whose hooks tell this.
pub fn told_by<'a>(
    events: impl IntoIterator<Item = &'a [u8]>,
    listen: &mut dyn FnMut(&AgentEvent<'_>),
) -> Facts {
    let mut story = Story::new(None);
    for event in events {
        story.hear(event, listen);
    }
    story.into_facts(None, EndedBy::Itself, Duration::ZERO, listen)
}

/// What comes of keys, each so long after those before: bytes for the agent, and nothing in place of a
/// key that is ours.
pub fn typed<'a>(
    pieces: impl IntoIterator<Item = (Duration, &'a [u8])>,
    each: &mut dyn FnMut(Option<&[u8]>),
) {
    let (mut keys, mut now) = (Keys::default(), Instant::now());
    let mut each = |key: Key<'_>| match key {
        Key::Forward(bytes) | Key::Report(bytes) => each(Some(bytes)),
        Key::Stop | Key::Kill => each(None),
    };
    for (pause, piece) in pieces {
        now += pause;
        keys.expire(now, &mut each);
        keys.read(piece, now, &mut each);
    }
    if let Some(deadline) = keys.deadline() {
        keys.expire(deadline, &mut each);
    }
}

/// A screen that an agent draws on.
pub struct Drawing(Screen);

impl Drawing {
    /// An empty one of this size.
    pub fn new(rows: u16, columns: u16) -> Drawing {
        Drawing(Screen::new(rows, columns))
    }

    /// Draws these bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// Gives it another size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.0.resize(rows, columns);
    }

    /// What is asked on it, if it is a question of the first start.
    pub fn question(&mut self) -> Option<&'static str> {
        self.0.at_line_start();
        question(&self.0.visible()).map(|it| it.text)
    }

    /// All that was drawn, as far as it is kept.
    pub fn text(&mut self) -> String {
        self.0.text()
    }
}
