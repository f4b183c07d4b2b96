//! What came of a session: what was said, what it cost, and what went wrong if something did. An exit
//! status of zero is no success by itself; a success is a result that says so.

use std::time::Duration;

use super::account::Account;
use super::trouble::{Evidence, Refusal, Trouble};
use super::watch::EndedBy;
use crate::dag::{Bill, Billing};
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
    /// Whether the program has said anything at all.
    pub began: bool,
    /// Whether the model has shown itself: by words, thoughts, a tool or tokens.
    pub model_seen: bool,
    /// Whether the model has thought.
    pub thought: bool,
    /// Why it did not end well; none if it did.
    pub trouble: Option<Trouble>,
    /// Names the session.
    pub session: Option<String>,
    /// The model that spoke last.
    pub model: Option<String>,
    /// How long it took, by the program's own account.
    pub duration: Duration,
    /// What it has used, and what that costs.
    pub bill: Bill,
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

/// Puts the facts together, event by event.
#[derive(Debug, Default)]
pub struct Observer {
    facts: Facts,
    refusal: Option<Refusal>,
    /// Why the model refused, where the API says so; empty where it only says that it did.
    declined: Option<String>,
    /// What the model itself said last.
    own_words: String,
    limit: Option<(Option<String>, Option<i64>)>,
    /// Whether the API was asked for something that has not come yet, or not all of it.
    awaits_api: bool,
    /// How often in a row the API has not accepted the key or login.
    rejections: u32,
    /// Whether what is said next begins another turn.
    turn_over: bool,
    account: Account,
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
        self.facts.began = true;
        self.facts.model_seen |= is_of_the_model(event);
        self.facts.thought |= matches!(
            event,
            AgentEvent::Thinking { from: Speaker::Agent, .. }
                | AgentEvent::ThinkingDelta { from: Speaker::Agent, .. }
        );
        match event {
            AgentEvent::Started(started) => {
                self.facts.session = Some(started.session.to_string());
                self.facts.model = Some(started.model.to_string());
                self.account.begin(started.billing);
            }
            AgentEvent::Used(usage) => self.account.hear(usage),
            AgentEvent::Text { from: Speaker::Agent, text, model, .. } => {
                self.say(text);
                if !is_own_name(model) {
                    self.own_words = text.to_string();
                    self.rejections = 0;
                }
                let is_new = self.facts.model.as_deref() != Some(model);
                if is_new && !model.is_empty() && !is_own_name(model) {
                    self.facts.model = Some(model.to_string());
                }
            }
            AgentEvent::Refused { kind, detail, status } => {
                self.refusal = Some(Refusal {
                    kind: kind.to_string(),
                    detail: detail.to_string(),
                    status: *status,
                });
            }
            AgentEvent::Declined { why } => self.declined = Some(why.to_string()),
            AgentEvent::Asking => self.awaits_api = true,
            AgentEvent::Answered => self.awaits_api = false,
            AgentEvent::Retrying { status, .. } => {
                self.awaits_api = true;
                self.rejections = match status {
                    Some(401 | 403) => self.rejections + 1,
                    _ => 0,
                };
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
            | AgentEvent::Notice { .. }
            | AgentEvent::Alive
            | AgentEvent::Unknown { .. } => {}
        }
    }

    /// Whether the model has shown itself so far.
    pub(super) fn has_seen_the_model(&self) -> bool {
        self.facts.model_seen
    }

    /// Whether the API does not accept the key, so that to ask again does not help. A login that has
    /// expired is renewed once.
    pub fn is_rejected(&self) -> bool {
        let renewals = u32::from(self.account.billing() == Some(Billing::Subscription));
        self.rejections > renewals
    }

    /// The session was ended for this reason: what it had not come to may be the API's fault.
    pub fn end(&mut self, ended_by: EndedBy) {
        if self.facts.trouble != Some(Trouble::NoResult) {
            return;
        }
        self.facts.trouble = Some(match ended_by {
            EndedBy::Silence if self.awaits_api => Trouble::Unanswered,
            EndedBy::Rejected => Trouble::Authentication,
            EndedBy::Itself if self.is_rejected() => Trouble::Authentication,
            _ => return,
        });
    }

    /// The facts, now that the process has ended.
    pub fn into_facts(mut self, exit: Option<Exit>) -> Facts {
        self.facts.exit = exit;
        self.facts.bill = self.account.bill();
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
        self.account.settle(finished);
        self.refusal = None;
        self.declined = None;
        self.awaits_api = false;
    }

    fn trouble_of(&self, finished: &Finished<'_>) -> Trouble {
        Evidence {
            finished,
            refusal: self.refusal.as_ref(),
            declined: self.declined.as_deref(),
            own_words: &self.own_words,
            limit: self.limit.as_ref(),
            model: self.facts.model.as_deref().unwrap_or_default(),
        }
        .trouble()
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
            finished.tokens.output > 0 || (finished.success && has_text)
        }
        AgentEvent::Started(_)
        | AgentEvent::Retrying { .. }
        | AgentEvent::Refused { .. }
        | AgentEvent::Declined { .. }
        | AgentEvent::RateLimit(_)
        | AgentEvent::Asking
        | AgentEvent::Answered
        | AgentEvent::Notice { .. }
        | AgentEvent::Used(_)
        | AgentEvent::Alive
        | AgentEvent::Unknown { .. } => false,
    }
}

/// Whether this is the name under which the program itself speaks, such as `<synthetic>`.
fn is_own_name(model: &str) -> bool {
    model.starts_with('<')
}
