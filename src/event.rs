//! What happens in a session and in a run, as data. Who listens is not known here.

mod run;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::dag::{Billing, Tokens};

pub use run::{
    Activity, Diff, Event, Idle, IterationEnd, IterationStart, Left, LimitWait, Mode, Problem,
    Progress, RunCommand, Said, Stamped, Start, Stats, Summary, TaskResult, ToolFailure, ToolUse,
    Verifier, Verify, VerifyStatus, View,
};

/// What a child said. Texts borrow from the line they came in.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent<'a> {
    /// The session has begun.
    Started(Started<'a>),
    /// A piece of an answer, as it is being written.
    TextDelta {
        /// Who says it.
        from: Speaker,
        /// The piece.
        text: Cow<'a, str>,
    },
    /// A whole block of an answer.
    Text {
        /// Who says it.
        from: Speaker,
        /// All of it.
        text: Cow<'a, str>,
        /// How many bytes of it came as pieces before.
        seen: usize,
        /// The model that says it.
        model: Cow<'a, str>,
    },
    /// A piece of a thought, as it is being thought.
    ThinkingDelta {
        /// Who thinks it.
        from: Speaker,
        /// The piece.
        text: Cow<'a, str>,
    },
    /// A whole thought.
    Thinking {
        /// Who thinks it.
        from: Speaker,
        /// All of it.
        text: Cow<'a, str>,
        /// How many bytes of it came as pieces before.
        seen: usize,
    },
    /// A tool is called.
    ToolCall {
        /// Who calls it.
        from: Speaker,
        /// Names the call.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// Its input, as JSON.
        input: Cow<'a, str>,
    },
    /// A tool has ended.
    ToolResult {
        /// Who called it.
        from: Speaker,
        /// Names the call.
        id: Cow<'a, str>,
        /// What went wrong, if it did.
        error: Option<Cow<'a, str>>,
    },
    /// A tool was not allowed.
    Denied {
        /// The tool.
        tool: Cow<'a, str>,
    },
    /// The API did not answer as it should, and the agent tries again by itself.
    Retrying {
        /// The how-manieth time.
        attempt: u32,
        /// How often at the most.
        max: u32,
        /// When.
        delay: Duration,
        /// The HTTP status, if there was an answer.
        status: Option<u16>,
    },
    /// The API has refused for good; the words follow as a text.
    Refused {
        /// What kind of refusal it is, in the words of the program.
        kind: Cow<'a, str>,
        /// More precisely, where it says so.
        detail: Cow<'a, str>,
        /// The HTTP status, if there was an answer.
        status: Option<u16>,
    },
    /// The model has refused to answer; the words of the program follow as a refusal of the API.
    Declined {
        /// Why, where the API says so.
        why: Cow<'a, str>,
    },
    /// What the account may still use.
    RateLimit(RateLimit<'a>),
    /// The API was asked, or is in the middle of an answer.
    Asking,
    /// The API has answered to the end.
    Answered,
    /// A remark of the program itself.
    Notice {
        /// The remark.
        text: Cow<'a, str>,
    },
    /// What a message has used so far.
    Used(Box<Usage<'a>>),
    /// A sign of life that needs no showing.
    Alive,
    /// A turn has ended. There may be several.
    Finished(Box<Finished<'a>>),
    /// Something this version does not know.
    Unknown {
        /// What it calls itself.
        kind: Cow<'a, str>,
    },
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The agent we started.
    Agent,
    /// An agent that it started.
    Subagent,
}

/// The beginning of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started<'a> {
    /// Names the session.
    pub session: Cow<'a, str>,
    /// The model it begins with.
    pub model: Cow<'a, str>,
    /// The version of the program.
    pub version: Cow<'a, str>,
    /// How it is paid for, if that is known.
    pub billing: Option<Billing>,
}

/// What a message has used so far. There may be several of these for one message; the last one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage<'a> {
    /// Names the message.
    pub message: Cow<'a, str>,
    /// The model that writes it; empty if that was said before.
    pub model: Cow<'a, str>,
    /// The tokens.
    pub tokens: Tokens,
    /// How many of those that were written into the cache are kept there for an hour.
    pub cache_write_1h: u64,
    /// Whether the message is complete.
    pub complete: bool,
}

impl Finished<'_> {
    /// The text of a result that ended well and that nothing else has said.
    pub fn unsaid(&self) -> Option<&str> {
        let text = self.text.as_deref().filter(|text| !text.trim().is_empty());
        text.filter(|_| self.success && !self.said)
    }
}

/// What the account may still use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit<'a> {
    /// How it stands.
    pub status: LimitStatus,
    /// Which window it is about, in the words of the API.
    pub window: Option<Cow<'a, str>>,
    /// When that window begins anew, in seconds since 1970.
    pub resets_at: Option<i64>,
}

/// How a limit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitStatus {
    /// All is well.
    Allowed,
    /// It will soon be reached.
    Warning,
    /// It is reached.
    Rejected,
}

/// The end of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Finished<'a> {
    /// Whether it ended well, by its own account.
    pub success: bool,
    /// How it ended: `success` or one of several kinds of `error_…`.
    pub subtype: Cow<'a, str>,
    /// Why the model stopped, in the words of the API.
    pub stop_reason: Option<Cow<'a, str>>,
    /// Why it ended, in the words of the program.
    pub terminal_reason: Option<Cow<'a, str>>,
    /// The last block of the answer.
    pub text: Option<Cow<'a, str>>,
    /// Whether that text was said before as well, in a block or in pieces.
    pub said: bool,
    /// What went wrong, where it says so.
    pub errors: Vec<Cow<'a, str>>,
    /// The HTTP status of an error of the API.
    pub api_status: Option<u16>,
    /// What the API itself calls the error; whatever answers in its place does not.
    pub api_error: Option<Cow<'a, str>>,
    /// The tools that were not allowed.
    pub denials: u32,
    /// How long it took.
    pub duration: Duration,
    /// What the session has cost so far.
    pub cost_usd: f64,
    /// Turns taken.
    pub turns: u32,
    /// What the session has used so far, its subagents included.
    pub tokens: Tokens,
}
