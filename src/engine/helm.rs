//! Where a run is steered from: everything that is asked of it arrives here, everything it tells goes
//! out from here, and it knows what may still be used up.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::RunEnd;
use super::clock::Clock;
use super::command;
use super::plan::{AgentPlan, Places, TerminalPlan};
use super::relay::Relay;
use super::sentinels::DONE;
use super::stop::{Bounds, Used};
use crate::agent::sandbox::{Held, Stance};
use crate::agent::{
    self, Facts, Hooks, Invocation, Listener, Mailbox, NoTerminal, PtyOptions, Report, Scratch,
    Session, Stdin, Trouble,
};
use crate::dag::{AttemptId, Bill, Outcome, RunId, Status, TaskId};
use crate::event::{
    Activity, AgentEvent, Event, IterationEnd, IterationStart, LimitWait, Problem, Stamped, View,
};
use crate::money;
use crate::store;
use crate::time::Timestamp;

/// How often it is looked whether a pause is over.
const LOOK: Duration = Duration::from_millis(250);
/// How often the time that is left is told.
const TICK: Duration = Duration::from_secs(1);
/// How long a push may take.
const PUSH: Duration = Duration::from_secs(120);

/// An agent can't be given less than this, in USD.
const SMALLEST_BUDGET: f64 = 0.0001;

/// Why a wait was broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    Interrupted,
    OutOfTime,
    /// The file was made that ends a run.
    Asked,
}

/// What steers a run.
pub(super) struct Helm<'a> {
    pub(super) agent: &'a AgentPlan,
    pub(super) places: &'a Places,
    pub(super) bounds: Bounds,
    pub(super) mailbox: &'a Mailbox,
    pub(super) clock: &'a Clock,
    pub(super) view: &'a mut dyn View,
    pub(super) run: RunId,
    /// But for the time, which the clock knows.
    pub(super) used: Used,
    /// Why the view can't write any more.
    broken: Option<io::Error>,
    /// The iteration that is going on.
    open: Option<Open>,
    /// Whether a person asked for an end while something else was going on.
    asked_to_stop: bool,
    /// Whether the agent could not show itself in a terminal, and works without one for the rest of the run.
    without_terminal: bool,
    /// The links that were warned of.
    links: HashSet<PathBuf>,
}

impl<'a> Helm<'a> {
    pub(super) fn new(
        agent: &'a AgentPlan,
        places: &'a Places,
        bounds: Bounds,
        mailbox: &'a Mailbox,
        clock: &'a Clock,
        view: &'a mut dyn View,
        run: RunId,
    ) -> Helm<'a> {
        Helm {
            agent,
            places,
            bounds,
            mailbox,
            clock,
            view,
            run,
            used: Used::default(),
            broken: None,
            open: None,
            asked_to_stop: false,
            without_terminal: false,
            links: HashSet::new(),
        }
    }

    /// Tells the view that something happened. That it can't be written ends the run, but not at once.
    pub(super) fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::IterationStart(start) => self.open = Some(Open::new(start)),
            Event::IterationEnd(_) => self.open = None,
            _ => {}
        }
        let run = Some(self.run);
        let shown = self.view.event(&Stamped { ts: self.clock.now(), run, event });
        self.note(shown);
    }

    /// Tells that the iteration which is going on, if there is one, was broken off by an error.
    pub(super) fn break_off(&mut self, error: &anyhow::Error) {
        let Some(open) = self.open.take() else { return };
        let reason = self.in_words(error);
        self.tell(&Event::IterationEnd(IterationEnd {
            iteration: open.iteration,
            task: open.task,
            attempt_id: open.attempt,
            outcome: Outcome::Interrupted,
            reason: Some(&reason),
            status: open.task.map(|_| Status::Pending),
            model: &open.model,
            duration_secs: open.began.elapsed().as_secs_f64(),
            bill: Bill {
                cost_usd: money::rounded(self.used.cost - open.cost_before),
                ..Bill::default()
            },
            turns: 0,
            log: &open.log,
        }));
    }

    /// An error as a person is told of it.
    pub(super) fn in_words(&self, error: &anyhow::Error) -> String {
        match store::explain(error, &self.places.database) {
            Some((message, _)) => message,
            None => format!("{error:#}"),
        }
    }

    /// Tells everybody that something is wrong, and that it goes on.
    pub(super) fn warn(&mut self, message: &str) {
        self.tell(&Event::Error(Problem { message, fatal: false }));
    }

    pub(super) fn is_unheard(&self) -> bool {
        self.broken.is_some()
    }

    /// How the run ends that would otherwise end like this. A reader that went away matters only if the
    /// run was not over by then; that nothing can be written is an error.
    pub(super) fn heard(&mut self, end: RunEnd) -> Result<RunEnd> {
        match (self.broken.take(), end) {
            (None, end) => Ok(end),
            (Some(error), _) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            (Some(_), RunEnd::Interrupted) => Ok(RunEnd::Unheard),
            (Some(_), end) => Ok(end),
        }
    }

    fn note(&mut self, shown: io::Result<()>) {
        if let Err(error) = shown {
            self.broken.get_or_insert(error);
        }
    }

    /// Whether a person has asked for an end.
    pub(super) fn is_asked_to_stop(&self) -> bool {
        self.asked_to_stop || self.mailbox.wait(Duration::ZERO).is_some()
    }

    /// Waits, and tells everybody that the time goes on.
    pub(super) fn wait(&mut self, time: Duration, activity: &Activity) -> Option<Break> {
        let shown = self.view.tick(self.clock.now(), activity);
        self.note(shown);
        if self.broken.is_some() || self.asked_to_stop {
            return Some(Break::Interrupted);
        }
        let time = self.time_left().map_or(time, |left| left.min(time));
        if self.clock.wait(self.mailbox, time).is_some() {
            return Some(Break::Interrupted);
        }
        if self.places.root.join(DONE).exists() {
            return Some(Break::Asked);
        }
        self.is_out_of_time().then_some(Break::OutOfTime)
    }

    /// Whether a person holds the run.
    pub(super) fn is_paused(&self) -> bool {
        self.places.pause.exists()
    }

    /// Waits while a person holds the run.
    pub(super) fn pause(&mut self) -> Option<Break> {
        if !self.is_paused() {
            return None;
        }
        self.tell(&Event::Pause);
        while self.is_paused() {
            let broken_off = self.wait(LOOK, &Activity::Paused);
            if broken_off.is_some() {
                return broken_off;
            }
        }
        self.tell(&Event::Resume);
        None
    }

    /// Waits until the API may be asked again.
    pub(super) fn wait_for_the_api(
        &mut self,
        trouble: &Trouble,
        until: Timestamp,
    ) -> Option<Break> {
        let reason = trouble.to_string();
        let seconds = until.since(self.clock.now()).as_secs_f64().ceil() as u64;
        self.tell(&Event::LimitWait(LimitWait { reason: &reason, until, seconds }));
        self.wait_until(until, &Activity::Waiting { until })
    }

    /// Waits between two iterations of a loop.
    pub(super) fn wait_between(&mut self, pause: Duration) -> Option<Break> {
        let until = self.clock.now().plus(pause);
        self.wait_until(until, &Activity::Between { until })
    }

    fn wait_until(&mut self, until: Timestamp, activity: &Activity) -> Option<Break> {
        loop {
            // By the clock on the wall: a machine may sleep in between.
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return None;
            }
            let broken_off = self.wait(left.min(TICK), activity);
            if broken_off.is_some() {
                return broken_off;
            }
        }
    }

    /// Takes the cost of a session into account.
    fn pay(&mut self, facts: &Facts) {
        self.used.cost = money::rounded(self.used.cost + facts.bill.cost_usd);
    }

    pub(super) fn used(&self) -> Used {
        Used { time: self.clock.elapsed(), ..self.used }
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        self.bounds.time_left(&self.used())
    }

    pub(super) fn cost_left(&self) -> Option<f64> {
        self.bounds.cost_left(&self.used)
    }

    pub(super) fn is_out_of_money(&self) -> bool {
        self.cost_left().is_some_and(|left| left < SMALLEST_BUDGET)
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        self.time_left().is_some_and(|left| left.is_zero())
    }

    /// Whether the agent is to work in a terminal of its own.
    pub(super) fn has_terminal(&self) -> bool {
        self.agent.terminal.is_some() && !self.without_terminal
    }

    /// Has the agent work in a terminal of its own, in front of the person; none if it is not to have
    /// one, or there is none to be had. The files of the session are gone in any case.
    pub(super) fn show(
        &mut self,
        session: &Session,
        prompt: &str,
        scratch: &Scratch,
        log: &mut dyn Write,
    ) -> Result<Option<Report>> {
        let Some(TerminalPlan { interactive, idle, usual_size }) = self.agent.terminal else {
            return Ok(None);
        };
        let permission = self.agent.permission();
        let (invocation, hooks) = if self.agent.plain {
            let prompt = scratch.write("prompt.md", prompt)?;
            (Invocation { stdin: Stdin::Nothing, ..session.plain(prompt) }, Hooks::new(scratch)?)
        } else {
            agent::open_in_pty(session, prompt, &permission, interactive, scratch)?
        };
        let held = self.hold(invocation, Stance::AtTheTerminal)?;
        let options = PtyOptions {
            prompt,
            usual_size,
            interactive,
            idle,
            answer: self.agent.silence,
            turn_grace: PtyOptions::TURN_GRACE,
            deadline: self.time_left().map(|left| Instant::now() + left),
        };
        let shown = agent::converse_in_pty(
            &held.invocation,
            &hooks,
            options,
            self.mailbox,
            log,
            &mut NobodyElse,
        );
        match shown {
            Err(error) if error.is::<NoTerminal>() => {
                self.warn(&format!("{error}; going on without a terminal for the agent"));
                Ok(None)
            }
            shown => {
                let report = shown?;
                self.pay(&report.facts);
                if let Some(why) = kept_by_its_set_up(&report).filter(|_| !interactive) {
                    self.without_terminal = true;
                    self.warn(&format!("{why}; going on without a terminal for the agent"));
                    return Ok(None);
                }
                Ok(Some(report))
            }
        }
    }

    /// Runs a session in its sandbox; one that verifies may not write into the project.
    pub(super) fn converse(
        &mut self,
        invocation: Invocation,
        log: &mut dyn Write,
        activity: Activity,
    ) -> Result<Report> {
        let stance = match activity {
            Activity::Verifying => Stance::OnlyLooking,
            _ => Stance::Working,
        };
        let held = self.hold(invocation, stance)?;
        let (limits, mailbox) = (self.agent.limits(self.time_left()), self.mailbox);
        let converse = if self.agent.plain { agent::converse_in_text } else { agent::converse };
        let report = self.listening(activity, &self.agent.name(), |listener| {
            converse(&held.invocation, limits, mailbox, log, listener)
        })?;
        self.pay(&report.facts);
        Ok(report)
    }

    /// Puts the sandbox around a session, and tells what it can't protect.
    pub(super) fn hold(&mut self, invocation: Invocation, stance: Stance) -> Result<Held> {
        let held = self.agent.cage.hold(invocation, stance)?;
        for link in &held.links {
            if self.links.insert(link.clone()) {
                let link = link.display();
                self.warn(&format!("`{link}` is a symbolic link, which the sandbox can't protect"));
            }
        }
        Ok(held)
    }

    /// Runs a shell command in the project.
    pub(super) fn command(
        &mut self,
        command: &str,
        timeout: Option<Duration>,
        activity: Activity,
    ) -> Result<command::Ended> {
        let invocation = command::shell(command, &self.places.root, &self.agent.path);
        self.execute(&invocation, timeout, activity)
    }

    /// Runs a program that is no agent.
    pub(super) fn execute(
        &mut self,
        invocation: &Invocation,
        timeout: Option<Duration>,
        activity: Activity,
    ) -> Result<command::Ended> {
        self.execute_and_keep(invocation, timeout, activity).map(|(ended, _)| ended)
    }

    /// Runs a program that is no agent, and tells what it printed.
    pub(super) fn execute_and_keep(
        &mut self,
        invocation: &Invocation,
        timeout: Option<Duration>,
        activity: Activity,
    ) -> Result<(command::Ended, String)> {
        let mailbox = self.mailbox;
        self.listening(activity, "the command", |listener| {
            command::run(invocation, timeout, mailbox, listener)
        })
    }

    /// Pushes what was committed; that it did not work is a remark and no error.
    pub(super) fn push(&mut self) -> Result<bool> {
        match self.command("git push --quiet", Some(PUSH), Activity::Working)? {
            command::Ended::Well => Ok(true),
            command::Ended::Interrupted => {
                // It was meant for the run, not for the push.
                self.asked_to_stop = true;
                Ok(false)
            }
            command::Ended::Badly { how, tail, .. } => {
                self.warn(&format!("`git push` {how}: {tail}"));
                Ok(false)
            }
        }
    }

    /// Runs something that a view listens to, and that is called `program` there.
    fn listening<T>(
        &mut self,
        activity: Activity,
        program: &str,
        run: impl FnOnce(&mut dyn Listener) -> Result<T>,
    ) -> Result<T> {
        let mut relay = Relay {
            view: &mut *self.view,
            clock: self.clock,
            run: self.run,
            iteration: self.used.iterations,
            activity,
            program,
            broken: self.broken.take(),
        };
        let result = run(&mut relay);
        self.broken = relay.broken;
        result
    }
}

/// Why the agent did not get beyond its set-up, if it did not. Without a terminal it needs none, and asks the API
/// that it was given: its set-up asks Anthropic.
fn kept_by_its_set_up(report: &Report) -> Option<&Trouble> {
    let facts = &report.facts;
    facts.trouble.as_ref().filter(|trouble| match trouble {
        Trouble::NotSetUp(_) => true,
        Trouble::Connection(_) => facts.on_screen,
        _ => false,
    })
}

/// An iteration whose beginning was told, and its end not yet.
struct Open {
    iteration: u32,
    task: Option<TaskId>,
    attempt: Option<AttemptId>,
    model: String,
    log: String,
    began: Instant,
    /// What the run had cost before.
    cost_before: f64,
}

impl Open {
    fn new(start: &IterationStart<'_>) -> Open {
        Open {
            iteration: start.iteration,
            task: start.task,
            attempt: start.attempt_id,
            model: start.model.to_owned(),
            log: start.log.to_owned(),
            began: Instant::now(),
            cost_before: start.cost_usd,
        }
    }
}

/// While the agent has the screen, nobody else may write on it.
pub(super) struct NobodyElse;

impl Listener for NobodyElse {
    fn event(&mut self, _event: &AgentEvent<'_>) {}

    fn caught_up(&mut self) {}
}
