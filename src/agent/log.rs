//! The file that the raw stream of a session goes to, readable by its owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::hash::fnv;
use crate::time::Timestamp;

/// Below the directory for state, what belongs to ralph.
pub const STATE: &str = "ralph";

/// Where the logs of a project go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logs {
    directory: PathBuf,
    is_private: bool,
}

/// A log that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Where.
    pub path: PathBuf,
    /// What it was made for, as `Logs::create` was told.
    pub name: String,
    /// How large it is.
    pub bytes: u64,
    /// When it was last written to.
    pub modified: Timestamp,
}

impl Logs {
    /// Where they go unless the settings say otherwise: a directory for this project alone, below the
    /// user's directory for state. The hash tells projects of the same name apart.
    pub fn of_project(state: &Path, project: &Path) -> Logs {
        let name = project.file_name().unwrap_or("root".as_ref()).to_string_lossy();
        let hash = fnv(project.as_os_str().as_bytes());
        let directory = state.join(STATE).join(format!("{name}-{hash:08x}")).join("logs");
        Logs { directory, is_private: true }
    }

    /// Where the settings say.
    pub fn at(directory: PathBuf) -> Logs {
        Logs { directory, is_private: false }
    }

    /// The directory, which may not exist yet.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes a new log for a session that begins now; `name` is the attempt, and what it is for if not
    /// work.
    pub fn create(&self, name: &str, now: Timestamp) -> Result<(PathBuf, File)> {
        let time: String = now.to_string().chars().filter(char::is_ascii_digit).collect();
        let path = self.directory.join(format!("{time}-{name}.log"));
        let file = self
            .make_directory()
            .and_then(|()| create_private(&path))
            .with_context(|| format!("can't write the log `{}`", path.display()))?;
        Ok((path, file))
    }

    /// Whether no other project has logs there.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// The logs that are there, oldest first. Files that are not named like a log are left out.
    pub fn list(&self) -> Result<Vec<LogFile>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("can't read `{}`", self.directory.display()));
            }
        };
        let mut logs: Vec<LogFile> = entries.flatten().filter_map(|it| log_file(&it)).collect();
        logs.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(logs)
    }

    fn make_directory(&self) -> io::Result<()> {
        let mode = if self.is_private { 0o700 } else { 0o777 };
        DirBuilder::new().recursive(true).mode(mode).create(&self.directory)
    }
}

fn log_file(entry: &fs::DirEntry) -> Option<LogFile> {
    let file = entry.file_name().into_string().ok()?;
    let name = name_in(&file)?.to_owned();
    // Of a link this is the link itself.
    let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
    let modified = Timestamp::from_epoch(metadata.mtime())?;
    Some(LogFile { path: entry.path(), name, bytes: metadata.len(), modified })
}

/// The name in `20261116030543000-NAME.log`.
fn name_in(file: &str) -> Option<&str> {
    let (time, name) = file.strip_suffix(".log")?.split_once('-')?;
    let is_time = time.len() == 17 && time.bytes().all(|byte| byte.is_ascii_digit());
    is_time.then_some(name)
}

fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_log_is_its_owners_alone_and_never_overwrites_another() {
        let state = tempfile::TempDir::new().unwrap();
        let logs = Logs::of_project(state.path(), Path::new("/home/me/shop"));
        let now = Timestamp::from_epoch(1_794_798_343).unwrap();
        let (path, _) = logs.create("a-000001", now).unwrap();
        let relative = path.strip_prefix(state.path()).unwrap().to_string_lossy().into_owned();
        assert_eq!(relative, "ralph/shop-5485c6f1/logs/20261116030543000-a-000001.log");
        assert_eq!(mode(&path), 0o600);
        for directory in ["ralph", "ralph/shop-5485c6f1", "ralph/shop-5485c6f1/logs"] {
            assert_eq!(mode(&state.path().join(directory)), 0o700, "{directory}");
        }
        assert!(logs.create("a-000001", now).is_err());
    }

    #[test]
    fn projects_of_the_same_name_do_not_meet() {
        let logs = |project: &str| Logs::of_project(Path::new("/state"), Path::new(project));
        assert_ne!(logs("/home/me/shop"), logs("/home/me/old/shop"));
    }

    #[test]
    fn only_logs_are_listed() {
        let directory = tempfile::TempDir::new().unwrap();
        let logs = Logs::at(directory.path().join("logs"));
        assert!(logs.list().unwrap().is_empty(), "it is not there yet");
        let (path, _) = logs.create("a-000001", Timestamp::now()).unwrap();
        for other in ["syslog.log", "2026-a-000001.log", "20261116030543000-x.txt"] {
            fs::write(logs.directory().join(other), "x").unwrap();
        }
        fs::create_dir(logs.directory().join("20261116030543000-directory.log")).unwrap();
        let link = logs.directory().join("20261116030543000-link.log");
        std::os::unix::fs::symlink(&path, link).unwrap();
        let listed = logs.list().unwrap();
        let found: Vec<_> = listed.iter().map(|it| (&it.path, it.name.as_str())).collect();
        assert_eq!(found, [(&path, "a-000001")]);
    }

    #[test]
    fn directories_that_the_settings_name_are_like_any_other() {
        let project = tempfile::TempDir::new().unwrap();
        let plain = project.path().join("plain");
        std::fs::create_dir(&plain).unwrap();
        let logs = Logs::at(project.path().join("var/log/ralph"));
        let (path, _) = logs.create("a-000001", Timestamp::now()).unwrap();
        assert_eq!(mode(&path), 0o600);
        for directory in ["var", "var/log", "var/log/ralph"] {
            assert_eq!(mode(&project.path().join(directory)), mode(&plain), "{directory}");
        }
    }
}
