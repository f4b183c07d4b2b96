//! "Done" means checked: first by commands, then by a second agent that may change nothing.

use anyhow::Result;

use super::Engine;
use super::breaker::{Common, is_empty, not_started};
use super::briefing::Told;
use super::command::Ended;
use super::helm::Break;
use super::iteration::Iteration;
use super::limits::{Reaction, react};
use super::model::Choice;
use super::order::Hiding;
use super::outputs;
use crate::agent::{EndedBy, Facts, Report, Scratch, Trouble};
use crate::dag::{AttemptId, SessionKind, Verification, failed_command};
use crate::event::{Activity, Event, Verifier, Verify, VerifyStatus};
use crate::ops::Role;
use crate::prompt::review::{Check, CheckResult};
use crate::prompt::sigils::{Sigils, Verdict};
use crate::store::Surroundings;
use crate::time::Timestamp;

/// How often work is verified again because the working tree changed meanwhile, or because a session
/// ended without having come to a verdict.
const AGAIN: u32 = 2;
/// How often an agent that gives no verdict is asked again.
const ASKED_AGAIN: u32 = 1;

/// What is said of a verifier whose answer is no verdict.
const BOTH: &str = "the verifier said both that the work is done and that it is not";
const NEITHER: &str = "the verifier did not say whether the work is done";

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checked {
    /// It is done, as far as anybody looked.
    Done(Verification),
    /// It is not.
    NotDone(String),
    /// It is not, but that is not the fault of the task: the run stops, and these earlier attempts do
    /// not count either.
    Stopped { common: Common, alike: Vec<AttemptId> },
    /// A person ended the verification.
    Interrupted,
    /// The working tree changed again and again while it was verified.
    Void,
    /// No session came to a verdict, the last one for this reason.
    Unverified(String),
    /// The time of the run was over.
    OutOfTime,
    /// The money of the run was spent.
    OutOfMoney,
    /// The API refuses for good.
    GiveUp(Trouble),
}

/// The state of a working tree, to tell whether it changes.
#[derive(PartialEq, Eq)]
struct State {
    head: Option<String>,
    /// What is not committed included.
    tree: Option<String>,
    hiding: Hiding,
}

/// What was tried in vain to verify a piece of work.
#[derive(Default)]
struct Tried {
    /// Refusals of the API.
    refusals: u32,
    /// Changes of the working tree under the verifier.
    voids: u32,
    /// Sessions that came to nothing.
    broken: u32,
    /// Answers without a verdict.
    unclear: u32,
    /// Models that can't read so much.
    models: Vec<String>,
}

impl Engine<'_> {
    /// Checks work that is said to be done.
    pub(super) fn verify(
        &mut self,
        iteration: &mut Iteration,
        around: &Surroundings,
        facts: &Facts,
    ) -> Result<Checked> {
        let commands = self.plan.verify.commands.clone();
        let mut checks = Vec::new();
        for command in &commands {
            match self.verify_by_command(iteration, command)? {
                Ok(result) => checks.push(Check { command: command.clone(), result }),
                Err(found) => return Ok(found),
            }
        }
        if self.plan.verify.agent {
            let before = iteration.head_before();
            let told = self.told_to_verify(around, before, &checks, facts.final_message())?;
            return self.verify_by_agent(iteration, &told);
        }
        let verification =
            if commands.is_empty() { Verification::Skipped } else { Verification::Passed };
        Ok(Checked::Done(verification))
    }

    /// Runs a command on the work: how it ended, or what that means if it speaks against the work.
    fn verify_by_command(
        &mut self,
        iteration: &Iteration,
        command: &str,
    ) -> Result<Result<CheckResult, Checked>> {
        let by = Verifier::Command(command);
        self.tell_verify(iteration, by, VerifyStatus::Started, None, None);
        match self.run_check(command)? {
            Ended::Well => {
                self.breaker.passed(command);
                self.tell_verify(iteration, by, VerifyStatus::Passed, None, None);
                Ok(Ok(CheckResult::Passed))
            }
            Ended::Interrupted => Ok(Err(Checked::Interrupted)),
            Ended::Badly { .. } if self.helm.is_out_of_time() => Ok(Err(Checked::OutOfTime)),
            Ended::Badly { how, tail, output } => {
                let mut reason = failed_command(command, &how, &tail);
                match self.known_red.new_failures(command, &how, &output) {
                    Some(new) if new.is_empty() => {
                        let reason = "it fails as it did before any work";
                        self.tell_verify(iteration, by, VerifyStatus::Passed, Some(reason), None);
                        return Ok(Ok(CheckResult::StillRed));
                    }
                    Some(new) => {
                        reason.push_str(&format!("\nnew since the run began:\n{}", new.join("\n")));
                    }
                    None => {}
                }
                self.tell_verify(iteration, by, VerifyStatus::Failed, Some(&reason), None);
                let output = format!("{how}\n{tail}");
                let stopped =
                    self.breaker.failed(command, &output, iteration.task, iteration.attempt);
                Ok(Err(match stopped {
                    Some((common, alike)) => Checked::Stopped { common, alike },
                    None => Checked::NotDone(reason),
                }))
            }
        }
    }

    /// Runs a command of the settings.
    pub(super) fn run_check(&mut self, command: &str) -> Result<Ended> {
        let timeout = [self.plan.verify.timeout, self.helm.time_left()].into_iter().flatten().min();
        self.helm.command(command, timeout, Activity::Verifying)
    }

    fn verify_by_agent(&mut self, iteration: &mut Iteration, told: &Told) -> Result<Checked> {
        let mut tried = Tried::default();
        let mut model = iteration.model.clone();
        loop {
            if self.helm.is_out_of_money() {
                return Ok(Checked::OutOfMoney);
            }
            let (before, state) = (self.keep_tree()?, self.state_of_the_tree()?);
            let report = self.run_verifier(iteration, told, &model)?;
            let changed = self.state_of_the_tree()? != state;
            if changed {
                self.undo(iteration.attempt, before.as_ref())?;
            }
            if is_empty(&report.facts, report.ended_by) {
                match not_started(&report).or_else(|| self.breaker.said_nothing(&report)) {
                    Some(common) => return Ok(Checked::Stopped { common, alike: Vec::new() }),
                    None => continue,
                }
            }
            if report.facts.model_seen {
                self.breaker.spoke();
            }
            let checked = match assess(&report, changed) {
                Assessment::Checked(checked) => checked,
                Assessment::Void if tried.voids < AGAIN => {
                    tried.voids += 1;
                    self.helm.warn("the working tree changed while it was verified: once more");
                    continue;
                }
                Assessment::Void => Checked::Void,
                Assessment::Refused(trouble) => {
                    match self.refused_to_verify(trouble, &mut tried, &mut model) {
                        Some(checked) => checked,
                        None => continue,
                    }
                }
                Assessment::Unclear(reason) if tried.unclear < ASKED_AGAIN => {
                    tried.unclear += 1;
                    self.helm.warn(&format!("{reason}; asking once more"));
                    continue;
                }
                Assessment::Unclear(reason) => Checked::NotDone(unclear_again(&reason, iteration)),
            };
            let status = match checked {
                Checked::Done(_) => VerifyStatus::Passed,
                _ => VerifyStatus::Failed,
            };
            let log = iteration.verify_log.clone();
            self.tell_verify(
                iteration,
                Verifier::Agent,
                status,
                reason_of(&checked),
                log.as_deref(),
            );
            return Ok(checked);
        }
    }

    /// What comes of a verification that the API refuses; none if it is to be tried again, with this
    /// model.
    fn refused_to_verify(
        &mut self,
        trouble: Trouble,
        tried: &mut Tried,
        model: &mut String,
    ) -> Option<Checked> {
        if let Trouble::PromptTooLong(_) = trouble {
            tried.models.push(model.clone());
            let Some(another) = self.plan.strategy.another(&tried.models) else {
                return Some(Checked::Unverified(trouble.to_string()));
            };
            self.helm.warn(&format!("{trouble}: the verification goes on with {another}"));
            another.clone_into(model);
            return None;
        }
        let now = self.helm.clock.now();
        tried.refusals += 1;
        let mut reaction = react(&trouble, tried.refusals, now);
        if let Reaction::Cap { model: used_up, until } = reaction
            && self.plan.strategy.may_switch()
        {
            self.record.capped.insert(used_up.to_owned(), until);
            match self.plan.strategy.choose(&self.record, false, now) {
                Choice::Model { name, .. } => {
                    let goes_on = "the verification goes on with";
                    self.helm.warn(&format!("{used_up} is used up: {goes_on} {name}"));
                    *model = name;
                    return None;
                }
                Choice::NoneBefore(until) => reaction = Reaction::Wait { until },
            }
        }
        match reaction {
            Reaction::Wait { until } | Reaction::Cap { until, .. } => {
                self.helm.wait_for_the_api(&trouble, until).map(|broken_off| match broken_off {
                    Break::Interrupted | Break::Asked => Checked::Interrupted,
                    Break::OutOfTime => Checked::OutOfTime,
                })
            }
            Reaction::GiveUp => Some(Checked::GiveUp(trouble)),
            // The session is to blame, not the work.
            Reaction::Blame if tried.broken < AGAIN => {
                tried.broken += 1;
                tried.refusals = 0;
                self.helm.warn(&format!("the work could not be verified: {trouble}: once more"));
                None
            }
            Reaction::Blame => Some(Checked::Unverified(trouble.to_string())),
        }
    }

    /// What is checked out and what is not committed, where that can be told; but not what we print.
    fn state_of_the_tree(&self) -> Result<Option<State>> {
        let Some(git) = &self.git else { return Ok(None) };
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let tree = git.state(scratch.path(), &outputs::own()).ok();
        Ok(Some(State { head: git.head(), tree, hiding: git.hiding()? }))
    }

    fn run_verifier(
        &mut self,
        iteration: &mut Iteration,
        told: &Told,
        model: &str,
    ) -> Result<Report> {
        let (scratch, session, _broker) =
            self.session(iteration, &told.system, model, Role::Verifier)?;
        let prompt = scratch.write("prompt.md", &told.message)?;
        let invocation = session.verify(prompt, &self.plan.agent.own_rules);
        let name = format!("{}-verify", iteration.attempt);
        let (path, mut log) = self.plan.places.logs.create(&name, Timestamp::now())?;
        let path = path.to_string_lossy().into_owned();
        iteration.verify_log = Some(path.clone());
        self.tell_verify(iteration, Verifier::Agent, VerifyStatus::Started, None, Some(&path));
        let begun = self.begin_session(SessionKind::Verify, iteration, &path)?;
        let report = self.helm.converse(invocation, &mut log, Activity::Verifying)?;
        self.end_session(begun, iteration, &report)?;
        Ok(report)
    }

    fn tell_verify(
        &mut self,
        iteration: &Iteration,
        by: Verifier<'_>,
        status: VerifyStatus,
        reason: Option<&str>,
        log: Option<&str>,
    ) {
        let (number, task) = (iteration.number, Some(iteration.task));
        self.helm.tell(&Event::Verify(Verify { iteration: number, task, by, status, reason, log }));
    }
}

enum Assessment {
    Checked(Checked),
    /// The working tree changed under the verifier, so its verdict is on something else.
    Void,
    Refused(Trouble),
    /// What was said is no verdict.
    Unclear(String),
}

/// What the session of a verifier means.
fn assess(report: &Report, tree_changed: bool) -> Assessment {
    let not_done = |reason: String| Assessment::Checked(Checked::NotDone(reason));
    let unclear = |reason: &str| Assessment::Unclear(reason.to_owned());
    match (report.ended_by, &report.facts.trouble) {
        (EndedBy::Request, _) => return Assessment::Checked(Checked::Interrupted),
        (EndedBy::Deadline, _) => return Assessment::Checked(Checked::OutOfTime),
        (_, Some(Trouble::Budget)) => return Assessment::Checked(Checked::OutOfMoney),
        (_, Some(trouble)) => return Assessment::Refused(trouble.clone()),
        (_, None) => {}
    }
    if tree_changed {
        return Assessment::Void;
    }
    match Sigils::read(report.facts.final_message()).verdict {
        Some(Verdict::Pass) => Assessment::Checked(Checked::Done(Verification::Passed)),
        Some(Verdict::Fail(reason)) => not_done(format!("the verification failed: {reason}")),
        Some(Verdict::Both) => unclear(BOTH),
        None => unclear(NEITHER),
    }
}

/// Why work is not done on which a verifier gave no verdict again, and what a person can do about it.
fn unclear_again(reason: &str, iteration: &Iteration) -> String {
    let (task, attempt) = (iteration.task, iteration.attempt);
    format!(
        "{reason}, also when asked again, so the work does not count as done\n\
         read its answer with `ralph logs {attempt} --verify`; if the work is right, accept it with \
         `ralph task done {task}`"
    )
}

fn reason_of(checked: &Checked) -> Option<&str> {
    match checked {
        Checked::NotDone(reason) | Checked::Unverified(reason) => Some(reason),
        Checked::Done(_)
        | Checked::Stopped { .. }
        | Checked::Interrupted
        | Checked::Void
        | Checked::OutOfTime
        | Checked::OutOfMoney
        | Checked::GiveUp(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::documented::rows;

    #[track_caller]
    fn check(
        answer: &str,
        ended_by: EndedBy,
        trouble: Option<Trouble>,
        changed: bool,
        expected: &str,
    ) {
        let report = Report {
            facts: Facts { last_message: answer.into(), trouble, ..Facts::default() },
            ended_by,
            stderr: String::new(),
            long_lines: 0,
            logged: true,
        };
        let found = match assess(&report, changed) {
            Assessment::Checked(Checked::Done(_)) => "done".to_owned(),
            Assessment::Checked(Checked::NotDone(reason)) => reason,
            Assessment::Checked(other) => format!("{other:?}"),
            Assessment::Refused(trouble) => format!("refused: {trouble}"),
            Assessment::Unclear(reason) => reason,
            Assessment::Void => "void".to_owned(),
        };
        assert_eq!(found, expected, "{answer}");
    }

    #[test]
    fn a_pass_counts_only_when_nothing_else_was_said_or_done() {
        use EndedBy::{Deadline, Itself, Lingering, Request};
        let pass = "<verify-pass/>";
        check(pass, Itself, None, false, "done");
        check(pass, Lingering, None, false, "done");
        check(pass, Itself, None, true, "void");
        check(
            "<verify-fail>no test</verify-fail>",
            Itself,
            None,
            false,
            "the verification failed: no test",
        );
        check("<verify-pass/><verify-fail>x</verify-fail>", Itself, None, false, BOTH);
        check("fine", Itself, None, false, NEITHER);
        check(pass, Request, None, false, "Interrupted");
        check(pass, Deadline, None, false, "OutOfTime");
        check(pass, Itself, Some(Trouble::Budget), false, "OutOfMoney");
        check(pass, Itself, Some(Trouble::Overloaded), false, "refused: the API is overloaded");
    }

    #[test]
    fn what_is_documented_is_what_a_verifier_is_understood_to_say() {
        for (answer, taken) in rows("What a verifier says") {
            check(&answer, EndedBy::Itself, None, false, &taken);
        }
    }
}
