//! A session as it happens: what the agent says, thinks and does, line by line.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use owo_colors::Style;

use super::flow::Flow;
use super::line::Line;
use super::price::amount;
use super::terminal::Terminal;
use super::text::{headline, printable_lines, width};
use super::tool;
use crate::dag::Billing;
use crate::event::{AgentEvent, Finished, LimitStatus, RateLimit, Speaker};
use crate::time::Timestamp;

/// How much of a tool's error is shown.
const ERROR_LINES: usize = 5;
/// Stands before every line of a thought.
const THOUGHT: &str = "│ ";
/// Stands before everything a subagent says or does.
const SUBAGENT: &str = "┆ ";

/// Shows the events of one session.
pub struct SessionView {
    terminal: Terminal,
    root: PathBuf,
    model: String,
    /// How the session is paid for.
    billing: Option<Billing>,
    open: Open,
    /// How what is open is laid out; none where it is written as it comes.
    flow: Option<Flow>,
    at_line_start: bool,
}

/// What was written last, and goes on if more of it comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Text(Speaker),
    Thought(Speaker),
}

impl Open {
    /// The style of its text, and what stands before each line of it.
    fn look(self) -> (Style, &'static str) {
        match self {
            Open::Thought(Speaker::Agent) => (Style::new().dimmed(), THOUGHT),
            Open::Thought(Speaker::Subagent) | Open::Text(Speaker::Subagent) => {
                (Style::new().dimmed(), SUBAGENT)
            }
            Open::Text(Speaker::Agent) | Open::Nothing => (Style::new(), ""),
        }
    }
}

impl SessionView {
    /// A view of a new session; paths inside `root` are shown relative to it.
    pub fn new(terminal: Terminal, root: &Path) -> SessionView {
        SessionView {
            terminal,
            root: root.to_owned(),
            model: String::new(),
            billing: None,
            open: Open::Nothing,
            flow: None,
            at_line_start: true,
        }
    }

    /// Writes what an event looks like. Whoever calls it sees to it that `out` is flushed when there
    /// is nothing more to show for the moment.
    pub fn show(&mut self, out: &mut dyn Write, event: &AgentEvent<'_>) -> io::Result<()> {
        match event {
            AgentEvent::TextDelta { from, text } => self.flow(out, Open::Text(*from), text)?,
            AgentEvent::ThinkingDelta { from, text } => {
                self.flow(out, Open::Thought(*from), text)?;
            }
            AgentEvent::Text { from, text, seen, model } => {
                if *from == Speaker::Agent {
                    self.model(out, model)?;
                }
                self.flow(out, Open::Text(*from), &text[*seen..])?;
                self.close(out)?;
            }
            AgentEvent::Thinking { from, text, seen } => {
                self.flow(out, Open::Thought(*from), &text[*seen..])?;
                self.close(out)?;
            }
            AgentEvent::Started(started) => {
                self.billing = started.billing;
                self.model(out, &started.model)?;
            }
            AgentEvent::ToolCall { from, name, input, .. } => {
                self.tool_call(out, *from, name, input)?;
            }
            AgentEvent::ToolResult { from, error: Some(error), .. } => {
                self.tool_error(out, *from, error)?;
            }
            AgentEvent::Denied { tool } => self.remark(out, &format!("not allowed: {tool}"))?,
            AgentEvent::Retrying { attempt, max, delay, status } => {
                let what =
                    status.map_or("no answer from the API".into(), |it| format!("API error {it}"));
                let delay = delay.as_secs_f64();
                self.remark(
                    out,
                    &format!("{what}, trying again in {delay:.1} s ({attempt} of {max})"),
                )?;
            }
            AgentEvent::RateLimit(limit) => self.rate_limit(out, limit)?,
            AgentEvent::Notice { text } if !text.is_empty() => self.remark(out, text)?,
            AgentEvent::Finished(finished) => {
                if let Some(text) = finished.unsaid() {
                    self.flow(out, Open::Text(Speaker::Agent), text)?;
                }
                self.finished(out, finished)?;
            }
            AgentEvent::Notice { .. }
            | AgentEvent::ToolResult { error: None, .. }
            | AgentEvent::Refused { .. }
            | AgentEvent::Used(_)
            | AgentEvent::Declined { .. }
            | AgentEvent::Asking
            | AgentEvent::Answered
            | AgentEvent::Alive
            | AgentEvent::Unknown { .. } => {}
        }
        Ok(())
    }

    /// Goes on in a terminal that may have another width.
    pub fn resize(&mut self, terminal: Terminal) {
        self.terminal = terminal;
        if let Some(flow) = &mut self.flow {
            flow.resize(terminal.columns());
        }
    }

    /// Ends a line that is still open.
    pub fn close(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(rest) = self.flow.take().map(Flow::finish) {
            self.write_lines(out, &rest)?;
        }
        self.open = Open::Nothing;
        if !self.at_line_start {
            self.at_line_start = true;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Goes on with a text or a thought, or begins it.
    fn flow(&mut self, out: &mut dyn Write, what: Open, text: &str) -> io::Result<()> {
        if self.open != what {
            self.close(out)?;
            self.open = what;
            let (_, bar) = what.look();
            let columns = self.terminal.width.map(|_| self.terminal.columns());
            self.flow = columns.map(|columns| Flow::new(columns, width(bar)));
        }
        let text = printable_lines(text);
        match &mut self.flow {
            Some(flow) => {
                let laid_out = flow.push(&text);
                self.write_lines(out, &laid_out)
            }
            None => self.write_lines(out, &text),
        }
    }

    fn write_lines(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        let (style, bar) = self.open.look();
        for piece in text.split_inclusive('\n') {
            let line = piece.trim_end_matches('\n');
            if self.at_line_start {
                self.write(out, bar, style)?;
            }
            self.write(out, line, style)?;
            self.at_line_start = piece.ends_with('\n');
            if self.at_line_start {
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn write(&self, out: &mut dyn Write, text: &str, style: Style) -> io::Result<()> {
        match (text.is_empty(), self.terminal.colour && !style.is_plain()) {
            (true, _) => Ok(()),
            (false, true) => write!(out, "{}", style.style(text)),
            (false, false) => out.write_all(text.as_bytes()),
        }
    }

    fn model(&mut self, out: &mut dyn Write, model: &str) -> io::Result<()> {
        // The program's own words are marked with a name in angle brackets.
        if model.is_empty() || model.starts_with('<') || model == self.model {
            return Ok(());
        }
        self.close(out)?;
        self.model = model.to_owned();
        Line::new(self.terminal).push(model, Style::new().purple()).write(out)
    }

    fn tool_call(
        &mut self,
        out: &mut dyn Write,
        from: Speaker,
        name: &str,
        input: &str,
    ) -> io::Result<()> {
        let argument = tool::argument(name, input, &self.root);
        let cyan = Style::new().cyan();
        let mut line = self.line(out, from)?;
        line.push("-> ", cyan).push(name, cyan).plain("(");
        // The bracket at the end always fits.
        let room = line.room().saturating_sub(1);
        line.push(&tool::fit(&super::text::flat(&argument), room), Style::new().dimmed());
        line.plain(")").write(out)
    }

    fn tool_error(&mut self, out: &mut dyn Write, from: Speaker, error: &str) -> io::Result<()> {
        let mut lines = error.lines().filter(|line| !line.trim().is_empty());
        for text in lines.by_ref().take(ERROR_LINES) {
            self.line(out, from)?.skip(3).push(&strip_tags(text), Style::new().red()).write(out)?;
        }
        match lines.count() {
            0 => Ok(()),
            more => {
                let text = format!("… {more} more lines");
                self.line(out, from)?.skip(3).push(&text, Style::new().dimmed()).write(out)
            }
        }
    }

    fn remark(&mut self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        let text = super::text::flat(text);
        self.line(out, Speaker::Agent)?.push("! ", Style::new().yellow()).plain(&text).write(out)
    }

    fn rate_limit(&mut self, out: &mut dyn Write, limit: &RateLimit<'_>) -> io::Result<()> {
        let how = match limit.status {
            LimitStatus::Allowed => return Ok(()),
            LimitStatus::Warning => "the usage limit is near; it resets at",
            LimitStatus::Rejected => "the usage limit is reached until",
        };
        let resets = limit.resets_at.and_then(Timestamp::from_epoch);
        let resets =
            resets.map_or(" an unknown time".to_owned(), |at| format!(" {}", at.to_the_second()));
        let window = limit.window.as_deref().map_or(String::new(), |it| format!(" ({it})"));
        self.remark(out, &format!("{how}{resets}{window}"))
    }

    fn finished(&mut self, out: &mut dyn Write, finished: &Finished<'_>) -> io::Result<()> {
        let mut line = self.line(out, Speaker::Agent)?;
        if finished.success {
            line.push("✓", Style::new().green());
        } else {
            line.push("✗ ", Style::new().red()).push(&reason(finished), Style::new().red()).skip(1);
        }
        let turns = if finished.turns == 1 { "turn" } else { "turns" };
        let figures = format!(
            " {}  {}  {} {turns}",
            seconds(finished.duration),
            amount(finished.cost_usd, 4, self.billing),
            finished.turns
        );
        line.push(&figures, Style::new().dimmed()).write(out)
    }

    /// A new line, behind whatever was open.
    fn line(&mut self, out: &mut dyn Write, from: Speaker) -> io::Result<Line> {
        self.close(out)?;
        let mut line = Line::new(self.terminal);
        if from == Speaker::Subagent {
            line.push(SUBAGENT, Style::new().dimmed());
        }
        Ok(line)
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Why a turn did not end well, in a few words.
fn reason(finished: &Finished<'_>) -> Cow<'static, str> {
    match (&*finished.subtype, finished.terminal_reason.as_deref(), finished.api_status) {
        ("error_max_turns", ..) => "the limit on turns was reached".into(),
        ("error_max_budget_usd", ..) => "the limit on cost was reached".into(),
        (_, Some("aborted_streaming" | "aborted_tools"), _) => "it was interrupted".into(),
        (_, Some("prompt_too_long"), _) => "the prompt is too long".into(),
        (_, _, Some(status)) => format!("API error {status}").into(),
        _ => {
            let text = finished.text.as_deref().unwrap_or_default();
            let text = finished.errors.first().map_or(text, |error| error);
            let headline = headline(text);
            if headline.is_empty() { "error".into() } else { headline.into() }
        }
    }
}

/// A line without `<tags>`.
fn strip_tags(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        plain.push_str(&rest[..start]);
        let tag = &rest[start..];
        let is_tag = tag[1..].starts_with(|c: char| c == '/' || c.is_ascii_alphabetic());
        // A tag has no other inside it: so no character is looked at more than twice.
        let end = tag[1..].find(['<', '>']).map(|end| end + 1);
        match end.filter(|&end| is_tag && tag.as_bytes()[end] == b'>') {
            Some(end) => rest = &tag[end + 1..],
            None => {
                plain.push('<');
                rest = &tag[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}
