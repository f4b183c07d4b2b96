//! `ralph task list`

use std::io::Write;

use anyhow::Result;

use crate::cli::args::StatusFilter;
use crate::cli::commands::feature_names;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Snapshot, State, TaskId};
use crate::store::Store;
use crate::time::Timestamp;
use crate::ui::json::{Array, TaskView};
use crate::ui::list;

/// How many tasks are read in one transaction.
const READ_AT_ONCE: usize = 100;

/// Which tasks are wanted.
pub(super) struct Filter {
    pub(super) ready: bool,
    pub(super) status: Vec<StatusFilter>,
    pub(super) feature: Option<String>,
}

pub(super) fn run(filter: &Filter, json: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let tasks = filter.apply(&store, &snapshot)?;
    if json {
        write_json(out, &store, &snapshot, tasks.into_iter().map(|task| (task, None)))?;
    } else {
        list::write(out, &snapshot, &tasks, &feature_names(&store)?, setup.terminal())?;
    }
    Ok(Exit::Done)
}

impl Filter {
    fn apply(&self, store: &Store, snapshot: &Snapshot) -> Result<Vec<usize>> {
        let feature = self.feature.as_deref().map(|name| store.feature(name)).transpose()?;
        let mut tasks: Vec<usize> =
            if self.ready { snapshot.ready() } else { (0..snapshot.tasks.len()).collect() };
        tasks.retain(|&task| {
            let state = snapshot.state(task);
            (self.status.is_empty() || self.status.iter().any(|status| status.matches(state)))
                && feature.as_ref().is_none_or(|it| snapshot.tasks[task].feature == Some(it.id))
        });
        Ok(tasks)
    }
}

impl StatusFilter {
    fn matches(self, state: State) -> bool {
        match self {
            StatusFilter::Pending => matches!(state, State::Ready | State::Waiting),
            StatusFilter::Ready => state == State::Ready,
            StatusFilter::Waiting => state == State::Waiting,
            StatusFilter::InProgress => state == State::InProgress,
            StatusFilter::Blocked => state == State::Blocked,
            StatusFilter::Done => state == State::Done,
            StatusFilter::Failed => state == State::Failed,
        }
    }
}

/// Writes these tasks as an array, each with its depth if it has one. Only the graph is in memory:
/// their texts are read a few at a time, and what is read is written before the next, so that a slow
/// reader does not keep the database open.
pub(super) fn write_json(
    out: &mut dyn Write,
    store: &Store,
    snapshot: &Snapshot,
    mut tasks: impl Iterator<Item = (usize, Option<usize>)>,
) -> Result<()> {
    let features = feature_names(store)?;
    let mut array = Array::begin(out)?;
    loop {
        let some: Vec<_> = tasks.by_ref().take(READ_AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        let ids: Vec<TaskId> = some.iter().map(|&(index, _)| snapshot.tasks[index].id).collect();
        for ((index, depth), task) in some.into_iter().zip(store.tasks(&ids)?) {
            // Deleted since the snapshot was taken, if it is not there.
            let Some(task) = task else { continue };
            let view = TaskView::new(&task, snapshot, index, &features);
            array.push(&TaskView { depth, ..view })?;
        }
    }
    array.end()?;
    Ok(())
}
