//! The only SQL: facts in, facts out. It knows the rules of the graph from `dag` and keeps what
//! follows from them beside the facts; it has never heard of prompts or colours.

mod add;
mod around;
mod attempts;
mod build;
mod check;
mod context;
mod counters;
mod dependencies;
mod excuse;
mod export;
mod features;
mod import;
mod log;
mod migrate;
mod order;
mod patience;
mod problem;
mod recovery;
mod resolve;
mod rows;
mod runs;
mod sessions;
mod snapshot;
mod tasks;
mod validate;
mod verbs;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use patience::wait_at_most;

pub use add::NewTask;
pub use attempts::{Activity, Claim, ClaimLost, Ending, Loss, SessionRecord};
pub use check::Finding;
pub use context::{DoneBlocker, Surroundings};
pub use features::FeatureChange;
pub use import::Imported;
pub use problem::{Problem, explain};
pub use recovery::{LEASE, TakenBack};
pub use runs::{Counts, LastRun, NewRun, RunTotals, Target};
pub use sessions::{NewSession, OpenSession};
pub use tasks::{Change, Deletion};

/// How long a writer waits for others before it gives up: longer than any honest wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a checkpoint waits: it can be done at any later time.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(50);
/// The WAL is emptied each time it grows past another multiple of this. Whoever opens a database that
/// nobody has open reads all of it; but the write that empties it and the next one wait for the disk.
const WAL_LIMIT: u64 = 5 << 18;
/// While somebody has it open, nobody has to read the WAL. So who writes often empties it less often
/// …
const LONG_WAL_LIMIT: u64 = 8 << 20;
/// … and that is who has written this often.
const MANY_WRITES: u32 = 64;

/// In kilobytes, the cache holds what one change touches. More would be used only by those who read
/// everything, once; it would cost them memory and save them nothing.
const SETTINGS: &str = "
    pragma synchronous = normal;
    pragma wal_autocheckpoint = 0;
    pragma cache_size = -256";

/// Begins a query about the task `?1` and everything inside it, at any depth.
const INSIDE: &str = "with recursive inside (seq) as (
         values (?1)
         union
         select tasks.seq from inside join tasks on tasks.parent = inside.seq
     )";

/// An open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Which file that was when it was opened.
    file: Option<(u64, u64)>,
    wal: PathBuf,
    writes: u32,
}

impl Store {
    /// Opens the database in this file; makes or upgrades it when needed.
    pub fn open(path: &Path) -> Result<Store> {
        create_private(path)?;
        Store::open_existing(path)
    }

    /// As `open`, but an error if there is no such file.
    pub fn open_existing(path: &Path) -> Result<Store> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)
            .with_context(|| format!("can't open `{}`", path.display()))?;
        let mut wal = path.to_owned().into_os_string();
        wal.push("-wal");
        let wal = PathBuf::from(wal);
        wait_at_most(&mut connection, &wal, PATIENCE)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
        // Processes that live for one insert would otherwise each pay for a checkpoint. `write`
        // does it instead, once in a while.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        migrate::up(&mut connection, path)?;
        connection.execute_batch(SETTINGS)?;
        let (path, file) = (path.to_owned(), identity(path));
        Ok(Store { connection, path, file, wal, writes: 0 })
    }

    /// The file it is in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A number that changes when another process, or another `Store` in this one, has written.
    pub fn version(&self) -> Result<i64> {
        Ok(self.connection.query_row("pragma data_version", [], |row| row.get(0))?)
    }

    /// Runs `change` in one transaction: all of it happens, or nothing.
    fn write<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Under the lock, so that of many writers only the one that crosses a limit sees it crossed.
        let wal_before = size(&self.wal);
        let value = change(&transaction)?;
        // To a file that was removed everything can be written, and nobody will ever read it.
        if identity(&self.path) != self.file {
            return Err(Problem::Removed { path: self.path.clone() }.into());
        }
        if let Err(error) = transaction.commit() {
            self.unwrite();
            return Err(error.into());
        }
        self.writes += 1;
        let limit = if self.writes < MANY_WRITES { WAL_LIMIT } else { LONG_WAL_LIMIT };
        if size(&self.wal) / limit > wal_before / limit {
            // What is committed stays committed, and the next write past a limit tries again.
            let _ = self.checkpoint();
        }
        Ok(value)
    }

    /// As `write`, but on the disk when it returns, so that not even a power cut undoes it.
    fn write_durably<T>(
        &mut self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.connection.execute_batch("pragma synchronous = full")?;
        let result = self.write(change);
        // If this fails, later writes only take longer.
        let _ = self.connection.execute_batch("pragma synchronous = normal");
        result
    }

    /// Takes back a change that could not be committed. If it could only not be synced, then it stands
    /// in the WAL like any other, and whoever reads that next would find it: so something that changes
    /// nothing is written over it.
    fn unwrite(&mut self) {
        let connection = &mut self.connection;
        let _ = connection.execute_batch("pragma synchronous = off");
        // Where not even this works, all of the change will be found, or nothing of it.
        let _ = connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
            |transaction| {
                migrate::write_version(&transaction)?;
                transaction.commit()
            },
        );
        let _ = connection.execute_batch("pragma synchronous = normal");
    }

    /// Runs `look` on one unchanging state of the database.
    fn read<T>(&self, look: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.connection.unchecked_transaction()?;
        look(&transaction)
    }

    /// Moves the WAL into the database, unless somebody is reading or writing just now.
    fn checkpoint(&mut self) -> Result<()> {
        wait_at_most(&mut self.connection, &self.wal, CHECKPOINT_PATIENCE)?;
        // Whoever was in the way will be gone the next time; nothing is lost by waiting for that.
        let _ = self.connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
        wait_at_most(&mut self.connection, &self.wal, PATIENCE)?;
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.writes >= MANY_WRITES && size(&self.wal) > WAL_LIMIT {
            // Not necessary, and nobody is left to be told that it failed.
            let _ = self.checkpoint();
        }
    }
}

/// What tells this file from any other on the machine.
fn identity(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|file| (file.dev(), file.ino()))
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |file| file.len())
}

/// Makes an empty file that only its owner can read, unless there is a file already. SQLite gives
/// the files beside it the same permissions.
fn create_private(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).with_context(|| format!("can't create `{}`", path.display())),
    }
}

#[cfg(test)]
mod tests;
