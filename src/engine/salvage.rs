//! The working tree around an attempt: marked before it, looked at after its session, and in order when it is
//! over. What the attempt has not committed is kept. `loop_tree` has the same for the sessions of a loop.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Engine;
use super::git::Git;
use super::iteration::Iteration;
use super::order::{Course, Next, course, in_words, names, not_committed, was_handed_back};
use super::owner::Owner;
use super::plan::Places;
use super::restore::{Before, Order, Salvaged, Seen};
use crate::agent::Scratch;
use crate::dag::{AttemptId, Outcome};
use crate::hint::HintExt;
use crate::store::{Store, Surroundings};
use crate::time::Timestamp;

/// What became of the working tree of an attempt.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// What the attempt left, and where it is kept.
    pub(super) salvage: Option<Salvaged>,
    /// The commit that is checked out.
    pub(super) head: Option<String>,
}

/// Puts the working tree in order after a run or a loop that was killed, or could not do it itself. Returns
/// what a person should know.
pub fn salvage_crash(store: Option<&Store>, places: &Places) -> Result<Vec<String>> {
    let Some(git) = Git::of(places)? else { return Ok(Vec::new()) };
    let Some(CutOff { owner, before, persons, last_sign }) = cut_off(&git, store, places)? else {
        return Ok(Vec::new());
    };
    let scratch = Scratch::new(&places.temporary)?;
    if last_sign.is_some_and(|last| git.has_changed_since(last.plus(AFTERWARDS))) {
        let kept = git.keep_as_it_is(owner, &before, scratch.path())?;
        let kept = kept.map_or(String::new(), |kept| format!("; its {kept}"));
        return Ok(vec![format!(
            "{owner} was cut off, and the working tree was changed since: it stays as it is{kept}"
        )]);
    }
    let next = match owner {
        Owner::Attempt(_) => Next::Task,
        Owner::Loop(_) => Next::Iteration(&persons),
    };
    let order = git.put_in_order(owner, &before, next, scratch.path()).with_context(|| {
        format!("can't put the working tree in order after {owner}, which was cut off")
    });
    let mut order = order.hint(LOOK_YOURSELF)?;
    if let Owner::Loop(_) = owner {
        let kept = git.keep_for_loop(owner, &persons, scratch.path())?;
        order.salvage = kept.or(order.salvage);
        git.remember_tree(next, &places.temporary);
    }
    git.unmark(owner, &before, order.has_replaced());
    let mut notes = remarks(&git, owner, &order);
    if let Some(kept) = &order.salvage {
        let tree = match owner {
            Owner::Attempt(_) => "the working tree is as it was before, and its",
            Owner::Loop(_) => "its",
        };
        notes.push(format!("{owner} was cut off; {tree} {kept}"));
    }
    Ok(notes)
}

/// A session after which the tree could not be put in order.
struct CutOff {
    owner: Owner,
    before: Before,
    /// In a loop, what is a person's of what was not committed before.
    persons: BTreeSet<PathBuf>,
    last_sign: Option<Timestamp>,
}

/// The session in this working tree that was cut off, if there is one. Nothing works in it now.
fn cut_off(git: &Git, store: Option<&Store>, places: &Places) -> Result<Option<CutOff>> {
    if let Some((owner, before, persons)) = git.marked_by_loop()? {
        return Ok(Some(CutOff { owner, before, persons, last_sign: git.last_sign_of_life() }));
    }
    let Some(store) = store else { return Ok(None) };
    // Another run on this database may have crashed in another working tree: what it left is there.
    let last = store.last_attempt_in(&places.root, git.is_the_only_tree())?;
    let Some(crashed) = last.filter(|last| last.outcome.is_some()).map(|last| last.id) else {
        return Ok(None);
    };
    // An attempt after which the tree was put in order has no mark any more.
    let Some(before) = git.marked(crashed.into())? else { return Ok(None) };
    let (persons, last_sign) = (BTreeSet::new(), store.last_heartbeat(crashed)?);
    Ok(Some(CutOff { owner: crashed.into(), before, persons, last_sign }))
}

/// How long after the last sign of life of a run its session may still have changed something: a run gives
/// one every 20 seconds.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// What to do about a working tree that can't be put in order.
pub(super) const LOOK_YOURSELF: &str =
    "look at it with `git status`, put it in order, and run ralph again";

impl Engine<'_> {
    /// Marks the state of the working tree before an attempt.
    pub(super) fn mark(&mut self, attempt: AttemptId) -> Result<Option<Before>> {
        let Some(git) = &self.git else { return Ok(None) };
        let facts = match self.tree.take() {
            Some(facts) => facts,
            None => git.look()?,
        };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        git.mark(attempt.into(), facts, Next::Task, scratch.path()).map(Some)
    }

    /// What the session of an attempt has done to the working tree.
    pub(super) fn see(&self, iteration: &Iteration) -> Result<Option<Seen>> {
        let (Some(git), Some(before)) = (&self.git, &iteration.before) else { return Ok(None) };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        git.see(before, scratch.path()).map(Some)
    }

    /// Why work does not count that is said to be done; none if the working tree is in order. What was handed
    /// back once already is committed.
    pub(super) fn not_in_order(
        &mut self,
        iteration: &Iteration,
        around: &Surroundings,
        seen: &Result<Option<Seen>>,
    ) -> Option<String> {
        let seen = match seen {
            Ok(None) => return None,
            Ok(Some(seen)) => seen,
            Err(error) => return Some(format!("the repository can't be looked at: {error:#}")),
        };
        let files = seen.uncommitted_paths();
        let max_retries = around.task.max_retries.unwrap_or(self.plan.max_retries);
        let is_last = around.task.retries >= max_retries;
        let handed_back = was_handed_back(&around.attempts);
        match course(&seen.disorder, !files.is_empty(), handed_back, is_last) {
            Course::GoOn => None,
            Course::Fail => in_words(&seen.disorder),
            Course::HandBack => Some(not_committed(&files)),
            Course::Commit if seen.leftovers.is_empty() => None,
            Course::Commit => {
                self.commit_for(iteration, &around.task.title, seen).err().map(|error| {
                    format!("{}; ralph can't commit it either: {error:#}", not_committed(&files))
                })
            }
        }
    }

    /// Whether a session left nothing to be put in order, and nothing runs after it.
    pub(super) fn is_settled(&self, iteration: &Iteration, seen: &Seen) -> bool {
        let is_verified = self.plan.verify.agent || !self.plan.verify.commands.is_empty();
        !is_verified && iteration.before.as_ref().is_some_and(|before| seen.is_in_order(before))
    }

    /// Commits what a session has not committed, under the title of its task.
    fn commit_for(&mut self, iteration: &Iteration, title: &str, seen: &Seen) -> Result<()> {
        let Some(git) = &self.git else { return Ok(()) };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let (task, attempt) = (iteration.task, iteration.attempt);
        let message = format!("{title}\n\nRalph-Task: {task}\nRalph-Attempt: {attempt}");
        git.commit(&seen.leftovers, &message, scratch.path())?;
        let paths: Vec<_> = seen.leftovers.iter().map(|it| it.path.clone()).collect();
        self.helm.warn(&format!("the session did not commit {}: ralph has", names(&paths)));
        Ok(())
    }

    /// Puts the working tree in order after an attempt that ended like this.
    pub(super) fn settle(&mut self, iteration: &Iteration, outcome: Outcome) -> Result<Settled> {
        let (Some(git), Some(before)) = (&self.git, &iteration.before) else {
            return Ok(Settled::default());
        };
        let attempt = Owner::from(iteration.attempt);
        if let Some(facts) = &iteration.after {
            git.unmark(attempt, before, false);
            self.tree = Some(facts.clone());
            return Ok(Settled { salvage: None, head: facts.head.clone() });
        }
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let order = match outcome {
            Outcome::Done => git.give_back_changed(attempt, before, scratch.path()),
            _ => git.put_in_order(attempt, before, Next::Task, scratch.path()),
        };
        let order = order
            .with_context(|| format!("can't put the working tree in order after {attempt}"))
            .hint(LOOK_YOURSELF)?;
        git.unmark(attempt, before, order.has_replaced());
        for remark in remarks(git, attempt, &order) {
            self.helm.warn(&remark);
        }
        let settled = Settled { salvage: order.salvage, head: order.facts.head.clone() };
        self.tree = Some(order.facts);
        Ok(settled)
    }

    /// The same after an error broke an attempt off; if that can't be done either, the next run tries.
    pub(super) fn settle_after_error(&mut self, attempt: AttemptId) {
        let Some(git) = &self.git else { return };
        let Ok(Some(before)) = git.marked(attempt.into()) else { return };
        let Ok(scratch) = Scratch::new(&self.plan.places.temporary) else { return };
        let attempt = Owner::from(attempt);
        if let Ok(order) = git.put_in_order(attempt, &before, Next::Task, scratch.path()) {
            git.unmark(attempt, &before, order.has_replaced());
        }
    }

    /// Keeps what is not committed, to undo what a verifier does.
    pub(super) fn keep_tree(&self) -> Result<Option<Before>> {
        let Some(git) = &self.git else { return Ok(None) };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let facts = git.look()?;
        let kept = git.keep(&facts, scratch.path())?;
        Ok(Some(Before::new(facts, kept)))
    }

    /// Undoes what a verifier has done.
    pub(super) fn undo(&mut self, attempt: AttemptId, before: Option<&Before>) -> Result<()> {
        let (Some(git), Some(before)) = (&self.git, before) else { return Ok(()) };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let kept = git
            .undo(attempt.into(), before, scratch.path())
            .context("can't undo what was changed while the work was verified")
            .hint(LOOK_YOURSELF)?;
        self.helm.warn(&format!("changes made during the verification are undone; {kept}"));
        Ok(())
    }
}

/// What a person should know of how a working tree was put in order.
pub(super) fn remarks(git: &Git, owner: Owner, order: &Order) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(wrong) = in_words(&order.disorder) {
        remarks.push(format!("{wrong}: the working tree is put back"));
    }
    if let [_, ..] = &order.committed[..] {
        let (files, kept) = (names(&order.committed), git.before_reference(owner));
        remarks.push(format!(
            "the session committed {files}, which had uncommitted changes before; these are kept as {kept}"
        ));
    }
    if let [_, ..] = &order.edited[..] {
        let (files, kept) = (names(&order.edited), git.before_reference(owner));
        remarks.push(format!(
            "the session changed {files}, which had uncommitted changes before; these are kept as {kept}"
        ));
    }
    remarks
}
