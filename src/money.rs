//! Amounts of money, in dollars.

/// Digits behind the point that are kept: less than a token costs.
const UNITS: f64 = 1e6;

/// The amount without the noise that adding up leaves behind: `0.2234`, not `0.22340000000000002`.
pub(crate) fn rounded(dollars: f64) -> f64 {
    let rounded = (dollars * UNITS).round() / UNITS;
    // An amount that is too large to be counted in units is left as it is.
    if rounded.is_finite() { rounded } else { dollars }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_has_no_more_digits_than_it_needs() {
        for (amount, expected) in [
            (0.1 + 0.1234, "0.2234"),
            (0.1 + 0.2, "0.3"),
            (0.000_000_4, "0.0"),
            (0.001_6, "0.0016"),
            (12.567_891_2, "12.567891"),
        ] {
            assert_eq!(serde_json::to_string(&rounded(amount)).unwrap(), expected);
        }
        assert_eq!(rounded(f64::MAX), f64::MAX);
    }
}
