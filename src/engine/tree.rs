//! Whether the working tree holds work of a person that an agent could commit or overwrite, and how to
//! tell it from what ralph's own sessions left there.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use super::git::{Git, SALVAGE, decode, encode};
use super::order::{Facts, Next, Operation};
use super::outputs;
use super::plan::Places;
use crate::agent::Scratch;
use crate::hint::HintExt;

/// The file in the git directory of a worktree that says how the last run or loop left it: the name of that
/// state, and after a loop on further lines which of the uncommitted files are a person's.
const LEFT: &str = "ralph-left";

/// The second line of it after a loop.
const BY_LOOP: &str = "loop";

/// What the working tree is like before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// It is not in a repository.
    NoRepository,
    /// Everything is committed.
    Clean,
    /// It is as a session of ralph left it; if that did not end well, it is kept under this name.
    Left(Option<String>),
    /// These files have changes that are not committed.
    Dirty(Vec<String>),
}

/// What the working tree of a project is like. `inputs` are no work of a person either.
pub fn look_at_tree(places: &Places, inputs: &[PathBuf]) -> Result<Tree> {
    let Some(git) = Git::of(places)? else { return Ok(Tree::NoRepository) };
    let files = git.uncommitted(inputs)?;
    git.refuse_unfinished()?;
    if files.is_empty() {
        return Ok(Tree::Clean);
    }
    let scratch = Scratch::new(&places.temporary)?;
    Ok(git.left(scratch.path()).map_or(Tree::Dirty(files), Tree::Left))
}

impl Git {
    /// Remembers how a run left the working tree, so that the next one does not take it for the work of
    /// a person.
    pub(super) fn remember_tree(&self, next: Next<'_>, temporary: &Path) {
        let Ok(file) = self.path_of(LEFT) else { return };
        let state = Scratch::new(temporary).and_then(|scratch| self.state(scratch.path(), &[]));
        // If it can't be remembered, the next run asks.
        let _ = match state {
            Ok(state) => fs::write(file, left_text(&state, next)),
            Err(_) => fs::remove_file(file),
        };
    }

    /// Refuses a tree in which a session can't commit anything of its own: it would end what the person has
    /// begun, and what conflicts can't be put back.
    fn refuse_unfinished(&self) -> Result<()> {
        let finish = "finish or abort it, and run ralph again";
        match self.operation().filter(|it| *it != Operation::Bisect) {
            Some(operation) => Err(anyhow!("git is in the middle of {operation}")).hint(finish),
            None if self.text(["ls-files", "--unmerged", "--", ":/"])?.is_empty() => Ok(()),
            None => Err(anyhow!("files have conflicts that are not resolved"))
                .hint("`git status` names them; resolve them, and run ralph again"),
        }
    }

    /// Whether one of ralph's sessions left exactly this state, and under which name it is kept.
    fn left(&self, scratch: &Path) -> Option<Option<String>> {
        let state = self.state(scratch, &[]).ok()?;
        let kept = self.output(["for-each-ref", "--format=%(tree) %(refname)", SALVAGE])?;
        let mut kept = kept.lines().filter_map(|line| line.split_once(' '));
        if let Some((_, name)) = kept.find(|(it, _)| *it == state) {
            return Some(Some(name.to_owned()));
        }
        let left = fs::read_to_string(self.path_of(LEFT).ok()?).ok()?;
        (left.lines().next() == Some(&state)).then_some(None)
    }

    /// Which of the uncommitted files are a person's, if the tree is as the last loop left it.
    pub(super) fn persons_left(&self, scratch: &Path) -> Option<BTreeSet<PathBuf>> {
        let left = fs::read_to_string(self.path_of(LEFT).ok()?).ok()?;
        let mut lines = left.lines();
        let (state, by) = (lines.next()?, lines.next()?);
        let is_as_left = by == BY_LOOP && self.state(scratch, &[]).ok()? == state;
        is_as_left.then(|| lines.map(decode).collect())
    }

    /// The files with changes that are not committed, but for ralph's own and these.
    pub(super) fn uncommitted(&self, inputs: &[PathBuf]) -> Result<Vec<String>> {
        let status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
        let status = self.text(status)?;
        let own = OnceCell::new();
        let changed = status.split('\0').filter_map(|entry| entry.get(3..));
        let is_input = |path: &str| inputs.iter().any(|it| self.top.join(path).starts_with(it));
        let changed = changed.filter(|path| !self.is_own(Path::new(path), None, &own));
        Ok(changed.filter(|path| !is_input(path)).map(str::to_owned).collect())
    }

    /// Leaves ralph's own files out of what is not committed.
    pub(super) fn leave_out_own(&self, facts: &mut Facts) {
        let own = OnceCell::new();
        let head = facts.head.as_deref();
        facts.changes.retain(|change| !self.is_own(&change.path, head, &own));
    }

    /// Whether a file that differs from `head` is ralph's own. `outputs` are the files that ralph prints
    /// into: to find them takes a while.
    fn is_own(&self, path: &Path, head: Option<&str>, outputs: &OnceCell<Vec<PathBuf>>) -> bool {
        let name = path.to_string_lossy();
        let inside = name.strip_prefix(&self.prefix);
        let place = self.top.join(path);
        inside.is_some_and(is_named_ours)
            || self.own.iter().any(|own| place.starts_with(own))
            || (inside == Some(".gitignore") && self.only_ignores(&name, head))
            || outputs.get_or_init(outputs::own).iter().any(|own| place.starts_with(own))
    }

    /// What a file holds in a commit; none if it is not there.
    fn file_of(&self, commit: &str, path: &str) -> Option<String> {
        let entry = self.told_of(commit, &["ls-tree", "--full-tree", commit, "--", path]).ok()?;
        let object = entry.split_whitespace().nth(2)?;
        self.told_of(commit, &["cat-file", "blob", object]).ok()
    }

    /// Whether the only change to an ignore file is that it has these lines.
    fn only_ignores(&self, path: &str, head: Option<&str>) -> bool {
        let before = match head {
            Some(commit) => self.file_of(commit, path),
            None => self.output(["show", &format!("HEAD:{path}")]),
        };
        let before = before.unwrap_or_default();
        let now = fs::read_to_string(self.top.join(path)).unwrap_or_default();
        let others = |text: &str| -> Vec<String> {
            let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
            lines.filter(|line| !self.ignored.contains(line)).map(str::to_owned).collect()
        };
        others(&before) == others(&now)
    }
}

/// What `LEFT` says.
fn left_text(state: &str, next: Next<'_>) -> String {
    match next {
        Next::Task => state.to_owned(),
        Next::Iteration(persons) => {
            let persons = persons.iter().map(|path| format!("\n{}", encode(path)));
            format!("{state}\n{BY_LOOP}{}", persons.collect::<String>())
        }
    }
}

/// Whether a file of the project is ralph's by its name.
fn is_named_ours(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path == ".ralph.toml" || path.starts_with(".ralph/") || name.starts_with(".ralph-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_like_ralphs_files_is_ralphs() {
        for path in [".ralph.toml", ".ralph/skills/x/SKILL.md", ".ralph-pause", "a/.ralph-done"] {
            assert!(is_named_ours(path), "{path}");
        }
        for path in [".ralph.toml.bak", "ralph", "a/.ralph.toml", "src/.ralphrc", ".gitignore"] {
            assert!(!is_named_ours(path), "{path}");
        }
    }
}
