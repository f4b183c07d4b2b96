//! Drills: not that it can work, but that it does not stop working. `scripts/drill` runs them.
//!
//! `scripts/drill [--short] [--seed N] [NAME…]`: `--short` is for every change, minutes instead of an
//! hour; a name runs only what contains it. What is printed is a document, docs/drills.md is the last one.
#![expect(clippy::unwrap_used, reason = "in a drill, what can't be unwrapped is a finding")]

mod calls;
mod contention;
mod crash;
mod crew;
mod damage;
mod faults;
mod fuzz;
#[path = "../../tests/it/harness.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod harness;
mod others;
mod pipes;
mod processes;
#[path = "../../tests/it/random.rs"]
mod random;
mod report;
mod scale;
#[path = "../../tests/it/shim.rs"]
mod shim;
mod syscalls;
mod worker;

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use random::Random;
use report::{Row, Section};

/// One of the drills. Where something does not hold it may panic, as a test does: that is a row, too.
struct Drill {
    name: &'static str,
    /// What is done, in one sentence.
    about: &'static str,
    run: fn(&mut Dose) -> Result<Vec<Row>>,
}

const DRILLS: &[Drill] = &[
    crash::DRILL,
    contention::DRILL,
    worker::LATE,
    worker::BYSTANDER,
    worker::LEAKS,
    worker::STOPPED,
    worker::KILLED,
    faults::DRILL,
    syscalls::DRILL,
    damage::DRILL,
    pipes::DRILL,
    fuzz::DRILL,
    scale::DRILL,
    others::DRILL,
];

/// How much of it.
struct Dose {
    short: bool,
    random: Random,
}

impl Dose {
    /// How often, in the long form and in the short one.
    fn of(&self, long: usize, short: usize) -> usize {
        if self.short { short } else { long }
    }
}

fn main() -> Result<ExitCode> {
    if let Some(exit) = ralph::agent::backstage(std::env::args_os().skip(1)) {
        return Ok(exit);
    }
    if let Some(exit) = fuzz::worker(std::env::args().skip(1)) {
        return Ok(exit);
    }
    let order = Order::parse(std::env::args().skip(1))?;
    write!(std::io::stdout(), "{}", preface(&order))?;
    let mut broken = false;
    for drill in DRILLS.iter().filter(|drill| order.wants(drill.name)) {
        writeln!(std::io::stderr(), "{} …", drill.name)?;
        let mut dose = Dose { short: order.short, random: Random::new(order.seed) };
        let began = Instant::now();
        let mut rows = catch_unwind(AssertUnwindSafe(|| (drill.run)(&mut dose)))
            .unwrap_or_else(|panic| bail!("{}", message(&*panic)))
            .unwrap_or_else(|error| vec![Row::broken(format!("{error:#}"))]);
        rows.push(Row::told("time", format!("{:.0} s", began.elapsed().as_secs_f64())));
        // The short form is for machines that have other things to do.
        broken |= rows.iter().any(|row| row.is_broken() || (row.is_slow() && !order.short));
        write!(
            std::io::stdout(),
            "{}",
            Section { name: drill.name, about: drill.about, rows: &rows }
        )?;
    }
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What was asked for.
struct Order {
    short: bool,
    seed: u64,
    names: Vec<String>,
}

impl Order {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Order> {
        let seed = u64::from(std::process::id());
        let mut order = Order { short: false, seed, names: Vec::new() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--bench" => {} // cargo adds it
                "--short" => order.short = true,
                "--seed" => {
                    let number = arguments.next().context("--seed needs a number")?;
                    order.seed = number.parse().context("--seed needs a number")?;
                }
                flag if flag.starts_with('-') => {
                    bail!("there is no `{flag}`; try --short, --seed N or a name")
                }
                _ if DRILLS.iter().any(|drill| drill.name.contains(&argument)) => {
                    order.names.push(argument);
                }
                _ => {
                    let names: Vec<&str> = DRILLS.iter().map(|drill| drill.name).collect();
                    bail!("there is no drill `{argument}`; there are {}", names.join(", "))
                }
            }
        }
        Ok(order)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| name.contains(wanted))
    }
}

/// The head of the document: when, how much, and on what.
fn preface(order: &Order) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let kilobytes = text.strip_prefix("MemTotal:")?.trim_start().split(' ').next()?;
        Some(format!(", {} GB of memory", kilobytes.parse::<u64>().ok()? >> 20))
    });
    format!(
        "# Drills\n\nThe last run of `scripts/drill`{short}: {date}, {cores} cores{memory}, {system}, \
         seed {seed}.\n\n",
        short = if order.short { " --short" } else { "" },
        date = chrono::Utc::now().format("%Y-%m-%d"),
        memory = memory.unwrap_or_default(),
        system = std::env::consts::OS,
        seed = order.seed,
    )
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}
