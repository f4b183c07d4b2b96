//! One run at a time in a working tree. The lock is the system's, on the directory itself, so it dies
//! with its holder and leaves no file; a note beside it says who that is.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::dag::RunId;
use crate::time::Timestamp;

/// How long the lock is asked for. Whoever is killed while it starts another program leaves the lock to
/// that program until it has begun.
const MOMENT: Duration = Duration::from_millis(250);

/// The right to work in a working tree.
#[derive(Debug)]
pub struct TreeLock {
    note: PathBuf,
    _directory: File,
}

/// Another run works in this working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeHeld {
    /// Where.
    pub root: PathBuf,
    /// Who, if they have had the time to say so.
    pub holder: Option<Holder>,
}

/// Who works in a working tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// The run.
    pub run: RunId,
    /// Since when.
    pub since: Timestamp,
}

impl fmt::Display for TreeHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another run is working in `{}`", self.root.display())?;
        match &self.holder {
            Some(Holder { pid, run, since }) => {
                write!(f, ": run {run}, process {pid}, since {}", since.to_the_second())
            }
            None => Ok(()),
        }
    }
}

impl std::error::Error for TreeHeld {}

impl TreeLock {
    /// Takes the working tree at `root`, or says who has it.
    pub fn take(root: &Path, note: PathBuf) -> Result<TreeLock> {
        let directory =
            File::open(root).with_context(|| format!("can't open `{}`", root.display()))?;
        let began = Instant::now();
        let mut locked = directory.try_lock();
        while matches!(locked, Err(TryLockError::WouldBlock)) && began.elapsed() < MOMENT {
            std::thread::sleep(MOMENT / 50);
            locked = directory.try_lock();
        }
        match locked {
            Ok(()) => Ok(TreeLock { note, _directory: directory }),
            Err(TryLockError::WouldBlock) => {
                let holder =
                    fs::read(&note).ok().and_then(|text| serde_json::from_slice(&text).ok());
                Err(TreeHeld { root: root.to_owned(), holder }.into())
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("can't lock `{}`", root.display()))
            }
        }
    }

    /// Says who has it.
    pub fn sign(&self, run: RunId, since: Timestamp) {
        let holder = Holder { pid: std::process::id(), run, since };
        // A courtesy: the lock holds without it.
        let _ = fs::write(&self.note, serde_json::to_vec(&holder).unwrap_or_default());
    }
}

impl Drop for TreeLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let directory = tempfile::TempDir::new().unwrap();
        let note = directory.path().join("run.json");
        let take = || TreeLock::take(directory.path(), note.clone());
        let first = take().unwrap();
        let run: RunId = "r-3f9a01".parse().unwrap();
        let held = take().unwrap_err();
        assert_eq!(held.downcast_ref::<TreeHeld>().unwrap().holder, None);
        first.sign(run, Timestamp::from_epoch(1_794_798_343).unwrap());
        let held = take().unwrap_err().to_string();
        let pid = std::process::id();
        let who = format!(": run r-3f9a01, process {pid}, since 04:05:43");
        assert!(held.ends_with(&who), "{held}");
        drop(first);
        assert!(!note.exists());
        take().unwrap();
    }

    #[test]
    fn who_was_killed_while_it_started_something_holds_it_for_a_moment_only() {
        let directory = tempfile::TempDir::new().unwrap();
        // A copy of the descriptor, as a child has one until it has become another program.
        let child = File::open(directory.path()).unwrap();
        child.lock().unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(MOMENT / 5);
            drop(child);
        });
        let taken = TreeLock::take(directory.path(), directory.path().join("run.json"));
        end.join().unwrap();
        taken.unwrap();
    }
}
