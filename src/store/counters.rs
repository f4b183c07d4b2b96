//! The one place that keeps `waits`, `children` and `children_done` true. A change to one task is
//! passed on to exactly those whose own numbers change by it.
//!
//! A task is *closed* while it waits for something or a person holds it: what is inside can't start.

use anyhow::Result;
use rusqlite::{OptionalExtension, Transaction};

/// What has just become true of a task and has to be passed on.
enum News {
    /// It became done, or is no longer done.
    Done { task: i64, done: bool },
    /// It was closed or opened.
    Closed { task: i64, closed: bool },
}

/// The task became done, or is no longer done.
pub(super) fn done_changed(tx: &Transaction<'_>, task: i64, done: bool) -> Result<()> {
    spread(tx, vec![News::Done { task, done }])
}

/// A person began or ceased to hold the task. That changes nothing inside while it waits anyway.
pub(super) fn hold_changed(tx: &Transaction<'_>, task: i64, held: bool) -> Result<()> {
    let waits: i64 = tx
        .prepare_cached("select waits from tasks where seq = ?")?
        .query_row([task], |row| row.get(0))?;
    let news = (waits == 0).then_some(News::Closed { task, closed: held });
    spread(tx, news.into_iter().collect())
}

/// An open blocker was added to the task, or removed from it.
pub(super) fn blocker_changed(tx: &Transaction<'_>, task: i64, added: bool) -> Result<()> {
    let mut update = tx.prepare_cached(
        "update tasks
         set waits = waits + ?2
         where seq = ?1
         returning waits = ?3 and status is not 'blocked'",
    )?;
    let flipped = update.query_row((task, sign(added), i64::from(added)), |row| row.get(0))?;
    let news = Some(News::Closed { task, closed: added }).filter(|_| flipped);
    spread(tx, news.into_iter().collect())
}

/// A child came into the group, or left it.
pub(super) fn child_changed(
    tx: &Transaction<'_>,
    group: i64,
    child_done: bool,
    added: bool,
) -> Result<()> {
    let news = recount(tx, group, sign(added), if child_done { sign(added) } else { 0 })?;
    spread(tx, news.into_iter().collect())
}

fn sign(plus: bool) -> i64 {
    if plus { 1 } else { -1 }
}

fn spread(tx: &Transaction<'_>, mut news: Vec<News>) -> Result<()> {
    while let Some(item) = news.pop() {
        match item {
            News::Done { task, done } => {
                tell_blocked(tx, task, done, &mut news)?;
                let parent: Option<i64> = tx
                    .prepare_cached("select parent from tasks where seq = ?")?
                    .query_row([task], |row| row.get(0))?;
                if let Some(parent) = parent {
                    news.extend(recount(tx, parent, 0, sign(done))?);
                }
            }
            News::Closed { task, closed } => tell_children(tx, task, closed, &mut news)?,
        }
    }
    Ok(())
}

/// Those that wait for `task` wait for one less, or one more.
fn tell_blocked(tx: &Transaction<'_>, task: i64, done: bool, news: &mut Vec<News>) -> Result<()> {
    tx.prepare_cached(
        "update tasks
         set waits = waits + ?2
         where seq in (select blocked from dependencies where blocker = ?1)",
    )?
    .execute((task, sign(!done)))?;
    let mut flipped = tx.prepare_cached(
        "select seq
         from dependencies join tasks on seq = blocked
         where blocker = ?1 and children > 0 and waits = ?2 and status is not 'blocked'",
    )?;
    let flipped = flipped.query_map((task, i64::from(!done)), |row| row.get(0))?;
    for group in flipped {
        news.push(News::Closed { task: group?, closed: !done });
    }
    Ok(())
}

/// What is directly inside `group` has one reason more to wait, or one less.
fn tell_children(
    tx: &Transaction<'_>,
    group: i64,
    closed: bool,
    news: &mut Vec<News>,
) -> Result<()> {
    tx.prepare_cached("update tasks set waits = waits + ?2 where parent = ?1")?
        .execute((group, sign(closed)))?;
    let mut flipped = tx.prepare_cached(
        "select seq
         from tasks
         where parent = ?1 and children > 0 and waits = ?2 and status is not 'blocked'",
    )?;
    let flipped = flipped.query_map((group, i64::from(closed)), |row| row.get(0))?;
    for inner in flipped {
        news.push(News::Closed { task: inner?, closed });
    }
    Ok(())
}

/// Changes the numbers of a group's children; tells whether it became done by that, or undone.
fn recount(tx: &Transaction<'_>, group: i64, children: i64, done: i64) -> Result<Option<News>> {
    let counts: Option<(i64, i64)> = tx
        .prepare_cached(
            "update tasks
             set children = children + ?2, children_done = children_done + ?3
             where seq = ?1
             returning children, children_done",
        )?
        .query_row((group, children, done), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((now, now_done)) = counts else { return Ok(None) };
    let (before, before_done) = (now - children, now_done - done);
    let is_done = now > 0 && now == now_done;
    let was_done = before > 0 && before == before_done;
    Ok((is_done != was_done).then_some(News::Done { task: group, done: is_done }))
}
