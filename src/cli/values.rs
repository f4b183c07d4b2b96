//! The values of flags that are numbers, times or amounts. What is wrong with one is said with an example of a right
//! one; the parser of the command line says which value it was, and of which flag.

use crate::time::parse_duration;

/// A number of things: 0, 1, 2 and so on.
pub(super) fn count(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "it must be a whole number from 0 to 4294967295, such as 5")
}

/// Which of several things: 1, 2, 3 and so on.
pub(super) fn ordinal(text: &str) -> Result<u32, &'static str> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or("it must be a whole number from 1, such as 2")
}

/// A number that may be negative.
pub(super) fn priority(text: &str) -> Result<i32, &'static str> {
    text.parse().map_err(|_| "it must be a whole number, such as 10 or -1; lower comes first")
}

/// A number of seconds.
pub(super) fn seconds(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "it must be a whole number of seconds, such as 90; 0 means never")
}

/// An amount of money.
pub(super) fn usd(text: &str) -> Result<f64, &'static str> {
    let amount = text.trim().trim_start_matches('$').parse::<f64>().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount > 0.0)
        .ok_or("it must be an amount in USD above 0, such as 5 or 2.50")
}

/// How long something may take, in the words of the person.
pub(super) fn duration(text: &str) -> Result<String, &'static str> {
    match parse_duration(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("it must be a time above 0, such as 2h30m or 90s, or a number of seconds"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::args::Cli;

    #[test]
    fn a_wrong_number_is_named_with_its_flag_and_an_example_of_a_right_one() {
        let whole = "it must be a whole number from 0 to 4294967295, such as 5";
        let seconds = "it must be a whole number of seconds, such as 90; 0 means never";
        let usd = "it must be an amount in USD above 0, such as 5 or 2.50";
        let time = "it must be a time above 0, such as 2h30m or 90s, or a number of seconds";
        let any = "it must be a whole number, such as 10 or -1; lower comes first";
        let retries = "it must be a whole number from 0, such as 3, or `default`";
        for (arguments, flag, values, wrong) in [
            ("run --limit", "--limit <N>", &["x", "-1", "1.5", "99999999999"][..], whole),
            ("run --max-retries", "--max-retries <N>", &["x", "-1"], whole),
            ("run --max-cost", "--max-cost <USD>", &["x", "-1", "0", "nan", "inf"], usd),
            ("run --max-time", "--max-time <TIME>", &["x", "-5", "5x", "0"], time),
            ("run --idle-timeout", "--idle-timeout <SECONDS>", &["x", "-1", "1.5"], seconds),
            ("loop --max-iterations", "--max-iterations <N>", &["x", "-3"], whole),
            ("loop --max-cost", "--max-cost <USD>", &["x"], usd),
            ("loop --max-time", "--max-time <TIME>", &["x"], time),
            ("logs -n", "--limit <N>", &["x", "-1"], whole),
            (
                "logs t-1",
                "[NUMBER]",
                &["x", "-1", "0"],
                "it must be a whole number from 1, such as 2",
            ),
            ("task add T --priority", "--priority <N>", &["high", "99999999999"], any),
            ("task add T --max-retries", "--max-retries <N>", &["x", "-1"], whole),
            ("task update t-1 --priority", "--priority <N>", &["high"], any),
            ("task update t-1 --max-retries", "--max-retries <N|default>", &["x", "-1"], retries),
        ] {
            for value in values {
                let words = ["ralph"].into_iter().chain(arguments.split(' ')).chain([*value]);
                let error = Cli::try_parse_from(words).unwrap_err().to_string();
                let expected = format!("error: invalid value '{value}' for '{flag}': {wrong}\n");
                assert!(error.starts_with(&expected), "{error}");
            }
        }
    }

    #[test]
    fn a_right_number_is_taken() {
        for line in [
            "run --limit 0 --max-retries 3 --max-cost $2.50 --max-time 90 --idle-timeout 0",
            "loop --max-iterations 5 --max-cost 5 --max-time 2h30m",
            "logs t-1 2",
            "task add T --priority -1 --max-retries 0",
        ] {
            Cli::try_parse_from(["ralph"].into_iter().chain(line.split(' '))).unwrap();
        }
    }
}
