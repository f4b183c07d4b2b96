//! What a person can do to a task: declare it done or failed, hold it, put it back.

use anyhow::{Result, anyhow, ensure};
use rusqlite::Transaction;

use super::attempts::overrule;
use super::log::log;
use super::rows::{Place, stored_status};
use super::validate::check_text;
use super::{INSIDE, Store, counters, resolve};
use crate::dag::{AttemptId, Kind, LogEvent, Status, TaskId, Verb};
use crate::hint::HintExt;
use crate::time::Timestamp;

impl Store {
    /// Does this to a task and returns those that changed. To reset a group releases it and resets
    /// what failed or is blocked inside; what is done stays done.
    pub fn apply(
        &mut self,
        verb: Verb,
        task: &str,
        reason: Option<&str>,
        author: Option<AttemptId>,
        now: Timestamp,
    ) -> Result<Vec<TaskId>> {
        if let Some(reason) = reason {
            check_text("the reason", reason)?;
            ensure!(!reason.trim().is_empty(), "the reason is empty");
        }
        self.write_durably(|tx| {
            let place = resolve::task(tx, task)?;
            let places = match (verb, place.kind) {
                (Verb::Reset, Kind::Group) => stopped_inside(tx, place.seq)?,
                _ => vec![place],
            };
            for place in &places {
                change_status(tx, place, verb, reason, author, now)?;
            }
            Ok(places.iter().map(|place| place.id).collect())
        })
    }
}

pub(super) fn change_status(
    tx: &Transaction<'_>,
    place: &Place,
    verb: Verb,
    reason: Option<&str>,
    author: Option<AttemptId>,
    now: Timestamp,
) -> Result<()> {
    let from = if place.is_done() { Status::Done } else { place.status };
    let status = match verb.apply(place.kind, from) {
        Ok(status) => status,
        Err(refusal) => {
            let error = Err(anyhow!("`{}` can't be {}: {refusal}", place.id, past(verb)));
            return error.hint(match place.kind {
                Kind::Group => format!("`ralph task tree {}` shows what is inside", place.id),
                Kind::Work => format!("`ralph task reset {}` puts it back to pending", place.id),
            });
        }
    };
    overrule(tx, place.seq, now)?;
    set_status(tx, place, status, reason, now)?;
    if verb == Verb::Reset {
        tx.prepare_cached("update tasks set retries = 0 where seq = ?")?.execute([place.seq])?;
    }
    let event = match verb {
        Verb::Done => LogEvent::Done,
        Verb::Fail => LogEvent::Failed,
        Verb::Block => LogEvent::Blocked,
        Verb::Reset => LogEvent::Reset,
    };
    log(tx, place.seq, event, author, reason.unwrap_or_default(), now)
}

fn past(verb: Verb) -> &'static str {
    match verb {
        Verb::Done => "declared done",
        Verb::Fail => "declared failed",
        Verb::Block => "blocked",
        Verb::Reset => "reset",
    }
}

/// Stores another status of a task without open claim, and passes on what follows from it.
pub(super) fn set_status(
    tx: &Transaction<'_>,
    place: &Place,
    status: Status,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    let reason = reason.filter(|_| matches!(status, Status::Blocked | Status::Failed));
    tx.prepare_cached(
        "update tasks
         set status = ?2, reason = ?3, not_before = null, updated_at = ?4
         where seq = ?1",
    )?
    .execute((place.seq, stored_status(place.kind, status), reason, now))?;
    match place.kind {
        Kind::Work => {
            let done = status == Status::Done;
            if done != place.is_done() {
                counters::done_changed(tx, place.seq, done)?;
            }
        }
        Kind::Group => {
            let held = status == Status::Blocked;
            if held != (place.status == Status::Blocked) {
                counters::hold_changed(tx, place.seq, held)?;
            }
        }
    }
    Ok(())
}

/// What failed or is blocked inside a group, at any depth, and the group itself if it is.
fn stopped_inside(tx: &Transaction<'_>, group: i64) -> Result<Vec<Place>> {
    let mut query = tx.prepare(&format!(
        "{INSIDE}
         select seq
         from inside join tasks using (seq)
         where status in ('blocked', 'failed')
         order by seq"
    ))?;
    let seqs: Vec<i64> = query.query_map([group], |row| row.get(0))?.collect::<Result<_, _>>()?;
    seqs.into_iter().map(|seq| Ok(Place::load(tx, seq)?)).collect()
}
