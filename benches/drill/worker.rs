//! What becomes of one run when the processes it is made of misbehave.

mod bystander;
mod killed;
mod late;
mod leaks;
mod stopped;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ralph::dag::{Attempt, Status};
use rustix::process::Signal;

use crate::harness::{Background, DEADLINE, Project, wait_until};
use crate::processes::{self, Process};

pub(crate) use bystander::DRILL as BYSTANDER;
pub(crate) use killed::DRILL as KILLED;
pub(crate) use late::DRILL as LATE;
pub(crate) use leaks::DRILL as LEAKS;
pub(crate) use stopped::DRILL as STOPPED;

/// Waits for a line of a run that contains this.
fn wait_for_line(run: &Background, text: &str) -> Result<()> {
    while !run
        .next_line()
        .with_context(|| format!("it ended before it said {text}"))?
        .contains(text)
    {}
    Ok(())
}

/// Waits for a process below a run that is so.
fn process_below(run: &Background, is_it: impl Fn(&Process) -> bool) -> Result<Process> {
    let find = || processes::below(run.id()).into_iter().find(|process| is_it(process));
    wait_until(Instant::now() + DEADLINE, find).context("a process of the run is not there")
}

/// Stops a process, and waits until it stands still.
fn stop(process: &Process) -> Result<()> {
    process.signal(Signal::STOP);
    let is_stopped = || (process.state() == Some('T')).then_some(());
    wait_until(Instant::now() + DEADLINE, is_stopped).context("it does not stop")
}

/// The attempts on a task, its status, and the retries it has used.
fn story(project: &Project, task: &str) -> Result<(Vec<Attempt>, Option<Status>, u32)> {
    let store = project.store();
    let id = task.parse()?;
    let stored = store.task(id)?.context("the task is gone")?;
    Ok((store.attempts(id)?, stored.status, stored.retries))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
