//! Tasks as a tree: what is inside what, and how each stands.

use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::mark::mark;
use super::progress::Progress;
use super::terminal::Terminal;
use super::text::{cut, flat, headline, pad, printable, width};
use crate::dag::{Kind, Snapshot, State};

/// What a title keeps before an indent or a note takes it.
const TITLE: usize = 20;
/// The columns of a mark, an id and the spaces around them.
const FRAME: usize = 12;
/// A note that would be cut to less is left out.
const LEGIBLE: usize = "in progress".len();
/// How many levels are drawn where there is room for any number.
const LEVELS: usize = 24;
/// How many of the tasks that one waits for are named.
const NAMED: usize = 2;

/// Writes a tree for each of `roots`.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    roots: &[usize],
    terminal: Terminal,
) -> io::Result<()> {
    if roots.is_empty() {
        return Line::new(terminal).plain("no tasks here yet").write(out);
    }
    let inside = Progress::inside(snapshot, roots);
    let mut branches = Branches::new(terminal);
    // What is still to be drawn, in reverse: a task, its depth, and whether it is the last there.
    let mut stack: Vec<(usize, usize, bool)> =
        roots.iter().rev().map(|&root| (root, 0, true)).collect();
    while let Some((task, depth, is_last)) = stack.pop() {
        let mut line = Line::new(terminal);
        branches.draw(&mut line, depth, is_last);
        let holders = if depth == 0 { snapshot.waiting_on(task) } else { own(snapshot, task) };
        draw(&mut line, snapshot, task, &holders, inside[task]);
        line.write(out)?;

        let first = stack.len();
        stack.extend(snapshot.graph.children(task).map(|child| (child, depth + 1, false)));
        if let Some(last) = stack[first..].last_mut() {
            last.2 = true;
        }
        stack[first..].reverse();
    }
    Ok(())
}

/// The tasks that hold this one back by itself. What holds back the groups around it is said there.
fn own(snapshot: &Snapshot, task: usize) -> Vec<usize> {
    match snapshot.state(task) {
        State::Waiting => snapshot
            .graph
            .blockers(task)
            .filter(|&blocker| snapshot.state(blocker) != State::Done)
            .collect(),
        State::Ready | State::InProgress | State::Blocked | State::Done | State::Failed => {
            Vec::new()
        }
    }
}

fn draw(line: &mut Line, snapshot: &Snapshot, task: usize, holders: &[usize], inside: Progress) {
    let mark = mark(snapshot.state(task));
    let (title_style, count) = match snapshot.kind(task) {
        Kind::Group if inside.total == 0 => (Style::new().bold(), "empty".to_owned()),
        Kind::Group => (Style::new().bold(), inside.fraction()),
        Kind::Work => (Style::new(), String::new()),
    };
    let title = printable(&snapshot.tasks[task].title);
    let count_room = if count.is_empty() { 0 } else { count.len() + 2 };
    let room = line.room().saturating_sub(FRAME + count_room);
    let note = note(snapshot, task, holders, room, width(&title));
    let note_room = if note.is_empty() { 0 } else { width(&note) + 2 };

    line.push(mark.symbol, mark.style).skip(1);
    line.push(&cut(&title, room.saturating_sub(note_room)), title_style).skip(2);
    line.push(&snapshot.tasks[task].id.to_string(), Style::new().dimmed()).skip(2);
    line.plain(&count).skip(if count.is_empty() { 0 } else { 2 });
    line.push(&note, mark.style);
}

/// What there is to say of a task beside a title, where both have `room` columns.
fn note(snapshot: &Snapshot, task: usize, holders: &[usize], room: usize, title: usize) -> String {
    let most = room.saturating_sub(title.min(TITLE) + 2);
    let summary = &snapshot.tasks[task];
    match snapshot.state(task) {
        State::Ready | State::Done => String::new(),
        State::InProgress => match snapshot.kind(task) {
            Kind::Work if most >= LEGIBLE => mark(State::InProgress).word.to_owned(),
            Kind::Work | Kind::Group => String::new(),
        },
        State::Waiting if !holders.is_empty() => {
            let names = names(snapshot, holders, NAMED, most.saturating_sub("waits for ".len()));
            if names.is_empty() { names } else { format!("waits for {names}") }
        }
        State::Waiting => match summary.not_before {
            Some(at) if snapshot.graph.nodes()[task].deferred && most >= LEGIBLE => {
                cut(&format!("not before {}", at.to_the_second()), most).into_owned()
            }
            Some(_) | None => String::new(),
        },
        // A long reason leaves the title half of the room, or more if it needs less itself.
        state @ (State::Blocked | State::Failed) => {
            // A question needs all of its words.
            let short = if state == State::Blocked { flat } else { headline };
            let reason = summary.reason.as_deref().map(short).filter(|reason| !reason.is_empty());
            let reason = match (reason, snapshot.kind(task)) {
                (Some(reason), _) => reason,
                (None, Kind::Work) => mark(state).word.to_owned(),
                (None, Kind::Group) => return String::new(),
            };
            let share = most.min((room / 2).max(room.saturating_sub(title + 2)));
            if share < LEGIBLE { String::new() } else { cut(&reason, share).into_owned() }
        }
    }
}

/// As many ids as fit in `room`, at most `most`, and how many more there are: `t-…, t-… +3`.
/// Nothing if none fits.
pub(super) fn names(snapshot: &Snapshot, tasks: &[usize], most: usize, room: usize) -> String {
    let id = "t-000000, ".len();
    for shown in (1..=tasks.len().min(most).min(room.saturating_add(2) / id)).rev() {
        let more = tasks.len() - shown;
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        if shown * id - 2 + more.len() <= room {
            let ids: Vec<String> =
                tasks[..shown].iter().map(|&task| snapshot.tasks[task].id.to_string()).collect();
            return ids.join(", ") + &more;
        }
    }
    String::new()
}

/// The lines at the left of a tree. Where it is too deep to be drawn whole, the outer levels are
/// replaced by their number.
struct Branches {
    levels: usize,
    /// For each level around the current one, whether what is drawn there is the last.
    ended: Vec<bool>,
}

impl Branches {
    fn new(terminal: Terminal) -> Branches {
        let room = terminal.columns().saturating_sub(FRAME + TITLE) / 3;
        Branches { levels: room.clamp(3, LEVELS), ended: Vec::new() }
    }

    fn draw(&mut self, line: &mut Line, depth: usize, is_last: bool) {
        self.ended.truncate(depth);
        self.ended.push(is_last);
        if depth == 0 {
            return; // The first level has no lines.
        }
        let hidden = if depth > self.levels { depth + 2 - self.levels } else { 0 };
        let mut drawn = match hidden {
            0 => String::new(),
            hidden => pad(&format!("⋯{hidden}"), 6),
        };
        for &ended in &self.ended[hidden + 1..depth] {
            drawn.push_str(if ended { "   " } else { "│  " });
        }
        drawn.push_str(if is_last { "└─ " } else { "├─ " });
        line.push(&drawn, Style::new().dimmed());
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::ui::testing::{PIPE, columns, roots, sample, snapshot, written};

    fn tree(snapshot: &Snapshot, terminal: Terminal) -> String {
        written(|out| write(out, snapshot, &roots(snapshot), terminal))
    }

    #[test]
    fn a_pipe_gets_everything() {
        assert_snapshot!(tree(&sample(), PIPE), @r#"
        ✓ Set up the project  t-000000
        ► The HTTP API  t-000001  1/3
        ├─ ✓ Log in with a password  t-000002
        ├─ ► Log in with OAuth  t-000003  in progress
        └─ ○ Reset a forgotten password by mail, with a token that expires  t-000004  waits for t-000003
        ○ The web pages  t-000005  0/2  waits for t-000001
        ├─ ○ ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café  t-000006
        └─ ○ Pay  t-000007  waits for t-000006, t-000003 +1
        ✗ Send mail  t-000008  the tests do not compile: mismatched types in src/mail.rs:12, expected `&str`, found `String`
        ○ Newsletter  t-000009  waits for t-000008
        ? Choose a database  t-000010  SQLite or Postgres? Both are in production already, and I can't tell which.
        ○ Ship it  t-000011  waits for t-000007, t-000009 +1
        ○ Try again later  t-000012  not before 13:05:00
        ● \u{1b}[31mred\u{202e}desrever "quoted" <b>  t-000013
        ○ Documentation  t-000014  empty
        "#);
    }

    #[test]
    fn titles_give_way_to_notes_and_long_reasons_to_titles() {
        assert_snapshot!(tree(&sample(), columns(60)), @r#"
        ✓ Set up the project  t-000000
        ► The HTTP API  t-000001  1/3
        ├─ ✓ Log in with a password  t-000002
        ├─ ► Log in with OAuth  t-000003  in progress
        └─ ○ Reset a forgotten passwo…  t-000004  waits for t-000003
        ○ The web pages  t-000005  0/2  waits for t-000001
        ├─ ○ ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café  t-000006
        └─ ○ Pay  t-000007  waits for t-000006, t-000003 +1
        ✗ Send mail  t-000008  the tests do not compile: mismatched…
        ○ Newsletter  t-000009  waits for t-000008
        ? Choose a database  t-000010  SQLite or Postgres? Both are…
        ○ Ship it  t-000011  waits for t-000007, t-000009 +1
        ○ Try again later  t-000012  not before 13:05:00
        ● \u{1b}[31mred\u{202e}desrever "quoted" <b>  t-000013
        ○ Documentation  t-000014  empty
        "#);
        assert_snapshot!(tree(&sample(), columns(100)), @r#"
        ✓ Set up the project  t-000000
        ► The HTTP API  t-000001  1/3
        ├─ ✓ Log in with a password  t-000002
        ├─ ► Log in with OAuth  t-000003  in progress
        └─ ○ Reset a forgotten password by mail, with a token that expires  t-000004  waits for t-000003
        ○ The web pages  t-000005  0/2  waits for t-000001
        ├─ ○ ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café  t-000006
        └─ ○ Pay  t-000007  waits for t-000006, t-000003 +1
        ✗ Send mail  t-000008  the tests do not compile: mismatched types in src/mail.rs:12, expected `&str…
        ○ Newsletter  t-000009  waits for t-000008
        ? Choose a database  t-000010  SQLite or Postgres? Both are in production already, and I can't tell…
        ○ Ship it  t-000011  waits for t-000007, t-000009 +1
        ○ Try again later  t-000012  not before 13:05:00
        ● \u{1b}[31mred\u{202e}desrever "quoted" <b>  t-000013
        ○ Documentation  t-000014  empty
        "#);
    }

    #[test]
    fn the_narrowest_terminal_still_shows_ids() {
        assert_snapshot!(tree(&sample(), columns(1)), @r"
        ✓ Set up the…  t-000000
        ► The HT…  t-000001  1/3
        ├─ ✓ Log in w…  t-000002
        ├─ ► Log in w…  t-000003
        └─ ○ Reset a…  t-000004
        ○ The we…  t-000005  0/2
        ├─ ○ ホームペ…  t-000006
        └─ ○ Pay  t-000007
        ✗ Send mail  t-000008
        ○ Newsletter  t-000009
        ? Choose a da…  t-000010
        ○ Ship it  t-000011
        ○ Try again l…  t-000012
        ● \u{1b}[31mr…  t-000013
        ○ Docu…  t-000014  empty
        ");
    }

    #[test]
    fn levels_that_do_not_fit_are_counted() {
        let deep = "a group
            b group in a
            c group in b
            d group in c
            e group in d
            f group in e
            g in f
            h in f
            i in c";
        assert_snapshot!(tree(&snapshot(deep), columns(40)), @r"
        ○ a  t-000000  0/3
        └─ ○ b  t-000001  0/3
           └─ ○ c  t-000002  0/3
              ├─ ○ d  t-000003  0/2
        ⋯3    └─ ○ e  t-000004  0/2
        ⋯4    └─ ○ f  t-000005  0/2
        ⋯5    ├─ ● g  t-000006
        ⋯5    └─ ● h  t-000007
              └─ ● i  t-000008
        ");
    }

    #[test]
    fn a_part_of_the_tree_says_what_holds_it_up_from_outside() {
        let part = snapshot("a: A\nb group after a: B\nc in b: C");
        assert_snapshot!(written(|out| write(out, &part, &[2], PIPE)), @"○ C  t-000002  waits for t-000000");
    }

    #[test]
    fn no_tasks_are_said_to_be_none() {
        assert_snapshot!(tree(&snapshot(""), PIPE), @"no tasks here yet");
    }

    #[test]
    fn ids_are_named_as_long_as_there_is_room() {
        let sample = sample();
        let check = |room, most, expected| {
            assert_eq!(names(&sample, &[1, 2, 3], most, room), expected);
        };
        check(usize::MAX, 3, "t-000001, t-000002, t-000003");
        check(28, 3, "t-000001, t-000002, t-000003");
        check(27, 3, "t-000001, t-000002 +1");
        check(usize::MAX, 2, "t-000001, t-000002 +1");
        check(20, 2, "t-000001 +2");
        check(10, 2, "");
    }
}
