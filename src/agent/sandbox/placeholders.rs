//! What stands, for as long as a session lasts, for things that do not exist and must not come into
//! being: nothing can be mounted where nothing is. Sessions in several worktrees may share some, so the
//! last one out removes them.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
#[cfg(target_os = "linux")]
use rustix::fs::CWD;
use rustix::fs::{FlockOperation, flock};

use super::policy::{Policy, Standin, State};

/// Placeholders are changed for the last time at this moment, by which the next session knows what one
/// that was killed has left.
const MARK: Duration = Duration::from_secs(0x5241_4c50);

/// The mode of a directory, and the bit of it that says that it has not got that mark yet.
const MODE: u32 = 0o755;
const UNFINISHED: u32 = 0o1000;

/// Removes its placeholders when it is dropped.
#[derive(Debug, Default)]
pub struct Placeholders(Vec<Placeholder>);

#[derive(Debug)]
struct Placeholder {
    path: PathBuf,
    /// Everybody who uses it has a shared lock on it.
    file: File,
}

impl Placeholders {
    /// Puts something wherever the policy protects what does not exist.
    pub(super) fn put(policy: &Policy) -> Result<Placeholders> {
        let mut placeholders = Placeholders::default();
        // What can't be written in any case needs no placeholder.
        let accesses: HashSet<PathBuf> = policy.accesses().into_iter().map(|it| it.0).collect();
        for protected in policy.protected.iter().filter(|it| accesses.contains(&it.path)) {
            if let State::Absent(standin) = protected.state {
                let placeholder = Placeholder::put(&protected.path, standin);
                placeholders
                    .0
                    .extend(placeholder.with_context(|| {
                        format!("can't protect `{}`", protected.path.display())
                    })?);
            }
        }
        Ok(placeholders)
    }
}

impl Placeholder {
    /// None if somebody has just made the real thing.
    fn put(path: &Path, standin: Standin) -> io::Result<Option<Placeholder>> {
        loop {
            make(path, standin)?;
            let Some(file) = open(path)? else { continue };
            flock(&file, FlockOperation::LockShared)?;
            let opened = file.metadata()?;
            match fs::symlink_metadata(path) {
                Ok(found) if found.ino() != opened.ino() => {}
                Ok(found) if is_placeholder(&found) => {
                    return Ok(Some(Placeholder { path: path.to_owned(), file }));
                }
                Ok(_) => return Ok(None),
                // It was removed before we had the lock.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let is_last = flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let is_same = |opened: &Metadata| {
            let found = fs::symlink_metadata(&self.path);
            found.is_ok_and(|it| it.ino() == opened.ino() && is_placeholder(&it))
        };
        let is_ours = self.file.metadata().is_ok_and(|it| is_same(&it));
        if is_last && is_ours {
            // A directory that is not empty stays, and so do the files in it.
            let _ = fs::remove_dir(&self.path).or_else(|_| fs::remove_file(&self.path));
        }
    }
}

/// Whether it stands for something that does not exist.
pub(super) fn is_placeholder(found: &Metadata) -> bool {
    let is_marked = found.modified().is_ok_and(|it| it == SystemTime::UNIX_EPOCH + MARK);
    is_marked || (found.is_dir() && found.mode() & UNFINISHED != 0)
}

/// At no moment is there something that is not known as a placeholder: we may be killed at each.
fn make(path: &Path, standin: Standin) -> io::Result<()> {
    let made = match standin {
        Standin::Directory => make_directory(path),
        Standin::File(text) => make_file(path, text),
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(MODE | UNFINISHED).create(path)?;
    let Some(directory) = open(path)? else { return Ok(()) };
    directory.set_modified(SystemTime::UNIX_EPOCH + MARK)?;
    directory.set_permissions(Permissions::from_mode(MODE))
}

/// None if another session has removed it meanwhile.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn make_file(path: &Path, text: &str) -> io::Result<()> {
    let fill = |file: &mut File| {
        file.write_all(text.as_bytes())?;
        file.set_modified(SystemTime::UNIX_EPOCH + MARK)
    };
    #[cfg(target_os = "linux")]
    if let Some(mut file) = nameless(path) {
        fill(&mut file)?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let followed = rustix::fs::AtFlags::SYMLINK_FOLLOW;
        return Ok(rustix::fs::linkat(CWD, own, CWD, path, followed)?);
    }
    fill(&mut File::create_new(path)?)
}

/// A file that has no name before it is complete, in the directory of this path, where that can be had.
#[cfg(target_os = "linux")]
fn nameless(path: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path.parent()?, flags, Mode::from_raw_mode(0o644)).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::super::policy::Protected;
    use super::super::testing::policy;
    use super::*;

    struct Place {
        base: tempfile::TempDir,
        policy: Policy,
    }

    impl Place {
        fn new() -> Place {
            let base = tempfile::TempDir::new().unwrap();
            let absent = |name: &str, standin| Protected {
                path: base.path().join(name),
                state: State::Absent(standin),
            };
            let protected =
                vec![absent("directory", Standin::Directory), absent("file", Standin::File(".\n"))];
            let project = base.path().to_owned();
            Place { policy: Policy { project, protected, ..policy() }, base }
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.base.path()).unwrap();
            let mut names: Vec<String> =
                entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn they_are_there_for_as_long_as_they_are_held() {
        let place = Place::new();
        let held = Placeholders::put(&place.policy).unwrap();
        assert_eq!(place.names(), ["directory", "file"]);
        drop(held);
        assert_eq!(place.names(), [""; 0]);
    }

    #[test]
    fn there_are_none_where_nothing_can_be_written() {
        let place = Place::new();
        let base = place.base.path().to_owned();
        let policy = Policy { temporary: Vec::new(), project: base, ..place.policy.looking_only() };
        let _held = Placeholders::put(&policy).unwrap();
        assert_eq!(place.names(), [""; 0]);
    }

    #[test]
    fn the_last_one_out_removes_them() {
        let place = Place::new();
        let one = Placeholders::put(&place.policy).unwrap();
        let other = Placeholders::put(&place.policy).unwrap();
        drop(one);
        assert_eq!(place.names(), ["directory", "file"]);
        drop(other);
        assert_eq!(place.names(), [""; 0]);
    }

    #[test]
    fn what_a_killed_session_left_is_removed_by_the_next() {
        let place = Place::new();
        let mut killed = Placeholders::put(&place.policy).unwrap();
        for placeholder in &mut killed.0 {
            // Its locks are gone with it.
            flock(&placeholder.file, FlockOperation::Unlock).unwrap();
        }
        std::mem::forget(killed);
        assert_eq!(place.names(), ["directory", "file"]);
        drop(Placeholders::put(&place.policy).unwrap());
        assert_eq!(place.names(), [""; 0]);
    }

    #[test]
    fn one_that_was_killed_while_it_made_them_leaves_nothing_either() {
        let place = Place::new();
        let directory = place.base.path().join("directory");
        DirBuilder::new().mode(MODE | UNFINISHED).create(&directory).unwrap();
        assert!(is_placeholder(&fs::symlink_metadata(&directory).unwrap()));
        let held = Placeholders::put(&place.policy).unwrap();
        assert_eq!(held.0.len(), 2);
        drop(held);
        assert_eq!(place.names(), [""; 0]);
        drop(Placeholders::put(&place.policy).unwrap());
        make(&directory, Standin::Directory).unwrap();
        assert_eq!(fs::symlink_metadata(&directory).unwrap().mode() & 0o7777, MODE);
    }

    #[test]
    fn what_is_put_in_their_place_stays() {
        let place = Place::new();
        let held = Placeholders::put(&place.policy).unwrap();
        fs::write(place.base.path().join("directory/of-the-user"), "").unwrap();
        fs::write(place.base.path().join("file"), "of the user").unwrap();
        drop(held);
        assert_eq!(place.names(), ["directory", "file"]);
        let held = Placeholders::put(&place.policy).unwrap();
        assert!(held.0.is_empty());
        drop(held);
        assert_eq!(place.names(), ["directory", "file"]);
    }
}
