//! `ralph import`

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::ui::text::counted;

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
        "imported {} ({} new), {}, {}",
        counted(imported.tasks, "task", "tasks"),
        imported.new_tasks,
        counted(imported.dependencies, "dependency", "dependencies"),
        counted(imported.features, "feature", "features"),
    )?;
    Ok(Exit::Done)
}
