//! Tasks as a table.

use std::collections::HashMap;
use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::mark::mark;
use super::table;
use super::terminal::Terminal;
use super::text::cut;
use crate::dag::{FeatureId, Kind, Snapshot};

/// The fewest columns in which a state is spelled out.
const WORDY: usize = 45;
/// What a table shows of a feature's name on a terminal.
const FEATURE: usize = 20;

/// Writes a line for each of `tasks`, in that order, below a heading.
pub fn write(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    tasks: &[usize],
    features: &HashMap<FeatureId, String>,
    terminal: Terminal,
) -> io::Result<()> {
    if tasks.is_empty() {
        return Line::new(terminal).plain("no tasks to list").write(out);
    }
    let is_wordy = terminal.columns() >= WORDY;
    let row = |&task: &usize| {
        let (summary, mark) = (&snapshot.tasks[task], mark(snapshot.state(task)));
        let status = if is_wordy {
            format!("{} {}", mark.symbol, mark.word)
        } else {
            mark.symbol.to_owned()
        };
        let priority = match summary.priority {
            0 => String::new(),
            priority => priority.to_string(),
        };
        let title_style = match snapshot.kind(task) {
            Kind::Group => Style::new().bold(),
            Kind::Work => Style::new(),
        };
        let feature = summary.feature.and_then(|id| features.get(&id)).map_or("", String::as_str);
        let feature = terminal.width.map_or(feature.into(), |_| cut(feature, FEATURE)).into_owned();
        [
            (summary.id.to_string(), Style::new().dimmed()),
            (status, mark.style),
            (priority, Style::new()),
            (summary.title.to_string(), title_style),
            (feature, Style::new().dimmed()),
        ]
    };
    let headings = ["ID", if is_wordy { "STATUS" } else { "" }, "PRIO", "TITLE", "FEATURE"];
    table::write(out, headings, 3, tasks, row, terminal)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::ui::testing::{PIPE, all, columns, features, sample, snapshot, written};

    fn list(snapshot: &Snapshot, terminal: Terminal) -> String {
        let features = features(&["login", "pdf-export"]);
        written(|out| write(out, snapshot, &all(snapshot), &features, terminal))
    }

    #[test]
    fn a_pipe_gets_everything() {
        assert_snapshot!(list(&sample(), PIPE), @r#"
        ID        STATUS         PRIO  TITLE                                                          FEATURE
        t-000000  ✓ done               Set up the project
        t-000001  ► in progress        The HTTP API
        t-000002  ✓ done               Log in with a password
        t-000003  ► in progress        Log in with OAuth                                              login
        t-000004  ○ waiting            Reset a forgotten password by mail, with a token that expires  login
        t-000005  ○ waiting            The web pages
        t-000006  ○ waiting            ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café
        t-000007  ○ waiting            Pay                                                            pdf-export
        t-000008  ✗ failed             Send mail
        t-000009  ○ waiting            Newsletter
        t-000010  ? blocked      -1    Choose a database
        t-000011  ○ waiting      5     Ship it
        t-000012  ○ waiting            Try again later
        t-000013  ● ready        -3    \u{1b}[31mred\u{202e}desrever "quoted" <b>
        t-000014  ○ waiting            Documentation
        "#);
    }

    #[test]
    fn the_title_gives_way_and_then_the_feature() {
        assert_snapshot!(list(&sample(), columns(60)), @r"
        ID        STATUS         PRIO  TITLE
        t-000000  ✓ done               Set up the project
        t-000001  ► in progress        The HTTP API
        t-000002  ✓ done               Log in with a password
        t-000003  ► in progress        Log in with OAuth
        t-000004  ○ waiting            Reset a forgotten password b…
        t-000005  ○ waiting            The web pages
        t-000006  ○ waiting            ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café
        t-000007  ○ waiting            Pay
        t-000008  ✗ failed             Send mail
        t-000009  ○ waiting            Newsletter
        t-000010  ? blocked      -1    Choose a database
        t-000011  ○ waiting      5     Ship it
        t-000012  ○ waiting            Try again later
        t-000013  ● ready        -3    \u{1b}[31mred\u{202e}desreve…
        t-000014  ○ waiting            Documentation
        ");
        assert_snapshot!(list(&sample(), columns(40)), @r"
        ID           PRIO  TITLE
        t-000000  ✓        Set up the project
        t-000001  ►        The HTTP API
        t-000002  ✓        Log in with a passwo…
        t-000003  ►        Log in with OAuth
        t-000004  ○        Reset a forgotten pa…
        t-000005  ○        The web pages
        t-000006  ○        ホームページ 👩‍👩‍👧‍👦 🇩🇪 C…
        t-000007  ○        Pay
        t-000008  ✗        Send mail
        t-000009  ○        Newsletter
        t-000010  ?  -1    Choose a database
        t-000011  ○  5     Ship it
        t-000012  ○        Try again later
        t-000013  ●  -3    \u{1b}[31mred\u{202e…
        t-000014  ○        Documentation
        ");
    }

    #[test]
    fn what_no_task_has_is_no_column() {
        assert_snapshot!(list(&snapshot("a: A\nb after a: B"), columns(60)), @r"
        ID        STATUS     TITLE
        t-000000  ● ready    A
        t-000001  ○ waiting  B
        ");
        assert_snapshot!(list(&snapshot(""), columns(60)), @"no tasks to list");
    }
}
