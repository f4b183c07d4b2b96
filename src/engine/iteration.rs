//! One iteration up to its verdict: context, model, session, judgement, verification.

use std::time::Instant;

use anyhow::Result;

use super::breaker::is_empty;
use super::decision::{Decision, last_failed};
use super::judge::{Judgement, Verdict, judge};
use super::model::Choice;
use super::{Engine, RunEnd};
use crate::agent::{AttemptContext, Facts, Report, Scratch, Session, Trouble};
use crate::dag::{AttemptId, Outcome, TaskId};
use crate::event::{Activity, Event, IterationStart};
use crate::money;
use crate::store::{Claim, ClaimLost, SessionRecord, Surroundings};
use crate::time::Timestamp;

/// An iteration while it lasts.
pub(super) struct Iteration {
    pub(super) number: u32,
    pub(super) task: TaskId,
    pub(super) attempt: AttemptId,
    pub(super) model: String,
    pub(super) began: Instant,
    pub(super) log: String,
    pub(super) verify_log: Option<String>,
    pub(super) head_before: Option<String>,
    pub(super) cost_usd: f64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

/// An iteration whose outcome is decided, but not recorded.
pub(super) struct Attempted {
    pub(super) iteration: Iteration,
    pub(super) around: Surroundings,
    pub(super) facts: Facts,
    pub(super) judgement: Judgement,
    pub(super) decision: Decision,
}

impl Iteration {
    /// What a session of it knows of itself.
    pub(super) fn context(&self) -> AttemptContext {
        AttemptContext { task: self.task.to_string(), attempt: self.attempt.to_string() }
    }

    /// Takes the cost of a session into account.
    pub(super) fn add_cost(&mut self, facts: &Facts) {
        self.cost_usd = money::rounded(self.cost_usd + facts.cost_usd);
        self.input_tokens += facts.input_tokens;
        self.output_tokens += facts.output_tokens;
    }
}

impl Engine<'_> {
    /// Works on a claim; tells how the run ends if it does by this.
    pub(super) fn iterate(&mut self, claim: Claim) -> Result<Option<RunEnd>> {
        let around = match self.store.surroundings(claim.task) {
            Ok(around) => around,
            Err(error) => match self.store.lost(&claim)? {
                Some(lost) => return Ok(self.let_go(&lost)),
                None => return self.release(claim, error),
            },
        };
        let now = self.helm.clock.now();
        match self.plan.strategy.choose(&self.record, last_failed(&around), now) {
            Choice::Model { name, hinted } => match self.attempt(&claim, around, name, hinted) {
                Ok(attempted) => self.conclude(claim, attempted),
                Err(error) => match error.downcast::<ClaimLost>() {
                    Ok(lost) => Ok(self.let_go(&lost)),
                    Err(error) => self.release(claim, error),
                },
            },
            Choice::NoneBefore(until) => {
                let trouble = Trouble::UsageLimit { window: None, resets_at: None };
                let decision = Decision::new(Outcome::Limited, "every model is used up".to_owned());
                self.finish(claim, &decision, SessionRecord::default())?;
                Ok(self.helm.wait_for_the_api(&trouble, until).map(RunEnd::from))
            }
        }
    }

    /// Goes on without a task that was lost before a session began to work on it.
    fn let_go(&mut self, lost: &ClaimLost) -> Option<RunEnd> {
        self.helm.warn(&lost.to_string());
        None
    }

    /// Has an agent work on a claim, and decides what is to become of it.
    fn attempt(
        &mut self,
        claim: &Claim,
        around: Surroundings,
        model: String,
        hinted: bool,
    ) -> Result<Attempted> {
        self.record.hint = None;
        let mut iteration = Iteration {
            number: self.helm.used.iterations + 1,
            task: claim.task,
            attempt: claim.attempt,
            model,
            began: Instant::now(),
            log: String::new(),
            verify_log: None,
            head_before: self.head.clone(),
            cost_usd: 0.0,
            input_tokens: 0,
            output_tokens: 0,
        };
        let brief = self.brief(&around, claim.number);
        let report = self.work(claim, &mut iteration, &around, &brief, hinted)?;
        let (asked, is_ours) = match self.store.asked(claim) {
            Ok(asked) => (asked, true),
            Err(error) if error.is::<ClaimLost>() => (None, false),
            Err(error) => return Err(error),
        };
        let is_empty = asked.is_none() && is_empty(&report.facts, report.ended_by);
        let judgement = judge(claim.task, &report.facts, report.ended_by, asked);
        for remark in &judgement.remarks {
            self.helm.warn(remark);
        }
        let decision = match judgement.verdict {
            _ if is_empty => self.said_nothing(&report, &judgement),
            // What no longer counts need not be verified.
            Verdict::Done { .. } if !is_ours => Decision::new(Outcome::Overruled, None),
            _ => self.decide(&mut iteration, &around, &brief, &report, &judgement)?,
        };
        Ok(Attempted { iteration, around, facts: report.facts, judgement, decision })
    }

    /// A session of an iteration that is told `system`, not started yet, and where its files are.
    pub(super) fn session(
        &self,
        iteration: &Iteration,
        system: &str,
        model: &str,
    ) -> Result<(Scratch, Session)> {
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let mut session = self.plan.session(
            scratch.write("system.md", system)?,
            scratch.path().to_owned(),
            model,
            iteration.context(),
            iteration.number,
            self.plan.agent.servers.write(&scratch)?,
        );
        session.budget_usd = self.helm.cost_left();
        Ok((scratch, session))
    }

    /// Runs the session of an attempt.
    fn work(
        &mut self,
        claim: &Claim,
        iteration: &mut Iteration,
        around: &Surroundings,
        brief: &str,
        hinted: bool,
    ) -> Result<Report> {
        let instructions = self.instructions(claim.task)?;
        let (scratch, session) = self.session(iteration, &instructions, &iteration.model)?;
        let name = claim.attempt.to_string();
        let (path, mut log) = self.plan.places.logs.create(&name, Timestamp::now())?;
        iteration.log = path.to_string_lossy().into_owned();
        self.store.record_session(
            claim,
            &SessionRecord {
                model: Some(iteration.model.clone()),
                log_path: Some(iteration.log.clone()),
                head_before: iteration.head_before.clone(),
                ..SessionRecord::default()
            },
        )?;
        self.tell_start(iteration, claim.number, &around.task.title, hinted)?;
        let report = match self.helm.show(&session, brief, &scratch, &mut log)? {
            Some(report) => report,
            None => {
                let message = scratch.write("prompt.md", brief)?;
                let invocation = session.work(message, &self.plan.agent.permission());
                self.helm.converse(invocation, &mut log, Activity::Working)?
            }
        };
        iteration.add_cost(&report.facts);
        if !report.logged {
            self.helm.warn(&format!("the log `{}` is not complete", iteration.log));
        }
        Ok(report)
    }

    fn tell_start(
        &mut self,
        iteration: &Iteration,
        attempt: u32,
        title: &str,
        hinted: bool,
    ) -> Result<()> {
        self.helm.used.iterations = iteration.number;
        let counts = self.store.counts(&self.plan.target)?;
        let (elapsed, cost_usd) = (self.helm.clock.elapsed(), self.helm.used.cost);
        self.helm.tell(&Event::IterationStart(IterationStart {
            iteration: iteration.number,
            task: Some(iteration.task),
            title,
            attempt,
            attempt_id: Some(iteration.attempt),
            model: &iteration.model,
            hinted,
            done: counts.done,
            total: counts.total,
            elapsed_secs: elapsed.as_secs_f64(),
            cost_usd,
            log: &iteration.log,
        }));
        Ok(())
    }
}
