//! The tables of docs/sigils.md, for the tests that hold them against what is really done.

const DOCUMENT: &str = include_str!("../../docs/sigils.md");

/// The rows of the table under a heading: what is said, and what is taken from it.
pub(super) fn rows(heading: &str) -> Vec<(String, String)> {
    let (_, section) = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("it has a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<(String, String)> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .filter(|row| row.starts_with('`'))
        .map(|row| {
            let (said, taken) = row.rsplit_once(" | ").expect("a row has two cells");
            (without_ticks(said).replace('⏎', "\n"), taken.to_owned())
        })
        .collect();
    assert!(rows.len() > 5, "the table under `{heading}` is missing");
    rows
}

/// What a code span shows.
fn without_ticks(span: &str) -> &str {
    let ticks = span.len() - span.trim_start_matches('`').len();
    // A span that begins with a backtick has a blank before it, and then one at its end.
    let inner = &span[ticks..span.len() - ticks];
    inner.strip_prefix(' ').and_then(|inner| inner.strip_suffix(' ')).unwrap_or(inner)
}

#[test]
fn a_row_is_read_as_a_reader_sees_it() {
    assert_eq!(without_ticks("`a b`"), "a b");
    assert_eq!(without_ticks("``I `a` b``"), "I `a` b");
    assert_eq!(without_ticks("``` ```⏎a⏎``` ```"), "```⏎a⏎```");
}
