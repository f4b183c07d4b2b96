//! `ralph status`

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::feature_names;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Billing, Kind, SessionKind, Snapshot, State, TaskId};
use crate::store::Activity;
use crate::time::Timestamp;
use crate::ui::json;
use crate::ui::status::{self, Overview, Running};

#[derive(Serialize)]
struct StatusView {
    total: usize,
    ready: usize,
    waiting: usize,
    in_progress: usize,
    blocked: usize,
    done: usize,
    failed: usize,
    running: Vec<RunningView>,
    cost_usd: f64,
    costs: CostsView,
    billing: Option<Billing>,
    last_activity: Option<Timestamp>,
}

/// What the cost is made of.
#[derive(Serialize)]
struct CostsView {
    work: f64,
    verify: f64,
    build: f64,
    interview: f64,
    #[serde(rename = "loop")]
    plain_loop: f64,
}

#[derive(Serialize)]
struct RunningView {
    task: TaskId,
    attempt: u32,
    since: Timestamp,
}

pub(super) fn run(setup: &Setup, json: bool, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let now = Timestamp::now();
    let (snapshot, activity) = (store.snapshot(now)?, store.activity()?);
    if json {
        json::write(out, &view(&snapshot, activity))?;
        return Ok(Exit::Done);
    }
    let features = feature_names(&store)?;
    let running = running(&snapshot, &activity);
    let overview = Overview {
        snapshot: &snapshot,
        features: &features,
        running: &running,
        costs: &activity.costs,
        last_activity: activity.last,
        now,
    };
    status::write(out, &overview, setup.terminal())?;
    // With RALPH_DB there may be no project here.
    if setup.project().is_ok_and(|project| project.pause().exists()) {
        writeln!(out, "paused: runs here wait for `ralph resume`")?;
    }
    Ok(Exit::Done)
}

fn running(snapshot: &Snapshot, activity: &Activity) -> Vec<Running> {
    let places: HashMap<TaskId, usize> = match activity.open.is_empty() {
        true => HashMap::new(),
        false => snapshot.tasks.iter().enumerate().map(|(place, task)| (task.id, place)).collect(),
    };
    activity
        .open
        .iter()
        .filter_map(|open| {
            let task = *places.get(&open.task)?;
            Some(Running { task, attempt: open.number, since: open.started_at })
        })
        .collect()
}

fn view(snapshot: &Snapshot, activity: Activity) -> StatusView {
    let work: Vec<State> = (0..snapshot.tasks.len())
        .filter(|&task| snapshot.kind(task) == Kind::Work)
        .map(|task| snapshot.state(task))
        .collect();
    let count = |wanted: State| work.iter().filter(|&&state| state == wanted).count();
    let kinds = activity.costs.kinds.clone();
    let spent = |wanted: SessionKind| {
        kinds.iter().find(|(kind, _)| *kind == wanted).map_or(0.0, |(_, cost)| *cost)
    };
    StatusView {
        total: work.len(),
        ready: count(State::Ready),
        waiting: count(State::Waiting),
        in_progress: count(State::InProgress),
        blocked: count(State::Blocked),
        done: count(State::Done),
        failed: count(State::Failed),
        running: activity
            .open
            .into_iter()
            .map(|open| RunningView {
                task: open.task,
                attempt: open.number,
                since: open.started_at,
            })
            .collect(),
        cost_usd: activity.costs.total(),
        costs: CostsView {
            work: spent(SessionKind::Work),
            verify: spent(SessionKind::Verify),
            build: spent(SessionKind::Build),
            interview: spent(SessionKind::Interview),
            plain_loop: spent(SessionKind::Loop),
        },
        billing: activity.costs.billing,
        last_activity: activity.last,
    }
}
