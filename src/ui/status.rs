//! Where everything stands, on one screen.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::mark::{Mark, mark};
use super::price;
use super::progress::Progress;
use super::prose::prose;
use super::terminal::Terminal;
use super::text::{cut, flat, headline, printable, width, wrap};
use super::tree::names;
use super::when::{ago, lasted};
use crate::dag::{Costs, FeatureId, Kind, Moment, Snapshot, State, Status, TaskId};
use crate::time::Timestamp;

/// How many rows a section has.
const ROWS: usize = 6;
/// The column at which titles begin: two spaces, a mark, an id and the spaces after them.
const TITLE: usize = 14;
/// What stands between a title and a note.
const GAP: usize = 2;
/// Notes stand beside titles if that leaves the titles as much as this.
const ENOUGH: usize = 30;

/// What the screen shows.
pub struct Overview<'a> {
    /// All tasks.
    pub snapshot: &'a Snapshot,
    /// The names of all features.
    pub features: &'a HashMap<FeatureId, String>,
    /// The open attempts.
    pub running: &'a [Running],
    /// What all sessions have cost.
    pub costs: &'a Costs,
    /// The run that began last.
    pub last_run: Option<LastRun<'a>>,
    /// When something last happened.
    pub last_activity: Option<Timestamp>,
    /// The time now.
    pub now: Timestamp,
}

/// How the run that began last stands.
#[derive(Debug, Clone, Copy)]
pub enum LastRun<'a> {
    /// It goes on.
    Going {
        /// When it began.
        since: Timestamp,
    },
    /// It has ended.
    Ended {
        /// When.
        at: Timestamp,
        /// Why, in words.
        why: &'a str,
    },
    /// Its process was killed.
    Killed,
}

/// An open attempt.
pub struct Running {
    /// The task.
    pub task: usize,
    /// Which attempt on it this is.
    pub attempt: u32,
    /// When it began.
    pub since: Timestamp,
}

/// Writes the screen.
pub fn write(out: &mut dyn Write, overview: &Overview<'_>, terminal: Terminal) -> io::Result<()> {
    let mut screen = Screen { out, overview, snapshot: overview.snapshot, terminal };
    if overview.snapshot.tasks.is_empty() {
        screen.nothing()?;
    } else {
        screen.progress()?;
        screen.running()?;
        screen.ready()?;
        screen.waiting()?;
        screen.answers(State::Blocked, "Blocked")?;
        screen.answers(State::Failed, "Failed")?;
    }
    screen.features()?;
    screen.footer()
}

struct Screen<'a> {
    out: &'a mut dyn Write,
    overview: &'a Overview<'a>,
    snapshot: &'a Snapshot,
    terminal: Terminal,
}

/// A task in a section, with what there is to say of it.
struct Row {
    mark: Mark,
    id: TaskId,
    title: String,
    note: String,
    style: Style,
}

impl Screen<'_> {
    fn nothing(&mut self) -> io::Result<()> {
        self.say("no tasks yet")?;
        self.say("add one with `ralph task add TITLE`")
    }

    fn progress(&mut self) -> io::Result<()> {
        let progress = Progress::of(self.snapshot, 0..self.snapshot.tasks.len());
        if progress.total == 0 {
            return self.say("no tasks that can be worked on: all groups are empty");
        }
        let mut line = Line::new(self.terminal);
        progress.draw(&mut line);
        line.write(self.out)?;
        self.counts()
    }

    /// How many tasks are in each state, in as many lines as needed.
    fn counts(&mut self) -> io::Result<()> {
        let mut line = Line::new(self.terminal);
        for state in [
            State::Done,
            State::InProgress,
            State::Ready,
            State::Waiting,
            State::Blocked,
            State::Failed,
        ] {
            let count = self.work(state).count();
            if count == 0 {
                continue;
            }
            let mark = mark(state);
            let words = format!("{count} {}", mark.word);
            if line.room() < words.len() + 2 {
                line.write(self.out)?;
                line = Line::new(self.terminal);
            }
            line.push(mark.symbol, mark.style).skip(1).plain(&words).skip(3);
        }
        line.write(self.out)
    }

    fn running(&mut self) -> io::Result<()> {
        let running = self.overview.running;
        let rows = running.iter().take(ROWS).map(|running| {
            let time = lasted(self.overview.now.since(running.since));
            let note = match running.attempt {
                0 | 1 => time,
                attempt => format!("{time}, attempt {attempt}"),
            };
            self.row(running.task, mark(State::InProgress), note)
        });
        let rows: Vec<Row> = rows.collect();
        self.section("Running", "", running.len(), &rows)
    }

    fn ready(&mut self) -> io::Result<()> {
        let ready = self.snapshot.ready();
        let rows = ready.iter().take(ROWS);
        let rows: Vec<Row> =
            rows.map(|&task| self.row(task, mark(State::Ready), String::new())).collect();
        self.section("Ready", "", ready.len(), &rows)
    }

    fn waiting(&mut self) -> io::Result<()> {
        let waiting: Vec<usize> = self.work(State::Waiting).collect();
        let stuck = waiting.iter().filter(|&&task| !self.snapshot.derived.can_finish[task]).count();
        let remark = match stuck {
            0 => String::new(),
            stuck if stuck == waiting.len() => ", and none can go on without you".to_owned(),
            stuck => format!(", and {stuck} can't go on without you"),
        };
        let rows = waiting.iter().take(ROWS);
        let rows: Vec<Row> =
            rows.map(|&task| self.row(task, mark(State::Waiting), self.wait(task))).collect();
        self.section("Waiting", &remark, waiting.len(), &rows)
    }

    /// What a waiting task waits for.
    fn wait(&self, task: usize) -> String {
        if let Some(holder) = stuck_behind(self.snapshot, task) {
            let symbol = mark(self.snapshot.state(holder)).symbol;
            let empty = if is_empty_group(self.snapshot, holder) { ", an empty group" } else { "" };
            return format!("stuck behind {symbol} {}{empty}", self.name(holder));
        }
        match self.snapshot.waiting_on(task).as_slice() {
            [] => {
                let until = self.snapshot.tasks[task].not_before.unwrap_or(self.overview.now);
                format!("starts in {}", lasted(until.since(self.overview.now)))
            }
            [holder] => format!("waits for {}", self.name(*holder)),
            holders => format!("waits for {}", names(self.snapshot, holders, 2, usize::MAX)),
        }
    }

    /// The tasks that want something of a person, with the question or the reason.
    fn answers(&mut self, state: State, heading: &str) -> io::Result<()> {
        let is_listed = |&task: &usize| {
            // A group fails by its children, but is blocked by itself.
            let is_own = self.snapshot.kind(task) == Kind::Work || state == State::Blocked;
            is_own && self.snapshot.state(task) == state
        };
        let listed: Vec<usize> = (0..self.snapshot.tasks.len()).filter(is_listed).collect();
        let rows = listed.iter().take(ROWS).map(|&task| {
            let reason = self.snapshot.tasks[task].reason.as_deref().unwrap_or_default();
            let note = if state == State::Blocked { flat(reason) } else { headline(reason) };
            let mut row = self.row(task, mark(state), note);
            row.style = mark(state).style;
            row
        });
        let rows: Vec<Row> = rows.collect();
        self.section(heading, "", listed.len(), &rows)
    }

    fn features(&mut self) -> io::Result<()> {
        let mut progress: HashMap<FeatureId, Progress> = HashMap::new();
        for task in 0..self.snapshot.tasks.len() {
            if let Some(feature) = self.snapshot.tasks[task].feature {
                let own = Progress::of(self.snapshot, std::iter::once(task));
                *progress.entry(feature).or_default() += own;
            }
        }
        let mut features: Vec<(&str, Progress)> = self
            .overview
            .features
            .iter()
            .map(|(id, name)| (name.as_str(), progress.get(id).copied().unwrap_or_default()))
            .collect();
        if features.is_empty() {
            return Ok(());
        }
        features.sort_unstable_by_key(|&(name, _)| name);
        self.heading("Features", &features.len().to_string())?;
        let shown = &features[..features.len().min(ROWS)];
        let names: Vec<_> = shown.iter().map(|(name, _)| printable(name)).collect();
        let widest = names.iter().map(|name| width(name)).max().unwrap_or(0).min(24);
        for (name, (_, progress)) in names.iter().zip(shown) {
            let mut line = Line::new(self.terminal);
            line.skip(2).plain(&cut(name, widest)).at(widest + 4);
            match progress.total {
                0 => line.push("no tasks yet", Style::new().dimmed()),
                _ => line.plain(&format!("{} done", progress.fraction())),
            };
            line.write(self.out)?;
        }
        self.more(features.len())
    }

    /// What was spent, when something last happened, and how the last run stands.
    fn footer(&mut self) -> io::Result<()> {
        let cost = price::total(self.overview.costs).map(|total| format!("cost {total}"));
        let last = self.overview.last_activity;
        let last = last.map(|at| format!("last activity {}", ago(self.overview.now.since(at))));
        let activity: Vec<String> = cost.into_iter().chain(last).collect();
        let activity = Some(activity.join(", ")).filter(|said| !said.is_empty());
        let said: Vec<String> = activity.into_iter().chain(self.last_run()).collect();
        if said.is_empty() {
            return Ok(());
        }
        self.blank()?;
        wrap(&said.join("\n"), self.terminal.columns()).iter().try_for_each(|line| {
            Line::new(self.terminal).push(line, Style::new().dimmed()).write(self.out)
        })
    }

    fn last_run(&self) -> Option<String> {
        let now = self.overview.now;
        Some(match self.overview.last_run? {
            LastRun::Going { since } => {
                format!("a run has been going on for {}", lasted(now.since(since)))
            }
            LastRun::Ended { at, why } => {
                format!("the last run ended {}: {}", ago(now.since(at)), headline(why))
            }
            LastRun::Killed => "the last run was killed; `ralph run` goes on".to_owned(),
        })
    }

    fn section(&mut self, name: &str, remark: &str, count: usize, rows: &[Row]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.heading(name, &format!("{count}{remark}"))?;
        let widest =
            |of: fn(&Row) -> &str| rows.iter().map(|row| width(of(row))).max().unwrap_or(0);
        let (titles, notes) = (widest(|row| &row.title), widest(|row| &row.note));
        // All rows of a section look alike: the notes stand beside the titles, or else below them.
        let room = self.terminal.columns().saturating_sub(TITLE + GAP + notes);
        if room >= titles.min(ENOUGH) {
            rows.iter().try_for_each(|row| self.beside(row, titles.min(room)))?;
        } else {
            rows.iter().try_for_each(|row| self.below(row))?;
        }
        self.more(count)
    }

    /// Writes a row with its note behind the column of titles.
    fn beside(&mut self, row: &Row, titles: usize) -> io::Result<()> {
        let title =
            if row.note.is_empty() { row.title.as_str().into() } else { cut(&row.title, titles) };
        let mut line = self.titled(row, &title);
        line.at(TITLE + titles + GAP).push(&row.note, row.style).write(self.out)
    }

    /// Writes a row with its note in the next two lines.
    fn below(&mut self, row: &Row) -> io::Result<()> {
        self.titled(row, &row.title).write(self.out)?;
        let mut lines = wrap(&row.note, self.terminal.columns() - TITLE);
        if let Some(rest) = lines.get(1..).filter(|rest| rest.len() > 1) {
            lines = vec![lines[0].clone(), rest.join(" ")];
        }
        lines.iter().try_for_each(|note| {
            Line::new(self.terminal).at(TITLE).push(note, row.style).write(self.out)
        })
    }

    fn titled(&self, row: &Row, title: &str) -> Line {
        let mut line = Line::new(self.terminal);
        line.skip(2).push(row.mark.symbol, row.mark.style).skip(1);
        line.push(&row.id.to_string(), Style::new().dimmed()).skip(GAP).plain(title);
        line
    }

    fn heading(&mut self, name: &str, remark: &str) -> io::Result<()> {
        self.blank()?;
        let mut line = Line::new(self.terminal);
        line.push(name, Style::new().bold()).skip(1).push(remark, Style::new().dimmed());
        line.write(self.out)
    }

    fn more(&mut self, count: usize) -> io::Result<()> {
        if count <= ROWS {
            return Ok(());
        }
        let more = format!("… and {} more", count - ROWS);
        Line::new(self.terminal).skip(2).push(&more, Style::new().dimmed()).write(self.out)
    }

    fn row(&self, task: usize, mark: Mark, note: String) -> Row {
        let summary = &self.snapshot.tasks[task];
        let title = printable(&summary.title).into_owned();
        Row { mark, id: summary.id, title, note, style: Style::new().dimmed() }
    }

    fn work(&self, state: State) -> impl Iterator<Item = usize> {
        let snapshot = self.snapshot;
        (0..snapshot.tasks.len())
            .filter(move |&task| snapshot.kind(task) == Kind::Work && snapshot.state(task) == state)
    }

    fn name(&self, task: usize) -> String {
        let summary = &self.snapshot.tasks[task];
        format!("{} {}", summary.id, printable(&summary.title))
    }

    fn say(&mut self, words: &str) -> io::Result<()> {
        self.out.write_all(prose(words, self.terminal).as_bytes())
    }

    fn blank(&mut self) -> io::Result<()> {
        Line::new(self.terminal).write(self.out)
    }
}

/// The nearest failed, held or empty task without which this one can't get done; none if it can.
fn stuck_behind(snapshot: &Snapshot, task: usize) -> Option<usize> {
    let can_finish = &snapshot.derived.can_finish;
    let nodes = snapshot.graph.nodes();
    if can_finish[task] {
        return None;
    }
    let mut found = vec![Moment::Start(task)];
    let mut seen = HashSet::from([Moment::Start(task).code()]);
    let mut next = 0;
    while let Some(&moment) = found.get(next) {
        next += 1;
        let mut before = Vec::new();
        match moment {
            Moment::Start(task) if nodes[task].status == Status::Blocked => return Some(task),
            Moment::Start(task) => {
                before.extend(snapshot.graph.blockers(task).map(Moment::End));
                before.extend(nodes[task].parent.map(Moment::Start));
            }
            Moment::End(task)
                if snapshot.state(task) == State::Failed && nodes[task].kind == Kind::Work =>
            {
                return Some(task);
            }
            Moment::End(task) if is_empty_group(snapshot, task) => return Some(task),
            Moment::End(task) => {
                before.push(Moment::Start(task));
                before.extend(snapshot.graph.children(task).map(Moment::End));
            }
        }
        found.extend(before.into_iter().filter(|&moment| {
            let is_open = match moment {
                Moment::Start(_) => true,
                Moment::End(task) => !can_finish[task],
            };
            is_open && seen.insert(moment.code())
        }));
    }
    None
}

fn is_empty_group(snapshot: &Snapshot, task: usize) -> bool {
    snapshot.kind(task) == Kind::Group && snapshot.derived.children[task] == 0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insta::assert_snapshot;

    use super::*;
    use crate::ui::testing::{PIPE, columns, features, now, sample, snapshot, written};

    fn status(snapshot: &Snapshot, names: &[&str], terminal: Terminal) -> String {
        let since = "2026-11-16T11:47:30.000Z".parse().unwrap();
        let running: Vec<Running> = (0..snapshot.tasks.len())
            .filter(|&task| snapshot.graph.nodes()[task].claimed)
            .map(|task| Running { task, attempt: 2, since })
            .collect();
        let last_activity = running.first().map(|_| since.plus(Duration::from_secs(600)));
        let features = features(names);
        let charged = if running.is_empty() { 0.0 } else { 4.2 };
        let costs = &Costs { charged, ..Costs::default() };
        let now = now();
        let running = &running;
        let overview = Overview {
            snapshot,
            features: &features,
            running,
            costs,
            last_run: None,
            last_activity,
            now,
        };
        written(|out| write(out, &overview, terminal))
    }

    #[test]
    fn notes_stand_below_titles_where_there_is_no_room_beside_them() {
        assert_snapshot!(status(&sample(), &["login", "pdf-export", "later"], columns(60)), @r#"
        ██████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  2/12 done  16%
        ✓ 2 done   ► 1 in progress   ● 1 ready   ○ 6 waiting
        ? 1 blocked   ✗ 1 failed

        Running 1
          ► t-000003  Log in with OAuth  12 min, attempt 2

        Ready 1
          ● t-000013  \u{1b}[31mred\u{202e}desrever "quoted" <b>

        Waiting 6, and 2 can't go on without you
          ○ t-000004  Reset a forgotten password by mail, with a to…
                      waits for t-000003 Log in with OAuth
          ○ t-000006  ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café
                      waits for t-000001 The HTTP API
          ○ t-000007  Pay
                      waits for t-000001, t-000003 +2
          ○ t-000009  Newsletter
                      stuck behind ✗ t-000008 Send mail
          ○ t-000011  Ship it
                      stuck behind ? t-000010 Choose a database
          ○ t-000012  Try again later
                      starts in 5 min

        Blocked 1
          ? t-000010  Choose a database
                      SQLite or Postgres? Both are in production
                      already, and I can't tell which.

        Failed 1
          ✗ t-000008  Send mail
                      the tests do not compile: mismatched types in
                      src/mail.rs:12, expected `&str`, found `Strin…

        Features 3
          later       no tasks yet
          login       0/2 done
          pdf-export  0/1 done

        cost $4.20, last activity 2 min ago
        "#);
    }

    #[test]
    fn a_wide_terminal_has_notes_beside_titles() {
        assert_snapshot!(status(&sample(), &["login"], columns(100)), @r#"
        ██████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  2/12 done  16%
        ✓ 2 done   ► 1 in progress   ● 1 ready   ○ 6 waiting   ? 1 blocked   ✗ 1 failed

        Running 1
          ► t-000003  Log in with OAuth  12 min, attempt 2

        Ready 1
          ● t-000013  \u{1b}[31mred\u{202e}desrever "quoted" <b>

        Waiting 6, and 2 can't go on without you
          ○ t-000004  Reset a forgotten password by mail, with a…  waits for t-000003 Log in with OAuth
          ○ t-000006  ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café                      waits for t-000001 The HTTP API
          ○ t-000007  Pay                                          waits for t-000001, t-000003 +2
          ○ t-000009  Newsletter                                   stuck behind ✗ t-000008 Send mail
          ○ t-000011  Ship it                                      stuck behind ? t-000010 Choose a database
          ○ t-000012  Try again later                              starts in 5 min

        Blocked 1
          ? t-000010  Choose a database
                      SQLite or Postgres? Both are in production already, and I can't tell which.

        Failed 1
          ✗ t-000008  Send mail
                      the tests do not compile: mismatched types in src/mail.rs:12, expected `&str`, found
                      `String`

        Features 1
          login  0/2 done

        cost $4.20, last activity 2 min ago
        "#);
    }

    #[test]
    fn a_pipe_gets_everything() {
        assert_snapshot!(status(&sample(), &[], PIPE), @r#"
        ██████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  2/12 done  16%
        ✓ 2 done   ► 1 in progress   ● 1 ready   ○ 6 waiting   ? 1 blocked   ✗ 1 failed

        Running 1
          ► t-000003  Log in with OAuth  12 min, attempt 2

        Ready 1
          ● t-000013  \u{1b}[31mred\u{202e}desrever "quoted" <b>

        Waiting 6, and 2 can't go on without you
          ○ t-000004  Reset a forgotten password by mail, with a token that expires  waits for t-000003 Log in with OAuth
          ○ t-000006  ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café                                        waits for t-000001 The HTTP API
          ○ t-000007  Pay                                                            waits for t-000001, t-000003 +2
          ○ t-000009  Newsletter                                                     stuck behind ✗ t-000008 Send mail
          ○ t-000011  Ship it                                                        stuck behind ? t-000010 Choose a database
          ○ t-000012  Try again later                                                starts in 5 min

        Blocked 1
          ? t-000010  Choose a database  SQLite or Postgres? Both are in production already, and I can't tell which.

        Failed 1
          ✗ t-000008  Send mail  the tests do not compile: mismatched types in src/mail.rs:12, expected `&str`, found `String`

        cost $4.20, last activity 2 min ago
        "#);
    }

    #[test]
    fn a_section_has_few_rows() {
        let many: String = (0..9).map(|i| format!("a{i} priority {}: Task {i}\n", 9 - i)).collect();
        assert_snapshot!(status(&snapshot(&many), &[], columns(60)), @r"
        ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  0/9 done  0%
        ● 9 ready

        Ready 9
          ● t-000008  Task 8
          ● t-000007  Task 7
          ● t-000006  Task 6
          ● t-000005  Task 5
          ● t-000004  Task 4
          ● t-000003  Task 3
          … and 3 more
        ");
    }

    #[test]
    fn without_tasks_it_says_what_to_type() {
        assert_snapshot!(status(&snapshot(""), &["login"], columns(60)), @r"
        no tasks yet
        add one with `ralph task add TITLE`

        Features 1
          login  no tasks yet
        ");
        assert_snapshot!(status(&snapshot("a group"), &[], columns(60)), @"no tasks that can be worked on: all groups are empty");
    }

    #[test]
    fn the_last_line_says_how_the_last_run_stands() {
        let check = |last_run, expected: &str| {
            let snapshot = snapshot("a: A");
            let overview = Overview {
                snapshot: &snapshot,
                features: &features(&[]),
                running: &[],
                costs: &Costs::default(),
                last_run: Some(last_run),
                last_activity: Some(now()),
                now: now(),
            };
            let shown = written(|out| write(out, &overview, columns(40)));
            let (_, shown) = shown.split_once("last activity just now\n").unwrap();
            assert_eq!(shown, expected);
        };
        let at = now().minus(Duration::from_secs(125));
        check(LastRun::Going { since: at }, "a run has been going on for 2 min\n");
        check(
            LastRun::Ended { at, why: "the limit on cost was reached\nmore" },
            "the last run ended 2 min ago: the limit\non cost was reached\n",
        );
        check(LastRun::Killed, "the last run was killed; `ralph run`\ngoes on\n");
    }

    #[test]
    fn what_a_stuck_task_is_stuck_behind_is_found() {
        #[track_caller]
        fn check(text: &str, expected: Option<usize>) {
            let snapshot = snapshot(text);
            assert_eq!(stuck_behind(&snapshot, snapshot.tasks.len() - 1), expected);
        }
        check("a\nb after a", None);
        check("a failed\nb after a\nc after b", Some(0));
        check("a blocked\nb after a", Some(0));
        check("g group\na in g failed\nb in g\nc after g", Some(1));
        check("g group blocked\na in g\nb after a", Some(0));
        check("g group blocked\na in g", Some(0));
        check("f failed\ng group after f\na in g", Some(0));
        check("g group\na after g", Some(0));
        check("g group\nh group in g\na after g", Some(1));
    }
}
