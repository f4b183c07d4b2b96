//! The only SQL: facts in, facts out. It knows the rules of the graph from `dag` and keeps what
//! follows from them beside the facts; it has never heard of processes, prompts or colours.

mod attempts;
mod check;
mod counters;
mod dependencies;
mod export;
mod features;
mod import;
mod migrate;
mod order;
mod problem;
mod resolve;
mod rows;
mod snapshot;
mod tasks;
mod verbs;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

pub use attempts::{Claim, ClaimLost, Ending, LEASE, NewRun, Target};
pub use check::Finding;
pub use import::Imported;
pub use problem::{Problem, explain};
pub use tasks::{Change, Deletion, NewTask};

/// How long a writer waits for others before it gives up: longer than any honest wait.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a checkpoint waits: it can be done at any later time.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(50);
/// The WAL is emptied each time it grows past another multiple of this.
const WAL_LIMIT: u64 = 1 << 20;

/// Begins a query about the task `?1` and everything inside it, at any depth.
const INSIDE: &str = "with recursive inside (seq) as (
         values (?1)
         union all
         select tasks.seq from inside join tasks on tasks.parent = inside.seq
     )";

/// An open database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens the database in this file; makes or upgrades it when needed.
    pub fn open(path: &Path) -> Result<Store> {
        create_private(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)
            .with_context(|| format!("can't open `{}`", path.display()))?;
        wait_at_most(&mut connection, PATIENCE)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
        // Processes that live for one insert would otherwise each pay for a checkpoint. `write`
        // does it instead, once in a while.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        migrate::up(&mut connection, path)?;
        connection.execute_batch("pragma synchronous = normal; pragma wal_autocheckpoint = 0")?;
        Ok(Store { connection, path: path.to_owned() })
    }

    /// The file it is in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `change` in one transaction: all of it happens, or nothing.
    fn write<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let wal_before = self.wal_size();
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = change(&transaction)?;
        transaction.commit()?;
        if self.wal_size() / WAL_LIMIT != wal_before / WAL_LIMIT {
            self.checkpoint()?;
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
        self.connection.execute_batch("pragma synchronous = normal")?;
        result
    }

    /// Runs `look` on one unchanging state of the database.
    fn read<T>(&self, look: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.connection.unchecked_transaction()?;
        look(&transaction)
    }

    /// Moves the WAL into the database, unless somebody is reading or writing just now.
    fn checkpoint(&mut self) -> Result<()> {
        wait_at_most(&mut self.connection, CHECKPOINT_PATIENCE)?;
        // Whoever was in the way will be gone the next time; nothing is lost by waiting for that.
        let _ = self.connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
        wait_at_most(&mut self.connection, PATIENCE)?;
        Ok(())
    }

    fn wal_size(&self) -> u64 {
        let mut wal = self.path.clone().into_os_string();
        wal.push("-wal");
        fs::metadata(wal).map_or(0, |wal| wal.len())
    }
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

/// Sets how long this connection waits for a lock. SQLite's own handler sleeps up to 100 ms at a
/// time, which starves waiters; short sleeps of random length give everybody a turn.
fn wait_at_most(connection: &mut Connection, patience: Duration) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    let mut random =
        u64::from(std::process::id()) << 32 | u64::from(began.elapsed().subsec_nanos());
    connection.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            began = Instant::now();
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let longest = 100 << tries.clamp(0, 4);
        std::thread::sleep(Duration::from_micros(50 + (random >> 33) % longest));
        began.elapsed() < patience
    }))
}

#[cfg(test)]
mod tests;
