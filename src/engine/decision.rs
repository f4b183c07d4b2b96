//! What is to become of an attempt, and of the run after it.

use anyhow::Result;

use super::breaker::{Common, not_started};
use super::iteration::Iteration;
use super::judge::{Judgement, Verdict};
use super::limits::{Reaction, react};
use super::shorter::Next;
use super::verify::Checked;
use super::{Engine, Reached, RunEnd};
use crate::agent::{Report, Trouble};
use crate::dag::{Outcome, Verification};
use crate::prompt::sigils::Promise;
use crate::store::Surroundings;
use crate::time::Timestamp;

/// So many sessions in a row that said nothing are a failure for good.
const SILENT: usize = 3;

/// What is to become of an attempt, and of the run after it.
pub(super) struct Decision {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    pub(super) for_good: bool,
    pub(super) verification: Option<Verification>,
    pub(super) then: Then,
}

/// What the run does after an iteration.
pub(super) enum Then {
    GoOn,
    Wait { trouble: Trouble, until: Timestamp },
    End(RunEnd),
}

impl Decision {
    pub(super) fn new(outcome: Outcome, reason: impl Into<Option<String>>) -> Decision {
        let reason = reason.into();
        Decision { outcome, reason, for_good: false, verification: None, then: Then::GoOn }
    }

    pub(super) fn then(self, then: Then) -> Decision {
        Decision { then, ..self }
    }

    /// The same, with what was wrong with the repository among its reasons. A question stays a question.
    pub(super) fn with(mut self, wrong: Option<String>) -> Decision {
        if let Some(wrong) = wrong
            && !matches!(self.outcome, Outcome::Blocked | Outcome::Done)
        {
            self.reason = match self.reason {
                Some(reason) if reason.contains(&wrong) => Some(reason),
                Some(reason) => Some(format!("{reason}\n{wrong}")),
                None => Some(wrong),
            };
        }
        self
    }

    /// What comes after, unless the run ends anyway.
    fn then_unless_ended(self, then: Then) -> Decision {
        match self.then {
            Then::GoOn => self.then(then),
            Then::Wait { .. } | Then::End(_) => self,
        }
    }
}

impl Engine<'_> {
    /// What is to become of an attempt.
    pub(super) fn decide(
        &mut self,
        iteration: &mut Iteration,
        surroundings: &Surroundings,
        report: &Report,
        judgement: &Judgement,
    ) -> Result<Decision> {
        if report.facts.model_seen {
            self.breaker.spoke();
        }
        let failure = judgement.promise == Some(Promise::Failure);
        let then = || if failure { Then::End(RunEnd::Failure) } else { Then::GoOn };
        Ok(match judgement.verdict.clone() {
            Verdict::Done { doubt } => {
                self.check_done(iteration, surroundings, report, doubt)?.then_unless_ended(then())
            }
            Verdict::Failed(reason) => Decision::new(Outcome::Failed, reason).then(then()),
            Verdict::Blocked(question) => Decision::new(Outcome::Blocked, question).then(then()),
            Verdict::Silent(_) if failure => {
                Decision::new(Outcome::Interrupted, "the agent stopped the run".to_owned())
                    .then(then())
            }
            Verdict::Silent(mut reason) => {
                if report.facts.answer.is_empty() {
                    reason.push_str(&report.why_failed());
                }
                let for_good = said_nothing_too_often(surroundings);
                Decision { for_good, ..Decision::new(Outcome::Silent, reason) }
            }
            Verdict::Interrupted => self.interrupted(),
            Verdict::OutOfTime => out_of_time(),
            Verdict::OutOfMoney => out_of_money(),
            // In the middle of the work it is not the prompt that is too long.
            Verdict::Refused(trouble @ Trouble::PromptTooLong(_)) if !report.facts.model_seen => {
                self.too_long(iteration, &trouble)
            }
            Verdict::Refused(trouble) => self.refused(trouble, report),
        })
    }

    /// What is to become of an attempt in which the model did not say a word: its task is as good as
    /// before, and the run goes on unless that happens again and again.
    pub(super) fn said_nothing(&mut self, report: &Report, judgement: &Judgement) -> Decision {
        let reason = match &judgement.verdict {
            Verdict::Refused(trouble) => trouble.to_string(),
            Verdict::Silent(reason) => reason.clone(),
            _ => Trouble::NoResult.to_string(),
        };
        let decision = Decision::new(Outcome::Crashed, format!("{reason}{}", report.why_failed()));
        match not_started(report).or_else(|| self.breaker.said_nothing(report)) {
            Some(common) => decision.then(Then::End(RunEnd::Breaker(common))),
            None => decision,
        }
    }

    fn check_done(
        &mut self,
        iteration: &mut Iteration,
        around: &Surroundings,
        report: &Report,
        doubt: Option<String>,
    ) -> Result<Decision> {
        Ok(match self.verify(iteration, around, &report.facts)? {
            Checked::Done(Verification::Skipped) if doubt.is_some() => {
                Decision::new(Outcome::Silent, doubt)
            }
            Checked::Done(verification) => {
                Decision { verification: Some(verification), ..Decision::new(Outcome::Done, None) }
            }
            Checked::NotDone(reason) => Decision {
                verification: Some(Verification::Failed),
                ..Decision::new(Outcome::Failed, reason)
            },
            Checked::Stopped { common, alike } => {
                let reason = format!("not counted: {common}");
                for task in self.store.excuse(&alike, &reason, self.helm.clock.now())? {
                    self.totals.excuse(task, &reason);
                }
                Decision::new(Outcome::Interrupted, reason).then(Then::End(RunEnd::Breaker(common)))
            }
            Checked::Interrupted => self.interrupted(),
            Checked::Void => {
                let reason = "not counted: the working tree changed whenever it was verified";
                let decision = Decision::new(Outcome::Interrupted, reason.to_owned());
                match self.breaker.void(iteration.task) {
                    Some(common) => decision.then(Then::End(RunEnd::Breaker(common))),
                    None => decision,
                }
            }
            Checked::Unverified(why) => {
                let common = Common::Unverified { task: iteration.task, why };
                Decision::new(Outcome::Interrupted, format!("not counted: {common}"))
                    .then(Then::End(RunEnd::Breaker(common)))
            }
            Checked::OutOfTime => out_of_time(),
            Checked::OutOfMoney => out_of_money(),
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
                Decision::new(Outcome::Failed, format!("{reason}{}", report.why_failed()))
            }
        }
    }

    /// What is to become of an attempt whose prompt was too long: nothing is its fault while there is
    /// something else to try.
    fn too_long(&mut self, iteration: &Iteration, trouble: &Trouble) -> Decision {
        let length = iteration.prompt_tokens;
        let (model, strategy) = (iteration.model.as_str(), &self.plan.strategy);
        let limited = |next: String| Decision::new(Outcome::Limited, format!("{trouble}; {next}"));
        match self.shorter.refused(iteration.task, length, model, strategy) {
            Next::Cut(room) => {
                limited(format!("the prompt of some {length} tokens is cut to {room} next"))
            }
            Next::Model(other) => limited(format!("`{other}` is tried next instead of `{model}`")),
            Next::Nothing => {
                let reason = format!(
                    "{trouble}; the prompt has some {length} tokens, and nothing else is left to try: \
                     make the task, its spec or its plan shorter"
                );
                Decision { for_good: true, ..Decision::new(Outcome::Failed, reason) }
            }
        }
    }

    fn interrupted(&self) -> Decision {
        let reason = self.helm.is_unheard().then(|| RunEnd::Unheard.to_string());
        Decision::new(Outcome::Interrupted, reason).then(Then::End(RunEnd::Interrupted))
    }
}

fn out_of_money() -> Decision {
    Decision::new(Outcome::Limited, "the run's cost limit was reached".to_owned())
        .then(Then::End(RunEnd::Limit(Reached::Cost)))
}

fn out_of_time() -> Decision {
    Decision::new(Outcome::Limited, "the run's time limit was reached".to_owned())
        .then(Then::End(RunEnd::Limit(Reached::Time)))
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
