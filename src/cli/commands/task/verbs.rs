//! `ralph task done`, `fail`, `block` and `reset`

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::Verb;
use crate::ops::{Decide, Decided};

pub(super) fn run(verb: Verb, id: &str, reason: Option<&str>, setup: &Setup) -> Result<Exit> {
    let decide = Decide { verb, id: id.to_owned(), reason: reason.map(str::to_owned) };
    let (is, word) = match verb {
        Verb::Done => ("is done", "done"),
        Verb::Fail => ("has failed", "failed"),
        Verb::Block => ("is blocked", "blocked"),
        Verb::Reset => ("is pending again", "pending"),
    };
    match setup.dag()?.perform(decide)? {
        Decided::Asked(task) => {
            setup
                .say(&format!("noted: {task} is {word}, if the run agrees when this session ends"));
        }
        Decided::Changed(changed) if changed.is_empty() => {
            setup.say("nothing inside has failed or is blocked");
        }
        Decided::Changed(changed) => {
            changed.iter().for_each(|id| setup.say(&format!("{id} {is}")));
        }
    }
    Ok(Exit::Done)
}
