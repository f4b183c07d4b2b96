//! The working tree of a loop, in order after each of its sessions. What they have not committed stays in it,
//! because the next one goes on with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::git::Git;
use super::heartbeat::Heartbeat;
use super::loop_plan::LoopPlan;
use super::order::Next;
use super::owner::Owner;
use super::restore::{Before, Salvaged};
use super::salvage::{LOOK_YOURSELF, remarks};
use crate::agent::Scratch;
use crate::dag::SessionId;
use crate::hint::HintExt;

/// The working tree of a loop.
pub(super) struct LoopTree {
    pub(super) git: Git,
    temporary: PathBuf,
    /// The plan that sessions tick off: it is theirs to change.
    checklist: Option<PathBuf>,
    /// What a person had not committed before the loop, and no session has changed since.
    persons: BTreeSet<PathBuf>,
    /// The last session.
    last: Option<Owner>,
    heartbeat: Heartbeat,
}

/// What the working tree was like before a session.
pub(super) struct Marked {
    owner: Owner,
    before: Before,
}

/// What became of the working tree after a session.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// Where is kept what does not stay in the tree.
    pub(super) salvage: Option<Salvaged>,
    /// What a person should know.
    pub(super) remarks: Vec<String>,
}

impl LoopTree {
    /// The working tree that a loop works in; none outside a repository.
    pub(super) fn find(plan: &LoopPlan) -> Result<Option<LoopTree>> {
        let Some(git) = Git::of(&plan.places)? else { return Ok(None) };
        let heartbeat = Heartbeat::of_loop(git.sign_file());
        Ok(Some(LoopTree {
            git,
            temporary: plan.places.temporary.clone(),
            checklist: plan.checklist.clone(),
            persons: BTreeSet::new(),
            last: None,
            heartbeat,
        }))
    }

    /// Marks the state of the tree before a session.
    pub(super) fn mark(&mut self, session: SessionId) -> Result<Marked> {
        let owner = Owner::Loop(session);
        let scratch = Scratch::new(&self.temporary)?;
        let facts = self.git.look()?;
        if self.last.replace(owner).is_none() {
            self.persons = facts.changes.iter().map(|it| it.path.clone()).collect();
            if let Some(persons) = self.git.persons_left(scratch.path()) {
                self.persons.retain(|path| persons.contains(path));
            }
        }
        let next = Next::Iteration(&self.persons);
        let before = self.git.mark(owner, facts, next, scratch.path())?;
        Ok(Marked { owner, before })
    }

    /// Puts the tree in order after a session.
    pub(super) fn settle(&mut self, marked: &Marked) -> Result<Settled> {
        let (git, Marked { owner, before }) = (&self.git, marked);
        let scratch = Scratch::new(&self.temporary)?;
        let mut order = git
            .put_in_order(*owner, before, Next::Iteration(&self.persons), scratch.path())
            .with_context(|| format!("can't put the working tree in order after {owner}"))
            .hint(LOOK_YOURSELF)?;
        let top = git.top.clone();
        order.edited.retain(|path| Some(top.join(path)) != self.checklist);
        git.unmark(*owner, before, order.has_replaced());
        for path in order.committed.iter().chain(&order.edited) {
            self.persons.remove(path);
        }
        let remarks = remarks(git, *owner, &order);
        Ok(Settled { salvage: order.salvage, remarks })
    }

    /// Ends the loop: keeps what its sessions have not committed, and leaves it in the tree. Returns where it
    /// is kept, if there is any.
    pub(super) fn leave(self) -> Result<Option<Salvaged>> {
        let Some(last) = self.last else { return Ok(None) };
        let scratch = Scratch::new(&self.temporary)?;
        let mut persons = self.persons.clone();
        let checklist = self.checklist.as_ref().and_then(|it| it.strip_prefix(&self.git.top).ok());
        persons.extend(checklist.map(PathBuf::from));
        let kept = self.git.keep_for_loop(last, &persons, scratch.path());
        self.git.remember_tree(Next::Iteration(&self.persons), &self.temporary);
        drop(self.heartbeat);
        let _ = fs::remove_file(self.git.sign_file());
        kept
    }
}
