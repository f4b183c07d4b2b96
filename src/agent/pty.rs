//! A session in a terminal of its own: what the agent shows stands on the user's screen at once, and what
//! is typed there is for the agent. What came of it is told by hooks, or else read from the screen.

use std::io::{self, Write};
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use portable_pty::PtySize;

use super::claude::Invocation;
use super::claude::usual_billing;
use super::converse::{Input, Listener, Mailbox, Report};
use super::descendants::Marker;
use super::dialog;
use super::facts::{Exit, Facts};
use super::hook::{self, Hooks};
use super::keyboard::Keyboard;
use super::mirror::{self, Display, Pair};
use super::process::{Message, Process, not_started, supervisor};
use super::screen::Screen;
use super::stage::STAGE;
use super::story::{Course, Story};
use super::terminal;
use super::trouble::Trouble;
use super::watch::{Action, EndedBy, Limits, Request, Watch};
use crate::event::AgentEvent;

/// How long the output may stay open after everything has ended.
const DRAIN: Duration = Duration::from_secs(1);
/// How long an agent may stay that has closed its terminal.
const DETACHED: Duration = Duration::from_secs(5);
/// How long the program may take to write down why a turn failed: it calls the hook before, and what it has not
/// written when it is told to end is lost.
const WRITTEN_DOWN: Duration = Duration::from_secs(1);
/// How long the screen must stand still to be looked at for a question.
const STILL: Duration = Duration::from_secs(1);

/// How a session in a terminal is to be.
#[derive(Debug, Clone, Copy)]
pub struct PtyOptions<'a> {
    /// What the agent is asked to do. Most programs repeat it on their screen, where it is not said by
    /// the agent.
    pub prompt: &'a str,
    /// Rows and columns of the terminal if the user's does not tell them.
    pub usual_size: (u16, u16),
    /// Whether the keys are for the agent. If not, it is only looked at.
    pub interactive: bool,
    /// How long there may be no output, no key and no tool at work; none is for ever.
    pub idle: Option<Duration>,
    /// How long the model may take for an answer, whatever is drawn meanwhile; none is for ever.
    pub answer: Option<Duration>,
    /// How long a person who may type has to go on when the agent is done with its turn.
    pub turn_grace: Duration,
    /// When it must be over, whatever it does.
    pub deadline: Option<Instant>,
}

impl PtyOptions<'_> {
    /// Long enough to begin to type, short enough to wait for.
    pub const TURN_GRACE: Duration = Duration::from_secs(5);

    fn usual_size(&self) -> PtySize {
        let (rows, cols) = self.usual_size;
        PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
    }

    fn limits(&self) -> Limits {
        let exit_grace = if self.interactive { self.turn_grace } else { Duration::ZERO };
        Limits { silence: self.idle, exit_grace, deadline: self.deadline }
    }
}

/// Runs a session in a terminal of its own to its end. All that it shows goes to `log`, too. What it says
/// is what it tells by `hooks`; if it calls none, what stands on its screen. If the error is `NoTerminal`,
/// nothing was started.
pub fn converse_in_pty(
    invocation: &Invocation,
    hooks: &Hooks,
    options: PtyOptions<'_>,
    mailbox: &Mailbox,
    log: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Report> {
    let size = terminal::size(options.usual_size());
    let Pair { master, ours, agents } = Pair::open(options.interactive, size)?;
    let marker = Marker::new();
    let mut command = supervisor(invocation, STAGE)?;
    command.envs([marker.variable()]).env_remove("COLUMNS").env_remove("LINES");
    command.stdin(Stdio::piped()).stdout(agents).stderr(Stdio::piped());
    let display = Display::open()?;
    let supervisor = command.spawn().with_context(|| not_started(invocation))?;
    // It holds the agent's end, which must be closed when the agent is gone.
    drop(command);

    let (sender, number) = (mailbox.sender(), marker.number);
    // A session that is over needs no messages.
    let post = move |message| drop(sender.send(Input::Child(number, message)));
    let (stopped, stop) = io::pipe()?;
    let (hooks, stop_hooks, post_told) = (hooks.listener()?, stopped.try_clone()?, post.clone());
    let stop_output = stopped.try_clone()?;
    thread::spawn(move || hook::listen(&hooks, &stop_hooks, |it| post_told(Message::Told(it))));
    let (agent, gate, post_output) = (ours.clone(), display.gate(), post.clone());
    let copy = move || {
        mirror::copy(&agent, &gate, &stop_output, |it| post_output(Message::Output(it)));
    };
    let process = Process::of(supervisor, copy, (stopped, stop), post);
    let sender = mailbox.sender();
    // If there is no room, the session has something to read and wakes up in any case.
    let wake = move || drop(sender.try_send(Input::Child(number, Message::Typed)));
    let usual = options.usual_size();
    let session = Session {
        process,
        keyboard: Keyboard::listen(ours, master, options.interactive, usual, wake)?,
        display,
        options,
        watch: Watch::new(options.limits(), Instant::now()),
        screen: Screen::new(size.rows, size.cols),
        story: Story::new(Some(usual_billing())),
        heard_at: Instant::now(),
        look_at: None,
        question: None,
        logged: true,
        marker,
    };
    Ok(session.run(&mailbox.receiver, log, listener))
}

/// When it is dropped, nobody types any more, then nothing is shown any more, then everything ends.
struct Session<'a> {
    keyboard: Keyboard,
    display: Display,
    process: Process,
    options: PtyOptions<'a>,
    watch: Watch,
    screen: Screen,
    /// What it tells by hooks.
    story: Story,
    /// When the model was last heard of. What is drawn does not tell: Claude Code draws while it waits.
    heard_at: Instant,
    /// When to look whether there is a question on the screen.
    look_at: Option<Instant>,
    /// What it asks before it begins.
    question: Option<dialog::Question>,
    logged: bool,
    marker: Marker,
}

impl Session<'_> {
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
                self.see_to_the_answer(now);
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
        let times = [self.watch.deadline(), self.look_at, self.answer_by()];
        let watch = times.into_iter().flatten().min();
        let Some(deadline) = drain_until.or(watch) else { return inbox.recv().ok() };
        inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// It has been shown already.
    fn read(&mut self, bytes: &[u8], log: &mut dyn Write) {
        // A session is worth more than its log.
        self.logged &= log.write_all(bytes).is_ok();
        self.screen.feed(bytes);
        let now = Instant::now();
        if !self.story.is_asking() {
            self.watch.stir(now);
        }
        let waits = !self.story.has_begun() && self.question.is_none();
        self.look_at = waits.then(|| now + STILL);
        if self.story.awaits_first_answer() && dialog::is_rejected(&self.screen.visible()) {
            self.end(EndedBy::Rejected, now);
        }
    }

    fn hear(&mut self, event: &[u8], listener: &mut dyn Listener) {
        let course = self.story.hear(event, &mut |event| listener.event(event));
        let Some(course) = course else { return };
        listener.caught_up();
        let now = Instant::now();
        self.heard_at = now;
        self.watch.set_busy(self.story.is_busy());
        match course {
            Course::TurnOver if self.story.has_failed() => {
                self.watch.settle(Some(now + WRITTEN_DOWN));
            }
            Course::TurnOver => self.watch.settle(Some(now)),
            Course::Goes => {
                self.watch.settle(None);
                self.watch.stir(now);
            }
            // A question that nobody can answer need not be waited for.
            Course::Waits if !self.options.interactive && self.story.has_asked() => {
                self.end(EndedBy::Silence, now);
            }
            Course::Waits => {}
        }
        (self.look_at, self.question) = (None, None);
    }

    /// When the model must have answered, if it is asked for something.
    fn answer_by(&self) -> Option<Instant> {
        let answer = self.options.answer.filter(|_| self.story.awaits_answer())?;
        Some(self.heard_at + answer)
    }

    /// Ends a session whose model has not been heard of for too long.
    fn see_to_the_answer(&mut self, now: Instant) {
        if self.answer_by().is_none_or(|by| now < by) {
            return;
        }
        if self.story.has_grown() {
            self.heard_at = now;
        } else {
            self.story.gives_up();
            self.end(EndedBy::Silence, now);
            // It is not to be ended again.
            self.options.answer = None;
        }
    }

    fn see_to_keys(&mut self, now: Instant) {
        let typed = self.keyboard.typed();
        if let Some(size) = typed.resized {
            self.screen.resize(size.rows, size.cols);
        }
        if typed.resumed {
            self.display.resume();
        }
        if let Some(at) = typed.forwarded {
            self.heard_at = at;
            self.watch.stir(at);
            // A person who types wants to go on.
            self.watch.settle(None);
            self.story.typed();
            self.watch.set_busy(self.story.is_busy());
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
            let text = format!("the agent asks at its first start {}", question.text).into();
            listener.event(&AgentEvent::Notice { text });
            listener.caught_up();
            if !self.options.interactive {
                self.end(EndedBy::Silence, now);
            }
        }
    }

    fn request(&mut self, request: Request) {
        let now = Instant::now();
        match request {
            // In a terminal an interrupt is a key; a signal that is sent means an end.
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
        let Session { keyboard, mut display, process, options, watch, mut screen, story, .. } =
            self;
        drop(keyboard);
        let shown = screen.text();
        let alternate = screen.is_alternate();
        display.set_alternate(alternate);
        screen.feed(&terminal::reset(alternate));
        drop(display);
        if !screen.at_line_start() {
            // What is written next begins a line.
            terminal::write_soon(b"\r\n");
        }
        let (ended_by, idle) = (watch.ended_by(), options.idle.unwrap_or_default());
        let mut facts = if story.has_begun() {
            story.into_facts(exit, ended_by, idle, &mut |event| listener.event(event))
        } else {
            facts_of_screen(without_echo(&shown, options.prompt), exit, ended_by, idle)
        };
        if let Some(question) = self.question {
            facts.trouble = Some(question.trouble());
        } else if facts.on_screen
            && let Some(why) = dialog::unreachable(&shown)
        {
            facts.trouble = Some(Trouble::Connection(why.to_owned()));
            facts.model_seen = false;
        }
        listener.caught_up();
        Report { facts, ended_by, stderr: process.stderr(), long_lines: 0, logged: self.logged }
    }
}

/// What came of a program that tells nothing but what it shows. Many never end by themselves: what stood
/// on the screen of one that was idle counts as well.
fn facts_of_screen(shown: String, exit: Option<Exit>, ended_by: EndedBy, idle: Duration) -> Facts {
    let trouble = match (ended_by, exit) {
        (EndedBy::Itself, Some(Exit::Code(0))) | (EndedBy::Lingering, _) => None,
        (EndedBy::Silence, _) => Some(Trouble::Idle(idle)),
        (EndedBy::Request, _) => Some(Trouble::Aborted),
        (EndedBy::Itself | EndedBy::Deadline | EndedBy::Rejected, _) => Some(Trouble::NoResult),
    };
    let result = Some(shown.clone()).filter(|shown| !shown.trim().is_empty());
    let model_seen = result.is_some();
    Facts { answer: shown, result, on_screen: true, model_seen, trouble, exit, ..Facts::default() }
}

/// What was shown, without the lines of the prompt where the program repeats it: what is asked for there
/// has not been said by the agent.
fn without_echo(shown: &str, prompt: &str) -> String {
    let mut prompt = prompt.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    // A program draws something before the first line, and breaks lines that are long.
    let opening: String = prompt.next().unwrap_or_default().chars().take(20).collect();
    let mut begun = false;
    let mut lines = Vec::new();
    for line in shown.lines() {
        if !begun {
            begun = !opening.is_empty() && line.contains(&opening);
        } else if prompt.next_if(|expected| line.trim() == *expected).is_some() {
            continue;
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_prompt_asks_for_is_not_said_by_its_echo() {
        let prompt = "Do the next thing.\n\nWhen all is done, say\nLOOP_COMPLETE\n";
        let check = |shown: &str, expected: &str| {
            assert_eq!(without_echo(shown, prompt), expected, "{shown}");
        };
        check(
            "> Do the next thing.\n\n  When all is done, say\n  LOOP_COMPLETE\n\nOK.",
            "> Do the next thing.\n\n\nOK.",
        );
        check(
            "> Do the next thing.\n  When all is done, say\n  LOOP_COMPLETE\nLOOP_COMPLETE",
            "> Do the next thing.\nLOOP_COMPLETE",
        );
        // Not every program repeats it.
        check("working\nLOOP_COMPLETE", "working\nLOOP_COMPLETE");
        assert_eq!(without_echo("LOOP_COMPLETE", ""), "LOOP_COMPLETE");
    }
}
