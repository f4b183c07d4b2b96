//! `ralph pause` and `resume`

use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result};

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;

pub(super) fn pause(setup: &Setup) -> Result<Exit> {
    let file = setup.project()?.pause();
    fs::write(&file, "").with_context(|| format!("can't write `{}`", file.display()))?;
    setup.say("runs here pause before their next iteration; `ralph resume` lets them go on");
    Ok(Exit::Done)
}

pub(super) fn resume(setup: &Setup) -> Result<Exit> {
    let file = setup.project()?.pause();
    match fs::remove_file(&file) {
        Ok(()) => setup.say("runs here go on"),
        Err(error) if error.kind() == ErrorKind::NotFound => setup.say("nothing was paused"),
        Err(error) => {
            return Err(error).with_context(|| format!("can't remove `{}`", file.display()));
        }
    }
    Ok(Exit::Done)
}
