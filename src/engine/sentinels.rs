//! The files by which an agent says that a loop is complete, and by which a run is asked to end. Only what is
//! made meanwhile counts: what was there before is removed, and so is what is there at the end, whatever
//! ends it.

use std::fs;
use std::path::{Path, PathBuf};

/// The file that ends a run after its current session.
pub(super) const DONE: &str = ".ralph-done";
/// The files that complete a loop.
const COMPLETE: &[&str] = &[".ralph-complete", DONE];
/// The file by which a hook of the agent asks for the person's attention.
pub(super) const DING: &str = ".ralph-ding";
/// How many directories below the project it may be in.
const DEPTH: usize = 2;

/// Looks for such files in a project, and removes them when dropped.
#[derive(Debug)]
pub(super) struct Sentinels {
    root: PathBuf,
    names: &'static [&'static str],
}

impl Sentinels {
    /// From now on those of a loop count: what earlier loops left is removed.
    pub(super) fn of_a_loop(root: &Path) -> Sentinels {
        Sentinels::watch(root, COMPLETE)
    }

    /// From now on the one that ends a run counts: what earlier runs left is removed.
    pub(super) fn of_a_run(root: &Path) -> Sentinels {
        Sentinels::watch(root, &[DONE])
    }

    fn watch(root: &Path, names: &'static [&'static str]) -> Sentinels {
        let sentinels = Sentinels { root: root.to_owned(), names };
        sentinels.remove();
        sentinels
    }

    /// The first one that is there.
    pub(super) fn found(&self) -> Option<PathBuf> {
        let mut found = Vec::new();
        search(&self.root, self.names, DEPTH, &mut found);
        found.into_iter().next()
    }

    fn remove(&self) {
        let mut found = Vec::new();
        search(&self.root, self.names, DEPTH, &mut found);
        // A file that asks for attention means nothing before or after that, either.
        found.push(self.root.join(DING));
        for file in found {
            // Another process may have removed it already.
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Such files in a directory, and in those inside it, as deep as said. Links are not followed.
fn search(directory: &Path, names: &[&str], depth: usize, found: &mut Vec<PathBuf>) {
    let is_there = |file: &PathBuf| fs::symlink_metadata(file).is_ok_and(|it| !it.is_dir());
    found.extend(names.iter().map(|name| directory.join(name)).filter(is_there));
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name() != ".git" {
            search(&entry.path(), names, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fresh_ones_count_and_none_is_left() {
        let directory = tempfile::TempDir::new().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::write(root.join("a/.ralph-complete"), "").unwrap();
        let sentinels = Sentinels::of_a_loop(root);
        assert_eq!(sentinels.found(), None, "it was there before");
        fs::write(root.join("a/b/c/.ralph-done"), "").unwrap();
        assert_eq!(sentinels.found(), None, "it is too deep");
        for place in ["a/b/.ralph-done", ".ralph-complete"] {
            fs::write(root.join(place), "").unwrap();
            assert_eq!(sentinels.found(), Some(root.join(place)));
        }
        drop(sentinels);
        assert!(!root.join(".ralph-complete").exists() && !root.join("a/b/.ralph-done").exists());
        assert!(root.join("a/b/c/.ralph-done").exists());
    }

    #[test]
    fn what_completes_a_loop_does_not_end_a_run() {
        let directory = tempfile::TempDir::new().unwrap();
        let root = directory.path();
        fs::write(root.join(".ralph-done"), "").unwrap();
        let sentinels = Sentinels::of_a_run(root);
        fs::write(root.join(".ralph-complete"), "").unwrap();
        assert_eq!(sentinels.found(), None);
        fs::write(root.join(".ralph-done"), "").unwrap();
        assert_eq!(sentinels.found(), Some(root.join(".ralph-done")));
        drop(sentinels);
        assert!(root.join(".ralph-complete").exists() && !root.join(".ralph-done").exists());
    }
}
