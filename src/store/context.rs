//! What somebody who is to work on a task should know of the graph around it.

use anyhow::{Result, anyhow};
use rusqlite::{OptionalExtension, Transaction};

use super::rows::Place;
use super::{Store, resolve};
use crate::dag::{Attempt, Feature, LogEntry, Task, TaskId};

/// A task and what is around it.
#[derive(Debug)]
pub struct Surroundings {
    /// The task.
    pub task: Task,
    /// The groups around it, the innermost first.
    pub parents: Vec<Task>,
    /// What it had to wait for, by itself or because of a group around it, as far as it is done.
    pub blockers: Vec<DoneBlocker>,
    /// What was tried before, oldest first.
    pub attempts: Vec<Attempt>,
    /// What happened to it and was noted, oldest first.
    pub log: Vec<LogEntry>,
    /// The feature it belongs to.
    pub feature: Option<Feature>,
}

/// Something that had to be done first, and is.
#[derive(Debug, PartialEq, Eq)]
pub struct DoneBlocker {
    /// Its id.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// What was noted about it last, or else what it was about.
    pub summary: String,
}

impl Store {
    /// A task and what is around it.
    pub fn surroundings(&self, id: TaskId) -> Result<Surroundings> {
        let gone = || anyhow!("`{id}` was deleted just now");
        let task = self.task(id)?.ok_or_else(gone)?;
        let mut parents: Vec<Task> = Vec::new();
        let mut next = task.parent;
        while let Some(parent) = next {
            let parent = self.task(parent)?.ok_or_else(gone)?;
            next = parent.parent;
            parents.push(parent);
        }
        let blockers =
            self.read(|tx| done_blockers(tx, resolve::task(tx, &id.to_string())?.seq))?;
        let feature = task.feature.map(|id| self.feature(&id.to_string())).transpose()?;
        let (attempts, log) = (self.attempts(id)?, self.task_log(id)?);
        Ok(Surroundings { task, parents, blockers, attempts, log, feature })
    }
}

fn done_blockers(tx: &Transaction<'_>, task: i64) -> Result<Vec<DoneBlocker>> {
    let mut query = tx.prepare_cached(
        "with recursive lineage (seq) as (
             values (?1)
             union
             select parent from lineage join tasks using (seq) where parent is not null
         )
         select distinct blocker
         from lineage join dependencies on blocked = lineage.seq
         order by blocker",
    )?;
    let blockers: Vec<i64> =
        query.query_map([task], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut done = Vec::new();
    for blocker in blockers {
        if Place::load(tx, blocker)?.is_done() {
            done.push(done_blocker(tx, blocker)?);
        }
    }
    Ok(done)
}

fn done_blocker(tx: &Transaction<'_>, seq: i64) -> Result<DoneBlocker> {
    let note: Option<String> = tx
        .prepare_cached(
            "select message
             from task_logs
             where task = ? and event in ('note', 'done') and message <> ''
             order by at desc
             limit 1",
        )?
        .query_row([seq], |row| row.get(0))
        .optional()?;
    let (id, title, description) = tx
        .prepare_cached("select id, title, description from tasks where seq = ?")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(DoneBlocker { id, title, summary: note.unwrap_or(description) })
}
