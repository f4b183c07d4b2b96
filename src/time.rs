//! Points in time as they are stored and shown: UTC, milliseconds, one format that sorts as text.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, SubsecRound, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const FORMAT: &str = "%Y-%m-%dT%H:%M:%S%.3fZ";

/// A moment such as `2026-11-16T02:24:16.123Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(DateTime<Utc>);

impl Timestamp {
    /// The time now.
    pub fn now() -> Timestamp {
        Timestamp(Utc::now().trunc_subsecs(3))
    }

    /// The time this many seconds after the beginning of 1970, if there is such a time.
    pub fn from_epoch(seconds: i64) -> Option<Timestamp> {
        DateTime::from_timestamp(seconds, 0).map(Timestamp)
    }

    /// This much later, or the same if there is no such time.
    pub fn plus(self, duration: Duration) -> Timestamp {
        let delta = chrono::TimeDelta::from_std(duration).unwrap_or_default();
        Timestamp(self.0.checked_add_signed(delta).unwrap_or(self.0))
    }

    /// How long ago `earlier` was; zero if it was not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.format(FORMAT).fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = chrono::ParseError;

    fn from_str(text: &str) -> Result<Timestamp, chrono::ParseError> {
        Ok(Timestamp(NaiveDateTime::parse_from_str(text, FORMAT)?.and_utc().trunc_subsecs(3)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| de::Error::custom("a time must look like `2026-11-16T02:24:16.123Z`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_one_form_and_read_back() {
        let now = Timestamp::now();
        assert_eq!(now.to_string().len(), "2026-11-16T02:24:16.123Z".len());
        assert_eq!(now.to_string().parse(), Ok(now));
        assert!("yesterday".parse::<Timestamp>().is_err());
    }

    #[test]
    fn time_that_went_backwards_is_no_time_at_all() {
        let now = Timestamp::now();
        let later = now.plus(Duration::from_secs(60));
        assert_eq!(later.since(now), Duration::from_secs(60));
        assert_eq!(now.since(later), Duration::ZERO);
    }
}
