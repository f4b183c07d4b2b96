//! Turns a line of a session's output into events. Nothing a child can print is an error here: what is
//! not understood is unknown, and what is no JSON object is nothing.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::value::RawValue;

use super::wire::{Announced, Block, Event, Line, Message, RateLimitInfo, sum};
use crate::dag::{Billing, Tokens};
use crate::event::{AgentEvent, Finished, LimitStatus, RateLimit, Speaker, Started};
use crate::lenient::{Number, Object, read_json};
use crate::money;

/// Reads the lines of one session, in order.
#[derive(Debug, Default)]
pub struct Parser {
    /// Whether a line that is not of the stream is something the agent says.
    takes_text: bool,
    agent: Pieces,
    subagent: Pieces,
    /// The hash of the last text block of the agent itself.
    last_text: Option<u64>,
    /// What the turns so far have used.
    turns: Tokens,
    /// Whether the environment has what sessions are paid for with.
    paid_by_use: bool,
}

/// How much of the block that is being written has been seen in pieces.
#[derive(Debug, Default)]
struct Pieces {
    /// The id of the message they belong to; empty if the program did not say.
    message: String,
    text: usize,
    thinking: usize,
}

impl Parser {
    /// A parser for a new session.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// A parser for a program that may print plain text: each line that is not of the stream is a text.
    pub fn of_text() -> Parser {
        Parser { takes_text: true, ..Parser::default() }
    }

    /// The same for sessions whose environment has what they are paid for with. Of some of that they do
    /// not tell: a token of a gateway looks like a login.
    #[must_use]
    pub(super) fn paid_by_use(self, paid_by_use: bool) -> Parser {
        Parser { paid_by_use, ..self }
    }

    /// Hands the events of a line to `emit`; false if it is not a line of the stream.
    pub fn parse(&mut self, line: &[u8], emit: &mut dyn FnMut(AgentEvent<'_>)) -> bool {
        let is_event = self.parse_event(line, emit);
        if !is_event && self.takes_text {
            let text = format!("{}\n", String::from_utf8_lossy(line).trim_end());
            let (from, model) = (Speaker::Agent, Cow::Borrowed(""));
            emit(AgentEvent::Text { from, text: text.into(), seen: 0, model });
        }
        is_event
    }

    fn parse_event(&mut self, line: &[u8], emit: &mut dyn FnMut(AgentEvent<'_>)) -> bool {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") {
            return false;
        }
        read_json(line, |json| {
            let mut line = Line::default();
            line.read(json).ok()?;
            self.dispatch(line, emit);
            Some(())
        })
        .is_some()
    }

    fn dispatch<'a>(&mut self, line: Line<'a>, emit: &mut dyn FnMut(AgentEvent<'_>)) {
        let from = match line.parent_tool_use_id.0 {
            None => Speaker::Agent,
            Some(_) => Speaker::Subagent,
        };
        match line.kind.as_str() {
            "assistant" => {
                if let (Some(kind), Speaker::Agent) = (line.error.0, from) {
                    let status = status(line.api_error_status);
                    emit(AgentEvent::Refused { kind, detail: line.api_error.or_empty(), status });
                }
                self.assistant(line.message.0.unwrap_or_default(), from, emit);
            }
            "user" => user(line.message.0.unwrap_or_default(), from, emit),
            "stream_event" => {
                self.piece(line.event.0.unwrap_or_default(), line.api_message_id.0, from, emit);
            }
            "result" => {
                let said = self.has_said(line.result.as_str());
                let tokens = self.used_so_far(&line);
                emit(AgentEvent::Finished(Box::new(finished(line, said, tokens))));
            }
            "rate_limit_event" => {
                emit(AgentEvent::RateLimit(rate_limit(line.rate_limit_info.0.unwrap_or_default())));
            }
            "system" => emit(system(line, self.paid_by_use)),
            "control_response" => emit(AgentEvent::Alive),
            _ => emit(AgentEvent::Unknown { kind: line.kind.or_empty() }),
        }
    }

    /// Whether the agent has said this: in its last text block, or in pieces of one that never came.
    fn has_said(&self, text: &str) -> bool {
        self.agent.text > 0 || self.last_text == Some(hash(text))
    }

    /// What a session has used by the end of a turn. Of a turn it is said without its subagents, of all
    /// turns together with them.
    fn used_so_far(&mut self, line: &Line<'_>) -> Tokens {
        let turn = line.usage.0.as_ref().map(|usage| usage.tokens()).unwrap_or_default();
        self.turns = self.turns.plus(turn);
        sum(&line.model_usage).unwrap_or(self.turns)
    }

    fn pieces(&mut self, from: Speaker) -> &mut Pieces {
        match from {
            Speaker::Agent => &mut self.agent,
            Speaker::Subagent => &mut self.subagent,
        }
    }

    fn piece(
        &mut self,
        event: Event<'_>,
        api_message_id: Option<Cow<'_, str>>,
        from: Speaker,
        emit: &mut dyn FnMut(AgentEvent<'_>),
    ) {
        let pieces = self.pieces(from);
        // Newer versions name the message in every line, older ones only in its `message_start`.
        let announced = event.message.0;
        let announced_id = announced.as_ref().and_then(|message| message.id.0.clone());
        let message = api_message_id.or(announced_id);
        if let Some(message) = message.filter(|message| pieces.message != **message) {
            *pieces = Pieces { message: message.into_owned(), ..Pieces::default() };
        }
        if let Some(Announced { model, usage: Object(Some(usage)), .. }) = announced {
            return emit(AgentEvent::Used(Box::new(usage.of(
                &*pieces.message,
                model.or_empty(),
                false,
            ))));
        }
        if let Some(usage) = event.usage.0 {
            return emit(AgentEvent::Used(Box::new(usage.of(&*pieces.message, "", true))));
        }
        let delta = event.delta.0.unwrap_or_default();
        match delta.kind.as_str() {
            "text_delta" => {
                let text = delta.text.or_empty();
                pieces.text += text.len();
                emit(AgentEvent::TextDelta { from, text });
            }
            "thinking_delta" => {
                let text = delta.thinking.or_empty();
                pieces.thinking += text.len();
                emit(AgentEvent::ThinkingDelta { from, text });
            }
            // What a subagent waits for, the agent itself does not know.
            _ if from == Speaker::Subagent => emit(AgentEvent::Alive),
            _ if event.kind.as_str() == "message_stop" => emit(AgentEvent::Answered),
            _ => emit(AgentEvent::Asking),
        }
    }

    fn assistant(
        &mut self,
        message: Message<'_>,
        from: Speaker,
        emit: &mut dyn FnMut(AgentEvent<'_>),
    ) {
        let pieces = self.pieces(from);
        let (mut text_seen, mut thinking_seen) = (0, 0);
        if pieces.message.is_empty() || pieces.message == message.id.as_str() {
            text_seen = std::mem::take(&mut pieces.text);
            thinking_seen = std::mem::take(&mut pieces.thinking);
        }
        let model = message.model.or_empty();
        if let Some(usage) = message.usage.0 {
            emit(AgentEvent::Used(Box::new(usage.of(message.id.or_empty(), &*model, false))));
        }
        for block in message.content.0.into_iter().filter_map(|block| block.0) {
            match block.kind.as_str() {
                "text" => {
                    let text = block.text.or_empty();
                    let seen = seen_of(&text, &mut text_seen);
                    if from == Speaker::Agent {
                        self.last_text = Some(hash(&text));
                    }
                    emit(AgentEvent::Text { from, text, seen, model: Cow::Borrowed(&model) });
                }
                "thinking" => {
                    let text = block.thinking.or_empty();
                    let seen = seen_of(&text, &mut thinking_seen);
                    emit(AgentEvent::Thinking { from, text, seen });
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => emit(AgentEvent::ToolCall {
                    from,
                    id: block.id.or_empty(),
                    name: block.name.or_empty(),
                    input: block.input.map_or("{}", RawValue::get).into(),
                }),
                _ => emit(AgentEvent::Unknown { kind: block.kind.or_empty() }),
            }
        }
    }
}

/// Tells equal texts without keeping them; blanks around them do not count.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.trim().hash(&mut hasher);
    hasher.finish()
}

/// How much of a whole block came in pieces before. What is left goes to the next block.
fn seen_of(text: &str, pieces: &mut usize) -> usize {
    let mut seen = (*pieces).min(text.len());
    *pieces -= seen;
    while !text.is_char_boundary(seen) {
        seen -= 1;
    }
    seen
}

fn user(message: Message<'_>, from: Speaker, emit: &mut dyn FnMut(AgentEvent<'_>)) {
    let mut told = false;
    for block in message.content.0.into_iter().filter_map(|block| block.0) {
        if block.kind.as_str() == "tool_result" {
            let error = block.is_error.0.then(|| join(block.content.0));
            emit(AgentEvent::ToolResult { from, id: block.tool_use_id.or_empty(), error });
            told = true;
        }
    }
    if !told {
        emit(AgentEvent::Alive);
    }
}

/// The texts among these blocks, a line each.
fn join<'a>(blocks: Vec<Object<Block<'a>>>) -> Cow<'a, str> {
    let mut blocks: Vec<Block<'a>> = blocks.into_iter().filter_map(|block| block.0).collect();
    match blocks.len() {
        0 => Cow::Borrowed(""),
        1 => blocks.remove(0).text.or_empty(),
        _ => {
            let texts: Vec<&str> = blocks.iter().map(|block| block.text.as_str()).collect();
            Cow::Owned(texts.join("\n"))
        }
    }
}

fn system(line: Line<'_>, paid_by_use: bool) -> AgentEvent<'_> {
    match line.subtype.as_str() {
        "init" => AgentEvent::Started(Started {
            session: line.session_id.or_empty(),
            model: line.model.or_empty(),
            version: line.claude_code_version.or_empty(),
            billing: line.api_key_source.0.as_deref().map(|source| billing(source, paid_by_use)),
        }),
        "api_retry" => AgentEvent::Retrying {
            attempt: line.attempt.count() as u32,
            max: line.max_retries.count() as u32,
            delay: Duration::from_millis(line.retry_delay_ms.count()),
            status: status(line.error_status),
        },
        "permission_denied" => AgentEvent::Denied { tool: line.tool_name.or_empty() },
        "informational" | "model_fallback" => AgentEvent::Notice { text: line.content.or_empty() },
        "notification" => AgentEvent::Notice { text: line.text.or_empty() },
        "status" if matches!(line.status.as_str(), "requesting" | "compacting") => {
            AgentEvent::Asking
        }
        "model_refusal_no_fallback" => {
            AgentEvent::Declined { why: line.api_refusal_explanation.or_empty() }
        }
        "status"
        | "thinking_tokens"
        | "task_started"
        | "task_progress"
        | "task_updated"
        | "task_notification"
        | "background_tasks_changed"
        | "hook_started"
        | "hook_response"
        | "ui_invalidate"
        | "model_refusal_fallback" => AgentEvent::Alive,
        subtype => AgentEvent::Unknown { kind: format!("system/{subtype}").into() },
    }
}

/// How a session is paid for whose key comes from there.
fn billing(api_key_source: &str, paid_by_use: bool) -> Billing {
    if api_key_source == "none" && !paid_by_use { Billing::Subscription } else { Billing::Api }
}

fn rate_limit(info: RateLimitInfo<'_>) -> RateLimit<'_> {
    let status = match info.status.as_str() {
        "rejected" => LimitStatus::Rejected,
        "allowed_warning" => LimitStatus::Warning,
        _ => LimitStatus::Allowed,
    };
    let resets_at = info.resets_at.0.filter(|seconds| *seconds > 0.0 && *seconds < 1e11);
    RateLimit { status, window: info.window.0, resets_at: resets_at.map(|seconds| seconds as i64) }
}

fn finished(line: Line<'_>, said: bool, tokens: Tokens) -> Finished<'_> {
    Finished {
        // Some programs that speak this format have no subtypes.
        success: matches!(line.subtype.as_str(), "success" | "") && !line.is_error.0,
        said,
        subtype: line.subtype.or_empty(),
        stop_reason: line.stop_reason.0,
        terminal_reason: line.terminal_reason.0,
        text: line.result.0,
        errors: line.errors.0.into_iter().filter_map(|error| error.0).collect(),
        api_status: status(line.api_error_status),
        api_error: line.api_error_type.0,
        denials: line.permission_denials.0.len() as u32,
        duration: Duration::from_millis(line.duration_ms.count()),
        cost_usd: line
            .total_cost_usd
            .0
            .filter(|cost| cost.is_finite() && *cost > 0.0)
            .map_or(0.0, money::rounded),
        turns: line.num_turns.count() as u32,
        tokens,
    }
}

fn status(number: Number) -> Option<u16> {
    number.0.filter(|status| (100.0..1000.0).contains(status)).map(|status| status as u16)
}
