//! What the agent of an attempt is told.

use super::Engine;
use crate::dag::TaskId;
use crate::prompt::brief::{Blocker, Brief};
use crate::prompt::document::{DOCUMENT_LIMIT, has_text, read};
use crate::prompt::{Prompt, Values, skills};
use crate::store::Surroundings;
use anyhow::Result;

impl Engine<'_> {
    /// How an agent is told to work.
    pub(super) fn instructions(&self, task: TaskId) -> Result<String> {
        let prompts = &self.plan.places.prompts;
        let id = task.to_string();
        let learn = match self.plan.learn {
            true => Prompt::Learn.render(prompts, &Values::from([("id", id.as_str())]))?,
            false => String::new(),
        };
        Prompt::Work.render(prompts, &Values::from([("id", id.as_str()), ("learn", &learn)]))
    }

    /// What an agent is told of its task.
    pub(super) fn brief(&self, around: &Surroundings, attempt: u32) -> String {
        let document = |path: &Option<String>| {
            let path = path.as_deref()?;
            let file = self.plan.places.root.join(path);
            has_text(&file).then(|| (path.to_owned(), read(&file, DOCUMENT_LIMIT)))
        };
        let feature = around.feature.as_ref();
        let last = around.attempts.iter().rev().find(|it| it.outcome.is_some());
        let salvage = self.git.as_ref().zip(last).and_then(|(git, last)| git.salvaged(last.id));
        let retries = around.task.max_retries.unwrap_or(self.plan.max_retries);
        Brief {
            task: &around.task,
            parents: &around.parents,
            blockers: around
                .blockers
                .iter()
                .map(|it| Blocker { id: it.id, title: &it.title, summary: &it.summary })
                .collect(),
            attempts: &around.attempts,
            log: &around.log,
            attempt: (attempt, attempt.max(attempt + retries - around.task.retries.min(retries))),
            salvage,
            spec: feature.and_then(|it| document(&it.spec_path)),
            plan: feature.and_then(|it| document(&it.plan_path)),
            skills: skills::find(&self.plan.places.skills),
        }
        .into_text()
    }
}
