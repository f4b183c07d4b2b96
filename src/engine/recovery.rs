//! What runs have left that are gone: their claims are taken back, their processes ended, and what their
//! sessions have cost is read from the logs.

use std::path::Path;

use anyhow::Result;

use crate::agent;
use crate::dag::SessionKind;
use crate::process::Holder;
use crate::store::{NewSession, Store, TakenBack};
use crate::time::Timestamp;

/// Takes back what runs have claimed that are gone, and sees to what is left of them.
pub fn take_back(store: &mut Store, now: Timestamp) -> Result<Vec<TakenBack>> {
    let taken = store.take_back(Holder::life, now)?;
    // A run that is only silent may be on another machine, or this may be a copy of its database: its
    // agents are not ours to end.
    let gone: Vec<&TakenBack> = taken.iter().filter(|claim| claim.gone).collect();
    let attempts: Vec<String> = gone.iter().map(|claim| claim.attempt.to_string()).collect();
    agent::end_marked(agent::ATTEMPT_VARIABLE, &attempts);
    for claim in gone {
        record_cost(store, claim, now)?;
    }
    Ok(taken)
}

/// Records what the session of a claim has cost, by its log.
fn record_cost(store: &mut Store, claim: &TakenBack, now: Timestamp) -> Result<()> {
    let Some(attempt) = store.unrecorded(claim.attempt)? else { return Ok(()) };
    let log = attempt.log_path.as_ref().map(Path::new);
    let Some(facts) = log.and_then(agent::facts_in_log) else { return Ok(()) };
    if facts.bill.cost_usd == 0.0 {
        return Ok(());
    }
    let session = NewSession {
        attempt: Some(attempt.id),
        task: Some(attempt.task),
        run: attempt.run,
        model: facts.model.or(attempt.model),
        bill: facts.bill,
        log_path: attempt.log_path,
        session_id: facts.session,
        ..NewSession::new(SessionKind::Work, attempt.started_at)
    };
    store.add_session(&session, now).map(|_| ())
}
