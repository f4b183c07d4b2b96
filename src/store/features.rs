//! Features: named pieces of work to which tasks belong.

use anyhow::{Result, anyhow};
use rusqlite::OptionalExtension;

use super::Store;
use super::resolve::{self, shorten};
use crate::dag::{Feature, FeatureId, TaskId};
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
            let waiting: Option<(TaskId, String, TaskId)> = tx
                .query_row(
                    "select outer_task.id, outer_task.title, inner_task.id
                     from tasks as inner_task
                         join dependencies on blocker = inner_task.seq
                         join tasks as outer_task on outer_task.seq = blocked
                     where inner_task.feature = ?1 and outer_task.feature is not ?1
                     order by outer_task.seq
                     limit 1",
                    [feature],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .optional()?;
            if let Some((waiter, title, blocker)) = waiting {
                return Err(anyhow!(
                    "the feature can't be deleted: {waiter} \"{}\" waits for its task {blocker}",
                    shorten(&title)
                ))
                .hint(format!("remove that with `ralph task deps rm {blocker} {waiter}`"));
            }
            tx.execute("delete from tasks where feature = ?", [feature])?;
            tx.execute("delete from features where id = ?", [feature])?;
            before_commit()
        })
    }
}
