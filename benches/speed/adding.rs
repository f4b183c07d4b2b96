//! `ralph task add` as a process, against the smallest program that inserts the same row.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::Scale;
use crate::measure::interleaved;
use crate::project::{Project, run};
use crate::table::{Amount, Limit, Row};

const ROUNDS: usize = 400;
/// How many short-lived processes the WAL must survive.
const MANY: usize = 10_000;
/// As many as fill the WAL several times.
const TRACED: usize = 400;

pub(crate) fn time(_: &Scale) -> Result<Vec<Row>> {
    let (measured, baseline) = compare(false)?;
    let (held, held_baseline) = compare(true)?;
    Ok(vec![
        Row::ratio("task add vs a bare insert", measured, baseline, 1.25),
        Row::ratio("  while another process has it open", held, held_baseline, 1.25),
    ])
}

/// The medians of ralph and of the bare insert, each on a database of its own that grows alike.
fn compare(held_open: bool) -> Result<(std::time::Duration, std::time::Duration)> {
    let (ours, theirs) = (Project::new()?, Project::new()?);
    let open = held_open.then(|| [ours.store(), theirs.store()]);
    let _open = open.into_iter().flatten().collect::<Result<Vec<_>>>()?;
    interleaved(ROUNDS, || run(ours.ralph(&ADD)), || run(theirs.baseline_insert()))
}

const ADD: [&str; 3] = ["task", "add", "Write the tokenizer"];

pub(crate) fn wal(_: &Scale) -> Result<Vec<Row>> {
    let project = Project::new()?;
    let mut largest = 0;
    for _ in 0..MANY {
        run(project.ralph(&ADD))?;
        largest = largest.max(project.wal_size()?);
    }
    let limit = Limit::AtMost(Amount::Bytes(2 << 20));
    Ok(vec![Row::new(format!("largest WAL in {MANY} adds"), Amount::Bytes(largest), limit)])
}

pub(crate) fn fsync(_: &Scale) -> Result<Vec<Row>> {
    let name = "adds with an fsync";
    let limit = Limit::AtMost(Amount::Percent(5.0));
    let known = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    if !known.is_ok_and(|status| status.success()) {
        return Ok(vec![Row::new(name, Amount::Missing("strace"), limit)]);
    }
    let project = Project::new()?;
    let mut with_fsync = 0;
    for _ in 0..TRACED {
        let mut strace = project.command("strace");
        strace.args([
            "-f",
            "-qq",
            "-e",
            "trace=fsync,fdatasync,sync_file_range",
            "-e",
            "signal=none",
        ]);
        strace.arg(crate::project::RALPH).args(ADD);
        let trace = strace.output().context("can't run strace")?.stderr;
        with_fsync += usize::from(!trace.is_empty());
    }
    let percent = 100.0 * with_fsync as f64 / TRACED as f64;
    Ok(vec![Row::new(name, Amount::Percent(percent), limit)])
}
