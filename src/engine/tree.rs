//! Whether the working tree holds work of a person that an agent could commit or overwrite, and how to
//! tell it from what ralph's own sessions left there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::git::{Git, SALVAGE};
use super::outputs;
use super::plan::Places;
use crate::agent::Scratch;

/// The file in the git directory of a worktree that says how the last run left it.
const LEFT: &str = "ralph-left";

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

/// What in a working tree is no work of a person.
#[derive(Debug, Clone, Default)]
pub struct Ours<'a> {
    /// Files that ralph reads or writes.
    pub files: Vec<PathBuf>,
    /// The lines of `.gitignore` that ralph adds.
    pub ignored: &'a [&'a str],
}

/// What the working tree of a project is like.
pub fn look_at_tree(places: &Places, ours: &Ours<'_>) -> Result<Tree> {
    let Some(git) = Git::find(&places.root) else { return Ok(Tree::NoRepository) };
    let files = git.uncommitted(places, ours)?;
    if files.is_empty() {
        return Ok(Tree::Clean);
    }
    let scratch = Scratch::new(&places.temporary)?;
    Ok(git.left(scratch.path()).map_or(Tree::Dirty(files), Tree::Left))
}

impl Git {
    /// Remembers how a run left the working tree, so that the next one does not take it for the work of
    /// a person.
    pub(super) fn remember_tree(&self, temporary: &Path) {
        let Ok(file) = self.path_of(LEFT) else { return };
        let state = Scratch::new(temporary).and_then(|scratch| self.state(scratch.path(), &[]));
        // If it can't be remembered, the next run asks.
        let _ = match state {
            Ok(state) => fs::write(file, state),
            Err(_) => fs::remove_file(file),
        };
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
        (left == state).then_some(None)
    }

    /// The files with changes that are not committed, but for ralph's own.
    fn uncommitted(&self, places: &Places, ours: &Ours<'_>) -> Result<Vec<String>> {
        let status = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
        let status = self.text(status)?;
        if status.is_empty() {
            return Ok(Vec::new());
        }
        let top = PathBuf::from(self.text(["rev-parse", "--show-toplevel"])?);
        let prefix = self.text(["rev-parse", "--show-prefix"])?;
        let mut own = outputs::own();
        own.extend([places.logs.directory().to_owned(), places.database.clone()]);
        own.extend(ours.files.iter().cloned());
        let is_own = |path: &str| {
            let inside = path.strip_prefix(&prefix);
            inside.is_some_and(is_named_ours)
                || own.iter().any(|own| top.join(path).starts_with(own))
                || (inside == Some(".gitignore") && self.only_ignores(path, &top, ours.ignored))
        };
        let changed = status.split('\0').filter_map(|entry| entry.get(3..));
        Ok(changed.filter(|path| !is_own(path)).map(str::to_owned).collect())
    }

    /// Whether the only change to an ignore file is that it has these lines.
    fn only_ignores(&self, path: &str, top: &Path, ignored: &[&str]) -> bool {
        let before = self.output(["show", &format!("HEAD:{path}")]).unwrap_or_default();
        let now = fs::read_to_string(top.join(path)).unwrap_or_default();
        let others = |text: &str| -> Vec<String> {
            let lines = text.lines().map(str::trim).filter(|it| !it.is_empty());
            lines.filter(|line| !ignored.contains(line)).map(str::to_owned).collect()
        };
        others(&before) == others(&now)
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
