//! The file that the raw stream of a session goes to, readable by its owner alone.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::time::Timestamp;

/// Where the logs of a project are, unless its settings say otherwise.
pub fn directory(temporary: &Path, project: &Path) -> PathBuf {
    let name = project.file_name().unwrap_or("root".as_ref());
    temporary.join("ralph").join("logs").join(name)
}

/// Makes a new log for a session that begins now; `name` is the attempt, and what it is for if not work.
pub fn create(directory: &Path, name: &str, now: Timestamp) -> Result<(PathBuf, File)> {
    let time: String = now.to_string().chars().filter(char::is_ascii_digit).collect();
    let path = directory.join(format!("{time}-{name}.log"));
    let file = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| create_private(&path))
        .with_context(|| format!("can't write the log `{}`", path.display()))?;
    Ok((path, file))
}

fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_log_is_its_owners_alone_and_never_overwrites_another() {
        let temporary = tempfile::TempDir::new().unwrap();
        let logs = directory(temporary.path(), Path::new("/home/me/shop"));
        assert!(logs.ends_with("ralph/logs/shop"));
        let now = Timestamp::from_epoch(1_794_798_343).unwrap();
        let (path, file) = create(&logs, "a-000001", now).unwrap();
        assert!(path.ends_with("20261116030543000-a-000001.log"), "{}", path.display());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(logs.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(create(&logs, "a-000001", now).is_err());
    }
}
