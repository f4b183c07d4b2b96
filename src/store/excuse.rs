//! Attempts that turn out not to be the fault of their tasks.

use std::collections::BTreeMap;

use anyhow::Result;
use rusqlite::{OptionalExtension, Transaction};

use super::Store;
use super::rows::Place;
use super::verbs::set_status;
use crate::dag::{AttemptId, Kind, LogEvent, Outcome, Status, TaskId};
use crate::time::Timestamp;

impl Store {
    /// Records that these attempts failed for a reason that has nothing to do with their tasks. They
    /// count as interrupted, their retries are given back, and a task that had failed for good is
    /// pending again. Returns the tasks.
    pub fn excuse(
        &mut self,
        attempts: &[AttemptId],
        reason: &str,
        now: Timestamp,
    ) -> Result<Vec<TaskId>> {
        self.write_durably(|tx| {
            let mut excused: BTreeMap<i64, u32> = BTreeMap::new();
            for &attempt in attempts {
                if let Some(task) = excuse_attempt(tx, attempt, reason)? {
                    *excused.entry(task).or_default() += 1;
                }
            }
            excused.into_iter().map(|(task, count)| give_back(tx, task, count, now)).collect()
        })
    }
}

/// Makes a failed attempt an interrupted one; tells its task, or nothing if it has not failed.
fn excuse_attempt(tx: &Transaction<'_>, attempt: AttemptId, reason: &str) -> Result<Option<i64>> {
    let task = tx
        .prepare_cached(
            "update attempts
             set outcome = ?2,
                 reason = ?3 || coalesce(char(10) || reason, ''),
                 verification_status = null
             where id = ?1 and outcome in ('failed', 'silent')
             returning task",
        )?
        .query_row((attempt, Outcome::Interrupted, reason), |row| row.get(0))
        .optional()?;
    Ok(task)
}

/// Gives a task back the retries that so many of its attempts have used.
fn give_back(tx: &Transaction<'_>, task: i64, attempts: u32, now: Timestamp) -> Result<TaskId> {
    let place = Place::load(tx, task)?;
    let retries: u32 =
        tx.query_row("select retries from tasks where seq = ?", [task], |row| row.get(0))?;
    // The attempt that made it fail for good was no retry.
    let failed =
        place.kind == Kind::Work && place.status == Status::Failed && by_attempt(tx, task)?;
    let used = retries + u32::from(failed);
    if failed {
        set_status(tx, &place, Status::Pending, None, now)?;
    }
    tx.prepare_cached("update tasks set retries = ?2 where seq = ?1")?
        .execute((task, used.saturating_sub(attempts)))?;
    Ok(place.id)
}

/// Whether the last failure of a task was that of an attempt, and not declared by a person.
fn by_attempt(tx: &Transaction<'_>, task: i64) -> Result<bool> {
    let author: Option<Option<AttemptId>> = tx
        .query_row(
            "select author from task_logs where task = ? and event = ? order by at desc limit 1",
            (task, LogEvent::Failed),
            |row| row.get(0),
        )
        .optional()?;
    Ok(author.flatten().is_some())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::dag::Verb;
    use crate::store::{Ending, NewRun, NewTask, Target};

    /// A store with one task, and the attempts on it that failed, so many retries being allowed.
    fn failed(retries: u32, attempts: u32) -> (TempDir, Store, TaskId, Vec<AttemptId>) {
        let directory = TempDir::new().unwrap();
        let mut store = Store::open(&directory.path().join("db")).unwrap();
        let now = Timestamp::now();
        let task = NewTask { title: "task".to_owned(), ..NewTask::default() };
        let task = store.add_tasks(&[task], None, now).unwrap()[0];
        let run = store.start_run(&NewRun::new(), now).unwrap();
        let attempts = (0..attempts)
            .map(|_| {
                let claim = store.claim_next(run, &Target::Everything, now).unwrap().unwrap();
                let attempt = claim.attempt;
                store.finish(claim, &Ending::new(Outcome::Failed, retries), now).unwrap();
                attempt
            })
            .collect();
        (directory, store, task, attempts)
    }

    #[track_caller]
    fn check(retries: u32, attempts: u32, excused: &[usize], used: u32) {
        let (_directory, mut store, task, attempts) = failed(retries, attempts);
        let excused: Vec<AttemptId> = excused.iter().map(|&index| attempts[index]).collect();
        let tasks = store.excuse(&excused, "not its fault", Timestamp::now()).unwrap();
        assert_eq!(tasks, [task]);
        let stored = store.task(task).unwrap().unwrap();
        assert_eq!((stored.status, stored.retries), (Some(Status::Pending), used));
        for attempt in store.attempts(task).unwrap() {
            let is_excused = excused.contains(&attempt.id);
            let outcome = if is_excused { Outcome::Interrupted } else { Outcome::Failed };
            assert_eq!(attempt.outcome, Some(outcome));
            assert_eq!(attempt.reason.is_some(), is_excused);
        }
    }

    #[test]
    fn it_is_as_if_they_had_not_been_judged() {
        check(3, 1, &[0], 0);
        check(3, 2, &[0], 1);
        check(1, 2, &[0, 1], 0);
        check(1, 2, &[0], 1);
        check(0, 1, &[0], 0);
    }

    #[test]
    fn what_a_person_has_decided_stays_decided() {
        let (_directory, mut store, task, attempts) = failed(3, 1);
        let now = Timestamp::now();
        store.apply(Verb::Fail, &task.to_string(), None, None, now).unwrap();
        store.excuse(&attempts, "not its fault", now).unwrap();
        assert_eq!(store.task(task).unwrap().unwrap().status, Some(Status::Failed));
        assert!(store.excuse(&attempts, "twice", now).unwrap().is_empty());
    }
}
