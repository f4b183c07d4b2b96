//! Adding tasks, one or many in one transaction.

use std::collections::HashMap;

use anyhow::{Context, Result, anyhow};
use rusqlite::{OptionalExtension, Transaction};
use serde::{Deserialize, Serialize};

use super::rows::{Place, stored_status};
use super::tasks::make_group;
use super::validate::{check_description, check_key, check_title};
use super::{Store, counters, dependencies, order, resolve};
use crate::dag::{AttemptId, FeatureId, Kind, Status, TaskId};
use crate::hint::HintExt;
use crate::time::{Timestamp, deserialize_not_before};

/// A task to be added. Other tasks are named by id, by the beginning of one, or, in a batch, by key.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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
    /// When it may be started at the earliest.
    #[serde(deserialize_with = "deserialize_not_before")]
    pub not_before: Option<Timestamp>,
    /// Adding another task with the same key adds nothing and finds this one.
    pub key: Option<String>,
    /// The line it stands on, where it comes from a file.
    #[serde(skip)]
    pub line: Option<usize>,
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
            let mut batch = Batch::new(tx, created_by, now);
            let add = |task: &NewTask| {
                let added = batch.add(task);
                match task.line {
                    Some(line) => added.with_context(|| format!("line {line}")),
                    None => added,
                }
            };
            tasks.iter().map(add).collect()
        })
    }
}

/// Tasks that are added in one transaction and may name each other by key.
pub(super) struct Batch<'a> {
    tx: &'a Transaction<'a>,
    created_by: Option<AttemptId>,
    now: Timestamp,
    keys: HashMap<String, i64>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        tx: &'a Transaction<'a>,
        created_by: Option<AttemptId>,
        now: Timestamp,
    ) -> Batch<'a> {
        Batch { tx, created_by, now, keys: HashMap::new() }
    }

    pub(super) fn add(&mut self, new: &NewTask) -> Result<TaskId> {
        check_title(&new.title)?;
        check_description(&new.description)?;
        if new.group && new.not_before.is_some() {
            return Err(anyhow!("a group can't be given a time to start"))
                .hint("give one to the tasks inside it");
        }
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
                 not_before, created_by, created_at, updated_at, waits, starts, ends
             )
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14, ?15, ?16)
             on conflict (id) do nothing",
        )?;
        loop {
            let id = TaskId::from_bits(random_bits()?);
            let added = insert.execute(rusqlite::params![
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
                new.not_before,
                self.created_by,
                self.now,
                parent.as_ref().is_some_and(Place::is_closed),
                span.start,
                span.end,
            ])?;
            if added > 0 {
                let seq = self.tx.last_insert_rowid();
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
