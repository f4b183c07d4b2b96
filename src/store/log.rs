//! What happened to a task, and what people and agents noted.

use std::time::Duration;

use anyhow::{Result, ensure};
use rusqlite::Transaction;

use super::validate::check_text;
use super::{Store, resolve};
use crate::dag::{AttemptId, LogEntry, LogEvent, TaskId};
use crate::time::Timestamp;

impl Store {
    /// Adds a note to the log of a task.
    pub fn note(
        &mut self,
        task: &str,
        message: &str,
        author: Option<AttemptId>,
        now: Timestamp,
    ) -> Result<TaskId> {
        ensure!(!message.trim().is_empty(), "a note can't be empty");
        check_text("a note", message)?;
        self.write(|tx| {
            let place = resolve::task(tx, task)?;
            log(tx, place.seq, LogEvent::Note, author, message, now)?;
            Ok(place.id)
        })
    }

    /// The log of a task, oldest first.
    pub fn task_log(&self, id: TaskId) -> Result<Vec<LogEntry>> {
        let mut query = self.connection.prepare(&format!(
            "select {} from task_logs where task = (select seq from tasks where id = ?) order by at",
            LogEntry::COLUMNS
        ))?;
        Ok(query.query_map([id], LogEntry::from_row)?.collect::<Result<_, _>>()?)
    }
}

/// Adds an entry to the log of a task, later than all its others whatever the clock says.
pub(super) fn log(
    tx: &Transaction<'_>,
    task: i64,
    event: LogEvent,
    author: Option<AttemptId>,
    message: &str,
    now: Timestamp,
) -> Result<()> {
    let last: Option<Timestamp> = tx
        .prepare_cached("select max(at) from task_logs where task = ?")?
        .query_row([task], |row| row.get(0))?;
    let at = match last {
        Some(last) if last >= now => last.plus(Duration::from_millis(1)),
        _ => now,
    };
    tx.prepare_cached(
        "insert into task_logs (task, at, event, author, message) values (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((task, at, event, author, message))?;
    Ok(())
}
