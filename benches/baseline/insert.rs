//! The smallest program that adds a task to a database that ralph made: what `ralph task add` is
//! measured against. It has the same settings and the same care for the WAL, and nothing else.

use std::time::Duration;
use std::{env, fs};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Result};

const WAL_LIMIT: u64 = 1 << 20;
const SPACING: i64 = 1 << 36;

fn main() -> Result<()> {
    let path = env::args().nth(1).expect("the path of a database is given");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("pragma synchronous = normal; pragma wal_autocheckpoint = 0")?;
    connection.execute(
        "insert into tasks (id, kind, title, status, created_at, updated_at, starts, ends)
         select 't-' || lower(hex(randomblob(3))), 'work', ?1, 'pending', ?2, ?2, last + ?3, last + 2 * ?3
         from (select coalesce(max(ends), 0) as last from tasks)
         where true
         on conflict (id) do nothing",
        ("Write the tokenizer", "2026-11-16T02:24:16.123Z", SPACING),
    )?;
    if fs::metadata(format!("{path}-wal")).map_or(0, |wal| wal.len()) > WAL_LIMIT {
        connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    }
    Ok(())
}
