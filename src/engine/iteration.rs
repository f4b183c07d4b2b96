//! One iteration up to its verdict: context, model, session, judgement, verification.

use std::time::Instant;

use anyhow::Result;

use super::breaker::is_empty;
use super::briefing::Told;
use super::decision::{Decision, last_failed};
use super::judge::{Judgement, Verdict, judge};
use super::model::{Choice, Strategy};
use super::order::{self, in_words};
use super::restore::Before;
use super::{Engine, RunEnd};
use crate::agent::{AttemptContext, Facts, Report, Scratch, Session, Trouble};
use crate::broker::Broker;
use crate::dag::{AttemptId, Bill, FeatureId, Outcome, SessionId, SessionKind, TaskId};
use crate::event::{Activity, Event, IterationStart};
use crate::ops::Role;
use crate::prompt::brief::reminder;
use crate::store::{Claim, ClaimLost, NewSession, SessionRecord, Surroundings};
use crate::time::Timestamp;

/// An iteration while it lasts.
pub(super) struct Iteration {
    pub(super) number: u32,
    pub(super) task: TaskId,
    pub(super) attempt: AttemptId,
    pub(super) feature: Option<FeatureId>,
    pub(super) model: String,
    pub(super) began: Instant,
    pub(super) log: String,
    pub(super) verify_log: Option<String>,
    /// What the working tree was like before it; none outside a repository.
    pub(super) before: Option<Before>,
    /// What the working tree is like after it, if nothing has run since that could have changed it.
    pub(super) after: Option<order::Facts>,
    /// About how long the prompt is.
    pub(super) prompt_tokens: usize,
    /// What its sessions have used.
    pub(super) bill: Bill,
}

/// A session that has begun.
pub(super) struct Begun {
    id: SessionId,
    session: NewSession,
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

    /// The commit that was checked out before it.
    pub(super) fn head_before(&self) -> Option<&str> {
        self.before.as_ref()?.facts.head.as_deref()
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
        let choice = match self.shorter.model(claim.task) {
            Some(model) => Strategy::only(model, &self.record, now),
            None => self.plan.strategy.choose(&self.record, last_failed(&around), now),
        };
        match choice {
            Choice::Model { name, hinted } => match self.attempt(&claim, around, name, hinted) {
                Ok(attempted) => self.conclude(claim, attempted),
                Err(error) => match error.downcast::<ClaimLost>() {
                    Ok(lost) => {
                        self.settle_after_error(claim.attempt);
                        Ok(self.let_go(&lost))
                    }
                    Err(error) => self.release(claim, error),
                },
            },
            Choice::NoneBefore(until) => {
                let trouble = Trouble::UsageLimit { window: None, resets_at: None };
                let decision = Decision::new(
                    Outcome::Limited,
                    "every model that may be taken is used up".to_owned(),
                );
                self.finish(claim, &decision, SessionRecord::default())?;
                self.tree = None;
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
            feature: around.task.feature,
            model,
            began: Instant::now(),
            log: String::new(),
            verify_log: None,
            before: self.mark(claim.attempt)?,
            after: None,
            prompt_tokens: 0,
            bill: Bill::default(),
        };
        let report = self.work(claim, &mut iteration, &around, hinted)?;
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
        let seen = self.see(&iteration);
        let decision = match judgement.verdict {
            _ if is_empty => self.said_nothing(&report, &judgement),
            // What no longer counts need not be verified.
            Verdict::Done { .. } if !is_ours => Decision::new(Outcome::Overruled, None),
            Verdict::Done { .. } => match self.not_in_order(&iteration, &around, &seen) {
                Some(reason) => Decision::new(Outcome::Failed, reason),
                None => self.decide(&mut iteration, &around, &report, &judgement)?,
            },
            _ => self.decide(&mut iteration, &around, &report, &judgement)?,
        };
        let seen = seen.ok().flatten();
        let decision = decision.with(seen.as_ref().and_then(|it| in_words(&it.disorder)));
        iteration.after = seen.filter(|it| self.is_settled(&iteration, it)).map(|it| it.facts);
        Ok(Attempted { iteration, around, facts: report.facts, judgement, decision })
    }

    /// A session of an iteration that is told `system`, not started yet, where its files are, and what answers
    /// `ralph` in it.
    pub(super) fn session(
        &self,
        iteration: &Iteration,
        system: &str,
        model: &str,
        role: Role,
    ) -> Result<(Scratch, Session, Broker)> {
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let broker = Broker::serve(scratch.path(), &self.plan.places.database, role)?;
        let mut session = self.plan.session(
            scratch.write("system.md", system)?,
            scratch.path().to_owned(),
            model,
            iteration.context(),
            iteration.number,
            self.plan.agent.servers.write(&scratch)?,
        );
        session.socket = Some(broker.socket().to_owned());
        session.budget_usd = self.helm.cost_left();
        Ok((scratch, session, broker))
    }

    /// Runs the session of an attempt.
    fn work(
        &mut self,
        claim: &Claim,
        iteration: &mut Iteration,
        around: &Surroundings,
        hinted: bool,
    ) -> Result<Report> {
        let tree = iteration.before.as_ref().map(|before| &before.facts);
        let told = self.told(around, claim.number, tree)?;
        iteration.prompt_tokens = told.tokens();
        let Told { system, message } = told;
        let name = claim.attempt.to_string();
        let (path, mut log) = self.plan.places.logs.create(&name, Timestamp::now())?;
        iteration.log = path.to_string_lossy().into_owned();
        self.store.record_session(
            claim,
            &SessionRecord {
                model: Some(iteration.model.clone()),
                log_path: Some(iteration.log.clone()),
                head_before: iteration.head_before().map(str::to_owned),
                ..SessionRecord::default()
            },
        )?;
        self.tell_start(iteration, claim.number, &around.task.title, hinted)?;
        let begun = self.begin_session(SessionKind::Work, iteration, &iteration.log)?;
        let prepared = |engine: &Self, iteration: &Iteration| {
            let role = Role::Worker { attempt: claim.attempt, task: claim.task };
            let (scratch, mut session, broker) =
                engine.session(iteration, &system, &iteration.model, role)?;
            session.reminder = Some(scratch.write("reminder.md", &reminder(&around.task))?);
            anyhow::Ok((scratch, session, broker))
        };
        let mut shown = None;
        if self.helm.has_terminal() {
            let (scratch, session, _broker) = prepared(self, iteration)?;
            shown = self.helm.show(&session, &message, &scratch, &mut log)?;
        }
        let report = match shown {
            Some(report) => report,
            None => {
                let (scratch, session, _broker) = prepared(self, iteration)?;
                let message = scratch.write("prompt.md", &message)?;
                let invocation = session.work(message, &self.plan.agent.permission());
                self.helm.converse(invocation, &mut log, Activity::Working)?
            }
        };
        self.end_session(begun, iteration, &report)?;
        if !report.logged {
            self.helm.warn(&format!("the log `{}` is not complete", iteration.log));
        }
        Ok(report)
    }

    /// Records that a session of an attempt begins.
    pub(super) fn begin_session(
        &mut self,
        kind: SessionKind,
        iteration: &Iteration,
        log: &str,
    ) -> Result<Begun> {
        let session = NewSession {
            attempt: Some(iteration.attempt),
            task: Some(iteration.task),
            feature: iteration.feature,
            run: Some(self.helm.run),
            model: Some(iteration.model.clone()),
            log_path: Some(log.to_owned()),
            ..NewSession::new(kind, self.helm.clock.now())
        };
        Ok(Begun { id: self.store.begin_session(&session)?, session })
    }

    /// Records how a session of an attempt ended, and what it has used.
    pub(super) fn end_session(
        &mut self,
        begun: Begun,
        iteration: &mut Iteration,
        report: &Report,
    ) -> Result<()> {
        iteration.bill.add(&report.facts.bill);
        let session = NewSession {
            model: report.facts.model.clone().or(begun.session.model),
            bill: report.facts.bill,
            session_id: report.facts.session.clone(),
            ..begun.session
        };
        self.store.end_session(begun.id, &session, self.helm.clock.now())
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
