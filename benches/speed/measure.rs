//! Timing on a machine that others use too: many rounds, what is compared taking turns inside each,
//! and the median of each.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    percentile(&mut times, 50)
}

/// The one that this many of a hundred do not exceed.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

/// How long it takes.
pub(crate) fn time<T>(work: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let began = Instant::now();
    let value = work()?;
    Ok((began.elapsed(), value))
}

/// The medians of two things that take turns, each of which tells its own time.
pub(crate) fn interleaved(
    rounds: usize,
    mut one: impl FnMut() -> Result<Duration>,
    mut other: impl FnMut() -> Result<Duration>,
) -> Result<(Duration, Duration)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Neither is always the one that runs right after the other.
        if round % 2 == 0 {
            ones.push(one()?);
            others.push(other()?);
        } else {
            others.push(other()?);
            ones.push(one()?);
        }
    }
    Ok((median(ones), median(others)))
}

/// How long this thread has been on a processor.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
