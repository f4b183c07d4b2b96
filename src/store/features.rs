//! Features: named pieces of work to which tasks belong.

use anyhow::{Result, anyhow};

use super::Store;
use super::dependencies::first_waiter;
use super::resolve::{self, shorten};
use crate::dag::{Feature, FeatureId};
use crate::hint::HintExt;

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
            let query = format!("select {} from features where id = ?", Feature::COLUMNS);
            Ok(tx.query_row(&query, [id], Feature::from_row)?)
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
