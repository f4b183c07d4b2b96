//! A run as a person sees it: a heading for each iteration, the session live, what came of it, a line
//! at the bottom that says where we are, and a summary at the end.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use owo_colors::Style;

use super::line::Line;
use super::price::{amount, short};
use super::prose::prose;
use super::session::SessionView;
use super::sessions::log_line;
use super::stamps::{self, Stamps};
use super::status_line::StatusLine;
use super::summary;
use super::terminal::Terminal;
use super::text::{flat, printable_lines, wrap};
use super::when::lasted;
use crate::dag::{Billing, Outcome, ReasonKind, Status};
use crate::event::{
    Activity, AgentEvent, Diff, Event, IterationEnd, IterationStart, RunCommand, Stamped, Start,
    Stats, Verifier, Verify, VerifyStatus, View,
};
use crate::time::Timestamp;

/// Shows a run.
pub struct RunView<W: Write> {
    out: Stamps<StatusLine<W>>,
    session: SessionView,
    terminal: Terminal,
    /// Tells what the terminal is like now.
    look: Option<Box<dyn Fn() -> Terminal>>,
    /// How many columns the time before each line takes.
    stamp: usize,
    /// Whether there is a line at the bottom.
    has_status: bool,
    /// Tells whether the terminal is another program's for now.
    is_away: Option<Box<dyn Fn() -> bool>>,
    root: PathBuf,
    now: Now,
    most_iterations: Option<u32>,
    loop_id: Option<String>,
    /// Where warnings go, if not between everything else.
    warnings: Option<(Box<dyn Write>, Terminal)>,
}

/// What the line at the bottom is made of.
#[derive(Debug, Default)]
struct Now {
    began: Option<Timestamp>,
    task: String,
    done: u32,
    total: u32,
    /// What the run had cost when the iteration began.
    cost_before: f64,
    /// What the iteration has cost without the session that is shown.
    cost_of_iteration: f64,
    /// What the session that is shown has cost.
    cost_of_session: f64,
    /// How the last session is paid for.
    billing: Option<Billing>,
}

impl Now {
    fn cost(&self) -> f64 {
        self.cost_before + self.cost_of_iteration + self.cost_of_session
    }
}

impl<W: Write> RunView<W> {
    /// A view on `out`; a line at the bottom needs a real terminal.
    pub fn new(out: W, terminal: Terminal, root: &Path, options: RunViewOptions) -> RunView<W> {
        let stamp = if options.timestamps { stamps::WIDTH } else { 0 };
        let terminal = behind(stamp, terminal);
        RunView {
            out: Stamps::new(StatusLine::new(out), options.timestamps),
            session: SessionView::new(terminal, root),
            terminal,
            look: None,
            stamp,
            has_status: options.status_line,
            is_away: None,
            root: root.to_owned(),
            now: Now::default(),
            most_iterations: None,
            loop_id: None,
            warnings: None,
        }
    }

    /// The same with warnings on an output of their own, such as stderr.
    pub fn warning_on(mut self, warnings: Box<dyn Write>, terminal: Terminal) -> RunView<W> {
        self.warnings = Some((warnings, terminal));
        self
    }

    fn warn(&mut self, message: &str) -> io::Result<()> {
        if self.warnings.is_none() {
            return self.labelled("warning", Style::new().yellow(), message);
        }
        // Both may be the same terminal: what was shown so far comes first, and nothing stands in the way.
        self.session.close(&mut self.out)?;
        self.out.out.clear()?;
        self.out.flush()?;
        if let Some((warnings, terminal)) = &mut self.warnings {
            let text = prose(&format!("warning: {}", flat(message)), *terminal);
            // A person who has closed stderr does not want to know.
            let _ = warnings.write_all(text.as_bytes());
        }
        Ok(())
    }

    /// Follows a terminal whose window is made wider or narrower: `look` tells what it is like now.
    pub fn following(mut self, look: impl Fn() -> Terminal + 'static) -> RunView<W> {
        self.look = Some(Box::new(look));
        self
    }

    /// Draws no line at the bottom while `is_away` tells that the terminal is another program's: the
    /// line would be in the way of what a person types into the shell.
    pub fn unless(mut self, is_away: impl Fn() -> bool + 'static) -> RunView<W> {
        self.is_away = Some(Box::new(is_away));
        self
    }

    fn follow(&mut self) {
        let now = self.look.as_ref().map(|look| behind(self.stamp, look()));
        if let Some(now) = now.filter(|now| *now != self.terminal) {
            self.terminal = now;
            self.session.resize(now);
        }
    }

    fn line(&self) -> Line {
        Line::new(self.terminal)
    }

    /// Writes a line that begins with a word in its own column.
    fn labelled(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        self.session.close(&mut self.out)?;
        let lines = wrap(&flat(text), self.terminal.columns() - LABEL);
        let mut line = self.line();
        line.push(label, style).at(LABEL).plain(lines.first().map_or("", |first| first));
        line.write(&mut self.out)?;
        let rest = lines.get(1..).unwrap_or_default();
        rest.iter().try_for_each(|text| self.line().at(LABEL).plain(text).write(&mut self.out))
    }

    fn start(&mut self, start: &Start<'_>, at: Timestamp) -> io::Result<()> {
        self.now = Now { began: Some(at), done: start.done, total: start.total, ..Now::default() };
        self.most_iterations = start.max_iterations;
        // Docker's spinner moves the cursor.
        self.out.clears = start.sandbox.starts_with("docker") && self.terminal.colour;
        self.loop_id = start.loop_id.map(str::to_owned);
        let progress = match start.total {
            0 => String::new(),
            total => format!(", {}/{total} done", start.done),
        };
        let target = start.target.unwrap_or("everything");
        let (bold, dimmed) = (Style::new().bold(), Style::new().dimmed());
        match start.command {
            RunCommand::Run => self.labelled("run", bold, &format!("{target}{progress}"))?,
            RunCommand::Loop => {
                self.labelled("loop", bold, &loop_facts(start))?;
                self.labelled("prompt", dimmed, target)?;
                if let Some(plan) = start.plan {
                    self.labelled("plan", dimmed, &format!("{plan}{progress}"))?;
                }
            }
        }
        self.labelled("sandbox", dimmed, start.sandbox)
    }

    fn iteration_start(&mut self, start: &IterationStart<'_>) -> io::Result<()> {
        self.session = SessionView::new(self.terminal, &self.root);
        let task = start.task.map_or(String::new(), |task| format!("{task} "));
        self.now.task = format!("{task}{}", flat(start.title));
        (self.now.done, self.now.total) = (start.done, start.total);
        self.now.cost_before = start.cost_usd;
        (self.now.cost_of_iteration, self.now.cost_of_session) = (0.0, 0.0);
        writeln!(self.out)?;
        let mut line = self.line();
        let number = match (start.task, self.most_iterations) {
            (None, Some(most)) => format!("━━ {}/{most} ", start.iteration),
            _ => format!("━━ {} ", start.iteration),
        };
        line.push(&number, Style::new().cyan()).push(&task, Style::new().dimmed());
        line.push(&flat(start.title), Style::new().bold());
        if let Some(id) = &self.loop_id {
            line.skip(2).push(id, Style::new().dimmed());
        }
        line.write(&mut self.out)?;
        let model = if start.hinted {
            format!("{} (as the last session asked)", start.model)
        } else {
            start.model.to_owned()
        };
        let elapsed = lasted(Duration::from_secs_f64(start.elapsed_secs));
        let mut facts = Vec::new();
        if start.task.is_some() {
            facts.push(format!("attempt {}", start.attempt));
        }
        facts.extend(Some(model).filter(|model| !model.is_empty()));
        if start.total > 0 {
            facts.push(format!("{}/{} done", start.done, start.total));
        }
        facts.extend([elapsed, short(start.cost_usd, 2, self.now.billing)]);
        let facts = facts.join(" · ");
        self.line().skip(3).push(&facts, Style::new().dimmed()).write(&mut self.out)?;
        if start.log.is_empty() {
            return Ok(());
        }
        self.out.write_all(b"   ")?;
        log_line(&mut self.out, Path::new(start.log), self.terminal)
    }

    fn iteration_end(&mut self, end: &IterationEnd<'_>) -> io::Result<()> {
        (self.now.cost_of_iteration, self.now.cost_of_session) = (end.bill.cost_usd, 0.0);
        self.now.billing = end.bill.billing;
        let (red, yellow) = (Style::new().red(), Style::new().yellow());
        let reason = end.reason.unwrap_or_default();
        let (label, style, text) = match (end.outcome, end.status) {
            (Outcome::Done, None) => {
                ("✓ iteration complete", Style::new().green(), reason.to_owned())
            }
            (Outcome::Done, _) => ("✓ done", Style::new().green(), String::new()),
            (Outcome::Blocked, _) => ("? asks", yellow, reason.to_owned()),
            (Outcome::Failed | Outcome::Silent, Some(Status::Failed)) => {
                ("✗ failed for good", red, reason.to_owned())
            }
            (Outcome::Failed | Outcome::Silent, Some(_)) => {
                ("✗ failed, will be tried again", red, reason.to_owned())
            }
            (Outcome::Failed | Outcome::Silent, None) => ("✗ failed", red, reason.to_owned()),
            (outcome, _) => (outcome.name(), yellow, reason.to_owned()),
        };
        self.session.close(&mut self.out)?;
        let mut line = self.line();
        line.push(label, style).skip(2);
        let cost = amount(end.bill.cost_usd, 2, end.bill.billing);
        let facts = format!("{}  {cost}", lasted(Duration::from_secs_f64(end.duration_secs)));
        line.push(&facts, Style::new().dimmed()).write(&mut self.out)?;
        let lines = wrap(&printable_lines(&text), self.terminal.columns() - INDENT);
        let lines = excerpt(lines, ReasonKind::of(&text));
        lines
            .iter()
            .try_for_each(|text| self.line().skip(INDENT).push(text, style).write(&mut self.out))
    }

    fn verify(&mut self, verify: &Verify<'_>) -> io::Result<()> {
        let what = match verify.by {
            Verifier::Command(command) => command.to_owned(),
            Verifier::Agent => "a second agent".to_owned(),
        };
        let (mark, style) = match verify.status {
            VerifyStatus::Started => ("…", Style::new().dimmed()),
            VerifyStatus::Passed => ("✓", Style::new().green()),
            VerifyStatus::Failed => ("✗", Style::new().red()),
        };
        let label = if verify.task.is_some() { "verify" } else { "checking" };
        self.labelled(label, style, &format!("{mark} {what}"))?;
        if let (VerifyStatus::Failed, None, Some(reason)) =
            (verify.status, verify.task, verify.reason)
        {
            let lines: Vec<&str> = reason.lines().skip(1).collect();
            for line in &lines[lines.len().saturating_sub(REASON_LINES)..] {
                self.line().skip(3).push(line, style).write(&mut self.out)?;
            }
        }
        if let (VerifyStatus::Started, Some(log)) = (verify.status, verify.log) {
            self.session = SessionView::new(self.terminal, &self.root);
            self.now.cost_of_iteration += std::mem::take(&mut self.now.cost_of_session);
            self.out.write_all(b"   ")?;
            log_line(&mut self.out, Path::new(log), self.terminal)?;
        }
        Ok(())
    }

    fn stats(&mut self, stats: &Stats<'_>) -> io::Result<()> {
        if stats.diff.commits > 0 {
            let pushed = if stats.pushed { ", pushed" } else { "" };
            self.labelled(
                "git",
                Style::new().dimmed(),
                &format!("{}{pushed}", changes(stats.diff)),
            )?;
        }
        match (stats.salvage, stats.salvaged) {
            (Some(reference), Some(what)) => {
                let text = format!("{what} are kept as {reference}");
                self.labelled("git", Style::new().yellow(), &text)
            }
            _ => Ok(()),
        }
    }

    /// Where we are, in a line.
    fn status(&self, now: Timestamp, activity: &Activity) -> String {
        let mut line = Line::new(self.terminal);
        let dim = Style::new().dimmed();
        let elapsed = self.now.began.map_or(Duration::ZERO, |began| now.since(began));
        match activity {
            Activity::Working => line.push("► ", Style::new().cyan()).plain(&self.now.task),
            // Before the first session.
            Activity::Verifying if self.now.task.is_empty() => {
                line.push("► checking", Style::new().cyan())
            }
            Activity::Verifying => {
                line.push("► verifying ", Style::new().cyan()).plain(&self.now.task)
            }
            Activity::Waiting { until } => line
                .push("◷ waiting for the API until ", Style::new().yellow())
                .plain(&format!("{}, {} left", until.to_the_second(), countdown(until.since(now)))),
            Activity::Paused => {
                line.push("‖ paused", Style::new().yellow()).plain("; p or `ralph resume` goes on")
            }
            Activity::Idle => line.push("◷ waiting for other runs", Style::new().yellow()),
            Activity::Between { until } => line
                .push("◷ next iteration in ", Style::new().yellow())
                .plain(&lasted(whole_seconds(until.since(now)))),
        };
        let cost = short(self.now.cost(), 2, self.now.billing);
        let mut facts = format!("{} · {cost}", lasted(elapsed));
        if self.now.total > 0 {
            facts.insert_str(0, &format!("{}/{} · ", self.now.done, self.now.total));
        }
        line.skip(2).push(&facts, dim);
        let mut text = Vec::new();
        let _ = line.write(&mut text);
        String::from_utf8_lossy(&text).trim_end().to_owned()
    }
}

/// The lines of a reason that are shown: as many as there is room for, where it tells most.
fn excerpt(mut lines: Vec<String>, kind: ReasonKind) -> Vec<String> {
    let excess = lines.len().saturating_sub(REASON_LINES);
    match kind {
        _ if excess == 0 => {}
        ReasonKind::Output => drop(lines.splice(..excess, ["…".to_owned()])),
        ReasonKind::Words => drop(lines.splice(REASON_LINES.., ["…".to_owned()])),
    }
    lines
}

/// How a loop works, for how long, and what it is called.
fn loop_facts(start: &Start<'_>) -> String {
    let iterations = match start.max_iterations {
        Some(1) => Some("1 iteration".to_owned()),
        most => most.map(|most| format!("{most} iterations")),
    };
    let mode = Some(start.mode.name().to_owned());
    let facts = [mode, iterations, start.loop_id.map(str::to_owned)];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// How a run is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunViewOptions {
    /// With the time before each line.
    pub timestamps: bool,
    /// With a line at the bottom.
    pub status_line: bool,
}

/// Where the text of a line begins whose first word says what it is about.
const LABEL: usize = 9;
/// Where what belongs to the line above begins.
const INDENT: usize = 3;
/// How many lines of a reason are shown; all of it is in `ralph task show`.
const REASON_LINES: usize = 12;

impl<W: Write> View for RunView<W> {
    fn event(&mut self, stamped: &Stamped<'_>) -> io::Result<()> {
        match stamped.event {
            Event::Start(start) => self.start(start, stamped.ts)?,
            Event::IterationStart(start) => self.iteration_start(start)?,
            Event::IterationEnd(end) => self.iteration_end(end)?,
            Event::Verify(verify) => self.verify(verify)?,
            Event::Stats(stats) => self.stats(stats)?,
            Event::Progress(progress) => {
                (self.now.done, self.now.total) = (progress.done, progress.total);
            }
            Event::LimitWait(wait) => {
                let text = format!(
                    "{}; waiting until {} ({})",
                    wait.reason,
                    wait.until.to_the_second(),
                    lasted(Duration::from_secs(wait.seconds))
                );
                self.labelled("wait", Style::new().yellow(), &text)?;
            }
            Event::Pause => {
                self.labelled("pause", Style::new().yellow(), "`ralph resume` goes on")?;
            }
            Event::Resume => self.labelled("resume", Style::new().yellow(), "going on")?,
            Event::Idle(idle) => self.labelled("idle", Style::new().dimmed(), idle.reason)?,
            Event::Error(problem) if problem.fatal => {
                self.labelled("error", Style::new().red(), problem.message)?;
            }
            Event::Error(problem) => self.warn(problem.message)?,
            Event::Complete(complete) => {
                self.session.close(&mut self.out)?;
                self.out.out.clear()?;
                summary::write(&mut self.out, complete, self.terminal)?;
            }
            // They were shown as they happened.
            Event::Text(_) | Event::Reasoning(_) | Event::Tool(_) | Event::ToolError(_) => {}
        }
        self.out.flush()
    }

    fn live(&mut self, event: &AgentEvent<'_>) -> io::Result<()> {
        if let AgentEvent::Started(started) = event {
            self.now.billing = started.billing;
        }
        if let AgentEvent::Finished(finished) = event {
            self.now.cost_of_session = finished.cost_usd.max(self.now.cost_of_session);
        }
        self.session.show(&mut self.out, event)
    }

    fn tick(&mut self, now: Timestamp, activity: &Activity) -> io::Result<()> {
        self.follow();
        if self.is_away.as_ref().is_some_and(|is_away| is_away()) {
            self.out.out.forget();
        } else if self.has_status {
            let status = self.status(now, activity);
            self.out.out.draw(&status)?;
        }
        self.out.flush()
    }

    fn interrupted(&mut self, program: &str) -> io::Result<()> {
        self.session.close(&mut self.out)?;
        writeln!(self.out, "{}", waiting_for(program))?;
        self.out.flush()
    }
}

impl<W: Write> Drop for RunView<W> {
    fn drop(&mut self) {
        let _ = self.out.out.clear().and_then(|()| self.out.flush());
    }
}

/// What a person is told who has interrupted `program` once.
pub fn waiting_for(program: &str) -> String {
    format!("Waiting for {} to finish; press Ctrl+C again to kill it", flat(program))
}

/// What is left of a terminal behind so many columns.
fn behind(columns: usize, terminal: Terminal) -> Terminal {
    Terminal { width: terminal.width.map(|width| width.saturating_sub(columns)), ..terminal }
}

/// Commits and what they changed, in words.
pub(super) fn changes(diff: Diff) -> String {
    let plural =
        |count: u32, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {} changed, +{} −{}",
        plural(diff.commits, "commit"),
        plural(diff.files, "file"),
        diff.insertions,
        diff.deletions
    )
}

/// What is left of a wait: not over before it is.
fn whole_seconds(left: Duration) -> Duration {
    Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0))
}

/// Such as `1:23:45`.
fn countdown(left: Duration) -> String {
    let seconds = whole_seconds(left).as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::dag::{Bill, TaskId};
    use crate::event::{Finished, Left, Speaker};
    use crate::ui::status_line::{BACK, MAKE_ROOM};
    use crate::ui::text::{split, wrap};

    const PROSE: &str = "I read what is there before I change it, so that what I add follows the \
        conventions of the project instead of inventing new ones. Then I'll implement the two \
        functions, and test them: the order is always the same, and a word that does not fit goes \
        to the next line, 東京 and 大阪 as well.";
    const WIDE: &str = "東京都は日本の首都であり東京都は日本の首都であり東京都は日本の首都であり東京都は日本の首都\
        であり東京都は日本の首都であり東京都は日本の首都であり東京都は日本の首都であり";
    const CODE: &str = "let all = first.iter().chain(second.iter()).map(|it| it.name.clone()).collect::<Vec<_>>(); // 東京, all of it";

    /// The screen after a text came in pieces of so many characters, with the status line drawn after
    /// each of them.
    fn screen(text: &str, columns: u16, piece: usize) -> Vec<String> {
        let terminal = Terminal { width: Some(columns.into()), colour: true };
        let options = RunViewOptions { status_line: true, ..RunViewOptions::default() };
        let mut bytes = Vec::new();
        let mut view = RunView::new(&mut bytes, terminal, Path::new("/"), options);
        let characters: Vec<char> = text.chars().collect();
        for (number, piece) in characters.chunks(piece).enumerate() {
            let text = piece.iter().collect::<String>().into();
            view.live(&AgentEvent::TextDelta { from: Speaker::Agent, text }).unwrap();
            view.now.cost_before = number as f64;
            view.tick(Timestamp::from_epoch(0).unwrap(), &Activity::Working).unwrap();
        }
        view.live(&AgentEvent::ToolCall {
            from: Speaker::Agent,
            id: "".into(),
            name: "Done".into(),
            input: "{}".into(),
        })
        .unwrap();
        drop(view);
        let size = |number| std::num::NonZero::new(number).unwrap();
        let mut emulated = vt100::Parser::new(size(12), size(columns), 100);
        let mut show = |text: &str| {
            // The emulation does not know "index", but what a line feed alone is.
            emulated.process(text.replace('\n', "\r\n").replace("\x1bD", "\n").as_bytes());
            emulated.screen().cursor_position()
        };
        let bytes = String::from_utf8(bytes).unwrap();
        let mut drawn = bytes.split(MAKE_ROOM);
        let (_, mut column) = show(drawn.next().unwrap());
        for drawn in drawn {
            let (status, text) = drawn.split_once(BACK).unwrap();
            let (row, _) = show(&format!("{MAKE_ROOM}{status}{BACK}"));
            if column == columns {
                // On a real terminal the cursor comes back *on* the last column, not behind it.
                show(&format!("\x1b[{};{columns}H", row + 1));
            }
            (_, column) = show(text);
        }
        let rows = emulated.screen().rows(0, columns).map(|row| row.trim_end().to_owned());
        rows.take_while(|row| row != "-> Done()").collect()
    }

    #[test]
    fn the_status_line_swallows_no_letter_wherever_a_piece_ends() {
        for columns in [40, 60, 80, 100] {
            let width = usize::from(columns);
            let (full_row, _) = split(CODE, width);
            let without_blanks = |text: &str| text.replace(' ', "");
            let code = format!("```\n{CODE}\n```");
            for piece in (1..=width + 1).chain([2 * width]) {
                let context = format!("{columns} columns, pieces of {piece}");
                assert_eq!(screen(PROSE, columns, piece).join(" "), PROSE, "{context}");
                assert_eq!(screen(WIDE, columns, piece), wrap(WIDE, width), "{context}");
                let shown = screen(&code, columns, piece);
                assert_eq!(shown[1], full_row.trim_end(), "{context}");
                assert_eq!(
                    without_blanks(&shown.concat()),
                    without_blanks(&code).replace('\n', "")
                );
            }
        }
    }

    #[test]
    fn the_status_line_has_the_cost_of_what_has_ended() {
        let mut view =
            RunView::new(Vec::new(), Terminal::PLAIN, Path::new("/"), RunViewOptions::default());
        let now = Timestamp::from_epoch(0).unwrap();
        let status = |view: &RunView<Vec<u8>>| view.status(now, &Activity::Working);
        view.now.cost_before = 0.25;
        let finished =
            |cost_usd| AgentEvent::Finished(Box::new(Finished { cost_usd, ..Finished::default() }));
        for (cost, shown) in [(0.1, "$0.35"), (0.2, "$0.45")] {
            view.live(&finished(cost)).unwrap();
            assert!(status(&view).ends_with(shown), "{}", status(&view));
        }
        let verify = Verify {
            iteration: 1,
            task: Some(TaskId::from_bits(1)),
            by: Verifier::Agent,
            status: VerifyStatus::Started,
            reason: None,
            log: Some("log"),
        };
        view.verify(&verify).unwrap();
        view.live(&finished(0.05)).unwrap();
        assert!(status(&view).ends_with("$0.50"), "{}", status(&view));
        let end = IterationEnd {
            iteration: 1,
            task: None,
            attempt_id: None,
            outcome: Outcome::Done,
            reason: None,
            status: None,
            model: "",
            duration_secs: 1.0,
            bill: Bill { cost_usd: 0.25, ..Bill::default() },
            turns: 1,
            log: "",
        };
        view.iteration_end(&end).unwrap();
        let paused = view.status(now, &Activity::Paused);
        assert!(paused.ends_with("$0.50"), "{paused}");
    }

    #[test]
    fn before_the_first_session_the_status_line_says_that_checks_are_tried() {
        let terminal = Terminal { width: Some(80), colour: false };
        let options = RunViewOptions::default();
        let mut view = RunView::new(Vec::new(), terminal, Path::new("/"), options);
        let now = Timestamp::from_epoch(0).unwrap();
        assert_eq!(view.status(now, &Activity::Verifying), "► checking  0 s · $0.00");
        view.now.task = "t-3f9a01 One".to_owned();
        assert_eq!(view.status(now, &Activity::Verifying), "► verifying t-3f9a01 One  0 s · $0.00");
    }

    #[test]
    fn between_two_iterations_the_status_line_says_when_the_next_one_begins() {
        let view =
            RunView::new(Vec::new(), Terminal::PLAIN, Path::new("/"), RunViewOptions::default());
        let now = Timestamp::from_epoch(0).unwrap();
        let until = now.plus(Duration::from_millis(1500));
        let status = view.status(now, &Activity::Between { until });
        assert_eq!(status, "◷ next iteration in 2 s  0 s · $0.00");
    }

    #[test]
    fn what_is_said_about_a_run_is_wrapped_and_not_cut() {
        let mut bytes = Vec::new();
        let terminal = Terminal { width: Some(40), colour: false };
        let mut view =
            RunView::new(&mut bytes, terminal, Path::new("/"), RunViewOptions::default());
        let text = "`git push` ended with code 128: fatal: there is no upstream";
        view.labelled("warning", Style::new(), text).unwrap();
        drop(view);
        insta::assert_snapshot!(String::from_utf8(bytes).unwrap(), @"
        warning  `git push` ended with code 128:
                 fatal: there is no upstream
        ");
    }

    #[test]
    fn a_run_follows_the_width_of_its_window() {
        let width = Rc::new(Cell::new(60));
        let now = Rc::clone(&width);
        let look = move || Terminal { width: Some(now.get()), colour: false };
        let mut bytes = Vec::new();
        let options = RunViewOptions::default();
        let mut view = RunView::new(&mut bytes, look(), Path::new("/"), options).following(look);
        let mut say = |text: &str| {
            let (from, text) = (Speaker::Agent, text.to_owned().into());
            view.tick(Timestamp::from_epoch(0).unwrap(), &Activity::Working).unwrap();
            view.live(&AgentEvent::TextDelta { from, text }).unwrap();
        };
        say("This is a line that fits in a window of sixty columns.\n");
        width.set(30);
        say("This is a line that fits in a window of sixty columns.\n");
        drop(view);
        insta::assert_snapshot!(String::from_utf8(bytes).unwrap(), @"
        This is a line that fits in a window of sixty columns.
        This is a line that fits in a
        window of sixty columns.
        ");
    }

    #[test]
    fn a_long_reason_is_shown_from_the_end_that_tells_most() {
        let lines = |count: usize| (1..=count).map(|it| it.to_string()).collect::<Vec<_>>();
        for kind in [ReasonKind::Words, ReasonKind::Output] {
            assert_eq!(excerpt(lines(REASON_LINES), kind), lines(REASON_LINES));
        }
        let ends = |kind| {
            let shown = excerpt(lines(REASON_LINES + 2), kind);
            (shown[0].clone(), shown[REASON_LINES].clone())
        };
        assert_eq!(ends(ReasonKind::Words), ("1".into(), "…".into()));
        assert_eq!(ends(ReasonKind::Output), ("…".into(), (REASON_LINES + 2).to_string()));
    }

    #[test]
    fn what_is_kept_of_an_attempt_is_called_what_it_is() {
        for (what, expected) in [
            (Left::Changes, "git      uncommitted changes are kept as refs/x\n"),
            (Left::Commits, "git      commits that are not on the branch are kept as refs/x\n"),
            (
                Left::Commits.with_changes(),
                "git      uncommitted changes and commits that are not on the branch are kept as refs/x\n",
            ),
        ] {
            let mut bytes = Vec::new();
            let options = RunViewOptions::default();
            let mut view = RunView::new(&mut bytes, Terminal::PLAIN, Path::new("/"), options);
            let stats = Stats {
                iteration: 1,
                head: None,
                diff: Diff::default(),
                salvage: Some("refs/x"),
                salvaged: Some(what),
                pushed: false,
            };
            view.stats(&stats).unwrap();
            drop(view);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }

    #[test]
    fn a_countdown_is_read_like_a_clock() {
        for (seconds, shown) in [(0, "0:00"), (59, "0:59"), (61, "1:01"), (5025, "1:23:45")] {
            assert_eq!(countdown(Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn changes_are_words() {
        let diff = Diff { commits: 1, files: 2, insertions: 30, deletions: 4 };
        assert_eq!(changes(diff), "1 commit, 2 files changed, +30 −4");
    }
}
