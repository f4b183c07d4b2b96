//! How a connection waits for a lock that another one has. SQLite's own handler sleeps up to 100 ms at a
//! time, which starves waiters.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::Connection;

/// Whoever has waited for so long is either unlucky, or waits for somebody who takes long.
const LONG: Duration = Duration::from_secs(1);

/// Sets how long this connection waits for a lock.
pub(super) fn wait_at_most(
    connection: &mut Connection,
    wal: &Path,
    patience: Duration,
) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    let mut others = Others::new(wal.to_owned());
    let mut random = u64::from(std::process::id());
    connection.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            began = Instant::now();
        }
        let waited = began.elapsed();
        let go_on = waited >= LONG && others.go_on(Instant::now());
        let longest = longest_pause(tries, waited, go_on);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros(longest / 4 + (random >> 33) % longest));
        waited < patience
    }))
}

/// How long it is waited at most before the lock is asked for again, in microseconds. Whoever has it gets
/// most done when it is asked for rarely. But who has waited for some time asks more often than those who
/// came later, and so has its turn; unless nobody has one, and then it will be long.
fn longest_pause(tries: i32, waited: Duration, others_go_on: bool) -> u64 {
    match waited.as_millis() {
        0..10 => 100 << tries.clamp(0, 4),
        _ if waited < LONG || others_go_on => 100,
        _ => 10_000,
    }
}

/// Those who have their turns while we wait, seen by the log that all of them write.
struct Others {
    wal: PathBuf,
    last: Option<(Option<SystemTime>, u64)>,
    changed: Instant,
}

impl Others {
    fn new(wal: PathBuf) -> Others {
        Others { wal, last: None, changed: Instant::now() }
    }

    /// Whether anything was written not long ago.
    fn go_on(&mut self, now: Instant) -> bool {
        let found = fs::metadata(&self.wal).ok().map(|it| (it.modified().ok(), it.len()));
        if found != self.last {
            (self.last, self.changed) = (found, now);
        }
        now.duration_since(self.changed) < LONG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_came_later_asks_more_often_as_long_as_others_have_their_turns() {
        let at = |milliseconds| Duration::from_millis(milliseconds);
        let mut last = u64::MAX;
        for (tries, waited) in [(4, at(9)), (20, at(10)), (999, at(999)), (9_999, at(20_000))] {
            let pause = longest_pause(tries, waited, true);
            assert!(pause <= last, "{waited:?}: {pause} after {last}");
            last = pause;
        }
        assert_eq!(longest_pause(9_999, at(1_000), false), 10_000);
    }

    #[test]
    fn others_go_on_while_the_log_changes() {
        let directory = tempfile::TempDir::new().unwrap();
        let wal = directory.path().join("progress.db-wal");
        let start = Instant::now();
        let mut others = Others::new(wal.clone());
        fs::write(&wal, "one").unwrap();
        assert!(others.go_on(start));
        assert!(others.go_on(start + LONG / 2));
        assert!(!others.go_on(start + LONG));
        fs::write(&wal, "another").unwrap();
        assert!(others.go_on(start + 2 * LONG));
        assert!(!others.go_on(start + 4 * LONG));
    }
}
