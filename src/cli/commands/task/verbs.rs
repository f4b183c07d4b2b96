//! `ralph task done`, `fail`, `block` and `reset`

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::Verb;
use crate::time::Timestamp;

pub(super) fn run(verb: Verb, id: &str, reason: Option<&str>, setup: &Setup) -> Result<Exit> {
    let changed = setup.store()?.apply(verb, id, reason, setup.author()?, Timestamp::now())?;
    let state = match verb {
        Verb::Done => "is done",
        Verb::Fail => "has failed",
        Verb::Block => "is blocked",
        Verb::Reset => "is pending again",
    };
    if changed.is_empty() {
        setup.say("nothing inside has failed or is blocked");
    }
    for id in changed {
        setup.say(&format!("{id} {state}"));
    }
    Ok(Exit::Done)
}
