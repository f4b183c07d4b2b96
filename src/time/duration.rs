//! Durations as people write them: `90s`, `2h30m`, `1d 12h`, or a plain number of seconds.

use std::time::Duration;

use anyhow::{Context, Result};

const UNITS: [(char, u32); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

/// Reads whole numbers of days, hours, minutes and seconds, largest unit first.
///
/// A number alone is seconds. Otherwise each has its unit, a unit is named once, and the sum is at least a
/// second.
pub fn parse_duration(text: &str) -> Result<Duration> {
    parse(text).with_context(|| {
        format!("`{text}` is not a duration such as `2h30m`, or a number of seconds")
    })
}

fn whole_seconds(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

// Summed in 32 bits, so that a clock can always add what comes out.
fn parse(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return whole_seconds(seconds);
    }
    let mut units = UNITS.iter();
    let mut total = 0_u32;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (_, seconds) = units.find(|(unit, _)| after.starts_with(*unit))?;
        total = total.checked_add(number.parse::<u32>().ok()?.checked_mul(*seconds)?)?;
        rest = after[1..].trim_start();
    }
    whole_seconds(total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse_duration(text).ok(), expected.map(Duration::from_secs), "{text:?}");
    }

    #[test]
    fn durations_are_numbers_with_units_in_falling_order() {
        check("90s", Some(90));
        check("2h30m", Some(9000));
        check("2h 30m", Some(9000));
        check(" 1d12h ", Some(129_600));
        check("1d1h1m1s", Some(90_061));
        check("0h5s", Some(5));
        check("90", Some(90));
        check(" 60 ", Some(60));
        check("4294967295s", Some(4_294_967_295));

        check("", None);
        check("0s", None);
        check("0", None);
        check("h", None);
        check("2h30", None);
        check("30m2h", None);
        check("1h1h", None);
        check("1.5h", None);
        check("-1h", None);
        check("1 h", None);
        check("1H", None);
        check("1ü", None);
        check("4294967296s", None);
        check("49711d", None);
    }

    #[test]
    fn a_wrong_duration_is_named() {
        let error = parse_duration("soon").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`soon` is not a duration such as `2h30m`, or a number of seconds"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_duration_or_is_not(text in "[0-9dhms. ü]{0,12}|.*") {
            parse_duration(&text).ok();
        }
    }
}
