//! What to do about a prompt that is too long for the model: tell less, then take another model, then
//! give up. It is never sent again as it is.

use std::collections::HashMap;

use super::model::Strategy;
use crate::dag::TaskId;

/// A model that can't read this many tokens is not helped by fewer.
const LEAST: usize = 4_000;

/// The tasks whose prompts were too long, and what was tried.
#[derive(Debug, Default)]
pub(super) struct Shorter {
    tasks: HashMap<TaskId, Tried>,
}

#[derive(Debug, Default)]
struct Tried {
    /// How many tokens the next prompt may have.
    room: Option<usize>,
    /// The models that could not read it.
    models: Vec<String>,
    /// The model that is to read it next.
    next: Option<&'static str>,
}

/// What to try next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// A prompt of so many tokens.
    Cut(usize),
    /// Another model.
    Model(&'static str),
    /// There is nothing left.
    Nothing,
}

impl Shorter {
    /// How many tokens the prompt of a task may have, if it was too long.
    pub(super) fn room(&self, task: TaskId) -> Option<usize> {
        self.tasks.get(&task)?.room
    }

    /// The model that is to read the prompt of a task, if it was too long for others.
    pub(super) fn model(&self, task: TaskId) -> Option<&'static str> {
        self.tasks.get(&task)?.next
    }

    /// A prompt of so many tokens was too long for this model.
    pub(super) fn refused(
        &mut self,
        task: TaskId,
        prompt: usize,
        model: &str,
        strategy: &Strategy,
    ) -> Next {
        let tried = self.tasks.entry(task).or_default();
        if prompt / 2 >= LEAST {
            tried.room = Some(prompt / 2);
            return Next::Cut(prompt / 2);
        }
        tried.models.push(model.to_owned());
        tried.next = strategy.another(&tried.models);
        match tried.next {
            Some(model) => Next::Model(model),
            None => {
                // If the task is tried again, it may have been made shorter.
                self.tasks.remove(&task);
                Next::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_cut_then_another_model_reads_it_then_nothing_is_left() {
        let task = "t-3f9a01".parse().unwrap();
        let mut shorter = Shorter::default();
        let strategy = Strategy::CostOptimized;
        assert_eq!(shorter.room(task), None);
        assert_eq!(shorter.refused(task, 25_000, "sonnet", &strategy), Next::Cut(12_500));
        assert_eq!(shorter.room(task), Some(12_500));
        assert_eq!(shorter.refused(task, 12_000, "sonnet", &strategy), Next::Cut(6_000));
        assert_eq!(shorter.refused(task, 6_000, "sonnet", &strategy), Next::Model("opus"));
        assert_eq!((shorter.room(task), shorter.model(task)), (Some(6_000), Some("opus")));
        assert_eq!(shorter.refused(task, 6_000, "opus", &strategy), Next::Model("haiku"));
        assert_eq!(shorter.refused(task, 6_000, "haiku", &strategy), Next::Nothing);
        assert_eq!((shorter.room(task), shorter.model(task)), (None, None));
    }

    #[test]
    fn a_model_that_is_fixed_stays() {
        let task = "t-3f9a01".parse().unwrap();
        let fixed = Strategy::Fixed("opus".into());
        assert_eq!(Shorter::default().refused(task, 500, "opus", &fixed), Next::Nothing);
    }
}
