//! Spans of time as a person would say them. Points in time are shown by `Timestamp` itself.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long ago something was, such as `3 min ago`.
pub fn ago(duration: Duration) -> String {
    match duration.as_secs() {
        0..MINUTE => "just now".to_owned(),
        seconds @ MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        seconds @ HOUR..DAY => format!("{} h ago", seconds / HOUR),
        seconds => format!("{} ago", days(seconds)),
    }
}

/// How long something took, such as `2 h 5 min`.
pub fn lasted(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..MINUTE => format!("{seconds} s"),
        seconds @ MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        seconds @ HOUR..DAY => match seconds % HOUR / MINUTE {
            0 => format!("{} h", seconds / HOUR),
            minutes => format!("{} h {minutes} min", seconds / HOUR),
        },
        seconds => days(seconds),
    }
}

fn days(seconds: u64) -> String {
    match seconds / DAY {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_down_to_what_a_person_would_say() {
        for (seconds, past, span) in [
            (0, "just now", "0 s"),
            (59, "just now", "59 s"),
            (60, "1 min ago", "1 min"),
            (3599, "59 min ago", "59 min"),
            (3600, "1 h ago", "1 h"),
            (2 * 3600 + 301, "2 h ago", "2 h 5 min"),
            (86_399, "23 h ago", "23 h 59 min"),
            (86_400, "1 day ago", "1 day"),
            (5 * 86_400 + 1, "5 days ago", "5 days"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), past);
            assert_eq!(lasted(Duration::from_secs(seconds)), span);
        }
    }
}
