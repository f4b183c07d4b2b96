//! Every session, and what all of them have cost.

use std::collections::HashMap;

use anyhow::Result;
use rusqlite::{Transaction, params};

use super::Store;
use super::add::random_bits;
use crate::dag::{
    Attempt, AttemptId, Bill, Billing, Costs, FeatureId, RunId, SessionEntry, SessionId,
    SessionKind, TaskId,
};
use crate::money;
use crate::process::Holder;
use crate::time::Timestamp;

/// A session that begins or has just ended.
#[derive(Debug, Clone)]
#[expect(
    missing_docs,
    reason = "the fields are the columns of the table, which says what they are"
)]
pub struct NewSession {
    pub kind: SessionKind,
    pub attempt: Option<AttemptId>,
    pub task: Option<TaskId>,
    pub feature: Option<FeatureId>,
    pub run: Option<RunId>,
    pub model: Option<String>,
    pub started_at: Timestamp,
    pub bill: Bill,
    pub log_path: Option<String>,
    pub session_id: Option<String>,
}

impl NewSession {
    /// A session that began then, and of which no more is to be said yet.
    pub fn new(kind: SessionKind, started_at: Timestamp) -> NewSession {
        NewSession {
            kind,
            attempt: None,
            task: None,
            feature: None,
            run: None,
            model: None,
            started_at,
            bill: Bill::default(),
            log_path: None,
            session_id: None,
        }
    }
}

/// A session that has begun and whose end is not recorded.
#[derive(Debug, Clone)]
pub struct OpenSession {
    /// Its id.
    pub id: SessionId,
    /// What was known of it when it began.
    pub session: NewSession,
    /// The process that started it.
    pub holder: Holder,
}

impl Store {
    /// Records that a session begins which this process has started. It must end with `end_session`.
    pub fn begin_session(&mut self, session: &NewSession) -> Result<SessionId> {
        let holder = Holder::current();
        self.write(|tx| {
            loop {
                let id = SessionId::from_bits(random_bits()?);
                if !is_taken(tx, id)? && insert_open(tx, id, session, &holder)? {
                    return Ok(id);
                }
            }
        })
    }

    /// Records that a session has ended, with all that is known of it now.
    pub fn end_session(
        &mut self,
        id: SessionId,
        session: &NewSession,
        now: Timestamp,
    ) -> Result<()> {
        self.write(|tx| {
            // What was found in the log meanwhile, because this process seemed to be gone, is less.
            tx.execute("delete from sessions where id = ?", [id])?;
            insert(tx, &entry(id, session, now))?;
            forget_open(tx, id)?;
            session.attempt.map_or(Ok(()), |attempt| sum_up_crashed(tx, attempt))
        })
    }

    /// Forgets a session that has begun and has cost nothing, as far as can be told.
    pub fn forget_session(&mut self, id: SessionId) -> Result<()> {
        self.write(|tx| forget_open(tx, id))
    }

    /// The sessions that have begun and whose end is not recorded.
    pub fn open_sessions(&self) -> Result<Vec<OpenSession>> {
        let mut query = self.connection.prepare(
            "select id, kind, attempt, task, feature, run, model, started_at, log_path, session_id,
                 host, pid, pid_started
             from open_sessions
             order by rowid",
        )?;
        let sessions = query.query_map([], |row| {
            let session = NewSession {
                kind: row.get(1)?,
                attempt: row.get(2)?,
                task: row.get(3)?,
                feature: row.get(4)?,
                run: row.get(5)?,
                model: row.get(6)?,
                started_at: row.get(7)?,
                bill: Bill::default(),
                log_path: row.get(8)?,
                session_id: row.get(9)?,
            };
            let started = row.get::<_, i64>(12)?.unsigned_abs();
            let holder = Holder { host: row.get(10)?, pid: row.get(11)?, started };
            Ok(OpenSession { id: row.get(0)?, session, holder })
        })?;
        Ok(sessions.collect::<Result<_, _>>()?)
    }

    /// When each session of a loop ended.
    pub fn loops_over(&self) -> Result<HashMap<SessionId, Timestamp>> {
        let mut query =
            self.connection.prepare("select id, ended_at from sessions where kind = 'loop'")?;
        let sessions = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(sessions.collect::<Result<_, _>>()?)
    }

    /// The sessions of a task, oldest first.
    pub fn sessions_of(&self, task: TaskId) -> Result<Vec<SessionEntry>> {
        let mut query = self.connection.prepare(&format!(
            "select {} from sessions where task = ? order by rowid",
            SessionEntry::COLUMNS
        ))?;
        Ok(query.query_map([task], SessionEntry::from_row)?.collect::<Result<_, _>>()?)
    }
}

fn is_taken(tx: &Transaction<'_>, id: SessionId) -> Result<bool> {
    let mut query = tx.prepare_cached("select exists (select 1 from sessions where id = ?)")?;
    Ok(query.query_row([id], |row| row.get(0))?)
}

/// Writes that a session begins, unless its id is taken; tells whether it did.
fn insert_open(
    tx: &Transaction<'_>,
    id: SessionId,
    session: &NewSession,
    holder: &Holder,
) -> Result<bool> {
    let inserted = tx
        .prepare_cached(
            "insert into open_sessions
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             on conflict (id) do nothing",
        )?
        .execute(params![
            id,
            session.kind,
            session.attempt,
            session.task,
            session.feature,
            session.run,
            session.model,
            session.started_at,
            session.log_path,
            session.session_id,
            holder.host,
            holder.pid,
            i64::try_from(holder.started).unwrap_or(i64::MAX),
        ])?;
    Ok(inserted > 0)
}

fn forget_open(tx: &Transaction<'_>, id: SessionId) -> Result<()> {
    tx.prepare_cached("delete from open_sessions where id = ?")?.execute([id])?;
    Ok(())
}

/// Gives an attempt that crashed the sum of its sessions. Of any other the run says what it has used.
fn sum_up_crashed(tx: &Transaction<'_>, attempt: AttemptId) -> Result<()> {
    tx.prepare_cached(
        "update attempts
         set (cost_usd, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, billing) = (
             select
                 total(cost_usd), sum(input_tokens), sum(cache_read_tokens),
                 sum(cache_write_tokens), sum(output_tokens),
                 case when count(distinct coalesce(billing, '')) = 1 then max(billing) end
             from sessions
             where attempt = ?1
         )
         where id = ?1 and outcome = 'crashed'",
    )?
    .execute([attempt])?;
    Ok(())
}

fn entry(id: SessionId, session: &NewSession, now: Timestamp) -> SessionEntry {
    let [input, cache_read, cache_write, output] = session.bill.tokens.columns().map(Some);
    SessionEntry {
        id,
        kind: session.kind,
        attempt: session.attempt,
        task: session.task,
        feature: session.feature,
        run: session.run,
        model: session.model.clone(),
        started_at: session.started_at,
        ended_at: now,
        cost_usd: session.bill.cost_usd,
        input_tokens: input,
        cache_read_tokens: cache_read,
        cache_write_tokens: cache_write,
        output_tokens: output,
        billing: session.bill.billing,
        log_path: session.log_path.clone(),
        session_id: session.session_id.clone(),
    }
}

/// Writes a session, unless its id is taken; tells whether it did.
pub(super) fn insert(tx: &Transaction<'_>, session: &SessionEntry) -> Result<bool> {
    let inserted = tx
        .prepare_cached(
            "insert into sessions (
                 id, kind, attempt, task, feature, run, model, started_at, ended_at, cost_usd,
                 input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, billing,
                 log_path, session_id
             )
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
             on conflict (id) do nothing",
        )?
        .execute(params![
            session.id,
            session.kind,
            session.attempt,
            session.task,
            session.feature,
            session.run,
            session.model,
            session.started_at,
            session.ended_at,
            session.cost_usd,
            session.input_tokens,
            session.cache_read_tokens,
            session.cache_write_tokens,
            session.output_tokens,
            session.billing,
            session.log_path,
            session.session_id,
        ])?;
    Ok(inserted > 0)
}

/// The session that an attempt of an older export stands for.
pub(super) fn of_attempt(attempt: &Attempt) -> Option<SessionEntry> {
    Some(SessionEntry {
        id: attempt.id.with_letter(),
        kind: SessionKind::Work,
        attempt: Some(attempt.id),
        task: Some(attempt.task),
        feature: None,
        run: attempt.run,
        model: attempt.model.clone(),
        started_at: attempt.started_at,
        ended_at: attempt.ended_at?,
        cost_usd: attempt.cost_usd?,
        input_tokens: attempt.input_tokens,
        cache_read_tokens: attempt.cache_read_tokens,
        cache_write_tokens: attempt.cache_write_tokens,
        output_tokens: attempt.output_tokens,
        billing: attempt.billing,
        log_path: attempt.log_path.clone(),
        session_id: attempt.session_id.clone(),
    })
}

/// What all sessions have cost.
pub(super) fn costs(tx: &Transaction<'_>) -> Result<Costs> {
    let mut query = tx.prepare(
        "select kind, billing, total(cost_usd) from sessions group by kind, billing having total(cost_usd) > 0",
    )?;
    let rows = query.query_map([], |row| {
        Ok((row.get::<_, SessionKind>(0)?, row.get::<_, Option<Billing>>(1)?, row.get(2)?))
    })?;
    let mut costs = Costs::default();
    let mut billings = Vec::new();
    let mut by_kind = SessionKind::ALL.iter().map(|&kind| (kind, 0.0)).collect::<Vec<_>>();
    for row in rows {
        let (kind, billing, cost): (_, _, f64) = row?;
        billings.push(billing);
        let sum = match billing {
            Some(Billing::Subscription) => &mut costs.covered,
            Some(Billing::Api) | None => &mut costs.charged,
        };
        *sum = money::rounded(*sum + cost);
        for (_, sum) in by_kind.iter_mut().filter(|(it, _)| *it == kind) {
            *sum = money::rounded(*sum + cost);
        }
    }
    costs.billing = billings.first().copied().flatten();
    costs.billing = costs.billing.filter(|_| billings.iter().all(|it| *it == costs.billing));
    costs.kinds = by_kind.into_iter().filter(|(_, cost)| *cost > 0.0).collect();
    Ok(costs)
}
