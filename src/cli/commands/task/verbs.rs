//! `ralph task done`, `fail`, `block` and `reset`

use anyhow::{Result, anyhow};

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Ask, AttemptId, Verb};
use crate::hint::HintExt;
use crate::time::Timestamp;

pub(super) fn run(verb: Verb, id: &str, reason: Option<&str>, setup: &Setup) -> Result<Exit> {
    if let Some(attempt) = setup.author()? {
        return ask(verb, id, reason, attempt, setup);
    }
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

/// Inside a session these words are a request about the session's own task; the run decides.
fn ask(
    verb: Verb,
    id: &str,
    reason: Option<&str>,
    attempt: AttemptId,
    setup: &Setup,
) -> Result<Exit> {
    let mut store = setup.store()?;
    let task = store.find_task(id)?;
    let own = setup.environment.task_id()?.unwrap_or_default();
    let (ask, word) = match verb {
        Verb::Done => (Ask::Done, "done"),
        Verb::Fail => (Ask::Failed, "failed"),
        Verb::Block => (Ask::Blocked, "blocked"),
        Verb::Reset => {
            return Err(anyhow!("an agent can't reset `{task}`"))
                .hint("say in a note what you found: `ralph task log ID -m NOTE`");
        }
    };
    if task.to_string() != own {
        return Err(anyhow!("this session is about `{own}`, not about `{task}`"))
            .hint(format!("leave a note instead: `ralph task log {task} -m NOTE`"));
    }
    store.ask(attempt, ask, reason)?;
    setup.say(&format!("noted: {task} is {word}, if the run agrees when this session ends"));
    Ok(Exit::Done)
}
