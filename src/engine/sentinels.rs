//! The files by which an agent says that a loop is complete. Only what is made while the loop runs
//! counts: what was there before is removed, and so is what is there at the end, whatever ends it.

use std::fs;
use std::path::{Path, PathBuf};

/// The names of such a file.
const NAMES: [&str; 2] = [".ralph-complete", ".ralph-done"];
/// The file by which a hook of the agent asks for the person's attention.
pub(super) const DING: &str = ".ralph-ding";
/// How many directories below the project it may be in.
const DEPTH: usize = 2;

/// Looks for such files in a project, and removes them when dropped.
#[derive(Debug)]
pub(super) struct Sentinels {
    root: PathBuf,
}

impl Sentinels {
    /// From now on they count: those of earlier loops are removed.
    pub(super) fn watch(root: &Path) -> Sentinels {
        let sentinels = Sentinels { root: root.to_owned() };
        sentinels.remove();
        sentinels
    }

    /// The first one that is there.
    pub(super) fn found(&self) -> Option<PathBuf> {
        let mut found = Vec::new();
        search(&self.root, DEPTH, &mut found);
        found.into_iter().next()
    }

    fn remove(&self) {
        let mut found = Vec::new();
        search(&self.root, DEPTH, &mut found);
        // The one that asks for attention is of no use to anybody afterwards, either.
        found.push(self.root.join(DING));
        for file in found {
            // Whoever was quicker did the same.
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
fn search(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let is_there = |file: &PathBuf| fs::symlink_metadata(file).is_ok_and(|it| !it.is_dir());
    found.extend(NAMES.iter().map(|name| directory.join(name)).filter(is_there));
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name() != ".git" {
            search(&entry.path(), depth - 1, found);
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
        let sentinels = Sentinels::watch(root);
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
}
