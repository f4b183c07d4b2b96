//! What the stand-in prints. Every line is one that the real program has printed, with the words
//! changed; so its shape is right by construction.

use std::io::{self, Write};
use std::time::Instant;

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::tui::Tui;

const WORK: &str = include_str!("../fixtures/stream/b.ndjson");
const ERRORS_OF_TOOLS: &str = include_str!("../fixtures/stream/c_tool_errors.ndjson");
const SUBAGENT: &str = include_str!("../fixtures/stream/subagent_fwd.ndjson");
const OVERLOADED: &str = include_str!("../fixtures/stream/err_529.ndjson");
const LIMITED: &str = include_str!("../fixtures/stream/limit_rejected_5h.ndjson");
const ABORTED: &str = include_str!("../fixtures/stream/f_sigint_api_hang.ndjson");

/// How long the pieces of partial messages are.
const PIECE: usize = 24;

/// The stdout of one invocation.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// NDJSON rather than plain text.
    json: bool,
    /// Neither: what it says stands on the screen at once.
    interactive: bool,
    /// What it tells a person's terminal and its hooks.
    tui: Option<Tui>,
    partial: bool,
    model: String,
    session: String,
    began: Instant,
    /// The tool that has been called and has not ended.
    pending_tool: Option<String>,
    last_text: String,
    turns: u64,
    results: u64,
    cost: f64,
}

impl Stream {
    pub(crate) fn new(arguments: &[String]) -> Stream {
        let value_of = |flag: &str| {
            let at = arguments.iter().position(|it| it == flag)?;
            arguments.get(at + 1).cloned()
        };
        Stream {
            json: value_of("--output-format").as_deref() == Some("stream-json"),
            interactive: !arguments.iter().any(|it| it == "--print" || it == "-p")
                && value_of("--output-format").is_none(),
            tui: Tui::new(arguments),
            partial: arguments.iter().any(|it| it == "--include-partial-messages"),
            model: value_of("--model").unwrap_or_else(|| "claude-opus-5-5".to_owned()),
            session: value_of("--session-id").unwrap_or_else(uuid),
            began: Instant::now(),
            pending_tool: None,
            last_text: String::new(),
            turns: 0,
            results: 0,
            cost: 0.01,
        }
    }

    pub(crate) fn begin(&mut self) {
        let mut line = find(WORK, |it| it["subtype"] == "init");
        if let Ok(directory) = std::env::current_dir() {
            line["cwd"] = json!(directory);
            line["original_cwd"] = json!(directory);
        }
        line["model"] = json!(self.model);
        self.put(line);
        if let Some(tui) = &self.tui {
            tui.begin(&self.model);
        }
    }

    /// Whether it waits for a person when it is done.
    pub(crate) fn stays(&self) -> bool {
        self.tui.is_some()
    }

    /// From now on hooks are not called.
    pub(crate) fn call_no_hooks(&mut self) {
        if let Some(tui) = &mut self.tui {
            tui.forget_hooks();
        }
    }

    pub(crate) fn ask_permission(&self, tool: &str) {
        if let Some(tui) = &self.tui {
            tui.call("PermissionRequest", &json!({ "tool_name": tool, "tool_input": {} }));
        }
    }

    pub(crate) fn prompted(&mut self) {
        self.results = 0;
        if let Some(tui) = &self.tui {
            tui.call("UserPromptSubmit", &json!({ "prompt": "and more" }));
        }
    }

    /// A text block, in pieces before if that is asked for.
    pub(crate) fn say(&mut self, text: &str) {
        let block = json!({ "type": "text", "text": text });
        self.block("text", &block, &pieces(text, "text_delta", "text"));
        text.clone_into(&mut self.last_text);
        if let Some(tui) = &self.tui {
            tui.write_down(&self.assistant(&id("msg_"), &block));
        }
        if self.interactive {
            raw(text.as_bytes());
        }
    }

    pub(crate) fn think(&mut self, text: &str) {
        let block = json!({ "type": "thinking", "thinking": text, "signature": "ZmFrZQ==" });
        self.block("thinking", &block, &pieces(text, "thinking_delta", "thinking"));
    }

    /// A call of a tool, which goes on until the next thing that is printed.
    pub(crate) fn call(&mut self, name: &str, input: &Value) {
        let id = id("toolu_");
        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
        let deltas = pieces(&input.to_string(), "input_json_delta", "partial_json");
        self.block("tool_use", &block, &deltas);
        if let Some(tui) = &self.tui {
            tui.call(
                "PreToolUse",
                &json!({ "tool_name": name, "tool_input": input, "tool_use_id": id }),
            );
        }
        self.pending_tool = Some(id);
    }

    /// The end of the tool that was called last.
    pub(crate) fn end_tool(&mut self, output: &str, is_error: bool) {
        let Some(id) = self.pending_tool.take() else { return };
        if let Some(tui) = &self.tui {
            let name = if is_error { "PostToolUseFailure" } else { "PostToolUse" };
            tui.call(name, &json!({ "tool_use_id": id, "error": output }));
        }
        let is_result = |it: &Value| it["message"]["content"][0]["type"] == "tool_result";
        let mut line = find(if is_error { ERRORS_OF_TOOLS } else { WORK }, is_result);
        line["message"]["content"][0]["tool_use_id"] = json!(id);
        line["message"]["content"][0]["content"] = json!(output);
        line["tool_use_result"] = if is_error {
            json!(format!("Error: {output}"))
        } else {
            json!({ "stdout": output, "stderr": "", "interrupted": false, "isImage": false })
        };
        line["tool_result_meta"][0]["id"] = json!(id);
        self.put(line);
    }

    /// A subagent that says something.
    pub(crate) fn subagent(&mut self, text: &str) {
        self.call(
            "Agent",
            &json!({ "description": "sub", "prompt": "look", "subagent_type": "general-purpose" }),
        );
        let parent = self.pending_tool.take();
        let mut line = find(SUBAGENT, |it| {
            it["message"]["content"][0]["type"] == "text" && it["type"] == "assistant"
        });
        line["message"]["id"] = json!(id("msg_"));
        line["message"]["content"][0]["text"] = json!(text);
        line["parent_tool_use_id"] = json!(parent);
        self.put(line);
        self.pending_tool = parent;
        self.end_tool(text, false);
    }

    pub(crate) fn cost(&mut self, cost: f64) {
        self.cost = cost;
    }

    pub(crate) fn has_result(&self) -> bool {
        self.results > 0
    }

    pub(crate) fn result(&mut self) {
        if !self.json {
            self.end_tool("", false);
            let text = std::mem::take(&mut self.last_text);
            self.results += 1;
            if let Some(tui) = &self.tui {
                let stop = json!({ "last_assistant_message": text, "background_tasks": [] });
                tui.call("Stop", &stop);
            }
            if !self.interactive {
                raw(text.as_bytes());
            }
            return;
        }
        let mut line = find(WORK, |it| it["type"] == "result");
        line["result"] = json!(self.last_text);
        self.finish(line);
    }

    /// A result of one of the `error_…` subtypes.
    pub(crate) fn result_error(&mut self, subtype: &str, reason: &str) {
        let mut line = find(ABORTED, |it| it["type"] == "result");
        line["subtype"] = json!(subtype);
        line["terminal_reason"] = json!(reason);
        self.finish(line);
    }

    /// The API has refused for good.
    pub(crate) fn error(&mut self, status: u16, kind: &str, text: &str) {
        let mut line = find(OVERLOADED, |it| it["type"] == "assistant");
        line["error"] = json!(kind);
        line["api_error_status"] = json!(status);
        line["api_error_type"] = json!(format!("{kind}_error"));
        self.refuse(line, find(OVERLOADED, |it| it["type"] == "result"), status, text);
    }

    /// What the account may still use; a rejected one ends the session.
    pub(crate) fn limit(&mut self, window: &str, resets_at: i64, status: &str) {
        let mut line = find(LIMITED, |it| it["type"] == "rate_limit_event");
        line["rate_limit_info"]["status"] = json!(status);
        line["rate_limit_info"]["rateLimitType"] = json!(window);
        line["rate_limit_info"]["resetsAt"] = json!(resets_at);
        line["rate_limit_info"]["unifiedWindows"] = json!({
            window: { "utilization": 1, "resetsAt": resets_at, "status": status }
        });
        self.put(line);
        if status == "rejected" {
            let text = "You've hit your 5-hour limit · resets 3:05am (UTC)";
            let said = find(LIMITED, |it| it["type"] == "assistant");
            self.refuse(said, find(LIMITED, |it| it["type"] == "result"), 429, text);
        }
    }

    fn refuse(&mut self, mut said: Value, mut result: Value, status: u16, text: &str) {
        said["message"]["id"] = json!(uuid());
        said["message"]["content"][0]["text"] = json!(text);
        self.put(said.clone());
        text.clone_into(&mut self.last_text);
        if let Some(tui) = &self.tui {
            tui.refuse(&said, status, text);
            self.results += 1;
        }
        result["api_error_status"] = json!(status);
        result["result"] = json!(text);
        self.finish(result);
    }

    pub(crate) fn retry(&mut self, status: u16, attempt: u32) {
        let mut line = find(OVERLOADED, |it| it["subtype"] == "api_retry");
        line["attempt"] = json!(attempt);
        line["error_status"] = json!(status);
        self.put(line);
    }

    /// A sign of life, as bytes.
    pub(crate) fn sign_of_life(&self) -> String {
        let mut line = find(WORK, |it| it["subtype"] == "thinking_tokens");
        line["session_id"] = json!(self.session);
        format!("{line}\n")
    }

    /// The beginning and the end of a text block, as bytes.
    pub(crate) fn around_text(&mut self) -> (String, String) {
        self.end_tool("", false);
        let text = "\u{fffc}";
        let line = self.assistant(&id("msg_"), &json!({ "type": "text", "text": text }));
        let line = format!("{line}\n");
        let (before, after) = line.split_once(text).expect("it has just been put there");
        (before.to_owned(), after.to_owned())
    }

    fn block(&mut self, kind: &str, block: &Value, deltas: &[Value]) {
        self.end_tool("", false);
        self.turns += 1;
        let message = id("msg_");
        if self.partial {
            self.event(&message, "message_start", |event| {
                event["message"]["id"] = json!(message);
                event["message"]["model"] = json!(self.model);
            });
            self.event(&message, "content_block_start", |event| {
                let mut empty = block.clone();
                for name in ["text", "thinking", "signature"] {
                    if let Some(text) = empty.get_mut(name) {
                        *text = json!("");
                    }
                }
                if kind == "tool_use" {
                    empty["input"] = json!({});
                }
                event["content_block"] = empty;
            });
            for delta in deltas {
                self.event(&message, "content_block_delta", |it| it["delta"] = delta.clone());
            }
        }
        self.put(self.assistant(&message, block));
        if self.partial {
            self.event(&message, "content_block_stop", |_| ());
            self.event(&message, "message_delta", |_| ());
            self.event(&message, "message_stop", |_| ());
        }
    }

    fn assistant(&self, message: &str, block: &Value) -> Value {
        let mut line = find(WORK, |it| {
            it["type"] == "assistant" && it["message"]["content"][0]["type"] == "text"
        });
        line["message"]["id"] = json!(message);
        line["message"]["model"] = json!(self.model);
        line["message"]["content"] = json!([block]);
        line
    }

    fn event(&self, message: &str, kind: &str, change: impl FnOnce(&mut Value)) {
        let mut line = find(WORK, |it| it["event"]["type"] == kind);
        line["api_message_id"] = json!(message);
        line["event"]["index"] = json!(0);
        change(&mut line["event"]);
        self.put(line);
    }

    fn finish(&mut self, mut line: Value) {
        self.end_tool("", false);
        line["total_cost_usd"] = json!(self.cost);
        line["num_turns"] = json!(self.turns);
        line["duration_ms"] = json!(self.began.elapsed().as_millis() as u64);
        line["result_index"] = json!(self.results);
        self.results += 1;
        self.put(line);
    }

    fn put(&self, mut line: Value) {
        if !self.json {
            return;
        }
        line["session_id"] = json!(self.session);
        line["uuid"] = json!(uuid());
        if line.get("timestamp").is_some() {
            line["timestamp"] = json!(Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true));
        }
        raw(line.to_string().as_bytes());
    }
}

/// A line, whatever it says.
pub(crate) fn raw(line: &[u8]) {
    write(&[line, b"\n"].concat());
}

/// Bytes, at once. Nobody may be listening, which is no concern of ours.
pub(crate) fn write(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// The first line of a capture that is such a line.
fn find(capture: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let lines = capture.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
    lines.into_iter().find(is_it).expect("the capture has such a line")
}

/// A text as the deltas of a partial message.
fn pieces(text: &str, kind: &str, field: &str) -> Vec<Value> {
    let characters: Vec<char> = text.chars().collect();
    let piece = |it: &[char]| json!({ "type": kind, field: it.iter().collect::<String>() });
    characters.chunks(PIECE).map(piece).collect()
}

fn id(prefix: &str) -> String {
    format!("{prefix}{:016x}", getrandom::u64().unwrap_or_default())
}

fn uuid() -> String {
    let random = getrandom::u64().unwrap_or_default();
    format!("{:08x}-0000-4000-8000-{:012x}", random >> 48, random & 0xffff_ffff_ffff)
}
