//! `ralph task log`

use std::io::Write;

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::{Setup, text_argument};
use crate::ops::{Note, TaskLog};
use crate::ui::json::Array;
use crate::ui::show;

pub(super) fn run(
    id: &str,
    message: Option<&str>,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut dag = setup.dag()?;
    let id = id.to_owned();
    if let Some(message) = message {
        let message = text_argument(message)?.trim_end().to_owned();
        let id = dag.perform(Note { id, message })?;
        setup.say(&format!("noted on {id}"));
        return Ok(Exit::Done);
    }
    let log = dag.perform(TaskLog { id })?;
    if json {
        let mut array = Array::begin(out)?;
        log.iter().try_for_each(|entry| array.push(entry))?;
        array.end()?;
    } else {
        show::log(out, &log, setup.terminal())?;
    }
    Ok(Exit::Done)
}
