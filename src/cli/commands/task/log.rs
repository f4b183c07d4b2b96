//! `ralph task log`

use std::io::Write;

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::{Setup, text_argument};
use crate::time::Timestamp;
use crate::ui::json::Array;
use crate::ui::show;

pub(super) fn run(
    id: &str,
    message: Option<&str>,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut store = setup.store()?;
    if let Some(message) = message {
        let message = text_argument(message)?;
        let id = store.note(id, message.trim_end(), setup.author()?, Timestamp::now())?;
        setup.say(&format!("noted on {id}"));
        return Ok(Exit::Done);
    }
    let log = store.task_log(store.find_task(id)?)?;
    if json {
        let mut array = Array::begin(out)?;
        log.iter().try_for_each(|entry| array.push(entry))?;
        array.end()?;
    } else {
        show::log(out, &log, setup.terminal())?;
    }
    Ok(Exit::Done)
}
