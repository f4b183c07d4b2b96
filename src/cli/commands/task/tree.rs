//! `ralph task tree`

use std::io::Write;

use anyhow::Result;

use super::list::write_json;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::time::Timestamp;
use crate::ui::tree;

pub(super) fn run(
    id: Option<&str>,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let store = setup.store()?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let roots = match id {
        Some(id) => vec![store.find_in(&snapshot, id)?],
        None => snapshot.roots(),
    };
    if json {
        let walk = snapshot.walk(&roots).into_iter();
        write_json(out, &store, &snapshot, walk.map(|(task, depth)| (task, Some(depth))))?;
    } else {
        tree::write(out, &snapshot, &roots, setup.terminal())?;
    }
    Ok(Exit::Done)
}
