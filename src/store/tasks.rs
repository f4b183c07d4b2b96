//! Changing, moving, reading and deleting tasks.

use anyhow::{Result, anyhow, bail, ensure};
use rusqlite::{OptionalExtension, Transaction};
use serde::{Deserialize, Deserializer, Serialize};

use super::dependencies::first_waiter;
use super::resolve::shorten;
use super::rows::Place;
use super::validate::{check_description, check_title};
use super::{INSIDE, Store, counters, order, resolve};
use crate::dag::{Kind, Status, Task, TaskId};
use crate::hint::HintExt;
use crate::time::Timestamp;

/// What to change in a task; what is none stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Another priority.
    pub priority: Option<i32>,
    /// Other retries; the inner none is "what the run says".
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<Option<u32>>,
    /// When it may be started at the earliest; the inner none is "at any time".
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Option<Timestamp>>,
    /// Another parent; the inner none is "no parent".
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub parent: Option<Option<String>>,
}

/// A field that is there was given, even if it is null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(field: D) -> Result<Option<T>, D::Error> {
    T::deserialize(field).map(Some)
}

/// What a deletion removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How many tasks are inside it, at any depth.
    pub inside: usize,
}

impl Store {
    /// Changes a task.
    pub fn update_task(&mut self, task: &str, change: &Change, now: Timestamp) -> Result<TaskId> {
        self.write(|tx| {
            let place = resolve::task(tx, task)?;
            if let Some(title) = &change.title {
                check_title(title)?;
            }
            if let Some(description) = &change.description {
                check_description(description)?;
            }
            tx.prepare_cached(
                "update tasks
                 set title = coalesce(?2, title),
                     description = coalesce(?3, description),
                     priority = coalesce(?4, priority),
                     max_retries = iif(?5, ?6, max_retries),
                     updated_at = ?7
                 where seq = ?1",
            )?
            .execute((
                place.seq,
                change.title.as_deref().map(str::trim),
                &change.description,
                change.priority,
                change.max_retries.is_some(),
                change.max_retries.flatten(),
                now,
            ))?;
            if let Some(not_before) = change.not_before {
                let can_wait = place.kind == Kind::Work && place.status == Status::Pending;
                if not_before.is_some() && !can_wait {
                    return Err(anyhow!("`{}` can't be given a time to start", place.id))
                        .hint("only a task that is pending has one, and no group");
                }
                tx.prepare_cached("update tasks set not_before = ?2 where seq = ?1")?
                    .execute((place.seq, not_before))?;
            }
            if let Some(parent) = &change.parent {
                let parent =
                    parent.as_deref().map(|parent| resolve::task(tx, parent)).transpose()?;
                move_task(tx, &place, parent.as_ref())?;
            }
            Ok(place.id)
        })
    }

    /// What deleting the task would remove; an error if something outside waits for it.
    pub fn plan_deletion(&self, task: &str) -> Result<Deletion> {
        self.read(|tx| plan_deletion(tx, &resolve::task(tx, task)?))
    }

    /// Deletes the task and everything inside it, or nothing.
    pub fn delete_task(&mut self, task: &str) -> Result<Deletion> {
        self.write(|tx| {
            let place = resolve::task(tx, task)?;
            let deletion = plan_deletion(tx, &place)?;
            tx.execute(&format!("{INSIDE} delete from tasks where seq in inside"), [place.seq])?;
            if let Some(parent) = place.parent {
                counters::child_changed(tx, parent, place.is_done(), false)?;
            }
            Ok(deletion)
        })
    }

    /// The id that this text means.
    pub fn find_task(&self, task: &str) -> Result<TaskId> {
        self.read(|tx| Ok(resolve::task(tx, task)?.id))
    }

    /// The task that was added under this key.
    pub fn find_key(&self, key: &str) -> Result<Option<TaskId>> {
        let mut query = self.connection.prepare_cached("select id from tasks where key = ?")?;
        Ok(query.query_row([key], |row| row.get(0)).optional()?)
    }

    /// The facts of a task, if there is such a task.
    pub fn task(&self, id: TaskId) -> Result<Option<Task>> {
        Ok(self.tasks(&[id])?.pop().flatten())
    }

    /// The facts of these tasks, in this order; none for one that is gone.
    pub fn tasks(&self, ids: &[TaskId]) -> Result<Vec<Option<Task>>> {
        self.read(|tx| {
            let mut query = tx.prepare_cached(&format!(
                "select {} from tasks as task left join tasks as parent on parent.seq = task.parent
                 where task.id = ?",
                Task::COLUMNS
            ))?;
            let mut find = |&id| query.query_row([id], Task::from_row).optional();
            Ok(ids.iter().map(&mut find).collect::<Result<_, _>>()?)
        })
    }
}

/// A work task that is given a child becomes a group, whatever its status was.
pub(super) fn make_group(tx: &Transaction<'_>, place: &Place) -> Result<Place> {
    if place.kind == Kind::Group {
        return Ok(place.clone());
    }
    let held = place.status == Status::Blocked;
    tx.prepare_cached(
        "update tasks
         set kind = 'group', status = ?2, reason = iif(?2 is null, null, reason), retries = 0, not_before = null
         where seq = ?1",
    )?
    .execute((place.seq, held.then_some(Status::Blocked)))?;
    if place.is_done() {
        counters::done_changed(tx, place.seq, false)?;
    }
    Ok(Place::load(tx, place.seq)?)
}

fn move_task(tx: &Transaction<'_>, place: &Place, parent: Option<&Place>) -> Result<()> {
    if place.parent == parent.map(|parent| parent.seq) {
        return Ok(());
    }
    if let Some(parent) = parent {
        ensure!(parent.seq != place.seq, "`{}` can't go into itself", place.id);
        if parent.feature != place.feature {
            bail!("`{}` and `{}` belong to different features", place.id, parent.id);
        }
    }
    // First out of the old group, so that the order holds for a task without parent …
    let mut set_parent = tx.prepare_cached("update tasks set parent = ?2 where seq = ?1")?;
    if let Some(old) = place.parent {
        set_parent.execute((place.seq, None::<i64>))?;
        counters::child_changed(tx, old, place.is_done(), false)?;
        if Place::load(tx, old)?.is_closed() {
            counters::blocker_changed(tx, place.seq, false)?;
        }
    }
    // … then into the new one.
    if let Some(parent) = parent {
        order::fit_parent(tx, place, &Place::load(tx, parent.seq)?)?;
        let parent = make_group(tx, &Place::load(tx, parent.seq)?)?;
        set_parent.execute((place.seq, parent.seq))?;
        if parent.is_closed() {
            counters::blocker_changed(tx, place.seq, true)?;
        }
        counters::child_changed(tx, parent.seq, place.is_done(), true)?;
    }
    Ok(())
}

fn plan_deletion(tx: &Transaction<'_>, place: &Place) -> Result<Deletion> {
    if let Some(waiter) = first_waiter(tx, INSIDE, place.seq)? {
        return Err(anyhow!(
            "`{}` can't be deleted: {} \"{}\" waits for {}",
            place.id,
            waiter.id,
            shorten(&waiter.title),
            waiter.blocker
        ))
        .hint(waiter.hint());
    }
    let count: u32 =
        tx.query_row(&format!("{INSIDE} select count(*) from inside"), [place.seq], |row| {
            row.get(0)
        })?;
    let title =
        tx.query_row("select title from tasks where seq = ?", [place.seq], |row| row.get(0))?;
    Ok(Deletion { id: place.id, title, inside: count as usize - 1 })
}
