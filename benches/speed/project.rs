//! A project in a directory of its own, and the programs that are run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ralph::store::Store;
use tempfile::TempDir;

use crate::measure;

pub(crate) const RALPH: &str = env!("CARGO_BIN_EXE_ralph");
pub(crate) const EMPTY: &str = env!("CARGO_BIN_EXE_baseline-empty");
pub(crate) const INSERT: &str = env!("CARGO_BIN_EXE_baseline-insert");

/// A project that is removed with this value.
pub(crate) struct Project {
    directory: TempDir,
}

impl Project {
    pub(crate) fn new() -> Result<Project> {
        let project = Project { directory: TempDir::new()? };
        ralph::project::Project::init(project.directory.path())?;
        project.store()?;
        Ok(project)
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn store(&self) -> Result<Store> {
        Store::open(&self.database())
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.directory.path().join(".ralph/progress.db")
    }

    pub(crate) fn wal_size(&self) -> Result<u64> {
        let mut wal = self.database().into_os_string();
        wal.push("-wal");
        Ok(std::fs::metadata(wal)?.len())
    }

    /// A program in this project that prints for nobody.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    pub(crate) fn ralph(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(RALPH);
        command.args(arguments);
        command
    }

    pub(crate) fn baseline_insert(&self) -> Command {
        let mut command = self.command(INSERT);
        command.arg(self.database());
        command
    }
}

/// How long a program takes from its start to its end, which must be a success.
pub(crate) fn run(mut command: Command) -> Result<Duration> {
    let (time, status) = measure::time(|| Ok(command.status()?))
        .with_context(|| format!("can't run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(time)
}
