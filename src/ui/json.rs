//! Tasks as JSON. The names of the fields are a promise: fields are added, the old ones stay.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::dag::{Attempt, FeatureId, Kind, LogEntry, Snapshot, State, Task, TaskId};
use crate::time::Timestamp;

/// A task with what follows for it.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are described in the README, where users look")]
pub struct TaskView<'a> {
    pub id: TaskId,
    pub kind: Kind,
    pub title: &'a str,
    pub description: &'a str,
    pub status: &'static str,
    pub ready: bool,
    pub waiting_on: Vec<TaskId>,
    pub after: Vec<TaskId>,
    pub parent: Option<TaskId>,
    pub feature: Option<&'a str>,
    pub priority: i32,
    pub attempts: u32,
    pub retries: u32,
    pub max_retries: Option<u32>,
    pub reason: Option<&'a str>,
    pub not_before: Option<Timestamp>,
    pub key: Option<&'a str>,
    pub created_by: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// How many groups it is in, in a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Its attempts, where one task is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<&'a [Attempt]>,
    /// Its log, where one task is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<&'a [LogEntry]>,
}

impl<'a> TaskView<'a> {
    /// The task at this place in the snapshot.
    pub fn new(
        task: &'a Task,
        snapshot: &Snapshot,
        index: usize,
        features: &'a HashMap<FeatureId, String>,
    ) -> TaskView<'a> {
        let ids =
            |tasks: Vec<usize>| tasks.into_iter().map(|task| snapshot.tasks[task].id).collect();
        let state = snapshot.state(index);
        TaskView {
            id: task.id,
            kind: task.kind,
            title: &task.title,
            description: &task.description,
            status: state.status(),
            ready: state == State::Ready,
            waiting_on: ids(snapshot.waiting_on(index)),
            after: ids(snapshot.graph.blockers(index).collect()),
            parent: task.parent,
            feature: task.feature.and_then(|id| features.get(&id)).map(String::as_str),
            priority: task.priority,
            attempts: snapshot.tasks[index].attempts,
            retries: task.retries,
            max_retries: task.max_retries,
            reason: task.reason.as_deref(),
            not_before: task.not_before,
            key: task.key.as_deref(),
            created_by: task.created_by.map(|attempt| attempt.to_string()),
            created_at: task.created_at,
            updated_at: task.updated_at,
            depth: None,
            history: None,
            log: None,
        }
    }
}

/// An array that is written element by element, so that it never has to be in memory as a whole.
pub struct Array<'a> {
    out: &'a mut dyn Write,
    is_empty: bool,
    // Many small writes through `dyn Write` would take longer than making what is written.
    element: Vec<u8>,
}

impl<'a> Array<'a> {
    /// Begins an array.
    pub fn begin(out: &'a mut dyn Write) -> io::Result<Array<'a>> {
        out.write_all(b"[")?;
        Ok(Array { out, is_empty: true, element: Vec::new() })
    }

    /// Adds an element.
    pub fn push(&mut self, element: &impl Serialize) -> io::Result<()> {
        self.element.clear();
        self.element.extend_from_slice(if self.is_empty { b"\n" } else { b",\n" });
        self.is_empty = false;
        serde_json::to_writer(&mut self.element, element)?;
        self.out.write_all(&self.element)
    }

    /// Ends the array.
    pub fn end(self) -> io::Result<()> {
        self.out.write_all(if self.is_empty { b"]\n" } else { b"\n]\n" })
    }
}

/// Writes one value on a line of its own.
pub fn write(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
