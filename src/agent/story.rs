//! What a session in a terminal tells by its hooks, put together: which tools are at work, whether its
//! turn is over, and in the end what came of it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use super::facts::{Exit, Facts, Observer, Trouble};
use super::hook::{HookEvent, parse};
use super::transcript::{self, Used};
use super::watch::EndedBy;
use crate::event::{AgentEvent, Finished, Speaker, Started};
use crate::lenient::read_json;

/// What a session has told so far.
#[derive(Debug)]
pub(super) struct Story {
    observer: Observer,
    begun: bool,
    transcript: PathBuf,
    /// The tools at work: what names the call, and the tool.
    tools: Vec<(String, String)>,
    /// What it waits for somebody to answer.
    question: Option<String>,
    /// The last turn, if it is over.
    turn: Option<Turn>,
}

/// The end of a turn.
#[derive(Debug)]
struct Turn {
    last_words: String,
    error: Option<String>,
}

/// What an event means for the course of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Goes,
    TurnOver,
    /// Nothing happens until somebody answers.
    Waits,
}

impl Story {
    pub(super) fn new() -> Story {
        Story {
            observer: Observer::new(),
            begun: false,
            transcript: PathBuf::new(),
            tools: Vec::new(),
            question: None,
            turn: None,
        }
    }

    /// Whether the session has begun, and is not at a question of its first start.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether there is a tool at work.
    pub(super) fn is_busy(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Somebody is at the keyboard: a question may be answered, and a tool interrupted without a word.
    pub(super) fn typed(&mut self) {
        self.question = None;
        self.tools.clear();
    }

    /// Takes an event into account; what is none means nothing.
    pub(super) fn hear(
        &mut self,
        event: &[u8],
        listen: &mut dyn FnMut(&AgentEvent<'_>),
    ) -> Option<Course> {
        read_json(event, |event| {
            let (event, transcript) = parse(event)?;
            if !transcript.as_os_str().is_empty() {
                self.transcript = transcript;
            }
            self.begun = true;
            let course = match event {
                HookEvent::TurnOver { .. } => Course::TurnOver,
                HookEvent::AsksPermission { .. } | HookEvent::Waits { .. } => Course::Waits,
                _ => Course::Goes,
            };
            self.take(event, listen);
            Some(course)
        })
    }

    fn take(&mut self, event: HookEvent<'_>, listen: &mut dyn FnMut(&AgentEvent<'_>)) {
        let from = Speaker::Agent;
        match event {
            HookEvent::Started { session, model } => {
                let event = AgentEvent::Started(Started { session, model, version: "".into() });
                self.observer.observe(&event);
                listen(&event);
            }
            HookEvent::Prompted => {
                (self.turn, self.question) = (None, None);
                self.tools.clear();
            }
            HookEvent::ToolBegins { id, name, input } => {
                self.tools.push((id.to_string(), name.to_string()));
                listen(&AgentEvent::ToolCall { from, id, name, input });
            }
            HookEvent::ToolEnds { id, error } => {
                self.tools.retain(|(tool, _)| *tool != id);
                self.question = None;
                listen(&AgentEvent::ToolResult { from, id, error });
            }
            HookEvent::AsksPermission { tool } => {
                // It is not at work as long as it is not allowed to be.
                if let Some(at) = self.tools.iter().rposition(|(_, name)| *name == tool) {
                    self.tools.remove(at);
                }
                self.question = Some(format!("may it use `{tool}`?"));
                listen(&AgentEvent::Notice { text: format!("may it use `{tool}`?").into() });
            }
            HookEvent::Waits { message } => listen(&AgentEvent::Notice { text: message }),
            HookEvent::Continues => self.tools.clear(),
            HookEvent::TurnOver { last_words, error } => {
                self.tools.clear();
                self.turn = Some(Turn {
                    last_words: last_words.into_owned(),
                    error: error.map(Cow::into_owned),
                });
            }
        }
    }

    /// What came of it, now that it has ended; if by silence, then after `idle`.
    pub(super) fn into_facts(
        mut self,
        exit: Option<Exit>,
        ended_by: EndedBy,
        idle: Duration,
        listen: &mut dyn FnMut(&AgentEvent<'_>),
    ) -> Facts {
        let observer = &mut self.observer;
        let mut tell = |event: &AgentEvent<'_>| {
            observer.observe(event);
            listen(event);
        };
        let (mut last_text, mut refused) = (String::new(), false);
        let used = transcript::read(&self.transcript, &mut |event| {
            match event {
                AgentEvent::Text { text, .. } => last_text = text.to_string(),
                AgentEvent::Refused { .. } => refused = true,
                _ => {}
            }
            tell(event);
        });
        if let Some(turn) = &self.turn {
            turn.tell(&last_text, refused, &used, &mut tell);
        }
        let finished = self.turn.is_some();
        let mut facts = self.observer.into_facts(exit);
        let handed_over = self.turn.map(|turn| turn.last_words).unwrap_or_default();
        if !handed_over.trim().is_empty() {
            facts.last_message = handed_over;
        }
        if !finished {
            facts.trouble = Some(trouble(ended_by, idle, self.question));
            facts.cost_usd = used.cost_usd;
            facts.input_tokens = used.input_tokens;
            facts.output_tokens = used.output_tokens;
        }
        facts
    }
}

impl Turn {
    /// Tells how it ended. What was said last may not have been written down yet.
    fn tell(
        &self,
        written_last: &str,
        refused: bool,
        used: &Used,
        tell: &mut dyn FnMut(&AgentEvent<'_>),
    ) {
        let text = Cow::Borrowed(self.last_words.as_str());
        if written_last.trim() != text.trim() && !text.trim().is_empty() {
            let (from, text) = (Speaker::Agent, text.clone());
            tell(&AgentEvent::Text { from, text, seen: 0, model: "".into() });
        }
        if let Some(kind) = self.error.as_deref().filter(|_| !refused) {
            let (kind, detail) = (kind.into(), "".into());
            tell(&AgentEvent::Refused { kind, detail, status: None });
        }
        tell(&AgentEvent::Finished(Box::new(Finished {
            success: self.error.is_none(),
            // As the program itself has it: an error of the API is a success that is an error.
            subtype: "success".into(),
            terminal_reason: None,
            text: Some(text),
            said: true,
            errors: Vec::new(),
            api_status: None,
            denials: 0,
            duration: used.duration,
            cost_usd: used.cost_usd,
            turns: used.turns,
            input_tokens: used.input_tokens,
            output_tokens: used.output_tokens,
        })));
    }
}

/// Why a session did not finish its turn.
fn trouble(ended_by: EndedBy, idle: Duration, question: Option<String>) -> Trouble {
    match (ended_by, question) {
        (EndedBy::Silence, Some(question)) => {
            Trouble::Error(format!("the agent asked a question, and nobody answered: {question}"))
        }
        (EndedBy::Request, _) => Trouble::Aborted,
        (EndedBy::Silence, None) => Trouble::Idle(idle),
        (EndedBy::Itself | EndedBy::Lingering | EndedBy::Deadline, _) => Trouble::NoResult,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    fn told(events: &[&str]) -> (Vec<Option<Course>>, Story) {
        let mut story = Story::new();
        let courses =
            events.iter().map(|it| story.hear(it.replace('\'', "\"").as_bytes(), &mut |_| ()));
        (courses.collect(), story)
    }

    fn facts(events: &[&str], ended_by: EndedBy) -> Facts {
        told(events).1.into_facts(Some(Exit::Code(143)), ended_by, IDLE, &mut |_| ())
    }

    const START: &str = "{'hook_event_name':'SessionStart','session_id':'s','model':'opus'}";
    const PROMPT: &str =
        "{'hook_event_name':'UserPromptSubmit','prompt':'<task-done>x</task-done>'}";
    const TOOL: &str = "{'hook_event_name':'PreToolUse','tool_name':'Write','tool_use_id':'1'}";
    const ASK: &str = "{'hook_event_name':'PermissionRequest','tool_name':'Write'}";
    const TOOL_ENDS: &str = "{'hook_event_name':'PostToolUse','tool_use_id':'1'}";
    const STOP: &str = "{'hook_event_name':'Stop','last_assistant_message':'Bye.'}";

    #[test]
    fn a_tool_is_at_work_until_it_ends_or_somebody_must_allow_it() {
        let busy = |events: &[&str]| told(events).1.is_busy();
        assert!(!busy(&[START, PROMPT]));
        assert!(busy(&[START, PROMPT, TOOL]));
        assert!(!busy(&[START, PROMPT, TOOL, TOOL_ENDS]));
        assert!(!busy(&[START, PROMPT, TOOL, ASK]));
        assert!(!busy(&[START, PROMPT, TOOL, STOP]));
        assert!(!busy(&[START, PROMPT, TOOL, PROMPT]));
        let (_, mut story) = told(&[START, PROMPT, TOOL]);
        story.typed();
        assert!(!story.is_busy(), "a key may have interrupted it, of which nothing is told");
    }

    #[test]
    fn what_an_event_means_is_told() {
        let (courses, _) = told(&[START, ASK, STOP, "{}", ""]);
        let expected =
            [Some(Course::Goes), Some(Course::Waits), Some(Course::TurnOver), None, None];
        assert_eq!(courses, expected);
    }

    #[test]
    fn a_number_that_nothing_can_hold_does_not_cost_an_event() {
        let stop = "{'hook_event_name':'Stop','last_assistant_message':'Bye.','error':1e999}";
        assert_eq!(told(&[START, PROMPT, stop]).0[2], Some(Course::TurnOver));
    }

    #[test]
    fn a_turn_that_is_over_is_a_result_however_the_session_ends() {
        for ended_by in [EndedBy::Lingering, EndedBy::Silence, EndedBy::Itself] {
            let facts = facts(&[START, PROMPT, STOP], ended_by);
            assert_eq!((facts.trouble, &*facts.answer), (None, "Bye."));
            assert_eq!(facts.result.as_deref(), Some("Bye."));
            assert_eq!(
                (facts.session.as_deref(), facts.model.as_deref()),
                (Some("s"), Some("opus"))
            );
        }
    }

    #[test]
    fn a_turn_that_was_begun_after_it_must_be_finished_too() {
        let facts = facts(&[START, PROMPT, STOP, PROMPT], EndedBy::Deadline);
        assert_eq!(facts.trouble, Some(Trouble::NoResult));
    }

    #[test]
    fn a_session_that_did_not_finish_says_why() {
        let why = |events: &[&str], ended_by| facts(events, ended_by).trouble.unwrap();
        assert_eq!(why(&[START], EndedBy::Silence), Trouble::Idle(IDLE));
        assert_eq!(why(&[START], EndedBy::Itself), Trouble::NoResult);
        assert_eq!(why(&[START], EndedBy::Request), Trouble::Aborted);
        let asked = why(&[START, PROMPT, TOOL, ASK], EndedBy::Silence).to_string();
        assert_eq!(asked, "the agent asked a question, and nobody answered: may it use `Write`?");
        let refused = "{'hook_event_name':'StopFailure','error':'rate_limit'}";
        assert_eq!(why(&[START, PROMPT, refused], EndedBy::Lingering), Trouble::RateLimited);
    }

    #[test]
    fn what_was_written_down_is_not_told_twice() {
        let path =
            format!("{}/tests/fixtures/terminal/transcript.jsonl", env!("CARGO_MANIFEST_DIR"));
        for (last, more) in [("Nothing left to commit. Bye.", ""), ("And more.", "\n\nAnd more.")] {
            let stop = format!(
                "{{'hook_event_name':'Stop','last_assistant_message':'{last}','transcript_path':'{path}'}}"
            );
            let facts = facts(&[START, PROMPT, &stop], EndedBy::Lingering);
            let expected =
                format!("<task-done>t-abc</task-done>\n\nNothing left to commit. Bye.{more}");
            assert_eq!((&*facts.answer, &*facts.last_message), (&*expected, last));
            assert_eq!((facts.cost_usd, facts.turns, facts.output_tokens), (0.0016, 2, 40));
        }
    }
}
