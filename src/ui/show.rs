//! Everything about one task, and what was noted about it.

use std::collections::HashSet;
use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::mark::mark;
use super::price::short;
use super::progress::Progress;
use super::terminal::Terminal;
use super::text::{printable, printable_lines, width, wrap};
use super::when::{ago, lasted};
use crate::dag::{Attempt, Kind, LogEntry, LogEvent, Outcome, Snapshot, State, Task};
use crate::time::Timestamp;

/// The column at which values begin.
const VALUE: usize = 13;
/// How many neighbours, attempts and log entries are shown.
const ROWS: usize = 8;
/// How many of the groups around a task are named.
const GROUPS: usize = 4;
/// Prose is not set wider than this where lines are wrapped at all.
const PROSE: usize = 88;
/// With less room than this beside it, a message stands on lines of its own.
const BESIDE: usize = 36;

/// A task and everything around it.
pub struct Detail<'a> {
    /// Its facts.
    pub task: &'a Task,
    /// All tasks.
    pub snapshot: &'a Snapshot,
    /// Its place among them.
    pub index: usize,
    /// The name of its feature.
    pub feature: Option<&'a str>,
    /// The attempts on it, in order.
    pub attempts: &'a [Attempt],
    /// Its log, in order.
    pub log: &'a [LogEntry],
    /// The time now.
    pub now: Timestamp,
}

/// Writes all there is to know about a task.
pub fn task(out: &mut dyn Write, detail: &Detail<'_>, terminal: Terminal) -> io::Result<()> {
    let mut page = Page { out, terminal };
    page.title(detail)?;
    page.facts(detail)?;
    page.neighbours(detail)?;
    page.description(detail)?;
    page.attempts(detail)?;
    page.log(detail)
}

/// Writes a line for each entry, more where its message has more.
pub fn log(out: &mut dyn Write, entries: &[LogEntry], terminal: Terminal) -> io::Result<()> {
    if entries.is_empty() {
        return Line::new(terminal).plain("nothing was noted yet").write(out);
    }
    Page { out, terminal }.entries(entries, 0)
}

struct Page<'a> {
    out: &'a mut dyn Write,
    terminal: Terminal,
}

impl Page<'_> {
    fn title(&mut self, detail: &Detail<'_>) -> io::Result<()> {
        let mark = mark(detail.snapshot.state(detail.index));
        for (place, title) in self.wrapped(&printable(&detail.task.title), 2).iter().enumerate() {
            let mut line = Line::new(self.terminal);
            line.push(if place == 0 { mark.symbol } else { "" }, mark.style);
            line.at(2).push(title, Style::new().bold()).write(self.out)?;
        }
        Ok(())
    }

    fn facts(&mut self, detail: &Detail<'_>) -> io::Result<()> {
        let (task, snapshot) = (detail.task, detail.snapshot);
        let mark = mark(snapshot.state(detail.index));
        self.fact("id", &task.id.to_string(), Style::new())?;
        self.fact("state", &state(detail), mark.style)?;
        if let Some(reason) = &task.reason {
            let label = match snapshot.state(detail.index) {
                State::Blocked => "question",
                State::Ready | State::Waiting | State::InProgress | State::Done | State::Failed => {
                    "reason"
                }
            };
            self.fact(label, reason, mark.style)?;
        }
        if task.parent.is_some() {
            self.fact("inside", &groups(detail), Style::new())?;
        }
        if let Some(feature) = detail.feature {
            self.fact("feature", feature, Style::new())?;
        }
        if let Some(key) = &task.key {
            self.fact("key", key, Style::new())?;
        }
        if task.priority != 0 {
            self.fact("priority", &task.priority.to_string(), Style::new())?;
        }
        match (task.retries, task.max_retries) {
            (0, None) => {}
            (used, None) => self.fact("retries", &format!("{used} used"), Style::new())?,
            (used, Some(most)) => {
                self.fact("retries", &format!("{used} of {most} used"), Style::new())?;
            }
        }
        self.fact("created", &ago(detail.now.since(task.created_at)), Style::new())
    }

    fn neighbours(&mut self, detail: &Detail<'_>) -> io::Result<()> {
        let graph = &detail.snapshot.graph;
        let blockers: Vec<usize> = graph.blockers(detail.index).collect();
        let own: HashSet<usize> = blockers.iter().copied().collect();
        let mut outer = detail.snapshot.waiting_on(detail.index);
        outer.retain(|task| !own.contains(task));
        self.tasks("waits for", detail.snapshot, &blockers)?;
        self.tasks("held by", detail.snapshot, &outer)?;
        self.tasks("needed by", detail.snapshot, &graph.blocked(detail.index).collect::<Vec<_>>())
    }

    fn tasks(&mut self, label: &str, snapshot: &Snapshot, tasks: &[usize]) -> io::Result<()> {
        for (place, &task) in tasks.iter().take(ROWS).enumerate() {
            let mark = mark(snapshot.state(task));
            let mut line = self.labelled(if place == 0 { label } else { "" });
            line.push(mark.symbol, mark.style).skip(1);
            line.push(&snapshot.tasks[task].id.to_string(), Style::new().dimmed()).skip(1);
            line.plain(&snapshot.tasks[task].title).write(self.out)?;
        }
        if tasks.len() > ROWS {
            let more = format!("… and {} more", tasks.len() - ROWS);
            self.labelled("").push(&more, Style::new().dimmed()).write(self.out)?;
        }
        Ok(())
    }

    fn description(&mut self, detail: &Detail<'_>) -> io::Result<()> {
        if detail.task.description.trim().is_empty() {
            return Ok(());
        }
        self.blank()?;
        self.prose(&detail.task.description, 2, Style::new())
    }

    fn attempts(&mut self, detail: &Detail<'_>) -> io::Result<()> {
        let attempts = self.latest("Attempts", detail.attempts)?;
        let cells = |attempt: &Attempt| {
            let (word, style) = outcome(attempt.outcome);
            let end = attempt.ended_at.unwrap_or(detail.now);
            let plain = Style::new();
            [
                (attempt.number.to_string(), plain),
                (word.to_owned(), style),
                (printable(attempt.model.as_deref().unwrap_or_default()).into_owned(), plain),
                (lasted(end.since(attempt.started_at)), plain),
                (
                    attempt.cost_usd.map_or(String::new(), |cost| short(cost, 2, attempt.billing)),
                    plain,
                ),
            ]
        };
        let rows: Vec<_> = attempts.iter().map(cells).collect();
        for (row, attempt) in rows.iter().zip(attempts) {
            let mut line = Line::new(self.terminal);
            let mut column = 2;
            for (place, (text, style)) in row.iter().enumerate() {
                line.at(column).push(text, *style);
                let widest = rows.iter().map(|row| width(&row[place].0)).max().unwrap_or(0);
                column += if widest > 0 { widest + 2 } else { 0 };
            }
            line.write(self.out)?;
            if let Some(reason) = &attempt.reason {
                let column = 2 + row[0].0.len() + 2;
                self.prose(reason, column, Style::new().dimmed())?;
            }
        }
        Ok(())
    }

    fn log(&mut self, detail: &Detail<'_>) -> io::Result<()> {
        let entries = self.latest("Log", detail.log)?;
        self.entries(entries, 2)
    }

    fn entries(&mut self, entries: &[LogEntry], indent: usize) -> io::Result<()> {
        let widest = entries.iter().map(|entry| entry.at.to_the_second().len()).max().unwrap_or(0);
        entries.iter().try_for_each(|entry| self.entry(entry, indent, widest))
    }

    /// Writes an entry whose time takes `widest` columns.
    fn entry(&mut self, entry: &LogEntry, indent: usize, widest: usize) -> io::Result<()> {
        let mut line = Line::new(self.terminal);
        let time = format!("{:>widest$}", entry.at.to_the_second());
        line.skip(indent).push(&time, Style::new().dimmed()).skip(2);
        let column = line.column();
        line.push(entry.event.name(), event_style(entry.event)).at(column + "blocked".len() + 2);
        let column = line.column();
        let author = entry.author.map_or_else(|| "person".to_owned(), |author| author.to_string());
        line.plain(&author).at(column + "a-000000".len() + 2);
        let beside = line.room() >= BESIDE;
        let column = if beside { line.column() } else { indent + 2 };
        let mut message = self.wrapped(&entry.message, column).into_iter();
        if beside {
            line.plain(&message.next().unwrap_or_default());
        }
        line.write(self.out)?;
        message
            .try_for_each(|text| Line::new(self.terminal).at(column).plain(&text).write(self.out))
    }

    /// Writes a heading, if there is anything below it, and gives the last of `items`.
    fn latest<'i, T>(&mut self, heading: &str, items: &'i [T]) -> io::Result<&'i [T]> {
        let skipped = items.len().saturating_sub(ROWS);
        if !items.is_empty() {
            self.blank()?;
            let mut line = Line::new(self.terminal);
            line.push(heading, Style::new().bold());
            if skipped > 0 {
                line.skip(2).push(&format!("{skipped} earlier not shown"), Style::new().dimmed());
            }
            line.write(self.out)?;
        }
        Ok(&items[skipped..])
    }

    fn fact(&mut self, label: &str, value: &str, style: Style) -> io::Result<()> {
        for (place, text) in self.wrapped(value, VALUE).iter().enumerate() {
            let mut line = self.labelled(if place == 0 { label } else { "" });
            line.push(text, style).write(self.out)?;
        }
        Ok(())
    }

    fn labelled(&self, label: &str) -> Line {
        let mut line = Line::new(self.terminal);
        line.skip(2).push(label, Style::new().dimmed()).at(VALUE);
        line
    }

    fn prose(&mut self, text: &str, column: usize, style: Style) -> io::Result<()> {
        self.wrapped(text, column).iter().try_for_each(|text| {
            Line::new(self.terminal).at(column).push(text, style).write(self.out)
        })
    }

    /// The lines of a text that begins at `column`.
    fn wrapped(&self, text: &str, column: usize) -> Vec<String> {
        let room = self.terminal.columns() - column;
        let room = if self.terminal.width.is_some() { room.min(PROSE) } else { room };
        wrap(printable_lines(text).trim_matches('\n'), room)
    }

    fn blank(&mut self) -> io::Result<()> {
        Line::new(self.terminal).write(self.out)
    }
}

fn state(detail: &Detail<'_>) -> String {
    let snapshot = detail.snapshot;
    let word = mark(snapshot.state(detail.index)).word;
    let is_stuck = !snapshot.derived.can_finish[detail.index];
    match (snapshot.kind(detail.index), detail.task.not_before) {
        (Kind::Group, _) => {
            let inside = Progress::inside(snapshot, &[detail.index])[detail.index];
            format!("{word}, a group with {} done", inside.fraction())
        }
        (Kind::Work, Some(at)) if snapshot.graph.nodes()[detail.index].deferred => {
            format!("{word}, not before {}", at.to_the_second())
        }
        (Kind::Work, _) if snapshot.state(detail.index) == State::Waiting && is_stuck => {
            format!("{word}, and can't go on without you")
        }
        (Kind::Work, _) => word.to_owned(),
    }
}

/// The groups around a task, outermost first.
fn groups(detail: &Detail<'_>) -> String {
    let around = detail.snapshot.graph.lineage(detail.index).skip(1);
    let mut names: Vec<String> = around
        .take(GROUPS + 1)
        .map(|group| {
            let summary = &detail.snapshot.tasks[group];
            format!("{} {}", summary.id, printable(&summary.title))
        })
        .collect();
    if names.len() > GROUPS {
        names[GROUPS] = "…".to_owned();
    }
    names.reverse();
    names.join(" › ")
}

pub(super) fn outcome(outcome: Option<Outcome>) -> (&'static str, Style) {
    let state = match outcome {
        None => return ("running", mark(State::InProgress).style),
        Some(Outcome::Done) => State::Done,
        Some(Outcome::Failed | Outcome::Silent) => State::Failed,
        Some(Outcome::Blocked) => State::Blocked,
        Some(Outcome::Interrupted | Outcome::Crashed | Outcome::Limited | Outcome::Overruled) => {
            State::Waiting
        }
    };
    (outcome.map_or("", Outcome::name), mark(state).style)
}

fn event_style(event: LogEvent) -> Style {
    match event {
        LogEvent::Done => mark(State::Done).style,
        LogEvent::Failed | LogEvent::Crashed => mark(State::Failed).style,
        LogEvent::Blocked => mark(State::Blocked).style,
        LogEvent::Note | LogEvent::Reset => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::ui::testing::{self, PIPE, all, columns, facts, now, sample, snapshot, written};

    fn at(time: &str) -> Timestamp {
        format!("2026-11-16T{time}.000Z").parse().unwrap()
    }

    fn attempt(number: u32, outcome: Option<Outcome>, model: Option<&str>) -> Attempt {
        Attempt {
            id: format!("a-{number:06}").parse().unwrap(),
            task: testing::id(0),
            number,
            run: None,
            model: model.map(str::to_owned),
            started_at: at("11:30:00"),
            ended_at: outcome.map(|_| at("11:42:10")),
            outcome,
            reason: outcome.map(|outcome| format!("it was {outcome}\n\x1b[2Jtwice")),
            exit_code: None,
            cost_usd: outcome.map(|_| 0.324),
            input_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            output_tokens: None,
            billing: None,
            turns: None,
            log_path: None,
            session_id: None,
            head_before: None,
            head_after: None,
            verification_status: None,
            verify_log_path: None,
        }
    }

    fn entries() -> Vec<LogEntry> {
        let entry = |time, event, author: Option<&str>, message: &str| LogEntry {
            at: at(time),
            event,
            author: author.map(|author| author.parse().unwrap()),
            message: message.to_owned(),
        };
        vec![
            entry(
                "10:00:00",
                LogEvent::Note,
                None,
                "Use the tokenizer that is there\n\tand test it",
            ),
            entry(
                "11:00:00",
                LogEvent::Failed,
                Some("a-000001"),
                "the tests do not pass: \x1b]0;title\x07 in src/mail.rs, and there is more to say",
            ),
            entry("12:00:00", LogEvent::Reset, None, ""),
        ]
    }

    fn page(snapshot: &Snapshot, task: &Task, index: usize, terminal: Terminal) -> String {
        let attempts =
            [attempt(1, Some(Outcome::Failed), Some("sonnet")), attempt(2, None, Some("opus"))];
        let (attempts, log) =
            if task.retries > 0 { (&attempts[..], entries()) } else { (&[][..], vec![]) };
        let (feature, log, now) = (task.feature.map(|_| "login"), &log[..], now());
        let detail = Detail { task, snapshot, index, feature, attempts, log, now };
        written(|out| super::task(out, &detail, terminal))
    }

    #[test]
    fn a_task_is_shown_with_all_that_is_known_of_it() {
        let sample = sample();
        let mut task = facts(&sample, 4);
        task.key = Some("api/reset".to_owned());
        task.priority = -2;
        (task.retries, task.max_retries) = (1, Some(3));
        task.description = "Send a link with a token that expires after an hour.\n\n\
            - the token is 東京東京東京東京 random, and is stored only as its hash, never as it is\n\
            \tcode\x1b[0m\n"
            .to_owned();
        assert_snapshot!(page(&sample, &task, 4, columns(60)), @r"
        ○ Reset a forgotten password by mail, with a token that
          expires
          id         t-000004
          state      waiting
          inside     t-000001 The HTTP API
          feature    login
          key        api/reset
          priority   -2
          retries    1 of 3 used
          created    3 h ago
          waits for  ► t-000003 Log in with OAuth
          needed by  ○ t-000007 Pay

          Send a link with a token that expires after an hour.

          - the token is 東京東京東京東京 random, and is stored only
          as its hash, never as it is
              code\u{1b}[0m

        Attempts
          1  failed   sonnet  12 min  $0.32
             it was failed
             \u{1b}[2Jtwice
          2  running  opus    30 min

        Log
          11:00:00  note     person
            Use the tokenizer that is there
                and test it
          12:00:00  failed   a-000001
            the tests do not pass: \u{1b}]0;title\u{7} in
            src/mail.rs, and there is more to say
          13:00:00  reset    person
        ");
        assert_snapshot!(page(&sample, &task, 4, columns(100)), @r"
        ○ Reset a forgotten password by mail, with a token that expires
          id         t-000004
          state      waiting
          inside     t-000001 The HTTP API
          feature    login
          key        api/reset
          priority   -2
          retries    1 of 3 used
          created    3 h ago
          waits for  ► t-000003 Log in with OAuth
          needed by  ○ t-000007 Pay

          Send a link with a token that expires after an hour.

          - the token is 東京東京東京東京 random, and is stored only as its hash, never as it is
              code\u{1b}[0m

        Attempts
          1  failed   sonnet  12 min  $0.32
             it was failed
             \u{1b}[2Jtwice
          2  running  opus    30 min

        Log
          11:00:00  note     person    Use the tokenizer that is there
                                           and test it
          12:00:00  failed   a-000001  the tests do not pass: \u{1b}]0;title\u{7} in src/mail.rs, and there
                                       is more to say
          13:00:00  reset    person
        ");
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        let sample = sample();
        let show = |index| page(&sample, &facts(&sample, index), index, columns(60));
        assert_snapshot!(show(10), @r"
        ? Choose a database
          id         t-000010
          state      blocked
          question   SQLite or Postgres? Both are in production
                     already, and I can't tell which.
          priority   -1
          created    3 h ago
          needed by  ○ t-000011 Ship it
        ");
        assert_snapshot!(show(1), @r"
        ► The HTTP API
          id         t-000001
          state      in progress, a group with 1/3 done
          created    3 h ago
          waits for  ✓ t-000000 Set up the project
          needed by  ○ t-000005 The web pages
        ");
        assert_snapshot!(show(12), @r"
        ○ Try again later
          id         t-000012
          state      waiting, not before 13:05:00
          created    3 h ago
        ");
    }

    #[test]
    fn what_holds_a_group_around_a_task_is_told_apart() {
        let inside =
            snapshot("a: A\ng group after a: G\nh group in g: H\nx in h: X\ny in h after x: Y");
        assert_snapshot!(page(&inside, &facts(&inside, 4), 4, PIPE), @r"
        ○ Y
          id         t-000004
          state      waiting
          inside     t-000001 G › t-000002 H
          created    3 h ago
          waits for  ○ t-000003 X
          held by    ● t-000000 A
        ");
    }

    #[test]
    fn long_lists_end_in_a_number() {
        let many: String = (0..9).map(|i| format!("a{i}: A\n")).collect();
        let after: String = (0..9).map(|i| format!(" after a{i}")).collect();
        let many = snapshot(&format!("{many}z{after}: Z"));
        let log: Vec<LogEntry> = all(&many).iter().flat_map(|_| entries().pop()).collect();
        let task = facts(&many, 9);
        let (snapshot, now) = (&many, now());
        let detail = Detail {
            task: &task,
            snapshot,
            index: 9,
            feature: None,
            attempts: &[],
            log: &log,
            now,
        };
        assert_snapshot!(written(|out| super::task(out, &detail, PIPE)), @r"
        ○ Z
          id         t-000009
          state      waiting
          created    3 h ago
          waits for  ● t-000000 A
                     ● t-000001 A
                     ● t-000002 A
                     ● t-000003 A
                     ● t-000004 A
                     ● t-000005 A
                     ● t-000006 A
                     ● t-000007 A
                     … and 1 more

        Log  2 earlier not shown
          13:00:00  reset    person
          13:00:00  reset    person
          13:00:00  reset    person
          13:00:00  reset    person
          13:00:00  reset    person
          13:00:00  reset    person
          13:00:00  reset    person
          13:00:00  reset    person
        ");
    }

    #[test]
    fn a_log_has_its_messages_beside_or_below() {
        assert_snapshot!(written(|out| log(out, &entries(), columns(60))), @r"
        11:00:00  note     person
          Use the tokenizer that is there
              and test it
        12:00:00  failed   a-000001
          the tests do not pass: \u{1b}]0;title\u{7} in src/mail.rs,
          and there is more to say
        13:00:00  reset    person
        ");
        assert_snapshot!(written(|out| log(out, &entries(), columns(100))), @r"
        11:00:00  note     person    Use the tokenizer that is there
                                         and test it
        12:00:00  failed   a-000001  the tests do not pass: \u{1b}]0;title\u{7} in src/mail.rs, and there is
                                     more to say
        13:00:00  reset    person
        ");
        assert_snapshot!(written(|out| log(out, &[], PIPE)), @"nothing was noted yet");
    }
}
