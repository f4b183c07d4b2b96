//! A working tree before and after a session: it is marked, looked at, and put back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::git::{Git, Kept};
use super::order::{Change, Disorder, Facts, disorder, names};
use crate::dag::AttemptId;
use crate::time::Timestamp;

/// The file in the git directory of a worktree that says what it was like before the attempt that is going on:
/// if that is killed, the next run puts the tree in order.
const MARK: &str = "ralph-before";

/// What a working tree was like before a session.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) facts: Facts,
    pub(super) kept: Kept,
}

/// What a session has done to a working tree.
#[derive(Debug)]
pub(super) struct Seen {
    /// What the tree is like now.
    pub(super) facts: Facts,
    /// What is wrong with it, beyond what is not committed.
    pub(super) disorder: Vec<Disorder>,
    /// What is not committed, and not the person's.
    pub(super) leftovers: Vec<Change>,
    /// The person's files that are not as they were.
    pub(super) changed: Vec<PathBuf>,
    /// Those of them with changes that are neither the person's nor committed.
    pub(super) edited: Vec<PathBuf>,
    /// The person's files that were committed.
    pub(super) committed: Vec<PathBuf>,
    /// The commit that belongs on the branch.
    target: Option<String>,
}

impl Seen {
    /// Whether nothing has to be put in order or given back.
    pub(super) fn is_in_order(&self, before: &Before) -> bool {
        self.disorder.is_empty()
            && self.leftovers.is_empty()
            && before.kept.is_empty()
            && before.facts.stashes == self.facts.stashes
    }

    /// The session's own changes that are not committed.
    pub(super) fn uncommitted(&self) -> Vec<Change> {
        let edited = self.facts.changes.iter().filter(|it| self.edited.contains(&it.path));
        self.leftovers.iter().chain(edited).cloned().collect()
    }

    /// Whether something is staged: perhaps what the person had not staged.
    fn has_staged(&self) -> bool {
        self.facts.changes.iter().any(|it| it.staged)
    }

    /// Their paths.
    pub(super) fn uncommitted_paths(&self) -> Vec<PathBuf> {
        self.uncommitted().into_iter().map(|change| change.path).collect()
    }
}

/// What was done to put a working tree in order.
#[derive(Debug)]
pub(super) struct Order {
    /// What the tree is like now.
    pub(super) facts: Facts,
    /// Where what the attempt left is kept.
    pub(super) salvage: Option<String>,
    /// What was wrong.
    pub(super) disorder: Vec<Disorder>,
    /// The person's files that the attempt committed.
    pub(super) committed: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Mark {
    attempt: AttemptId,
    facts: Facts,
}

impl Git {
    /// Marks the state of the tree before an attempt, so that it can be put back even if we are killed.
    pub(super) fn mark(&self, attempt: AttemptId, facts: Facts, scratch: &Path) -> Result<Before> {
        let kept = self.keep(&facts, scratch)?;
        if !kept.is_empty() {
            self.refer_to(&kept, attempt, scratch)?;
        }
        let mark = Mark { attempt, facts };
        fs::write(self.mark_file(), serde_json::to_vec(&mark)?)?;
        Ok(Before { facts: mark.facts, kept })
    }

    /// The state of the tree before this attempt, if it is marked.
    pub(super) fn marked(&self, attempt: AttemptId) -> Result<Option<Before>> {
        let mark = fs::read(self.mark_file()).ok();
        let mark: Option<Mark> = mark.and_then(|mark| serde_json::from_slice(&mark).ok());
        let Some(mark) = mark.filter(|mark| mark.attempt == attempt) else { return Ok(None) };
        Ok(Some(Before { facts: mark.facts, kept: self.kept(attempt)? }))
    }

    /// Forgets the state before an attempt, which is over. What the person had not committed stays kept if
    /// the attempt committed some of it.
    pub(super) fn unmark(&self, attempt: AttemptId, before: &Before, committed: bool) {
        // If it can't be removed, another attempt writes its own.
        let _ = fs::remove_file(self.mark_file());
        if !before.kept.is_empty() && !committed {
            let _ = self.forget_before(attempt);
        }
    }

    /// What a session has done to the tree.
    pub(super) fn see(&self, before: &Before, scratch: &Path) -> Result<Seen> {
        self.unlock(&before.facts);
        let facts = self.look()?;
        if let Some(start) =
            before.facts.head.as_ref().filter(|it| facts.head.as_ref() != Some(*it))
        {
            self.text(["cat-file", "-e", start]).map_err(|_| {
                anyhow!(
                    "the repository no longer has {start}, the commit that the session began with"
                )
            })?;
        }
        let compared = self.compare(&before.facts, &facts)?;
        let disorder = disorder(&before.facts, &facts, &compared);
        let target = self.target(&before.facts, &facts, compared.keeps_history);
        let leftovers = before.kept.others(&facts.changes);
        let leftovers = self.not_ignored_before(leftovers, before, &facts, scratch)?;
        let start = before.facts.head.as_deref();
        let committed = self.committed(&before.kept, start, target.as_deref())?;
        let touched = self.touched(&before.kept.without(&committed), &facts, scratch)?;
        let (changed, mut edited) = (touched.changed, touched.edited);
        // What was changed again after it was committed is no longer the person's.
        let again =
            committed.iter().filter(|path| facts.changes.iter().any(|it| it.path == **path));
        edited.extend(again.cloned());
        Ok(Seen { facts, disorder, leftovers, changed, edited, committed, target })
    }

    /// Keeps what an attempt left, and puts the tree back to what it was before, plus what the attempt
    /// committed.
    pub(super) fn put_in_order(
        &self,
        attempt: AttemptId,
        before: &Before,
        scratch: &Path,
    ) -> Result<Order> {
        let seen = self.see(before, scratch)?;
        let target = seen.target.clone();
        let (uncommitted, mut strays) = (seen.uncommitted(), Vec::new());
        if !seen.disorder.is_empty() {
            strays = self.stray_commits(&before.facts, &seen.facts, target.as_deref());
        }
        let mut salvage = None;
        if !uncommitted.is_empty() || !strays.is_empty() {
            salvage = Some(self.salvage_all(attempt, &uncommitted, &strays, scratch)?);
        }
        let facts =
            self.restore(attempt, before, &seen, target.as_deref(), scratch, &mut salvage)?;
        let Seen { disorder, committed, .. } = seen;
        Ok(Order { facts, salvage, disorder, committed })
    }

    /// Gives a person's files back that a session has changed and not committed.
    pub(super) fn give_back_changed(
        &self,
        attempt: AttemptId,
        before: &Before,
        scratch: &Path,
    ) -> Result<Order> {
        let seen = self.see(before, scratch)?;
        let kept = before.kept.without(&seen.committed);
        let is_edited = |it: &&Change| seen.edited.contains(&it.path);
        let edited: Vec<Change> = seen.facts.changes.iter().filter(is_edited).cloned().collect();
        let mut salvage = None;
        if !edited.is_empty() {
            salvage = Some(self.salvage_all(attempt, &edited, &[], scratch)?);
        }
        self.put_back_stash(&before.facts, &seen.facts)?;
        self.give_back(&kept, &seen.changed)?;
        if seen.has_staged() {
            self.reset_index()?;
        }
        self.stage_again(&kept, scratch)?;
        Ok(Order { facts: self.look()?, salvage, disorder: Vec::new(), committed: seen.committed })
    }

    /// Undoes all that changed since; what was changed is kept as something that the attempt left.
    pub(super) fn undo(
        &self,
        attempt: AttemptId,
        before: &Before,
        scratch: &Path,
    ) -> Result<String> {
        let mut seen = self.see(before, scratch)?;
        seen.committed.clear();
        let target = before.facts.head.as_deref();
        let strays = self.stray_commits(&before.facts, &seen.facts, target);
        let kept = self.salvage_all(attempt, &seen.uncommitted(), &strays, scratch)?;
        self.restore(attempt, before, &seen, target, scratch, &mut Some(kept.clone()))?;
        Ok(kept)
    }

    /// Whether something in the tree, or what is checked out, was changed after this time: then it is not
    /// the work of a session that was over by then.
    pub(super) fn has_changed_since(&self, time: Timestamp) -> bool {
        let Ok(now) = self.look() else { return false };
        // What the person had not committed before may have been changed as well.
        let changed = now.changes.into_iter().map(|it| self.top.join(it.path));
        let mut places = changed.chain([self.private_file("logs/HEAD")]);
        places.any(|place| {
            let modified = place.symlink_metadata().ok().map(|it| it.mtime());
            modified.and_then(Timestamp::from_epoch).is_some_and(|modified| modified > time)
        })
    }

    /// Keeps what is not committed and leaves it where it is; returns where it is kept, if there is any.
    pub(super) fn keep_as_it_is(
        &self,
        attempt: AttemptId,
        before: &Before,
        scratch: &Path,
    ) -> Result<Option<String>> {
        let changes = before.kept.others(&self.look()?.changes);
        let kept = match changes.is_empty() {
            true => None,
            false => Some(self.salvage_all(attempt, &changes, &[], scratch)?),
        };
        // What the person had not committed stays kept: it may be needed.
        self.unmark(attempt, before, true);
        Ok(kept)
    }

    fn salvage_all(
        &self,
        attempt: AttemptId,
        changes: &[Change],
        commits: &[String],
        scratch: &Path,
    ) -> Result<String> {
        let salvage = self.salvage(attempt, changes, commits, scratch);
        let what = format!("what attempt {attempt} has not committed");
        match salvage.map_err(|error| anyhow!("{what} can't be kept: {error:#}"))? {
            kept if kept.missing.is_none() => Ok(kept.reference),
            kept => Err(anyhow!("{what} is not all kept: {}", kept.missing.unwrap_or_default())),
        }
    }

    /// Puts the tree back to `target` and to the person's files. Everything else must be kept already, but
    /// what an ignore file of the session hides.
    fn restore(
        &self,
        attempt: AttemptId,
        before: &Before,
        seen: &Seen,
        target: Option<&str>,
        scratch: &Path,
        salvage: &mut Option<String>,
    ) -> Result<Facts> {
        let after = &seen.facts;
        let mut known = seen.uncommitted_paths();
        let kept = before.kept.without(&seen.committed);
        let is_moved = after.head.as_deref() != target || !seen.disorder.is_empty();
        if is_moved {
            self.forget_operation(&before.facts, after)?;
        }
        self.put_back_stash(&before.facts, after)?;
        let mut now = after.clone();
        if is_moved || !known.is_empty() || !seen.changed.is_empty() || seen.has_staged() {
            self.reset_index()?;
            let is_ignore = |path: &&PathBuf| path.ends_with(".gitignore");
            let ignores: Vec<PathBuf> = seen.changed.iter().filter(is_ignore).cloned().collect();
            self.give_back(&kept, &ignores)?;
            now = self.clear(&kept, before, scratch, |changes| {
                let is_new = |it: &&Change| !known.contains(&it.path);
                let new: Vec<Change> = changes.iter().filter(is_new).cloned().collect();
                if !new.is_empty() {
                    *salvage = Some(self.salvage_all(attempt, &new, &[], scratch)?);
                    known.extend(new.into_iter().map(|it| it.path));
                }
                Ok(())
            })?;
        }
        if is_moved {
            // What differs now is what the two commits differ in.
            self.put_back_head(&before.facts, after, target)?;
            self.reset_index()?;
            now = self.clear(&kept, before, scratch, |_| Ok(()))?;
        }
        let touched = self.touched(&kept, &now, scratch)?;
        self.give_back(&kept, &touched.changed)?;
        self.stage_again(&kept, scratch)?;
        let now = self.look()?;
        let left = self.touched(&kept, &now, scratch)?.changed;
        if let [_, ..] = &left[..] {
            return Err(anyhow!("{} can't be given back as before the session", names(&left)));
        }
        let is_back = now.head.as_deref() == target && now.branch == before.facts.branch;
        is_back.then_some(now).ok_or_else(|| anyhow!("HEAD can't be put back"))
    }

    /// Whether a directory was made since the attempt began; not if that can't be told.
    pub(super) fn is_new(&self, directory: &Path) -> bool {
        let made = directory.symlink_metadata().and_then(|it| it.created());
        let began = fs::metadata(self.mark_file()).and_then(|it| it.modified());
        matches!((made, began), (Ok(made), Ok(began)) if made > began)
    }

    fn mark_file(&self) -> PathBuf {
        self.private_file(MARK)
    }
}
