//! How much of the work is done: by group, and as a bar.

use std::ops::AddAssign;

use owo_colors::Style;

use super::line::Line;
use crate::dag::{Kind, Snapshot, State};

/// How many columns a bar has where there is room.
const BAR: usize = 40;

/// Work tasks, and how many of them are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) done: usize,
    pub(super) total: usize,
}

impl Progress {
    /// Of these tasks, groups not counted.
    pub(super) fn of(snapshot: &Snapshot, tasks: impl Iterator<Item = usize>) -> Progress {
        let mut progress = Progress::default();
        for task in tasks.filter(|&task| snapshot.kind(task) == Kind::Work) {
            progress.total += 1;
            progress.done += usize::from(snapshot.state(task) == State::Done);
        }
        progress
    }

    /// Of everything inside each of `roots` and their descendants, by task.
    pub(super) fn inside(snapshot: &Snapshot, roots: &[usize]) -> Vec<Progress> {
        let mut found = roots.to_vec();
        let mut next = 0;
        while let Some(&task) = found.get(next) {
            found.extend(snapshot.graph.children(task));
            next += 1;
        }
        let mut inside = vec![Progress::default(); snapshot.tasks.len()];
        // Children were found after their parents.
        for &task in found.iter().rev() {
            let Some(parent) = snapshot.parent(task) else { continue };
            let deeper = inside[task];
            inside[parent] += deeper;
            inside[parent] += Progress::of(snapshot, std::iter::once(task));
        }
        inside
    }

    /// Such as `3/7`.
    pub(super) fn fraction(self) -> String {
        format!("{}/{}", self.done, self.total)
    }

    /// Puts a bar and the numbers into the line.
    pub(super) fn draw(self, line: &mut Line) {
        let percent = (self.done * 100).checked_div(self.total).unwrap_or(0);
        let words = format!("{} done  {percent}%", self.fraction());
        let length = BAR.min(line.room().saturating_sub(words.len() + 2));
        let filled = (self.done * length).checked_div(self.total).unwrap_or(0);
        line.push(&"█".repeat(filled), Style::new().green())
            .push(&"░".repeat(length - filled), Style::new().dimmed())
            .skip(if length > 0 { 2 } else { 0 })
            .plain(&words);
    }
}

impl AddAssign for Progress {
    fn add_assign(&mut self, other: Progress) {
        self.done += other.done;
        self.total += other.total;
    }
}
