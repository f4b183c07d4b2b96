//! Passes on what a session does to the view of the run, and has the session ended when the view can't
//! write any more.

use std::io;

use serde_json::value::RawValue;

use super::clock::Clock;
use crate::agent::Listener;
use crate::dag::RunId;
use crate::event::{
    Activity, AgentEvent, Event, Said, Speaker, Stamped, ToolFailure, ToolUse, View,
};

/// Listens to one session on behalf of a view.
pub(super) struct Relay<'a> {
    pub(super) view: &'a mut dyn View,
    pub(super) clock: &'a Clock,
    pub(super) run: RunId,
    pub(super) iteration: u32,
    pub(super) activity: Activity,
    /// What the person is told to wait for after an interrupt.
    pub(super) program: &'a str,
    /// Why the view can't write any more.
    pub(super) broken: Option<io::Error>,
}

impl Relay<'_> {
    fn tell(&mut self, event: &Event<'_>) {
        if self.broken.is_none() {
            let stamped = Stamped { ts: self.clock.now(), run: Some(self.run), event };
            let told = self.view.event(&stamped);
            self.note(told);
        }
    }

    fn note(&mut self, told: io::Result<()>) {
        if let Err(error) = told {
            self.broken.get_or_insert(error);
        }
    }
}

impl Listener for Relay<'_> {
    fn event(&mut self, event: &AgentEvent<'_>) {
        if self.broken.is_none() {
            let shown = self.view.live(event);
            self.note(shown);
        }
        let (iteration, verifying) = (self.iteration, self.activity == Activity::Verifying);
        match event {
            AgentEvent::Text { from, text, .. } => {
                self.tell(&Event::Text(Said { iteration, from: *from, verifying, text }));
            }
            AgentEvent::Thinking { from, text, .. } => {
                self.tell(&Event::Reasoning(Said { iteration, from: *from, verifying, text }));
            }
            AgentEvent::ToolCall { from, name, input, .. } => {
                let input: Option<&RawValue> = serde_json::from_str(input).ok();
                self.tell(&Event::Tool(ToolUse { iteration, from: *from, verifying, name, input }));
            }
            AgentEvent::ToolResult { from, error: Some(error), .. } => {
                self.tell(&Event::ToolError(ToolFailure {
                    iteration,
                    from: *from,
                    verifying,
                    error,
                }));
            }
            AgentEvent::Finished(finished) => {
                if let Some(text) = finished.unsaid() {
                    self.tell(&Event::Text(Said {
                        iteration,
                        from: Speaker::Agent,
                        verifying,
                        text,
                    }));
                }
            }
            AgentEvent::Started(_)
            | AgentEvent::TextDelta { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::ToolResult { error: None, .. }
            | AgentEvent::Denied { .. }
            | AgentEvent::Retrying { .. }
            | AgentEvent::Refused { .. }
            | AgentEvent::RateLimit(_)
            | AgentEvent::Notice { .. }
            | AgentEvent::Used(_)
            | AgentEvent::Declined { .. }
            | AgentEvent::Asking
            | AgentEvent::Answered
            | AgentEvent::Alive
            | AgentEvent::Unknown { .. } => {}
        }
    }

    fn caught_up(&mut self) {
        if self.broken.is_none() {
            let shown = self.view.tick(self.clock.now(), &self.activity);
            self.note(shown);
        }
    }

    fn interrupted(&mut self) {
        if self.broken.is_none() {
            let shown = self.view.interrupted(self.program);
            self.note(shown);
        }
    }

    fn is_gone(&self) -> bool {
        self.broken.is_some()
    }
}
