//! What a run adds up, for its summary.

use super::decision::Decision;
use super::iteration::Iteration;
use crate::dag::{Bill, Outcome, Status, Task, TaskId};
use crate::event::{Diff, TaskResult};

/// What a run has come to so far.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// What came of each task, in the order in which they were first worked on.
    pub results: Vec<TaskResult>,
    /// What was committed.
    pub diff: Diff,
    /// What its sessions have used.
    pub bill: Bill,
}

impl Totals {
    /// Takes an iteration into account; one without status was on a task that is deleted by now.
    pub(super) fn note(
        &mut self,
        task: &Task,
        decision: &Decision,
        status: Option<Status>,
        iteration: &Iteration,
    ) {
        self.bill.add(&iteration.bill);
        let Some(status) = status else { return };
        let known = self.results.iter().position(|result| result.task == task.id);
        let index = known.unwrap_or(self.results.len());
        if known.is_none() {
            self.results.push(TaskResult {
                task: task.id,
                title: task.title.clone(),
                attempts: 0,
                outcome: decision.outcome,
                status,
                reason: None,
                bill: Bill::default(),
                duration_secs: 0.0,
            });
        }
        let result = &mut self.results[index];
        result.attempts += 1;
        result.outcome = decision.outcome;
        result.status = status;
        result.reason.clone_from(&decision.reason);
        result.bill.add(&iteration.bill);
        result.duration_secs += iteration.began.elapsed().as_secs_f64();
    }

    /// The attempts on a task were not its fault: it is pending, whatever was said of it before.
    pub(super) fn excuse(&mut self, task: TaskId, reason: &str) {
        for result in self.results.iter_mut().filter(|result| result.task == task) {
            result.outcome = Outcome::Interrupted;
            result.status = Status::Pending;
            result.reason = Some(reason.to_owned());
        }
    }

    /// Takes commits into account.
    pub(super) fn add(&mut self, diff: Diff) {
        self.diff.commits += diff.commits;
        self.diff.files += diff.files;
        self.diff.insertions += diff.insertions;
        self.diff.deletions += diff.deletions;
    }
}
