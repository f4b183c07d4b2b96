//! Why an attempt ended as it did, in words: how a program is said to have failed, and which of the lines of a
//! reason tells most. A reason is stored as text, so its kind is read from the sentence it begins with.

use std::fmt;

/// How a program ended that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadEnd {
    /// With an exit code other than 0.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Because it took longer than these seconds.
    TooLong(u64),
    /// It has not ended at all.
    Never,
}

/// The sentences of `BadEnd`, up to their numbers.
const CODE: &str = "ended with code";
const SIGNAL: &str = "was ended by signal";
const TOO_LONG: &str = "took longer than";
const NEVER: &str = "could not be ended";

impl fmt::Display for BadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadEnd::Code(code) => write!(f, "{CODE} {code}"),
            BadEnd::Signal(signal) => write!(f, "{SIGNAL} {signal}"),
            BadEnd::TooLong(seconds) => write!(f, "{TOO_LONG} {seconds} s"),
            BadEnd::Never => f.write_str(NEVER),
        }
    }
}

/// Says how a command ended, and below it the last lines it printed, if it printed any.
pub fn failed_command(command: &str, how: &str, tail: &str) -> String {
    let separator = if tail.is_empty() { "" } else { ":\n" };
    format!("`{command}` {how}{separator}{tail}")
}

/// Says how the process of a session ended, as an addition to what is said of the session, and below it the
/// last lines of its stderr.
pub fn failed_session(end: Option<BadEnd>, stderr: Option<&str>) -> String {
    let exit = match end {
        Some(BadEnd::Code(code)) => format!("{EXIT_CODE}{code})"),
        Some(BadEnd::Signal(signal)) => format!("{EXIT_SIGNAL}{signal})"),
        Some(BadEnd::TooLong(_) | BadEnd::Never) | None => String::new(),
    };
    let stderr = stderr.map_or(String::new(), |it| format!("\n{it}"));
    exit + &stderr
}

const EXIT_CODE: &str = " (exit code ";
const EXIT_SIGNAL: &str = " (signal ";

/// Where the words of a reason come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonKind {
    /// An agent, a person or ralph wrote them. They say first what matters most.
    Words,
    /// A program printed them, and ralph said above them how it ended. The last line says what went wrong.
    Output,
}

impl ReasonKind {
    /// The kind of this reason.
    pub fn of(reason: &str) -> ReasonKind {
        if is_of_command(reason) || is_of_session(reason) {
            ReasonKind::Output
        } else {
            ReasonKind::Words
        }
    }
}

/// The line of a reason that tells most. A first line that only introduces what follows is joined with it.
pub fn one_line(reason: &str) -> String {
    let mut telling = reason.lines().filter(|line| line.contains(char::is_alphanumeric));
    let line = match ReasonKind::of(reason) {
        ReasonKind::Output => telling.next_back().map(str::to_owned),
        ReasonKind::Words => telling.next().map(|first| match telling.next() {
            Some(second) if first.trim_end().ends_with(':') => format!("{first} {second}"),
            Some(_) | None => first.to_owned(),
        }),
    };
    line.unwrap_or_else(|| reason.to_owned())
}

/// Whether `failed_command` has written it, with an output.
fn is_of_command(reason: &str) -> bool {
    let introduces = |ending: &str| {
        let sentence = reason.split_once(&format!("` {ending}"));
        let rest = sentence.and_then(|(_, rest)| rest.lines().next());
        rest.is_some_and(|rest| rest.ends_with(':'))
    };
    reason.starts_with('`') && [CODE, SIGNAL, TOO_LONG, NEVER].into_iter().any(introduces)
}

/// Whether `failed_session` has written the end of it, with a stderr.
fn is_of_session(reason: &str) -> bool {
    reason.split_once('\n').is_some_and(|(first, _)| {
        let number = first.strip_suffix(')').unwrap_or_default();
        [EXIT_CODE, EXIT_SIGNAL].into_iter().any(|exit| {
            let number = number.rsplit_once(exit).map(|(_, number)| number);
            number.is_some_and(|number| number.parse::<i32>().is_ok())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_printed_nothing_is_told_in_a_line() {
        assert_eq!(failed_command("make", "ended with code 1", ""), "`make` ended with code 1");
        let told = failed_command("make", "ended with code 1", "one\ntwo");
        assert_eq!(told, "`make` ended with code 1:\none\ntwo");
    }

    #[test]
    fn what_a_program_printed_is_told_by_its_last_line_that_says_something() {
        let output =
            "Traceback (most recent call last):\n  File \"<runpy>\", line 198\nImportError: x\n\n";
        for end in [BadEnd::Code(1), BadEnd::Signal(9), BadEnd::TooLong(60), BadEnd::Never] {
            for command in ["python -m unittest", "cd a\nmake"] {
                let reason = failed_command(command, &end.to_string(), output);
                assert_eq!(one_line(&reason), "ImportError: x", "{reason}");
            }
        }
        for end in [BadEnd::Code(1), BadEnd::Signal(9)] {
            let end = failed_session(Some(end), Some(output));
            assert_eq!(one_line(&format!("it has no result{end}")), "ImportError: x", "{end}");
        }
        let reason = failed_command("make", "ended with code 1", "  a \tb\n```\n---\n");
        assert_eq!(one_line(&reason), "  a \tb");
    }

    #[test]
    fn words_are_told_by_their_first_line_that_says_something() {
        #[track_caller]
        fn check(reason: &str, expected: &str) {
            assert_eq!(one_line(reason), expected);
        }
        check("there is no test", "there is no test");
        check("\n---\nPAY_KEY is not set.\n\nI tried it twice.\n", "PAY_KEY is not set.");
        check("it fails:\n```\n  a b\n```\n", "it fails:   a b");
        check("`make` fails for me:\nsee above\nor below", "`make` fails for me: see above");
        check("`make` ended with code 1\nso I stopped", "`make` ended with code 1");
        check("it has no result (exit code 3)", "it has no result (exit code 3)");
        check("two things are missing (see 1)\nthe second", "two things are missing (see 1)");
        check("東京\n…\n", "東京");
        check("?!\n...", "?!\n...");
        check("", "");
    }
}
