//! Joins store, prompts and agents into work that goes on by itself. It knows nothing of flags and
//! colours.

mod bell;
mod breaker;
mod briefing;
mod checklist;
mod clock;
mod command;
mod conclusion;
mod decision;
#[cfg(test)]
mod documented;
mod git;
mod heartbeat;
mod helm;
mod iteration;
mod judge;
mod known_red;
mod limits;
mod lock;
mod model;
mod normal;
mod outlook;
mod outputs;
mod plain;
mod plan;
mod preflight;
mod preview;
mod relay;
mod sentinels;
mod signals;
mod stop;
mod totals;
mod tree;
mod verify;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::agent::{Mailbox, Scratch, Trouble};
use crate::dag::{Attempt, AttemptId, Outcome, RunId, TaskId};
use crate::event::{Activity, Event, Idle, Progress, RunCommand, Start, View};
use crate::store::{NewRun, RunTotals, Store, Target};
use breaker::Breaker;
use git::Git;
use heartbeat::Heartbeat;
use helm::Helm;
use known_red::KnownRed;
use model::Record;
use sentinels::Sentinels;

pub use breaker::Common;
pub use checklist::Checklist;
#[cfg(feature = "test-programs")]
#[doc(hidden)]
pub use checklist::ticked_off;
pub use clock::Clock;
pub use lock::{Holder, TreeHeld, TreeLock};
pub use model::Strategy;
pub use plain::{LoopPlan, LoopPrompt, PLAN, run_loop};
pub use plan::{AgentPlan, Baseline, Places, Plan, TerminalPlan, VerifyPlan};
pub use preview::{Preview, preview};
pub use signals::forward_signals;
pub use stop::{Bounds, Reached};
pub use totals::Totals;
pub use tree::{Ours, Tree, look_at_tree};

/// How often it is looked whether others have made something ready.
const IDLE: Duration = Duration::from_secs(1);

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// Everything in the target is done.
    Done,
    /// Everything is done or has failed.
    Failed,
    /// Somebody said that the loop is complete.
    Signalled(String),
    /// A bound was reached.
    Limit(Reached),
    /// What is left waits for these, which can't get done by themselves.
    Stuck(Vec<TaskId>),
    /// There is nothing to do at all.
    Empty,
    /// A person ended it.
    Interrupted,
    /// This file asked for it.
    Stopped(String),
    /// The agent said that it must stop.
    Failure,
    /// The API refuses, and waiting would not help.
    Refused(Trouble),
    /// A check fails before any work was done.
    RedBaseline {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
    },
    /// Sessions or checks fail for a reason that has nothing to do with the tasks.
    Breaker(Common),
    /// The reader of its output went away before it was over.
    Unheard,
}

impl RunEnd {
    /// It in a word, as it is recorded.
    pub fn name(&self) -> &'static str {
        match self {
            RunEnd::Done | RunEnd::Signalled(_) => "done",
            RunEnd::Failed => "failed",
            RunEnd::Limit(_) => "limit",
            RunEnd::Stuck(_) => "stuck",
            RunEnd::Empty => "empty",
            RunEnd::Interrupted => "interrupted",
            RunEnd::Stopped(_) => "stopped",
            RunEnd::Failure => "failure",
            RunEnd::Refused(_) => "refused",
            RunEnd::RedBaseline { .. } => "baseline",
            RunEnd::Breaker(_) => "breaker",
            RunEnd::Unheard => "unheard",
        }
    }
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunEnd::Done => f.write_str("everything is done"),
            RunEnd::Signalled(how) => write!(f, "the loop is complete: {how}"),
            RunEnd::Failed => f.write_str("some tasks failed for good"),
            RunEnd::Limit(reached) => {
                write!(f, "the limit on {} was reached", reached.name())
            }
            RunEnd::Stuck(behind) => {
                let ids: Vec<String> = behind.iter().take(5).map(TaskId::to_string).collect();
                let more = if behind.len() > ids.len() { ", …" } else { "" };
                write!(f, "nothing can go on: what is left waits for {}{more}", ids.join(", "))
            }
            RunEnd::Empty => f.write_str("there are no tasks"),
            RunEnd::Interrupted => f.write_str("interrupted"),
            RunEnd::Stopped(file) => write!(f, "stopped on request: `{file}` was made"),
            RunEnd::Failure => f.write_str("the agent said that the run must stop"),
            RunEnd::Refused(trouble) => write!(f, "{trouble}"),
            RunEnd::RedBaseline { command, how } => write!(
                f,
                "`{command}` {how} before any work was done: mend it, or go on with --no-baseline or \
                 `verify.baseline = \"known-red\"`"
            ),
            RunEnd::Breaker(common) => write!(f, "{common}"),
            RunEnd::Unheard => f.write_str("the reader of the output is gone"),
        }
    }
}

/// A run.
struct Engine<'a> {
    plan: &'a Plan,
    store: Store,
    helm: Helm<'a>,
    git: Option<Git>,
    /// What asks the run to end.
    sentinels: Sentinels,
    record: Record,
    breaker: Breaker,
    known_red: KnownRed,
    /// Refusals of the API in a row.
    refusals: u32,
    /// The commit that is checked out.
    head: Option<String>,
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
    let _heartbeat = Heartbeat::start(store.path(), run);
    let helm = Helm::new(&plan.agent, &plan.places, plan.bounds, mailbox, clock, view, run);
    let mut engine = Engine::new(store, plan, helm, Sentinels::of_a_run(&plan.places.root));
    let end = engine.go();
    Ok(engine.close(end))
}

/// Keeps what a run that was killed has left in the working tree, so that it is not taken for work of a
/// person. What could not be kept is tried, and told, when the run begins.
pub fn salvage_crash(store: &Store, places: &Places) -> Result<()> {
    let Some(git) = Git::find(&places.root) else { return Ok(()) };
    if let Some(crashed) = crashed_here(store, &git, &places.root)? {
        let scratch = Scratch::new(&places.temporary)?;
        if let Ok(Some(kept)) = git.salvage(crashed, scratch.path())
            && kept.missing.is_some()
        {
            git.forget_salvage(crashed);
        }
    }
    Ok(())
}

/// The attempt whose run was killed in this working tree and of which nothing is kept, if it was the last.
/// Another run on this database may have crashed in another working tree: what it left is there.
fn crashed_here(store: &Store, git: &Git, root: &Path) -> Result<Option<AttemptId>> {
    let last = store.last_attempt_in(root, git.is_the_only_tree())?;
    let crashed = last.filter(crashed_with_its_run).map(|last| last.id);
    Ok(crashed.filter(|&attempt| git.salvaged(attempt).is_none()))
}

impl<'a> Engine<'a> {
    fn new(store: Store, plan: &'a Plan, helm: Helm<'a>, sentinels: Sentinels) -> Engine<'a> {
        Engine {
            plan,
            store,
            helm,
            git: Git::find(&plan.places.root),
            sentinels,
            record: Record::default(),
            breaker: Breaker::default(),
            known_red: KnownRed::default(),
            refusals: 0,
            head: None,
            told_of_hints: false,
            totals: Totals::default(),
        }
    }

    fn go(&mut self) -> Result<RunEnd> {
        self.tell_beginning()?;
        self.salvage_of_a_crash()?;
        self.head = self.look_at_head();
        let mut has_looked = false;
        loop {
            if let Some(end) = self.held_back()? {
                return Ok(end);
            }
            if !has_looked && self.store.peek_next(&self.plan.target)?.is_some() {
                has_looked = true;
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
        if !is_unheard && let Some(reason) = self.helm.pause() {
            return Ok(Some(reason.into()));
        }
        let end = match self.plan.bounds.reached(&self.helm.used()) {
            Some(reached) => RunEnd::Limit(reached),
            None if is_unheard => RunEnd::Unheard,
            None => match self.sentinels.found() {
                Some(file) => RunEnd::Stopped(self.name_of(&file)),
                None => return Ok(None),
            },
        };
        // A run that has reached its goal as well has ended by that.
        let counts = self.store.counts(&self.plan.target)?;
        let is_done = counts.total > 0 && counts.done == counts.total;
        Ok(Some(if is_done { RunEnd::Done } else { end }))
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
        self.helm.tell(&Event::Idle(Idle { reason, until }));
        loop {
            if let Some(reason) = self.helm.wait(IDLE, &Activity::Idle) {
                return Ok(Some(reason.into()));
            }
            let now = self.helm.clock.now();
            let took_back = outlook::take_back(&mut self.store, now)?;
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

    /// The commit that is checked out now, where anybody wants to know.
    fn look_at_head(&mut self) -> Option<String> {
        if self.plan.git_stats || self.plan.auto_push {
            self.head = self.git.as_ref().and_then(Git::head);
        }
        self.head.clone()
    }

    /// What a run that was killed has left in the working tree is kept before anybody changes it.
    fn salvage_of_a_crash(&mut self) -> Result<()> {
        let Some(git) = &self.git else { return Ok(()) };
        if let Some(crashed) = crashed_here(&self.store, git, &self.plan.places.root)? {
            let scratch = Scratch::new(&self.plan.places.temporary)?;
            let kept = git.salvage(crashed, scratch.path());
            self.report_salvage(crashed, kept);
        }
        Ok(())
    }

    /// Records and tells how the run ended, whatever ended it.
    fn close(mut self, end: Result<RunEnd>) -> Finished {
        let end = end.and_then(|end| self.helm.heard(end));
        let recorded = self.record_end(end.as_ref().map_or("error", RunEnd::name));
        let end = end.and_then(|end| recorded.map(|()| end));
        if let Err(error) = &end {
            self.helm.break_off(error);
        }
        self.remember_tree();
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

    /// Remembers how the working tree was left, so that the next run does not take it for the work of a
    /// person.
    fn remember_tree(&self) {
        let git = self.git.as_ref().filter(|_| self.helm.used.iterations > 0);
        if let (Some(git), Ok(scratch)) = (git, Scratch::new(&self.plan.places.temporary)) {
            git.remember_tree(scratch.path());
        }
    }

    fn record_end(&mut self, outcome: &str) -> Result<()> {
        let now = self.helm.clock.now();
        let totals = RunTotals {
            outcome: outcome.to_owned(),
            iterations: self.helm.used.iterations,
            cost_usd: self.helm.used.cost,
        };
        self.store.end_run(self.helm.run, &totals, now)
    }
}

/// Whether an attempt ended because the process of its run did. One whose agent alone crashed has a
/// cost, and what it left behind was looked at when it ended.
fn crashed_with_its_run(attempt: &Attempt) -> bool {
    attempt.outcome == Some(Outcome::Crashed) && attempt.cost_usd.is_none()
}
