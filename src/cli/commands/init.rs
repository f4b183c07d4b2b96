//! `ralph init`

use std::io::Write;

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::project::{Made, Project};
use crate::ui::prose;

pub(super) fn run(hooks: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let (project, mut made) = Project::init(&setup.directory()?)?;
    if hooks {
        made.push(project.add_hooks()?);
    }
    let width = made.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    for (what, made) in made {
        let how = match made {
            Made::New => "written",
            Made::Kept => "was there already",
        };
        writeln!(out, "{what:<width$}  {how}")?;
    }
    let next = "Next: ralph feature spec NAME, or ralph task add TITLE; then ralph run";
    write!(out, "\n{}", prose(next, setup.terminal()))?;
    Ok(Exit::Done)
}
