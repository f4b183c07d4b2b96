//! What a person waits for: how fast the program starts and how fast it shows many tasks, and how
//! much memory that takes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ralph::dag::TaskId;
use ralph::store::NewTask;
use ralph::time::Timestamp;

use crate::Scale;
use crate::measure::{interleaved, median};
use crate::project::{EMPTY, Project, RALPH, run};
use crate::table::{Amount, Limit, Row};

const TASKS: usize = 10_000;
const ROUNDS: usize = 400;
const SLOW_ROUNDS: usize = 20;

pub(crate) fn start(_: &Scale) -> Result<Vec<Row>> {
    let project = Project::new()?;
    let (measured, baseline) =
        interleaved(ROUNDS, || run(project.ralph(&["--version"])), || run(project.command(EMPTY)))?;
    Ok(vec![Row::ratio("--version vs an empty program", measured, baseline, 1.5)])
}

pub(crate) fn times(_: &Scale) -> Result<Vec<Row>> {
    let (project, _) = realistic()?;
    let limit = Limit::AtMost(Amount::Time(Duration::from_millis(100)));
    let commands: [&[&str]; 5] = [
        &["task", "list"],
        &["task", "list", "--json"],
        &["task", "tree"],
        &["task", "tree", "--json"],
        &["status"],
    ];
    let mut rows = Vec::new();
    for command in commands {
        let times = (0..SLOW_ROUNDS).map(|_| run(project.ralph(command))).collect::<Result<_>>()?;
        let name = format!("{}, {TASKS} tasks", command.join(" "));
        rows.push(Row::new(name, Amount::Time(median(times)), limit));
    }
    Ok(rows)
}

pub(crate) fn memory(_: &Scale) -> Result<Vec<Row>> {
    let (project, some) = realistic()?;
    let some = some.to_string();
    let limit = Limit::AtMost(Amount::Bytes(16 << 20));
    let commands: [&[&str]; 10] = [
        &["task", "list"],
        &["task", "list", "--json"],
        &["task", "tree"],
        &["task", "tree", "--json"],
        &["task", "next"],
        &["task", "show", &some],
        &["status"],
        &["task", "add", "Another one"],
        &["task", "done", &some],
        &["task", "add", "Another one", "--parent", &some],
    ];
    let mut rows = Vec::new();
    for command in commands {
        let name = format!("memory of {}", command.join(" ").replace(&some, "ID"));
        rows.push(Row::new(name, resident(&project, command)?, limit));
    }
    Ok(rows)
}

/// The most memory that a command had at any time.
fn resident(project: &Project, command: &[&str]) -> Result<Amount> {
    const TIME: &str = "/usr/bin/time";
    if !Path::new(TIME).exists() {
        return Ok(Amount::Missing(TIME));
    }
    let mut timed = project.command(TIME);
    let output = timed.args(["-q", "-f", "%M", RALPH]).args(command).output()?;
    ensure!(output.status.success(), "{timed:?} failed");
    let text = String::from_utf8(output.stderr)?;
    let kilobytes: u64 = text.lines().last().context("`time` says nothing")?.trim().parse()?;
    Ok(Amount::Bytes(kilobytes << 10))
}

/// A project as one might be: groups of ten tasks, each with a title and a description, each but the
/// first of a group waiting for the one before it. Returns a task of it, too.
fn realistic() -> Result<(Project, TaskId)> {
    let project = Project::new()?;
    let key = |number: usize| format!("k{number}");
    let tasks: Vec<NewTask> = (0..TASKS)
        .map(|number| {
            let place = number % 10;
            let mut task = NewTask {
                title: format!("Make endpoint {number} refuse what its caller may not see"),
                description: "It is to say why, and to say it in the log, too. ".repeat(10),
                group: place == 0,
                key: Some(key(number)),
                ..NewTask::default()
            };
            if place > 0 {
                task.parent = Some(key(number - place));
            }
            if place > 1 {
                task.after = vec![key(number - 1)];
            }
            task
        })
        .collect();
    let ids = project.store()?.add_tasks(&tasks, None, Timestamp::now())?;
    Ok((project, ids[1]))
}
