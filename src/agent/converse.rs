//! One session from its start to its end: bytes in, events out, and what came of it.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::claude::{Invocation, usual_billing};
use super::descendants::Marker;
use super::facts::{Exit, Facts, Observer};
use super::lines::Lines;
use super::process::{Message, Process};
use super::stream::Parser;
use super::supervisor::Order;
use super::trouble::Trouble;
use super::watch::{Action, EndedBy, Limits, Request, Watch};
use crate::dag::{BadEnd, Billing, failed_session};
use crate::event::AgentEvent;

/// How many pieces of output may wait. A child that writes faster than we read has to wait, too.
const MAILBOX: usize = 64;
/// How often a listener is told that the time goes on.
const TICK: Duration = Duration::from_secs(1);
/// How long the output may stay open after everything has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// How many lines of stderr are worth repeating.
const LAST_WORDS: usize = 5;

/// Everything that can happen to a session, in one order.
#[derive(Debug)]
pub enum Input {
    /// The child of the session with this number did something.
    Child(u32, Message),
    /// A person asks for something.
    Request(Request),
}

/// How a session went.
#[derive(Debug)]
pub struct Report {
    /// What came of it.
    pub facts: Facts,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// The end of what it said on stderr.
    pub stderr: String,
    /// How many lines were too long to be read.
    pub long_lines: usize,
    /// Whether the log is complete.
    pub logged: bool,
}

impl Report {
    /// What the program said last, where it is not part of its answer: a few lines of stderr.
    pub fn last_words(&self) -> Option<String> {
        let lines: Vec<&str> = self.stderr.lines().filter(|it| !it.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_WORDS)..];
        (!last.is_empty()).then(|| last.join("\n"))
    }

    /// What is known of a failure besides its name: how the process ended, and its last words.
    pub fn why_failed(&self) -> String {
        let is_told = self.facts.trouble.as_ref().is_some_and(Trouble::is_told_by_the_api);
        let end = match self.facts.exit {
            // Ralph itself has ended it, or the API has said why.
            _ if self.ended_by != EndedBy::Itself || is_told => None,
            Some(Exit::Code(code)) if code != 0 => Some(BadEnd::Code(code)),
            Some(Exit::Signal(signal)) => Some(BadEnd::Signal(signal)),
            _ => None,
        };
        failed_session(end, self.last_words().as_deref())
    }
}

/// Where everything arrives that can happen to a session.
#[derive(Debug)]
pub struct Mailbox {
    sender: SyncSender<Input>,
    pub(super) receiver: Receiver<Input>,
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new() -> Mailbox {
        let (sender, receiver) = sync_channel(MAILBOX);
        Mailbox { sender, receiver }
    }

    /// Where to put something into it.
    pub fn sender(&self) -> SyncSender<Input> {
        self.sender.clone()
    }

    /// Waits this long for a request. What is left of a session that has ended is passed over.
    pub fn wait(&self, time: Duration) -> Option<Request> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left) {
                Ok(Input::Request(request)) => return Some(request),
                Ok(Input::Child(..)) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox::new()
    }
}

/// Is told what happens in a session.
pub trait Listener {
    /// This happened.
    fn event(&mut self, event: &AgentEvent<'_>);

    /// That is all for the moment. It is said once a second at least.
    fn caught_up(&mut self);

    /// The program was interrupted, and has all the time it needs to clean up.
    fn interrupted(&mut self) {}

    /// Whether what it shows can't be written any more. A session that is not in a terminal of its own
    /// asks on each turn, and is killed then.
    fn is_gone(&self) -> bool {
        false
    }
}

/// Runs a session to its end. Its raw output goes to `log`, its events to `listener`.
pub fn converse(
    invocation: &Invocation,
    limits: Limits,
    mailbox: &Mailbox,
    log: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Report> {
    let parser = Parser::new().paid_by_use(usual_billing() == Billing::Api);
    attend(invocation, Some(parser), limits, mailbox, log, listener)
}

/// The same for a program that may print plain text instead of events: that is what it says, and it went
/// well if the program says so by its exit code.
pub fn converse_in_text(
    invocation: &Invocation,
    limits: Limits,
    mailbox: &Mailbox,
    log: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Report> {
    let mut report = attend(invocation, Some(Parser::of_text()), limits, mailbox, log, listener)?;
    let facts = &mut report.facts;
    if facts.trouble == Some(Trouble::NoResult) && facts.exit == Some(Exit::Code(0)) {
        facts.trouble = None;
        facts.result = Some(facts.answer.clone());
    }
    Ok(report)
}

/// Runs a program that is no agent to its end. Its output goes to `output` and is not read as events,
/// whatever it looks like.
pub fn execute(
    invocation: &Invocation,
    limits: Limits,
    mailbox: &Mailbox,
    output: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Report> {
    attend(invocation, None, limits, mailbox, output, listener)
}

fn attend(
    invocation: &Invocation,
    parser: Option<Parser>,
    limits: Limits,
    mailbox: &Mailbox,
    log: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Report> {
    let marker = Marker::new();
    let mut invocation = invocation.clone();
    invocation.variables.push(marker.variable());
    let (sender, number) = (mailbox.sender(), marker.number);
    // A session that is over needs no messages.
    let post = move |message| drop(sender.send(Input::Child(number, message)));
    let process = Process::start(&invocation, post)?;
    let session = Session {
        process,
        watch: Watch::new(limits, Instant::now()),
        parser,
        observer: Observer::new(),
        lines: Lines::default(),
        long_lines: 0,
        logged: true,
        marker,
    };
    Ok(session.run(&mailbox.receiver, log, listener))
}

struct Session {
    process: Process,
    watch: Watch,
    /// None if the output of the program is not a stream of events.
    parser: Option<Parser>,
    observer: Observer,
    lines: Lines,
    long_lines: usize,
    logged: bool,
    marker: Marker,
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
        let mut abandoned = false;
        while exit.is_none() || output_open || errors_open {
            let now = Instant::now();
            if drain_until.is_some_and(|until| until <= now) {
                // Something holds the output that can't be found, or can't be ended.
                break;
            }
            if exit.is_none() && !abandoned && listener.is_gone() {
                abandoned = true;
                self.request(Request::Kill, listener);
            }
            // Here and not only when nothing comes: some agents never pause.
            if exit.is_none() {
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
                Some(Input::Child(_, Message::Output(bytes))) => self.read(&bytes, log, listener),
                Some(Input::Child(_, Message::OutputClosed)) => {
                    output_open = false;
                    self.watch.closed(Instant::now());
                }
                Some(Input::Child(_, Message::ErrorsClosed)) => errors_open = false,
                Some(Input::Child(_, Message::Ended(status))) => {
                    exit = Some(status);
                    // The supervisor may have been killed. If not, there is nothing left to end.
                    if matches!(status, Exit::Signal(_)) {
                        self.marker.end();
                    }
                    drain_until = Some(Instant::now() + DRAIN);
                }
                // Only a terminal has such.
                Some(Input::Child(_, Message::Typed | Message::Told(_))) => {}
                Some(Input::Request(request)) => self.request(request, listener),
                None => listener.caught_up(),
            }
        }
        self.log_errors(log);
        self.finish(exit, listener)
    }

    /// Adds what was said on stderr to the log, each line marked: none is of the stream.
    fn log_errors(&mut self, log: &mut dyn Write) {
        if self.parser.is_none() {
            return;
        }
        for line in self.process.stderr().lines() {
            self.logged &= writeln!(log, "stderr: {line}").is_ok();
        }
    }

    /// The next input; none when it is time to look at the clock.
    fn next(&self, inbox: &Receiver<Input>, drain_until: Option<Instant>) -> Option<Input> {
        let now = Instant::now();
        let deadline = drain_until.or_else(|| self.watch.deadline());
        let wait = deadline.map_or(TICK, |at| at.saturating_duration_since(now).min(TICK));
        inbox.recv_timeout(wait).ok()
    }

    fn read(&mut self, bytes: &[u8], log: &mut dyn Write, listener: &mut dyn Listener) {
        // A session is worth more than its log.
        self.logged &= log.write_all(bytes).is_ok();
        if let Some(parser) = &mut self.parser {
            let (observer, watch, now) = (&mut self.observer, &mut self.watch, Instant::now());
            self.long_lines += self.lines.push(bytes, &mut |line| {
                parser.parse(line, &mut |event| {
                    watch.see(&event, now);
                    observer.observe(&event);
                    listener.event(&event);
                });
            });
            if self.observer.is_rejected()
                && let Some(order) = self.watch.end(EndedBy::Rejected, now)
            {
                self.process.order(order);
            }
        }
        listener.caught_up();
    }

    fn request(&mut self, request: Request, listener: &mut dyn Listener) {
        let order = self.watch.requested(request, Instant::now());
        self.process.order(order);
        if order == Order::Interrupt {
            listener.interrupted();
        }
    }

    fn finish(self, exit: Option<Exit>, listener: &mut dyn Listener) -> Report {
        let mut observer = self.observer;
        let ended_by = self.watch.ended_by();
        if let Some(mut parser) = self.parser {
            self.lines.finish(&mut |line| {
                parser.parse(line, &mut |event| {
                    observer.observe(&event);
                    listener.event(&event);
                });
            });
        }
        listener.caught_up();
        observer.end(ended_by);
        Report {
            facts: observer.into_facts(exit),
            ended_by,
            stderr: self.process.stderr(),
            long_lines: self.long_lines,
            logged: self.logged,
        }
    }
}
