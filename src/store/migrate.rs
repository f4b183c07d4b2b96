//! Brings a database to the current schema. A migration that has shipped is never edited.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::PATIENCE;
use super::problem::Problem;

const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_tasks.sql"),
    include_str!("../../migrations/0002_verdicts.sql"),
    include_str!("../../migrations/0003_working_trees.sql"),
    include_str!("../../migrations/0004_sessions.sql"),
    include_str!("../../migrations/0005_open_sessions.sql"),
    include_str!("../../migrations/0006_run_ends.sql"),
];
/// `RLPH`, by which `file` and other tools can tell what a database is.
const APPLICATION_ID: i64 = 0x524c_5048;

/// Applies what is missing.
pub(super) fn up(connection: &mut Connection, path: &Path) -> Result<()> {
    if is_current(connection, path)? {
        return Ok(());
    }
    let _lock = lock_directory(path)?;
    if is_current(connection, path)? {
        return Ok(());
    }
    use_wal(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Exclusive)?;
    for migration in &MIGRATIONS[version(&transaction)? as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    write_version(&transaction)?;
    Ok(transaction.commit()?)
}

/// Writes down that this is the current schema.
pub(super) fn write_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", MIGRATIONS.len() as i64)
}

/// The tables, indexes and triggers of a database: their names, and how they were made.
pub(super) fn schema(connection: &Connection) -> Result<Vec<(String, Option<String>)>> {
    let mut query = connection.prepare("select name, sql from sqlite_schema")?;
    let parts = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(parts.collect::<Result<_, _>>()?)
}

/// What they are in a new database.
pub(super) fn our_schema() -> Result<Vec<(String, Option<String>)>> {
    let connection = Connection::open_in_memory()?;
    MIGRATIONS.iter().try_for_each(|migration| connection.execute_batch(migration))?;
    schema(&connection)
}

/// Switches to WAL. Others may be looking at the file just now, and for this SQLite does not ask the
/// busy handler.
fn use_wal(connection: &Connection) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match connection.query_row("pragma journal_mode = wal", [], |_| Ok(())) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return Ok(result?),
        }
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("pragma user_version", [], |row| row.get(0))
}

fn is_current(connection: &Connection, path: &Path) -> Result<bool> {
    let known = MIGRATIONS.len() as i64;
    if version(connection)? == known && is_ours(connection)? {
        return Ok(true);
    }
    // One look: between two, another process may have made everything.
    let look = connection.unchecked_transaction()?;
    let found = version(&look)?;
    let is_empty: bool =
        look.query_row("select not exists (select 1 from sqlite_schema)", [], |row| row.get(0))?;
    match found {
        0 if is_empty => Ok(false),
        _ if found < 0 || !is_ours(&look)? => {
            Err(Problem::Foreign { path: path.to_owned() }.into())
        }
        _ if found > known => Err(Problem::Newer { path: path.to_owned(), found, known }.into()),
        _ => Ok(found == known),
    }
}

fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .query_row("pragma application_id", [], |row| Ok(row.get::<_, i64>(0)? == APPLICATION_ID))
}

/// Lets one process at a time make or upgrade the database. The lock is on the directory, because
/// closing a second handle on the database itself would drop SQLite's own locks.
fn lock_directory(path: &Path) -> Result<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let file = File::open(directory)
        .with_context(|| format!("can't open the directory `{}`", directory.display()))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(TryLockError::WouldBlock) => {
                bail!("another process has been setting up `{}` for too long", path.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("can't lock `{}`", directory.display()));
            }
        }
    }
}
