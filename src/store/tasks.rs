//! Adding, changing, reading and deleting tasks.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rusqlite::{OptionalExtension, Transaction};
use serde::Deserialize;

use super::resolve::shorten;
use super::rows::{Place, stored_status};
use super::{INSIDE, Store, counters, dependencies, order, resolve};
use crate::dag::{AttemptId, FeatureId, Kind, LogEntry, LogEvent, Status, Task, TaskId};
use crate::hint::HintExt;
use crate::time::Timestamp;

/// The longest title, in characters.
pub(super) const MAX_TITLE: usize = 500;
/// The longest description, in bytes.
pub(super) const MAX_DESCRIPTION: usize = 16 << 20;
const MAX_KEY: usize = 200;

/// A task to be added. Other tasks are named by id, by the beginning of one, or, in a batch, by key.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NewTask {
    /// One line.
    pub title: String,
    /// As many as needed.
    pub description: String,
    /// Whether it is made to hold others.
    pub group: bool,
    /// The task it goes into.
    pub parent: Option<String>,
    /// The name or id of the feature it belongs to; by default its parent's.
    pub feature: Option<String>,
    /// The tasks it waits for.
    pub after: Vec<String>,
    /// Lower first.
    pub priority: i32,
    /// How often it may be tried again.
    pub max_retries: Option<u32>,
    /// Adding another task with the same key adds nothing and finds this one.
    pub key: Option<String>,
}

/// What to change in a task; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Another priority.
    pub priority: Option<i32>,
    /// Other retries; the inner none is "what the run says".
    pub max_retries: Option<Option<u32>>,
    /// Another parent; the inner none is "no parent".
    pub parent: Option<Option<String>>,
}

/// What a deletion removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The task.
    pub id: TaskId,
    /// Its title.
    pub title: String,
    /// How many tasks are inside it, at any depth.
    pub inside: usize,
}

impl Store {
    /// Adds these tasks, all or none, and returns their ids in order.
    pub fn add_tasks(
        &mut self,
        tasks: &[NewTask],
        created_by: Option<AttemptId>,
        now: Timestamp,
    ) -> Result<Vec<TaskId>> {
        self.write(|tx| {
            let mut batch = Batch { tx, created_by, now, keys: HashMap::new() };
            let number = |at: usize| move || format!("task {} of {}", at + 1, tasks.len());
            let add = |(at, task)| {
                let added = batch.add(task);
                if tasks.len() > 1 { added.with_context(number(at)) } else { added }
            };
            tasks.iter().enumerate().map(add).collect()
        })
    }

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

    /// The facts of a task.
    pub fn task(&self, id: TaskId) -> Result<Task> {
        let query = format!(
            "select {} from tasks as task left join tasks as parent on parent.seq = task.parent
             where task.id = ?",
            Task::COLUMNS
        );
        Ok(self.connection.query_row(&query, [id], Task::from_row)?)
    }

    /// Hands the facts of every task to `each`, in the order of creation.
    pub fn each_task(&self, mut each: impl FnMut(Task) -> Result<()>) -> Result<()> {
        self.read(|tx| {
            let mut query = tx.prepare(&format!(
                "select {} from tasks as task left join tasks as parent on parent.seq = task.parent
                 order by task.seq",
                Task::COLUMNS
            ))?;
            for task in query.query_map([], Task::from_row)? {
                each(task?)?;
            }
            Ok(())
        })
    }

    /// Adds a note to the log of a task.
    pub fn note(
        &mut self,
        task: &str,
        message: &str,
        author: Option<AttemptId>,
        now: Timestamp,
    ) -> Result<TaskId> {
        ensure!(!message.trim().is_empty(), "a note can't be empty");
        check_text("a note", message)?;
        self.write(|tx| {
            let place = resolve::task(tx, task)?;
            log(tx, place.seq, LogEvent::Note, author, message, now)?;
            Ok(place.id)
        })
    }

    /// The log of a task, oldest first.
    pub fn task_log(&self, id: TaskId) -> Result<Vec<LogEntry>> {
        let mut query = self.connection.prepare(&format!(
            "select {} from task_logs where task = (select seq from tasks where id = ?) order by at",
            LogEntry::COLUMNS
        ))?;
        Ok(query.query_map([id], LogEntry::from_row)?.collect::<Result<_, _>>()?)
    }
}

/// Tasks that are added in one transaction and may name each other by key.
struct Batch<'a> {
    tx: &'a Transaction<'a>,
    created_by: Option<AttemptId>,
    now: Timestamp,
    keys: HashMap<String, i64>,
}

impl Batch<'_> {
    fn add(&mut self, new: &NewTask) -> Result<TaskId> {
        check_title(&new.title)?;
        check_description(&new.description)?;
        if let Some(key) = &new.key {
            check_key(key)?;
            if let Some((seq, id)) = self.find_key(key)? {
                self.keys.insert(key.clone(), seq);
                return Ok(id);
            }
        }
        let parent = new.parent.as_deref().map(|parent| self.find(parent)).transpose()?;
        let feature = self.feature_of(new, parent.as_ref())?;
        let (seq, id) = self.insert(new, parent.as_ref(), feature)?;
        for blocker in &new.after {
            let blocker = self.find(blocker)?;
            dependencies::add(self.tx, &blocker, &Place::load(self.tx, seq)?)?;
        }
        if let Some(key) = &new.key {
            self.keys.insert(key.clone(), seq);
        }
        Ok(id)
    }

    fn find(&self, text: &str) -> Result<Place> {
        match self.keys.get(text) {
            Some(&seq) => Ok(Place::load(self.tx, seq)?),
            None => match self.find_key(text)? {
                Some((seq, _)) => Ok(Place::load(self.tx, seq)?),
                None => resolve::task(self.tx, text),
            },
        }
    }

    fn find_key(&self, key: &str) -> Result<Option<(i64, TaskId)>> {
        Ok(self
            .tx
            .prepare_cached("select seq, id from tasks where key = ?")?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?)
    }

    fn feature_of(&self, new: &NewTask, parent: Option<&Place>) -> Result<Option<FeatureId>> {
        let Some(name) = &new.feature else {
            return Ok(parent.and_then(|parent| parent.feature));
        };
        let (feature, name) = resolve::feature(self.tx, name)?;
        if let Some(parent) = parent.filter(|parent| parent.feature != Some(feature)) {
            return Err(anyhow!("the parent `{}` does not belong to feature `{name}`", parent.id))
                .hint("leave out --feature, or choose a parent inside that feature");
        }
        Ok(Some(feature))
    }

    fn insert(
        &self,
        new: &NewTask,
        parent: Option<&Place>,
        feature: Option<FeatureId>,
    ) -> Result<(i64, TaskId)> {
        let kind = if new.group { Kind::Group } else { Kind::Work };
        let parent = parent.map(|parent| make_group(self.tx, parent)).transpose()?;
        let span = order::place(self.tx, parent.as_ref(), kind)?;
        let mut insert = self.tx.prepare_cached(
            "insert into tasks (
                 id, key, kind, parent, feature, title, description, priority, status, max_retries,
                 created_by, created_at, updated_at, waits, starts, ends
             )
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15)
             on conflict (id) do nothing
             returning seq",
        )?;
        loop {
            let id = TaskId::from_bits(random_bits()?);
            let seq = insert
                .query_row(
                    rusqlite::params![
                        id,
                        new.key,
                        kind,
                        parent.as_ref().map(|parent| parent.seq),
                        feature,
                        new.title.trim(),
                        new.description,
                        new.priority,
                        stored_status(kind, Status::Pending),
                        new.max_retries,
                        self.created_by,
                        self.now,
                        parent.as_ref().is_some_and(Place::is_closed),
                        span.start,
                        span.end,
                    ],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(seq) = seq {
                if let Some(parent) = &parent {
                    counters::child_changed(self.tx, parent.seq, false, true)?;
                }
                return Ok((seq, id));
            }
        }
    }
}

/// Random bits for an id.
pub(super) fn random_bits() -> Result<u32> {
    getrandom::u32().map_err(|error| anyhow!("the system gives no random numbers: {error}"))
}

/// A work task that is given a child becomes a group, whatever its status was.
fn make_group(tx: &Transaction<'_>, place: &Place) -> Result<Place> {
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
    let waiting: Option<(TaskId, String, TaskId)> = tx
        .query_row(
            &format!(
                "{INSIDE}
                 select outer_task.id, outer_task.title, inner_task.id
                 from inside
                     join dependencies on blocker = inside.seq
                     join tasks as outer_task on outer_task.seq = blocked
                     join tasks as inner_task on inner_task.seq = blocker
                 where blocked not in inside
                 order by outer_task.seq
                 limit 1"
            ),
            [place.seq],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    if let Some((waiter, title, blocker)) = waiting {
        return Err(anyhow!(
            "`{}` can't be deleted: {waiter} \"{}\" waits for {blocker}",
            place.id,
            shorten(&title)
        ))
        .hint(format!("remove that with `ralph task deps rm {blocker} {waiter}`"));
    }
    let count: u32 =
        tx.query_row(&format!("{INSIDE} select count(*) from inside"), [place.seq], |row| {
            row.get(0)
        })?;
    let title =
        tx.query_row("select title from tasks where seq = ?", [place.seq], |row| row.get(0))?;
    Ok(Deletion { id: place.id, title, inside: count as usize - 1 })
}

/// Adds an entry to the log of a task, later than all its others whatever the clock says.
pub(super) fn log(
    tx: &Transaction<'_>,
    task: i64,
    event: LogEvent,
    author: Option<AttemptId>,
    message: &str,
    now: Timestamp,
) -> Result<()> {
    let last: Option<Timestamp> = tx
        .prepare_cached("select max(at) from task_logs where task = ?")?
        .query_row([task], |row| row.get(0))?;
    let at = match last {
        Some(last) if last >= now => last.plus(std::time::Duration::from_millis(1)),
        _ => now,
    };
    tx.prepare_cached(
        "insert into task_logs (task, at, event, author, message) values (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((task, at, event, author, message))?;
    Ok(())
}

pub(super) fn check_title(title: &str) -> Result<()> {
    ensure!(!title.trim().is_empty(), "the title is empty");
    check_text("the title", title)?;
    let length = title.trim().chars().count();
    if length > MAX_TITLE {
        return Err(anyhow!("the title has {length} characters, more than {MAX_TITLE}"))
            .hint("keep the title to a line and put the rest into the description (-d)");
    }
    if title.trim().contains(['\n', '\r']) {
        return Err(anyhow!(
            "the title `{}` has more than one line",
            shorten(title.trim()).escape_debug()
        ))
        .hint("put the rest into the description (-d)");
    }
    Ok(())
}

pub(super) fn check_description(description: &str) -> Result<()> {
    check_text("the description", description)?;
    ensure!(
        description.len() <= MAX_DESCRIPTION,
        "the description has {} bytes, more than {MAX_DESCRIPTION}",
        description.len()
    );
    Ok(())
}

pub(super) fn check_key(key: &str) -> Result<()> {
    ensure!(!key.trim().is_empty(), "the key is empty");
    check_text("the key", key)?;
    ensure!(key.chars().count() <= MAX_KEY, "the key has more than {MAX_KEY} characters");
    ensure!(!TaskId::is_prefix(key), "the key `{key}` looks like a task id");
    Ok(())
}

pub(super) fn check_text(what: &str, text: &str) -> Result<()> {
    ensure!(!text.contains('\0'), "{what} contains a NUL character");
    Ok(())
}
