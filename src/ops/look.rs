//! Operations that only look.

use std::collections::HashMap;

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::{Caller, Operation};
use crate::dag::{Attempt, FeatureId, Kind, LogEntry, Snapshot, State, Task, TaskId};
use crate::store::Store;
use crate::time::Timestamp;

/// Tasks that were asked for, in a snapshot of all that they hang together with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Selection {
    /// The tasks around them, and they themselves.
    pub snapshot: Snapshot,
    /// Their places in the snapshot.
    pub chosen: Vec<usize>,
    /// The name of each feature.
    pub features: HashMap<FeatureId, String>,
}

impl Selection {
    fn new(snapshot: Snapshot, chosen: Vec<usize>, store: &Store) -> Result<Selection> {
        Ok(Selection { snapshot, chosen, features: feature_names(store)? })
    }
}

fn feature_names(store: &Store) -> Result<HashMap<FeatureId, String>> {
    Ok(store.features()?.into_iter().map(|feature| (feature.id, feature.name)).collect())
}

/// The tasks that match, in the order of creation; ready ones in the order in which they will be taken.
#[derive(Debug, Serialize, Deserialize)]
pub struct ListTasks {
    /// Only those that can be worked on now.
    pub ready: bool,
    /// Only those in one of these states; none means any.
    pub states: Vec<State>,
    /// Only those of this feature.
    pub feature: Option<String>,
}

impl Operation for ListTasks {
    type Answer = Selection;

    fn perform(self, store: &mut Store, _: &mut Caller, now: Timestamp) -> Result<Selection> {
        let snapshot = store.snapshot(now)?;
        let feature = self.feature.as_deref().map(|name| store.feature(name)).transpose()?;
        let mut chosen: Vec<usize> =
            if self.ready { snapshot.ready() } else { (0..snapshot.tasks.len()).collect() };
        chosen.retain(|&task| {
            (self.states.is_empty() || self.states.contains(&snapshot.state(task)))
                && feature.as_ref().is_none_or(|it| snapshot.tasks[task].feature == Some(it.id))
        });
        Selection::new(snapshot, chosen, store)
    }
}

/// The roots of a tree: one task, or all that are in no group.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskTree {
    /// The one root.
    pub id: Option<String>,
}

impl Operation for TaskTree {
    type Answer = Selection;

    fn perform(self, store: &mut Store, _: &mut Caller, now: Timestamp) -> Result<Selection> {
        let snapshot = store.snapshot(now)?;
        let roots = match &self.id {
            Some(id) => vec![store.find_in(&snapshot, id)?],
            None => snapshot.roots(),
        };
        Selection::new(snapshot, roots, store)
    }
}

/// The task that will be taken next.
#[derive(Debug, Serialize, Deserialize)]
pub struct NextTask {
    /// Of this feature.
    pub feature: Option<String>,
}

/// What will be taken next.
#[derive(Debug, Serialize, Deserialize)]
pub enum Next {
    /// This one task.
    Ready(Box<Selection>),
    /// Nothing.
    Nothing(Nothing),
}

/// Why no task is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nothing {
    /// There are no tasks.
    Empty,
    /// All are done.
    Done,
    /// The rest waits for what is in progress or not due yet.
    Later,
    /// What is left failed, is blocked, or waits for such.
    Stuck,
}

impl Operation for NextTask {
    type Answer = Next;

    fn perform(self, store: &mut Store, _: &mut Caller, now: Timestamp) -> Result<Next> {
        let feature = self.feature.as_deref().map(|name| store.feature(name)).transpose()?;
        let feature = feature.map(|feature| feature.id);
        match store.snapshot_of_next(feature, now)? {
            Some((snapshot, index)) => {
                Ok(Next::Ready(Box::new(Selection::new(snapshot, vec![index], store)?)))
            }
            None => Ok(Next::Nothing(why_nothing(&store.snapshot(now)?, feature))),
        }
    }
}

fn why_nothing(snapshot: &Snapshot, feature: Option<FeatureId>) -> Nothing {
    let is_wanted = |&task: &usize| {
        snapshot.kind(task) == Kind::Work
            && (feature.is_none() || snapshot.tasks[task].feature == feature)
    };
    let work: Vec<usize> = (0..snapshot.tasks.len()).filter(is_wanted).collect();
    let is_done = |task: &usize| snapshot.state(*task) == State::Done;
    if work.is_empty() {
        Nothing::Empty
    } else if work.iter().all(is_done) {
        Nothing::Done
    } else if work.iter().any(|task| !is_done(task) && snapshot.derived.can_finish[*task]) {
        Nothing::Later
    } else {
        Nothing::Stuck
    }
}

/// Everything about these tasks but what follows from the graph; nothing about one that is gone.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadTasks {
    /// The tasks.
    pub ids: Vec<TaskId>,
}

impl Operation for ReadTasks {
    type Answer = Vec<Option<Task>>;

    fn perform(self, store: &mut Store, _: &mut Caller, _: Timestamp) -> Result<Vec<Option<Task>>> {
        store.tasks(&self.ids)
    }
}

/// One task with its history.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShowTask {
    /// The task.
    pub id: String,
}

/// What there is to say about one task.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    /// The task.
    pub task: Task,
    /// What it hangs together with.
    pub snapshot: Snapshot,
    /// Its place there.
    pub index: usize,
    /// The name of each feature.
    pub features: HashMap<FeatureId, String>,
    /// The attempts on it.
    pub attempts: Vec<Attempt>,
    /// What happened to it.
    pub log: Vec<LogEntry>,
}

impl Operation for ShowTask {
    type Answer = Shown;

    fn perform(self, store: &mut Store, _: &mut Caller, now: Timestamp) -> Result<Shown> {
        let (snapshot, index) = store.snapshot_around(&self.id, now)?;
        let id = snapshot.tasks[index].id;
        let task = store.task(id)?.ok_or_else(|| anyhow!("`{id}` was deleted just now"))?;
        let (attempts, log) = (store.attempts(id)?, store.task_log(id)?);
        Ok(Shown { task, snapshot, index, features: feature_names(store)?, attempts, log })
    }
}

/// What happened to a task, oldest first.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskLog {
    /// The task.
    pub id: String,
}

impl Operation for TaskLog {
    type Answer = Vec<LogEntry>;

    fn perform(self, store: &mut Store, _: &mut Caller, _: Timestamp) -> Result<Vec<LogEntry>> {
        store.task_log(store.find_task(&self.id)?)
    }
}
