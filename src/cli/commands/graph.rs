//! `ralph graph`

use std::io::Write;

use anyhow::Result;

use crate::cli::args::GraphFormat;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Snapshot, TaskId};
use crate::store::Store;
use crate::time::Timestamp;
use crate::ui::graph;

pub(super) fn run(
    setup: &Setup,
    target: Option<&str>,
    format: GraphFormat,
    out: &mut dyn Write,
) -> Result<Exit> {
    let store = setup.store()?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let members = members(&store, &snapshot, target)?;
    match format {
        GraphFormat::Text => graph::text(out, &snapshot, &members, setup.terminal())?,
        GraphFormat::Dot => graph::dot(out, &snapshot, &members)?,
        GraphFormat::Mermaid => graph::mermaid(out, &snapshot, &members)?,
    }
    Ok(Exit::Done)
}

/// The tasks that a target means, in the order of creation.
fn members(store: &Store, snapshot: &Snapshot, target: Option<&str>) -> Result<Vec<usize>> {
    let all = 0..snapshot.tasks.len();
    let Some(target) = target else { return Ok(all.collect()) };
    if TaskId::is_prefix(target) {
        return Ok(snapshot.inside(store.find_in(snapshot, target)?));
    }
    let feature = store.feature(target)?.id;
    Ok(all.filter(|&task| snapshot.tasks[task].feature == Some(feature)).collect())
}
