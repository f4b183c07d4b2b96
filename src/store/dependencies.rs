//! Who waits for whom.

use anyhow::{Result, anyhow, ensure};
use rusqlite::Transaction;

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
            let removed = tx.execute(
                "delete from dependencies where blocker = ?1 and blocked = ?2",
                (blocker.seq, blocked.seq),
            )?;
            if removed == 0 {
                return Err(anyhow!("`{}` does not wait for `{}`", blocked.id, blocker.id)).hint(
                    format!("`ralph task deps list {}` shows what it waits for", blocked.id),
                );
            }
            if !blocker.is_done() {
                counters::blocker_changed(tx, blocked.seq, false)?;
            }
            touch(tx, &blocked, now)?;
            Ok((blocker.id, blocked.id))
        })
    }
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
