//! What the agents of an attempt are told: the one that works, and the one that verifies.

use super::Engine;
use super::git::Git;
use super::order::Facts;
use super::plan::Baseline;
use crate::agent::defused;
use crate::agent::sandbox::Stance;
use crate::prompt::brief::{Blocker, Brief, Salvage, Tree};
use crate::prompt::common::{Checks, Common, Paper};
use crate::prompt::document::{DOCUMENT_LIMIT, has_text, read};
use crate::prompt::review::{Check, Review, Work};
use crate::prompt::room::{ROOM, tokens};
use crate::prompt::{Prompt, Values, skills};
use crate::store::Surroundings;
use anyhow::{Context, Result};

/// What an agent is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    /// What is the same for all tasks of the feature; it becomes the end of the system prompt.
    pub(super) system: String,
    /// What is about this task alone.
    pub(super) message: String,
}

impl Told {
    /// About how many tokens it has.
    pub(super) fn tokens(&self) -> usize {
        tokens(&self.system) + tokens(&self.message)
    }
}

impl Engine<'_> {
    /// What the agent that works on a task is told, where the working tree is like this.
    pub(super) fn told(
        &self,
        around: &Surroundings,
        attempt: u32,
        tree: Option<&Facts>,
    ) -> Result<Told> {
        let room = self.room(around);
        let system = self.instructions(around, room)?;
        let tree = self.git.as_ref().zip(tree).map(|(git, facts)| described(git, facts));
        let room = room.saturating_sub(tokens(&system));
        let message = self.brief(around, attempt, tree.transpose()?, room);
        Ok(Told { system, message: defused(&message) })
    }

    /// What the agent that verifies the work on a task is told. Its tools differ from those of the agent that
    /// works, and the tools come first in what the vendor caches: only verifiers have a beginning in common.
    pub(super) fn told_to_verify(
        &self,
        around: &Surroundings,
        before: Option<&str>,
        checks: &[Check],
        claim: &str,
    ) -> Result<Told> {
        let id = around.task.id.to_string();
        let instructions = Prompt::Verify
            .render(&self.plan.places.prompts, &Values::from([("id", id.as_str())]))?;
        let common = Common {
            instructions,
            checks: None,
            sandbox: self.plan.agent.cage.explain(Stance::OnlyLooking),
            spec: self.paper(around, Document::Spec),
            plan: self.paper(around, Document::Plan),
            skills: Vec::new(),
        };
        let room = self.room(around);
        let system = common.into_text(room);
        let review = Review {
            task: &around.task,
            parents: &around.parents,
            attempts: &around.attempts,
            log: &around.log,
            work: self.git.as_ref().map(|git| self.work_since(git, before)),
            checks,
            claim,
        };
        let message = review.into_text(room.saturating_sub(tokens(&system)));
        Ok(Told { system, message: defused(&message) })
    }

    /// How many tokens the prompt of a session on this task may have.
    fn room(&self, around: &Surroundings) -> usize {
        self.shorter.room(around.task.id).unwrap_or(ROOM).min(ROOM)
    }

    /// How an agent is told to work: the same for all tasks of a feature.
    fn instructions(&self, around: &Surroundings, room: usize) -> Result<String> {
        let prompts = &self.plan.places.prompts;
        // For prompts of a project's own that name the task.
        let id = around.task.id.to_string();
        let learn = match self.plan.learn {
            true => Prompt::Learn.render(prompts, &Values::from([("id", id.as_str())]))?,
            false => String::new(),
        };
        let values = Values::from([("id", id.as_str()), ("learn", &learn)]);
        let verify = &self.plan.verify;
        let common = Common {
            instructions: Prompt::Work.render(prompts, &values)?,
            checks: Some(Checks {
                commands: verify.commands.clone(),
                known_red: verify.baseline == Baseline::KnownRed,
                agent: verify.agent,
            }),
            sandbox: self.plan.agent.cage.explain(Stance::Working),
            spec: self.paper(around, Document::Spec),
            plan: self.paper(around, Document::Plan),
            skills: skills::find(&self.plan.places.skills),
        };
        Ok(common.into_text(room))
    }

    /// What an agent is told of its task.
    fn brief(
        &self,
        around: &Surroundings,
        attempt: u32,
        tree: Option<Tree>,
        room: usize,
    ) -> String {
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
            salvages: self.salvages_of(around),
            tree,
        }
        .into_text(room)
    }

    /// What the attempts on a task have left behind.
    fn salvages_of(&self, around: &Surroundings) -> Vec<Salvage> {
        let Some(git) = &self.git else { return Vec::new() };
        let ended = around.attempts.iter().filter(|it| it.outcome.is_some());
        let salvage = |attempt: &crate::dag::Attempt| {
            let reference = git.salvaged(attempt.id.into())?;
            Some(Salvage { attempt: attempt.number, reference })
        };
        ended.filter_map(salvage).collect()
    }

    fn work_since(&self, git: &Git, before: Option<&str>) -> Work {
        let lines = |text: Option<String>| -> Vec<String> {
            text.unwrap_or_default().lines().map(str::to_owned).collect()
        };
        let range = before.map_or("HEAD".to_owned(), |before| format!("{before}..HEAD"));
        let commits = lines(git.output(["log", "--reverse", "--format=%h %s", &range]));
        let files = before
            .filter(|_| !commits.is_empty())
            .and_then(|before| git.output(["diff", "--name-only", "-z", before, "HEAD"]));
        let short = |commit: &str| git.output(["rev-parse", "--short", commit]);
        Work {
            before: before.and_then(short),
            commits,
            files: files.map_or(Vec::new(), |it| {
                it.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
            }),
            uncommitted: git.uncommitted(&[]).unwrap_or_default(),
        }
    }

    /// A document of the feature that a task belongs to.
    fn paper(&self, around: &Surroundings, document: Document) -> Option<Paper> {
        let feature = around.feature.as_ref()?;
        let path = match document {
            Document::Spec => feature.spec_path.as_deref()?,
            Document::Plan => feature.plan_path.as_deref()?,
        };
        let file = self.plan.places.root.join(path);
        let text = || read(&file, path, DOCUMENT_LIMIT);
        has_text(&file).then(|| Paper { path: path.to_owned(), text: text() })
    }
}

/// The working tree before a session, as an agent is told of it.
fn described(git: &Git, facts: &Facts) -> Result<Tree> {
    let named = |commit: &str| {
        let told = git.told_of(commit, &["log", "-1", "--format=%h %s", commit]);
        let told = told.with_context(|| format!("can't look at commit {commit}"))?;
        let (name, subject) = told.split_once(' ').unwrap_or((&told, ""));
        Ok::<_, anyhow::Error>((name.to_owned(), subject.to_owned()))
    };
    Ok(Tree {
        branch: facts.branch.clone(),
        head: facts.head.as_deref().map(named).transpose()?,
        uncommitted: facts.changes.iter().map(|it| it.path.display().to_string()).collect(),
    })
}

#[derive(Debug, Clone, Copy)]
enum Document {
    Spec,
    Plan,
}
