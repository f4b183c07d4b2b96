//! What came of a run, as a table and a few words.

use std::io::{self, Write};
use std::time::Duration;

use owo_colors::Style;

use super::line::Line;
use super::run::changes;
use super::table;
use super::terminal::Terminal;
use super::text::flat;
use super::when::lasted;
use crate::dag::{Outcome, Status};
use crate::event::{Summary, TaskResult};

/// Writes what came of a run.
pub(super) fn write(out: &mut dyn Write, summary: &Summary, terminal: Terminal) -> io::Result<()> {
    writeln!(out)?;
    if !summary.results.is_empty() {
        let headings = ["TASK", "RESULT", "TRIES", "TIME", "COST", "TITLE AND REASON"];
        table::write(out, headings, 5, &summary.results, row, terminal)?;
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
    facts.push(format!("${:.2}", summary.cost_usd));
    if summary.diff.commits > 0 {
        facts.push(changes(summary.diff));
    }
    Line::new(terminal).plain(&facts.join(" · ")).write(out)?;
    let style = match summary.exit_code {
        0 => Style::new().green(),
        1 => Style::new().red(),
        _ => Style::new().yellow(),
    };
    Line::new(terminal).push(&summary.message, style).write(out)?;
    match &summary.next {
        Some(next) => Line::new(terminal).plain("Next: ").plain(next).write(out),
        None => Ok(()),
    }
}

fn row(result: &TaskResult) -> [table::Cell; 6] {
    let (word, style) = match (result.outcome, result.status) {
        (Outcome::Done, _) => ("done", Style::new().green()),
        (Outcome::Blocked, _) => ("blocked", Style::new().yellow()),
        (_, Status::Failed) => ("failed", Style::new().red()),
        (outcome, _) => (outcome.name(), Style::new().yellow()),
    };
    let reason = result.reason.as_deref().map_or(String::new(), |it| format!(": {}", flat(it)));
    let plain = Style::new();
    [
        (result.task.to_string(), Style::new().dimmed()),
        (word.to_owned(), style),
        (result.attempts.to_string(), plain),
        (lasted(Duration::from_secs_f64(result.duration_secs)), plain),
        (format!("${:.2}", result.cost_usd), plain),
        (format!("{}{reason}", flat(&result.title)), plain),
    ]
}
