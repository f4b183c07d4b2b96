//! Runs, what each of them works on, and how far that is.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Transaction};

use super::add::random_bits;
use super::verbs::change_status;
use super::{Store, resolve};
use crate::dag::{AttemptId, FeatureId, RunId, TaskId, Verb};
use crate::process::Holder;
use crate::time::Timestamp;

/// A run that begins.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The process behind it.
    pub holder: Holder,
    /// The top of the working tree that it works in.
    pub root: Option<PathBuf>,
    /// How many iterations it may take.
    pub max_iterations: Option<u32>,
    /// How many seconds it may take.
    pub max_seconds: Option<u64>,
    /// What it may cost, in USD.
    pub max_cost: Option<f64>,
}

impl NewRun {
    /// A run of this process without limits.
    #[expect(clippy::new_without_default, reason = "it is about this process, not about nothing")]
    pub fn new() -> NewRun {
        let holder = Holder::current();
        NewRun { holder, root: None, max_iterations: None, max_seconds: None, max_cost: None }
    }
}

/// Which tasks a run works on. A feature or task that is deleted meanwhile leaves nothing to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All of them.
    Everything,
    /// Those of a feature.
    Feature {
        /// Its id.
        id: FeatureId,
        /// Its name.
        name: String,
    },
    /// A task, or what is inside it.
    Task(TaskId),
}

/// How far the work of a target is; groups are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of it.
    pub total: u32,
    /// What is done.
    pub done: u32,
    /// What failed for good.
    pub failed: u32,
    /// What waits for a person.
    pub blocked: u32,
    /// What somebody works on.
    pub in_progress: u32,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunTotals {
    /// In a word.
    pub outcome: String,
    /// Why, as a person reads it.
    pub message: String,
    /// How many iterations it took.
    pub iterations: u32,
    /// What it has cost.
    pub cost_usd: f64,
}

/// The run that began last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    /// Its id.
    pub id: RunId,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; none if it goes on or was killed.
    pub ended_at: Option<Timestamp>,
    /// How it ended, in a word.
    pub outcome: Option<String>,
    /// Why, as a person reads it.
    pub message: Option<String>,
    /// The process behind it.
    pub holder: Option<Holder>,
}

impl Store {
    /// The run that began last.
    pub fn last_run(&self) -> Result<Option<LastRun>> {
        let query = "select id, started_at, ended_at, outcome, message, host, pid, pid_started
             from runs
             order by rowid desc
             limit 1";
        let run = self.connection.query_row(query, [], |row| {
            let holder: (Option<String>, Option<u32>, Option<i64>) =
                (row.get(5)?, row.get(6)?, row.get(7)?);
            let holder = match holder {
                (Some(host), Some(pid), Some(started)) => {
                    Some(Holder { host, pid, started: started.unsigned_abs() })
                }
                _ => None,
            };
            Ok(LastRun {
                id: row.get(0)?,
                started_at: row.get(1)?,
                ended_at: row.get(2)?,
                outcome: row.get(3)?,
                message: row.get(4)?,
                holder,
            })
        });
        Ok(run.optional()?)
    }

    /// Records that a run begins.
    pub fn start_run(&mut self, run: &NewRun, now: Timestamp) -> Result<RunId> {
        self.write(|tx| {
            loop {
                let id = RunId::from_bits(random_bits()?);
                let inserted = tx.execute(
                    "insert into runs (
                         id, kind, started_at, host, pid, pid_started, heartbeat_at,
                         max_iterations, max_seconds, max_cost, root
                     )
                     values (?1, 'run', ?2, ?3, ?4, ?5, ?2, ?6, ?7, ?8, ?9)
                     on conflict (id) do nothing",
                    (
                        id,
                        now,
                        &run.holder.host,
                        run.holder.pid,
                        i64::try_from(run.holder.started).unwrap_or(i64::MAX),
                        run.max_iterations,
                        run.max_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
                        run.max_cost,
                        run.root.as_deref().map(tree_name),
                    ),
                )?;
                if inserted > 0 {
                    return Ok(id);
                }
            }
        })
    }

    /// Whether there has been a run that began to work.
    pub fn has_runs(&self) -> Result<bool> {
        let mut query = self
            .connection
            .prepare_cached("select exists (select 1 from attempts where run is not null)")?;
        Ok(query.query_row([], |row| row.get(0))?)
    }

    /// When the run of an attempt last said that it is alive.
    pub fn last_heartbeat(&self, attempt: AttemptId) -> Result<Option<Timestamp>> {
        let query =
            "select heartbeat_at from runs join attempts on run = runs.id where attempts.id = ?";
        let found = self.connection.query_row(query, [attempt], |row| row.get(0)).optional()?;
        Ok(found.flatten())
    }

    /// Says that a run is still there.
    pub fn heartbeat(&mut self, run: RunId, now: Timestamp) -> Result<()> {
        self.write(|tx| {
            tx.prepare_cached("update runs set heartbeat_at = ?2 where id = ?1")?
                .execute((run, now))?;
            Ok(())
        })
    }

    /// Records that a run has ended.
    pub fn end_run(&mut self, run: RunId, totals: &RunTotals, now: Timestamp) -> Result<()> {
        self.write(|tx| {
            tx.execute(
                "update runs
                 set ended_at = ?2, outcome = ?3, iterations = ?4, cost_usd = ?5, message = ?6
                 where id = ?1",
                (run, now, &totals.outcome, totals.iterations, totals.cost_usd, &totals.message),
            )?;
            Ok(())
        })
    }

    /// What this text means: a task by its id, or a feature by its name.
    pub fn target(&self, text: &str) -> Result<Target> {
        self.read(|tx| {
            if TaskId::is_prefix(text) {
                return Ok(Target::Task(resolve::task(tx, text)?.id));
            }
            let (id, name) = resolve::feature(tx, text)?;
            Ok(Target::Feature { id, name })
        })
    }

    /// How far the work of a target is.
    pub fn counts(&self, target: &Target) -> Result<Counts> {
        self.read(|tx| {
            let scope = Scope::of(tx, target)?;
            let mut query = tx.prepare_cached(&format!(
                "{} select count(*), total(status = 'done'), total(status = 'failed'),
                     total(status = 'blocked'), total(claimed)
                 from tasks
                 where kind = 'work' and {}",
                scope.with, scope.condition
            ))?;
            Ok(query.query_row([scope.parameter], |row| {
                let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, f64>(column)? as u32);
                Ok(Counts {
                    total: row.get(0)?,
                    done: number(1)?,
                    failed: number(2)?,
                    blocked: number(3)?,
                    in_progress: number(4)?,
                })
            })?)
        })
    }

    /// Puts what failed in a target back to pending, and returns it.
    pub fn reset_failed(&mut self, target: &Target, now: Timestamp) -> Result<Vec<TaskId>> {
        self.write_durably(|tx| {
            let scope = Scope::of(tx, target)?;
            let mut query = tx.prepare(&format!(
                "{} select id from tasks where status = 'failed' and {} order by seq",
                scope.with, scope.condition
            ))?;
            let failed: Vec<TaskId> =
                query.query_map([scope.parameter], |row| row.get(0))?.collect::<Result<_, _>>()?;
            for task in &failed {
                let place = resolve::task(tx, &task.to_string())?;
                change_status(tx, &place, Verb::Reset, None, None, now)?;
            }
            Ok(failed)
        })
    }
}

/// How a working tree is called in the database: by its path without symbolic links.
pub(super) fn tree_name(root: &Path) -> String {
    root.canonicalize().unwrap_or_else(|_| root.to_owned()).to_string_lossy().into_owned()
}

/// The tasks of a target, for a query.
struct Scope {
    /// How the query begins.
    with: &'static str,
    /// What is true of its tasks.
    condition: &'static str,
    /// `?1`
    parameter: Value,
}

impl Scope {
    fn of(tx: &Transaction<'_>, target: &Target) -> Result<Scope> {
        Ok(match target {
            Target::Everything => {
                Scope { with: "", condition: "?1 is null", parameter: Value::Null }
            }
            Target::Feature { id, .. } => {
                Scope { with: "", condition: "feature = ?1", parameter: id.to_string().into() }
            }
            Target::Task(id) => Scope {
                with: super::INSIDE,
                condition: "seq in inside",
                parameter: seq_of(tx, *id)?.into(),
            },
        })
    }
}

/// Where a task is in the order of creation; none if it was deleted.
pub(super) fn seq_of(tx: &Transaction<'_>, id: TaskId) -> Result<Option<i64>> {
    Ok(tx
        .prepare_cached("select seq from tasks where id = ?")?
        .query_row([id], |row| row.get(0))
        .optional()?)
}
