//! What `ralph run` adds to a session: everything from one record to the next, over starting the same
//! agent bare.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ralph::store::NewTask;
use ralph::time::Timestamp;

use crate::Scale;
use crate::measure::median;
use crate::project::{Project, run};
use crate::table::{Amount, Limit, Row};

const AGENT: &str = env!("CARGO_BIN_EXE_baseline-agent");
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const TASKS: usize = 1_000;
const ITERATIONS: usize = 200;

pub(crate) fn overhead(_: &Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (has_repository, place, most) in [(false, "outside", 5), (true, "in", 15)] {
        let (time, cpu) = measure(has_repository)?;
        let limit = Limit::AtMost(Amount::Time(Duration::from_millis(most)));
        rows.push(Row::new(format!("run adds, {place} a repository"), Amount::Time(time), limit));
        rows.push(Row::new(format!("… of processor time, {place} one"), Amount::Time(cpu), limit));
    }
    Ok(rows)
}

/// The time and the processor time that an iteration takes beyond its agent.
fn measure(has_repository: bool) -> Result<(Duration, Duration)> {
    let project = Project::new()?;
    let settings = format!("[agent]\ncommand = \"{AGENT}\"\n");
    fs::write(project.root().join(".ralph.toml"), settings)?;
    let steps = [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "begin"]];
    for arguments in steps.into_iter().filter(|_| has_repository) {
        let mut git = project.command("git");
        git.env("PATH", PATH);
        git.args(["-c", "user.name=x", "-c", "user.email=x@localhost"]).args(arguments);
        run(git)?;
    }
    let task = |number| NewTask { title: format!("Task {number}"), ..NewTask::default() };
    let tasks: Vec<NewTask> = (0..TASKS).map(task).collect();
    project.store()?.add_tasks(&tasks, None, Timestamp::now())?;

    let before = cpu_of_children()?;
    let bare: Vec<Duration> =
        (0..ITERATIONS).map(|_| run(project.command(AGENT))).collect::<Result<_>>()?;
    let between = cpu_of_children()?;
    let iterations = iterations(&project)?;
    let after = cpu_of_children()?;
    let cpu = (after - between).saturating_sub(between - before) / ITERATIONS as u32;
    Ok((median(iterations).saturating_sub(median(bare)), cpu))
}

/// How long each iteration of a run took, from record to record.
fn iterations(project: &Project) -> Result<Vec<Duration>> {
    let limit = (ITERATIONS + 1).to_string();
    let mut command = project.ralph(&["run", "--no-verify", "--no-sandbox", "--format", "jsonl"]);
    command.env("PATH", PATH).args(["--limit", &limit]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let out = BufReader::new(child.stdout.take().context("it is piped")?);
    let mut ends = Vec::new();
    for line in out.lines() {
        if line?.contains("\"type\":\"iteration_end\"") {
            ends.push(Instant::now());
        }
    }
    child.wait()?;
    ensure!(ends.len() == ITERATIONS + 1, "the run made {} iterations", ends.len());
    Ok(ends.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// How long the processes that we waited for, and those they waited for, have been on a processor.
fn cpu_of_children() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit_once(')').context("no name")?.1.split_ascii_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    // A tick is a hundredth of a second on every Linux that there is.
    Ok(Duration::from_millis(10 * ticks))
}
