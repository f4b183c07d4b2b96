//! `ralph completions`

use std::io::Write;

use anyhow::Result;
use clap_complete::Shell;

use crate::cli::exit::Exit;

pub(super) fn run(shell: Shell, out: &mut dyn Write) -> Result<Exit> {
    // The generator panics when it can't write, so it writes into memory first.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::cli::command(), "ralph", &mut script);
    out.write_all(&script)?;
    Ok(Exit::Done)
}
