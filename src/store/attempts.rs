//! Claims on tasks. An attempt without an outcome is a claim; whoever has it is the only one that may
//! say how it ended.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use anyhow::{Result, anyhow};
use rusqlite::{OptionalExtension, Transaction, params};

use super::add::random_bits;
use super::log::log;
use super::rows::Place;
use super::runs::{Target, seq_of, tree_name};
use super::sessions::costs;
use super::verbs::set_status;
use super::{INSIDE, Store};
use crate::dag::{
    Ask, Attempt, AttemptId, Bill, Costs, Kind, LogEvent, Outcome, RunId, Status, TaskId,
    Verification,
};
use crate::hint::HintExt;
use crate::time::Timestamp;

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
    /// Whether a failure is one for good, whatever retries are left.
    pub for_good: bool,
    /// When the task may be tried again, if it is to be.
    pub not_before: Option<Timestamp>,
    /// Whether a task that is done was checked.
    pub verification: Option<Verification>,
    /// What is known of the session now.
    pub session: SessionRecord,
}

impl Ending {
    /// An attempt that ended like this, and of which no more is to be said.
    pub fn new(outcome: Outcome, max_retries: u32) -> Ending {
        Ending {
            outcome,
            reason: None,
            max_retries,
            for_good: false,
            not_before: None,
            verification: None,
            session: SessionRecord::default(),
        }
    }
}

/// What is known of the session of an attempt; what is none is not known yet.
#[derive(Debug, Clone, Default)]
#[expect(
    missing_docs,
    reason = "the fields are the columns of the table, which says what they are"
)]
pub struct SessionRecord {
    pub model: Option<String>,
    pub exit_code: Option<i32>,
    pub bill: Option<Bill>,
    pub turns: Option<i64>,
    pub log_path: Option<String>,
    pub session_id: Option<String>,
    pub head_before: Option<String>,
    pub head_after: Option<String>,
    pub verify_log_path: Option<String>,
}

/// The claim ended while its session ran: the task is no longer ours, and its status was not changed.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimLost {
    /// The task.
    pub task: TaskId,
    /// What ended the claim.
    pub loss: Loss,
}

/// What ended a claim before its run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// A person decided the task's status.
    Overruled,
    /// Another process took the run for dead.
    TakenBack,
    /// The task was deleted, and its attempts with it.
    Deleted,
}

impl Loss {
    /// How the attempt ended.
    pub fn outcome(self) -> Outcome {
        match self {
            Loss::Overruled | Loss::Deleted => Outcome::Overruled,
            Loss::TakenBack => Outcome::Crashed,
        }
    }
}

impl fmt::Display for ClaimLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task;
        match self.loss {
            Loss::Overruled => write!(
                f,
                "a person decided `{task}` while a session worked on it; what the session said of it does not count"
            ),
            Loss::TakenBack => write!(
                f,
                "the claim on `{task}` was taken back while a session worked on it; what the session said of it does not count"
            ),
            Loss::Deleted => write!(f, "`{task}` was deleted while a session worked on it"),
        }
    }
}

impl std::error::Error for ClaimLost {}

/// What is going on.
#[derive(Debug)]
pub struct Activity {
    /// The attempts that have not ended.
    pub open: Vec<Attempt>,
    /// What all sessions have cost.
    pub costs: Costs,
    /// When anything last changed.
    pub last: Option<Timestamp>,
}

impl Store {
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
            open_attempt(tx, &task, run, now).map(Some)
        })
    }

    /// The task that would be taken next, if there is one.
    pub fn peek_next(&self, target: &Target) -> Result<Option<TaskId>> {
        self.read(|tx| Ok(next_ready(tx, target)?.map(|ready| ready.id)))
    }

    /// Adds to what is known of the session of a claim.
    pub fn record_session(&mut self, claim: &Claim, session: &SessionRecord) -> Result<()> {
        self.write(|tx| {
            if let Some(lost) = lost(tx, claim)? {
                return Err(lost.into());
            }
            record(tx, claim.attempt, session)
        })
    }

    /// How a claim was lost; none while it stands.
    pub fn lost(&self, claim: &Claim) -> Result<Option<ClaimLost>> {
        self.read(|tx| lost(tx, claim))
    }

    /// Records what the agent of an open attempt asks for its task; the run decides.
    pub fn ask(&mut self, attempt: AttemptId, ask: Ask, reason: Option<&str>) -> Result<()> {
        self.write(|tx| {
            let asked = tx.execute(
                "update attempts
                 set asked = ?2, asked_reason = ?3
                 where id = ?1 and ended_at is null",
                (attempt, ask, reason),
            )?;
            if asked == 0 {
                return Err(anyhow!("attempt `{attempt}` is over; nothing was recorded"));
            }
            Ok(())
        })
    }

    /// What the agent of a claim has asked for last; `ClaimLost` if the claim is over.
    pub fn asked(&self, claim: &Claim) -> Result<Option<(Ask, Option<String>)>> {
        self.read(|tx| {
            if let Some(lost) = lost(tx, claim)? {
                return Err(lost.into());
            }
            let mut query =
                tx.prepare_cached("select asked, asked_reason from attempts where id = ?")?;
            let (ask, reason): (Option<Ask>, _) =
                query.query_row([claim.attempt], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(ask.map(|ask| (ask, reason)))
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "a claim ends here and can't be used again")]
    /// Ends a claim: records how the attempt ended and what becomes of the task, which is returned. Of
    /// a claim that was lost (`ClaimLost`) only the session is recorded: it has cost what it has cost.
    pub fn finish(&mut self, claim: Claim, ending: &Ending, now: Timestamp) -> Result<Status> {
        let attempt = claim.attempt;
        let finished = self.write_durably(|tx| {
            record(tx, attempt, &ending.session)?;
            if let Some(lost) = lost(tx, &claim)? {
                return Ok(Err(lost));
            }
            let seq = tx
                .prepare_cached("select task from attempts where id = ?")?
                .query_row([attempt], |row| row.get(0))?;
            close_attempt(tx, attempt, ending.outcome, ending.reason.as_deref(), now)?;
            tx.prepare_cached("update attempts set verification_status = ?2 where id = ?1")?
                .execute((attempt, ending.verification))?;
            settle(tx, seq, attempt, ending, now).map(Ok)
        })?;
        Ok(finished?)
    }

    /// What is going on and what it has cost.
    pub fn activity(&self) -> Result<Activity> {
        self.read(|tx| {
            let mut query = tx.prepare(&format!(
                "select {} from attempts join tasks on tasks.seq = attempts.task
                 where ended_at is null
                 order by started_at",
                Attempt::COLUMNS
            ))?;
            let open = query.query_map([], Attempt::from_row)?.collect::<Result<_, _>>()?;
            let last = tx.query_row(
                "select
                     max(
                         coalesce((select max(updated_at) from tasks), ''),
                         coalesce((select max(started_at) from attempts), ''),
                         coalesce((select max(ended_at) from attempts), ''),
                         coalesce((select max(ended_at) from sessions), ''),
                         coalesce((select max(at) from task_logs), '')
                     )",
                [],
                |row| Ok(row.get::<_, String>(0)?.parse().ok()),
            )?;
            Ok(Activity { open, costs: costs(tx)?, last })
        })
    }

    /// How many attempts there are on all tasks.
    pub fn count_attempts(&self) -> Result<usize> {
        let query = "select count(*) from attempts";
        Ok(self.connection.query_row(query, [], |row| row.get::<_, u32>(0))? as usize)
    }

    /// Every attempt, and when it ended if its task is done; of the others nothing may be forgotten.
    pub fn attempts_over(&self) -> Result<HashMap<AttemptId, Option<Timestamp>>> {
        let mut query = self.connection.prepare(
            "select attempts.id, ended_at,
                 case kind
                     when 'work' then status = 'done'
                     else children > 0 and children = children_done
                 end
             from attempts join tasks on tasks.seq = attempts.task",
        )?;
        let attempts = query.query_map([], |row| {
            let (ended, is_done): (Option<Timestamp>, bool) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, ended.filter(|_| is_done)))
        })?;
        Ok(attempts.collect::<Result<_, _>>()?)
    }

    /// The latest attempts on any task, newest first.
    pub fn latest_attempts(&self, count: u32) -> Result<Vec<Attempt>> {
        let mut query = self.connection.prepare(&format!(
            "select {} from attempts join tasks on tasks.seq = attempts.task
             order by attempts.rowid desc
             limit ?",
            Attempt::COLUMNS
        ))?;
        Ok(query.query_map([count], Attempt::from_row)?.collect::<Result<_, _>>()?)
    }

    /// The latest attempt of the runs in this working tree; with `or_unknown` also of runs of which no
    /// tree is known, because they are imported or from a time when that was not recorded.
    pub fn last_attempt_in(&self, root: &Path, or_unknown: bool) -> Result<Option<Attempt>> {
        let mut query = self.connection.prepare(&format!(
            "select {} from attempts join tasks on tasks.seq = attempts.task
             where run in (select id from runs where root = ?1 or (?2 and root is null))
             order by attempts.rowid desc
             limit 1",
            Attempt::COLUMNS
        ))?;
        Ok(query.query_row((tree_name(root), or_unknown), Attempt::from_row).optional()?)
    }

    /// The attempt with this id, or with the one id that begins like this.
    pub fn attempt(&self, id: &str) -> Result<Attempt> {
        let mut query = self.connection.prepare(&format!(
            "select {} from attempts join tasks on tasks.seq = attempts.task
             where attempts.id >= ?1 and attempts.id < ?1 || '~'
             limit 2",
            Attempt::COLUMNS
        ))?;
        let mut found: Vec<Attempt> =
            query.query_map([id], Attempt::from_row)?.collect::<Result<_, _>>()?;
        match (found.pop(), found.is_empty()) {
            (Some(attempt), true) => Ok(attempt),
            (Some(_), false) => Err(anyhow!("`{id}` is the beginning of more than one id")),
            (None, _) => Err(anyhow!("there is no attempt `{id}`")),
        }
        .hint("`ralph logs` shows the latest ones")
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

/// A task that can be claimed.
struct Ready {
    seq: i64,
    id: TaskId,
    /// The how-manieth attempt on it would be next.
    number: u32,
}

/// The first ready task of the target.
fn next_ready(tx: &Transaction<'_>, target: &Target) -> Result<Option<Ready>> {
    const COLUMNS: &str = "tasks.seq, tasks.id,
         1 + (select coalesce(max(number), 0) from attempts where task = tasks.seq)";
    const READY: &str = "status = 'pending' and waits = 0 and claimed = 0 and not_before is null
         order by priority, tasks.seq
         limit 1";
    let ready = |row: &rusqlite::Row<'_>| {
        Ok(Ready { seq: row.get(0)?, id: row.get(1)?, number: row.get(2)? })
    };
    let next = match target {
        Target::Everything => tx
            .prepare_cached(&format!("select {COLUMNS} from tasks where {READY}"))?
            .query_row([], ready),
        Target::Feature { id, .. } => tx
            .prepare_cached(&format!("select {COLUMNS} from tasks where feature = ? and {READY}"))?
            .query_row([id], ready),
        Target::Task(id) => tx
            .prepare_cached(&format!(
                "{INSIDE} select {COLUMNS} from inside join tasks using (seq) where {READY}"
            ))?
            .query_row([seq_of(tx, *id)?], ready),
    };
    Ok(next.optional()?)
}

fn open_attempt(tx: &Transaction<'_>, task: &Ready, run: RunId, now: Timestamp) -> Result<Claim> {
    // With a query in `returning` SQLite compiles this anew for most claims: as long as all the rest.
    let mut insert = tx.prepare_cached(
        "insert into attempts (id, task, number, run, started_at)
         values (?1, ?2, ?3, ?4, ?5)
         on conflict (id) do nothing",
    )?;
    loop {
        let attempt = AttemptId::from_bits(random_bits()?);
        if insert.execute((attempt, task.seq, task.number, run, now))? > 0 {
            return Ok(Claim { attempt, task: task.id, number: task.number });
        }
    }
}

/// How a claim was lost; none while it stands.
fn lost(tx: &Transaction<'_>, claim: &Claim) -> Result<Option<ClaimLost>> {
    let outcome: Option<Option<Outcome>> = tx
        .prepare_cached("select outcome from attempts where id = ?")?
        .query_row([claim.attempt], |row| row.get(0))
        .optional()?;
    let loss = match outcome {
        Some(None) => return Ok(None),
        Some(Some(Outcome::Crashed)) => Loss::TakenBack,
        Some(Some(_)) => Loss::Overruled,
        None => Loss::Deleted,
    };
    Ok(Some(ClaimLost { task: claim.task, loss }))
}

/// Adds to what is known of the session of an attempt.
fn record(tx: &Transaction<'_>, attempt: AttemptId, session: &SessionRecord) -> Result<()> {
    let tokens = session.bill.map(|bill| bill.tokens.columns());
    tx.prepare_cached(
        "update attempts
             set model = coalesce(?2, model),
                 exit_code = coalesce(?3, exit_code),
                 cost_usd = coalesce(?4, cost_usd),
                 input_tokens = coalesce(?5, input_tokens),
                 cache_read_tokens = coalesce(?6, cache_read_tokens),
                 cache_write_tokens = coalesce(?7, cache_write_tokens),
                 output_tokens = coalesce(?8, output_tokens),
                 billing = coalesce(?9, billing),
                 turns = coalesce(?10, turns),
                 log_path = coalesce(?11, log_path),
                 session_id = coalesce(?12, session_id),
                 head_before = coalesce(?13, head_before),
                 head_after = coalesce(?14, head_after),
                 verify_log_path = coalesce(?15, verify_log_path)
             where id = ?1",
    )?
    .execute(params![
        attempt,
        session.model,
        session.exit_code,
        session.bill.map(|bill| bill.cost_usd),
        tokens.map(|[input, ..]| input),
        tokens.map(|[_, cache_read, ..]| cache_read),
        tokens.map(|[.., cache_write, _]| cache_write),
        tokens.map(|[.., output]| output),
        session.bill.and_then(|bill| bill.billing),
        session.turns,
        session.log_path,
        session.session_id,
        session.head_before,
        session.head_after,
        session.verify_log_path,
    ])?;
    Ok(())
}

pub(super) fn close_attempt(
    tx: &Transaction<'_>,
    attempt: AttemptId,
    outcome: Outcome,
    reason: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    tx.prepare_cached(
        "update attempts
         set ended_at = ?2, outcome = ?3, reason = ?4, asked = null, asked_reason = null
         where id = ?1",
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
) -> Result<Status> {
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
        return Ok(Status::Pending);
    }
    let (retries, max_retries): (u32, Option<u32>) =
        tx.query_row("select retries, max_retries from tasks where seq = ?", [seq], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let max_retries = match ending.for_good {
        true => 0,
        false => max_retries.unwrap_or(ending.max_retries),
    };
    let (status, retries) = ending.outcome.settle(retries, max_retries);
    set_status(tx, &place, status, reason, now)?;
    tx.prepare_cached("update tasks set retries = ?2, not_before = ?3 where seq = ?1")?
        .execute((seq, retries, ending.not_before.filter(|_| status == Status::Pending)))?;
    Ok(status)
}
