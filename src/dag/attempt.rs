//! How an attempt on a task ended.

use super::task::names;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The task is done.
    Done,
    /// The attempt failed; whether the task did depends on its retries.
    Failed,
    /// A person must answer first.
    Blocked,
    /// The session ended without a verdict.
    Silent,
    /// A person stopped the run.
    Interrupted,
    /// The run's process died.
    Crashed,
    /// A usage limit or an overload ended it.
    Limited,
    /// A person decided the task's status while it ran.
    Overruled,
}

names!(Outcome {
    Done => "done",
    Failed => "failed",
    Blocked => "blocked",
    Silent => "silent",
    Interrupted => "interrupted",
    Crashed => "crashed",
    Limited => "limited",
    Overruled => "overruled",
});
