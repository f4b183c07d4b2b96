//! Checks that failed before any work was done, and what counts as a new failure of them.

use std::collections::{BTreeSet, HashMap};

use super::normal::normalised;

/// Words by which a line reports a failure.
const FAILURE: [&str; 9] =
    ["fail", "error", "panic", "fatal", "exception", "assert", "not ok", "✗", "✘"];

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
    failures: BTreeSet<String>,
}

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
        let found = failures(output);
        let mut new: Vec<String> = found.difference(&red.failures).cloned().collect();
        if red.how != how {
            new.push(format!("it {how}, and before any work it {}", red.how));
        }
        Some(new)
    }
}

/// The lines of an output that report a failure, normalised; all of its lines if none does.
fn failures(output: &str) -> BTreeSet<String> {
    let normal = normalised(output);
    let reports = |line: &&str| {
        let line = line.to_lowercase();
        FAILURE.iter().any(|word| line.contains(word))
    };
    let found: BTreeSet<String> = normal.lines().filter(reports).map(str::to_owned).collect();
    if found.is_empty() { normal.lines().map(str::to_owned).collect() } else { found }
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
        let more = "test b ... FAILED\ntest c ... FAILED\n2 failed in 0.3s";
        check(same, more, &["test c ... FAILED"]);
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
}
