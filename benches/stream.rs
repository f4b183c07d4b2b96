//! How fast a session is understood and shown: reading, parsing and rendering a log against the bare
//! parse of the same lines with `serde_json`, in the same run, each in a process of its own.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark that can't go on has nothing to say")]

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime};

use ralph::agent::{
    Invocation, Limits, Lines, Listener, Mailbox, Observer, Parser, Stdin, backstage, converse,
};
use ralph::event::AgentEvent;
use ralph::ui::Terminal;
use ralph::ui::session::SessionView;
use serde::Deserialize;

const MEGABYTE: usize = 1 << 20;
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    // The library starts its own program again to supervise a session.
    if let Some(exit) = backstage(std::env::args_os().skip(1)) {
        return exit;
    }
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("child-render"), Some(file)) => measure(|| render(Path::new(&file))),
        (Some("child-bare"), Some(file)) => measure(|| bare(Path::new(&file))),
        _ => table(),
    }
    ExitCode::SUCCESS
}

/// Runs something and prints how long it took and how much memory it needed.
fn measure(run: impl FnOnce()) {
    let began = Instant::now();
    run();
    println!("{} {}", began.elapsed().as_micros(), peak_memory());
}

fn render(file: &Path) {
    let mut log = File::open(file).unwrap();
    let mut out = BufWriter::new(File::create("/dev/null").unwrap());
    let (mut lines, mut parser, mut observer) = (Lines::default(), Parser::new(), Observer::new());
    let terminal = Terminal { width: Some(100), colour: true };
    let mut view = SessionView::new(terminal, Path::new("/home/dev/my-project"));
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = log.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        lines.push(&buffer[..count], &mut |line| {
            parser.parse(line, &mut |event| {
                observer.observe(&event);
                view.show(&mut out, &event).unwrap();
            });
        });
    }
    assert!(observer.into_facts(None).trouble.is_none());
}

/// The least that a typed reader of these lines would do.
#[derive(Deserialize)]
struct BareLine<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: Option<BareMessage<'a>>,
    #[serde(borrow)]
    result: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BareMessage<'a> {
    #[serde(borrow)]
    content: Option<Vec<BareBlock<'a>>>,
}

#[derive(Deserialize)]
struct BareBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<&'a serde_json::value::RawValue>,
}

fn bare(file: &Path) {
    let mut log = BufReader::with_capacity(64 << 10, File::open(file).unwrap());
    let mut line = Vec::new();
    let mut seen = 0;
    while log.read_until(b'\n', &mut line).unwrap() > 0 {
        if let Ok(line) = serde_json::from_slice::<BareLine<'_>>(&line) {
            seen += line.kind.len() + line.result.map_or(0, |it| it.len());
            for block in line.message.into_iter().filter_map(|it| it.content).flatten() {
                seen += block.kind.len() + block.text.map_or(0, |it| it.len());
                seen += block.input.map_or(0, |it| it.get().len());
            }
        }
        line.clear();
    }
    assert!(seen > 0);
}

/// The most memory this process has had, in kilobytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn table() {
    let directory = std::env::temp_dir().join(format!("ralph-bench-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let session = directory.join("session.log");
    write_session(&session, 200 * MEGABYTE);
    let (mut shown, mut parsed, mut memory) = (u64::MAX, u64::MAX, 0);
    for _ in 0..ROUNDS {
        let (time, peak) = child("child-render", &session);
        (shown, memory) = (shown.min(time), memory.max(peak));
        parsed = parsed.min(child("child-bare", &session).0);
    }
    let rate = |micros: u64| 200.0 * 1e6 / micros as f64;
    println!("{:<44} {:>10} {:>10} {:>8} {:>8}", "what", "measured", "baseline", "ratio", "limit");
    println!(
        "{:<44} {:>5.0} MB/s {:>5.0} MB/s {:>8.2} {:>8}",
        "parse and show 200 MB, against a bare parse",
        rate(shown),
        rate(parsed),
        parsed as f64 / shown as f64,
        ">= 0.70"
    );
    println!("{:<44} {:>7} MB {:>27} MB", "memory for that", memory / 1024, "< 30");
    let huge = directory.join("huge.log");
    write_huge_line(&huge);
    let (_, peak) = child("child-render", &huge);
    println!("{:<44} {:>7} MB {:>27} MB", "memory for a line of 100 MB", peak / 1024, "< 64");
    let (median, worst) = delays(&directory);
    println!("{:<44} {:>7.2} ms {:>27} ms", "from written to shown, median", median, "< 5");
    println!("{:<44} {:>7.2} ms", "the same, worst of 200", worst);
    fs::remove_dir_all(&directory).unwrap();
}

/// How long it takes from a child's writing a line to its being shown, in milliseconds.
fn delays(directory: &Path) -> (f64, f64) {
    struct Clock(Vec<f64>);
    impl Listener for Clock {
        fn event(&mut self, event: &AgentEvent<'_>) {
            if let AgentEvent::Text { text, .. } = event
                && let Some(written) = text.strip_prefix("stamp ")
            {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let written = Duration::from_nanos(written.parse().unwrap());
                self.0.push((now.saturating_sub(written)).as_secs_f64() * 1e3);
            }
        }
        fn caught_up(&mut self) {}
    }
    let invocation = Invocation {
        program: env!("CARGO_BIN_EXE_fake-claude").into(),
        arguments: ["--output-format", "stream-json"].map(Into::into).to_vec(),
        variables: vec![("FAKE_CLAUDE", "stamp | sleep 5 | ".repeat(200).into())],
        removed: vec![],
        stdin: Stdin::Nothing,
        scratch: None,
        directory: directory.to_owned(),
    };
    let limits = Limits { silence: None, exit_grace: Duration::from_secs(10), deadline: None };
    let mut clock = Clock(Vec::new());
    converse(&invocation, limits, &Mailbox::new(), &mut std::io::sink(), &mut clock).unwrap();
    let mut delays = clock.0;
    assert_eq!(delays.len(), 200);
    delays.sort_by(f64::total_cmp);
    (delays[100], delays[199])
}

fn child(mode: &str, file: &Path) -> (u64, u64) {
    let output =
        Command::new(std::env::current_exe().unwrap()).arg(mode).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn fixture(name: &str) -> Vec<u8> {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stream");
    fs::read(fixtures.join(name)).unwrap()
}

/// Real sessions, again and again.
fn write_session(path: &Path, size: usize) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let sessions =
        ["b.ndjson", "c_tool_errors.ndjson", "subagent_fwd.ndjson", "a.ndjson"].map(fixture);
    let mut written = 0;
    while written < size {
        for session in &sessions {
            file.write_all(session).unwrap();
            written += session.len();
        }
    }
}

fn write_huge_line(path: &Path) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    file.write_all(b"{\"type\":\"assistant\",\"message\":{\"content\":\"").unwrap();
    let piece = vec![b'x'; MEGABYTE];
    for _ in 0..100 {
        file.write_all(&piece).unwrap();
    }
    file.write_all(b"\"}}\n").unwrap();
    file.write_all(&fixture("a.ndjson")).unwrap();
}
