//! A session in a terminal of its own: what the agent shows stands on the user's screen at once, and what
//! is typed there is for the agent. What came of it is told by hooks, or else read from the screen.

use std::io::{self, PipeWriter, Write};
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::claude::Invocation;
use super::converse::{Input, Listener, Mailbox, Report};
use super::descendants::Marker;
use super::dialog;
use super::facts::{Exit, Facts, Trouble};
use super::hook::{self, Hooks};
use super::keyboard::Keyboard;
use super::mirror::{self, Display, Pair};
use super::process::{Message, Process, not_started, supervisor};
use super::screen::Screen;
use super::stage::STAGE;
use super::story::{Course, Story};
use super::terminal;
use super::watch::{Action, EndedBy, Limits, Request, Watch};
use crate::event::AgentEvent;

/// How long the output may stay open after everything has ended.
const DRAIN: Duration = Duration::from_secs(1);
/// How long an agent may stay that has closed its terminal.
const DETACHED: Duration = Duration::from_secs(5);
/// How long the screen must stand still to be looked at for a question.
const STILL: Duration = Duration::from_secs(1);

/// How a session in a terminal is to be.
#[derive(Debug, Clone, Copy)]
pub struct PtyOptions {
    /// Whether the keys are for the agent. If not, it is only looked at.
    pub interactive: bool,
    /// How long there may be no output, no key and no tool at work; none is for ever.
    pub idle: Option<Duration>,
    /// How long a person who may type has to go on when the agent is done with its turn.
    pub turn_grace: Duration,
    /// When it must be over, whatever it does.
    pub deadline: Option<Instant>,
}

impl PtyOptions {
    /// Long enough to begin to type, short enough to wait for.
    pub const TURN_GRACE: Duration = Duration::from_secs(5);

    fn limits(&self) -> Limits {
        let exit_grace = if self.interactive { self.turn_grace } else { Duration::ZERO };
        Limits { silence: self.idle, exit_grace, deadline: self.deadline }
    }
}

/// Runs a session in a terminal of its own to its end. All that it shows goes to `log`, too. Without
/// `hooks`, what it says is what stands on its screen. If the error is `NoTerminal`, nothing was started.
pub fn converse_in_pty(
    invocation: &Invocation,
    hooks: Option<&Hooks>,
    options: PtyOptions,
    mailbox: &Mailbox,
    log: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Report> {
    let Pair { ours, agents } = Pair::open()?;
    let marker = Marker::new();
    let mut command = supervisor(invocation, STAGE)?;
    command.envs([marker.variable()]).env_remove("COLUMNS").env_remove("LINES");
    command.stdin(Stdio::piped()).stdout(agents).stderr(Stdio::piped());
    let display = Display::open()?;
    let supervisor = command.spawn().with_context(|| not_started(invocation))?;
    // It holds the agent's end, which must be closed when the agent is gone.
    drop(command);

    let (sender, number) = (mailbox.sender(), marker.number);
    // Whoever no longer listens does not want to know.
    let post = move |message| drop(sender.send(Input::Child(number, message)));
    let (stopped, stop) = io::pipe()?;
    if let Some(hooks) = hooks {
        let (listener, stopped, post) = (hooks.listener()?, stopped.try_clone()?, post.clone());
        thread::spawn(move || hook::listen(&listener, &stopped, |it| post(Message::Told(it))));
    }
    let (agent, gate, post_output) = (ours.clone(), display.gate(), post.clone());
    let copy = move || {
        mirror::copy(&agent, &gate, &stopped, |it| post_output(Message::Output(it)));
    };
    let process = Process::of(supervisor, copy, post);
    let sender = mailbox.sender();
    // If there is no room, somebody is awake in any case.
    let wake = move || drop(sender.try_send(Input::Child(number, Message::Typed)));
    let size = terminal::size();
    let session = Session {
        process,
        keyboard: Keyboard::listen(ours, options.interactive, wake)?,
        display,
        interactive: options.interactive,
        watch: Watch::new(options.limits(), Instant::now()),
        screen: Screen::new(size.ws_row, size.ws_col),
        story: hooks.map(|_| Story::new()),
        look_at: None,
        question: None,
        logged: true,
        marker,
        _stop: stop,
    };
    Ok(session.run(&mailbox.receiver, log, listener))
}

/// When it is dropped, nobody types any more, then nothing is shown any more, then everything ends.
struct Session {
    keyboard: Keyboard,
    display: Display,
    process: Process,
    interactive: bool,
    watch: Watch,
    screen: Screen,
    /// What it tells by hooks, if it can.
    story: Option<Story>,
    /// When to look whether there is a question on the screen.
    look_at: Option<Instant>,
    /// What it asks before it begins.
    question: Option<&'static str>,
    logged: bool,
    marker: Marker,
    /// Ends the threads when it is closed.
    _stop: PipeWriter,
}

impl Session {
    fn run(
        mut self,
        inbox: &Receiver<Input>,
        log: &mut dyn Write,
        listener: &mut dyn Listener,
    ) -> Report {
        let mut exit = None;
        let (mut output_open, mut errors_open) = (true, true);
        let mut drain_until = None;
        while exit.is_none() || output_open || errors_open {
            let now = Instant::now();
            if drain_until.is_some_and(|until| until <= now) {
                // Something holds the terminal that can't be found, or can't be ended.
                break;
            }
            if exit.is_none() {
                self.see_to_keys(now);
                self.see_to_questions(now, listener);
                match self.watch.expire(now) {
                    Some(Action::Order(order)) => self.process.order(order),
                    Some(Action::Sweep) => self.marker.end(),
                    Some(Action::Leave) => break,
                    None => {}
                }
            }
            match self.next(inbox, drain_until) {
                // Something of an earlier session was still there.
                Some(Input::Child(number, _)) if number != self.marker.number => {}
                Some(Input::Child(_, Message::Output(bytes))) => self.read(&bytes, log),
                Some(Input::Child(_, Message::Told(event))) => self.hear(&event, listener),
                Some(Input::Child(_, Message::OutputClosed)) => {
                    output_open = false;
                    self.watch.settle(Some(Instant::now() + DETACHED));
                }
                Some(Input::Child(_, Message::ErrorsClosed)) => errors_open = false,
                Some(Input::Child(_, Message::Ended(status))) => {
                    exit = Some(status);
                    // The supervisor may have been killed. If not, there is nothing left to end.
                    self.marker.end();
                    drain_until = Some(Instant::now() + DRAIN);
                }
                Some(Input::Request(request)) => self.request(request),
                Some(Input::Child(_, Message::Typed)) | None => {}
            }
        }
        self.finish(exit, listener)
    }

    /// The next input; none when it is time to look at the clock.
    fn next(&self, inbox: &Receiver<Input>, drain_until: Option<Instant>) -> Option<Input> {
        let watch = self.watch.deadline().into_iter().chain(self.look_at).min();
        let Some(deadline) = drain_until.or(watch) else { return inbox.recv().ok() };
        inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// It has been shown already.
    fn read(&mut self, bytes: &[u8], log: &mut dyn Write) {
        // A session is worth more than its log.
        self.logged &= log.write_all(bytes).is_ok();
        self.screen.feed(bytes);
        let now = Instant::now();
        self.watch.stir(now);
        let waits = self.story.as_ref().is_some_and(|story| !story.has_begun());
        self.look_at = (waits && self.question.is_none()).then(|| now + STILL);
    }

    fn hear(&mut self, event: &[u8], listener: &mut dyn Listener) {
        let Some(story) = &mut self.story else { return };
        let Some(course) = story.hear(event, &mut |event| listener.event(event)) else { return };
        listener.caught_up();
        let now = Instant::now();
        self.watch.set_busy(story.is_busy());
        match course {
            Course::TurnOver => self.watch.settle(Some(now)),
            Course::Goes => {
                self.watch.settle(None);
                self.watch.stir(now);
            }
            Course::Waits => {}
        }
        (self.look_at, self.question) = (None, None);
    }

    fn see_to_keys(&mut self, now: Instant) {
        let typed = self.keyboard.typed();
        if let Some(size) = typed.resized {
            self.screen.resize(size.ws_row, size.ws_col);
        }
        if typed.resumed {
            self.display.resume();
        }
        if let Some(at) = typed.forwarded {
            self.watch.stir(at);
            // Whoever types wants to go on.
            self.watch.settle(None);
            if let Some(story) = &mut self.story {
                story.typed();
                self.watch.set_busy(story.is_busy());
            }
        }
        if typed.stop {
            self.end(EndedBy::Request, now);
        }
        if typed.kill {
            self.request(Request::Kill);
        }
    }

    /// Says what the agent asks before it begins. If nobody can answer, there is nothing to wait for.
    fn see_to_questions(&mut self, now: Instant, listener: &mut dyn Listener) {
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        self.look_at = None;
        self.question = dialog::question(&self.screen.visible());
        if let Some(question) = self.question {
            let text = format!("the agent asks at its first start {question}").into();
            listener.event(&AgentEvent::Notice { text });
            listener.caught_up();
            if !self.interactive {
                self.end(EndedBy::Silence, now);
            }
        }
    }

    fn request(&mut self, request: Request) {
        let now = Instant::now();
        match request {
            // In a terminal an interrupt is a key; whoever sends a signal wants an end.
            Request::Interrupt if self.end(EndedBy::Request, now) => {}
            Request::Interrupt | Request::Kill => {
                let order = self.watch.requested(Request::Kill, now);
                self.process.order(order);
            }
        }
    }

    /// Ends it in good order; false if that has been tried.
    fn end(&mut self, why: EndedBy, now: Instant) -> bool {
        let order = self.watch.end(why, now);
        order.map(|order| self.process.order(order)).is_some()
    }

    fn finish(self, exit: Option<Exit>, listener: &mut dyn Listener) -> Report {
        let Session { keyboard, display, process, watch, mut screen, story, question, .. } = self;
        drop(keyboard);
        let shown = screen.text();
        screen.feed(terminal::RESET);
        drop(display);
        if !screen.at_line_start() {
            // Whoever writes next begins a line.
            terminal::write_soon(b"\r\n");
        }
        let ended_by = watch.ended_by();
        let mut facts = match story {
            Some(story) => story.into_facts(exit, ended_by, &mut |event| listener.event(event)),
            None => facts_of_screen(shown, exit, ended_by),
        };
        if let Some(question) = question {
            facts.trouble = Some(Trouble::Error(format!(
                "the agent asks at its first start {question}: start it once by hand in this directory"
            )));
        }
        listener.caught_up();
        Report { facts, ended_by, stderr: process.stderr(), long_lines: 0, logged: self.logged }
    }
}

/// What came of a program that tells nothing but what it shows. One that has fallen silent has said it
/// all: many never end by themselves.
fn facts_of_screen(shown: String, exit: Option<Exit>, ended_by: EndedBy) -> Facts {
    let trouble = match (ended_by, exit) {
        (EndedBy::Itself, Some(Exit::Code(0))) | (EndedBy::Silence | EndedBy::Lingering, _) => None,
        (EndedBy::Request, _) => Some(Trouble::Aborted),
        (EndedBy::Itself | EndedBy::Deadline, _) => Some(Trouble::NoResult),
    };
    Facts { answer: shown, trouble, exit, ..Facts::default() }
}
