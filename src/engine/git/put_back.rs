//! Puts a working tree back: its branch and HEAD, what git is in the middle of, the stash, and the files.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::person::Kept;
use super::{Git, decode, parts, run, run_for_bytes};
use crate::engine::order::{Change, Facts, Flag, Hiding, names, new_stashes};
use crate::engine::restore::Before;

/// How often it is looked whether all leftovers are gone: to restore an ignore file shows more of them.
const LOOKS: usize = 8;

impl Git {
    /// The commit that the branch of a session has after it: what it committed there stays, unless it threw
    /// away what was there before.
    pub(in crate::engine) fn target(
        &self,
        before: &Facts,
        after: &Facts,
        keeps_history: bool,
    ) -> Option<String> {
        if keeps_history { self.tip(before, after) } else { before.head.clone() }
    }

    /// Every commit that a session has made or left which is not on its branch.
    pub(in crate::engine) fn stray_commits(
        &self,
        before: &Facts,
        after: &Facts,
        target: Option<&str>,
    ) -> Vec<String> {
        let mut commits: Vec<String> = after.head.iter().cloned().collect();
        commits.extend(before.branch.as_ref().and_then(|name| after.branches.get(name)).cloned());
        if after.operation != before.operation {
            commits.extend(self.commits_of_operation());
        }
        commits.extend(new_stashes(before, after).map(|(_, stash)| stash.commit.clone()));
        let elsewhere = crate::engine::order::moved_elsewhere(before, after, &self.top);
        commits.extend(elsewhere.into_iter().map(|(_, commit)| commit));
        let mut seen = BTreeSet::new();
        let is_stray = |commit: &String| match target {
            Some(target) => commit != target && !self.is_ancestor(commit, target),
            None => true,
        };
        commits.retain(|commit| seen.insert(commit.clone()) && is_stray(commit));
        commits
    }

    /// The files in which two commits differ.
    pub(in crate::engine) fn differing(
        &self,
        one: Option<&str>,
        other: Option<&str>,
    ) -> Result<BTreeSet<PathBuf>> {
        let none = self.empty_tree().context("no empty tree")?;
        let (one, other) = (one.unwrap_or(&none), other.unwrap_or(&none));
        let arguments = ["diff", "--name-only", "-z", "--no-renames", one, other];
        let listed = run_for_bytes(self.command(arguments))?;
        Ok(parts(&listed).map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    /// Puts back which commit and branch are checked out, without a look at the files.
    pub(in crate::engine) fn put_back_head(
        &self,
        before: &Facts,
        after: &Facts,
        target: Option<&str>,
    ) -> Result<()> {
        let reason = "ralph: back to where the session began";
        match (&before.branch, target) {
            (Some(branch), target) => {
                let name = format!("refs/heads/{branch}");
                if let Some(target) =
                    target.filter(|_| self.tip(before, after).as_deref() != target)
                {
                    self.text(["update-ref", "-m", reason, &name, target])?;
                }
                if after.branch.as_ref() != Some(branch) {
                    self.text(["symbolic-ref", "-m", reason, "HEAD", &name])?;
                }
            }
            (None, Some(target))
                if after.branch.is_some() || after.head.as_deref() != Some(target) =>
            {
                self.text(["update-ref", "--no-deref", "-m", reason, "HEAD", target])?;
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Makes the index what HEAD is. The files stay as they are.
    pub(in crate::engine) fn reset_index(&self) -> Result<()> {
        self.text(["reset", "-q"]).map(drop)
    }

    /// Puts back what keeps changes out of what git says, so that nothing of a session stays hidden.
    pub(in crate::engine) fn put_back_hiding(
        &self,
        before: &Hiding,
        after: &Hiding,
        scratch: &Path,
    ) -> Result<()> {
        if before.exclude != after.exclude {
            let file = self.exclude_file();
            match &before.exclude {
                Some(text) => {
                    fs::create_dir_all(file.parent().unwrap_or(&file))?;
                    fs::write(&file, text)?;
                }
                None => remove(&file)?,
            }
        }
        let is_new = |(file, flag): &(&String, &Flag)| before.flags.get(*file) != Some(*flag);
        let new: Vec<&String> = after.flags.iter().filter(is_new).map(|(file, _)| file).collect();
        self.set_flags(&["--no-assume-unchanged", "--no-skip-worktree"], &new, scratch)
    }

    /// Puts back the flags that were there before a session, on the files that are still in the index.
    pub(in crate::engine) fn flag_again(&self, before: &Hiding, scratch: &Path) -> Result<()> {
        if before.flags.is_empty() {
            return Ok(());
        }
        let now = self.hiding()?;
        for (flag, options) in [
            (Flag::AssumeUnchanged, &["--assume-unchanged"][..]),
            (Flag::SkipWorktree, &["--skip-worktree"]),
            (Flag::Both, &["--assume-unchanged", "--skip-worktree"]),
        ] {
            let is_lost = |(file, had): &(&String, &Flag)| {
                **had == flag && now.flags.get(*file) != Some(&flag)
            };
            let files = before.flags.iter().filter(is_lost).map(|(file, _)| file);
            self.set_flags(options, &files.collect::<Vec<_>>(), scratch)?;
        }
        Ok(())
    }

    /// Has git set or clear flags of these files, as far as the index has them.
    fn set_flags(&self, options: &[&str], files: &[&String], scratch: &Path) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let listed = run_for_bytes(self.command_in(&self.top, ["ls-files", "-z"]))?;
        let listed: BTreeSet<&[u8]> = parts(&listed).collect();
        let files: Vec<PathBuf> = files.iter().map(|file| decode(file)).collect();
        let files: Vec<&[u8]> = files.iter().map(|file| file.as_os_str().as_bytes()).collect();
        let files: Vec<&[u8]> = files.into_iter().filter(|it| listed.contains(it)).collect();
        // One call for each: in a call with two of them, git takes the last for the paths it reads.
        for option in options {
            let set = self.command_in(&self.top, ["update-index", option, "-z", "--stdin"]);
            self.feed(set, &files.join(&0), scratch)?;
        }
        Ok(())
    }

    /// Removes the locks that a git which was killed may have left; nothing else works in this tree.
    pub(in crate::engine) fn unlock(&self, before: &Facts) {
        let branch = before.branch.as_ref();
        let branch = branch.map(|name| self.common.join(format!("refs/heads/{name}.lock")));
        let own = ["index.lock", "HEAD.lock"].map(|name| self.directory.join(name));
        for lock in own.into_iter().chain(branch) {
            let _ = fs::remove_file(lock);
        }
    }

    /// Forgets what git is in the middle of since. `--abort` would change files, which may be a person's.
    pub(in crate::engine) fn forget_operation(&self, before: &Facts, after: &Facts) -> Result<()> {
        const FILES: [&str; 19] = [
            "MERGE_HEAD",
            "MERGE_MSG",
            "MERGE_MODE",
            "AUTO_MERGE",
            "SQUASH_MSG",
            "CHERRY_PICK_HEAD",
            "REVERT_HEAD",
            "REBASE_HEAD",
            "BISECT_LOG",
            "BISECT_START",
            "BISECT_NAMES",
            "BISECT_TERMS",
            "BISECT_EXPECTED_REV",
            "BISECT_ANCESTORS_OK",
            "BISECT_FIRST_PARENT",
            "BISECT_RUN",
            "rebase-merge",
            "rebase-apply",
            "sequencer",
        ];
        if after.operation == before.operation {
            return Ok(());
        }
        for name in FILES {
            remove(&self.directory.join(name))?;
        }
        let bisected = self.text(["for-each-ref", "--format=%(refname)", "refs/bisect"])?;
        for name in bisected.lines() {
            self.text(["update-ref", "-d", name])?;
        }
        Ok(())
    }

    /// Takes what a session added out of the stash, and puts back what it took out.
    pub(in crate::engine) fn put_back_stash(&self, before: &Facts, after: &Facts) -> Result<()> {
        let mut added: Vec<usize> = new_stashes(before, after).map(|(number, _)| number).collect();
        added.sort_unstable();
        for number in added.into_iter().rev() {
            self.text(["stash", "drop", "-q", &format!("stash@{{{number}}}")])?;
        }
        let is_there = |commit: &str| after.stashes.iter().any(|it| it.commit == commit);
        for stash in before.stashes.iter().rev().filter(|it| !is_there(&it.commit)) {
            // The objects are there until git collects garbage; after that they are lost.
            let _ = self.text(["stash", "store", "-q", "-m", &stash.message, &stash.commit]);
        }
        Ok(())
    }

    /// Removes everything that is not committed and was not there before, once `keep` has kept it. Returns
    /// what the tree is like then.
    pub(in crate::engine) fn clear(
        &self,
        kept: &Kept,
        before: &Before,
        scratch: &Path,
        mut keep: impl FnMut(&[Change]) -> Result<()>,
    ) -> Result<Facts> {
        let mut left = Vec::new();
        for _ in 0..LOOKS {
            let now = self.look()?;
            left = self.not_ignored_before(kept.others(&now.changes), before, &now, scratch)?;
            if left.is_empty() {
                return Ok(now);
            }
            // What they hide is not known to be kept, and what they no longer hide may be a person's.
            let is_ignore = |it: &Change| it.path.file_name() == Some(OsStr::new(".gitignore"));
            let ignores: Vec<Change> = left.iter().filter(|it| is_ignore(it)).cloned().collect();
            let batch = if ignores.is_empty() { &left } else { &ignores };
            keep(batch)?;
            self.clear_these(batch, &now, scratch)?;
        }
        let paths: Vec<PathBuf> = left.into_iter().map(|it| it.path).collect();
        Err(anyhow!("{} can't be put back as before the session", names(&paths)))
    }

    fn clear_these(&self, changes: &[Change], now: &Facts, scratch: &Path) -> Result<()> {
        let (tracked, new): (Vec<&Change>, Vec<&Change>) =
            changes.iter().partition(|change| change.tracked);
        for change in new {
            let place = self.top.join(&change.path);
            let worktree = now.worktrees.values().find(|it| it.path == place);
            match worktree {
                Some(worktree) => {
                    let path = worktree.path.as_os_str();
                    let remove = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
                    self.text(remove.into_iter().chain([path]))?;
                }
                // What is ignored in a directory that was there before is not the session's.
                None if place.is_dir() && !self.is_new(&place) => remove(&place.join(".git"))?,
                None => remove(&place)?,
            }
            self.remove_empty_above(&place);
        }
        if tracked.is_empty() {
            return Ok(());
        }
        for change in &tracked {
            // A directory in the place of a file; what was in it is removed as new.
            let _ = fs::remove_dir(self.top.join(&change.path));
        }
        let paths: Vec<&[u8]> =
            tracked.iter().map(|change| change.path.as_os_str().as_bytes()).collect();
        let restore = ["checkout-index", "--force", "--index", "-z", "--stdin"];
        self.feed(self.command_in(&self.top, restore), &paths.join(&0), scratch).map(drop)
    }

    fn remove_empty_above(&self, place: &Path) {
        let above = place.ancestors().skip(1);
        for directory in above.take_while(|it| *it != self.top && *it != self.root) {
            if !self.is_new(directory) || fs::remove_dir(directory).is_err() {
                break;
            }
        }
    }

    /// Without the new files that were ignored before a session, which may have changed what is ignored.
    pub(in crate::engine) fn not_ignored_before(
        &self,
        changes: Vec<Change>,
        before: &Before,
        after: &Facts,
        scratch: &Path,
    ) -> Result<Vec<Change>> {
        let is_ignore = |path: &Path| path.file_name() == Some(OsStr::new(".gitignore"));
        if changes.iter().all(|it| it.tracked || is_ignore(&it.path)) {
            return Ok(changes);
        }
        let start = before.facts.head.as_ref();
        let mut has_changed = after.changes.iter().any(|it| is_ignore(&it.path));
        has_changed |= before.kept.ignores().next().is_some();
        if let (Some(start), Some(head)) =
            (start, after.head.as_ref().filter(|it| Some(*it) != start))
        {
            let arguments = ["diff", "--name-only", "--no-renames", start, head, "--"];
            let pathspec = ":(top,glob)**/.gitignore";
            has_changed |= !self.text(arguments.into_iter().chain([pathspec]))?.is_empty();
        }
        if !has_changed {
            return Ok(changes);
        }
        let ignored = self
            .ignored_before(before, &changes, scratch)
            .context("can't tell what was ignored")?;
        Ok(changes.into_iter().filter(|it| it.tracked || !ignored.contains(&it.path)).collect())
    }

    /// Which of these files were ignored before a session, also by what the person had not committed.
    fn ignored_before(
        &self,
        before: &Before,
        changes: &[Change],
        scratch: &Path,
    ) -> Result<BTreeSet<PathBuf>> {
        let (tree, index) = (scratch.join("ignores"), scratch.join("ignores-index"));
        fs::create_dir(&tree)?;
        let git = |arguments: &[&str]| {
            let mut command = self.command_in(&tree, arguments);
            command.env("GIT_DIR", &self.directory).env("GIT_WORK_TREE", &tree);
            command.env("GIT_INDEX_FILE", &index);
            command
        };
        run(git(&["read-tree", before.facts.head.as_deref().unwrap_or("--empty")]))?;
        let listed = run_for_bytes(git(&["ls-files", "-z", "--", ":(top,glob)**/.gitignore"]))?;
        let restore = git(&["checkout-index", "--force", "-z", "--stdin"]);
        self.feed(restore, &listed, scratch)?;
        for (path, object) in before.kept.ignores() {
            let place = tree.join(path);
            remove(&place)?;
            if let Some(object) = object {
                fs::create_dir_all(place.parent().unwrap_or(&tree))?;
                fs::write(&place, run_for_bytes(self.command(["cat-file", "blob", object]))?)?;
            }
        }
        let paths: Vec<&[u8]> = changes.iter().map(|it| it.path.as_os_str().as_bytes()).collect();
        // It ends with 1 if it finds none.
        let check = git(&["check-ignore", "-z", "--stdin", "--no-index"]);
        let ignored = self.feed(check, &paths.join(&0), scratch).unwrap_or_default();
        fs::remove_dir_all(&tree)?;
        remove(&index)?;
        Ok(parts(&ignored).map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }
}

/// Removes a file or a directory, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(error).with_context(|| format!("can't remove `{}`", path.display()))
        }
        _ => Ok(()),
    }
}
