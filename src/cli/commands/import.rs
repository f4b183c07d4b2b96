//! `ralph import`

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;

pub(super) fn run(setup: &Setup, file: Option<&Path>, out: &mut dyn Write) -> Result<Exit> {
    let mut store = setup.store()?;
    let imported = match file.filter(|file| *file != Path::new("-")) {
        Some(path) => {
            let shown = path.display();
            let file = File::open(path).with_context(|| format!("can't open `{shown}`"))?;
            store.import(BufReader::new(file)).with_context(|| format!("can't import `{shown}`"))
        }
        None => store.import(io::stdin().lock()).context("can't import stdin"),
    }?;
    writeln!(
        out,
        "imported {} tasks ({} new), {} dependencies, {} features",
        imported.tasks, imported.new_tasks, imported.dependencies, imported.features
    )?;
    Ok(Exit::Done)
}
