//! How fast ralph is, measured against baselines that are built and run beside it, so that the
//! ratios mean the same on any machine.
//!
//! `cargo bench --bench speed -- [--check] [--long] [NAME]`: `--check` fails if anything is over its
//! limit, `--long` adds graphs of a million tasks, a name runs only what contains it.

mod adding;
mod claiming;
mod commands;
mod crowd;
mod edges;
mod graphs;
mod measure;
mod project;
mod running;
mod sandbox;
mod table;
mod terminal;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};

use table::{Row, Table};

/// One subject, and the rows it adds to the table.
type Benchmark = fn(&Scale) -> Result<Vec<Row>>;

const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("start", commands::start),
    ("sandbox", sandbox::start),
    ("run", running::overhead),
    ("add", adding::time),
    ("wal", adding::wal),
    ("fsync", adding::fsync),
    ("claim", claiming::claims),
    ("edge", edges::edges),
    ("crowd", crowd::claims),
    ("commands", commands::times),
    ("memory", commands::memory),
    ("pty", terminal::sessions),
];

/// How large the graphs are to be.
struct Scale {
    sizes: &'static [usize],
}

fn main() -> Result<ExitCode> {
    if let Some(exit) = ralph::agent::backstage(std::env::args_os().skip(1)) {
        return Ok(exit);
    }
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == crowd::MEMBER) {
        return crowd::member(&arguments[1..]);
    }
    let mut flag = |name: &str| {
        let before = arguments.len();
        arguments.retain(|argument| argument != name);
        arguments.len() < before
    };
    flag("--bench"); // cargo adds it
    let (check, long) = (flag("--check"), flag("--long"));
    if let Some(unknown) = arguments.iter().find(|argument| argument.starts_with('-')) {
        bail!("there is no `{unknown}`; try --check, --long or a name");
    }
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|it| name.contains(&**it));
    let scale = Scale { sizes: if long { &[100_000, 1_000_000] } else { &[100_000] } };

    let mut table = Table::default();
    for (name, benchmark) in BENCHMARKS.iter().filter(|(name, _)| wanted(name)) {
        writeln!(std::io::stderr(), "{name} …")?;
        table.extend(benchmark(&scale)?);
    }
    write!(std::io::stdout(), "{table}")?;
    Ok(if check && table.is_over() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
