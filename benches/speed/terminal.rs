//! A session in a terminal of its own against `script`, which does nothing but copy: how fast output
//! gets through, how soon a key is answered, and what memory it takes.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::Scale;
use crate::measure::{interleaved, median};
use crate::table::{Amount, Limit, Row};

const MEGABYTES: usize = 100;
const ROUNDS: usize = 5;
const KEYS: usize = 300;

/// Rows about sessions in a terminal.
pub(crate) fn sessions(_scale: &Scale) -> Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let flood = directory.path().join("flood");
    write_flood(&flood)?;
    let flood = format!("cat {}", flood.display());
    let report = directory.path().join("report");
    let mut peak = 0;
    let (own, others) = interleaved(
        ROUNDS,
        || {
            let time = copy(session(&flood, &report, directory.path()))?;
            peak = peak.max(peak_memory(&report)?);
            Ok(time)
        },
        || copy(script(&flood, directory.path())),
    )?;
    let (own_echo, others_echo) = interleaved(
        ROUNDS,
        || echo(session(ECHO, &report, directory.path())),
        || echo(script(ECHO, directory.path())),
    )?;
    let slower = own_echo.saturating_sub(others_echo);
    Ok(vec![
        Row::ratio("100 MB through a terminal, against script", own, others, 1.2),
        Row::new("memory for that", Amount::Bytes(peak), Limit::AtMost(Amount::Bytes(20 << 20))),
        Row::new("a key and its echo", Amount::Time(own_echo), Limit::None),
        Row::new(
            "how much later than with script",
            Amount::Time(slower),
            Limit::AtMost(Amount::Time(Duration::from_millis(2))),
        ),
    ])
}

/// Lines as a compiler prints them.
fn write_flood(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let line = "\x1b[1;32m   Compiling\x1b[0m something-or-other v1.2.3 (/home/dev/project)\n";
    for _ in 0..(MEGABYTES << 20) / line.len() {
        file.write_all(line.as_bytes())?;
    }
    Ok(file.flush()?)
}

/// Gives every key back as it comes.
const ECHO: &str = "stty raw -echo; echo ready; exec cat";

fn session(command: &str, report: &Path, directory: &Path) -> CommandBuilder {
    let mut session = CommandBuilder::new(env!("CARGO_BIN_EXE_ralph-session"));
    session.args(["--pty", "interactive", "--hooks", "no", "--silence-ms", "0", "--report"]);
    session.arg(report);
    session.args(["sh", "-c", command]);
    session.cwd(directory);
    session
}

fn script(command: &str, directory: &Path) -> CommandBuilder {
    let mut script = CommandBuilder::new("script");
    script.args(["-qc", command, "/dev/null"]);
    script.cwd(directory);
    script
}

struct Running {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
}

fn start(command: CommandBuilder) -> Result<Running> {
    let pair = native_pty_system().openpty(PtySize::default())?;
    let child = pair.slave.spawn_command(command)?;
    Ok(Running { child, master: pair.master })
}

/// How long it takes until everything has been shown.
fn copy(command: CommandBuilder) -> Result<Duration> {
    let began = Instant::now();
    let mut running = start(command)?;
    let mut output = running.master.try_clone_reader()?;
    let mut buffer = vec![0; 64 << 10];
    let mut shown = 0;
    // The end of a terminal is an error.
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        shown += count;
    }
    let status = running.child.wait()?;
    ensure!(status.success() && shown > MEGABYTES << 20, "{status:?}: {shown} bytes");
    Ok(began.elapsed())
}

/// The median time from a key to its echo.
fn echo(command: CommandBuilder) -> Result<Duration> {
    let mut running = start(command)?;
    let mut output = running.master.try_clone_reader()?;
    let mut keyboard = running.master.take_writer()?;
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.windows(5).any(|it| it == b"ready") {
        let count = output.read(&mut buffer)?;
        seen.extend_from_slice(&buffer[..count]);
    }
    let mut times = Vec::new();
    for key in (b'a'..=b'z').cycle().take(KEYS) {
        let began = Instant::now();
        keyboard.write_all(&[key])?;
        let mut shown = 0;
        while !buffer[..shown].contains(&key) {
            shown = output.read(&mut buffer)?;
        }
        times.push(began.elapsed());
    }
    running.child.kill()?;
    running.child.wait()?;
    Ok(median(times))
}

fn peak_memory(report: &Path) -> Result<u64> {
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(report)?)?;
    Ok(report["peak_kb"].as_u64().context("the report tells its memory")? << 10)
}
