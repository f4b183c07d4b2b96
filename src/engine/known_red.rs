//! Checks that failed before any work was done, and what counts as a new failure of them.

use std::collections::{BTreeMap, HashMap};

use super::normal::normalised;

/// Words by which a line reports a failure.
const FAILURE: [&str; 9] =
    ["fail", "error", "panic", "fatal", "exception", "assert", "not ok", "✗", "✘"];
/// Words with which a line begins or ends that reports a success, whatever the name of the test.
const SUCCESS: [&str; 5] = ["ok", "pass", "passed", "✓", "✔"];

/// The checks of a run that failed before any work was done.
#[derive(Debug, Default)]
pub(super) struct KnownRed {
    checks: HashMap<String, Red>,
}

/// How a check failed.
#[derive(Debug)]
struct Red {
    /// How it ended, in words.
    how: String,
    failures: Failures,
}

/// Lines that report failures, normalised, and how often each of them stands there: several failures
/// may read the same.
type Failures = BTreeMap<String, usize>;

impl KnownRed {
    /// Remembers that a check failed like this.
    pub(super) fn remember(&mut self, command: &str, how: &str, output: &str) {
        let red = Red { how: how.to_owned(), failures: failures(output) };
        self.checks.insert(command.to_owned(), red);
    }

    /// The failures of a check that were not there before; none if the check passed before. If it ended
    /// in another way than before, how it ended is a new failure.
    pub(super) fn new_failures(
        &self,
        command: &str,
        how: &str,
        output: &str,
    ) -> Option<Vec<String>> {
        let red = self.checks.get(command)?;
        let known = |line: &String| red.failures.get(line).copied().unwrap_or(0);
        let found = failures(output).into_iter();
        let mut new: Vec<String> =
            found.filter(|(line, count)| *count > known(line)).map(|(line, _)| line).collect();
        if red.how != how {
            new.push(format!("it {how}, and before any work it {}", red.how));
        }
        Some(new)
    }
}

/// The lines of an output that report a failure; all of its lines if none does.
fn failures(output: &str) -> Failures {
    let normal = normalised(output);
    let reports = normal.lines().any(reports_failure);
    let mut found = Failures::new();
    for line in normal.lines().filter(|line| !reports || reports_failure(line)) {
        *found.entry(line.to_owned()).or_default() += 1;
    }
    found
}

fn reports_failure(line: &str) -> bool {
    let line = line.to_lowercase();
    FAILURE.iter().any(|word| line.contains(word)) && !reports_success(&line)
}

/// Whether a line such as `test parse_error ... ok` or `✓ says why it failed` reports a success.
fn reports_success(line: &str) -> bool {
    let is_word = |word: &&str| word.contains(|c: char| c.is_alphanumeric() || "#✓✔".contains(c));
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || "[]():".contains(c))
        .filter(is_word)
        .filter(|word| *word != "#%")
        .collect();
    let ends_well = match words[..] {
        // `1 failed, 3 passed` counts, and `not ok` says the opposite.
        [.., before, last] => SUCCESS.contains(&last) && !["#", "not"].contains(&before),
        _ => false,
    };
    let begins_badly = line.starts_with(['✗', '✘']);
    !begins_badly && (ends_well || words.first().is_some_and(|first| SUCCESS.contains(first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "test a ... ok\ntest b ... FAILED\n1 failed in 0.2s\n";

    #[track_caller]
    fn check(how: &str, output: &str, expected: &[&str]) {
        let mut known = KnownRed::default();
        known.remember("make", "ended with code 1", BEFORE);
        assert_eq!(known.new_failures("make", how, output).unwrap(), expected);
    }

    #[test]
    fn only_a_failure_that_was_not_there_before_is_new() {
        let same = "ended with code 1";
        check(same, BEFORE, &[]);
        check(same, "test c ... ok\ntest b ... FAILED\n1 failed in 12 s", &[]);
        check(
            same,
            "test b ... FAILED\ntest c ... FAILED\n2 failed in 3 s",
            &["test c ... FAILED"],
        );
        check(
            same,
            "test b ... FAILED\ntest b2 ... FAILED\n2 failed in 3 s",
            &["test b2 ... FAILED"],
        );
        check(same, &format!("{BEFORE}test b ... FAILED"), &["test b ... FAILED"]);
        check(same, &format!("{BEFORE}test tells_an_error ... ok"), &[]);
        check(
            "was ended by signal 9",
            BEFORE,
            &["it was ended by signal 9, and before any work it ended with code 1"],
        );
        assert_eq!(KnownRed::default().new_failures("make", same, BEFORE), None);
    }

    #[test]
    fn where_no_line_reports_a_failure_every_line_counts() {
        let mut known = KnownRed::default();
        known.remember("make", "ended with code 1", "missing x");
        let new = |output| known.new_failures("make", "ended with code 1", output).unwrap();
        assert!(new("missing x\n").is_empty());
        assert_eq!(new("missing y"), ["missing y"]);
        assert!(new("").is_empty());
    }

    #[test]
    fn a_test_that_passes_is_no_failure_whatever_its_name() {
        for line in [
            "test parse_error ... ok",
            "test_error (tests.Parse.test_error) ... ok",
            "tests/parse.py::test_fails PASSED   [ 50%]",
            "✓ says why it failed (3 ms)",
            "ok 3 - fails without a key",
            "--- PASS: TestPanic (0.00s)",
            "[       OK ] Parser.Error (2 ms)",
            "ok  \texample.com/errors\t0.3s",
        ] {
            assert!(!reports_failure(&normalised(line)), "{line}");
        }
        for line in [
            "test parse_ok ... FAILED",
            "not ok 3 - fails without a key",
            "1 failed, 3 passed",
            "error: that is not ok",
            "✗ ok",
        ] {
            assert!(reports_failure(&normalised(line)), "{line}");
        }
    }
}
