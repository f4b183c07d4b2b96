//! What is to be expected when nothing can be claimed: the end, or that others make something ready.

use anyhow::Result;

use super::RunEnd;
use crate::dag::{Kind, Snapshot, State, TaskId};
use crate::store::{Store, Target};
use crate::time::Timestamp;

/// What is to be expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Nothing.
    End(RunEnd),
    /// That something becomes ready.
    Wait {
        /// At this time, if that is known.
        until: Option<Timestamp>,
        /// Why.
        reason: &'static str,
    },
}

/// What is to be expected of a target in which nothing can be claimed.
pub(super) fn outlook(store: &Store, target: &Target, now: Timestamp) -> Result<Outlook> {
    let snapshot = store.snapshot(now)?;
    let tasks = match target {
        Target::Everything => (0..snapshot.tasks.len()).collect(),
        Target::Feature { id, .. } => {
            let is_its = |&task: &usize| snapshot.tasks[task].feature == Some(*id);
            (0..snapshot.tasks.len()).filter(is_its).collect()
        }
        Target::Task(id) => {
            let found = snapshot.tasks.iter().position(|task| task.id == *id);
            found.map_or_else(Vec::new, |task| snapshot.inside(task))
        }
    };
    Ok(expect(&snapshot, tasks))
}

fn expect(snapshot: &Snapshot, mut work: Vec<usize>) -> Outlook {
    work.retain(|&task| snapshot.kind(task) == Kind::Work);
    if work.is_empty() {
        return Outlook::End(RunEnd::Empty);
    }
    let is = |task: usize, state: State| snapshot.state(task) == state;
    let left: Vec<usize> = work
        .iter()
        .copied()
        .filter(|&task| !is(task, State::Done) && !is(task, State::Failed))
        .collect();
    if left.is_empty() {
        let failed = work.iter().any(|&task| is(task, State::Failed));
        return Outlook::End(if failed { RunEnd::Failed } else { RunEnd::Done });
    }
    let is_claimed = |task: usize| snapshot.graph.nodes()[task].claimed;
    let can_go_on = left.iter().any(|&task| snapshot.derived.can_finish[task]);
    if can_go_on && (0..snapshot.tasks.len()).any(is_claimed) {
        return Outlook::Wait { until: None, reason: "what is left waits for another run" };
    }
    let due = |&task: &usize| {
        snapshot.tasks[task].not_before.filter(|_| snapshot.graph.nodes()[task].deferred)
    };
    if let Some(until) = left.iter().filter_map(due).min() {
        return Outlook::Wait { until: Some(until), reason: "what is left is not due yet" };
    }
    Outlook::End(RunEnd::Stuck(behind(snapshot, &left)))
}

/// The tasks that hold back the others: those that failed, wait for a person, are not in the target, or
/// are groups that nobody has put anything into.
fn behind(snapshot: &Snapshot, left: &[usize]) -> Vec<TaskId> {
    let mut found: Vec<usize> = Vec::new();
    let mut ahead: Vec<usize> = left.to_vec();
    let mut seen = vec![false; snapshot.tasks.len()];
    while let Some(task) = ahead.pop() {
        if std::mem::replace(&mut seen[task], true) {
            continue;
        }
        match snapshot.state(task) {
            State::Failed | State::Blocked | State::Ready => found.push(task),
            State::Done => {}
            State::Waiting | State::InProgress => {
                let is_empty = snapshot.graph.children(task).next().is_none();
                if is_empty && snapshot.kind(task) == Kind::Group {
                    found.push(task);
                }
                ahead.extend(snapshot.graph.waiting_on(task, &snapshot.derived));
                ahead.extend(snapshot.graph.children(task));
            }
        }
    }
    // What is inside a failed group is the reason, not the group.
    let is_cause =
        |&task: &usize| snapshot.kind(task) == Kind::Work || snapshot.state(task) != State::Failed;
    let mut groups: Vec<usize> = found.iter().copied().filter(|task| !is_cause(task)).collect();
    found.retain(is_cause);
    while let Some(group) = groups.pop() {
        for child in snapshot.graph.children(group) {
            match snapshot.state(child) {
                State::Failed | State::Blocked if snapshot.kind(child) == Kind::Work => {
                    found.push(child);
                }
                State::Failed => groups.push(child),
                _ => {}
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|task| snapshot.tasks[task].id).collect()
}
