//! Work that is shared among threads, one for each core.

use std::panic::resume_unwind;
use std::thread;

use anyhow::Result;

/// Has every thread do its part; each is told which one it is and of how many.
pub(crate) fn work<T: Send>(part: impl Fn(usize, usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let size = thread::available_parallelism().map_or(1, usize::from).min(8);
    thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> =
            (0..size).map(|worker| scope.spawn(move || part(worker, size))).collect();
        threads
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
