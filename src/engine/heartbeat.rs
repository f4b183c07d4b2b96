//! Says again and again that a run is still there, whatever the run is doing just now.

use std::path::Path;
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
    pub(super) fn start(database: &Path, run: RunId) -> Heartbeat {
        Heartbeat::every(LEASE / 6, database, run)
    }

    fn every(time: Duration, database: &Path, run: RunId) -> Heartbeat {
        let (stop, stopped) = channel();
        let database = database.to_owned();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                // One beat that is missed is no harm, and the next one comes soon.
                let _ = beat(&database, run);
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
    use std::fs;
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
        let beating = Heartbeat::every(OFTEN, &database, run);
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
