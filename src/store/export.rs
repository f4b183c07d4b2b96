//! The whole database as lines of JSON. What is running just now belongs to its process and stays
//! here: a task in progress is exported as pending.

use std::io::Write;

use anyhow::Result;
use rusqlite::Row;
use serde::{Deserialize, Serialize};

use super::Store;
use crate::dag::{Attempt, AttemptId, Feature, LogEvent, RunId, SessionEntry, Task, TaskId};
use crate::time::Timestamp;

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// One line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Record {
    Export(Header),
    Feature(Feature),
    Run(Run),
    Task(Box<Task>),
    Dependency(Dependency),
    Attempt(Box<Attempt>),
    Session(Box<SessionEntry>),
    Log(Log),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) version: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) kind: String,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) outcome: Option<String>,
    pub(super) max_iterations: Option<i64>,
    pub(super) max_seconds: Option<i64>,
    pub(super) max_cost: Option<f64>,
    pub(super) iterations: i64,
    pub(super) cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dependency {
    pub(super) blocker: TaskId,
    pub(super) blocked: TaskId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Log {
    pub(super) task: TaskId,
    pub(super) at: Timestamp,
    pub(super) event: LogEvent,
    pub(super) author: Option<AttemptId>,
    pub(super) message: String,
}

impl Store {
    /// Writes everything, one object a line.
    pub fn export(&self, out: &mut dyn Write) -> Result<()> {
        self.read(|tx| {
            write_line(out, &Record::Export(Header { version: VERSION }))?;
            for (query, record) in parts() {
                for record in tx.prepare(&query)?.query_map([], record)? {
                    write_line(out, &record?)?;
                }
            }
            Ok(())
        })
    }
}

fn write_line(out: &mut dyn Write, record: &Record) -> Result<()> {
    serde_json::to_writer(&mut *out, record).map_err(std::io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

/// Makes a record of a row.
type FromRow = fn(&Row<'_>) -> rusqlite::Result<Record>;

/// What is exported, in this order: each part refers only to those before it, or to itself.
fn parts() -> [(String, FromRow); 7] {
    [
        (format!("select {} from features order by rowid", Feature::COLUMNS), |row| {
            Ok(Record::Feature(Feature::from_row(row)?))
        }),
        (
            "select id, kind, started_at, ended_at, outcome, max_iterations, max_seconds,
                 max_cost, iterations, cost_usd
             from runs
             where exists (select 1 from attempts where run = runs.id and ended_at is not null)
             order by rowid"
                .to_owned(),
            run_from_row,
        ),
        (
            format!(
                "select {} from tasks as task left join tasks as parent on parent.seq = task.parent
                 order by task.seq",
                Task::COLUMNS
            ),
            |row| Ok(Record::Task(Box::new(Task::from_row(row)?))),
        ),
        (
            "select blocker.id, blocked.id
             from dependencies
                 join tasks as blocker on blocker.seq = dependencies.blocker
                 join tasks as blocked on blocked.seq = dependencies.blocked
             order by dependencies.blocker, dependencies.blocked"
                .to_owned(),
            |row| {
                let (blocker, blocked) = (row.get(0)?, row.get(1)?);
                Ok(Record::Dependency(Dependency { blocker, blocked }))
            },
        ),
        (
            format!(
                "select {} from attempts join tasks on tasks.seq = attempts.task
                 where ended_at is not null
                 order by attempts.rowid",
                Attempt::COLUMNS
            ),
            |row| Ok(Record::Attempt(Box::new(Attempt::from_row(row)?))),
        ),
        (format!("select {} from sessions order by rowid", SessionEntry::COLUMNS), |row| {
            Ok(Record::Session(Box::new(SessionEntry::from_row(row)?)))
        }),
        (
            "select tasks.id, at, event, author, message
             from task_logs join tasks on tasks.seq = task
             order by task, at"
                .to_owned(),
            log_from_row,
        ),
    ]
}

fn log_from_row(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record::Log(Log {
        task: row.get(0)?,
        at: row.get(1)?,
        event: row.get(2)?,
        author: row.get(3)?,
        message: row.get(4)?,
    }))
}

fn run_from_row(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record::Run(Run {
        id: row.get(0)?,
        kind: row.get(1)?,
        started_at: row.get(2)?,
        ended_at: row.get(3)?,
        outcome: row.get(4)?,
        max_iterations: row.get(5)?,
        max_seconds: row.get(6)?,
        max_cost: row.get(7)?,
        iterations: row.get(8)?,
        cost_usd: row.get(9)?,
    }))
}
