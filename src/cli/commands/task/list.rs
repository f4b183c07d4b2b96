//! `ralph task list`

use std::io::Write;

use anyhow::Result;

use crate::cli::args::StatusFilter;
use crate::cli::exit::Exit;
use crate::cli::setup::{Dag, Setup};
use crate::dag::{State, TaskId};
use crate::ops::{ListTasks, ReadTasks, Selection};
use crate::ui::json::{Array, TaskView};
use crate::ui::list;

/// How many tasks are read in one transaction.
const READ_AT_ONCE: usize = 100;

pub(super) fn run(
    filter: ListTasks,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut dag = setup.dag()?;
    let listed = dag.perform(filter)?;
    if json {
        let tasks = listed.chosen.iter().map(|&task| (task, None));
        write_json(out, &mut dag, &listed, tasks)?;
    } else {
        list::write(out, &listed.snapshot, &listed.chosen, &listed.features, setup.terminal())?;
    }
    Ok(Exit::Done)
}

impl StatusFilter {
    /// The states it stands for.
    pub(super) fn states(self) -> &'static [State] {
        match self {
            StatusFilter::Pending => &[State::Ready, State::Waiting],
            StatusFilter::Ready => &[State::Ready],
            StatusFilter::Waiting => &[State::Waiting],
            StatusFilter::InProgress => &[State::InProgress],
            StatusFilter::Blocked => &[State::Blocked],
            StatusFilter::Done => &[State::Done],
            StatusFilter::Failed => &[State::Failed],
        }
    }
}

/// Writes these tasks as an array, each with its depth if it has one. Only the graph is in memory:
/// their texts are read a few at a time, and what is read is written before the next, so that a slow
/// reader does not keep the database open.
pub(super) fn write_json(
    out: &mut dyn Write,
    dag: &mut Dag,
    listed: &Selection,
    mut tasks: impl Iterator<Item = (usize, Option<usize>)>,
) -> Result<()> {
    let Selection { snapshot, features, .. } = listed;
    let mut array = Array::begin(out)?;
    loop {
        let some: Vec<_> = tasks.by_ref().take(READ_AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        let ids: Vec<TaskId> = some.iter().map(|&(index, _)| snapshot.tasks[index].id).collect();
        for ((index, depth), task) in some.into_iter().zip(dag.perform(ReadTasks { ids })?) {
            // Deleted since the snapshot was taken, if it is not there.
            let Some(task) = task else { continue };
            let view = TaskView::new(&task, snapshot, index, features);
            array.push(&TaskView { depth, ..view })?;
        }
    }
    array.end()?;
    Ok(())
}
