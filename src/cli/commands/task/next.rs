//! `ralph task next`

use std::io::Write;

use anyhow::{Result, anyhow};

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::ops::{Next, NextTask, Nothing, ReadTasks};
use crate::ui::json::{self, TaskView};
use crate::ui::list;

pub(super) fn run(
    feature: Option<&str>,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut dag = setup.dag()?;
    let next = match dag.perform(NextTask { feature: feature.map(str::to_owned) })? {
        Next::Ready(next) => next,
        Next::Nothing(nothing) => {
            if json {
                json::write(out, &())?;
            }
            return Ok(explain(nothing, setup));
        }
    };
    if json {
        let ids = next.chosen.iter().map(|&index| next.snapshot.tasks[index].id).collect();
        for (&index, task) in next.chosen.iter().zip(dag.perform(ReadTasks { ids })?) {
            let task = task.ok_or_else(|| anyhow!("the next task was deleted just now"))?;
            json::write(out, &TaskView::new(&task, &next.snapshot, index, &next.features))?;
        }
    } else {
        list::write(out, &next.snapshot, &next.chosen, &next.features, setup.terminal())?;
    }
    Ok(Exit::Done)
}

fn explain(nothing: Nothing, setup: &Setup) -> Exit {
    let (text, exit) = match nothing {
        Nothing::Empty => ("there are no tasks", Exit::Stuck),
        Nothing::Done => ("everything is done", Exit::Done),
        Nothing::Later => {
            let text =
                "nothing is ready now: the rest waits for what is in progress or not due yet";
            (text, Exit::Done)
        }
        Nothing::Stuck => {
            ("nothing can go on: what is left failed, is blocked, or waits for such", Exit::Stuck)
        }
    };
    setup.say(&format!("{text}; `ralph status` shows more"));
    exit
}
