//! Who waits for whom.

use anyhow::{Result, anyhow, ensure};
use rusqlite::{OptionalExtension, ToSql, Transaction};

use super::rows::Place;
use super::{Store, counters, order, resolve};
use crate::dag::TaskId;
use crate::hint::HintExt;
use crate::time::Timestamp;

impl Store {
    /// Makes one task wait for another; false if it did already.
    pub fn add_dependency(
        &mut self,
        blocker: &str,
        blocked: &str,
        now: Timestamp,
    ) -> Result<(TaskId, TaskId, bool)> {
        self.write(|tx| {
            let (blocker, blocked) = (resolve::task(tx, blocker)?, resolve::task(tx, blocked)?);
            let added = add(tx, &blocker, &blocked)?;
            if added {
                touch(tx, &blocked, now)?;
            }
            Ok((blocker.id, blocked.id, added))
        })
    }

    /// Makes one task no longer wait for another.
    pub fn remove_dependency(
        &mut self,
        blocker: &str,
        blocked: &str,
        now: Timestamp,
    ) -> Result<(TaskId, TaskId)> {
        self.write(|tx| {
            let (blocker, blocked) = (resolve::task(tx, blocker)?, resolve::task(tx, blocked)?);
            if !remove(tx, &blocker, &blocked, now)? {
                return Err(anyhow!("`{}` does not wait for `{}`", blocked.id, blocker.id)).hint(
                    format!("`ralph task deps list {}` shows what it waits for", blocked.id),
                );
            }
            Ok((blocker.id, blocked.id))
        })
    }
}

/// A task outside some others that waits for one of them.
pub(super) struct Waiter {
    pub(super) id: TaskId,
    pub(super) title: String,
    pub(super) blocker: TaskId,
}

impl Waiter {
    /// What to do about it.
    pub(super) fn hint(&self) -> String {
        format!("remove that with `ralph task deps rm {} {}`", self.blocker, self.id)
    }
}

/// Who waits from outside for one of the tasks that `inside` names, a query that begins with `with` and
/// takes one parameter.
pub(super) fn first_waiter(
    tx: &Transaction<'_>,
    inside: &str,
    parameter: impl ToSql,
) -> Result<Option<Waiter>> {
    let query = format!(
        "{inside}
         select outer_task.id, outer_task.title, inner_task.id
         from inside
             join dependencies on blocker = inside.seq
             join tasks as outer_task on outer_task.seq = blocked
             join tasks as inner_task on inner_task.seq = blocker
         where blocked not in inside
         order by outer_task.seq
         limit 1"
    );
    let waiter = tx.query_row(&query, [parameter], |row| {
        Ok(Waiter { id: row.get(0)?, title: row.get(1)?, blocker: row.get(2)? })
    });
    Ok(waiter.optional()?)
}

/// Takes note that a task was changed.
fn touch(tx: &Transaction<'_>, task: &Place, now: Timestamp) -> Result<()> {
    tx.execute("update tasks set updated_at = ?2 where seq = ?1", (task.seq, now))?;
    Ok(())
}

/// Makes `blocked` wait for `blocker`; false if it did already.
pub(super) fn add(tx: &Transaction<'_>, blocker: &Place, blocked: &Place) -> Result<bool> {
    ensure!(blocker.seq != blocked.seq, "`{}` can't wait for itself", blocked.id);
    order::fit_dependency(tx, blocker, blocked)?;
    let added = tx
        .prepare_cached(
            "insert into dependencies (blocker, blocked) values (?1, ?2) on conflict do nothing",
        )?
        .execute((blocker.seq, blocked.seq))?;
    if added > 0 && !blocker.is_done() {
        counters::blocker_changed(tx, blocked.seq, true)?;
    }
    Ok(added > 0)
}

/// Makes `blocked` no longer wait for `blocker`; false if it did not.
pub(super) fn remove(
    tx: &Transaction<'_>,
    blocker: &Place,
    blocked: &Place,
    now: Timestamp,
) -> Result<bool> {
    let removed = tx.execute(
        "delete from dependencies where blocker = ?1 and blocked = ?2",
        (blocker.seq, blocked.seq),
    )?;
    if removed == 0 {
        return Ok(false);
    }
    if !blocker.is_done() {
        counters::blocker_changed(tx, blocked.seq, false)?;
    }
    touch(tx, blocked, now)?;
    Ok(true)
}
