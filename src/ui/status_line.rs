//! A line below everything else that stays while output scrolls above it. It is taken away before
//! anything is written and put back afterwards, so that it is never left behind.

use std::io::{self, Write};

/// Goes down a line, scrolling if there is none, and comes back: from here on there is room below.
/// If the cursor was behind the last column it comes back on it, and the next character would replace
/// the one there. So a line that is full and not ended yet is followed by a newline (`flow.rs`).
pub(super) const MAKE_ROOM: &str = "\x1bD\x1b[A";
/// Remembers where the cursor is, and goes to the beginning of the line below.
const BELOW: &str = "\x1b7\x1bD\r\x1b[2K";
/// Goes back to where the cursor was.
pub(super) const BACK: &str = "\x1b8";

/// Output with a line below it.
#[derive(Debug)]
pub(super) struct StatusLine<W: Write> {
    out: W,
    shown: Option<String>,
}

impl<W: Write> StatusLine<W> {
    /// Output without such a line so far.
    pub(super) fn new(out: W) -> StatusLine<W> {
        StatusLine { out, shown: None }
    }

    /// Shows this line, which must not be wider than the terminal.
    pub(super) fn draw(&mut self, line: &str) -> io::Result<()> {
        if self.shown.as_deref() == Some(line) {
            return Ok(());
        }
        write!(self.out, "{MAKE_ROOM}{BELOW}{line}{BACK}")?;
        self.shown = Some(line.to_owned());
        self.out.flush()
    }

    /// Leaves the line where it is, and the place below to others.
    pub(super) fn forget(&mut self) {
        self.shown = None;
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        match self.shown.take() {
            Some(_) => write!(self.out, "{BELOW}{BACK}"),
            None => Ok(()),
        }
    }
}

impl<W: Write> Write for StatusLine<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.clear()?;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(write: impl FnOnce(&mut StatusLine<&mut Vec<u8>>)) -> String {
        let mut bytes = Vec::new();
        write(&mut StatusLine::new(&mut bytes));
        let size = |number| std::num::NonZero::new(number).unwrap();
        let mut terminal = vt100::Parser::new(size(4), size(20), 100);
        // A terminal ends its lines like this. The emulation does not know "index", but what a line
        // feed alone is.
        let text = String::from_utf8(bytes).unwrap().replace('\n', "\r\n").replace("\x1bD", "\n");
        terminal.process(text.as_bytes());
        terminal.screen().contents()
    }

    #[test]
    fn the_line_stays_below_while_output_goes_on_above() {
        let shown = screen(|out| {
            out.write_all(b"one\n").unwrap();
            out.draw("status 1").unwrap();
            out.write_all(b"half ").unwrap();
            out.draw("status 2").unwrap();
            out.write_all(b"a line\n").unwrap();
            out.draw("status 3").unwrap();
        });
        assert_eq!(shown, "one\nhalf a line\n\nstatus 3");
    }

    #[test]
    fn the_line_scrolls_with_the_screen() {
        let shown = screen(|out| {
            for number in 1..=9 {
                writeln!(out, "line {number}").unwrap();
                out.draw(&format!("status {number}")).unwrap();
            }
            out.write_all(b"half").unwrap();
            out.draw("status 10").unwrap();
        });
        assert_eq!(shown, "line 8\nline 9\nhalf\nstatus 10");
    }

    #[test]
    fn a_line_that_was_taken_away_is_gone() {
        let shown = screen(|out| {
            for number in 1..=9 {
                writeln!(out, "line {number}").unwrap();
                out.draw("status").unwrap();
            }
            out.clear().unwrap();
        });
        assert_eq!(shown, "line 8\nline 9");
    }
}
