//! `ralph status`

use std::collections::HashMap;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::feature_names;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Billing, Kind, RunId, SessionKind, Snapshot, State, TaskId};
use crate::process::Holder;
use crate::store::{Activity, LastRun};
use crate::time::Timestamp;
use crate::ui::status::{self, Overview, Running};
use crate::ui::{json, prose};

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
    last_run: Option<LastRunView>,
}

/// The run that began last; without `ended_at` and `outcome` it goes on or was killed.
#[derive(Serialize)]
struct LastRunView {
    run: RunId,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    outcome: Option<String>,
    message: Option<String>,
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
    let (snapshot, activity, last_run) =
        (store.snapshot(now)?, store.activity()?, store.last_run()?);
    if json {
        json::write(out, &view(&snapshot, activity, last_run))?;
        return Ok(Exit::Done);
    }
    let features = feature_names(&store)?;
    let running = running(&snapshot, &activity);
    let overview = Overview {
        snapshot: &snapshot,
        features: &features,
        running: &running,
        costs: &activity.costs,
        last_run: last_run.as_ref().map(how_it_stands),
        last_activity: activity.last,
        now,
    };
    status::write(out, &overview, setup.terminal())?;
    // With RALPH_DB there may be no project here.
    if setup.project().is_ok_and(|project| project.pause().exists()) {
        let text = prose("paused: runs here wait for `ralph resume`", setup.terminal());
        out.write_all(text.as_bytes())?;
    }
    Ok(Exit::Done)
}

fn how_it_stands(run: &LastRun) -> status::LastRun<'_> {
    match run.ended_at {
        Some(at) => {
            let why = run.message.as_deref().or(run.outcome.as_deref()).unwrap_or_default();
            status::LastRun::Ended { at, why }
        }
        None if run.holder.as_ref().is_none_or(Holder::is_gone) => status::LastRun::Killed,
        None => status::LastRun::Going { since: run.started_at },
    }
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

fn view(snapshot: &Snapshot, activity: Activity, last_run: Option<LastRun>) -> StatusView {
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
        last_run: last_run.map(|run| LastRunView {
            run: run.id,
            started_at: run.started_at,
            ended_at: run.ended_at,
            outcome: run.outcome,
            message: run.message,
        }),
    }
}
