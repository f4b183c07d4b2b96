//! Foreign text, ten million times: whatever is read from agents, files, keyboards and the environment
//! is mutated and read again. Nothing panics, nothing takes long, and what each reader promises holds.
//!
//! Inputs are numbered, and a number and a seed make the same input again. Children read them, so that
//! what kills a process (a stack that overflows, a loop without end) is a finding like any other.

mod agent;
mod database;
mod extremes;
mod mutate;
mod screen;
mod text;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::random::Random;
use crate::report::Row;
use crate::{Dose, Drill, message};
use mutate::Corpus;

pub(crate) const DRILL: Drill = Drill {
    name: "fuzz",
    about: "Whatever is read from elsewhere is mutated and read again: no panic, no input that takes \
            long, and what each reader promises holds. A target's count is of whole inputs; its time \
            includes the checks. Below are inputs of extreme shapes, each read by a process of its own.",
    run,
};

/// The first argument that makes a drill read inputs for another.
const WORKER: &str = "__fuzz";
/// No reading of an input may take longer, the checks included; what is not optimised has more time.
const LONGEST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 3_000 } else { 100 });
/// An input that takes so long will never end.
const STUCK: Duration = Duration::from_secs(20);
/// How many findings of a target are told one by one.
const TOLD: usize = 5;

/// What reads foreign text, and how it is put to the test.
struct Target {
    name: &'static str,
    /// What is promised besides that nothing panics.
    promise: &'static str,
    /// How many inputs the long form has; the short one has a four-hundredth.
    inputs: usize,
    /// How often each is read, the time of which is that of all of them.
    readings: u32,
    corpus: fn() -> Corpus,
    reader: fn() -> Reader,
}

impl Target {
    /// How long an input may take.
    fn longest(&self) -> Duration {
        LONGEST * self.readings
    }
}

/// Reads an input; an error is a promise that was broken. The random numbers say how it is cut.
type Reader = Box<dyn FnMut(&[u8], &mut Random) -> Result<(), String>>;

const TARGETS: &[Target] = &[
    agent::STREAM,
    agent::HOOKS,
    agent::KEYS,
    screen::SCREEN,
    text::SIGILS,
    text::CONFIG,
    text::TEMPLATE,
    text::CHECKLIST,
    text::NAMES,
    text::SHOWN,
    database::IMPORT,
    database::ADD,
];

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    let seed = dose.random.next() >> 12;
    let (mut rows, mut inputs) = (Vec::new(), 0);
    let mut all = Found::default();
    for target in TARGETS {
        writeln!(std::io::stderr(), "  {} …", target.name)?;
        let count = dose.of(target.inputs, target.inputs / 400) as u64;
        let began = Instant::now();
        let found = read_all(target, seed, count)?;
        found.tell(target, seed)?;
        rows.push(found.row(target, count, began.elapsed()));
        inputs += count;
        all.add(found);
    }
    rows.push(Row::told("inputs", inputs));
    rows.push(Row::never("panics, and processes that died of an input", all.panics.len()));
    rows.push(Row::never("promises that were broken", all.broken.len()));
    rows.extend(extremes::rows()?);
    Ok(rows)
}

/// What children found.
#[derive(Default, Serialize, Deserialize)]
struct Found {
    panics: Vec<(u64, String)>,
    broken: Vec<(u64, String)>,
    slowest: (Duration, u64),
}

impl Found {
    fn add(&mut self, other: Found) {
        self.panics.extend(other.panics);
        self.broken.extend(other.broken);
        self.slowest = self.slowest.max(other.slowest);
    }

    /// Everything that is needed to see it again.
    fn tell(&self, target: &Target, seed: u64) -> Result<()> {
        let slow = (self.slowest.0 > target.longest())
            .then(|| (self.slowest.1, format!("took {:.0?}", self.slowest.0)));
        let all = self.panics.iter().take(TOLD).chain(self.broken.iter().take(TOLD)).chain(&slow);
        for (number, what) in all {
            let (input, _) = input(&(target.corpus)(), seed, *number);
            let shown: String = input.escape_ascii().to_string().chars().take(1_000).collect();
            let (name, next) = (target.name, number + 1);
            writeln!(
                std::io::stderr(),
                "{name}, input {number}: {what}\n  {shown}\n  again: {WORKER} {name} {seed} {number} {next} FILE"
            )?;
        }
        Ok(())
    }

    fn row(&self, target: &Target, count: u64, time: Duration) -> Row {
        let speed = count as f64 / time.as_secs_f64();
        let slowest = self.slowest.0.as_secs_f64() * 1e3;
        let (panics, broken) = (self.panics.len(), self.broken.len());
        let mut measured = format!("{count} inputs, {speed:.0}/s, slowest {slowest:.1} ms");
        if panics + broken > 0 {
            measured += &format!(", {panics} panics, {broken} times not so");
        }
        Row::limited(
            format!("{}: {}", target.name, target.promise),
            measured,
            format!("{} ms", target.longest().as_millis()),
            panics + broken == 0 && self.slowest.0 <= target.longest(),
        )
    }
}

/// Has children read all inputs of a target, as many at a time as there are processors.
fn read_all(target: &Target, seed: u64, count: u64) -> Result<Found> {
    let place = TempDir::new_in(memory())?;
    let crowd = thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut found = Found::default();
    let mut shares: Vec<Share> = (0..crowd)
        .map(|number| Share {
            from: count * number / crowd,
            to: count * (number + 1) / crowd,
            state: place.path().join(format!("state-{number}")),
        })
        .collect();
    // Whoever has died has left something to be done by another.
    while !shares.is_empty() && found.panics.len() < TOLD * TOLD {
        let children: Vec<(Share, Child)> = shares
            .drain(..)
            .map(|share| share.start(target, seed).map(|child| (share, child)))
            .collect::<Result<_>>()?;
        for (share, child) in children {
            match share.finish(child)? {
                Ok(result) => found.add(result),
                Err((number, death)) => {
                    found.panics.push((number, death));
                    shares.push(Share { from: number + 1, ..share });
                }
            }
        }
        shares.retain(|share| share.from < share.to);
    }
    Ok(found)
}

/// The inputs that one child reads, and the file in which it says how far it is.
struct Share {
    from: u64,
    to: u64,
    state: PathBuf,
}

impl Share {
    fn start(&self, target: &Target, seed: u64) -> Result<Child> {
        fs::write(&self.state, self.from.to_le_bytes())?;
        let numbers = [seed, self.from, self.to].map(|number| number.to_string());
        Ok(Command::new(std::env::current_exe()?)
            .args([WORKER, target.name])
            .args(numbers)
            .arg(&self.state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?)
    }

    /// What it found, or which input was its death.
    fn finish(&self, mut child: Child) -> Result<Result<Found, (u64, String)>> {
        let mut text = String::new();
        child.stdout.take().context("it has a stdout")?.read_to_string(&mut text)?;
        let status = child.wait()?;
        if status.success() {
            return Ok(Ok(serde_json::from_str(&text)?));
        }
        let state = fs::read(&self.state)?;
        let number = u64::from_le_bytes(state[..8].try_into()?);
        Ok(Err((number, format!("the process died: {status}"))))
    }
}

/// Reads a share of the inputs, if that is what these arguments ask for.
pub(crate) fn worker(arguments: impl Iterator<Item = String>) -> Option<ExitCode> {
    let arguments: Vec<String> = arguments.collect();
    let role = arguments.first()?.as_str();
    let done = match role {
        WORKER => read_share(&arguments[1..]),
        extremes::EXTREME => extremes::child(&arguments[1..]),
        _ => return None,
    };
    match done {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error:#}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn read_share(arguments: &[String]) -> Result<()> {
    let [name, seed, from, to, state] = arguments else {
        anyhow::bail!("{WORKER} NAME SEED FROM TO FILE");
    };
    let target = TARGETS.iter().find(|it| it.name == name).context("there is no such target")?;
    let (seed, from, to): (u64, u64, u64) = (seed.parse()?, from.parse()?, to.parse()?);
    ensure!(from <= to, "{from} is after {to}");
    let state = File::create(state)?;
    let at = Arc::new(AtomicU64::new(from));
    watch(&at);
    // What a panic says is in the report.
    std::panic::set_hook(Box::new(|_| ()));
    let corpus = (target.corpus)();
    let mut reader = (target.reader)();
    let mut found = Found::default();
    if from + 1 == to {
        // Somebody wants to see it again.
        writeln!(std::io::stderr(), "{}", input(&corpus, seed, from).0.escape_ascii())?;
    }
    for number in from..to {
        at.store(number, Ordering::Relaxed);
        state.write_all_at(&number.to_le_bytes(), 0)?;
        let (mut time, result) = read(&mut reader, &corpus, seed, number);
        // It may not have been its fault.
        for _ in 0..2 {
            if time > target.longest() {
                time = time.min(read(&mut reader, &corpus, seed, number).0);
            }
        }
        found.slowest = found.slowest.max((time, number));
        match result {
            Ok(Ok(())) => {}
            Ok(Err(promise)) => found.broken.push((number, promise)),
            Err(panic) => {
                found.panics.push((number, panic));
                // Nobody knows what it left behind.
                reader = (target.reader)();
            }
        }
    }
    Ok(serde_json::to_writer(std::io::stdout(), &found)?)
}

/// How long an input took, and what came of it: a panic, a promise that was broken, or nothing.
fn read(
    reader: &mut Reader,
    corpus: &Corpus,
    seed: u64,
    number: u64,
) -> (Duration, Result<Result<(), String>, String>) {
    let (input, mut random) = input(corpus, seed, number);
    let began = cpu();
    let result = catch_unwind(AssertUnwindSafe(|| reader(&input, &mut random)));
    (cpu() - began, result.map_err(|panic| message(&*panic).to_owned()))
}

/// The input of this number, and the random numbers that belong to it.
fn input(corpus: &Corpus, seed: u64, number: u64) -> (Vec<u8>, Random) {
    let mut random = Random::new(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    random.next();
    (corpus.input(&mut random), random)
}

/// How long this thread has been on a processor: others use the machine, too.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Ends this process if it stays with one input for ever.
fn watch(at: &Arc<AtomicU64>) {
    let at = Arc::clone(at);
    thread::spawn(move || {
        let (mut last, mut since) = (u64::MAX, Instant::now());
        loop {
            thread::sleep(Duration::from_millis(500));
            let now = at.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > STUCK {
                std::process::abort();
            }
        }
    });
}

/// A place for files that are written a million times.
fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

/// The text cut into pieces, none of them empty.
fn cut<'a>(bytes: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    // Most often a few cuts anywhere, sometimes many small pieces.
    let most = if random.below(4) == 0 { 7 } else { bytes.len() as u64 };
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rest.len().min(1 + random.below(most) as usize));
        pieces.push(piece);
        rest = later;
    }
    pieces
}

/// A promise: true, or these words.
fn promise(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}
