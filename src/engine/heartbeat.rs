//! Says again and again that a run or a loop is still there, whatever it is doing just now.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

use crate::dag::RunId;
use crate::store::{LEASE, Store};
use crate::time::Timestamp;

/// A beating heart; it stops when this is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// The heartbeat of a run, in the database.
    pub(super) fn of_run(database: &Path, run: RunId) -> Heartbeat {
        let database = database.to_owned();
        // One beat that is missed is no harm, and the next one comes soon.
        Heartbeat::every(LEASE / 6, move || drop(beat(&database, run)))
    }

    /// The heartbeat of a loop, which may have no database: when this file was last written.
    pub(super) fn of_loop(file: PathBuf) -> Heartbeat {
        let touch = move || drop(fs::write(&file, ""));
        touch();
        Heartbeat::every(LEASE / 6, touch)
    }

    fn every(time: Duration, beat: impl Fn() + Send + 'static) -> Heartbeat {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                beat();
            }
        });
        Heartbeat { stop: Some(stop), thread: Some(thread) }
    }
}

/// Says that a run is still there. A database that was removed stays away.
fn beat(database: &Path, run: RunId) -> Result<()> {
    Store::open_existing(database)?.heartbeat(run, Timestamp::now())
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::store::NewRun;

    const OFTEN: Duration = Duration::from_millis(1);

    #[test]
    fn a_run_is_heard_of_and_a_database_that_was_removed_stays_away() {
        let directory = tempfile::TempDir::new().unwrap();
        let database = directory.path().join("progress.db");
        let mut store = Store::open(&database).unwrap();
        let run = store.start_run(&NewRun::new(), Timestamp::now()).unwrap();
        let version = store.version().unwrap();
        let path = database.clone();
        let beating = Heartbeat::every(OFTEN, move || drop(beat(&path, run)));
        let deadline = Instant::now() + Duration::from_secs(60);
        while store.version().unwrap() == version {
            assert!(Instant::now() < deadline, "it does not beat");
            thread::yield_now();
        }
        drop(beating);
        drop(store);
        for entry in fs::read_dir(directory.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert!(beat(&database, run).is_err());
        assert!(!database.exists());
    }
}
