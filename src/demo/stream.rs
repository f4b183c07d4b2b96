//! What the agent of the demo prints: the lines of a session as Claude Code prints them, or plain text.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What the agent calls itself.
const MODEL: &str = "script";
/// So many letters appear at once.
const PIECE: usize = 6;
/// And after this time the next ones.
const RHYTHM: Duration = Duration::from_millis(12);

/// The standard output of one session.
pub(super) struct Stream {
    json: bool,
    began: Instant,
    /// How many messages there were.
    turns: u32,
    last_text: String,
}

impl Stream {
    /// Begins a session; `json` is for programs, otherwise it is for people.
    pub(super) fn begin(json: bool, directory: &Path) -> io::Result<Stream> {
        let stream = Stream { json, began: Instant::now(), turns: 0, last_text: String::new() };
        stream.line(&json!({
            "type": "system", "subtype": "init", "model": MODEL, "cwd": directory,
            "tools": ["Bash", "Write"],
        }))?;
        Ok(stream)
    }

    /// Says something, as fast as one reads.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        let message = self.next_message();
        text.clone_into(&mut self.last_text);
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(PIECE) {
            let piece: String = piece.iter().collect();
            std::thread::sleep(RHYTHM);
            self.plain(&piece)?;
            self.line(&json!({
                "type": "stream_event", "api_message_id": message,
                "event": {
                    "type": "content_block_delta", "index": 0,
                    "delta": { "type": "text_delta", "text": piece },
                },
            }))?;
        }
        self.plain("\n")?;
        self.message(&message, &json!({ "type": "text", "text": text }))
    }

    /// Calls a tool; returns the number of the call.
    pub(super) fn call(&mut self, tool: &str, input: &Value) -> io::Result<String> {
        let message = self.next_message();
        let call = format!("call-{}", self.turns);
        self.plain(&format!("{tool} {input}\n"))?;
        let block = json!({ "type": "tool_use", "id": call, "name": tool, "input": input });
        self.message(&message, &block)?;
        Ok(call)
    }

    /// What came of a call.
    pub(super) fn answer(&self, call: &str, output: &str, failed: bool) -> io::Result<()> {
        self.plain(output)?;
        self.line(&json!({
            "type": "user",
            "message": { "role": "user", "content": [{
                "type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed,
            }]},
        }))
    }

    /// Ends the session: it cost nothing.
    pub(super) fn end(&self) -> io::Result<()> {
        self.line(&json!({
            "type": "result", "subtype": "success", "is_error": false, "result": self.last_text,
            "duration_ms": self.began.elapsed().as_millis() as u64, "num_turns": self.turns,
            "total_cost_usd": 0.0, "usage": { "input_tokens": 0, "output_tokens": 0 },
        }))
    }

    fn next_message(&mut self) -> String {
        self.turns += 1;
        format!("message-{}", self.turns)
    }

    fn message(&self, message: &str, block: &Value) -> io::Result<()> {
        self.line(&json!({
            "type": "assistant",
            "message": { "id": message, "role": "assistant", "model": MODEL, "content": [block] },
        }))
    }

    fn line(&self, line: &Value) -> io::Result<()> {
        if self.json { put(&format!("{line}\n")) } else { Ok(()) }
    }

    fn plain(&self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { put(text) }
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
