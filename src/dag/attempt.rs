//! One try at one task, and how it ended.

use serde::{Deserialize, Serialize};

use super::bill::Billing;
use super::id::{AttemptId, RunId, TaskId};
use super::task::{Status, names};
use crate::time::Timestamp;

/// One try at one task. The names of its fields are those of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "the fields are the columns of the table, which says what they are"
)]
pub struct Attempt {
    pub id: AttemptId,
    pub task: TaskId,
    pub number: u32,
    pub run: Option<RunId>,
    pub model: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub cost_usd: Option<f64>,
    pub input_tokens: Option<i64>,
    #[serde(default)]
    pub cache_read_tokens: Option<i64>,
    #[serde(default)]
    pub cache_write_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    #[serde(default)]
    pub billing: Option<Billing>,
    pub turns: Option<i64>,
    pub log_path: Option<String>,
    pub session_id: Option<String>,
    pub head_before: Option<String>,
    pub head_after: Option<String>,
    #[serde(default)]
    pub verification_status: Option<Verification>,
    #[serde(default)]
    pub verify_log_path: Option<String>,
}

/// Whether what was said to be done was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// It was, and it is done.
    Passed,
    /// It was, and it is not.
    Failed,
    /// Nobody was to check it.
    Skipped,
}

names!(Verification { Passed => "passed", Failed => "failed", Skipped => "skipped" });

/// What an agent asks for its own task; the run decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// That it counts as done.
    Done,
    /// That it counts as failed.
    Failed,
    /// That a person answers a question.
    Blocked,
}

names!(Ask { Done => "done", Failed => "failed", Blocked => "blocked" });

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

impl Outcome {
    /// What becomes of a task after an attempt on it: its status, and the retries it has used. N
    /// retries are N + 1 attempts; what is not the task's fault costs none.
    pub fn settle(self, retries: u32, max_retries: u32) -> (Status, u32) {
        match self {
            Outcome::Done => (Status::Done, retries),
            Outcome::Blocked => (Status::Blocked, retries),
            Outcome::Failed | Outcome::Silent if retries < max_retries => {
                (Status::Pending, retries + 1)
            }
            Outcome::Failed | Outcome::Silent => (Status::Failed, retries),
            Outcome::Interrupted | Outcome::Crashed | Outcome::Limited | Outcome::Overruled => {
                (Status::Pending, retries)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_retries_are_n_plus_one_attempts() {
        for (max_retries, attempts) in [(0, 1), (1, 2), (3, 4)] {
            let (mut retries, mut made) = (0, 0);
            loop {
                made += 1;
                let (status, used) = Outcome::Failed.settle(retries, max_retries);
                retries = used;
                if status == Status::Failed {
                    break;
                }
            }
            assert_eq!(made, attempts);
        }
    }

    #[test]
    fn what_is_not_the_tasks_fault_costs_no_retry() {
        for outcome in [Outcome::Interrupted, Outcome::Crashed, Outcome::Limited] {
            assert_eq!(outcome.settle(2, 2), (Status::Pending, 2));
        }
    }
}
