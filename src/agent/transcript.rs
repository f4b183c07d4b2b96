//! What Claude Code writes down of a session while it shows it in a terminal: every block that was said,
//! and at the end what it has cost.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::account::Account;
use super::lines::Lines;
use super::wire::{Message, ModelUsage, sum};
use crate::dag::{Bill, Tokens};
use crate::event::{AgentEvent, Finished, Speaker};
use crate::lenient::{Number, Object, Text, Truth, read_json};
use crate::money;

/// What a session has used.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Used {
    pub(super) duration: Duration,
    pub(super) cost_usd: f64,
    pub(super) tokens: Tokens,
    pub(super) turns: u32,
    /// How the last refusal of the API was written down.
    pub(super) refusal: Refusal,
}

/// What a transcript says of a refusal beside its kind and status.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Refusal {
    /// Its type in the words of the API, which something else that answers in its place does not have.
    pub(super) api_error: Option<String>,
    /// Whether this version of the program tells the types of errors. Those do that tell who made a line.
    pub(super) tells_types: bool,
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
    #[serde(borrow)]
    api_error_type: Text<'a>,
    #[serde(borrow)]
    made_by: Text<'a>,
    #[serde(rename = "totalCostUSD")]
    total_cost_usd: Number,
    total_duration: Number,
    model_usage: Object<BTreeMap<String, Object<ModelUsage>>>,
}

/// Reads a transcript: what the agent itself said goes to `emit`. One that can't be read is empty.
pub(super) fn read(path: &Path, emit: &mut dyn FnMut(&AgentEvent<'_>)) -> Used {
    let mut reading = Reading::default();
    // Subagents have transcripts of their own. An account at the end of this one has them in it.
    for file in transcripts_in(&path.with_extension("").join("subagents")) {
        each_line(&file, &mut |line| reading.line(line, &mut |_| ()));
    }
    reading.used = Used::default();
    each_line(path, &mut |line| reading.line(line, emit));
    let bill = reading.account.bill();
    Used { tokens: bill.tokens, cost_usd: bill.cost_usd, ..reading.used }
}

/// What a session has used by its transcript in this directory of Claude Code; none if it has none.
pub fn bill_of_session(claude: &Path, session: &str) -> Option<Bill> {
    let projects = fs::read_dir(claude.join("projects")).ok()?;
    let mut files = projects.flatten().map(|it| it.path().join(format!("{session}.jsonl")));
    let used = read(&files.find(|file| file.is_file())?, &mut |_| ());
    Some(Bill { cost_usd: used.cost_usd, tokens: used.tokens, billing: None })
}

/// A name for a session that no other has.
pub fn new_session_name() -> String {
    let [high, low] = [(); 2].map(|()| getrandom::u64().unwrap_or_default());
    let (high, low) = (high & !0xf000 | 0x4000, low & !(0b11 << 62) | 0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

fn transcripts_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter(|file| file.extension().is_some_and(|it| it == "jsonl")).collect()
}

fn each_line(path: &Path, take: &mut dyn FnMut(&[u8])) {
    // Who tells us the path may tell any: a pipe would be waited for, and a device might never end.
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return;
    }
    let Ok(mut file) = File::open(path) else { return };
    let mut lines = Lines::default();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        lines.push(&buffer[..count], take);
    }
    lines.finish(take);
}

#[derive(Debug, Default)]
struct Reading {
    used: Used,
    account: Account,
    last_message: String,
}

impl Reading {
    fn line(&mut self, line: &[u8], emit: &mut dyn FnMut(&AgentEvent<'_>)) {
        read_json(line, |line| {
            let line: Line<'_> = serde_json::from_str(line).ok()?;
            match line.kind.as_str() {
                "assistant" => {
                    self.count(&line);
                    if !line.is_sidechain.0 {
                        self.assistant(line, emit);
                    }
                }
                "cost-state" => self.account(&line),
                _ => {}
            }
            Some(())
        });
    }

    /// Each line of a message says what the whole message has used.
    fn count(&mut self, line: &Line<'_>) {
        let Some(message) = &line.message.0 else { return };
        if let Some(usage) = &message.usage.0 {
            self.account.hear(&usage.of(message.id.as_str(), message.model.as_str(), true));
        }
    }

    fn assistant(&mut self, line: Line<'_>, emit: &mut dyn FnMut(&AgentEvent<'_>)) {
        if let Some(kind) = line.error.0 {
            let status = line.api_error_status.count();
            let status = u16::try_from(status).ok().filter(|status| *status > 0);
            self.used.refusal = Refusal {
                api_error: line.api_error_type.0.map(Cow::into_owned),
                tells_types: line.made_by.0.is_some(),
            };
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
    fn account(&mut self, line: &Line<'_>) {
        let cost = line.total_cost_usd.0.filter(|cost| cost.is_finite() && *cost > 0.0);
        self.used.duration = Duration::from_millis(line.total_duration.count());
        self.account.settle(&Finished {
            cost_usd: cost.map_or(0.0, money::rounded),
            tokens: sum(&line.model_usage).unwrap_or_default(),
            ..Finished::default()
        });
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
            tokens: Tokens { input: 200, output: 40, ..Tokens::default() },
            turns: 2,
            refusal: Refusal::default(),
        };
        assert_eq!(used, expected);
    }

    #[test]
    fn without_an_account_it_has_cost_what_its_messages_and_those_of_its_subagents_cost() {
        let directory = tempfile::TempDir::new().unwrap();
        let project = directory.path().join("projects/-home-me");
        let subagents = project.join("abc/subagents");
        fs::create_dir_all(&subagents).unwrap();
        let message = |id: &str, sidechain: bool, output: u64| {
            format!(
                r#"{{"type":"assistant","isSidechain":{sidechain},"message":{{"id":"{id}","model":"claude-opus-4-8","usage":{{"input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":{output}}}}}}}"#
            ) + "\n"
        };
        let main = message("a", false, 20) + &message("a", false, 20) + &message("b", false, 10);
        fs::write(project.join("abc.jsonl"), &main).unwrap();
        fs::write(subagents.join("agent-1.jsonl"), message("c", true, 40)).unwrap();
        fs::write(subagents.join("agent-1.meta.json"), "{}").unwrap();
        let bill = bill_of_session(directory.path(), "abc").unwrap();
        let tokens = Tokens { input: 300, cache_read: 3000, cache_write: 0, output: 70 };
        assert_eq!((bill.cost_usd, bill.tokens), (0.00475, tokens));
        let stated =
            r#"{"type":"cost-state","totalCostUSD":0.5,"modelUsage":{"m":{"inputTokens":7}}}"#;
        fs::write(project.join("abc.jsonl"), format!("{main}{stated}\n")).unwrap();
        let bill = bill_of_session(directory.path(), "abc").unwrap();
        assert_eq!((bill.cost_usd, bill.tokens.input, bill.tokens.output), (0.5, 7, 0));
        assert_eq!(bill_of_session(directory.path(), "xyz"), None);
        assert_eq!(bill_of_session(&project, "abc"), None);
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
