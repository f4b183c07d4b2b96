//! Runs, and their claims on tasks. An attempt without an outcome is a claim; whoever has it is the
//! only one that may say how it ended.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use rusqlite::{OptionalExtension, Transaction};

use super::rows::Place;
use super::tasks::{log, random_bits};
use super::verbs::set_status;
use super::{INSIDE, Store, resolve};
use crate::dag::{Attempt, AttemptId, Kind, LogEvent, Outcome, RunId, Status, TaskId};
use crate::process::Holder;
use crate::time::Timestamp;

/// How long a run may be silent before its claims are taken back.
pub const LEASE: Duration = Duration::from_secs(120);

/// A run that begins.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// `run` or `loop`.
    pub kind: &'static str,
    /// The process behind it.
    pub holder: Holder,
}

/// Which tasks a run works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All of them.
    Everything,
    /// Those of a feature, by name or id.
    Feature(String),
    /// A task, or what is inside it, by id.
    Task(String),
}

/// The right to work on a task: an attempt without outcome. It ends in `finish`.
#[derive(Debug)]
#[must_use = "a claim that is dropped stays open until its run is gone"]
pub struct Claim {
    /// The attempt.
    pub attempt: AttemptId,
    /// The task.
    pub task: TaskId,
    /// The how-manieth attempt on it this is.
    pub number: u32,
}

/// How an attempt ended and what is to become of the task.
#[derive(Debug, Clone)]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, or the question to a person.
    pub reason: Option<String>,
    /// The retries allowed where the task does not say so itself.
    pub max_retries: u32,
    /// When the task may be tried again, if it is to be.
    pub not_before: Option<Timestamp>,
}

/// The claim was taken back in the meantime: the task is no longer ours, and nothing was changed.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimLost {
    /// The task.
    pub task: TaskId,
}

impl fmt::Display for ClaimLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the claim on `{}` was taken back; nothing was recorded", self.task)
    }
}

impl std::error::Error for ClaimLost {}

impl Store {
    /// Records that a run begins.
    pub fn start_run(&mut self, run: &NewRun, now: Timestamp) -> Result<RunId> {
        self.write(|tx| {
            loop {
                let id = RunId::from_bits(random_bits()?);
                let inserted = tx.execute(
                    "insert into runs (id, kind, started_at, host, pid, pid_started, heartbeat_at)
                     values (?1, ?2, ?3, ?4, ?5, ?6, ?3)
                     on conflict (id) do nothing",
                    (
                        id,
                        run.kind,
                        now,
                        &run.holder.host,
                        run.holder.pid,
                        i64::try_from(run.holder.started).unwrap_or(i64::MAX),
                    ),
                )?;
                if inserted > 0 {
                    return Ok(id);
                }
            }
        })
    }

    /// Says that a run is still there.
    pub fn heartbeat(&mut self, run: RunId, now: Timestamp) -> Result<()> {
        self.write(|tx| {
            tx.prepare_cached("update runs set heartbeat_at = ?2 where id = ?1")?
                .execute((run, now))?;
            Ok(())
        })
    }

    /// Takes the next ready task for a run, if there is one.
    pub fn claim_next(
        &mut self,
        run: RunId,
        target: &Target,
        now: Timestamp,
    ) -> Result<Option<Claim>> {
        self.write(|tx| {
            // A time that has passed is forgotten, so that the next task is always the first of one
            // index.
            tx.prepare_cached("update tasks set not_before = null where not_before <= ?")?
                .execute([now])?;
            let Some(task) = next_ready(tx, target)? else { return Ok(None) };
            open_attempt(tx, task, run, now).map(Some)
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "a claim ends here and can't be used again")]
    /// Ends a claim: records how the attempt ended and what becomes of the task.
    pub fn finish(&mut self, claim: Claim, ending: &Ending, now: Timestamp) -> Result<()> {
        let Claim { attempt, task, .. } = claim;
        self.write_durably(|tx| {
            let open: Option<i64> = tx
                .query_row(
                    "select task from attempts where id = ? and ended_at is null",
                    [attempt],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(seq) = open else { return Err(ClaimLost { task }.into()) };
            close_attempt(tx, attempt, ending.outcome, ending.reason.as_deref(), now)?;
            settle(tx, seq, attempt, ending, now)
        })
    }

    /// Takes back the claims of runs that are gone, and returns their tasks.
    pub fn take_back(
        &mut self,
        is_gone: impl Fn(&Holder) -> bool,
        now: Timestamp,
    ) -> Result<Vec<TaskId>> {
        if !self.has_claims()? {
            return Ok(Vec::new());
        }
        let gone =
            |claim: &OpenClaim| claim.is_expired(now) || claim.holder().is_none_or(|h| is_gone(&h));
        if !self.read(open_claims)?.iter().any(gone) {
            return Ok(Vec::new());
        }
        self.write(|tx| {
            let mut tasks = Vec::new();
            for claim in open_claims(tx)?.iter().filter(|claim| gone(claim)) {
                let reason = "the process that worked on it is gone";
                close_attempt(tx, claim.attempt, Outcome::Crashed, Some(reason), now)?;
                log(tx, claim.task, LogEvent::Crashed, Some(claim.attempt), reason, now)?;
                tasks.push(Place::load(tx, claim.task)?.id);
            }
            Ok(tasks)
        })
    }

    fn has_claims(&self) -> Result<bool> {
        let mut query = self
            .connection
            .prepare("select exists (select 1 from attempts where ended_at is null)")?;
        Ok(query.query_row([], |row| row.get(0))?)
    }

    /// The attempts on a task, oldest first.
    pub fn attempts(&self, task: TaskId) -> Result<Vec<Attempt>> {
        let mut query = self.connection.prepare(&format!(
            "select {} from attempts join tasks on tasks.seq = attempts.task
             where tasks.id = ?
             order by number, started_at",
            Attempt::COLUMNS
        ))?;
        Ok(query.query_map([task], Attempt::from_row)?.collect::<Result<_, _>>()?)
    }
}

/// The first ready task of the target.
fn next_ready(tx: &Transaction<'_>, target: &Target) -> Result<Option<i64>> {
    const READY: &str = "status = 'pending' and waits = 0 and claimed = 0 and not_before is null";
    let first = |row: &rusqlite::Row<'_>| row.get(0);
    let next = match target {
        Target::Everything => tx
            .prepare_cached(&format!(
                "select seq from tasks where {READY} order by priority, seq limit 1"
            ))?
            .query_row([], first),
        Target::Feature(name) => {
            let (feature, _) = resolve::feature(tx, name)?;
            tx.prepare_cached(&format!(
                "select seq from tasks where feature = ? and {READY} order by priority, seq limit 1"
            ))?
            .query_row([feature], first)
        }
        Target::Task(task) => {
            let place = resolve::task(tx, task)?;
            tx.prepare_cached(&format!(
                "{INSIDE}
                 select tasks.seq from inside join tasks using (seq) where {READY}
                 order by priority, tasks.seq
                 limit 1"
            ))?
            .query_row([place.seq], first)
        }
    };
    Ok(next.optional()?)
}

fn open_attempt(tx: &Transaction<'_>, task: i64, run: RunId, now: Timestamp) -> Result<Claim> {
    let mut insert = tx.prepare_cached(
        "insert into attempts (id, task, number, run, started_at)
         values (
             ?1, ?2, 1 + (select coalesce(max(number), 0) from attempts where task = ?2), ?3, ?4
         )
         on conflict (id) do nothing
         returning number, (select id from tasks where seq = ?2)",
    )?;
    loop {
        let attempt = AttemptId::from_bits(random_bits()?);
        let opened = insert
            .query_row((attempt, task, run, now), |row| {
                Ok(Claim { attempt, task: row.get(1)?, number: row.get(0)? })
            })
            .optional()?;
        if let Some(claim) = opened {
            return Ok(claim);
        }
    }
}

fn close_attempt(
    tx: &Transaction<'_>,
    attempt: AttemptId,
    outcome: Outcome,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    tx.prepare_cached(
        "update attempts set ended_at = ?2, outcome = ?3, reason = ?4 where id = ?1",
    )?
    .execute((attempt, now, outcome, reason))?;
    Ok(())
}

/// Closes the claim on a task, if there is one, because a person decides instead.
pub(super) fn overrule(tx: &Transaction<'_>, task: i64, now: Timestamp) -> Result<()> {
    tx.prepare_cached(
        "update attempts
         set ended_at = ?2, outcome = ?3
         where task = ?1 and ended_at is null",
    )?
    .execute((task, now, Outcome::Overruled))?;
    Ok(())
}

/// Gives the task the status that follows from how the attempt on it ended.
fn settle(
    tx: &Transaction<'_>,
    seq: i64,
    attempt: AttemptId,
    ending: &Ending,
    now: Timestamp,
) -> Result<()> {
    let place = Place::load(tx, seq)?;
    let reason = ending.reason.as_deref();
    let event = match ending.outcome {
        Outcome::Done => Some(LogEvent::Done),
        Outcome::Failed | Outcome::Silent => Some(LogEvent::Failed),
        Outcome::Blocked => Some(LogEvent::Blocked),
        Outcome::Interrupted | Outcome::Crashed | Outcome::Limited | Outcome::Overruled => None,
    };
    if let Some(event) = event {
        log(tx, seq, event, Some(attempt), reason.unwrap_or_default(), now)?;
    }
    // The agent has given the task children: it is a group now, and they decide.
    if place.kind == Kind::Group {
        return Ok(());
    }
    let (retries, max_retries): (u32, Option<u32>) =
        tx.query_row("select retries, max_retries from tasks where seq = ?", [seq], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let (status, retries) =
        ending.outcome.settle(retries, max_retries.unwrap_or(ending.max_retries));
    set_status(tx, &place, status, reason, now)?;
    tx.prepare_cached("update tasks set retries = ?2, not_before = ?3 where seq = ?1")?
        .execute((seq, retries, ending.not_before.filter(|_| status == Status::Pending)))?;
    Ok(())
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
