//! The end of an iteration: what is not committed is kept, the outcome recorded, and everybody told.

use anyhow::Result;

use super::decision::{Decision, Then};
use super::iteration::{Attempted, Iteration};
use super::judge::Judgement;
use super::restore::Salvaged;
use super::{Engine, RunEnd};
use crate::agent::{Exit, Facts};
use crate::dag::{Outcome, Status};
use crate::event::{Diff, Event, IterationEnd, Stats};
use crate::prompt::sigils::Promise;
use crate::store::{Claim, ClaimLost, Ending, SessionRecord};

impl Engine<'_> {
    /// Ends an iteration; tells how the run ends if it does by this.
    pub(super) fn conclude(
        &mut self,
        claim: Claim,
        attempted: Attempted,
    ) -> Result<Option<RunEnd>> {
        let Attempted { iteration, around, facts, judgement, mut decision } = attempted;
        let settled = self.settle(&iteration, decision.outcome);
        let (salvage, head) = match &settled {
            Ok(settled) => (settled.salvage.clone(), settled.head.clone()),
            Err(_) => (None, None),
        };
        let session = iteration.record(&facts, head.clone());
        let status = match self.finish(claim, &decision, session) {
            Ok(status) => Some(status),
            Err(error) => {
                let lost = error.downcast::<ClaimLost>()?;
                self.helm.warn(&lost.to_string());
                (decision.outcome, decision.reason) = (lost.loss.outcome(), None);
                self.store.task(lost.task)?.map(|task| task.status.unwrap_or(Status::Pending))
            }
        };
        self.take_note(&iteration, &decision, &judgement)?;
        self.totals.note(&around.task, &decision, status, &iteration);
        self.tell_end(&iteration, &facts, &decision, status);
        self.report_changes(&iteration, head.as_deref(), salvage.as_ref())?;
        self.tell_progress()?;
        self.report_promise(&judgement)?;
        settled?;
        Ok(match decision.then {
            Then::GoOn => None,
            Then::Wait { trouble, until } => {
                self.tree = None;
                self.helm.wait_for_the_api(&trouble, until).map(RunEnd::from)
            }
            Then::End(end) => Some(end),
        })
    }

    /// Gives a claim back because of an error that has nothing to do with the task.
    pub(super) fn release<T>(&mut self, claim: Claim, error: anyhow::Error) -> Result<T> {
        self.settle_after_error(claim.attempt);
        let decision = Decision::new(Outcome::Interrupted, self.helm.in_words(&error));
        // If even this fails, the claim is taken back when this process is gone.
        let _ = self.finish(claim, &decision, SessionRecord::default());
        Err(error)
    }

    pub(super) fn finish(
        &mut self,
        claim: Claim,
        decision: &Decision,
        session: SessionRecord,
    ) -> Result<Status> {
        let ending = Ending {
            reason: decision.reason.clone(),
            for_good: decision.for_good,
            verification: decision.verification,
            session,
            ..Ending::new(decision.outcome, self.plan.max_retries)
        };
        self.store.finish(claim, &ending, self.helm.clock.now())
    }

    /// Tells what was committed, and pushes it if that is wanted.
    fn report_changes(
        &mut self,
        iteration: &Iteration,
        after: Option<&str>,
        kept: Option<&Salvaged>,
    ) -> Result<()> {
        let (number, before) = (iteration.number, iteration.head_before());
        let diff = match &self.git {
            Some(git) if self.plan.git_stats => git.diff(before, after),
            _ => Diff::default(),
        };
        self.totals.add(diff);
        let pushed =
            self.plan.auto_push && after.is_some() && before != after && self.helm.push()?;
        if self.plan.git_stats || kept.is_some() || pushed {
            let (salvage, salvaged) = kept.map(|it| (it.reference.as_str(), it.what)).unzip();
            let head = after;
            let stats = Stats { iteration: number, head, diff, salvage, salvaged, pushed };
            self.helm.tell(&Event::Stats(stats));
        }
        Ok(())
    }

    fn report_promise(&mut self, judgement: &Judgement) -> Result<()> {
        if judgement.promise != Some(Promise::Complete) {
            return Ok(());
        }
        let counts = self.store.counts(&self.plan.target)?;
        if counts.done < counts.total {
            let left = counts.total - counts.done;
            self.helm
                .warn(&format!("the agent said COMPLETE, but {left} tasks are not done; going on"));
        }
        Ok(())
    }

    /// What later choices are made from.
    fn take_note(
        &mut self,
        iteration: &Iteration,
        decision: &Decision,
        judgement: &Judgement,
    ) -> Result<()> {
        match decision.outcome {
            Outcome::Done => self.record.ended(true),
            Outcome::Failed | Outcome::Silent => self.record.ended(false),
            Outcome::Blocked
            | Outcome::Interrupted
            | Outcome::Crashed
            | Outcome::Limited
            | Outcome::Overruled => {}
        }
        if decision.outcome != Outcome::Limited {
            self.refusals = 0;
        }
        let Some(hint) = &judgement.hint else { return Ok(()) };
        if !self.plan.hints {
            if !std::mem::replace(&mut self.told_of_hints, true) {
                self.helm.warn(&format!(
                    "`{hint}` was asked for next; such hints are ignored (--model-lock)"
                ));
            }
            return Ok(());
        }
        self.record.hint = Some(hint.clone());
        let (task, note) =
            (iteration.task.to_string(), format!("asked for the model `{hint}` next"));
        let noted = self.store.note(&task, &note, Some(iteration.attempt), self.helm.clock.now());
        match noted {
            Err(_) if self.store.task(iteration.task)?.is_none() => Ok(()),
            noted => noted.map(|_| ()),
        }
    }

    fn tell_end(
        &mut self,
        iteration: &Iteration,
        facts: &Facts,
        decision: &Decision,
        status: Option<Status>,
    ) {
        self.helm.tell(&Event::IterationEnd(IterationEnd {
            iteration: iteration.number,
            task: Some(iteration.task),
            attempt_id: Some(iteration.attempt),
            outcome: decision.outcome,
            reason: decision.reason.as_deref(),
            status,
            model: &iteration.model,
            duration_secs: iteration.began.elapsed().as_secs_f64(),
            bill: iteration.bill,
            turns: facts.turns,
            log: &iteration.log,
        }));
    }
}

impl Iteration {
    /// What is recorded of it now that it has ended.
    fn record(&self, facts: &Facts, head_after: Option<String>) -> SessionRecord {
        SessionRecord {
            exit_code: facts.exit.map(|exit| match exit {
                Exit::Code(code) => code,
                Exit::Signal(signal) => 128 + signal,
            }),
            bill: Some(self.bill),
            turns: Some(facts.turns.into()),
            session_id: facts.session.clone(),
            head_after,
            verify_log_path: self.verify_log.clone(),
            ..SessionRecord::default()
        }
    }
}
