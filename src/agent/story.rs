//! What a session in a terminal tells by its hooks, put together: which tools are at work, whether its
//! turn is over, and in the end what came of it.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::facts::{Exit, Facts, Observer};
use super::hook::{HookEvent, parse};
use super::question::{ASK, asked};
use super::transcript::{self, Used};
use super::trouble::Trouble;
use super::watch::EndedBy;
use crate::dag::Billing;
use crate::event::{AgentEvent, Finished, Speaker, Started};
use crate::lenient::read_json;

/// What a session has told so far.
#[derive(Debug)]
pub(super) struct Story {
    observer: Observer,
    begun: bool,
    transcript: PathBuf,
    /// How long that was when it was last looked at.
    length: u64,
    /// Whether it was ended because the model did not answer.
    unanswered: bool,
    /// The tools at work: what names the call, and the tool.
    tools: Vec<(String, String)>,
    /// What it waits for a person to answer, the last question last.
    questions: Vec<Question>,
    /// The last turn, if it is over.
    turn: Option<Turn>,
    /// How it is paid for.
    billing: Option<Billing>,
}

/// Something that only a person can answer.
#[derive(Debug)]
struct Question {
    /// The tool call that waits for the answer, if that is known.
    call: String,
    text: String,
    /// Whether the agent wants to know something, and not just to use a tool.
    is_of_the_agent: bool,
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
    /// A session that has not begun, and is paid for like this.
    pub(super) fn new(billing: Option<Billing>) -> Story {
        Story {
            billing,
            observer: Observer::new(),
            begun: false,
            transcript: PathBuf::new(),
            length: 0,
            unanswered: false,
            tools: Vec::new(),
            questions: Vec::new(),
            turn: None,
        }
    }

    /// Whether the session has begun, and is not at a question of its first start.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the model has been asked for the first time in this session, and has not answered.
    pub(super) fn awaits_first_answer(&self) -> bool {
        self.begun && self.turn.is_none() && !self.observer.has_seen_the_model()
    }

    /// Whether the model is asked for something: a turn goes on, and neither a tool nor a person is waited for.
    pub(super) fn awaits_answer(&self) -> bool {
        self.begun && self.turn.is_none() && !self.is_busy() && !self.is_asking()
    }

    /// Whether something was written down since this was last asked.
    pub(super) fn has_grown(&mut self) -> bool {
        let length = fs::metadata(&self.transcript).map_or(0, |file| file.len());
        std::mem::replace(&mut self.length, length) != length
    }

    /// The model is not waited for any longer.
    pub(super) fn gives_up(&mut self) {
        self.unanswered = true;
    }

    /// Whether the last turn is over because of an error.
    pub(super) fn has_failed(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.error.is_some())
    }

    /// Whether there is a tool at work.
    pub(super) fn is_busy(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Whether it waits for a person. What it draws meanwhile is no sign of life: Claude Code blinks.
    pub(super) fn is_asking(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether the agent has asked a person something that it wants to know.
    pub(super) fn has_asked(&self) -> bool {
        self.questions.iter().any(|it| it.is_of_the_agent)
    }

    /// Somebody is at the keyboard: a question may be answered, and a tool interrupted without a word.
    pub(super) fn typed(&mut self) {
        self.questions.clear();
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
                HookEvent::ToolBegins { ref name, .. } if name == ASK => Course::Waits,
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
                let event = AgentEvent::Started(Started {
                    session,
                    model,
                    version: "".into(),
                    billing: self.billing,
                });
                self.observer.observe(&event);
                listen(&event);
            }
            HookEvent::Prompted => {
                self.turn = None;
                self.questions.clear();
                self.tools.clear();
            }
            HookEvent::ToolBegins { id, name, input } if name == ASK => {
                let (call, text) = (id.to_string(), asked(&input));
                self.questions.push(Question { call, text, is_of_the_agent: true });
                self.call(&AgentEvent::ToolCall { from, id, name, input }, listen);
            }
            HookEvent::ToolBegins { id, name, input } => {
                self.tools.push((id.to_string(), name.to_string()));
                self.call(&AgentEvent::ToolCall { from, id, name, input }, listen);
            }
            HookEvent::ToolEnds { id, error } => {
                self.tools.retain(|(tool, _)| *tool != id);
                self.questions.retain(|it| it.call != id && !it.call.is_empty());
                listen(&AgentEvent::ToolResult { from, id, error });
            }
            // What is asked by this tool has been told when it was called.
            HookEvent::AsksPermission { tool } if tool == ASK => {}
            HookEvent::AsksPermission { tool } => {
                // It is not at work as long as it is not allowed to be.
                let at = self.tools.iter().rposition(|(_, name)| *name == tool);
                let call = at.map_or(String::new(), |at| self.tools.remove(at).0);
                let text = format!("may it use `{tool}`?");
                listen(&AgentEvent::Notice { text: text.as_str().into() });
                self.questions.push(Question { call, text, is_of_the_agent: false });
            }
            HookEvent::Waits { message } => {
                if self.questions.is_empty() {
                    let (call, text) = (String::new(), message.to_string());
                    self.questions.push(Question { call, text, is_of_the_agent: false });
                }
                listen(&AgentEvent::Notice { text: message });
            }
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

    /// A tool is called. The model has spoken, then, even if the session ends before that is written down.
    fn call(&mut self, event: &AgentEvent<'_>, listen: &mut dyn FnMut(&AgentEvent<'_>)) {
        self.observer.observe(event);
        listen(event);
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
            facts.trouble = Some(match self.unanswered {
                true => Trouble::Unanswered,
                false => trouble(ended_by, idle, self.questions),
            });
            facts.bill.cost_usd = used.cost_usd;
            facts.bill.tokens = used.tokens;
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
            stop_reason: None,
            // As the program itself has it where it prints what happens.
            terminal_reason: used.refusal.tells_types.then_some("api_error".into()),
            text: Some(text),
            said: true,
            errors: Vec::new(),
            api_status: None,
            api_error: used.refusal.api_error.as_deref().map(Cow::Borrowed),
            denials: 0,
            duration: used.duration,
            cost_usd: used.cost_usd,
            turns: used.turns,
            tokens: used.tokens,
        })));
    }
}

/// Why a session did not finish its turn.
fn trouble(ended_by: EndedBy, idle: Duration, mut questions: Vec<Question>) -> Trouble {
    match (ended_by, questions.pop()) {
        (EndedBy::Silence, Some(Question { text, is_of_the_agent: true, .. })) => {
            Trouble::Question(text)
        }
        (EndedBy::Silence, Some(Question { text, .. })) => {
            Trouble::Error(format!("the agent asked a question, and nobody answered: {text}"))
        }
        (EndedBy::Request, _) => Trouble::Aborted,
        (EndedBy::Rejected, _) => Trouble::Authentication,
        (EndedBy::Silence, None) => Trouble::Idle(idle),
        (EndedBy::Itself | EndedBy::Lingering | EndedBy::Deadline, _) => Trouble::NoResult,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    fn told(events: &[&str]) -> (Vec<Option<Course>>, Story) {
        let mut story = Story::new(None);
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

    const WAITS: &str =
        "{'hook_event_name':'Notification','message':'Claude needs your permission'}";
    const QUESTION: &str = "{'hook_event_name':'PreToolUse','tool_name':'AskUserQuestion',\
        'tool_use_id':'2','tool_input':{'questions':[{'question':'Red or blue?'}]}}";
    const MAY_IT_ASK: &str =
        "{'hook_event_name':'PermissionRequest','tool_name':'AskUserQuestion'}";
    const ANSWERED: &str = "{'hook_event_name':'PostToolUse','tool_use_id':'2'}";

    #[test]
    fn it_asks_until_the_tool_ends_or_a_person_types() {
        let asking = |events: &[&str]| told(events).1.is_asking();
        assert!(!asking(&[START, PROMPT, TOOL]));
        assert!(asking(&[START, PROMPT, TOOL, ASK]));
        assert!(asking(&[START, PROMPT, TOOL, ASK, WAITS]));
        assert!(asking(&[START, PROMPT, WAITS]));
        assert!(asking(&[START, PROMPT, QUESTION, MAY_IT_ASK]));
        assert!(asking(&[START, PROMPT, TOOL, ASK, QUESTION, ANSWERED]), "the first is still open");
        assert!(!asking(&[START, PROMPT, TOOL, ASK, TOOL_ENDS]));
        assert!(!asking(&[START, PROMPT, WAITS, TOOL_ENDS]));
        assert!(!asking(&[START, PROMPT, QUESTION, ANSWERED]));
        assert!(!asking(&[START, PROMPT, TOOL, ASK, PROMPT]));
        let (_, mut story) = told(&[START, PROMPT, TOOL, ASK]);
        story.typed();
        assert!(!story.is_asking());
    }

    #[test]
    fn an_answer_is_awaited_while_a_turn_goes_on_and_nothing_else_is_waited_for() {
        let awaits = |events: &[&str]| told(events).1.awaits_answer();
        assert!(!awaits(&[]));
        assert!(awaits(&[START, PROMPT]));
        assert!(!awaits(&[START, PROMPT, TOOL]));
        assert!(awaits(&[START, PROMPT, TOOL, TOOL_ENDS]));
        assert!(!awaits(&[START, PROMPT, TOOL, ASK]));
        assert!(!awaits(&[START, PROMPT, STOP]));
        let (_, mut story) = told(&[START, PROMPT]);
        story.gives_up();
        let facts = story.into_facts(None, EndedBy::Silence, IDLE, &mut |_| ());
        assert_eq!(facts.trouble, Some(Trouble::Unanswered));
    }

    #[test]
    fn what_is_written_down_is_a_sign_of_the_model() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let start = format!(
            "{{'hook_event_name':'SessionStart','session_id':'s','transcript_path':'{}'}}",
            file.path().display()
        );
        let (_, mut story) = told(&[&start]);
        assert!(!story.has_grown());
        fs::write(file.path(), "a line\n").unwrap();
        assert!(story.has_grown());
        assert!(!story.has_grown());
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
        assert!(facts(&[START, PROMPT, TOOL, ASK], EndedBy::Silence).model_seen);
        assert!(!facts(&[START, PROMPT], EndedBy::Silence).model_seen);
        let wanted = why(&[START, PROMPT, QUESTION, MAY_IT_ASK, WAITS], EndedBy::Silence);
        assert_eq!(wanted, Trouble::Question("Red or blue?".into()));
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
            assert_eq!(
                (facts.bill.cost_usd, facts.turns, facts.bill.tokens.output),
                (0.0016, 2, 40)
            );
        }
    }
}
