//! Features: all of them as a table, or one with its tasks.

use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::mark::mark;
use super::progress::Progress;
use super::table;
use super::terminal::Terminal;
use super::tree;
use crate::dag::{Feature, FeatureStatus, Snapshot, State};

/// A feature and how far it is.
pub struct FeatureRow<'a> {
    /// The feature.
    pub feature: &'a Feature,
    /// How many of its work tasks are done.
    pub done: usize,
    /// How many work tasks it has.
    pub total: usize,
    /// Whether its spec is written.
    pub has_spec: bool,
    /// Whether its plan is written.
    pub has_plan: bool,
}

/// Writes a line for each feature below a heading.
pub fn list(out: &mut dyn Write, rows: &[FeatureRow<'_>], terminal: Terminal) -> io::Result<()> {
    if rows.is_empty() {
        return Line::new(terminal).plain("no features yet").write(out);
    }
    let cells = |row: &FeatureRow<'_>| {
        [
            (row.feature.name.clone(), Style::new().bold()),
            (row.feature.status.to_string(), style(row.feature.status)),
            (row.tasks(), Style::new()),
            (row.files(), Style::new()),
            (row.feature.id.to_string(), Style::new().dimmed()),
        ]
    };
    let headings = ["NAME", "STATUS", "DONE", "FILES", "ID"];
    table::write(out, headings, 0, rows, cells, terminal)
}

/// Writes one feature with the trees of its tasks, of which `roots` are the outermost.
pub fn show(
    out: &mut dyn Write,
    row: &FeatureRow<'_>,
    snapshot: &Snapshot,
    roots: &[usize],
    terminal: Terminal,
) -> io::Result<()> {
    let feature = row.feature;
    let mut line = Line::new(terminal);
    line.push(&feature.name, Style::new().bold()).skip(2);
    line.push(feature.status.name(), style(feature.status)).skip(2);
    line.push(&feature.id.to_string(), Style::new().dimmed()).write(out)?;
    for (label, is_written, path) in
        [("spec", row.has_spec, &feature.spec_path), ("plan", row.has_plan, &feature.plan_path)]
    {
        let mut line = Line::new(terminal);
        line.push(label, Style::new().dimmed()).skip(2);
        match (is_written, path) {
            (true, Some(path)) => line.plain(path),
            (true, None) => line.plain("written"),
            (false, _) => line.push("not written yet", Style::new().dimmed()),
        };
        line.write(out)?;
    }
    if row.total > 0 {
        let mut line = Line::new(terminal);
        Progress { done: row.done, total: row.total }.draw(&mut line);
        line.write(out)?;
    }
    if row.build_is_unfinished() {
        let mut line = Line::new(terminal);
        let goes_on = format!("not finished; `ralph feature build {}` goes on", feature.name);
        line.push("build", Style::new().dimmed()).skip(1);
        line.push(&goes_on, Style::new().yellow()).write(out)?;
    }
    Line::new(terminal).write(out)?;
    tree::write(out, snapshot, roots, terminal)
}

impl FeatureRow<'_> {
    /// Whether its tasks are not all there: a build that ends well makes it ready.
    pub fn build_is_unfinished(&self) -> bool {
        self.total > 0 && self.feature.status == FeatureStatus::Planned
    }

    fn tasks(&self) -> String {
        match self.total {
            0 => "-".to_owned(),
            total if self.build_is_unfinished() => format!("{}/{total}+", self.done),
            total => Progress { done: self.done, total }.fraction(),
        }
    }

    fn files(&self) -> String {
        match (self.has_spec, self.has_plan) {
            (true, true) => "spec, plan",
            (true, false) => "spec",
            (false, true) => "plan",
            (false, false) => "-",
        }
        .to_owned()
    }
}

fn style(status: FeatureStatus) -> Style {
    mark(match status {
        FeatureStatus::Draft | FeatureStatus::Planned => State::Waiting,
        FeatureStatus::Ready => State::Ready,
        FeatureStatus::Running => State::InProgress,
        FeatureStatus::Done => State::Done,
        FeatureStatus::Failed => State::Failed,
    })
    .style
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::ui::testing::{self, PIPE, columns, now, sample, written};

    fn feature(index: usize, name: &str, status: FeatureStatus) -> Feature {
        Feature {
            id: testing::feature(index),
            name: name.to_owned(),
            status,
            spec_path: Some(".ralph/features/login/spec.md".to_owned()),
            plan_path: None,
            created_at: now(),
            updated_at: now(),
        }
    }

    fn row(feature: &Feature, done: usize, total: usize, has_plan: bool) -> FeatureRow<'_> {
        FeatureRow { feature, done, total, has_spec: true, has_plan }
    }

    #[test]
    fn features_are_listed_with_what_they_have() {
        let login = feature(0, "login", FeatureStatus::Running);
        let export =
            feature(1, "export-to-東京-as-pdf-and-as-many-other-formats", FeatureStatus::Draft);
        let rows = [row(&login, 3, 7, true), row(&export, 0, 0, false)];
        assert_snapshot!(written(|out| list(out, &rows, PIPE)), @r"
        NAME                                             STATUS   DONE  FILES       ID
        login                                            running  3/7   spec, plan  f-000000
        export-to-東京-as-pdf-and-as-many-other-formats  draft    -     spec        f-000001
        ");
        assert_snapshot!(written(|out| list(out, &rows, columns(60))), @r"
        NAME                     STATUS   DONE  FILES       ID
        login                    running  3/7   spec, plan  f-000000
        export-to-東京-as-pdf-…  draft    -     spec        f-000001
        ");
        assert_snapshot!(written(|out| list(out, &[], columns(60))), @r"
        no features yet
        ");
    }

    #[test]
    fn a_feature_is_shown_with_its_tasks() {
        let (login, sample) = (feature(0, "login", FeatureStatus::Running), sample());
        let row = row(&login, 1, 3, false);
        assert_snapshot!(written(|out| show(out, &row, &sample, &[1], columns(60))), @r"
        login  running  f-000000
        spec  .ralph/features/login/spec.md
        plan  not written yet
        █████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░  1/3 done  33%

        ► The HTTP API  t-000001  1/3
        ├─ ✓ Log in with a password  t-000002
        ├─ ► Log in with OAuth  t-000003  in progress
        └─ ○ Reset a forgotten passwo…  t-000004  waits for t-000003
        ");
    }
}
