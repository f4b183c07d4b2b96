//! Every session, and what all of them have cost.

use anyhow::Result;
use rusqlite::{Transaction, params};

use super::Store;
use super::add::random_bits;
use crate::dag::{
    Attempt, AttemptId, Bill, Billing, Costs, FeatureId, RunId, SessionEntry, SessionId,
    SessionKind, TaskId,
};
use crate::money;
use crate::time::Timestamp;

/// A session that has just ended.
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

impl Store {
    /// Records a session that has ended.
    pub fn add_session(&mut self, session: &NewSession, now: Timestamp) -> Result<SessionId> {
        self.write(|tx| {
            loop {
                let id = SessionId::from_bits(random_bits()?);
                if insert(tx, &entry(id, session, now))? {
                    return Ok(id);
                }
            }
        })
    }

    /// The attempt, if none of its sessions is recorded.
    pub fn unrecorded(&self, attempt: AttemptId) -> Result<Option<Attempt>> {
        let recorded = "select exists (select 1 from sessions where attempt = ?)";
        if self.connection.query_row(recorded, [attempt], |row| row.get(0))? {
            return Ok(None);
        }
        self.attempt(&attempt.to_string()).map(Some)
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
