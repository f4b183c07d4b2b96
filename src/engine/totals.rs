//! What a run adds up, for its summary.

use crate::dag::{Outcome, Status, Task};
use crate::event::{Diff, TaskResult};

/// What a run has come to so far.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// What came of each task, in the order in which they were first worked on.
    pub results: Vec<TaskResult>,
    /// What was committed.
    pub diff: Diff,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
}

impl Totals {
    /// Takes an attempt into account.
    pub(super) fn note(
        &mut self,
        task: &Task,
        outcome: &Outcome,
        status: Status,
        reason: Option<&str>,
        cost_usd: f64,
        duration_secs: f64,
    ) {
        let known = self.results.iter_mut().find(|result| result.task == task.id);
        let result = match known {
            Some(result) => result,
            None => {
                self.results.push(TaskResult {
                    task: task.id,
                    title: task.title.clone(),
                    attempts: 0,
                    outcome: *outcome,
                    status,
                    reason: None,
                    cost_usd: 0.0,
                    duration_secs: 0.0,
                });
                self.results.last_mut().expect("it was just added")
            }
        };
        result.attempts += 1;
        result.outcome = *outcome;
        result.status = status;
        result.reason = reason.map(str::to_owned);
        result.cost_usd += cost_usd;
        result.duration_secs += duration_secs;
    }

    /// Takes commits into account.
    pub(super) fn add(&mut self, diff: Diff) {
        self.diff.commits += diff.commits;
        self.diff.files += diff.files;
        self.diff.insertions += diff.insertions;
        self.diff.deletions += diff.deletions;
    }
}
