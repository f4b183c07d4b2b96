//! `ralph task tree`

use std::io::Write;

use anyhow::Result;

use super::list::write_json;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::ops::TaskTree;
use crate::ui::tree;

pub(super) fn run(
    id: Option<&str>,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut dag = setup.dag()?;
    let tree = dag.perform(TaskTree { id: id.map(str::to_owned) })?;
    if json {
        let walk = tree.snapshot.walk(&tree.chosen).into_iter();
        write_json(out, &mut dag, &tree, walk.map(|(task, depth)| (task, Some(depth))))?;
    } else {
        tree::write(out, &tree.snapshot, &tree.chosen, setup.terminal())?;
    }
    Ok(Exit::Done)
}
