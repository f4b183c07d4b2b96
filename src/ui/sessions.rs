//! Sessions as a table, and the way to the log of one.

use std::io::{self, Write};
use std::path::Path;

use owo_colors::Style;

use super::line::Line;
use super::price::short;
use super::prose::prose;
use super::show::outcome;
use super::table;
use super::terminal::Terminal;
use super::text::{headline, printable};
use super::when::lasted;
use crate::dag::Attempt;
use crate::time::Timestamp;

/// Reasons are shown on a terminal that has as many columns as this.
const WIDE: usize = 110;

/// Writes a line for each of `attempts` below a heading, and how many `more` there are.
pub fn list(
    out: &mut dyn Write,
    attempts: &[Attempt],
    more: usize,
    now: Timestamp,
    terminal: Terminal,
) -> io::Result<()> {
    if attempts.is_empty() && more == 0 {
        return Line::new(terminal).plain("no sessions yet").write(out);
    }
    let is_wide = terminal.columns() >= WIDE;
    let row = |attempt: &Attempt| {
        let (word, style) = outcome(attempt.outcome);
        let end = attempt.ended_at.unwrap_or(now);
        let (plain, dim) = (Style::new(), Style::new().dimmed());
        let reason = attempt.reason.as_deref().filter(|_| is_wide);
        let reason = reason.map_or(String::new(), headline);
        [
            (attempt.id.to_string(), dim),
            (attempt.task.to_string(), dim),
            (attempt.number.to_string(), plain),
            (word.to_owned(), style),
            (attempt.started_at.to_the_minute(), plain),
            (lasted(end.since(attempt.started_at)), plain),
            (attempt.cost_usd.map_or(String::new(), |cost| short(cost, 2, attempt.billing)), plain),
            (attempt.model.clone().unwrap_or_default(), plain),
            (reason, plain),
            (attempt.log_path.clone().unwrap_or_default(), dim),
        ]
    };
    let headings =
        ["ATTEMPT", "TASK", "#", "OUTCOME", "BEGAN", "TIME", "COST", "MODEL", "REASON", "LOG"];
    let (model, reason) = (7, 8);
    let flexible = if is_wide { reason } else { model };
    table::write(out, headings, flexible, attempts, row, terminal)?;
    match more {
        0 => Ok(()),
        _ => {
            let text = format!("and {more} more; --all shows them");
            out.write_all(prose(&text, terminal).as_bytes())
        }
    }
}

/// Says how to look at the sessions that verified `attempts`, where there were any.
pub fn tell_of_verifiers(
    out: &mut dyn Write,
    attempts: &[Attempt],
    terminal: Terminal,
) -> io::Result<()> {
    let mut verified = attempts.iter().filter(|attempt| attempt.verify_log_path.is_some());
    verified.try_for_each(|attempt| {
        let (number, id) = (attempt.number, attempt.id);
        let line = format!("attempt {number} was verified by an agent: ralph logs {id} --verify");
        out.write_all(prose(&line, terminal).as_bytes())
    })
}

/// Says where the log of a session is, as a link where the terminal knows links.
pub fn log_line(out: &mut dyn Write, path: &Path, terminal: Terminal) -> io::Result<()> {
    let shown = printable(&path.to_string_lossy()).into_owned();
    if terminal.colour {
        let dim = Style::new().dimmed();
        let address = file_address(path);
        let link = format!("\x1b]8;;{address}\x1b\\{}\x1b]8;;\x1b\\", dim.style(&shown));
        writeln!(out, "{} {link}", dim.style("log"))
    } else {
        writeln!(out, "log {shown}")
    }
}

/// The path as an address, with everything escaped that has a meaning there or in a terminal.
fn file_address(path: &Path) -> String {
    let mut address = "file://".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::super::testing::{PIPE, columns, written};
    use super::*;
    use crate::dag::{AttemptId, Outcome, TaskId};

    fn attempt(number: u32, outcome: Option<Outcome>) -> Attempt {
        let started_at = Timestamp::from_epoch(1_794_798_000).unwrap();
        Attempt {
            id: AttemptId::from_bits(number),
            task: TaskId::from_bits(7),
            number,
            run: None,
            model: Some("sonnet".into()),
            started_at,
            ended_at: outcome.map(|_| started_at.plus(std::time::Duration::from_secs(75))),
            outcome,
            reason: outcome.map(|_| "There is no test.\nI looked twice.".into()),
            exit_code: None,
            cost_usd: outcome.map(|_| 0.1234),
            input_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            output_tokens: None,
            billing: None,
            turns: None,
            log_path: Some(format!("/tmp/ralph/logs/shop/{number}.log")),
            session_id: None,
            head_before: None,
            head_after: None,
            verification_status: None,
            verify_log_path: None,
        }
    }

    #[test]
    fn sessions_are_a_table_that_gives_way_from_the_right() {
        let attempts = [attempt(1, Some(Outcome::Failed)), attempt(2, None)];
        let now = Timestamp::from_epoch(1_794_798_010).unwrap();
        let list = |terminal| written(|out| list(out, &attempts, 0, now, terminal));
        insta::assert_snapshot!(list(PIPE), @"
        ATTEMPT   TASK      #  OUTCOME  BEGAN  TIME   COST   MODEL   REASON             LOG
        a-100000  t-700000  1  failed   04:00  1 min  $0.12  sonnet  There is no test.  /tmp/ralph/logs/shop/1.log
        a-200000  t-700000  2  running  04:00  10 s          sonnet                     /tmp/ralph/logs/shop/2.log
        ");
        insta::assert_snapshot!(list(columns(80)), @"
        ATTEMPT   TASK      #  OUTCOME  BEGAN  TIME   COST   MODEL
        a-100000  t-700000  1  failed   04:00  1 min  $0.12  sonnet
        a-200000  t-700000  2  running  04:00  10 s          sonnet
        ");
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let list = |attempts: &[Attempt], more| {
            written(|out| list(out, attempts, more, attempt(1, None).started_at, columns(80)))
        };
        let shown = list(&[attempt(1, None)], 8);
        assert_eq!(shown.lines().last(), Some("and 8 more; --all shows them"));
        assert!(!list(&[attempt(1, None)], 0).contains("more"));
        assert_eq!(list(&[], 0), "no sessions yet\n");
    }

    #[test]
    fn a_log_is_a_link_on_a_terminal_and_a_path_elsewhere() {
        let path = Path::new("/tmp/my logs/\u{1b}.log");
        let line = |terminal| written(|out| log_line(out, path, terminal));
        assert_eq!(line(PIPE), "log /tmp/my logs/\\u{1b}.log\n");
        let link = line(Terminal { width: None, colour: true });
        assert!(link.contains("\u{1b}]8;;file:///tmp/my%20logs/%1B.log\u{1b}\\"), "{link:?}");
    }
}
