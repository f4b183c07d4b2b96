//! Joins store, prompts and agents into work that goes on by itself. It knows nothing of flags and
//! colours.

mod bell;
mod breaker;
mod briefing;
mod checklist;
mod clean;
mod clock;
mod command;
mod conclusion;
mod decision;
#[cfg(test)]
mod documented;
mod end;
mod git;
mod heartbeat;
mod helm;
mod iteration;
mod judge;
mod known_red;
mod limits;
mod lock;
mod loop_plan;
mod loop_tree;
mod model;
mod normal;
mod order;
mod outlook;
mod outputs;
mod owner;
mod plain;
mod plan;
mod preflight;
mod preview;
mod recovery;
mod relay;
mod restore;
mod salvage;
mod sentinels;
mod shorter;
mod signals;
mod stop;
mod totals;
mod tree;
mod verify;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::agent::{Mailbox, Scratch};
use crate::dag::RunId;
use crate::event::{Activity, Event, Idle, Progress, RunCommand, Start, View};
use crate::store::{NewRun, RunTotals, Store, Target};
use breaker::Breaker;
use git::Git;
use heartbeat::Heartbeat;
use helm::Helm;
use known_red::KnownRed;
use model::Record;
use order::Facts;
use sentinels::Sentinels;
use shorter::Shorter;

pub use breaker::Common;
pub use checklist::Checklist;
#[cfg(feature = "test-programs")]
#[doc(hidden)]
pub use checklist::ticked_off;
pub use clean::{Leftovers, Pile};
pub use clock::Clock;
pub use end::RunEnd;
pub use lock::{Holder, TreeHeld, TreeLock};
pub use loop_plan::{LoopPlan, LoopPrompt, PLAN};
pub use model::Strategy;
pub use plain::run_loop;
pub use plan::{AgentPlan, Baseline, Places, Plan, TerminalPlan, VerifyPlan};
pub use preflight::{ask_version, too_old};
pub use preview::{Preview, preview};
pub use recovery::take_back;
pub use salvage::salvage_crash;
pub use signals::forward_signals;
pub use stop::{Bounds, Reached};
pub use totals::Totals;
pub use tree::{Tree, look_at_tree};

/// How often it is looked whether others have made something ready.
const IDLE: Duration = Duration::from_secs(1);

/// A run.
struct Engine<'a> {
    plan: &'a Plan,
    store: Store,
    helm: Helm<'a>,
    git: Option<Git>,
    /// What asks the run to end; none if nothing is to be run.
    sentinels: Option<Sentinels>,
    record: Record,
    breaker: Breaker,
    shorter: Shorter,
    known_red: KnownRed,
    /// Refusals of the API in a row.
    refusals: u32,
    /// What the working tree was like when it was last looked at, if it can't have changed since.
    tree: Option<Facts>,
    /// Whether it was said that hints of agents are ignored.
    told_of_hints: bool,
    totals: Totals,
}

/// What came of a run.
#[derive(Debug)]
pub struct Finished {
    /// How it ended, or what broke it off.
    pub end: Result<RunEnd>,
    /// Which run it was.
    pub run: RunId,
    /// What it added up to.
    pub totals: Totals,
    /// How many iterations it took.
    pub iterations: u32,
    /// What it has cost.
    pub cost_usd: f64,
    /// How far the work is.
    pub progress: Progress,
    /// How long it took.
    pub duration: Duration,
}

/// Works on the target of a plan until it is done, or something ends it.
pub fn run(
    mut store: Store,
    plan: &Plan,
    lock: &TreeLock,
    mailbox: &Mailbox,
    clock: &Clock,
    view: &mut dyn View,
) -> Result<Finished> {
    let now = clock.now();
    let git = Git::of(&plan.places)?;
    let run = store.start_run(
        &NewRun {
            max_iterations: plan.bounds.iterations,
            max_seconds: plan.bounds.time.map(|time| time.as_secs()),
            max_cost: plan.bounds.cost,
            root: Some(plan.places.root.clone()),
            ..NewRun::new()
        },
        now,
    )?;
    lock.sign(run, now);
    Scratch::sweep(&plan.places.temporary);
    let _heartbeat = Heartbeat::of_run(store.path(), run);
    let helm = Helm::new(&plan.agent, &plan.places, plan.bounds, mailbox, clock, view, run);
    let mut engine = Engine::new(store, plan, helm, git);
    engine.sentinels = Some(Sentinels::of_a_run(&plan.places.root));
    let end = engine.go();
    Ok(engine.close(end))
}

impl<'a> Engine<'a> {
    fn new(store: Store, plan: &'a Plan, helm: Helm<'a>, git: Option<Git>) -> Engine<'a> {
        Engine {
            plan,
            store,
            helm,
            git,
            sentinels: None,
            record: Record::default(),
            breaker: Breaker::default(),
            shorter: Shorter::default(),
            known_red: KnownRed::default(),
            refusals: 0,
            tree: None,
            told_of_hints: false,
            totals: Totals::default(),
        }
    }

    fn go(&mut self) -> Result<RunEnd> {
        self.tell_beginning()?;
        let mut has_looked = false;
        loop {
            if let Some(end) = self.held_back()? {
                return Ok(end);
            }
            if !has_looked && self.store.peek_next(&self.plan.target)?.is_some() {
                has_looked = true;
                self.tree = None;
                if let Some(end) = self.look_first()? {
                    return Ok(end);
                }
            }
            let now = self.helm.clock.now();
            let end = match self.store.claim_next(self.helm.run, &self.plan.target, now)? {
                Some(claim) => self.iterate(claim)?,
                None => self.nothing_to_claim()?,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// What ends the run before another iteration, or holds it for a while.
    fn held_back(&mut self) -> Result<Option<RunEnd>> {
        let is_unheard = self.helm.is_unheard();
        if !is_unheard && self.helm.is_asked_to_stop() {
            return Ok(Some(RunEnd::Interrupted));
        }
        if !is_unheard
            && self.has_more_to_do()?
            && let Some(reason) = self.helm.pause()
        {
            return Ok(Some(reason.into()));
        }
        let end = match self.plan.bounds.reached(&self.helm.used()) {
            Some(reached) => RunEnd::Limit(reached),
            None if is_unheard => RunEnd::Unheard,
            None => match self.sentinels.as_ref().and_then(Sentinels::found) {
                Some(file) => RunEnd::Stopped(self.name_of(&file)),
                None => return Ok(None),
            },
        };
        // A run that has reached its goal as well has ended by that.
        Ok(Some(if self.is_done()? { RunEnd::Done } else { end }))
    }

    /// Whether there is anything that a pause could hold back. A run that is not paused need not know.
    fn has_more_to_do(&mut self) -> Result<bool> {
        if !self.helm.is_paused() {
            return Ok(true);
        }
        self.tree = None;
        Ok(self.plan.bounds.reached(&self.helm.used()).is_none() && !self.is_done()?)
    }

    fn is_done(&self) -> Result<bool> {
        let counts = self.store.counts(&self.plan.target)?;
        Ok(counts.total > 0 && counts.done == counts.total)
    }

    /// What a file is called in the project.
    fn name_of(&self, file: &Path) -> String {
        file.strip_prefix(&self.plan.places.root).unwrap_or(file).display().to_string()
    }

    /// What to do when nothing can be claimed: wait for others, or end.
    fn nothing_to_claim(&mut self) -> Result<Option<RunEnd>> {
        let mut version = self.store.version()?;
        let now = self.helm.clock.now();
        let (mut until, reason) = match outlook::outlook(&self.store, &self.plan.target, now)? {
            outlook::Outlook::End(end) => return Ok(Some(end)),
            outlook::Outlook::Wait { until, reason } => (until, reason),
        };
        self.tree = None;
        self.helm.tell(&Event::Idle(Idle { reason, until }));
        loop {
            if let Some(reason) = self.helm.wait(IDLE, &Activity::Idle) {
                return Ok(Some(reason.into()));
            }
            let now = self.helm.clock.now();
            let took_back =
                !take_back(&mut self.store, &self.plan.agent.own_rules, now)?.is_empty();
            if until.is_some_and(|until| until <= now) {
                return Ok(None);
            }
            // To look at the whole graph each second would keep a core busy in a large project.
            let latest = self.store.version()?;
            if latest == version && !took_back {
                continue;
            }
            version = latest;
            if self.store.peek_next(&self.plan.target)?.is_some() {
                return Ok(None);
            }
            match outlook::outlook(&self.store, &self.plan.target, now)? {
                outlook::Outlook::End(_) => return Ok(None),
                outlook::Outlook::Wait { until: later, .. } => until = later,
            }
        }
    }

    fn tell_beginning(&mut self) -> Result<()> {
        let counts = self.store.counts(&self.plan.target)?;
        let project = self.plan.places.root.to_string_lossy().into_owned();
        let target = match &self.plan.target {
            Target::Everything => None,
            Target::Feature { name, .. } => Some(name.clone()),
            Target::Task(id) => Some(id.to_string()),
        };
        self.helm.tell(&Event::Start(Start {
            version: env!("CARGO_PKG_VERSION"),
            project: &project,
            command: RunCommand::Run,
            target: target.as_deref(),
            mode: self.plan.agent.mode(),
            plan: None,
            loop_id: None,
            done: counts.done,
            total: counts.total,
            max_iterations: self.plan.bounds.iterations,
            max_seconds: self.plan.bounds.time.map(|time| time.as_secs()),
            max_cost_usd: self.plan.bounds.cost,
            sandbox: &self.plan.agent.cage.choice.message,
        }));
        Ok(())
    }

    fn tell_progress(&mut self) -> Result<()> {
        let progress = self.progress()?;
        self.helm.tell(&Event::Progress(progress));
        Ok(())
    }

    fn progress(&self) -> Result<Progress> {
        let counts = self.store.counts(&self.plan.target)?;
        Ok(Progress {
            total: counts.total,
            done: counts.done,
            failed: counts.failed,
            blocked: counts.blocked,
            in_progress: counts.in_progress,
        })
    }

    /// Records and tells how the run ended, whatever ended it.
    fn close(mut self, end: Result<RunEnd>) -> Finished {
        let end = end.and_then(|end| self.helm.heard(end));
        let recorded = match &end {
            Ok(end) => self.record_end(end.name(), end.to_string()),
            Err(error) => self.record_end("error", self.helm.in_words(error)),
        };
        let end = end.and_then(|end| recorded.map(|()| end));
        if let Err(error) = &end {
            self.helm.break_off(error);
        }
        // After an error the tree may not be in order: the next run looks at it.
        let left = self.git.as_ref().filter(|_| self.helm.used.iterations > 0 && end.is_ok());
        if let Some(git) = left {
            git.remember_tree(order::Next::Task, &self.plan.places.temporary);
        }
        Finished {
            end,
            run: self.helm.run,
            // What can't be read can't be told: there is an error to tell already.
            progress: self.progress().unwrap_or_default(),
            totals: self.totals,
            iterations: self.helm.used.iterations,
            cost_usd: self.helm.used.cost,
            duration: self.helm.clock.elapsed(),
        }
    }

    fn record_end(&mut self, outcome: &str, message: String) -> Result<()> {
        let now = self.helm.clock.now();
        let totals = RunTotals {
            outcome: outcome.to_owned(),
            message,
            iterations: self.helm.used.iterations,
            cost_usd: self.helm.used.cost,
        };
        self.store.end_run(self.helm.run, &totals, now)
    }
}
