//! What came of a session: what was said, what it cost, and what went wrong if something did. An exit
//! status of zero is no success by itself; a success is a result that says so.

use std::fmt;
use std::time::Duration;

use crate::event::{AgentEvent, Finished, LimitStatus, Speaker};

/// How much of an answer is kept: its end, where the verdict is.
const MAX_ANSWER: usize = 1 << 20;

/// What came of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// All that the agent itself said, block by block; subagents and tools are not in it.
    pub answer: String,
    /// The end of it: what the agent itself said after its last tool call, or in the turn after a result.
    pub last_message: String,
    /// The last block of it, as the program reports it.
    pub result: Option<String>,
    /// The program reports nothing: answer and result are what stood on its screen, the prompt and the
    /// decoration included.
    pub on_screen: bool,
    /// Whether the model has shown itself: by words, thoughts, a tool or tokens.
    pub model_seen: bool,
    /// Why it did not end well; none if it did.
    pub trouble: Option<Trouble>,
    /// Names the session.
    pub session: Option<String>,
    /// The model that spoke last.
    pub model: Option<String>,
    /// How long it took, by the program's own account.
    pub duration: Duration,
    /// What it has cost.
    pub cost_usd: f64,
    /// Tokens read, cached ones included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Turns taken.
    pub turns: u32,
    /// Tools that were not allowed.
    pub denials: u32,
    /// How the process ended.
    pub exit: Option<Exit>,
}

impl Facts {
    /// What the agent said last; of a program that reports nothing, all that stood on its screen.
    pub fn final_message(&self) -> &str {
        if self.on_screen { &self.answer } else { &self.last_message }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why a session did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The account has used up what it may use.
    UsageLimit {
        /// Which window, in the words of the API: `five_hour`, `seven_day`, `seven_day_opus`, …
        window: Option<String>,
        /// When it begins anew, in seconds since 1970.
        resets_at: Option<i64>,
    },
    /// Too many requests at a time.
    RateLimited,
    /// The API is overloaded.
    Overloaded,
    /// The API failed.
    Server(u16),
    /// The API could not be reached, or did not answer.
    Connection,
    /// The key is wrong, or may not do this.
    Authentication,
    /// There is no credit left.
    NoCredit,
    /// There is no such model, or not for this account.
    ModelNotFound,
    /// The prompt is longer than the model can read.
    PromptTooLong,
    /// The API did not accept the request for another reason.
    InvalidRequest,
    /// The limit on turns was reached.
    MaxTurns,
    /// The limit on cost was reached.
    Budget,
    /// It was stopped.
    Aborted,
    /// It ended with an error of another kind.
    Error(String),
    /// It ended without a result.
    NoResult,
    /// It was ended because there was no activity for this long.
    Idle(Duration),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::UsageLimit { .. } => f.write_str("the usage limit is reached"),
            Trouble::RateLimited => f.write_str("too many requests at a time"),
            Trouble::Overloaded => f.write_str("the API is overloaded"),
            Trouble::Server(status) => write!(f, "the API failed with status {status}"),
            Trouble::Connection => f.write_str("the API could not be reached"),
            Trouble::Authentication => f.write_str("the API key or login was not accepted"),
            Trouble::NoCredit => f.write_str("there is no credit left"),
            Trouble::ModelNotFound => f.write_str("there is no such model for this account"),
            Trouble::PromptTooLong => f.write_str("the prompt is too long for the model"),
            Trouble::InvalidRequest => f.write_str("the API did not accept the request"),
            Trouble::MaxTurns => f.write_str("the limit on turns was reached"),
            Trouble::Budget => f.write_str("the limit on cost was reached"),
            Trouble::Aborted => f.write_str("the session was stopped"),
            Trouble::Error(words) => f.write_str(words),
            Trouble::NoResult => f.write_str("the session ended without a result"),
            Trouble::Idle(time) => {
                let seconds = time.as_secs_f64();
                write!(f, "no activity for {seconds} s (--idle-timeout): session ended")
            }
        }
    }
}

/// Puts the facts together, event by event.
#[derive(Debug, Default)]
pub struct Observer {
    facts: Facts,
    refusal: Option<(String, String, Option<u16>)>,
    limit: Option<(Option<String>, Option<i64>)>,
    /// Whether what is said next begins another turn.
    turn_over: bool,
}

impl Observer {
    /// An observer of a new session.
    pub fn new() -> Observer {
        Observer {
            facts: Facts { trouble: Some(Trouble::NoResult), ..Facts::default() },
            ..Observer::default()
        }
    }

    /// Takes an event into account.
    pub fn observe(&mut self, event: &AgentEvent<'_>) {
        self.facts.model_seen |= is_of_the_model(event);
        match event {
            AgentEvent::Started(started) => {
                self.facts.session = Some(started.session.to_string());
                self.facts.model = Some(started.model.to_string());
            }
            AgentEvent::Text { from: Speaker::Agent, text, model, .. } => {
                self.say(text);
                if !model.is_empty() && !is_own_name(model) {
                    self.facts.model = Some(model.to_string());
                }
            }
            AgentEvent::Refused { kind, detail, status } => {
                self.refusal = Some((kind.to_string(), detail.to_string(), *status));
            }
            AgentEvent::RateLimit(limit) => {
                self.limit = match limit.status {
                    LimitStatus::Rejected => {
                        Some((limit.window.as_deref().map(str::to_owned), limit.resets_at))
                    }
                    LimitStatus::Allowed | LimitStatus::Warning => None,
                };
            }
            AgentEvent::ToolCall { from: Speaker::Agent, .. } => self.facts.last_message.clear(),
            AgentEvent::Finished(finished) => self.finish(finished),
            AgentEvent::Text { from: Speaker::Subagent, .. }
            | AgentEvent::TextDelta { .. }
            | AgentEvent::ThinkingDelta { .. }
            | AgentEvent::Thinking { .. }
            | AgentEvent::ToolCall { from: Speaker::Subagent, .. }
            | AgentEvent::ToolResult { .. }
            | AgentEvent::Denied { .. }
            | AgentEvent::Retrying { .. }
            | AgentEvent::Notice { .. }
            | AgentEvent::Alive
            | AgentEvent::Unknown { .. } => {}
        }
    }

    /// The facts, now that the process has ended.
    pub fn into_facts(mut self, exit: Option<Exit>) -> Facts {
        self.facts.exit = exit;
        self.facts
    }

    fn say(&mut self, text: &str) {
        if std::mem::take(&mut self.turn_over) {
            self.facts.last_message.clear();
        }
        append(&mut self.facts.answer, text);
        append(&mut self.facts.last_message, text);
    }

    /// A session may have several results; the last one counts, and what they count adds up, but for
    /// the cost, which the program adds up itself.
    fn finish(&mut self, finished: &Finished<'_>) {
        let trouble = (!finished.success).then(|| self.trouble_of(finished));
        // Some programs say it nowhere else.
        let text = finished.text.as_deref().map(str::trim).unwrap_or_default();
        if finished.success && !self.facts.last_message.contains(text) {
            self.say(text);
        }
        self.turn_over = true;
        let facts = &mut self.facts;
        facts.trouble = trouble;
        facts.result = finished.text.as_deref().map(str::to_owned);
        facts.duration = facts.duration.saturating_add(finished.duration);
        facts.turns = facts.turns.saturating_add(finished.turns);
        facts.denials = facts.denials.saturating_add(finished.denials);
        facts.input_tokens = facts.input_tokens.saturating_add(finished.input_tokens);
        facts.output_tokens = facts.output_tokens.saturating_add(finished.output_tokens);
        facts.cost_usd = facts.cost_usd.max(finished.cost_usd);
        self.refusal = None;
    }

    fn trouble_of(&self, finished: &Finished<'_>) -> Trouble {
        let text = finished.text.as_deref().unwrap_or_default();
        let terminal_reason = finished.terminal_reason.as_deref().unwrap_or_default();
        let (kind, detail, status) = match &self.refusal {
            Some((kind, detail, status)) => (kind.as_str(), detail.as_str(), *status),
            None => ("", "", None),
        };
        match (&*finished.subtype, terminal_reason) {
            ("error_max_turns", _) => return Trouble::MaxTurns,
            ("error_max_budget_usd", _) => return Trouble::Budget,
            (_, "aborted_streaming" | "aborted_tools") => return Trouble::Aborted,
            (_, "prompt_too_long") => return Trouble::PromptTooLong,
            _ => {}
        }
        if detail == "usage_limit_reached" || is_usage_limit(text) {
            let (window, resets_at) = self.limit.clone().unwrap_or_default();
            return Trouble::UsageLimit { window, resets_at: resets_at.or(epoch_in(text)) };
        }
        match (kind, status.or(finished.api_status)) {
            ("billing_error", _) => Trouble::NoCredit,
            ("authentication_failed", _) | (_, Some(401 | 403)) => Trouble::Authentication,
            ("model_not_found", _) => Trouble::ModelNotFound,
            ("overloaded", _) | (_, Some(529)) => Trouble::Overloaded,
            ("rate_limit", _) | (_, Some(429)) => Trouble::RateLimited,
            (_, Some(status)) if status >= 500 => Trouble::Server(status),
            ("invalid_request", _) | (_, Some(_)) => Trouble::InvalidRequest,
            ("server_error", None) => Trouble::Connection,
            _ => Trouble::Error(describe(finished, text)),
        }
    }
}

/// Adds a block to an answer, of which only the end is kept.
fn append(answer: &mut String, text: &str) {
    if !answer.is_empty() {
        answer.push_str("\n\n");
    }
    answer.push_str(text);
    if answer.len() > 2 * MAX_ANSWER {
        let mut cut = answer.len() - MAX_ANSWER;
        while !answer.is_char_boundary(cut) {
            cut += 1;
        }
        answer.drain(..cut);
        answer.shrink_to(2 * MAX_ANSWER);
    }
}

/// Whether an event shows that the model has answered. The program's own words do not.
fn is_of_the_model(event: &AgentEvent<'_>) -> bool {
    match event {
        AgentEvent::Text { model, .. } => !is_own_name(model),
        AgentEvent::TextDelta { .. }
        | AgentEvent::ThinkingDelta { .. }
        | AgentEvent::Thinking { .. }
        | AgentEvent::ToolCall { .. }
        | AgentEvent::ToolResult { .. }
        | AgentEvent::Denied { .. } => true,
        AgentEvent::Finished(finished) => {
            let has_text = finished.text.as_deref().is_some_and(|text| !text.trim().is_empty());
            finished.output_tokens > 0 || (finished.success && has_text)
        }
        AgentEvent::Started(_)
        | AgentEvent::Retrying { .. }
        | AgentEvent::Refused { .. }
        | AgentEvent::RateLimit(_)
        | AgentEvent::Notice { .. }
        | AgentEvent::Alive
        | AgentEvent::Unknown { .. } => false,
    }
}

/// Whether this is the name under which the program itself speaks, such as `<synthetic>`.
fn is_own_name(model: &str) -> bool {
    model.starts_with('<')
}

fn is_usage_limit(text: &str) -> bool {
    text.contains("usage limit reached")
        || (text.starts_with("You've hit your ") && text.contains(" limit"))
}

/// The time in `Claude AI usage limit reached|1794798343`, as older programs say it.
fn epoch_in(text: &str) -> Option<i64> {
    let (_, time) = text.split_once("limit reached|")?;
    let digits: String = time.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|seconds| (1..100_000_000_000).contains(seconds))
}

fn describe(finished: &Finished<'_>, text: &str) -> String {
    let first = finished.errors.first().map_or(text, |error| error);
    if first.is_empty() { finished.subtype.to_string() } else { first.to_owned() }
}
