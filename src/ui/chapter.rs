//! The words between commands that are shown to somebody: what happens now, and what is called.

use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::terminal::Terminal;
use super::text::width;

/// Lines longer than this are hard to read.
const EASY: usize = 80;

/// Begins a part of the story with its title.
pub fn title(out: &mut dyn Write, title: &str, terminal: Terminal) -> io::Result<()> {
    writeln!(out)?;
    Line::new(terminal).push("▌ ", Style::new().magenta()).push(title, bold()).write(out)
}

/// Tells something, in lines that are easy to read.
pub fn words(out: &mut dyn Write, text: &str, terminal: Terminal) -> io::Result<()> {
    let room = terminal.columns().min(EASY) - 2;
    for line in text.lines().flat_map(|line| wrapped(line, room)) {
        Line::new(terminal).push("▌ ", Style::new().magenta()).plain(&line).write(out)?;
    }
    Ok(())
}

/// A text in lines of so many columns; a longer word has one for itself.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| width(line) + 1 + width(word) <= columns) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Shows a command that is called now.
pub fn command(out: &mut dyn Write, command: &str, terminal: Terminal) -> io::Result<()> {
    writeln!(out)?;
    Line::new(terminal).push("$ ", Style::new().dimmed()).push(command, bold()).write(out)
}

/// Shows a text that is not ours.
pub fn quotation(out: &mut dyn Write, text: &str, terminal: Terminal) -> io::Result<()> {
    writeln!(out)?;
    text.lines().try_for_each(|line| {
        Line::new(terminal).skip(4).push(line, Style::new().dimmed()).write(out)
    })
}

fn bold() -> Style {
    Style::new().bold()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 80), ["one two three"]);
        assert_eq!(wrapped("东京东京 unbreakable x", 9), ["东京东京", "unbreakable", "x"]);
    }
}
