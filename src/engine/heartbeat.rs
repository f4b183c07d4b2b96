//! Says again and again that a run is still there, whatever the run is doing just now.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

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
        let (stop, stopped) = channel();
        let database = database.to_owned();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(LEASE / 6) == Err(RecvTimeoutError::Timeout) {
                // One beat that is missed is no harm, and the next one comes soon.
                let _ = Store::open(&database)
                    .and_then(|mut store| store.heartbeat(run, Timestamp::now()));
            }
        });
        Heartbeat { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
