//! Tells a person who does not look at the screen that a run has ended or needs them.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::setup::Setup;
use crate::agent::find_program;
use crate::dag::Outcome;
use crate::event::{Activity, AgentEvent, Event, Stamped, View};
use crate::time::Timestamp;

/// How long a notification may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The programs that can notify: their name, and what comes before the words.
const PROGRAMS: [(&str, &[&str]); 2] = [("notify-send", &["ralph"]), ("say", &[])];

/// A view that also notifies.
pub(super) struct Notifying<'a> {
    pub(super) view: Box<dyn View + 'a>,
    pub(super) notifier: Notifier,
}

/// How a person is told.
pub(super) struct Notifier {
    command: Option<String>,
    program: Option<(std::path::PathBuf, &'static [&'static str])>,
    rings: bool,
}

impl Notifier {
    /// By the user's command, or else by the terminal and what the system has.
    pub(super) fn new(command: Option<String>, setup: &Setup) -> Notifier {
        let path = setup.environment.var("PATH").unwrap_or_default();
        let here = setup.directory().unwrap_or_default();
        let program = PROGRAMS
            .iter()
            .find_map(|(name, before)| Some((find_program(name.as_ref(), &path, &here)?, *before)));
        let rings = rustix::termios::isatty(io::stderr());
        // On a screen without a person there is nobody to notify.
        let program = program.filter(|_| rings);
        Notifier { command, program, rings }
    }

    pub(super) fn notify(&self, event: &str, message: &str) {
        if self.rings {
            // The bell, and the two ways in which terminals show a notification.
            let plain: String = message.chars().filter(|c| !c.is_control() && *c != ';').collect();
            let _ = write!(
                io::stderr(),
                "\x07\x1b]9;ralph: {plain}\x07\x1b]777;notify;ralph;{plain}\x07"
            );
        }
        let mut command = match (&self.command, &self.program) {
            (Some(line), _) => {
                let mut command = Command::new("sh");
                command.args(["-c", line]);
                command
            }
            (None, Some((program, before))) => {
                let mut command = Command::new(program);
                command.args(*before).arg(message);
                command
            }
            (None, None) => return,
        };
        command.env("RALPH_EVENT", event).env("RALPH_MESSAGE", message);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Nobody is worse off than before if this fails.
        if let Ok(mut child) = command.spawn() {
            let began = Instant::now();
            while matches!(child.try_wait(), Ok(None)) {
                if began.elapsed() > PATIENCE {
                    let _ = child.kill();
                    let _ = child.wait();
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

impl View for Notifying<'_> {
    fn event(&mut self, stamped: &Stamped<'_>) -> io::Result<()> {
        let shown = self.view.event(stamped);
        match stamped.event {
            Event::Complete(summary) if summary.outcome != "interrupted" => {
                self.notifier.notify(summary.outcome, &summary.message);
            }
            Event::IterationEnd(end) if end.outcome == Outcome::Blocked => {
                let question = end.reason.unwrap_or_default();
                let task = end.task.map_or(String::new(), |task| task.to_string());
                self.notifier.notify("blocked", &format!("{task} asks: {question}"));
            }
            _ => {}
        }
        shown
    }

    fn live(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        self.view.live(event)
    }

    fn tick(&mut self, now: Timestamp, activity: &Activity) -> io::Result<()> {
        self.view.tick(now, activity)
    }

    fn interrupted(&mut self, program: &str) -> io::Result<()> {
        self.view.interrupted(program)
    }
}
