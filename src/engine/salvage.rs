//! Keeps what attempts have left in the working tree without committing it.

use anyhow::Result;

use super::Engine;
use super::git::{Git, Salvage};
use super::plan::Places;
use crate::agent::Scratch;
use crate::dag::{Attempt, AttemptId, Outcome};
use crate::store::Store;

/// Keeps what a run that was killed has left in the working tree, before anything changes it and so that
/// it is not taken for work of a person. Returns a warning if that is not kept, or not all of it.
pub fn salvage_crash(store: &Store, places: &Places) -> Result<Option<String>> {
    let Some(git) = Git::find(&places.root) else { return Ok(None) };
    // Another run on this database may have crashed in another working tree: what it left is there.
    let last = store.last_attempt_in(&places.root, git.is_the_only_tree())?;
    let crashed = last.filter(crashed_with_its_run).map(|last| last.id);
    let Some(crashed) = crashed.filter(|&attempt| git.salvaged(attempt).is_none()) else {
        return Ok(None);
    };
    let scratch = Scratch::new(&places.temporary)?;
    Ok(place_and_warning(crashed, git.salvage(crashed, scratch.path())).1)
}

/// Whether an attempt ended because the process of its run did. One whose agent alone crashed has a
/// cost, and what it left behind was looked at when it ended.
fn crashed_with_its_run(attempt: &Attempt) -> bool {
    attempt.outcome == Some(Outcome::Crashed) && attempt.cost_usd.is_none()
}

impl Engine<'_> {
    /// Keeps what an attempt has not committed; returns where.
    pub(super) fn salvage(&mut self, attempt: AttemptId) -> Result<Option<String>> {
        let Some(git) = &self.git else { return Ok(None) };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let (place, warning) = place_and_warning(attempt, git.salvage(attempt, scratch.path()));
        if let Some(warning) = warning {
            self.helm.warn(&warning);
        }
        Ok(place)
    }
}

/// Where what an attempt left behind is kept, and a warning if it is not, or not all of it.
fn place_and_warning(
    attempt: AttemptId,
    kept: Result<Option<Salvage>>,
) -> (Option<String>, Option<String>) {
    let what = format!("what attempt {attempt} has not committed");
    match kept {
        Ok(None) => (None, None),
        Ok(Some(Salvage { reference, missing })) => {
            let warning = missing.map(|missing| format!("{what} is not all kept: {missing}"));
            (Some(reference), warning)
        }
        Err(error) => (None, Some(format!("{what} can't be kept: {error:#}"))),
    }
}
