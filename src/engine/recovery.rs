//! What runs and other commands have left that are gone: their claims are taken back, their processes ended, and
//! what their sessions have cost is read from the logs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;

use crate::agent::{self, usual_billing};
use crate::dag::Bill;
use crate::process::{Holder, Life};
use crate::store::{LEASE, NewSession, OpenSession, Store, TakenBack};
use crate::time::Timestamp;

/// Takes back what runs have claimed that are gone, and sees to what is left of them. `claude` is where the
/// agent keeps its transcripts.
pub fn take_back(store: &mut Store, claude: &Path, now: Timestamp) -> Result<Vec<TakenBack>> {
    let taken = store.take_back(Holder::life, now)?;
    // A run that is only silent may be on another machine, or this may be a copy of its database: its
    // agents are not ours to end.
    let gone = taken.iter().filter(|claim| claim.gone);
    let attempts: Vec<String> = gone.map(|claim| claim.attempt.to_string()).collect();
    agent::end_marked(agent::ATTEMPT_VARIABLE, &attempts);
    for open in store.open_sessions()? {
        record_cost(store, &open, claude, now)?;
    }
    Ok(taken)
}

/// Records what a session has cost whose process is gone. Of a process of which nothing is known, the same is
/// done when the session has been silent for long: if it is still there, it will say more.
fn record_cost(store: &mut Store, open: &OpenSession, claude: &Path, now: Timestamp) -> Result<()> {
    let life = open.holder.life();
    match life {
        Life::Alive => return Ok(()),
        Life::Unknown if now.since(last_sign(&open.session)) <= LEASE => return Ok(()),
        Life::Unknown | Life::Gone => {}
    }
    match (found_out(&open.session, claude), life) {
        (Some(session), _) if session.bill.cost_usd > 0.0 => {
            store.end_session(open.id, &session, now)
        }
        (_, Life::Gone) => store.forget_session(open.id),
        // Its log may be on another machine.
        (_, Life::Alive | Life::Unknown) => Ok(()),
    }
}

/// When a session was last heard of, by its log.
fn last_sign(session: &NewSession) -> Timestamp {
    let log = session.log_path.as_ref().and_then(|log| fs::metadata(log).ok());
    log.and_then(|log| Timestamp::from_epoch(log.mtime())).unwrap_or(session.started_at)
}

/// What a session has cost, by its log or by the agent's transcript.
fn found_out(session: &NewSession, claude: &Path) -> Option<NewSession> {
    let session = session.clone();
    if let Some(log) = &session.log_path {
        let facts = agent::facts_in_log(Path::new(log))?;
        let (model, session_id) = (facts.model.or(session.model), facts.session);
        return Some(NewSession { model, bill: facts.bill, session_id, ..session });
    }
    let bill = agent::bill_of_session(claude, session.session_id.as_ref()?)?;
    Some(NewSession { bill: Bill { billing: Some(usual_billing()), ..bill }, ..session })
}
