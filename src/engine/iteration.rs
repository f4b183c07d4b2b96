//! One iteration, from a claim to its record: context, model, session, verdict, verification, outcome.

use std::time::Instant;

use anyhow::Result;

use super::judge::{Judgement, Verdict, judge};
use super::limits::{Reaction, react};
use super::model::Choice;
use super::verify::Checked;
use super::{Engine, RunEnd};
use crate::agent::{self, AttemptContext, Exit, Facts, Report, Scratch, Trouble};
use crate::dag::{Outcome, Status, TaskId, Verification};
use crate::event::{Activity, Event, IterationEnd, IterationStart, Stats};
use crate::prompt::brief::{Blocker, Brief};
use crate::prompt::document::{DOCUMENT_LIMIT, has_text, read};
use crate::prompt::sigils::Promise;
use crate::prompt::{Prompt, Values, skills};
use crate::store::{Claim, ClaimLost, Ending, SessionRecord, Surroundings};
use crate::time::Timestamp;

/// So many sessions in a row that said nothing are a failure for good.
const SILENT: usize = 3;

/// An iteration while it lasts.
pub(super) struct Iteration {
    pub(super) number: u32,
    pub(super) claim: Claim,
    pub(super) model: String,
    pub(super) verify_log: Option<String>,
    began: Instant,
    log: String,
    head_before: Option<String>,
    cost_usd: f64,
    input_tokens: u64,
    output_tokens: u64,
}

impl Iteration {
    /// What a session of it knows of itself.
    pub(super) fn context(&self) -> AttemptContext {
        AttemptContext {
            task: self.claim.task.to_string(),
            attempt: self.claim.attempt.to_string(),
        }
    }

    /// Takes the cost of a session into account.
    pub(super) fn add_cost(&mut self, facts: &Facts) {
        self.cost_usd += facts.cost_usd;
        self.input_tokens += facts.input_tokens;
        self.output_tokens += facts.output_tokens;
    }
}

/// What is to become of an attempt, and of the run after it.
struct Decision {
    outcome: Outcome,
    reason: Option<String>,
    for_good: bool,
    verification: Option<Verification>,
    then: Then,
}

/// What the run does after an iteration.
enum Then {
    GoOn,
    Wait { trouble: Trouble, until: Timestamp },
    End(RunEnd),
}

impl Decision {
    fn new(outcome: Outcome, reason: impl Into<Option<String>>) -> Decision {
        let reason = reason.into();
        Decision { outcome, reason, for_good: false, verification: None, then: Then::GoOn }
    }

    fn then(self, then: Then) -> Decision {
        Decision { then, ..self }
    }
}

impl Engine<'_> {
    /// Works on a claim; tells how the run ends if it does by this.
    pub(super) fn iterate(&mut self, claim: Claim) -> Result<Option<RunEnd>> {
        let task = claim.task;
        let surroundings = match self.store.surroundings(task) {
            Ok(surroundings) => surroundings,
            Err(error) => return self.release(claim, error),
        };
        let now = self.helm.clock.now();
        let chosen = self.plan.strategy.choose(&self.record, last_failed(&surroundings), now);
        let (model, hinted) = match chosen {
            Choice::Model { name, hinted } => (name, hinted),
            Choice::NoneBefore(until) => {
                let reason = Some("every model is used up".to_owned());
                self.finish(
                    claim,
                    &Decision::new(Outcome::Limited, reason),
                    SessionRecord::default(),
                )?;
                let trouble = Trouble::UsageLimit { window: None, resets_at: None };
                return Ok(self.helm.wait_for_the_api(&trouble, until).map(RunEnd::from));
            }
        };
        self.record.hint = None;
        self.helm.used.iterations += 1;
        self.mark_running(&surroundings)?;
        let mut iteration = Iteration {
            number: self.helm.used.iterations,
            claim,
            model,
            verify_log: None,
            began: Instant::now(),
            log: String::new(),
            head_before: self.head.clone(),
            cost_usd: 0.0,
            input_tokens: 0,
            output_tokens: 0,
        };
        let brief = self.brief(&surroundings, iteration.claim.number);
        let worked = self.work_on(&mut iteration, &surroundings, &brief, hinted);
        let (report, judgement) = match worked {
            Ok(worked) => worked,
            Err(error) => return self.release(iteration.claim, error),
        };
        let decision = match self.decide(&mut iteration, &surroundings, &brief, &report, &judgement)
        {
            Ok(decision) => decision,
            Err(error) => return self.release(iteration.claim, error),
        };
        self.conclude(iteration, &surroundings, &report, &judgement, decision)
    }

    /// Gives a claim back because of an error that has nothing to do with the task.
    fn release<T>(&mut self, claim: Claim, error: anyhow::Error) -> Result<T> {
        let reason = Some(format!("{error:#}"));
        // If even this fails, the claim is taken back when this process is gone.
        let _ = self.finish(
            claim,
            &Decision::new(Outcome::Interrupted, reason),
            SessionRecord::default(),
        );
        Err(error)
    }

    /// Runs the session of an attempt, and judges it.
    fn work_on(
        &mut self,
        iteration: &mut Iteration,
        surroundings: &Surroundings,
        brief: &str,
        hinted: bool,
    ) -> Result<(Report, Judgement)> {
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let system = scratch.write("system.md", &self.instructions(iteration.claim.task)?)?;
        let message = scratch.write("prompt.md", brief)?;
        let mut session = self.plan.session(
            system,
            scratch.path().to_owned(),
            &iteration.model,
            iteration.context(),
            iteration.number,
        );
        session.budget_usd = self.helm.cost_left();
        let name = iteration.claim.attempt.to_string();
        let (path, mut log) = agent::log::create(&self.plan.places.logs, &name, Timestamp::now())?;
        iteration.log = path.to_string_lossy().into_owned();
        self.store.record_session(
            &iteration.claim,
            &SessionRecord {
                model: Some(iteration.model.clone()),
                log_path: Some(iteration.log.clone()),
                head_before: iteration.head_before.clone(),
                ..SessionRecord::default()
            },
        )?;
        self.tell_start(iteration, &surroundings.task.title, hinted)?;
        let report = match self.helm.show(&session, brief, &scratch, &mut log)? {
            Some(report) => report,
            None => {
                let invocation = session.work(message, &self.plan.agent.permission());
                self.helm.converse(invocation, &mut log, Activity::Working)?
            }
        };
        iteration.add_cost(&report.facts);
        if !report.logged {
            self.helm.warn(&format!("the log `{}` is not complete", iteration.log));
        }
        let asked = self.store.asked(&iteration.claim)?;
        let judgement = judge(iteration.claim.task, &report.facts, report.ended_by, asked);
        for remark in &judgement.remarks {
            self.helm.warn(remark);
        }
        Ok((report, judgement))
    }

    /// What is to become of an attempt.
    fn decide(
        &mut self,
        iteration: &mut Iteration,
        surroundings: &Surroundings,
        brief: &str,
        report: &Report,
        judgement: &Judgement,
    ) -> Result<Decision> {
        let failure = judgement.promise == Some(Promise::Failure);
        let then = || if failure { Then::End(RunEnd::Failure) } else { Then::GoOn };
        Ok(match judgement.verdict.clone() {
            Verdict::Done { doubtful } => {
                self.check_done(iteration, brief, doubtful)?.then_unless_ended(then())
            }
            Verdict::Failed(reason) => Decision::new(Outcome::Failed, reason).then(then()),
            Verdict::Blocked(question) => Decision::new(Outcome::Blocked, question).then(then()),
            Verdict::Silent(_) if failure => {
                Decision::new(Outcome::Interrupted, "the agent stopped the run".to_owned())
                    .then(then())
            }
            Verdict::Silent(reason) => {
                let for_good = said_nothing_too_often(surroundings);
                Decision { for_good, ..Decision::new(Outcome::Silent, reason) }
            }
            Verdict::Interrupted => interrupted(),
            Verdict::OutOfTime => out_of_time(),
            Verdict::OutOfMoney => {
                let reason = "the cost of the run is reached".to_owned();
                Decision::new(Outcome::Limited, reason)
                    .then(Then::End(RunEnd::Limit(super::Reached::Cost)))
            }
            Verdict::Refused(trouble) => self.refused(trouble, report),
        })
    }

    fn check_done(
        &mut self,
        iteration: &mut Iteration,
        brief: &str,
        doubtful: bool,
    ) -> Result<Decision> {
        Ok(match self.verify(iteration, brief)? {
            Checked::Done(Verification::Skipped) if doubtful => Decision::new(
                Outcome::Silent,
                "the agent said both that it is done and that it is not".to_owned(),
            ),
            Checked::Done(verification) => {
                Decision { verification: Some(verification), ..Decision::new(Outcome::Done, None) }
            }
            Checked::NotDone(reason) => Decision {
                verification: Some(Verification::Failed),
                ..Decision::new(Outcome::Failed, reason)
            },
            Checked::Interrupted => interrupted(),
            Checked::OutOfTime => out_of_time(),
            Checked::GiveUp(trouble) => Decision::new(Outcome::Limited, trouble.to_string())
                .then(Then::End(RunEnd::Refused(trouble))),
        })
    }

    fn refused(&mut self, trouble: Trouble, report: &Report) -> Decision {
        self.refusals += 1;
        let reason = trouble.to_string();
        let limited = Decision::new(Outcome::Limited, reason.clone());
        match react(&trouble, self.refusals, self.helm.clock.now()) {
            Reaction::Wait { until } => limited.then(Then::Wait { trouble, until }),
            Reaction::Cap { model, until } if self.plan.strategy.may_switch() => {
                self.record.capped.insert(model.to_owned(), until);
                limited
            }
            Reaction::Cap { until, .. } => limited.then(Then::Wait { trouble, until }),
            Reaction::GiveUp => limited.then(Then::End(RunEnd::Refused(trouble))),
            Reaction::Blame => {
                self.refusals = 0;
                let words = report.last_words().map_or(String::new(), |it| format!("\n{it}"));
                let exit = match report.facts.exit {
                    Some(Exit::Code(code)) if code != 0 => format!(" (exit code {code})"),
                    Some(Exit::Signal(signal)) => format!(" (signal {signal})"),
                    _ => String::new(),
                };
                Decision::new(Outcome::Failed, format!("{reason}{exit}{words}"))
            }
        }
    }

    /// Keeps what is not committed, records the outcome, and tells everybody.
    fn conclude(
        &mut self,
        iteration: Iteration,
        surroundings: &Surroundings,
        report: &Report,
        judgement: &Judgement,
        decision: Decision,
    ) -> Result<Option<RunEnd>> {
        let salvage = self.salvage(&iteration, &decision)?;
        let head_after = self.look_at_head();
        let facts = &report.facts;
        let session = SessionRecord {
            exit_code: facts.exit.map(|exit| match exit {
                Exit::Code(code) => code,
                Exit::Signal(signal) => 128 + signal,
            }),
            cost_usd: Some(iteration.cost_usd),
            input_tokens: Some(iteration.input_tokens.cast_signed()),
            output_tokens: Some(iteration.output_tokens.cast_signed()),
            turns: Some(facts.turns.into()),
            session_id: facts.session.clone(),
            head_after: head_after.clone(),
            verify_log_path: iteration.verify_log.clone(),
            ..SessionRecord::default()
        };
        let Iteration { claim, number, model, log, began, head_before, cost_usd, .. } = iteration;
        let (task, attempt) = (claim.task, claim.attempt);
        let status = match self.finish(claim, &decision, session) {
            Ok(status) => status,
            Err(error) if error.is::<ClaimLost>() => {
                self.helm.warn(&error.to_string());
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if let Some(hint) = &judgement.hint {
            self.record.hint = Some(hint.clone());
            let note = format!("asked for the model `{hint}` next");
            self.store.note(&task.to_string(), &note, Some(attempt), self.helm.clock.now())?;
        }
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
        let duration_secs = began.elapsed().as_secs_f64();
        let reason = decision.reason.as_deref();
        self.totals.note(
            &surroundings.task,
            &decision.outcome,
            status,
            reason,
            cost_usd,
            duration_secs,
        );
        self.totals.input_tokens += iteration.input_tokens;
        self.totals.output_tokens += iteration.output_tokens;
        self.helm.tell(&Event::IterationEnd(IterationEnd {
            iteration: number,
            task: Some(task),
            attempt_id: Some(attempt),
            outcome: decision.outcome,
            reason,
            status: Some(status),
            model: &model,
            duration_secs,
            cost_usd,
            input_tokens: iteration.input_tokens,
            output_tokens: iteration.output_tokens,
            turns: facts.turns,
            log: &log,
        }));
        self.report_changes(
            number,
            head_before.as_deref(),
            head_after.as_deref(),
            salvage.as_deref(),
        )?;
        self.tell_progress()?;
        self.report_promise(judgement)?;
        match decision.then {
            Then::GoOn => Ok(None),
            Then::Wait { trouble, until } => {
                Ok(self.helm.wait_for_the_api(&trouble, until).map(RunEnd::from))
            }
            Then::End(end) => Ok(Some(end)),
        }
    }

    fn finish(
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

    /// Keeps what an attempt without success has not committed.
    fn salvage(&mut self, iteration: &Iteration, decision: &Decision) -> Result<Option<String>> {
        let Some(git) = self.git.as_ref().filter(|_| decision.outcome != Outcome::Done) else {
            return Ok(None);
        };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        Ok(git.salvage(iteration.claim.attempt, scratch.path()))
    }

    /// Tells what was committed, and pushes it if that is wanted.
    fn report_changes(
        &mut self,
        iteration: u32,
        before: Option<&str>,
        after: Option<&str>,
        salvage: Option<&str>,
    ) -> Result<()> {
        let diff = match &self.git {
            Some(git) if self.plan.git_stats => git.diff(before, after),
            _ => crate::event::Diff::default(),
        };
        self.totals.add(diff);
        let pushed =
            self.plan.auto_push && after.is_some() && before != after && self.helm.push()?;
        if self.plan.git_stats || salvage.is_some() || pushed {
            self.helm.tell(&Event::Stats(Stats { iteration, head: after, diff, salvage, pushed }));
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

    fn tell_start(&mut self, iteration: &Iteration, title: &str, hinted: bool) -> Result<()> {
        let counts = self.store.counts(&self.plan.target)?;
        let (elapsed, cost_usd) = (self.helm.clock.elapsed(), self.helm.used.cost);
        self.helm.tell(&Event::IterationStart(IterationStart {
            iteration: iteration.number,
            task: Some(iteration.claim.task),
            title,
            attempt: iteration.claim.number,
            attempt_id: Some(iteration.claim.attempt),
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
            attempt: (attempt, attempt.max(attempt + retries - around.task.retries.min(retries))),
            salvage,
            spec: feature.and_then(|it| document(&it.spec_path)),
            plan: feature.and_then(|it| document(&it.plan_path)),
            skills: skills::find(&self.plan.places.skills),
        }
        .into_text()
    }
}

impl Decision {
    /// What comes after, unless the run ends anyway.
    fn then_unless_ended(self, then: Then) -> Decision {
        match self.then {
            Then::GoOn => self.then(then),
            Then::Wait { .. } | Then::End(_) => self,
        }
    }
}

fn interrupted() -> Decision {
    Decision::new(Outcome::Interrupted, None).then(Then::End(RunEnd::Interrupted))
}

fn out_of_time() -> Decision {
    Decision::new(Outcome::Limited, "the time of the run was over".to_owned())
        .then(Then::End(RunEnd::Limit(super::Reached::Time)))
}

pub(super) fn last_failed(surroundings: &Surroundings) -> bool {
    let last = surroundings.attempts.iter().rev().find_map(|attempt| match attempt.outcome? {
        Outcome::Failed | Outcome::Silent => Some(true),
        Outcome::Done | Outcome::Blocked => Some(false),
        Outcome::Interrupted | Outcome::Crashed | Outcome::Limited | Outcome::Overruled => None,
    });
    last.unwrap_or(false)
}

/// Whether the last sessions said nothing either; those that were not allowed to end do not count.
fn said_nothing_too_often(surroundings: &Surroundings) -> bool {
    let is_silent = |outcome: Outcome| match outcome {
        Outcome::Silent => Some(true),
        Outcome::Done | Outcome::Failed | Outcome::Blocked => Some(false),
        Outcome::Interrupted | Outcome::Crashed | Outcome::Limited | Outcome::Overruled => None,
    };
    let outcomes = surroundings.attempts.iter().rev().filter_map(|it| it.outcome);
    outcomes.filter_map(is_silent).take_while(|&silent| silent).take(SILENT - 1).count()
        == SILENT - 1
}
