//! Rings when a file appears, by which a hook of the agent asks for the person's attention.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// Watches for a file until it is dropped.
#[derive(Debug)]
pub(super) struct Bell {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Bell {
    /// Calls `ring` each time the file appears, and removes it.
    pub(super) fn watch(file: PathBuf, ring: fn()) -> Bell {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            loop {
                let is_over = stopped.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout);
                if fs::remove_file(&file).is_ok() {
                    ring();
                }
                if is_over {
                    return;
                }
            }
        });
        Bell { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
