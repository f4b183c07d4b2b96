//! The plain loop: the same prompt again and again, without a DAG, until the agent, its plan or a file
//! says that it is complete.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::bell::Bell;
use super::breaker::{Breaker, is_empty, not_started};
use super::checklist::Checklist;
use super::clock::Clock;
use super::helm::{Break, Helm};
use super::limits::{Reaction, react};
use super::lock::TreeLock;
use super::loop_plan::{LoopPlan, PLAN};
use super::loop_tree::{LoopTree, Settled};
use super::restore::Salvaged;
use super::sentinels::{DING, DONE, Sentinels};
use super::stop::Reached;
use super::totals::Totals;
use super::{Finished, RunEnd};
use crate::agent::sandbox::Stance;
use crate::agent::{
    self, EndedBy, Facts, Invocation, Mailbox, Report, Scratch, Session, Stdin, Trouble,
};
use crate::broker::Broker;
use crate::dag::{Bill, Outcome, RunId, SessionId, SessionKind};
use crate::event::{
    Activity, Diff, Event, IterationEnd, IterationStart, Progress, RunCommand, Start, Stats, View,
};
use crate::money;
use crate::ops::Role;
use crate::prompt::sigils::{Promise, promised_at_the_end, promised_on_screen};
use crate::store::{NewSession, Store};
use crate::time::Timestamp;

/// How an iteration went.
struct Iteration {
    outcome: Outcome,
    reason: Option<String>,
    facts: Facts,
    log: String,
    end: Option<RunEnd>,
    /// The iteration does not count: it is tried again at this time.
    again: Option<(Trouble, Timestamp)>,
}

/// A session that has begun.
struct Begun {
    id: SessionId,
    session: NewSession,
    /// Where its output goes; none if the agent has the terminal.
    log: Option<File>,
}

impl Begun {
    /// The path of its log; nothing if it has none.
    fn log_path(&self) -> String {
        self.session.log_path.clone().unwrap_or_default()
    }
}

/// Runs the same prompt again and again. With a `store`, what its sessions cost is recorded.
pub fn run_loop(
    store: Option<Store>,
    plan: &LoopPlan,
    lock: &TreeLock,
    mailbox: &Mailbox,
    clock: &Clock,
    view: &mut dyn View,
) -> Result<Finished> {
    let tree = LoopTree::find(plan)?;
    let run = RunId::from_bits(getrandom::u32().unwrap_or_default());
    lock.sign(run, clock.now());
    Scratch::sweep(&plan.places.temporary);
    let helm = Helm::new(&plan.agent, &plan.places, plan.bounds, mailbox, clock, view, run);
    let mut plain = Plain {
        plan,
        store,
        helm,
        tree,
        sentinels: Sentinels::of_a_loop(&plan.places.root),
        head: None,
        breaker: Breaker::default(),
        refusals: 0,
        totals: Totals::default(),
    };
    let end = plain.go();
    Ok(plain.finish(end))
}

struct Plain<'a> {
    plan: &'a LoopPlan,
    /// None outside a project.
    store: Option<Store>,
    helm: Helm<'a>,
    /// None outside a repository.
    tree: Option<LoopTree>,
    sentinels: Sentinels,
    head: Option<String>,
    breaker: Breaker,
    /// Refusals of the API in a row.
    refusals: u32,
    totals: Totals,
}

impl Plain<'_> {
    fn go(&mut self) -> Result<RunEnd> {
        self.head = self.tree.as_ref().and_then(|tree| tree.git.head());
        self.tell_beginning();
        if self.checklist().is_complete() {
            let how = "every item of the plan is ticked off already";
            return Ok(RunEnd::Signalled(how.to_owned()));
        }
        if let Some(end) = self.held_back() {
            return Ok(end);
        }
        if let Some(end) = self.helm.try_agent()? {
            return Ok(end);
        }
        loop {
            if let Some(end) = self.held_back() {
                return Ok(end);
            }
            let began = Instant::now();
            self.helm.used.iterations += 1;
            let (iteration, salvage) = self.iterate()?;
            self.tell_end(&iteration, began.elapsed());
            self.report_changes(salvage.as_ref())?;
            if let Some(end) = iteration.end.or_else(|| self.completed(&iteration.facts)) {
                return Ok(end);
            }
            let broken_off = match iteration.again {
                Some((trouble, until)) => {
                    self.helm.used.iterations -= 1;
                    self.helm.wait_for_the_api(&trouble, until)
                }
                None if self.is_last() => None,
                None => self.helm.wait_between(self.plan.pause),
            };
            if let Some(reason) = broken_off {
                return Ok(self.broken_off(reason));
            }
        }
    }

    /// How the loop ends whose wait was broken off. What asks a run to end completes a loop.
    fn broken_off(&self, reason: Break) -> RunEnd {
        match reason {
            Break::Asked => RunEnd::Signalled(format!("`{DONE}` was made")),
            Break::Interrupted | Break::OutOfTime => reason.into(),
        }
    }

    fn held_back(&mut self) -> Option<RunEnd> {
        let is_unheard = self.helm.is_unheard();
        if !is_unheard && self.helm.is_asked_to_stop() {
            return Some(RunEnd::Interrupted);
        }
        let reached = self.plan.bounds.reached(&self.helm.used());
        if !is_unheard
            && reached.is_none()
            && let Some(reason) = self.helm.pause()
        {
            return Some(self.broken_off(reason));
        }
        // A pause takes time, too.
        let reached = self.plan.bounds.reached(&self.helm.used());
        reached.map(RunEnd::Limit).or(is_unheard.then_some(RunEnd::Unheard))
    }

    fn is_last(&self) -> bool {
        self.plan.bounds.reached(&self.helm.used()).is_some()
    }

    /// Runs a session, and puts the working tree in order however it ended. Returns where is kept what does
    /// not stay in the tree.
    fn iterate(&mut self) -> Result<(Iteration, Option<Salvaged>)> {
        let prompt = self.prompt()?;
        let scratch = Scratch::new(&self.plan.places.temporary)?;
        let mut begun = self.begin_session()?;
        let marked = self.tree.as_mut().map(|tree| tree.mark(begun.id)).transpose()?;
        let iteration = match begun.log.take() {
            None => self.hand_over(&prompt, &scratch, &begun),
            Some(mut log) => self.watch(&prompt, &scratch, &begun, &mut log),
        };
        let settled = match (&mut self.tree, &marked) {
            (Some(tree), Some(marked)) => tree.settle(marked),
            _ => Ok(Settled::default()),
        };
        // If both fail, what broke the session off says more.
        let iteration = iteration?;
        self.end_session(begun, &iteration.facts)?;
        let settled = settled?;
        for remark in &settled.remarks {
            self.helm.warn(remark);
        }
        Ok((iteration, settled.salvage))
    }

    /// Records that a session begins, where that is recorded.
    fn begin_session(&mut self) -> Result<Begun> {
        let mut session = NewSession {
            run: Some(self.helm.run),
            model: self.plan.model.clone(),
            ..NewSession::new(SessionKind::Loop, self.helm.clock.now())
        };
        let mut log = None;
        if self.plan.passthrough {
            session.session_id = Some(agent::new_session_name());
        } else {
            let name = self.plan.loop_id.as_deref().unwrap_or("loop").replace(['/', '\0'], "_");
            let name = format!("{name}-{}", self.helm.used.iterations);
            let (path, file) = self.plan.places.logs.create(&name, Timestamp::now())?;
            session.log_path = Some(path.to_string_lossy().into_owned());
            log = Some(file);
        }
        let id = match &mut self.store {
            Some(store) => store.begin_session(&session)?,
            None => SessionId::from_bits(getrandom::u32().unwrap_or_default()),
        };
        Ok(Begun { id, session, log })
    }

    /// Records what a session has used, where that is recorded.
    fn end_session(&mut self, begun: Begun, facts: &Facts) -> Result<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let session = NewSession {
            model: facts.model.clone().or(begun.session.model),
            bill: facts.bill,
            session_id: facts.session.clone().or(begun.session.session_id),
            ..begun.session
        };
        store.end_session(begun.id, &session, self.helm.clock.now())
    }

    fn prompt(&self) -> Result<String> {
        let prompt = self.plan.prompt.read(&self.plan.places.prompts)?;
        Ok(match self.checklist_name() {
            Some(plan) => prompt.replace(PLAN, &plan),
            None => prompt,
        })
    }

    /// What the plan is called where sessions work.
    fn checklist_name(&self) -> Option<String> {
        let root = &self.plan.places.root;
        let path = self.plan.checklist.as_ref()?;
        Some(path.strip_prefix(root).unwrap_or(path).display().to_string())
    }

    /// A session that is not started yet, and what answers `ralph` in it where there is a database.
    fn session(&self, scratch: &Scratch) -> Result<(Session, Option<Broker>)> {
        let database = Some(&self.plan.places.database).filter(|it| it.exists());
        let broker =
            database.map(|it| Broker::serve(scratch.path(), it, Role::Guest)).transpose()?;
        let session = Session {
            program: self.plan.agent.program.clone(),
            directory: self.plan.places.root.clone(),
            system_prompt: None,
            reminder: None,
            scratch: Some(scratch.path().to_owned()),
            model: self.plan.model.clone(),
            path: self.plan.agent.path.clone(),
            socket: broker.as_ref().map(|broker| broker.socket().to_owned()),
            attempt: None,
            iteration: Some(self.helm.used.iterations),
            background_tasks: self.plan.agent.background_tasks,
            budget_usd: self.helm.cost_left(),
            servers: self.plan.agent.servers.write(scratch)?,
        };
        Ok((session, broker))
    }

    /// Leaves the terminal to the agent; what it says is between it and the person.
    fn hand_over(&mut self, prompt: &str, scratch: &Scratch, begun: &Begun) -> Result<Iteration> {
        let name = begun.session.session_id.as_deref().unwrap_or_default();
        let (session, _broker) = self.session(scratch)?;
        self.tell_start("");
        let invocation = if self.plan.agent.plain {
            let prompt = scratch.write("prompt.md", prompt)?;
            Invocation { stdin: Stdin::Nothing, ..session.plain(prompt) }
        } else {
            let (session, opening) = agent::open_with(&session, prompt, scratch)?;
            session.conversation(&opening, &self.plan.agent.permission(), name)
        };
        let held = self.helm.hold(invocation, Stance::AtTheTerminal)?;
        let back = {
            let ding = self.plan.places.root.join(DING);
            let _bell = Bell::watch(ding, self.plan.ring);
            agent::hand_over(&held.invocation)?
        };
        let end = (back.told_to_end || back.interrupted).then_some(RunEnd::Interrupted);
        let (outcome, reason) = match back.exit {
            _ if end.is_some() => (Outcome::Interrupted, None),
            agent::Exit::Code(0) => (Outcome::Done, None),
            agent::Exit::Code(code) => {
                (Outcome::Failed, Some(format!("it ended with code {code}")))
            }
            agent::Exit::Signal(signal) => {
                (Outcome::Failed, Some(format!("it was ended by signal {signal}")))
            }
        };
        let bill = agent::bill_of_session(&self.plan.agent.own_rules, name);
        let bill = bill.map(|bill| Bill { billing: Some(agent::usual_billing()), ..bill });
        let facts = Facts { bill: bill.unwrap_or_default(), ..Facts::default() };
        self.helm.used.cost = money::rounded(self.helm.used.cost + facts.bill.cost_usd);
        self.totals.bill.add(&facts.bill);
        Ok(Iteration { outcome, reason, facts, log: String::new(), end, again: None })
    }

    /// Has the agent work alone, and shows what it does.
    fn watch(
        &mut self,
        prompt: &str,
        scratch: &Scratch,
        begun: &Begun,
        log: &mut File,
    ) -> Result<Iteration> {
        self.tell_start(&begun.log_path());
        let mut shown = None;
        if self.helm.has_terminal() {
            let scratch = Scratch::new(&self.plan.places.temporary)?;
            let (session, _broker) = self.session(&scratch)?;
            shown = self.helm.show(&session, prompt, &scratch, log)?;
        }
        let report = match shown {
            Some(report) => report,
            None => {
                let (session, _broker) = self.session(scratch)?;
                let invocation = if self.plan.agent.plain {
                    session.plain(scratch.write("prompt.md", prompt)?)
                } else {
                    let (session, message) = agent::open_piped(&session, prompt, scratch)?;
                    let message = scratch.write("prompt.md", &message)?;
                    session.work(message, &self.plan.agent.permission())
                };
                self.helm.converse(invocation, log, Activity::Working)?
            }
        };
        Ok(self.assess(report, begun.log_path()))
    }

    /// How an iteration went in which the agent worked alone.
    fn assess(&mut self, report: Report, log: String) -> Iteration {
        let why = report.why_failed();
        // A command that is no agent may do its work without a word.
        let is_quiet = self.plan.agent.plain && report.facts.trouble.is_none();
        let stopped = if !is_quiet && is_empty(&report.facts, report.ended_by) {
            // Of a command that is no agent, no word is expected before its work.
            let not_started = not_started(&report).filter(|_| !self.plan.agent.plain);
            not_started.or_else(|| self.breaker.said_nothing(&report))
        } else {
            if report.facts.model_seen {
                self.breaker.spoke();
            }
            None
        };
        let facts = report.facts;
        self.totals.bill.add(&facts.bill);
        let mut iteration =
            Iteration { outcome: Outcome::Done, reason: None, facts, log, end: None, again: None };
        match (report.ended_by, iteration.facts.trouble.clone()) {
            (EndedBy::Request, _) => {
                iteration.outcome = Outcome::Interrupted;
                iteration.end = Some(RunEnd::Interrupted);
            }
            (EndedBy::Deadline, _) => {
                iteration.outcome = Outcome::Limited;
                iteration.end = Some(RunEnd::Limit(Reached::Time));
            }
            (_, Some(Trouble::Budget)) if self.plan.bounds.cost.is_some() => {
                iteration.outcome = Outcome::Limited;
                iteration.end = Some(RunEnd::Limit(Reached::Cost));
            }
            // Where nothing but the screen tells, an agent that is done looks like this. What it showed
            // counts; if that completes nothing, the person is told why it was ended.
            (_, Some(trouble @ Trouble::Idle(_))) if iteration.facts.result.is_some() => {
                self.refusals = 0;
                let is_said = self.promised(&iteration.facts).is_some();
                iteration.reason = Some(trouble.to_string()).filter(|_| !is_said);
            }
            (_, Some(trouble)) => self.refused(&mut iteration, trouble, &why),
            (_, None) => self.refusals = 0,
        }
        if let Some(common) = stopped {
            // The work may have been completed without a word.
            let completed = self.completed(&iteration.facts);
            iteration.end = completed.or(Some(RunEnd::Breaker(common)));
        }
        iteration
    }

    fn refused(&mut self, iteration: &mut Iteration, trouble: Trouble, why: &str) {
        self.refusals += 1;
        iteration.reason = Some(trouble.to_string());
        iteration.outcome = Outcome::Limited;
        match react(&trouble, self.refusals, self.helm.clock.now()) {
            Reaction::Wait { until } | Reaction::Cap { until, .. } => {
                iteration.again = Some((trouble, until));
            }
            Reaction::GiveUp => iteration.end = Some(RunEnd::Refused(trouble)),
            Reaction::Blame => {
                self.refusals = 0;
                iteration.outcome = Outcome::Failed;
                iteration.reason = Some(format!("{trouble}{why}"));
            }
        }
    }

    /// How the loop ends if the agent, its plan or a file says that it is complete or must stop.
    fn completed(&mut self, facts: &Facts) -> Option<RunEnd> {
        if let Some(file) = self.sentinels.found() {
            let file = file.strip_prefix(&self.plan.places.root).unwrap_or(&file).to_owned();
            return Some(RunEnd::Signalled(format!("`{}` was made", file.display())));
        }
        let checklist = self.checklist();
        if checklist.is_complete() {
            return Some(RunEnd::Signalled("every item of the plan is ticked off".to_owned()));
        }
        self.promised(facts)
    }

    /// How what the agent said last ends the loop, if it does.
    fn promised(&self, facts: &Facts) -> Option<RunEnd> {
        // A program that was idle has shown all that it had to say.
        let counts = match facts.trouble {
            None => true,
            Some(Trouble::Idle(_)) => facts.on_screen,
            Some(_) => false,
        };
        if counts { promised(facts, &self.plan.completion_promise) } else { None }
    }

    fn checklist(&self) -> Checklist {
        let path = self.plan.checklist.as_ref();
        let text = path.and_then(|path| fs::read(path).ok());
        text.map_or(Checklist::default(), |text| Checklist::read(&String::from_utf8_lossy(&text)))
    }

    fn report_changes(&mut self, kept: Option<&Salvaged>) -> Result<()> {
        let Some(LoopTree { git, .. }) = &self.tree else { return Ok(()) };
        let before = self.head.clone();
        self.head = git.head();
        let diff = git.diff(before.as_deref(), self.head.as_deref());
        self.totals.add(diff);
        let pushed = self.plan.auto_push && before != self.head && self.helm.push()?;
        if diff != Diff::default() || pushed || kept.is_some() {
            let (iteration, head) = (self.helm.used.iterations, self.head.as_deref());
            let (salvage, salvaged) = kept.map(|it| (it.reference.as_str(), it.what)).unzip();
            let stats = Stats { iteration, head, diff, salvage, salvaged, pushed };
            self.helm.tell(&Event::Stats(stats));
        }
        Ok(())
    }

    fn tell_beginning(&mut self) {
        let project = self.plan.places.root.to_string_lossy().into_owned();
        let (source, checklist) =
            (self.plan.prompt.source(&self.plan.places.root), self.checklist());
        let name = self.checklist_name();
        self.helm.tell(&Event::Start(Start {
            version: env!("CARGO_PKG_VERSION"),
            project: &project,
            command: RunCommand::Loop,
            target: Some(&source),
            mode: self.plan.mode(),
            plan: name.as_deref(),
            loop_id: self.plan.loop_id.as_deref(),
            done: checklist.done,
            total: checklist.total,
            max_iterations: self.plan.bounds.iterations,
            max_seconds: self.plan.bounds.time.map(|time| time.as_secs()),
            max_cost_usd: self.plan.bounds.cost,
            sandbox: &self.plan.agent.cage.choice.message,
        }));
    }

    fn tell_start(&mut self, log: &str) {
        let (source, checklist) =
            (self.plan.prompt.source(&self.plan.places.root), self.checklist());
        let (elapsed, cost_usd) = (self.helm.clock.elapsed(), self.helm.used.cost);
        let iteration = self.helm.used.iterations;
        self.helm.tell(&Event::IterationStart(IterationStart {
            iteration,
            task: None,
            title: &source,
            attempt: iteration,
            attempt_id: None,
            model: self.plan.model.as_deref().unwrap_or_default(),
            hinted: false,
            done: checklist.done,
            total: checklist.total,
            elapsed_secs: elapsed.as_secs_f64(),
            cost_usd,
            log,
        }));
    }

    fn tell_end(&mut self, iteration: &Iteration, duration: Duration) {
        let facts = &iteration.facts;
        self.helm.tell(&Event::IterationEnd(IterationEnd {
            iteration: self.helm.used.iterations,
            task: None,
            attempt_id: None,
            outcome: iteration.outcome,
            reason: iteration.reason.as_deref(),
            status: None,
            model: facts.model.as_deref().unwrap_or_default(),
            duration_secs: duration.as_secs_f64(),
            bill: facts.bill,
            turns: facts.turns,
            log: &iteration.log,
        }));
    }

    /// Keeps what the sessions have not committed, and leaves it in the tree.
    fn leave_tree(&mut self) {
        match self.tree.take().map(LoopTree::leave) {
            Some(Ok(Some(kept))) => self.helm.warn(&format!(
                "what the sessions did not commit is in the working tree, and kept as {}",
                kept.reference
            )),
            Some(Err(error)) => self.helm.warn(&format!("{error:#}")),
            Some(Ok(None)) | None => {}
        }
    }

    fn finish(mut self, end: Result<RunEnd>) -> Finished {
        let end = end.and_then(|end| self.helm.heard(end));
        if let Err(error) = &end {
            self.helm.break_off(error);
        }
        self.leave_tree();
        let checklist = self.checklist();
        Finished {
            end,
            run: self.helm.run,
            iterations: self.helm.used.iterations,
            cost_usd: self.helm.used.cost,
            progress: Progress {
                total: checklist.total,
                done: checklist.done,
                failed: 0,
                blocked: 0,
                in_progress: 0,
            },
            duration: self.helm.clock.elapsed(),
            totals: self.totals,
        }
    }
}

/// How these words end the loop, if they do.
fn promised(facts: &Facts, completion_promise: &str) -> Option<RunEnd> {
    let promise = if facts.on_screen {
        promised_on_screen(&facts.answer, completion_promise)
    } else {
        promised_at_the_end(&facts.last_message, completion_promise)
    };
    Some(match promise? {
        Promise::Complete => RunEnd::Signalled("the agent said COMPLETE".to_owned()),
        Promise::Words => RunEnd::Signalled(format!("the agent said {completion_promise}")),
        Promise::Failure => RunEnd::Failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::documented::rows;

    #[test]
    fn what_is_documented_is_what_ends_a_loop() {
        for (answer, taken) in rows("What a loop says") {
            let facts = Facts { last_message: answer.clone(), ..Facts::default() };
            let end = promised(&facts, "LOOP_COMPLETE");
            let end = end.map_or("nothing".to_owned(), |end| end.to_string());
            assert_eq!(end, taken, "{answer}");
        }
    }
}
