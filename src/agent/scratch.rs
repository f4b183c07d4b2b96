//! The private directory of one session: its prompts go there, and it is gone when the session is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A directory that only its owner can look into, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
}

impl Scratch {
    /// Makes one in the directory for temporary files.
    pub fn new(temporary: &Path) -> Result<Scratch> {
        let number = getrandom::u64().unwrap_or_default();
        let directory = temporary.join(format!("ralph-session-{number:016x}"));
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .with_context(|| format!("can't make `{}`", directory.display()))?;
        Ok(Scratch { directory })
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // The supervisor of the session may have been quicker.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
