//! What came of a run, as a table and a few words.

use std::io::{self, Write};
use std::time::Duration;

use owo_colors::Style;

use super::line::Line;
use super::price::{amount, short};
use super::run::changes;
use super::table;
use super::terminal::Terminal;
use super::text::{flat, headline, width, wrap};
use super::when::lasted;
use crate::dag::{Outcome, Status};
use crate::event::{Summary, TaskResult};

/// Stands between two facts of the total.
const BETWEEN: &str = " · ";

/// Writes what came of a run.
pub(super) fn write(out: &mut dyn Write, summary: &Summary, terminal: Terminal) -> io::Result<()> {
    writeln!(out)?;
    if !summary.results.is_empty() {
        let headings = ["TASK", "RESULT", "TRIES", "TIME", "COST", "TITLE AND REASON"];
        table::write_wrapped(out, headings, &summary.results, row, terminal)?;
        writeln!(out)?;
    }
    let tasks = &summary.tasks;
    let mut facts = Vec::new();
    if tasks.total > 0 {
        facts.push(format!("{}/{} done", tasks.done, tasks.total));
    }
    for (count, word) in [(tasks.failed, "failed"), (tasks.blocked, "blocked")] {
        if count > 0 {
            facts.push(format!("{count} {word}"));
        }
    }
    let plural = if summary.iterations == 1 { "" } else { "s" };
    facts.push(format!("{} iteration{plural}", summary.iterations));
    facts.push(lasted(Duration::from_secs_f64(summary.duration_secs)));
    facts.push(amount(summary.bill.cost_usd, 2, summary.bill.billing));
    if summary.diff.commits > 0 {
        facts.push(changes(summary.diff));
    }
    join(&facts, terminal.columns())
        .iter()
        .try_for_each(|line| Line::new(terminal).plain(line).write(out))?;
    let style = match summary.exit_code {
        0 => Style::new().green(),
        1 => Style::new().red(),
        _ => Style::new().yellow(),
    };
    let next = summary.next.as_ref().map(|next| (format!("Next: {next}"), Style::new()));
    for (text, style) in [(summary.message.clone(), style)].into_iter().chain(next) {
        wrap(&flat(&text), terminal.columns())
            .iter()
            .try_for_each(|line| Line::new(terminal).push(line, style).write(out))?;
    }
    Ok(())
}

/// The facts one after the other, in lines that are broken between them.
fn join(facts: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        match lines.last_mut() {
            Some(line) if width(line) + width(BETWEEN) + width(fact) <= columns => {
                line.push_str(BETWEEN);
                line.push_str(fact);
            }
            _ => lines.push(fact.clone()),
        }
    }
    lines
}

fn row(result: &TaskResult) -> [table::Cell; 6] {
    let (word, style) = match (result.outcome, result.status) {
        (Outcome::Done, _) => ("done", Style::new().green()),
        (Outcome::Blocked, _) => ("blocked", Style::new().yellow()),
        (_, Status::Failed) => ("failed", Style::new().red()),
        (outcome, _) => (outcome.name(), Style::new().yellow()),
    };
    // A question needs all of its words.
    let told = if result.outcome == Outcome::Blocked { flat } else { headline };
    let reason = result.reason.as_deref().map_or(String::new(), |it| format!(": {}", told(it)));
    let plain = Style::new();
    [
        (result.task.to_string(), Style::new().dimmed()),
        (word.to_owned(), style),
        (result.attempts.to_string(), plain),
        (lasted(Duration::from_secs_f64(result.duration_secs)), plain),
        (short(result.bill.cost_usd, 2, result.bill.billing), plain),
        (format!("{}{reason}", flat(&result.title)), plain),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{PIPE, columns, written};
    use super::*;
    use crate::dag::{Bill, Billing, TaskId};
    use crate::event::{Diff, Progress};

    fn result(number: u32, outcome: Outcome, status: Status, reason: Option<&str>) -> TaskResult {
        TaskResult {
            task: TaskId::from_bits(number),
            title: "Pay with a card".into(),
            attempts: 4,
            outcome,
            status,
            reason: reason.map(str::to_owned),
            bill: Bill { cost_usd: 0.46, ..Bill::default() },
            duration_secs: 75.0,
        }
    }

    #[test]
    fn reasons_and_totals_are_wrapped_and_not_cut() {
        let reason = "The provider wants PAY_KEY, which is set nowhere, so that no request can be \
                      signed.\n\nI have left the tests as they were.\n";
        let summary = Summary {
            outcome: "failed",
            exit_code: 1,
            message: "1 task failed".into(),
            next: Some("ralph task show t-200000".into()),
            tasks: Progress { total: 3, done: 1, failed: 1, blocked: 1, in_progress: 0 },
            iterations: 12,
            results: vec![
                result(1, Outcome::Done, Status::Done, None),
                result(2, Outcome::Failed, Status::Failed, Some(reason)),
                result(3, Outcome::Blocked, Status::Blocked, Some("In cents?\nOr in dollars?")),
            ],
            diff: Diff { commits: 2, files: 4, insertions: 370, deletions: 3 },
            bill: Bill { cost_usd: 1.38, ..Bill::default() },
            duration_secs: 3725.0,
        };
        let shown =
            |terminal| written(|out| write(out, &summary, terminal)).trim_start().to_owned();
        insta::assert_snapshot!(shown(columns(80)), @"
        TASK      RESULT   TRIES  TIME   COST   TITLE AND REASON
        t-100000  done     4      1 min  $0.46  Pay with a card
        t-200000  failed   4      1 min  $0.46  Pay with a card: The provider wants
                                                PAY_KEY, which is set nowhere, so that
                                                no request can be signed.
        t-300000  blocked  4      1 min  $0.46  Pay with a card: In cents? Or in
                                                dollars?

        1/3 done · 1 failed · 1 blocked · 12 iterations · 1 h 2 min · $1.38
        2 commits, 4 files changed, +370 −3
        1 task failed
        Next: ralph task show t-200000
        ");
        insta::assert_snapshot!(shown(columns(40)), @"
        TASK      RESULT   TRIES  TIME   COST
        t-100000  done     4      1 min  $0.46
          Pay with a card
        t-200000  failed   4      1 min  $0.46
          Pay with a card: The provider wants
          PAY_KEY, which is set nowhere, so that
          no request can be signed.
        t-300000  blocked  4      1 min  $0.46
          Pay with a card: In cents? Or in
          dollars?

        1/3 done · 1 failed · 1 blocked
        12 iterations · 1 h 2 min · $1.38
        2 commits, 4 files changed, +370 −3
        1 task failed
        Next: ralph task show t-200000
        ");
        insta::assert_snapshot!(shown(PIPE), @"
        TASK      RESULT   TRIES  TIME   COST   TITLE AND REASON
        t-100000  done     4      1 min  $0.46  Pay with a card
        t-200000  failed   4      1 min  $0.46  Pay with a card: The provider wants PAY_KEY, which is set nowhere, so that no request can be signed.
        t-300000  blocked  4      1 min  $0.46  Pay with a card: In cents? Or in dollars?

        1/3 done · 1 failed · 1 blocked · 12 iterations · 1 h 2 min · $1.38 · 2 commits, 4 files changed, +370 −3
        1 task failed
        Next: ralph task show t-200000
        ");
    }

    #[test]
    fn what_a_subscription_covers_is_marked_in_the_table_and_in_the_total() {
        let billing = Some(Billing::Subscription);
        let mut done = result(1, Outcome::Done, Status::Done, None);
        done.bill.billing = billing;
        let summary = Summary {
            results: vec![done],
            bill: Bill { cost_usd: 0.46, billing, ..Bill::default() },
            ..Summary::default()
        };
        let shown = written(|out| write(out, &summary, columns(80)));
        assert_eq!(shown.matches("≈ $0.46").count(), 2, "{shown}");
        assert!(shown.contains("≈ $0.46 at API prices"), "{shown}");
        assert_eq!(shown.matches('$').count(), 2, "{shown}");
    }
}
