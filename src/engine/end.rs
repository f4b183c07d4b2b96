//! How a run or a loop ends.

use std::fmt;

use super::breaker::Common;
use super::helm::Break;
use super::sentinels::DONE;
use super::stop::Reached;
use crate::agent::Trouble;
use crate::dag::TaskId;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// Everything in the target is done.
    Done,
    /// Everything is done or has failed.
    Failed,
    /// The agent, its plan or a file says that the loop is complete.
    Signalled(String),
    /// A bound was reached.
    Limit(Reached),
    /// What is left waits for these, which can't get done by themselves.
    Stuck(Vec<TaskId>),
    /// There is nothing to do at all.
    Empty,
    /// A person ended it.
    Interrupted,
    /// This file asked for it.
    Stopped(String),
    /// The agent said that it must stop.
    Failure,
    /// The API refuses, and waiting would not help.
    Refused(Trouble),
    /// A check fails before any work was done.
    RedBaseline {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
    },
    /// Sessions or checks fail for a reason that has nothing to do with the tasks.
    Breaker(Common),
    /// The reader of its output went away before it was over.
    Unheard,
}

impl RunEnd {
    /// It in a word, as it is recorded.
    pub fn name(&self) -> &'static str {
        match self {
            RunEnd::Done | RunEnd::Signalled(_) => "done",
            RunEnd::Failed => "failed",
            RunEnd::Limit(_) => "limit",
            RunEnd::Stuck(_) => "stuck",
            RunEnd::Empty => "empty",
            RunEnd::Interrupted => "interrupted",
            RunEnd::Stopped(_) => "stopped",
            RunEnd::Failure => "failure",
            RunEnd::Refused(_) => "refused",
            RunEnd::RedBaseline { .. } => "baseline",
            RunEnd::Breaker(_) => "breaker",
            RunEnd::Unheard => "unheard",
        }
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunEnd::Done => f.write_str("everything is done"),
            RunEnd::Signalled(how) => write!(f, "the loop is complete: {how}"),
            RunEnd::Failed => f.write_str("some tasks failed for good"),
            RunEnd::Limit(reached) => {
                write!(f, "the limit on {} was reached", reached.name())
            }
            RunEnd::Stuck(behind) => {
                let ids: Vec<String> = behind.iter().take(5).map(TaskId::to_string).collect();
                let more = if behind.len() > ids.len() { ", …" } else { "" };
                write!(f, "nothing can go on: what is left waits for {}{more}", ids.join(", "))
            }
            RunEnd::Empty => f.write_str("there are no tasks"),
            RunEnd::Interrupted => f.write_str("interrupted"),
            RunEnd::Stopped(file) => write!(f, "stopped on request: `{file}` was made"),
            RunEnd::Failure => f.write_str("the agent said that the run must stop"),
            RunEnd::Refused(trouble) => write!(f, "{trouble}"),
            RunEnd::RedBaseline { command, how } => write!(
                f,
                "`{command}` {how} before any work was done: fix it, or go on with --no-baseline or \
                 `verify.baseline = \"known-red\"`"
            ),
            RunEnd::Breaker(common) => write!(f, "{common}"),
            RunEnd::Unheard => f.write_str("the reader of the output is gone"),
        }
    }
}

impl From<Break> for RunEnd {
    fn from(reason: Break) -> RunEnd {
        match reason {
            Break::Interrupted => RunEnd::Interrupted,
            Break::OutOfTime => RunEnd::Limit(Reached::Time),
            Break::Asked => RunEnd::Stopped(DONE.to_owned()),
        }
    }
}
