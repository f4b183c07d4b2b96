//! The words between commands that are shown to somebody: what happens now, and what is called.

use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::terminal::Terminal;

/// Begins a part of the story with its title.
pub fn title(out: &mut dyn Write, title: &str, terminal: Terminal) -> io::Result<()> {
    writeln!(out)?;
    Line::new(terminal).push("▌ ", Style::new().magenta()).push(title, bold()).write(out)
}

/// Tells something, each line as it is.
pub fn words(out: &mut dyn Write, text: &str, terminal: Terminal) -> io::Result<()> {
    for line in text.lines() {
        Line::new(terminal).push("▌ ", Style::new().magenta()).plain(line).write(out)?;
    }
    Ok(())
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
