//! Building the tasks of a feature. They are all inside one root group, which is held while the build
//! is not finished: a run that is under way can't take what does not have its dependencies yet, and a
//! build that died half-way leaves nothing that looks whole.

use anyhow::{Result, anyhow};
use rusqlite::{OptionalExtension, Transaction};

use super::add::{Batch, NewTask};
use super::dependencies::{self, first_waiter};
use super::features::{self, FeatureChange};
use super::resolve::shorten;
use super::rows::Place;
use super::verbs::set_status;
use super::{INSIDE, Store, counters};
use crate::dag::{Feature, FeatureId, FeatureStatus, Status, TaskId};
use crate::hint::HintExt;
use crate::time::Timestamp;

/// Begins a query about the tasks of the feature `?1` that are not done and hold nothing that is. The
/// root stays, to be filled again.
const UNFINISHED: &str = "with recursive
     kept (seq) as (
         select seq from tasks where feature = ?1 and kind = 'work' and status = 'done'
         union
         select seq from tasks where key = 'feature ' || ?1
         union
         select parent from kept join tasks using (seq) where parent is not null
     ),
     inside (seq) as (select seq from tasks where feature = ?1 and seq not in kept)";

impl Store {
    /// Begins to build the tasks of a feature: its root, made if there is none, is held until the end.
    pub fn begin_build(&mut self, feature: &Feature, now: Timestamp) -> Result<TaskId> {
        self.write(|tx| {
            let root = NewTask {
                title: feature.name.clone(),
                group: true,
                feature: Some(feature.id.to_string()),
                key: Some(root_key(feature.id)),
                ..NewTask::default()
            };
            let id = Batch::new(tx, None, now).add(&root)?;
            let place = root_of(tx, feature.id)?.expect("it is there now");
            let reason = format!(
                "its tasks are not all there: `ralph feature build {}` goes on",
                feature.name
            );
            set_status(tx, &place, Status::Blocked, Some(&reason), now)?;
            set_feature_status(tx, feature.id, FeatureStatus::Planned, now)?;
            Ok(id)
        })
    }

    /// Ends a build. A finished one with tasks is released and makes the feature ready; an empty root
    /// is removed. Returns whether the feature is ready.
    pub fn end_build(
        &mut self,
        feature: FeatureId,
        finished: bool,
        now: Timestamp,
    ) -> Result<bool> {
        self.write_durably(|tx| {
            let Some(root) = root_of(tx, feature)? else { return Ok(false) };
            let work: u32 = tx.query_row(
                &format!(
                    "{INSIDE} select count(*) from inside join tasks using (seq) where kind = 'work'"
                ),
                [root.seq],
                |row| row.get(0),
            )?;
            let is_empty = !has_children(tx, root.seq)?;
            if is_empty && first_waiter(tx, INSIDE, root.seq)?.is_none() {
                tx.execute("delete from tasks where seq = ?", [root.seq])?;
            }
            let ready = finished && work > 0;
            if ready {
                set_status(tx, &root, Status::Pending, None, now)?;
                set_feature_status(tx, feature, FeatureStatus::Ready, now)?;
            }
            Ok(ready)
        })
    }

    /// Removes the tasks of a feature that are not done, all of them or none; returns how many.
    pub fn remove_unfinished(&mut self, feature: FeatureId, now: Timestamp) -> Result<usize> {
        self.write_durably(|tx| {
            let claimed: Option<TaskId> = tx
                .query_row(
                    &format!(
                        "{UNFINISHED} select id from inside join tasks using (seq) where claimed"
                    ),
                    [feature],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(task) = claimed {
                return Err(anyhow!("`{task}` is being worked on")).hint("stop that run first");
            }
            forget_waits_of_what_is_done(tx, feature, now)?;
            if let Some(waiter) = first_waiter(tx, UNFINISHED, feature)? {
                return Err(anyhow!(
                    "the tasks can't be replaced: {} \"{}\" waits for {}",
                    waiter.id,
                    shorten(&waiter.title),
                    waiter.blocker
                ))
                .hint(waiter.hint());
            }
            let parents: Vec<i64> = column(
                tx,
                "select parent from inside join tasks using (seq) where parent not in inside",
                feature,
            )?;
            let removed = tx.execute(
                &format!("{UNFINISHED} delete from tasks where seq in inside"),
                [feature],
            )?;
            for parent in parents {
                counters::child_changed(tx, parent, false, false)?;
            }
            Ok(removed)
        })
    }
}

/// By this key the root of a feature is known.
fn root_key(feature: FeatureId) -> String {
    format!("feature {feature}")
}

fn root_of(tx: &Transaction<'_>, feature: FeatureId) -> Result<Option<Place>> {
    let seq: Option<i64> = tx
        .query_row("select seq from tasks where key = ?", [root_key(feature)], |row| row.get(0))
        .optional()?;
    Ok(seq.map(|seq| Place::load(tx, seq)).transpose()?)
}

fn has_children(tx: &Transaction<'_>, group: i64) -> Result<bool> {
    let query = "select exists (select 1 from tasks where parent = ?)";
    Ok(tx.query_row(query, [group], |row| row.get(0))?)
}

fn set_feature_status(
    tx: &Transaction<'_>,
    feature: FeatureId,
    status: FeatureStatus,
    now: Timestamp,
) -> Result<()> {
    let change = FeatureChange { status: Some(status), ..FeatureChange::default() };
    features::update(tx, feature, &change, now)
}

/// What is done needs to wait for nothing; a person may have declared it done before its time.
fn forget_waits_of_what_is_done(
    tx: &Transaction<'_>,
    feature: FeatureId,
    now: Timestamp,
) -> Result<()> {
    let mut query = tx.prepare(&format!(
        "{UNFINISHED}
         select blocker, blocked
         from inside join dependencies on blocker = inside.seq
         where blocked in kept"
    ))?;
    let pairs: Vec<(i64, i64)> = query
        .query_map([feature], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (blocker, blocked) in pairs {
        let (blocker, blocked) = (Place::load(tx, blocker)?, Place::load(tx, blocked)?);
        dependencies::remove(tx, &blocker, &blocked, now)?;
    }
    Ok(())
}

fn column(tx: &Transaction<'_>, select: &str, feature: FeatureId) -> Result<Vec<i64>> {
    let mut query = tx.prepare(&format!("{UNFINISHED} {select}"))?;
    Ok(query.query_map([feature], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
