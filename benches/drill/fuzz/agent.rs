//! What an agent prints, what its hooks tell, and what is typed for it.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph::agent::{Facts, Lines, Observer, Parser, drill};
use ralph::event::AgentEvent;
use ralph::ui::Terminal;
use ralph::ui::session::SessionView;
use serde::de::IgnoredAny;
use tempfile::TempDir;

use super::mutate::Corpus;
use super::{Reader, Target, cut, memory, promise};
use crate::random::Random;

pub(super) const STREAM: Target = Target {
    name: "stream",
    promise: "events do not depend on how the bytes are cut, a JSON object is a line of the stream \
              whatever its fields hold, and nothing that is shown acts on a terminal",
    inputs: 2_000_000,
    readings: 1,
    corpus: || Corpus::new(lines_of("stream"), WORDS).together(3),
    reader: || Box::new(stream),
};

pub(super) const HOOKS: Target = Target {
    name: "hooks and transcripts",
    promise: "what a session has cost is a number",
    inputs: 600_000,
    readings: 1,
    corpus: || Corpus::new(hook_events(), WORDS).together(4),
    reader: hooks,
};

pub(super) const KEYS: Target = Target {
    name: "keys",
    promise: "every byte is forwarded once and in order but for the keys that are ours, however they \
              are cut and whenever they come",
    inputs: 2_000_000,
    readings: 1,
    corpus: || {
        Corpus::new(KEY_SEQUENCES.iter().map(|it| it.to_vec()).collect(), KEY_SEQUENCES).together(8)
    },
    reader: || Box::new(typed),
};

const WORDS: &[&str] = &[
    "\"type\":",
    "\"subtype\":",
    "assistant",
    "result",
    "stream_event",
    "system",
    "rate_limit_event",
    "\"content\":",
    "\"message\":",
    "\"text\":",
    "text_delta",
    "tool_use",
    "tool_result",
    "\\ud83d",
    "\\udc00",
    "\\u0000",
    "\u{202e}",
    "🎉",
    "\u{1b}[31m",
    "\r\n",
    "\n\n",
    "{}",
    "<task-done>",
    "cost-state",
    "\"transcript_path\":",
    "Stop",
    "PreToolUse",
    "usage limit reached|",
];

/// Every line of the captured sessions.
pub(super) fn lines_of(kind: &str) -> Vec<Vec<u8>> {
    let directory = fixtures().join(kind);
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read(file).unwrap());
    let lines = texts.flat_map(|text| {
        text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    let mut seen = HashSet::new();
    lines.filter(|line| seen.insert(line.clone())).collect()
}

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn stream(bytes: &[u8], random: &mut Random) -> Result<(), String> {
    let whole = Heard::of(&[bytes], true);
    let pieces = Heard::of(&cut(bytes, random), false);
    promise(whole.hash == pieces.hash && whole.facts == pieces.facts, || {
        format!("cut, it means something else:\n{:?}\n{:?}", whole.facts, pieces.facts)
    })?;
    promise(whole.facts.bill.cost_usd.is_finite(), || {
        format!("it costs {}", whole.facts.bill.cost_usd)
    })?;
    promise(!whole.shown.contains(|c: char| c.is_control() && c != '\n'), || {
        format!("it shows {:?}", whole.shown)
    })?;
    promise(whole.lost.is_empty(), || format!("lost: {}", whole.lost[0]))
}

/// What comes of the output of a session.
struct Heard {
    facts: Facts,
    hash: u64,
    shown: String,
    /// Lines that are JSON objects and were not understood.
    lost: Vec<String>,
}

impl Heard {
    fn of(pieces: &[&[u8]], closely: bool) -> Heard {
        let (mut parser, mut observer) = (Parser::new(), Observer::new());
        let (mut hasher, mut lost) = (DefaultHasher::new(), Vec::new());
        let mut view = SessionView::new(Terminal::PLAIN, Path::new("/project"));
        let mut shown = Vec::new();
        let mut read = |line: &[u8]| {
            let known = parser.parse(line, &mut |event| {
                hash(&event, &mut hasher);
                observer.observe(&event);
                if closely {
                    view.show(&mut shown, &event).unwrap();
                }
            });
            known.hash(&mut hasher);
            if closely && !known && is_object(line) {
                lost.push(String::from_utf8_lossy(line).chars().take(500).collect());
            }
        };
        let mut lines = Lines::default();
        for piece in pieces {
            lines.push(piece, &mut read);
        }
        lines.finish(&mut read);
        let shown = String::from_utf8(shown).unwrap();
        Heard { facts: observer.into_facts(None), hash: hasher.finish(), shown, lost }
    }
}

/// All that an event says.
fn hash(event: &AgentEvent<'_>, hasher: &mut DefaultHasher) {
    std::mem::discriminant(event).hash(hasher);
    match event {
        AgentEvent::Text { text, seen, model, .. } => (text, seen, model).hash(hasher),
        AgentEvent::Thinking { text, seen, .. } => (text, seen).hash(hasher),
        AgentEvent::TextDelta { text, .. }
        | AgentEvent::ThinkingDelta { text, .. }
        | AgentEvent::Notice { text } => text.hash(hasher),
        AgentEvent::ToolCall { id, name, input, .. } => (id, name, input).hash(hasher),
        AgentEvent::ToolResult { id, error, .. } => (id, error).hash(hasher),
        other => format!("{other:?}").hash(hasher),
    }
}

/// Whether a line is a JSON object that names nothing twice.
fn is_object(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.trim_ascii().starts_with('{')
        && serde_json::from_str::<IgnoredAny>(&text).is_ok()
        && !names_twice(text.as_bytes())
}

/// Whether some object in this JSON has two fields of one name, or nests our own deeper than makes sense.
fn names_twice(json: &[u8]) -> bool {
    let mut open: Vec<HashSet<&[u8]>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => open.push(HashSet::new()),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let start = at;
                while json[at] != b'"' {
                    at += 1 + usize::from(json[at] == b'\\');
                }
                let name = &json[start..at];
                at += 1;
                let rest = json[at..].trim_ascii_start();
                let twice = rest.starts_with(b":") && !open.last_mut().unwrap().insert(name);
                // Escapes make one name of two spellings.
                if twice || (rest.starts_with(b":") && name.contains(&b'\\')) {
                    return true;
                }
                if name == b"content" && open.len() > 100 {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Calls of hooks as Claude Code makes them, and lines of a transcript.
fn hook_events() -> Vec<Vec<u8>> {
    let events = [
        r#"{"hook_event_name":"SessionStart","session_id":"s","transcript_path":"TRANSCRIPT","source":"startup","model":"opus"}"#,
        r#"{"hook_event_name":"UserPromptSubmit","session_id":"s","transcript_path":"TRANSCRIPT","prompt":"go"}"#,
        r#"{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"ls"}}"#,
        r#"{"hook_event_name":"PermissionRequest","tool_name":"Bash","tool_input":{"command":"rm"}}"#,
        r#"{"hook_event_name":"PostToolUse","tool_use_id":"t1","tool_response":{"stdout":""}}"#,
        r#"{"hook_event_name":"PostToolUseFailure","tool_use_id":"t1","error":"Exit code 1"}"#,
        r#"{"hook_event_name":"Notification","message":"Claude is waiting for your input"}"#,
        r#"{"hook_event_name":"Stop","last_assistant_message":"<task-done>t-1</task-done>","background_tasks":[]}"#,
        r#"{"hook_event_name":"StopFailure","error":"rate_limit","last_assistant_message":"429"}"#,
    ];
    let transcript = fs::read(fixtures().join("terminal/transcript.jsonl")).unwrap();
    let lines = transcript.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec);
    events.iter().map(|event| format!("{event}\n").into_bytes()).chain(lines).collect()
}

/// Each line is the call of a hook and a line of the transcript, whichever it looks like.
fn hooks() -> Reader {
    let place = TempDir::new_in(memory()).unwrap();
    let transcript = place.path().join("transcript.jsonl");
    let name = transcript.to_str().unwrap().to_owned();
    Box::new(move |bytes, _| {
        let text = String::from_utf8_lossy(bytes).replace("TRANSCRIPT", &name);
        fs::write(place.path().join("transcript.jsonl"), bytes).unwrap();
        let mut shown = Vec::new();
        let mut view = SessionView::new(Terminal::PLAIN, place.path());
        let events = text.lines().map(str::as_bytes);
        let facts = drill::told_by(events, &mut |event| view.show(&mut shown, event).unwrap());
        promise(facts.bill.cost_usd.is_finite() && facts.bill.cost_usd >= 0.0, || {
            format!("it costs {}", facts.bill.cost_usd)
        })?;
        let shown = String::from_utf8(shown).unwrap();
        promise(!shown.contains(|c: char| c.is_control() && c != '\n'), || {
            format!("it shows {shown:?}")
        })
    })
}

const KEY_SEQUENCES: &[&[u8]] = &[
    b"\x03",
    b"\x1c",
    b"\x1b",
    b"\x1b[99;5u",
    b"\x1b[99;5:1u",
    b"\x1b[99:67;5u",
    b"\x1b[1089::99;5u",
    b"\x1b[99;197:1;99u",
    b"\x1b[27;5;99~",
    b"\x1b[27;133;99~",
    b"\x1b[92;5u",
    b"\x1b[27;5;92~",
    b"\x1b[99;6u",
    b"\x1b[99;5:3u",
    b"\x1b[A",
    b"\x1b[<35;99;5M",
    b"\x1b[?62;99;5c",
    b"\x1b[I",
    b"\x1b[24;80R",
    b"\x1b]11;rgb:0000/0000/0000\x07",
    b"\x1b[200~",
    b"\x1b[201~",
    b"\x1b[200~ pasted \x03\x1c\x1b[201~",
    b"hello",
    b"\xc3\xa9",
    b"\xf0\x9f\x8e\x89",
    b"\r",
    b"\x7f",
    b"\x1bOP",
    b"\x1b\x1b",
    b"\x1b[",
    b"[",
    b"99;5u",
    b"\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1u",
];

fn typed(bytes: &[u8], random: &mut Random) -> Result<(), String> {
    let at_once = type_in(&[(Duration::ZERO, bytes)]);
    let pieces = cut(bytes, random);
    let quick: Vec<(Duration, &[u8])> =
        pieces.iter().map(|&piece| (Duration::ZERO, piece)).collect();
    let cut_up = type_in(&quick);
    promise(at_once.joined() == cut_up.joined(), || {
        format!("cut, it means something else:\n{at_once:?}\n{cut_up:?}")
    })?;
    let slow: Vec<(Duration, &[u8])> = pieces
        .iter()
        .map(|&piece| {
            (Duration::from_millis([0, 5, 25, 400, 1100][random.below(5) as usize]), piece)
        })
        .collect();
    for typed in [at_once, type_in(&slow)] {
        typed.accounts_for(bytes)?;
    }
    Ok(())
}

/// What comes of keys, in order: bytes for the agent, and keys of ours.
#[derive(Debug, PartialEq, Eq)]
struct Typed(Vec<Option<Vec<u8>>>);

fn type_in(pieces: &[(Duration, &[u8])]) -> Typed {
    let mut typed = Vec::new();
    drill::typed(pieces.iter().copied(), &mut |key| typed.push(key.map(<[u8]>::to_vec)));
    Typed(typed)
}

impl Typed {
    /// The same whether bytes came in one piece or in several.
    fn joined(&self) -> Vec<Option<Vec<u8>>> {
        let mut joined: Vec<Option<Vec<u8>>> = Vec::new();
        for piece in &self.0 {
            match (joined.last_mut(), piece) {
                (Some(Some(before)), Some(bytes)) => before.extend_from_slice(bytes),
                _ => joined.push(piece.clone()),
            }
        }
        joined
    }

    /// Whether these are the bytes that were typed, each once and in order, but for keys of ours.
    fn accounts_for(&self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        for piece in &self.0 {
            rest = match piece {
                Some(bytes) => rest.strip_prefix(&bytes[..]),
                None => after_key_of_ours(rest),
            }
            .ok_or_else(|| format!("{piece:?} is not what comes before {}", rest.escape_ascii()))?;
        }
        promise(rest.is_empty(), || format!("it keeps {}", rest.escape_ascii()))
    }
}

/// What stands behind a key of ours, the beginning of which the agent may have already.
fn after_key_of_ours(bytes: &[u8]) -> Option<&[u8]> {
    if let [0x03 | 0x1c, rest @ ..] = bytes {
        return Some(rest);
    }
    let sequence = bytes.strip_prefix(b"\x1b").unwrap_or(bytes);
    let sequence = sequence.strip_prefix(b"[").unwrap_or(sequence);
    let end = sequence.iter().position(|byte| !matches!(byte, 0x20..=0x3f))?;
    matches!(sequence[end], b'u' | b'~').then(|| &sequence[end + 1..])
}
