//! `ralph feature list` and `show`

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::workplace::Document;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Feature, Kind, Snapshot, State};
use crate::project::Project;
use crate::time::Timestamp;
use crate::ui::features::{self, FeatureRow};
use crate::ui::json::{self, Array};

#[derive(Serialize)]
struct FeatureView<'a> {
    #[serde(flatten)]
    feature: &'a Feature,
    has_spec: bool,
    has_plan: bool,
    done: usize,
    total: usize,
    build_unfinished: bool,
}

pub(super) fn run(json: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let project = setup.project()?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let all = store.features()?;
    let rows: Vec<FeatureRow<'_>> = all.iter().map(|it| row(it, &snapshot, &project)).collect();
    if json {
        let mut array = Array::begin(out)?;
        rows.iter().try_for_each(|row| array.push(&view(row)))?;
        array.end()?;
    } else {
        features::list(out, &rows, setup.terminal())?;
    }
    Ok(Exit::Done)
}

pub(super) fn show(name: &str, json: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let feature = store.feature(name)?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let project = setup.project()?;
    let row = row(&feature, &snapshot, &project);
    if json {
        json::write(out, &view(&row))?;
    } else {
        features::show(out, &row, &snapshot, &roots(&feature, &snapshot), setup.terminal())?;
    }
    Ok(Exit::Done)
}

/// The outermost tasks of a feature.
pub(super) fn roots(feature: &Feature, snapshot: &Snapshot) -> Vec<usize> {
    let mut roots = snapshot.roots();
    roots.retain(|&task| snapshot.tasks[task].feature == Some(feature.id));
    roots
}

/// The work of a feature.
pub(super) fn work(feature: &Feature, snapshot: &Snapshot) -> Vec<usize> {
    let is_its_work = |&task: &usize| {
        snapshot.tasks[task].feature == Some(feature.id) && snapshot.kind(task) == Kind::Work
    };
    (0..snapshot.tasks.len()).filter(is_its_work).collect()
}

fn row<'a>(feature: &'a Feature, snapshot: &Snapshot, project: &Project) -> FeatureRow<'a> {
    let work = work(feature, snapshot);
    let done = work.iter().filter(|&&task| snapshot.state(task) == State::Done).count();
    FeatureRow {
        feature,
        done,
        total: work.len(),
        has_spec: Document::Spec.is_written(project, &feature.name),
        has_plan: Document::Plan.is_written(project, &feature.name),
    }
}

fn view<'a>(row: &FeatureRow<'a>) -> FeatureView<'a> {
    let &FeatureRow { feature, done, total, has_spec, has_plan } = row;
    let build_unfinished = row.build_is_unfinished();
    FeatureView { feature, has_spec, has_plan, done, total, build_unfinished }
}
