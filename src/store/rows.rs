//! Rows become types here, and types become columns.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Row, Transaction};

use crate::dag::{
    Ask, Attempt, Billing, Feature, FeatureId, FeatureStatus, Id, Kind, LogEntry, LogEvent,
    Outcome, SessionEntry, SessionKind, Span, Status, Task, TaskId, Verification,
};
use crate::time::Timestamp;

macro_rules! text_column {
    ($($type:ty),+) => {$(
        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                <$type>::from_name(value.as_str()?).ok_or(FromSqlError::InvalidType)
            }
        }

        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.name().into())
            }
        }
    )+};
}

text_column!(
    Ask,
    Billing,
    Kind,
    Status,
    Outcome,
    FeatureStatus,
    LogEvent,
    SessionKind,
    Verification
);

impl<const P: char> FromSql for Id<P> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

impl<const P: char> ToSql for Id<P> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

impl ToSql for Timestamp {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.to_string().into())
    }
}

impl Task {
    /// The columns that `from_row` reads, of `tasks` as `task` left-joined with its `parent`.
    pub(super) const COLUMNS: &str = "task.id, task.key, task.kind, parent.id, task.feature, \
         task.title, task.description, task.priority, task.status, task.reason, task.retries, \
         task.max_retries, task.not_before, task.created_by, task.created_at, task.updated_at";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Task> {
        Ok(Task {
            id: row.get(0)?,
            key: row.get(1)?,
            kind: row.get(2)?,
            parent: row.get(3)?,
            feature: row.get(4)?,
            title: row.get(5)?,
            description: row.get(6)?,
            priority: row.get(7)?,
            status: row.get(8)?,
            reason: row.get(9)?,
            retries: row.get(10)?,
            max_retries: row.get(11)?,
            not_before: row.get(12)?,
            created_by: row.get(13)?,
            created_at: row.get(14)?,
            updated_at: row.get(15)?,
        })
    }
}

impl Feature {
    /// Draft and planned are facts; where a feature that was built stands follows from its tasks.
    pub(super) const COLUMNS: &str = "id, name,
         case
             when status in ('draft', 'planned') then status
             else (
                 select case
                     when total(claimed) > 0 then 'running'
                     when count(*) > 0 and total(status = 'done') = count(*) then 'done'
                     when total(status = 'failed') > 0 then 'failed'
                     else 'ready'
                 end
                 from tasks
                 where feature = features.id and kind = 'work'
             )
         end,
         spec_path, plan_path, created_at, updated_at";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Feature> {
        Ok(Feature {
            id: row.get(0)?,
            name: row.get(1)?,
            status: row.get(2)?,
            spec_path: row.get(3)?,
            plan_path: row.get(4)?,
            created_at: row.get(5)?,
            updated_at: row.get(6)?,
        })
    }
}

impl Attempt {
    pub(super) const COLUMNS: &str = "attempts.id, tasks.id, number, run, model, started_at, \
         ended_at, outcome, attempts.reason, exit_code, cost_usd, input_tokens, output_tokens, \
         turns, log_path, session_id, head_before, head_after, verification_status, \
         verify_log_path, cache_read_tokens, cache_write_tokens, billing";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Attempt> {
        Ok(Attempt {
            id: row.get(0)?,
            task: row.get(1)?,
            number: row.get(2)?,
            run: row.get(3)?,
            model: row.get(4)?,
            started_at: row.get(5)?,
            ended_at: row.get(6)?,
            outcome: row.get(7)?,
            reason: row.get(8)?,
            exit_code: row.get(9)?,
            cost_usd: row.get(10)?,
            input_tokens: row.get(11)?,
            output_tokens: row.get(12)?,
            turns: row.get(13)?,
            log_path: row.get(14)?,
            session_id: row.get(15)?,
            head_before: row.get(16)?,
            head_after: row.get(17)?,
            verification_status: row.get(18)?,
            verify_log_path: row.get(19)?,
            cache_read_tokens: row.get(20)?,
            cache_write_tokens: row.get(21)?,
            billing: row.get(22)?,
        })
    }
}

impl SessionEntry {
    pub(super) const COLUMNS: &str = "id, kind, attempt, task, feature, run, model, started_at, \
         ended_at, cost_usd, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, \
         billing, log_path, session_id";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<SessionEntry> {
        Ok(SessionEntry {
            id: row.get(0)?,
            kind: row.get(1)?,
            attempt: row.get(2)?,
            task: row.get(3)?,
            feature: row.get(4)?,
            run: row.get(5)?,
            model: row.get(6)?,
            started_at: row.get(7)?,
            ended_at: row.get(8)?,
            cost_usd: row.get(9)?,
            input_tokens: row.get(10)?,
            cache_read_tokens: row.get(11)?,
            cache_write_tokens: row.get(12)?,
            output_tokens: row.get(13)?,
            billing: row.get(14)?,
            log_path: row.get(15)?,
            session_id: row.get(16)?,
        })
    }
}

/// What is needed of a task to change the graph around it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) kind: Kind,
    pub(super) parent: Option<i64>,
    pub(super) feature: Option<FeatureId>,
    pub(super) status: Status,
    waits: i64,
    children: i64,
    children_done: i64,
    pub(super) span: Span,
}

impl Place {
    pub(super) fn load(tx: &Transaction<'_>, seq: i64) -> rusqlite::Result<Place> {
        tx.prepare_cached(
            "select seq, id, kind, parent, feature, status, waits, children, children_done, starts, ends
             from tasks
             where seq = ?",
        )?
        .query_row([seq], |row| {
            Ok(Place {
                seq: row.get(0)?,
                id: row.get(1)?,
                kind: row.get(2)?,
                parent: row.get(3)?,
                feature: row.get(4)?,
                status: row.get::<_, Option<Status>>(5)?.unwrap_or(Status::Pending),
                waits: row.get(6)?,
                children: row.get(7)?,
                children_done: row.get(8)?,
                span: Span { start: row.get(9)?, end: row.get(10)? },
            })
        })
    }

    pub(super) fn is_done(&self) -> bool {
        match self.kind {
            Kind::Work => self.status == Status::Done,
            Kind::Group => self.children > 0 && self.children == self.children_done,
        }
    }

    /// Whether what is inside can't start.
    pub(super) fn is_closed(&self) -> bool {
        self.waits > 0 || self.status == Status::Blocked
    }
}

impl LogEntry {
    pub(super) const COLUMNS: &str = "at, event, author, message";

    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<LogEntry> {
        Ok(LogEntry {
            at: row.get(0)?,
            event: row.get(1)?,
            author: row.get(2)?,
            message: row.get(3)?,
        })
    }
}

/// A status as it is stored: an open group has none.
pub(super) fn stored_status(kind: Kind, status: Status) -> Option<Status> {
    match (kind, status) {
        (Kind::Group, Status::Pending) => None,
        _ => Some(status),
    }
}
