//! The file that the raw stream of a session goes to, readable by its owner alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
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
    let file = make_directories(directory)
        .and_then(|()| create_private(&path))
        .with_context(|| format!("can't write the log `{}`", path.display()))?;
    Ok((path, file))
}

/// Makes the directory for its owner alone, and what is missing above it for everybody: another user of
/// the machine has logs in the same place.
fn make_directories(directory: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|place| !place.exists()).collect();
    for place in missing.iter().rev() {
        let mode = if *place == directory { 0o700 } else { 0o1777 };
        match DirBuilder::new().mode(mode).create(place) {
            // As the mode that was asked for is subject to the umask.
            Ok(()) => fs::set_permissions(place, Permissions::from_mode(mode))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
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
        let shared = logs.parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(shared & 0o7777, 0o1777, "others have logs there, too");
        assert!(create(&logs, "a-000001", now).is_err());
    }
}
