//! A working tree before and after a session: it is marked, looked at, and put back.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::git::{Git, Kept, decode, encode};
use super::order::{Change, Disorder, Facts, Next, comes_back, disorder, hidden, names, stays};
use super::owner::Owner;
use crate::event::Left;
use crate::time::Timestamp;

/// The file in the git directory of a worktree that says what it was like before the session that is going on:
/// if ralph is killed, the next run or loop puts the tree in order.
const MARK: &str = "ralph-before";
/// The file beside it that a loop touches again and again, as a sign of life.
const SIGN: &str = "ralph-alive";

/// What a working tree was like before a session.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) facts: Facts,
    pub(super) kept: Kept,
    /// What the session had hidden from git. It is in sight again, and still counts.
    pub(super) noticed: RefCell<Vec<Disorder>>,
}

impl Before {
    pub(super) fn new(facts: Facts, kept: Kept) -> Before {
        Before { facts, kept, noticed: RefCell::default() }
    }
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
            && before.facts.hiding == self.facts.hiding
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
    /// What the session left, and where it is kept.
    pub(super) salvage: Option<Salvaged>,
    /// What was wrong.
    pub(super) disorder: Vec<Disorder>,
    /// The person's files that the session committed.
    pub(super) committed: Vec<PathBuf>,
    /// The person's files that stay as the session changed them.
    pub(super) edited: Vec<PathBuf>,
}

impl Order {
    /// Whether what the person had not committed is not in the tree any more.
    pub(super) fn has_replaced(&self) -> bool {
        !self.committed.is_empty() || !self.edited.is_empty()
    }
}

/// What a session left that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Salvaged {
    /// Where.
    pub(super) reference: String,
    pub(super) what: Left,
}

impl fmt::Display for Salvaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} are kept as {}", self.what, self.reference)
    }
}

#[derive(Serialize, Deserialize)]
struct Mark {
    #[serde(rename = "attempt")]
    owner: Owner,
    /// The way from the top of the working tree to the project.
    #[serde(default)]
    prefix: String,
    /// In a loop, what is a person's of what was not committed.
    #[serde(default)]
    persons: Vec<String>,
    facts: Facts,
}

impl Git {
    /// Marks the state of the tree before a session, so that it can be put back even if we are killed.
    pub(super) fn mark(
        &self,
        owner: Owner,
        facts: Facts,
        next: Next<'_>,
        scratch: &Path,
    ) -> Result<Before> {
        let kept = self.keep(&facts, scratch)?;
        if !kept.is_empty() {
            self.refer_to(&kept, owner, scratch)?;
        }
        let persons = match next {
            Next::Task => Vec::new(),
            Next::Iteration(persons) => persons.iter().map(|path| encode(path)).collect(),
        };
        let mark = Mark { owner, prefix: self.prefix.clone(), persons, facts };
        fs::write(self.mark_file(), serde_json::to_vec(&mark)?)?;
        Ok(Before::new(mark.facts, kept))
    }

    /// The state of the tree before this attempt, if it is marked.
    pub(super) fn marked(&self, owner: Owner) -> Result<Option<Before>> {
        let Some(mark) = self.read_mark().filter(|mark| mark.owner == owner) else {
            return Ok(None);
        };
        Ok(Some(Before::new(mark.facts, self.kept(owner)?)))
    }

    /// The session of a loop in this project that was cut off, the state of the tree before it, and which of
    /// the uncommitted files are a person's.
    pub(super) fn marked_by_loop(&self) -> Result<Option<(Owner, Before, BTreeSet<PathBuf>)>> {
        let mark = self.read_mark().filter(|mark| mark.prefix == self.prefix);
        let Some(mark @ Mark { owner: Owner::Loop(_), .. }) = mark else { return Ok(None) };
        let before = Before::new(mark.facts, self.kept(mark.owner)?);
        let persons = mark.persons.iter().map(|it| decode(it)).collect();
        Ok(Some((mark.owner, before, persons)))
    }

    fn read_mark(&self) -> Option<Mark> {
        serde_json::from_slice(&fs::read(self.mark_file()).ok()?).ok()
    }

    /// Forgets the state before a session, which is over. What the person had not committed stays kept if
    /// the session has `replaced` some of it.
    pub(super) fn unmark(&self, owner: Owner, before: &Before, replaced: bool) {
        // If it can't be removed, another session writes its own.
        let _ = fs::remove_file(self.mark_file());
        if !before.kept.is_empty() && !replaced {
            let _ = self.forget_before(owner);
        }
    }

    /// What a session has done to the tree.
    pub(super) fn see(&self, before: &Before, scratch: &Path) -> Result<Seen> {
        self.unlock(&before.facts);
        let facts = self.look_behind(before, scratch)?;
        let compared = self.compare(&before.facts, &facts)?;
        let mut disorder = disorder(&before.facts, &facts, &compared);
        disorder.extend(before.noticed.borrow().iter().cloned());
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

    /// What the tree is like, with what the session has hidden from git.
    fn look_behind(&self, before: &Before, scratch: &Path) -> Result<Facts> {
        let facts = self.look()?;
        let noticed = hidden(&before.facts.hiding, &facts.hiding);
        if noticed.is_empty() {
            return Ok(facts);
        }
        self.put_back_hiding(&before.facts.hiding, &facts.hiding, scratch)?;
        before.noticed.borrow_mut().extend(noticed);
        self.look()
    }

    /// Keeps what a session left, and puts the tree back to what it was before, plus what the session
    /// committed and what stays for the next.
    pub(super) fn put_in_order(
        &self,
        owner: Owner,
        before: &Before,
        next: Next<'_>,
        scratch: &Path,
    ) -> Result<Order> {
        let seen = self.see(before, scratch)?;
        let disorder = &seen.disorder;
        let mut moved = BTreeSet::new();
        let mut strays = Vec::new();
        if !disorder.is_empty() {
            let (is, target) = (seen.facts.head.as_deref(), seen.target.as_deref());
            moved = self.differing(is, target)?;
            strays = self.stray_commits(&before.facts, &seen.facts, target);
        }
        let (stay, go): (Vec<Change>, Vec<Change>) =
            seen.uncommitted().into_iter().partition(|it| stays(next, it, disorder, &moved));
        let has_stayed = |path: &PathBuf| stay.iter().any(|it| it.path == *path);
        let is_gone_for_good =
            |path: &&PathBuf| !has_stayed(path) && !comes_back(next, path, disorder);
        let gone: Vec<PathBuf> = seen.changed.iter().filter(is_gone_for_good).cloned().collect();
        let is_replaced = |path: &&PathBuf| next.is_persons(path);
        let edited = seen.edited.iter().filter(is_replaced).filter(|it| has_stayed(it));
        let edited: Vec<PathBuf> = edited.cloned().collect();
        let committed = seen.committed.iter().filter(is_replaced).cloned().collect();
        let is_as_it_should_be = disorder.is_empty()
            && go.is_empty()
            && seen.changed.iter().all(|path| has_stayed(path) || gone.contains(path))
            && before.facts.stashes == seen.facts.stashes
            && before.facts.hiding == seen.facts.hiding;
        let mut salvage = None;
        if !go.is_empty() || !strays.is_empty() {
            salvage = Some(self.salvage_all(owner, &go, &strays, scratch)?);
        }
        let facts = match next {
            Next::Iteration(_) if is_as_it_should_be => seen.facts.clone(),
            Next::Task | Next::Iteration(_) => {
                // What stays is put back like what was there before.
                let staying = Facts { changes: stay, ..seen.facts.clone() };
                let kept = before.kept.without(&seen.committed).without(&gone);
                let kept = kept.with(self.keep(&staying, scratch)?);
                self.restore(owner, before, &kept, &seen, scratch, &mut salvage)?
            }
        };
        Ok(Order { facts, salvage, disorder: seen.disorder, committed, edited })
    }

    /// Keeps what the sessions of a loop have not committed, and leaves it in the tree.
    pub(super) fn keep_for_loop(
        &self,
        owner: Owner,
        mine: &BTreeSet<PathBuf>,
        scratch: &Path,
    ) -> Result<Option<Salvaged>> {
        let mut changes = self.look()?.changes;
        changes.retain(|change| !mine.contains(&change.path));
        match changes.is_empty() {
            true => Ok(None),
            false => self.salvage_all(owner, &changes, &[], scratch).map(Some),
        }
    }

    /// The file that a loop touches again and again while it works in this tree.
    pub(super) fn sign_file(&self) -> PathBuf {
        self.private_file(SIGN)
    }

    /// When the loop that worked in this tree was last heard of.
    pub(super) fn last_sign_of_life(&self) -> Option<Timestamp> {
        Timestamp::from_epoch(self.sign_file().symlink_metadata().ok()?.mtime())
    }

    /// Gives a person's files back that a session has changed and not committed.
    pub(super) fn give_back_changed(
        &self,
        owner: Owner,
        before: &Before,
        scratch: &Path,
    ) -> Result<Order> {
        let seen = self.see(before, scratch)?;
        let kept = before.kept.without(&seen.committed);
        let is_edited = |it: &&Change| seen.edited.contains(&it.path);
        let edited: Vec<Change> = seen.facts.changes.iter().filter(is_edited).cloned().collect();
        let mut salvage = None;
        if !edited.is_empty() {
            salvage = Some(self.salvage_all(owner, &edited, &[], scratch)?);
        }
        self.put_back_stash(&before.facts, &seen.facts)?;
        self.give_back(&kept, &seen.changed)?;
        if seen.has_staged() {
            self.reset_index()?;
        }
        self.stage_again(&kept, scratch)?;
        self.flag_again(&before.facts.hiding, scratch)?;
        let (facts, committed) = (self.look()?, seen.committed);
        Ok(Order { facts, salvage, disorder: Vec::new(), committed, edited: Vec::new() })
    }

    /// Undoes all that changed since; what was changed is kept as something that the attempt left.
    pub(super) fn undo(&self, owner: Owner, before: &Before, scratch: &Path) -> Result<Salvaged> {
        let mut seen = self.see(before, scratch)?;
        seen.committed.clear();
        seen.target.clone_from(&before.facts.head);
        let strays = self.stray_commits(&before.facts, &seen.facts, seen.target.as_deref());
        let salvage = self.salvage_all(owner, &seen.uncommitted(), &strays, scratch)?;
        let mut kept_as = Some(salvage.clone());
        self.restore(owner, before, &before.kept, &seen, scratch, &mut kept_as)?;
        Ok(salvage)
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
        owner: Owner,
        before: &Before,
        scratch: &Path,
    ) -> Result<Option<Salvaged>> {
        let changes = before.kept.others(&self.look()?.changes);
        let kept = match changes.is_empty() {
            true => None,
            false => Some(self.salvage_all(owner, &changes, &[], scratch)?),
        };
        // What the person had not committed stays kept: it may be needed.
        self.unmark(owner, before, true);
        Ok(kept)
    }

    fn salvage_all(
        &self,
        owner: Owner,
        changes: &[Change],
        commits: &[String],
        scratch: &Path,
    ) -> Result<Salvaged> {
        let what = match (changes, commits) {
            (_, []) => Left::Changes,
            ([], _) => Left::Commits,
            _ => Left::Both,
        };
        let kept = self.salvage(owner, changes, commits, scratch);
        let kept = kept.map_err(|error| anyhow!("{what} of {owner} can't be kept: {error:#}"))?;
        match kept.missing {
            None => Ok(Salvaged { reference: kept.reference, what }),
            Some(missing) => Err(anyhow!("{what} of {owner} can't all be kept: {missing}")),
        }
    }

    /// Puts the tree back to `target` and to the files of `kept`. Everything else must be kept already, but
    /// what an ignore file of the session hides.
    fn restore(
        &self,
        owner: Owner,
        before: &Before,
        kept: &Kept,
        seen: &Seen,
        scratch: &Path,
        salvage: &mut Option<Salvaged>,
    ) -> Result<Facts> {
        let (after, target) = (&seen.facts, seen.target.as_deref());
        let mut known = seen.uncommitted_paths();
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
            self.give_back(kept, &ignores)?;
            now = self.clear(kept, before, scratch, |changes| {
                let is_new = |it: &&Change| !known.contains(&it.path);
                let new: Vec<Change> = changes.iter().filter(is_new).cloned().collect();
                if !new.is_empty() {
                    let more = self.salvage_all(owner, &new, &[], scratch)?;
                    let what = salvage.as_ref().map_or(more.what, |it| it.what.with_changes());
                    *salvage = Some(Salvaged { what, ..more });
                    known.extend(new.into_iter().map(|it| it.path));
                }
                Ok(())
            })?;
        }
        if is_moved {
            // What differs now is what the two commits differ in.
            self.put_back_head(&before.facts, after, target)?;
            self.reset_index()?;
            now = self.clear(kept, before, scratch, |_| Ok(()))?;
        }
        let touched = self.touched(kept, &now, scratch)?;
        self.give_back(kept, &touched.changed)?;
        self.stage_again(kept, scratch)?;
        self.flag_again(&before.facts.hiding, scratch)?;
        let now = self.look()?;
        let left = self.touched(kept, &now, scratch)?.changed;
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
