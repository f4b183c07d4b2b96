//! What Claude Code writes down of a session while it shows it in a terminal: every block that was said,
//! and at the end what it has cost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::lines::Lines;
use super::wire::Message;
use crate::event::{AgentEvent, Speaker};
use crate::lenient::{Number, Object, Text, Truth, read_json};
use crate::money;

/// What a session has used.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Used {
    pub(super) duration: Duration,
    pub(super) cost_usd: f64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) turns: u32,
}

/// Every field of every line that we use.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    is_sidechain: Truth,
    #[serde(borrow)]
    message: Object<Message<'a>>,
    #[serde(borrow)]
    error: Text<'a>,
    #[serde(borrow)]
    api_error: Text<'a>,
    api_error_status: Number,
    #[serde(rename = "totalCostUSD")]
    total_cost_usd: Number,
    total_duration: Number,
    model_usage: Object<BTreeMap<String, Object<Usage>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Usage {
    input_tokens: Number,
    output_tokens: Number,
    cache_read_input_tokens: Number,
    cache_creation_input_tokens: Number,
}

/// Reads a transcript: what the agent itself said goes to `emit`. One that can't be read is empty.
pub(super) fn read(path: &Path, emit: &mut dyn FnMut(&AgentEvent<'_>)) -> Used {
    let mut reading = Reading::default();
    // Who tells us the path may tell any: a pipe would be waited for, and a device might never end.
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return reading.used;
    }
    let Ok(mut file) = File::open(path) else { return reading.used };
    let mut lines = Lines::default();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        lines.push(&buffer[..count], &mut |line| reading.line(line, emit));
    }
    lines.finish(&mut |line| reading.line(line, emit));
    reading.used
}

#[derive(Debug, Default)]
struct Reading {
    used: Used,
    last_message: String,
}

impl Reading {
    fn line(&mut self, line: &[u8], emit: &mut dyn FnMut(&AgentEvent<'_>)) {
        read_json(line, |line| {
            let line: Line<'_> = serde_json::from_str(line).ok()?;
            match line.kind.as_str() {
                "assistant" if !line.is_sidechain.0 => self.assistant(line, emit),
                "cost-state" => self.account(line),
                _ => {}
            }
            Some(())
        });
    }

    fn assistant(&mut self, line: Line<'_>, emit: &mut dyn FnMut(&AgentEvent<'_>)) {
        if let Some(kind) = line.error.0 {
            let status = line.api_error_status.count();
            let status = u16::try_from(status).ok().filter(|status| *status > 0);
            emit(&AgentEvent::Refused { kind, detail: line.api_error.or_empty(), status });
        }
        let message = line.message.0.unwrap_or_default();
        // Each block of a message stands on a line of its own.
        if self.last_message != message.id.as_str() {
            self.last_message = message.id.as_str().to_owned();
            self.used.turns += 1;
        }
        let model = message.model.or_empty();
        for block in message.content.0.into_iter().filter_map(|block| block.0) {
            if block.kind.as_str() == "text" {
                let (from, model) = (Speaker::Agent, Cow::Borrowed(&*model));
                emit(&AgentEvent::Text { from, text: block.text.or_empty(), seen: 0, model });
            }
        }
    }

    /// The last account counts: it is written again and again.
    fn account(&mut self, line: Line<'_>) {
        let used = &mut self.used;
        let cost = line.total_cost_usd.0.filter(|cost| cost.is_finite() && *cost > 0.0);
        used.cost_usd = cost.map_or(0.0, money::rounded);
        used.duration = Duration::from_millis(line.total_duration.count());
        (used.input_tokens, used.output_tokens) = (0, 0);
        let models = line.model_usage.0.unwrap_or_default();
        for usage in models.into_values().filter_map(|usage| usage.0) {
            let read = [
                usage.input_tokens,
                usage.cache_read_input_tokens,
                usage.cache_creation_input_tokens,
            ];
            for tokens in read {
                used.input_tokens = used.input_tokens.saturating_add(tokens.count());
            }
            used.output_tokens = used.output_tokens.saturating_add(usage.output_tokens.count());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(text: &str) -> (Vec<String>, Used) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut seen = Vec::new();
        let used = read(file.path(), &mut |event| {
            seen.push(match event {
                AgentEvent::Text { text, .. } => text.to_string(),
                AgentEvent::Refused { kind, status, .. } => format!("{kind} {status:?}"),
                other => panic!("{other:?}"),
            });
        });
        (seen, used)
    }

    #[test]
    fn what_the_agent_said_is_told_and_nothing_else() {
        let (said, used) =
            transcript(include_str!("../../tests/fixtures/terminal/transcript.jsonl"));
        assert_eq!(said, ["<task-done>t-abc</task-done>", "Nothing left to commit. Bye."]);
        let expected = Used {
            duration: Duration::from_millis(6295),
            cost_usd: 0.0016,
            input_tokens: 200,
            output_tokens: 40,
            turns: 2,
        };
        assert_eq!(used, expected);
    }

    #[test]
    fn a_refusal_comes_with_its_status() {
        let (said, _) = transcript(
            r#"{"type":"assistant","isSidechain":false,"error":"rate_limit","apiErrorStatus":429,
                "message":{"id":"m","content":[{"type":"text","text":"API Error"}]}}"#
                .replace('\n', " ")
                .as_str(),
        );
        assert_eq!(said, ["rate_limit Some(429)", "API Error"]);
    }

    #[test]
    fn nonsense_and_subagents_are_passed_over() {
        let (said, used) = transcript(
            "\0\n{}\n[]\n{\"type\":\"assistant\",\"message\":7}\n\
             {\"type\":\"assistant\",\"isSidechain\":true,\"message\":{\"content\":\"<task-done>\"}}\n\
             {\"type\":\"cost-state\",\"totalCostUSD\":\"a lot\",\"modelUsage\":[1]}\n{\"type\":\"assis",
        );
        assert_eq!(said, [""; 0]);
        assert_eq!(used.cost_usd, 0.0);
        assert_eq!(read(Path::new("/nowhere"), &mut |_| unreachable!()), Used::default());
    }

    #[test]
    fn what_can_not_be_read_costs_no_more_than_itself() {
        let (said, used) = transcript(
            "{\"type\":\"assistant\",\"error\":1e999,\"message\":{\"content\":\"\\ud83d so\"}}\n\
             {\"type\":\"cost-state\",\"totalCostUSD\":0.5,\"totalDuration\":-1e999}\n",
        );
        assert_eq!(said, ["\u{fffd} so"]);
        assert_eq!(used.cost_usd, 0.5);
        let (_, used) = transcript("{\"type\":\"cost-state\",\"totalCostUSD\":-1}");
        assert_eq!(used.cost_usd, 0.0);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let directory = tempfile::TempDir::new().unwrap();
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&*pipe, Path::new("/dev/zero"), directory.path()] {
            assert_eq!(read(path, &mut |_| unreachable!()), Used::default());
        }
    }
}
