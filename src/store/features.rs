//! Features: named pieces of work to which tasks belong.

use anyhow::{Result, anyhow};
use rusqlite::{OptionalExtension, Transaction};

use super::Store;
use super::add::random_bits;
use super::dependencies::first_waiter;
use super::resolve::{self, shorten};
use crate::dag::{Feature, FeatureId, FeatureStatus, check_feature_name};
use crate::hint::HintExt;
use crate::time::Timestamp;

/// What to change in a feature; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct FeatureChange {
    /// Where it stands now.
    pub status: Option<FeatureStatus>,
    /// Where its spec is, relative to the project.
    pub spec_path: Option<String>,
    /// Where its plan is, relative to the project.
    pub plan_path: Option<String>,
}

impl Store {
    /// All features, in the order of creation.
    pub fn features(&self) -> Result<Vec<Feature>> {
        let mut query = self
            .connection
            .prepare(&format!("select {} from features order by rowid", Feature::COLUMNS))?;
        Ok(query.query_map([], Feature::from_row)?.collect::<Result<_, _>>()?)
    }

    /// The feature with this name or id.
    pub fn feature(&self, name: &str) -> Result<Feature> {
        self.read(|tx| {
            let (id, _) = resolve::feature(tx, name)?;
            load(tx, id)
        })
    }

    /// The feature with this name or id, made if there is none; and whether it was made.
    pub fn open_feature(&mut self, name: &str, now: Timestamp) -> Result<(Feature, bool)> {
        self.write(|tx| {
            if FeatureId::is_prefix(name) {
                let (id, _) = resolve::feature(tx, name)?;
                return Ok((load(tx, id)?, false));
            }
            let known: Option<FeatureId> = tx
                .query_row("select id from features where name = ?", [name], |row| row.get(0))
                .optional()?;
            if let Some(id) = known {
                return Ok((load(tx, id)?, false));
            }
            check_feature_name(name)?;
            Ok((load(tx, insert(tx, name, now)?)?, true))
        })
    }

    /// Changes a feature.
    pub fn update_feature(
        &mut self,
        feature: FeatureId,
        change: &FeatureChange,
        now: Timestamp,
    ) -> Result<()> {
        self.write(|tx| update(tx, feature, change, now))
    }

    /// Forgets a feature that nothing belongs to.
    pub fn forget_feature(&mut self, feature: FeatureId) -> Result<()> {
        self.write(|tx| {
            tx.execute(
                "delete from features
                 where id = ?1
                     and spec_path is null
                     and plan_path is null
                     and not exists (select 1 from tasks where feature = ?1)",
                [feature],
            )?;
            Ok(())
        })
    }

    /// Deletes a feature and its tasks, or nothing; `before_commit` can still prevent it.
    pub fn delete_feature(
        &mut self,
        feature: FeatureId,
        before_commit: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.write_durably(|tx| {
            let inside = "with inside (seq) as (select seq from tasks where feature = ?1)";
            if let Some(waiter) = first_waiter(tx, inside, feature)? {
                return Err(anyhow!(
                    "the feature can't be deleted: {} \"{}\" waits for its task {}",
                    waiter.id,
                    shorten(&waiter.title),
                    waiter.blocker
                ))
                .hint(waiter.hint());
            }
            tx.execute("delete from tasks where feature = ?", [feature])?;
            tx.execute("delete from features where id = ?", [feature])?;
            before_commit()
        })
    }
}

fn load(tx: &Transaction<'_>, id: FeatureId) -> Result<Feature> {
    let query = format!("select {} from features where id = ?", Feature::COLUMNS);
    Ok(tx.query_row(&query, [id], Feature::from_row)?)
}

fn insert(tx: &Transaction<'_>, name: &str, now: Timestamp) -> Result<FeatureId> {
    loop {
        let id = FeatureId::from_bits(random_bits()?);
        let added = tx.execute(
            "insert into features (id, name, created_at, updated_at)
             values (?1, ?2, ?3, ?3)
             on conflict (id) do nothing",
            (id, name, now),
        )?;
        if added > 0 {
            return Ok(id);
        }
    }
}

pub(super) fn update(
    tx: &Transaction<'_>,
    feature: FeatureId,
    change: &FeatureChange,
    now: Timestamp,
) -> Result<()> {
    tx.execute(
        "update features
         set status = coalesce(?2, status),
             spec_path = coalesce(?3, spec_path),
             plan_path = coalesce(?4, plan_path),
             updated_at = ?5
         where id = ?1",
        (feature, change.status, &change.spec_path, &change.plan_path, now),
    )?;
    Ok(())
}
