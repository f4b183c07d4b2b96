//! The exit codes, each with the sentence that `--help` prints.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// Something went wrong.
    Error,
    /// The command line makes no sense, or there is no terminal to ask on.
    Usage,
    /// A limit was reached.
    Limit,
    /// Nothing can go on.
    Stuck,
    /// A person stopped it.
    Interrupted,
}

impl Exit {
    /// The number a shell sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Limit => 3,
            Exit::Stuck => 4,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The table at the end of `ralph --help`.
pub(super) const TABLE: &str = "Exit codes:
    0  done: everything asked for is done
    1  error, or the run ended with failed tasks
    2  usage error, or confirmation needed but no terminal to ask on
    3  a limit was reached: iterations, time or cost
    4  stuck: the remaining tasks can't become ready, or there are no tasks
  130  interrupted: by a signal or .ralph-done, or the reader of a run's output is gone";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_help_has_every_code() {
        use Exit::{Done, Error, Interrupted, Limit, Stuck, Usage};
        let codes: Vec<u8> = TABLE
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(codes, [Done, Error, Usage, Limit, Stuck, Interrupted].map(Exit::code));
    }
}
