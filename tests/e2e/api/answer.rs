//! What the API says to a request: a message, piece by piece, or one of the ways to refuse it.

use serde_json::{Value, json};

use super::request::PART;

/// How many characters come at a time.
const PIECE: usize = 24;

/// An answer, as data.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(super) fate: Fate,
    pub(super) headers: Vec<(&'static str, String)>,
    blocks: Vec<Value>,
    input_tokens: u64,
    output_tokens: u64,
    cache_read: u64,
    cache_write: u64,
    stop_reason: Option<&'static str>,
}

/// What becomes of an answer on its way.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    Arrives,
    Refused { status: u16, message: &'static str },
    Replaced { status: u16 },
    NeverComes,
    BreaksOff { after: usize },
    StopsDead { after: usize },
}

/// Says something.
pub(crate) fn say(text: impl Into<String>) -> Answer {
    Answer::with(Fate::Arrives).say(text)
}

/// Thinks something.
pub(crate) fn think(text: &str) -> Answer {
    Answer::with(Fate::Arrives).think(text)
}

/// Runs a command with the Bash tool.
pub(crate) fn bash(command: impl Into<String>) -> Answer {
    Answer::with(Fate::Arrives).bash(command)
}

/// Uses a tool.
pub(crate) fn tool(name: &str, input: impl Into<Value>) -> Answer {
    Answer::with(Fate::Arrives).tool(name, input)
}

/// Starts a subagent for a part of a task.
pub(crate) fn agent(task: &str) -> Answer {
    let prompt = format!("{PART}{task}`.");
    let kind = "general-purpose";
    tool("Agent", json!({ "description": "a part", "prompt": prompt, "subagent_type": kind }))
}

/// Refuses with a status.
pub(crate) fn refuse(status: u16, message: &'static str) -> Answer {
    Answer::with(Fate::Refused { status, message })
}

/// Something between here and the API answers in its place, with a page for people.
pub(crate) fn page(status: u16) -> Answer {
    Answer::with(Fate::Replaced { status })
}

/// Says nothing at all.
pub(crate) fn nothing() -> Answer {
    Answer::with(Fate::Arrives)
}

/// Keeps the client waiting for as long as it likes.
pub(crate) fn hang() -> Answer {
    Answer::with(Fate::NeverComes)
}

impl Answer {
    fn with(fate: Fate) -> Answer {
        Answer {
            fate,
            headers: Vec::new(),
            blocks: Vec::new(),
            input_tokens: 100,
            output_tokens: 20,
            cache_read: 0,
            cache_write: 0,
            stop_reason: None,
        }
    }

    pub(crate) fn say(mut self, text: impl Into<String>) -> Answer {
        self.blocks.push(json!({ "type": "text", "text": text.into() }));
        self
    }

    pub(crate) fn think(mut self, text: &str) -> Answer {
        let block = json!({ "type": "thinking", "thinking": text, "signature": "ZmFrZQ==" });
        self.blocks.push(block);
        self
    }

    pub(crate) fn bash(self, command: impl Into<String>) -> Answer {
        let input = json!({ "command": command.into(), "description": "as the scenario says" });
        self.tool("Bash", input)
    }

    pub(crate) fn tool(mut self, name: &str, input: impl Into<Value>) -> Answer {
        let input: Value = input.into();
        self.blocks.push(json!({ "type": "tool_use", "name": name, "input": input }));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// The model stops for another reason than that it has said everything.
    pub(crate) fn stopping(self, reason: &'static str) -> Answer {
        Answer { stop_reason: Some(reason), ..self }
    }

    /// So many tokens are to be paid for it.
    pub(crate) fn costing(self, output_tokens: u64) -> Answer {
        Answer { output_tokens, ..self }
    }

    /// So many tokens came from the cache, and so many were written into it.
    pub(crate) fn cached(self, read: u64, write: u64) -> Answer {
        Answer { cache_read: read, cache_write: write, ..self }
    }

    /// So many tokens are said to have been read for it.
    pub(crate) fn reading(self, input_tokens: u64) -> Answer {
        Answer { input_tokens, ..self }
    }

    /// The line breaks after so many events.
    pub(crate) fn breaks_off(self, after: usize) -> Answer {
        Answer { fate: Fate::BreaksOff { after }, ..self }
    }

    /// Nothing more comes after so many events.
    pub(crate) fn stops_dead(self, after: usize) -> Answer {
        Answer { fate: Fate::StopsDead { after }, ..self }
    }

    /// The whole message, which no other has the number of.
    pub(super) fn message(&self, number: usize, model: &str) -> Value {
        let mut blocks = self.blocks.clone();
        let calls = blocks.iter_mut().filter(|block| block["type"] == "tool_use").enumerate();
        let mut uses_tool = false;
        for (index, call) in calls {
            call["id"] = format!("toolu_{number:012}{index:012}").into();
            uses_tool = true;
        }
        json!({
            "id": format!("msg_{number:024}"), "type": "message", "role": "assistant",
            "model": model, "content": blocks, "stop_sequence": null,
            "stop_reason": self.stop_reason.unwrap_or(if uses_tool { "tool_use" } else { "end_turn" }),
            "usage": {
                "input_tokens": self.input_tokens, "output_tokens": self.output_tokens,
                "cache_creation_input_tokens": self.cache_write,
                "cache_read_input_tokens": self.cache_read,
            },
        })
    }
}

/// A message as the events that it is streamed in.
pub(super) fn events(message: &Value) -> Vec<(&'static str, Value)> {
    let mut beginning = message.clone();
    beginning["content"] = json!([]);
    beginning["stop_reason"] = Value::Null;
    // How much it will be is only known at its end.
    beginning["usage"]["output_tokens"] = 1.into();
    let mut events =
        vec![("message_start", json!({ "type": "message_start", "message": beginning }))];
    for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
        let (start, deltas) = pieces(block);
        events.push((
            "content_block_start",
            json!({ "type": "content_block_start", "index": index, "content_block": start }),
        ));
        events.extend(deltas.into_iter().map(|delta| {
            let name = "content_block_delta";
            (name, json!({ "type": name, "index": index, "delta": delta }))
        }));
        events
            .push(("content_block_stop", json!({ "type": "content_block_stop", "index": index })));
    }
    let end = json!({ "stop_reason": message["stop_reason"], "stop_sequence": null });
    events.push((
        "message_delta",
        json!({ "type": "message_delta", "delta": end, "usage": message["usage"] }),
    ));
    events.push(("message_stop", json!({ "type": "message_stop" })));
    events
}

/// A block without what is in it, and that in pieces.
fn pieces(block: &Value) -> (Value, Vec<Value>) {
    let (field, kind, key) = match block["type"].as_str() {
        Some("tool_use") => ("input", "input_json_delta", "partial_json"),
        Some("thinking") => ("thinking", "thinking_delta", "thinking"),
        _ => ("text", "text_delta", "text"),
    };
    let whole = match &block[field] {
        Value::String(text) => text.clone(),
        input => input.to_string(),
    };
    let characters: Vec<char> = whole.chars().collect();
    let delta = |piece: &[char]| json!({ "type": kind, key: piece.iter().collect::<String>() });
    let mut deltas: Vec<Value> = characters.chunks(PIECE).map(delta).collect();
    let mut start = block.clone();
    start[field] = if block[field].is_string() { json!("") } else { json!({}) };
    if let Some(signature) = block.get("signature") {
        start["signature"] = json!("");
        deltas.push(json!({ "type": "signature_delta", "signature": signature }));
    }
    (start, deltas)
}
