//! What the drills found, as a document: one Markdown table, so that a run can be kept as it is.

use std::fmt;

/// One line of the table.
pub(crate) struct Row {
    what: String,
    measured: String,
    limit: String,
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Told,
    Held,
    Broken,
    /// It took too long, or another program was in the way.
    Slow,
    Skipped,
}

impl Row {
    /// A figure that is only told.
    pub(crate) fn told(what: impl Into<String>, measured: impl fmt::Display) -> Row {
        Row::new(what, measured, "", Verdict::Told)
    }

    /// A figure that has a limit, and whether it is within.
    pub(crate) fn limited(
        what: impl Into<String>,
        measured: impl fmt::Display,
        limit: impl fmt::Display,
        holds: bool,
    ) -> Row {
        Row::new(what, measured, limit, if holds { Verdict::Held } else { Verdict::Broken })
    }

    /// A time, or what depends on times, and whether it is within its limit.
    pub(crate) fn timed(
        what: impl Into<String>,
        measured: impl fmt::Display,
        limit: impl fmt::Display,
        holds: bool,
    ) -> Row {
        Row::new(what, measured, limit, if holds { Verdict::Held } else { Verdict::Slow })
    }

    /// How often something happened that must never happen.
    pub(crate) fn never(what: impl Into<String>, count: usize) -> Row {
        Row::limited(what, count, "0", count == 0)
    }

    /// What happened that must never happen: how often, and what it was the first time.
    pub(crate) fn none(what: impl Into<String>, found: &[String]) -> Row {
        let Some(first) = found.first() else { return Row::never(what, 0) };
        let first: String = first.chars().take(300).collect();
        Row::limited(what, format!("{}: {first}", found.len()), 0, false)
    }

    /// What could not be tried here, and why.
    pub(crate) fn skipped(what: impl Into<String>, why: impl fmt::Display) -> Row {
        Row::new(what, why, "", Verdict::Skipped)
    }

    /// A drill that came to no end, and what stopped it.
    pub(crate) fn broken(why: impl fmt::Display) -> Row {
        Row::new("the drill itself", why, "", Verdict::Broken)
    }

    fn new(
        what: impl Into<String>,
        measured: impl fmt::Display,
        limit: impl fmt::Display,
        verdict: Verdict,
    ) -> Row {
        Row { what: what.into(), measured: measured.to_string(), limit: limit.to_string(), verdict }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.verdict == Verdict::Broken
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.verdict == Verdict::Slow
    }
}

/// The heading of a drill's table, and its rows.
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    pub(crate) about: &'a str,
    pub(crate) rows: &'a [Row],
}

impl fmt::Display for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "## {}\n\n{}\n\n| | measured | limit | |\n| --- | ---: | ---: | --- |",
            self.name, self.about
        )?;
        for Row { what, measured, limit, verdict } in self.rows {
            let verdict = match verdict {
                Verdict::Told => "",
                Verdict::Held => "ok",
                Verdict::Broken => "**BROKEN**",
                Verdict::Slow => "**SLOW**",
                Verdict::Skipped => "skipped",
            };
            let [what, measured, limit] =
                [what, measured, limit].map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            writeln!(f, "| {what} | {measured} | {limit} | {verdict} |")?;
        }
        writeln!(f)
    }
}
