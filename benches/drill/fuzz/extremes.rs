//! Inputs of extreme shapes: nested a million deep, a line of fifty megabytes, a million of everything.
//! Each is read by a process of its own, whose stack is the ordinary one.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ralph::agent::{Lines, Observer, Parser, drill};
use ralph::engine::ticked_off;
use ralph::jsonl;
use ralph::prompt::sigils::{Sigils, promised_at_the_end};
use ralph::prompt::{Prompt, Values};
use ralph::settings::{Environment, Settings};
use ralph::store::{NewTask, Store};
use ralph::time::Timestamp;
use ralph::ui::session::SessionView;
use ralph::ui::{Terminal, text};
use tempfile::TempDir;

use super::{LONGEST, cpu, memory, screen};
use crate::harness::Project;
use crate::report::Row;

/// The first argument that makes a drill read one of these.
pub(super) const EXTREME: &str = "__extreme";

const MILLION: usize = 1_000_000;
/// What a large input may take for each of its megabytes.
const PER_MEGABYTE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 40 });

struct Case {
    name: &'static str,
    input: fn() -> Vec<u8>,
    read: fn(&[u8]),
    /// Less than this is not expected of it, however small it is.
    least: Duration,
}

const CASES: &[Case] = &[
    case("stream: arrays a million deep", || line(r#""x":"#, &nested("[", "]")), read_stream),
    case("stream: objects a million deep", || message(&nested("{\"a\":", "}")), read_stream),
    case(
        "stream: content a million deep",
        || message(&nested("[{\"content\":", "}]")),
        read_stream,
    ),
    case("stream: the input of a tool a million deep", tool_call, read_stream),
    case("stream: a line of 50 MB", || text_of(50 << 20), read_stream),
    case("stream: a line of 15 MB", || text_of(15 << 20), read_stream),
    case("stream: a million empty objects", || b"{}\n".repeat(MILLION), read_stream).by_lines(),
    case("stream: a million numbers that nothing can hold", many_numbers, read_stream),
    case("hooks: a tool's input a million deep", hook, read_hook),
    case("sigils: a million", || b"<task-done>t-1</task-done>".repeat(MILLION), read_answer),
    case("sigils: a million that are never closed", || b"<task-done>".repeat(MILLION), read_answer),
    case("sigils: a million that are quoted", || b"`<promise>`".repeat(MILLION), read_answer),
    case("sigils: a million backticks", || b"` `` ".repeat(MILLION / 3), read_answer),
    case("sigils: a million fences", || b"```\n".repeat(MILLION), read_answer),
    case("keys: a million interrupts", || b"\x03".repeat(MILLION), read_keys),
    case(
        "keys: a million interrupts in another spelling",
        || b"\x1b[99;5u".repeat(MILLION),
        read_keys,
    ),
    case("keys: a million times Escape", || b"\x1b".repeat(MILLION), read_keys),
    case(
        "keys: a sequence of a million digits",
        || [&b"\x1b["[..], &b"9".repeat(MILLION)].concat(),
        read_keys,
    ),
    case("screen: 50 MB in one line", || b"x".repeat(50 << 20), read_screen),
    case(
        "screen: a title of 50 MB",
        || [&b"\x1b]0;"[..], &b"x".repeat(50 << 20)].concat(),
        read_screen,
    ),
    case("screen: a million lines", || b"all work and no play\r\n".repeat(MILLION), read_screen),
    case(
        "screen: a million jumps",
        || b"\x1b[H\x1b[65535;65535Hx".repeat(MILLION / 10),
        read_screen,
    ),
    case("prompts: a million open braces", || b"{{ ".repeat(MILLION), read_prompt),
    case("settings: arrays 200,000 deep", || settings("log_dir = ", "[", "1", "]"), read_config),
    case("settings: tables 200,000 deep", || settings("run = ", "{a=", "1", "}"), read_config),
    case("settings: a key of 200,000 parts", || settings("", "a.", "a = 1", ""), read_config),
    case("settings: a section of 200,000 parts", || settings("[", "a.", "a]", ""), read_config),
    case(
        "settings: a value of 50 MB",
        || format!("log_dir = \"{}\"", "x".repeat(50 << 20)).into_bytes(),
        read_config,
    ),
    case("import: a million deep", || nested_line("{\"type\":\"task\",\"title\":"), read_import),
    case(
        "import: a title of 50 MB",
        || long_line("{\"type\":\"export\",\"version\":"),
        read_import,
    ),
    case("add: a million deep", || nested_line("{\"title\":"), read_add),
    case("add: a title of 50 MB", || long_line("{\"title\":"), read_add),
    case("checklists: a million items", || b"- [x] a\n".repeat(MILLION), read_checklist),
    case("shown: a word of a million letters", || b"x".repeat(MILLION), read_shown),
    case(
        "shown: a million accents on one letter",
        || "\u{301}".repeat(MILLION).into_bytes(),
        read_shown,
    ),
    case(
        "shown: a million joined faces",
        || "👩\u{200d}".repeat(MILLION / 7).into_bytes(),
        read_shown,
    ),
    case("shown: a million flags", || "🇩🇪".repeat(MILLION / 8).into_bytes(), read_shown),
];

const fn case(name: &'static str, input: fn() -> Vec<u8>, read: fn(&[u8])) -> Case {
    Case { name, input, read, least: LONGEST }
}

pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in CASES {
        rows.push(case.row()?);
    }
    rows.extend(refusals());
    Ok(rows)
}

impl Case {
    /// The same, if it may take a microsecond for each of a million lines.
    const fn by_lines(self) -> Case {
        Case { least: Duration::from_secs(if cfg!(debug_assertions) { 30 } else { 1 }), ..self }
    }

    fn row(&self) -> Result<Row> {
        let output = Command::new(std::env::current_exe()?)
            .args([EXTREME, self.name])
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Ok(Row::limited(self.name, format!("{}", output.status), "it lives", false));
        }
        let told: Told = serde_json::from_slice(&output.stdout)?;
        let megabytes = told.size as f64 / f64::from(1 << 20);
        let limit = self.least.max(PER_MEGABYTE.mul_f64(megabytes));
        let most = 3 * told.size + (64 << 20);
        Ok(Row::limited(
            self.name,
            format!(
                "{megabytes:.1} MB: {:.0} ms, {:.0} MB of memory",
                told.time.as_secs_f64() * 1e3,
                told.memory as f64 / f64::from(1 << 20)
            ),
            format!("{:.0} ms, {} MB", limit.as_secs_f64() * 1e3, most >> 20),
            told.time <= limit && told.memory <= most,
        ))
    }
}

/// What a child tells.
#[derive(serde::Serialize, serde::Deserialize)]
struct Told {
    size: u64,
    time: Duration,
    memory: u64,
}

/// Reads the case of this name, and says how long that took and how much more memory than before.
pub(super) fn child(arguments: &[String]) -> Result<()> {
    let case = CASES.iter().find(|case| arguments == [case.name]).context("no such case")?;
    let input = (case.input)();
    // Forgets how much it was when the input was made.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = kilobytes("VmRSS")?;
    let time = (0..3)
        .map(|_| {
            let began = cpu();
            (case.read)(&input);
            cpu() - began
        })
        .min();
    let memory = kilobytes("VmHWM")?.saturating_sub(before) << 10;
    let told = Told { size: input.len() as u64, time: time.context("it was read")?, memory };
    Ok(serde_json::to_writer(std::io::stdout(), &told)?)
}

fn kilobytes(name: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name)).context("no such figure")?;
    let number = line.split_whitespace().nth(1).context("no number")?;
    Ok(number.parse()?)
}

/// The real program refuses what is nested without end, in words.
fn refusals() -> Vec<Row> {
    let project = Project::new();
    let deep = nested("[", "]");
    let import = format!("{{\"type\":{deep}}}\n");
    let add = format!("{{\"title\":{deep}}}\n");
    let config = format!("log_dir = {deep}\n");
    let began = Instant::now();
    project.refuses_reading(1, import, ["import"]);
    project.refuses_reading(1, add, ["task", "add", "--stdin"]);
    project.write(".ralph.toml", config);
    project.ralph(["config", "show"]).fails(1);
    let time = began.elapsed();
    vec![Row::limited(
        "the program refuses what is a million deep: import, add --stdin, .ralph.toml",
        format!("3 of 3 in {:.0} ms", time.as_secs_f64() * 1e3),
        "3",
        true,
    )]
}

fn nested(open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(MILLION), close.repeat(MILLION))
}

/// As deep as fits into a file that is read at all.
fn settings(beginning: &str, open: &str, middle: &str, close: &str) -> Vec<u8> {
    let (open, close) = (open.repeat(MILLION / 5), close.repeat(MILLION / 5));
    format!("{beginning}{open}{middle}{close}").into_bytes()
}

fn line(field: &str, value: &str) -> Vec<u8> {
    format!("{{\"type\":\"result\",\"subtype\":\"success\",{field}{value}}}\n").into_bytes()
}

fn message(content: &str) -> Vec<u8> {
    format!("{{\"type\":\"assistant\",\"message\":{{\"content\":{content}}}}}\n").into_bytes()
}

fn tool_call() -> Vec<u8> {
    let input = format!("{{\"a\":{}}}", nested("[", "]"));
    message(&format!("[{{\"type\":\"tool_use\",\"name\":\"Else\",\"input\":{input}}}]"))
}

fn text_of(size: usize) -> Vec<u8> {
    message(&format!("\"{}\"", "größe ".repeat(size / 8)))
}

fn many_numbers() -> Vec<u8> {
    line("\"errors\":", &format!("[{}1]", "1e999,".repeat(MILLION)))
}

fn hook() -> Vec<u8> {
    let input = nested("{\"a\":", "}");
    format!("{{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Else\",\"tool_input\":{input}}}")
        .into_bytes()
}

fn nested_line(beginning: &str) -> Vec<u8> {
    format!("{beginning}{}}}\n", nested("[", "]")).into_bytes()
}

fn long_line(beginning: &str) -> Vec<u8> {
    format!("{beginning}\"{}\"}}\n", "x".repeat(50 << 20)).into_bytes()
}

fn read_stream(bytes: &[u8]) {
    let (mut lines, mut parser, mut observer) = (Lines::default(), Parser::new(), Observer::new());
    let mut view = SessionView::new(Terminal::PLAIN, Path::new("/project"));
    let mut each = |line: &[u8]| {
        parser.parse(line, &mut |event| {
            observer.observe(&event);
            view.show(&mut std::io::sink(), &event).unwrap();
        });
    };
    for chunk in bytes.chunks(64 << 10) {
        lines.push(chunk, &mut each);
    }
    lines.finish(&mut each);
    observer.into_facts(None);
}

fn read_hook(bytes: &[u8]) {
    let mut view = SessionView::new(Terminal::PLAIN, Path::new("/project"));
    drill::told_by([bytes], &mut |event| view.show(&mut std::io::sink(), event).unwrap());
}

fn read_answer(bytes: &[u8]) {
    let answer = std::str::from_utf8(bytes).unwrap();
    Sigils::read(answer);
    promised_at_the_end(answer, "LOOP_COMPLETE");
}

fn read_keys(bytes: &[u8]) {
    let mut forwarded = 0;
    // As much as is read from a terminal at a time.
    let pieces = bytes.chunks(4096).map(|piece| (Duration::ZERO, piece));
    drill::typed(pieces, &mut |key| forwarded += key.map_or(0, <[u8]>::len));
    assert!(forwarded > 0 && forwarded <= bytes.len());
}

fn read_screen(bytes: &[u8]) {
    screen::shown(bytes);
}

fn read_prompt(bytes: &[u8]) {
    let place = TempDir::new_in(memory()).unwrap();
    fs::write(place.path().join(Prompt::Work.file_name()), bytes).unwrap();
    Prompt::Work.render(place.path(), &Values::new()).unwrap();
}

fn read_config(bytes: &[u8]) {
    let place = TempDir::new_in(memory()).unwrap();
    let file = place.path().join(".ralph.toml");
    fs::write(&file, bytes).unwrap();
    let _ = Settings::load(Some(&file), &Environment::from_iter([("", ""); 0]), &[]);
}

fn read_import(bytes: &[u8]) {
    let place = TempDir::new_in(memory()).unwrap();
    let mut store = Store::open(&place.path().join("progress.db")).unwrap();
    store.import(bytes).unwrap_err();
}

fn read_add(bytes: &[u8]) {
    let place = TempDir::new_in(memory()).unwrap();
    let mut store = Store::open(&place.path().join("progress.db")).unwrap();
    let refused = jsonl::read::<NewTask>(bytes).and_then(|tasks| {
        let tasks: Vec<NewTask> = tasks.into_iter().map(|(_, task)| task).collect();
        store.add_tasks(&tasks, None, Timestamp::now())
    });
    refused.unwrap_err();
}

fn read_checklist(bytes: &[u8]) {
    assert_eq!(ticked_off(std::str::from_utf8(bytes).unwrap()), (1_000_000, 1_000_000));
}

fn read_shown(bytes: &[u8]) {
    let text = text::printable_lines(std::str::from_utf8(bytes).unwrap());
    let mut out = std::io::sink();
    for line in text::wrap(&text, 80) {
        out.write_all(line.as_bytes()).unwrap();
    }
    text::cut(&text, 80);
}
