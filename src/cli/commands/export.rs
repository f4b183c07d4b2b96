//! `ralph export`

use std::io::Write;

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;

pub(super) fn run(setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    setup.store()?.export(out)?;
    Ok(Exit::Done)
}
