//! `ralph task next`

use std::io::Write;

use anyhow::{Result, anyhow};

use crate::cli::commands::feature_names;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Kind, Snapshot, State};
use crate::time::Timestamp;
use crate::ui::json::{self, TaskView};
use crate::ui::list;

pub(super) fn run(
    feature: Option<&str>,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let store = setup.store()?;
    let now = Timestamp::now();
    let feature = feature.map(|name| store.feature(name)).transpose()?.map(|feature| feature.id);
    let Some((snapshot, index)) = store.snapshot_of_next(feature, now)? else {
        if json {
            json::write(out, &())?;
        }
        let snapshot = store.snapshot(now)?;
        let is_wanted =
            |task: &usize| feature.is_none() || snapshot.tasks[*task].feature == feature;
        let wanted = (0..snapshot.tasks.len()).filter(is_wanted).collect();
        return Ok(explain_nothing(&snapshot, wanted, setup));
    };
    let features = feature_names(&store)?;
    if json {
        let id = snapshot.tasks[index].id;
        let task = store.task(id)?.ok_or_else(|| anyhow!("`{id}` was deleted just now"))?;
        json::write(out, &TaskView::new(&task, &snapshot, index, &features))?;
    } else {
        list::write(out, &snapshot, &[index], &features, setup.terminal())?;
    }
    Ok(Exit::Done)
}

/// Why nothing is ready.
fn explain_nothing(snapshot: &Snapshot, mut work: Vec<usize>, setup: &Setup) -> Exit {
    work.retain(|&task| snapshot.kind(task) == Kind::Work);
    let is_done = |&task: &usize| snapshot.state(task) == State::Done;
    let can_go_on = |task: &usize| !is_done(task) && snapshot.derived.can_finish[*task];
    let (text, exit) = if work.is_empty() {
        ("there are no tasks", Exit::Stuck)
    } else if work.iter().all(is_done) {
        ("everything is done", Exit::Done)
    } else if work.iter().any(can_go_on) {
        ("nothing is ready now: the rest waits for what is in progress or not due yet", Exit::Done)
    } else {
        ("nothing can go on: what is left failed, is blocked, or waits for such", Exit::Stuck)
    };
    setup.say(&format!("{text}; `ralph status` shows more"));
    exit
}
