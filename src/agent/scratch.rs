//! The private directory of one session: its prompts go there, and it is gone when the session is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::hash::fnv;
use crate::process::Holder;
use crate::time::Timestamp;

/// How the name of such a directory begins.
const PREFIX: &str = "ralph-session-";

/// A directory that only its owner can look into, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
}

/// Such a directory that no process uses any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// Where.
    pub path: PathBuf,
    /// How large the files in it are.
    pub bytes: u64,
    /// When anything in it was last changed.
    pub modified: Timestamp,
}

impl Scratch {
    /// Makes one in the directory for temporary files.
    pub fn new(temporary: &Path) -> Result<Scratch> {
        let number = getrandom::u64().unwrap_or_default();
        let owner = Holder::current();
        let directory = temporary.join(Scratch::name_of(&owner, number));
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .with_context(|| format!("can't make `{}`", directory.display()))?;
        Ok(Scratch { directory })
    }

    /// Removes those of processes that were killed before they could. A process on another machine or in
    /// another container may have the same directory for temporary files: what it left is not ours.
    pub fn sweep(temporary: &Path) {
        let Ok(entries) = fs::read_dir(temporary) else { return };
        let here = Holder::current();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if owner_in(&name, &here.host).is_some_and(|owner| owner.is_gone()) {
                // Another ralph may be doing the same.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Those of this user that certainly no process uses any more: the process that made one is gone, or
    /// nothing in it was changed since the machine was started (`booted`). That finds what `sweep` can't
    /// judge: what is from before a restart, and what 0.1.0 made, which did not note the host.
    pub fn abandoned(temporary: &Path, booted: Option<Timestamp>) -> Vec<Abandoned> {
        let Ok(entries) = fs::read_dir(temporary) else { return Vec::new() };
        let (here, user) = (Holder::current(), rustix::process::geteuid().as_raw());
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(metadata) = entry.metadata() else { continue };
            if !name.starts_with(PREFIX) || !metadata.is_dir() || metadata.uid() != user {
                continue;
            }
            let Some((bytes, modified)) = measure(&entry.path()) else { continue };
            let is_gone = match owner_in(&name, &here.host) {
                Some(owner) => owner.is_gone(),
                None => booted.is_some_and(|booted| modified < booted),
            };
            if is_gone {
                found.push(Abandoned { path: entry.path(), bytes, modified });
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// What one of this process is called.
    #[doc(hidden)]
    pub fn name_of(owner: &Holder, number: u64) -> String {
        let host = fnv(owner.host.as_bytes());
        format!("{PREFIX}{}-{}-{host:08x}-{number:016x}", owner.pid, owner.started)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("can't write `{}`", path.display()))?;
        Ok(path)
    }
}

/// The process that made the directory of this name, if that was on this host.
fn owner_in(name: &str, host: &str) -> Option<Holder> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let (pid, started) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let is_here = parts.next()? == format!("{:08x}", fnv(host.as_bytes()));
    is_here.then(|| Holder { host: host.to_owned(), pid, started })
}

/// How large a file or a directory is, with all that is in it, and when any of it was last changed. None
/// if that can't be told of all of it.
fn measure(path: &Path) -> Option<(u64, Timestamp)> {
    let metadata = path.symlink_metadata().ok()?;
    let modified = Timestamp::from_epoch(metadata.mtime())?;
    if !metadata.is_dir() {
        return Some((metadata.len(), modified));
    }
    fs::read_dir(path).ok()?.try_fold((0, modified), |(bytes, latest), entry| {
        let (more, modified) = measure(&entry.ok()?.path())?;
        Some((bytes + more, latest.max(modified)))
    })
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The supervisor of the session may have been quicker.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let temporary = tempfile::TempDir::new().unwrap();
        let own = Scratch::new(temporary.path()).unwrap();
        own.write("prompt.md", "text").unwrap();
        let dead = Holder { pid: 999_999_999, started: 5, ..Holder::current() };
        let killed = Scratch::name_of(&dead, 7);
        let elsewhere = Scratch::name_of(&Holder { host: "another container".into(), ..dead }, 7);
        let old = "ralph-session-999999999-5-00000000000000ff";
        for name in [&killed, &elsewhere, old, "ralph-session-x", "else"] {
            fs::create_dir(temporary.path().join(name)).unwrap();
        }
        let abandoned = |booted: Option<Timestamp>| -> Vec<String> {
            let found = Scratch::abandoned(temporary.path(), booted);
            found.iter().map(|it| it.path.file_name().unwrap().to_str().unwrap().into()).collect()
        };
        assert_eq!(abandoned(None), [&*killed]);
        let now = Timestamp::now();
        let (yesterday, tomorrow) = (now.minus(DAY), now.plus(DAY));
        assert_eq!(abandoned(Some(yesterday)), [&*killed], "they may be of this boot");
        let mut all = vec![killed.as_str(), &elsewhere, old, "ralph-session-x"];
        all.sort_unstable();
        assert_eq!(abandoned(Some(tomorrow)), all, "but never its own");
        Scratch::sweep(temporary.path());
        let left = |name: &str| temporary.path().join(name).exists();
        assert!(own.path().join("prompt.md").exists());
        assert!(!left(&killed));
        assert!(left(&elsewhere) && left(old) && left("ralph-session-x") && left("else"));
        let path = own.path().to_owned();
        drop(own);
        assert!(!path.exists());
    }
}
