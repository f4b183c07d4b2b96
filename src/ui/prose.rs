//! Sentences for a person: printable, and broken between words where the terminal ends.

use super::terminal::Terminal;
use super::text::{printable_lines, wrap};

/// What prose beside a label should have room for; with less it stands below the label.
const ENOUGH: usize = 40;
/// How far prose below a label is indented.
const INDENT: usize = 2;

/// The text as it is shown there, with a newline at the end of each line.
pub fn prose(text: &str, terminal: Terminal) -> String {
    let lines = wrap(&printable_lines(text), terminal.columns());
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The same for a text that begins behind a label: all its lines begin there, or below the label where there
/// is too little room beside it.
pub fn labelled(label: &str, text: &str, terminal: Terminal) -> String {
    let (column, columns) = (label.chars().count(), terminal.columns());
    let text = printable_lines(text);
    let is_short = wrap(&text, columns.saturating_sub(column)).len() <= 1;
    if !is_short && columns.saturating_sub(column) < ENOUGH {
        let lines = wrap(&text, columns.saturating_sub(INDENT));
        let lines = lines.iter().map(|line| format!("{:INDENT$}{line}\n", ""));
        let label = Some(label.trim_end()).filter(|label| !label.is_empty());
        return label.map(|label| format!("{label}\n")).into_iter().chain(lines).collect();
    }
    let lines = wrap(&text, columns.saturating_sub(column));
    let line = |(place, line): (usize, &String)| match place {
        0 => format!("{label}{line}\n"),
        _ => format!("{:column$}{line}\n", ""),
    };
    lines.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{PIPE, columns};
    use super::*;

    #[test]
    fn prose_is_broken_between_words_and_keeps_its_own_lines() {
        let text = "error: the agent was not found anywhere in PATH\n  t-1 \"One\" waits for t-2 \"Another one\"";
        assert_eq!(prose(text, PIPE), format!("{text}\n"));
        insta::assert_snapshot!(prose(text, columns(30)), @r#"
        error: the agent was not found
        anywhere in PATH
          t-1 "One" waits for t-2
          "Another one"
        "#);
        assert_eq!(prose("", columns(30)), "");
    }

    #[test]
    fn a_word_is_broken_only_if_it_is_wider_than_the_line() {
        let path = "/home/somebody/with/a/very/long/name";
        insta::assert_snapshot!(prose(&format!("there is no {path} here"), columns(24)), @"
        there is no
        /home/somebody/with/a/ve
        ry/long/name here
        ");
    }

    #[test]
    fn prose_behind_a_label_stays_behind_it_or_goes_below() {
        let text = "every key is known and has a value that makes sense, as far as can be told";
        insta::assert_snapshot!(labelled("ok  settings  ", text, columns(60)), @"
        ok  settings  every key is known and has a value that makes
                      sense, as far as can be told
        ");
        insta::assert_snapshot!(labelled("ok  settings  ", text, columns(40)), @"
        ok  settings
          every key is known and has a value
          that makes sense, as far as can be
          told
        ");
        assert_eq!(
            labelled("              ", "hint: look at it with `git status`", columns(40)),
            "  hint: look at it with `git status`\n"
        );
        assert_eq!(labelled("ok  git  ", "2.39", columns(40)), "ok  git  2.39\n");
        assert_eq!(labelled("ok  git  ", text, PIPE), format!("ok  git  {text}\n"));
    }
}
