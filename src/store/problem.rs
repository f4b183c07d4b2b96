//! What can be wrong with the database as a whole, in words that help.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// What to do with a database whose file is not what it was.
pub(super) const RESTORE: &str =
    "restore it from a backup or move it away, then `ralph import` an export";

/// A database that this program must leave alone.
#[derive(Debug)]
pub enum Problem {
    /// A newer version of the program made it.
    Newer {
        /// Where it is.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version we know.
        known: i64,
    },
    /// Another program made it.
    Foreign {
        /// Where it is.
        path: PathBuf,
    },
    /// It is not there any more, or another is in its place.
    Removed {
        /// Where it was.
        path: PathBuf,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Newer { path, found, known } => write!(
                f,
                "`{}` was made by a newer ralph (schema {found}; this one knows {known})",
                path.display()
            ),
            Problem::Foreign { path } => {
                write!(f, "`{}` is a database of another program", path.display())
            }
            Problem::Removed { path } => {
                write!(f, "`{}` was removed or replaced while it was in use", path.display())
            }
        }
    }
}

impl std::error::Error for Problem {}

impl Problem {
    fn hint(&self) -> &'static str {
        match self {
            Problem::Newer { .. } => "upgrade ralph; nothing was changed",
            Problem::Foreign { .. } => "move that file away, or name another with RALPH_DB",
            Problem::Removed { .. } => {
                "what was to be recorded since then is lost; restore the file from a backup or \
                 import an export"
            }
        }
    }
}

/// What an error from the database means to a person, and what they can do; none if it is not one.
pub fn explain(error: &anyhow::Error, path: &Path) -> Option<(String, &'static str)> {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return Some((problem.to_string(), problem.hint()));
    }
    let sqlite = error.chain().find_map(|cause| cause.downcast_ref::<rusqlite::Error>())?;
    let path = path.display();
    let (what, hint) = match sqlite.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            (format!("no space left to write `{path}`"), "free some space; nothing was changed")
        }
        Some(ErrorCode::ReadOnly) => (
            format!("can't write `{path}`: it is read-only"),
            "make it, the files beside it (-wal, -shm) and their directory writable",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            format!("can't open `{path}`"),
            "the file and its directory must be readable and writable",
        ),
        Some(ErrorCode::NotADatabase) => (format!("`{path}` is not a database"), RESTORE),
        Some(ErrorCode::DatabaseCorrupt) => (format!("`{path}` is damaged"), RESTORE),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => (
            format!("another program has kept `{path}` to itself for half a minute"),
            "find it with `fuser` or `lsof` and end it, then try again",
        ),
        Some(ErrorCode::SystemIoFailure) => (
            format!("reading or writing `{path}` failed"),
            "check the disk, its free space and the file-size limit (`ulimit -f`)",
        ),
        _ => (
            format!("`{path}` does not hold what it should"),
            "run `ralph doctor` to see what is wrong with it",
        ),
    };
    Some((what, hint))
}
