//! Points in time. They are stored, and printed for programs, in UTC, with milliseconds, in one format that sorts as
//! text; a person reads them in the local zone.

mod duration;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Datelike, NaiveDate, SubsecRound, TimeZone, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use duration::parse_duration;

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

    /// The time in a text such as `2026-11-16T02:24:16Z` or `2026-11-16T03:24:16+01:00`.
    pub fn from_rfc3339(text: &str) -> Result<Timestamp, NoTime> {
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| NoTime)?;
        Ok(Timestamp(time.to_utc().trunc_subsecs(3)))
    }

    /// This much later, or the same if there is no such time.
    pub fn plus(self, duration: Duration) -> Timestamp {
        let delta = chrono::TimeDelta::from_std(duration).unwrap_or_default();
        Timestamp(self.0.checked_add_signed(delta).unwrap_or(self.0))
    }

    /// This much earlier, or the same if there is no such time.
    pub fn minus(self, duration: Duration) -> Timestamp {
        let delta = chrono::TimeDelta::from_std(duration).unwrap_or_default();
        Timestamp(self.0.checked_sub_signed(delta).unwrap_or(self.0))
    }

    /// How long ago `earlier` was; zero if it was not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        (self.0 - earlier.0).to_std().unwrap_or_default()
    }

    /// As a person reads it: `02:24:16`, or `2026-11-16 02:24:16` if that is not today.
    pub fn to_the_second(self) -> String {
        shown(self, today(), &zone(), Precision::Second)
    }

    /// As a person reads it who knows the day: `02:24:16`.
    pub fn clock(self) -> String {
        shown(self, self, &zone(), Precision::Second)
    }

    /// As a person reads it: `02:24`, or `2026-11-16 02:24` if that is not today.
    pub fn to_the_minute(self) -> String {
        shown(self, today(), &zone(), Precision::Minute)
    }
}

#[derive(Clone, Copy)]
enum Precision {
    Second,
    Minute,
}

/// A moment in a zone, with the day if it is not the same as that of `now`.
fn shown(at: Timestamp, now: Timestamp, zone: &impl TimeZone, precision: Precision) -> String {
    let (at, now) =
        (at.0.with_timezone(zone).naive_local(), now.0.with_timezone(zone).naive_local());
    let mut text = String::new();
    if at.date() != now.date() {
        text = format!("{:04}-{:02}-{:02} ", at.year(), at.month(), at.day());
    }
    text.push_str(&format!("{:02}:{:02}", at.hour(), at.minute()));
    if let Precision::Second = precision {
        text.push_str(&format!(":{:02}", at.second()));
    }
    text
}

#[cfg(not(test))]
fn zone() -> impl TimeZone {
    chrono::Local
}

#[cfg(not(test))]
fn today() -> Timestamp {
    Timestamp::now()
}

/// The zone of all unit tests.
#[cfg(test)]
fn zone() -> impl TimeZone {
    chrono::FixedOffset::east_opt(3600).expect("an hour is less than a day")
}

/// The day of all unit tests.
#[cfg(test)]
fn today() -> Timestamp {
    "2026-11-16T12:00:00.000Z".parse().expect("it is in our format")
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, time) = (self.0.date_naive(), self.0.time());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            date.year(),
            date.month(),
            date.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.nanosecond() / 1_000_000,
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not a time in our format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTime;

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time must look like `2026-11-16T02:24:16.123Z`")
    }
}

impl std::error::Error for NoTime {}

impl FromStr for Timestamp {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Timestamp, NoTime> {
        parse(text).map(Timestamp).ok_or(NoTime)
    }
}

/// A listing reads thousands of times, and a general parser would take ten times as long.
fn parse(text: &str) -> Option<DateTime<Utc>> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if marks.iter().any(|&(at, mark)| bytes[at] != mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit().then(|| 10 * number + u32::from(byte - b'0'))
        })
    };
    NaiveDate::from_ymd_opt(number(0, 4)?.cast_signed(), number(5, 7)?, number(8, 10)?)?
        .and_hms_milli_opt(number(11, 13)?, number(14, 16)?, number(17, 19)?, number(20, 23)?)
        .map(|time| time.and_utc())
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// When a task may be started at the earliest, as a person writes it: a time, a while from now, or `none`.
pub fn parse_not_before(text: &str) -> Result<Option<Timestamp>, NoStart> {
    if text == "none" {
        return Ok(None);
    }
    if let Ok(time) = Timestamp::from_rfc3339(text) {
        return Ok(Some(time));
    }
    let duration = parse_duration(text).map_err(|_| NoStart)?;
    Ok(Some(Timestamp::now().plus(duration)))
}

/// The same in JSON, where `null` is `none` as well.
pub fn deserialize_not_before<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    match Option::<std::borrow::Cow<str>>::deserialize(deserializer)? {
        Some(text) => parse_not_before(&text)
            .map_err(|error| de::Error::custom(format_args!("`not_before`: {error}"))),
        None => Ok(None),
    }
}

/// Text that does not say when a task may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoStart;

impl fmt::Display for NoStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it must be a time such as `2026-11-16T08:00:00Z`, a while from now such as `2h30m`, or `none`")
    }
}

impl std::error::Error for NoStart {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_one_form_and_read_back() {
        let now = Timestamp::now();
        assert_eq!(now.to_string().len(), "2026-11-16T02:24:16.123Z".len());
        assert_eq!(now.to_string().parse(), Ok(now));
        for wrong in ["yesterday", "2026-13-16T02:24:16.123Z", "2026-11-16T02:24:16.12xZ"] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_that_went_backwards_is_no_time_at_all() {
        let now = Timestamp::now();
        let later = now.plus(Duration::from_secs(60));
        assert_eq!(later.since(now), Duration::from_secs(60));
        assert_eq!(now.since(later), Duration::ZERO);
    }

    #[test]
    fn a_person_reads_the_local_time_and_the_day_unless_it_is_today() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let zone = chrono::FixedOffset::west_opt(5 * 3600).unwrap();
        for (time, now, second, minute) in [
            ("2026-11-16T12:24:16.123Z", "2026-11-16T23:00:00.000Z", "07:24:16", "07:24"),
            // The day is that of the zone.
            ("2026-11-17T02:24:16.000Z", "2026-11-16T23:00:00.000Z", "21:24:16", "21:24"),
            (
                "2026-11-16T02:24:16.000Z",
                "2026-11-16T23:00:00.000Z",
                "2026-11-15 21:24:16",
                "2026-11-15 21:24",
            ),
        ] {
            let shown = |precision| shown(at(time), at(now), &zone, precision);
            assert_eq!(shown(Precision::Second), second);
            assert_eq!(shown(Precision::Minute), minute);
        }
    }

    #[test]
    fn a_time_to_start_is_a_time_or_a_while_from_now_or_none() {
        assert_eq!(parse_not_before("none"), Ok(None));
        let time = "2099-01-01T07:00:00.000Z".parse().unwrap();
        assert_eq!(parse_not_before("2099-01-01T08:00:00+01:00"), Ok(Some(time)));
        let before = Timestamp::now();
        let later = parse_not_before("1h").unwrap().unwrap();
        assert!(later.since(before) >= Duration::from_secs(3600), "{later}");
        for wrong in ["", "soon", "2026-11-16", "-1h", "null"] {
            assert_eq!(parse_not_before(wrong), Err(NoStart), "{wrong:?}");
        }
    }
}
