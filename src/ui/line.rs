//! One line of output. Whatever is put into it is made printable and cut to the room that is left,
//! so that no listing can break the terminal or its width.

use std::fmt::Write as _;
use std::io::{self, Write};

use owo_colors::Style;

use super::terminal::Terminal;
use super::text::{cut, printable, width};

/// A line that grows from left to right.
pub(super) struct Line {
    text: String,
    /// Columns up to where the next text begins.
    used: usize,
    /// How many of these are spaces that are written only if something follows.
    gap: usize,
    terminal: Terminal,
}

impl Line {
    pub(super) fn new(terminal: Terminal) -> Line {
        Line { text: String::with_capacity(terminal.columns().min(256)), used: 0, gap: 0, terminal }
    }

    /// How many columns are left.
    pub(super) fn room(&self) -> usize {
        self.terminal.columns().saturating_sub(self.used)
    }

    /// The column at which the next text begins.
    pub(super) fn column(&self) -> usize {
        self.used
    }

    /// Appends as much of the text as fits.
    pub(super) fn push(&mut self, text: &str, style: Style) -> &mut Line {
        let text = printable(text);
        let text = cut(&text, self.room());
        if text.is_empty() {
            return self;
        }
        self.text.extend(std::iter::repeat_n(' ', std::mem::take(&mut self.gap)));
        self.used += width(&text);
        if self.terminal.colour && !style.is_plain() {
            write!(self.text, "{}", style.style(&text)).expect("a string takes all");
        } else {
            self.text.push_str(&text);
        }
        self
    }

    /// Appends as much of the text as fits, without a style.
    pub(super) fn plain(&mut self, text: &str) -> &mut Line {
        self.push(text, Style::new())
    }

    /// Leaves some columns free.
    pub(super) fn skip(&mut self, columns: usize) -> &mut Line {
        self.used += columns;
        self.gap += columns;
        self
    }

    /// Goes on at this column, or here if that is behind us.
    pub(super) fn at(&mut self, column: usize) -> &mut Line {
        self.skip(column.saturating_sub(self.used))
    }

    pub(super) fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.text.push('\n');
        out.write_all(self.text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::testing::{PIPE, columns, written};

    #[test]
    fn a_line_is_cut_at_the_edge_and_has_no_spaces_behind_it() {
        let mut line = Line::new(columns(24));
        line.skip(2).plain("one").at(10).plain("東京東京東京東京東京").skip(2).plain("gone");
        assert_eq!(written(|out| line.write(out)), "  one     東京東京東京…\n");
        let mut line = Line::new(PIPE);
        line.plain("one").at(40);
        assert_eq!(written(|out| line.write(out)), "one\n");
    }

    #[test]
    fn colours_are_there_if_wanted() {
        let mut line = Line::new(Terminal { colour: true, ..PIPE });
        line.push("red", Style::new().red()).skip(1).plain("plain").push("", Style::new().red());
        assert_eq!(written(|out| line.write(out)), "\x1b[31mred\x1b[0m plain\n");
    }
}
