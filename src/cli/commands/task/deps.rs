//! `ralph task deps`

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::cli::args::{DepsCommand, OneTask};
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{State, TaskId};
use crate::ops::{AddDependency, RemoveDependency, ShowTask, Shown};
use crate::ui::json::Array;
use crate::ui::list;

#[derive(Serialize)]
struct DependencyView {
    blocker: TaskId,
    blocked: TaskId,
    done: bool,
}

pub(super) fn run(command: DepsCommand, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    match command {
        DepsCommand::Add { blocker, blocked } => {
            let (blocker, blocked, added) =
                setup.dag()?.perform(AddDependency { blocker, blocked })?;
            let already = if added { "" } else { " already" };
            setup.say(&format!("{blocked} waits for {blocker}{already}"));
        }
        DepsCommand::Rm { blocker, blocked } => {
            let (blocker, blocked) = setup.dag()?.perform(RemoveDependency { blocker, blocked })?;
            setup.say(&format!("{blocked} no longer waits for {blocker}"));
        }
        DepsCommand::List(one) => list(&one, setup, out)?,
    }
    Ok(Exit::Done)
}

fn list(one: &OneTask, setup: &Setup, out: &mut dyn Write) -> Result<()> {
    let Shown { snapshot, index: task, features, .. } =
        setup.dag()?.perform(ShowTask { id: one.id.clone() })?;
    let (blockers, blocked) = (snapshot.graph.blockers(task), snapshot.graph.blocked(task));
    let (blockers, blocked): (Vec<usize>, Vec<usize>) = (blockers.collect(), blocked.collect());
    if one.json.json {
        let mut array = Array::begin(out)?;
        let before = blockers.iter().map(|&blocker| (blocker, task));
        for (blocker, blocked) in before.chain(blocked.iter().map(|&blocked| (task, blocked))) {
            array.push(&DependencyView {
                blocker: snapshot.tasks[blocker].id,
                blocked: snapshot.tasks[blocked].id,
                done: snapshot.state(blocker) == State::Done,
            })?;
        }
        array.end()?;
        return Ok(());
    }
    let id = snapshot.tasks[task].id;
    for (heading, tasks) in [("waits for", blockers), ("is waited for by", blocked)] {
        if tasks.is_empty() {
            writeln!(out, "{id} {heading} nothing")?;
        } else {
            writeln!(out, "{id} {heading}")?;
            list::write(out, &snapshot, &tasks, &features, setup.terminal())?;
        }
    }
    Ok(())
}
