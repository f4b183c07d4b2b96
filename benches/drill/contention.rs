//! Many processes that change one database at once, compared with one that does as much alone.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use ralph::store::NewTask;
use ralph::time::Timestamp;
use rusqlite::Connection;

use crate::harness::Project;
use crate::random::Random;
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "contention",
    about: "16 processes add, join, claim, finish and reset at random in one database, as runs \
            and the people around them do.",
    run: drill,
};

const WORKERS: usize = 16;
/// One of so many tasks is there before the workers come.
const BEFORE: usize = 5;

fn drill(dose: &mut Dose) -> Result<Vec<Row>> {
    let tasks = dose.of(10_000, 1_000);
    let crowd = work(WORKERS, tasks, &mut dose.random)?;
    let alone = work(1, tasks, &mut dose.random)?;
    let ratio = crowd.rate() / alone.rate();
    let mut rows = vec![
        Row::limited("tasks in the end", crowd.tasks, tasks, crowd.tasks == tasks),
        Row::told(format!("operations of {WORKERS} processes"), crowd.waits.len()),
        Row::told("of these refused by the rules of the graph", crowd.refused),
        Row::told("claims", crowd.claims.len()),
        Row::told("operations a second", format!("{:.0}", crowd.rate())),
        Row::told("the same by one process", format!("{:.0}", alone.rate())),
        Row::timed("the crowd against the one", format!("{ratio:.2}"), ">= 0.3", ratio >= 0.3),
    ];
    for (name, work) in [("", &crowd), (" of the one", &alone)] {
        rows.push(Row::told(format!("99 of 100 waits{name} within"), shown(work.percentile(99))));
    }
    let worst = crowd.percentile(100);
    rows.push(Row::timed("the longest wait", shown(worst), "5 s", worst < LONGEST));
    rows.push(Row::told("  which was for", crowd.waits.iter().max().map_or("", |it| &it.1)));
    rows.push(Row::none("processes that met an error", &crowd.errors));
    rows.push(Row::never("claims on a task that another one held", crowd.held_twice()));
    rows.push(Row::never("claims lost that nobody had reset", crowd.lost_without_reason()));
    let kept = crowd.claims.iter().filter(|claim| claim.kept).count();
    let wrong = kept.abs_diff(crowd.recorded as usize);
    rows.push(Row::never("outcomes that were said to be recorded and are not", wrong));
    let findings = [crowd.findings, alone.findings].concat();
    rows.push(Row::none("rules of the database broken", &findings));
    Ok(rows)
}

/// The longest honest wait.
const LONGEST: Duration = Duration::from_secs(5);

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// What came of some processes at work.
struct Work {
    time: Duration,
    /// How long each operation took, and what it was.
    waits: Vec<(Duration, String)>,
    claims: Vec<Held>,
    resets: Vec<Reset>,
    refused: usize,
    errors: Vec<String>,
    tasks: usize,
    recorded: u32,
    findings: Vec<String>,
}

/// A claim as its holder knows it.
struct Held {
    task: String,
    asked: u128,
    from: u128,
    to: u128,
    said: u128,
    kept: bool,
}

struct Reset {
    task: String,
    from: u128,
    to: u128,
}

/// Has so many processes work until there are so many tasks.
fn work(workers: usize, tasks: usize, random: &mut Random) -> Result<Work> {
    let project = Project::new();
    let first: Vec<NewTask> = (0..tasks / BEFORE)
        .map(|number| NewTask {
            title: format!("Task {number}"),
            group: number % 20 == 0,
            ..NewTask::default()
        })
        .collect();
    project.store().add_tasks(&first, None, Timestamp::now())?;
    let go = project.base().join("go");
    let adds = (tasks - first.len()) / workers;
    ensure!(adds * workers + first.len() == tasks, "the work can't be shared evenly");
    let members: Vec<_> = (0..workers)
        .map(|_| {
            let mut command = project.worker("mix");
            command.arg(random.next().to_string()).arg(&go).arg(adds.to_string());
            project.start(command)
        })
        .collect();
    for member in &members {
        ensure!(member.next_line().as_deref() == Some("ready"), "a worker does not begin");
    }
    let began = Instant::now();
    fs::write(&go, "")?;
    let mut work = Work::new();
    for member in members {
        let (status, lines, said) = member.finish();
        if !status.success() || !said.is_empty() {
            work.errors.push(format!("{status}: {said}"));
        }
        lines.iter().try_for_each(|line| work.read(line))?;
    }
    work.time = began.elapsed();
    work.tasks = project.store().snapshot(Timestamp::now())?.tasks.len();
    work.findings = project.store().check()?.iter().map(ToString::to_string).collect();
    let query = "select count(*) from attempts where outcome <> 'overruled'";
    work.recorded = Connection::open(project.database())?.query_row(query, [], |row| row.get(0))?;
    Ok(work)
}

impl Work {
    fn new() -> Work {
        Work {
            time: Duration::ZERO,
            waits: Vec::new(),
            claims: Vec::new(),
            resets: Vec::new(),
            refused: 0,
            errors: Vec::new(),
            tasks: 0,
            recorded: 0,
            findings: Vec::new(),
        }
    }

    /// Takes a line of a worker into account.
    fn read(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["took", time, kind] => {
                self.waits.push((Duration::from_nanos(time.parse()?), kind.to_owned()));
            }
            ["held", task, asked, from, to, said, kept] => self.claims.push(Held {
                task: task.to_owned(),
                asked: asked.parse()?,
                from: from.parse()?,
                to: to.parse()?,
                said: said.parse()?,
                kept: kept == "kept",
            }),
            ["reset", task, from, to] => self.resets.push(Reset {
                task: task.to_owned(),
                from: from.parse()?,
                to: to.parse()?,
            }),
            ["refused", count] => self.refused += count.parse::<usize>()?,
            _ => bail!("a worker said {line:?}"),
        }
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.waits.len() as f64 / self.time.as_secs_f64()
    }

    /// So many of a hundred waits are no longer than this.
    fn percentile(&self, percent: usize) -> Duration {
        let mut times: Vec<Duration> = self.waits.iter().map(|(time, _)| *time).collect();
        times.sort_unstable();
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).copied().unwrap_or_default()
    }

    /// The resets that may have taken this claim from its holder.
    fn resets_of<'a>(&'a self, claim: &'a Held) -> impl Iterator<Item = &'a Reset> {
        self.resets
            .iter()
            .filter(|it| it.task == claim.task && it.to >= claim.asked && it.from <= claim.said)
    }

    fn lost_without_reason(&self) -> usize {
        let is_unexplained = |claim: &&Held| self.resets_of(claim).next().is_none();
        self.claims.iter().filter(|claim| !claim.kept).filter(is_unexplained).count()
    }

    /// How often two had the same task at the same time, as far as both knew.
    fn held_twice(&self) -> usize {
        let mut times: HashMap<&str, Vec<(u128, u128)>> = HashMap::new();
        for claim in &self.claims {
            // One that was lost was ours until the first that may have taken it began to.
            let taken = self.resets_of(claim).map(|it| it.from).min();
            let to = taken.filter(|_| !claim.kept).map_or(claim.to, |it| it.min(claim.to));
            if claim.from < to {
                times.entry(&claim.task).or_default().push((claim.from, to));
            }
        }
        let overlaps = |times: &mut Vec<(u128, u128)>| {
            times.sort_unstable();
            times.windows(2).filter(|pair| pair[1].0 < pair[0].1).count()
        };
        times.values_mut().map(overlaps).sum()
    }
}
