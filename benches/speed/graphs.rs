//! Large graphs, each of a shape that is hard in its own way.

use anyhow::Result;
use ralph::dag::{TaskId, Verb};
use ralph::store::{NewTask, Store};
use ralph::time::Timestamp;

const BATCH: usize = 10_000;

/// How the tasks hang together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Each waits for the one before it.
    Chain,
    /// All waited for the first, which is done: all others are ready.
    Fan,
    /// Ten tasks in a group, ten groups in a group, and so on.
    Groups,
    /// All wait for one, which would be the last to be taken.
    OneBlocker,
}

impl Shape {
    pub(crate) const ALL: [Shape; 4] = [Shape::Chain, Shape::Fan, Shape::Groups, Shape::OneBlocker];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Chain => "deep chain",
            Shape::Fan => "wide fan",
            Shape::Groups => "nested groups",
            Shape::OneBlocker => "all wait for one",
        }
    }
}

/// Fills an empty store with this many tasks, and returns the ids of the first and the last.
pub(crate) fn fill(store: &mut Store, shape: Shape, count: usize) -> Result<(TaskId, TaskId)> {
    let now = Timestamp::now();
    let (mut first, mut last) = (None, None);
    let mut added = 0;
    while added < count {
        let batch: Vec<NewTask> =
            (added..count.min(added + BATCH)).map(|number| task(shape, number)).collect();
        added += batch.len();
        let ids = store.add_tasks(&batch, None, now)?;
        first = first.or(ids.first().copied());
        last = ids.last().copied();
        if let (Shape::Fan, Some(root), true) = (shape, first, added == batch.len()) {
            store.apply(Verb::Done, &root.to_string(), None, None, now)?;
        }
    }
    Ok((first.expect("there are tasks"), last.expect("there are tasks")))
}

fn task(shape: Shape, number: usize) -> NewTask {
    let mut task = NewTask {
        title: format!("Task number {number} of a graph"),
        key: Some(key(number)),
        ..NewTask::default()
    };
    match shape {
        Shape::Chain if number > 0 => task.after = vec![key(number - 1)],
        Shape::Fan | Shape::OneBlocker if number > 0 => task.after = vec![key(0)],
        Shape::Groups if number > 0 => task.parent = Some(key((number - 1) / 10)),
        _ => {}
    }
    // The one that all others wait for comes last in the order of priority.
    if matches!(shape, Shape::OneBlocker) && number == 0 {
        task.priority = 1;
    }
    task
}

fn key(number: usize) -> String {
    format!("k{number}")
}
