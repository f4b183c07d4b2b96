//! Taking back what runs have claimed that are gone.

use std::time::Duration;

use anyhow::Result;
use rusqlite::Transaction;

use super::Store;
use super::attempts::close_attempt;
use super::log::log;
use super::rows::Place;
use crate::dag::{AttemptId, LogEvent, Outcome, TaskId};
use crate::process::{Holder, Life};
use crate::time::Timestamp;

/// How long a run that is stopped, or on another host, may be silent before its claims are taken back.
pub const LEASE: Duration = Duration::from_secs(120);

/// A claim that was taken back from a run that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenBack {
    /// The task, which is pending again.
    pub task: TaskId,
    /// The attempt, of which processes may be left.
    pub attempt: AttemptId,
    /// Whether the process of its run is known to be gone, and was not only silent for too long.
    pub gone: bool,
}

impl Store {
    /// Takes back the claims of runs that are gone, and returns them.
    pub fn take_back(
        &mut self,
        life: impl Fn(&Holder) -> Life,
        now: Timestamp,
    ) -> Result<Vec<TakenBack>> {
        if !self.has_claims()? {
            return Ok(Vec::new());
        }
        let life = |claim: &OpenClaim| claim.holder().map_or(Life::Gone, |holder| life(&holder));
        let is_lost = |claim: &&OpenClaim| match life(claim) {
            Life::Gone => true,
            // However long it was silent: the machine has slept, or its clock was set.
            Life::Alive => false,
            Life::Unknown => claim.is_expired(now),
        };
        if !self.read(open_claims)?.iter().any(|claim| is_lost(&claim)) {
            return Ok(Vec::new());
        }
        self.write(|tx| {
            let mut taken = Vec::new();
            for claim in open_claims(tx)?.iter().filter(is_lost) {
                let gone = life(claim) == Life::Gone;
                let reason = match gone {
                    true => "the process that worked on it is gone",
                    false => "its run has been silent for too long",
                };
                close_attempt(tx, claim.attempt, Outcome::Crashed, Some(reason), now)?;
                log(tx, claim.task, LogEvent::Crashed, Some(claim.attempt), reason, now)?;
                let task = Place::load(tx, claim.task)?.id;
                taken.push(TakenBack { task, attempt: claim.attempt, gone });
            }
            Ok(taken)
        })
    }

    fn has_claims(&self) -> Result<bool> {
        let mut query = self
            .connection
            .prepare("select exists (select 1 from attempts where ended_at is null)")?;
        Ok(query.query_row([], |row| row.get(0))?)
    }
}

/// A claim as another process sees it.
struct OpenClaim {
    attempt: AttemptId,
    task: i64,
    host: Option<String>,
    pid: Option<u32>,
    pid_started: Option<i64>,
    heartbeat_at: Option<Timestamp>,
}

impl OpenClaim {
    fn is_expired(&self, now: Timestamp) -> bool {
        self.heartbeat_at.is_none_or(|last| now.since(last) > LEASE)
    }

    fn holder(&self) -> Option<Holder> {
        Some(Holder {
            host: self.host.clone()?,
            pid: self.pid?,
            started: self.pid_started?.unsigned_abs(),
        })
    }
}

fn open_claims(tx: &Transaction<'_>) -> Result<Vec<OpenClaim>> {
    let mut query = tx.prepare_cached(
        "select attempts.id, task, host, runs.pid, runs.pid_started, heartbeat_at
         from attempts left join runs on runs.id = run
         where attempts.ended_at is null",
    )?;
    let claims = query.query_map([], |row| {
        Ok(OpenClaim {
            attempt: row.get(0)?,
            task: row.get(1)?,
            host: row.get(2)?,
            pid: row.get(3)?,
            pid_started: row.get(4)?,
            heartbeat_at: row.get(5)?,
        })
    })?;
    Ok(claims.collect::<Result<_, _>>()?)
}
