//! Output with the time before each of its lines.

use std::io::{self, Write};

use crate::time::Timestamp;

/// How many columns the time takes.
pub(super) const WIDTH: usize = "00:00:00 ".len();

/// Puts the time before each line, if that is wanted.
#[derive(Debug)]
pub(super) struct Stamps<W: Write> {
    /// Where it goes.
    pub(super) out: W,
    wanted: bool,
    /// Whether something else moves the cursor, so that each line has to clear its own.
    pub(super) clears: bool,
    at_line_start: bool,
}

impl<W: Write> Stamps<W> {
    /// Output at the beginning of a line.
    pub(super) fn new(out: W, wanted: bool) -> Stamps<W> {
        Stamps { out, wanted, clears: false, at_line_start: true }
    }
}

impl<W: Write> Write for Stamps<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.wanted || self.clears {
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                if self.at_line_start && self.clears {
                    self.out.write_all(b"\r\x1b[2K")?;
                }
                if self.at_line_start && self.wanted {
                    write!(self.out, "{} ", Timestamp::now().clock())?;
                }
                self.out.write_all(line)?;
                self.at_line_start = line.ends_with(b"\n");
            }
        } else {
            self.out.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_its_time_however_it_is_written() {
        let mut out = Stamps::new(Vec::new(), true);
        for piece in ["one", " line\ntwo", "\n", "three"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        let text = String::from_utf8(out.out).unwrap();
        let without: Vec<&str> = text.lines().map(|line| &line["00:00:00 ".len()..]).collect();
        assert_eq!(without, ["one line", "two", "three"]);
        let mut out = Stamps::new(Vec::new(), false);
        out.write_all(b"one\n").unwrap();
        assert_eq!(out.out, b"one\n");
        let mut out = Stamps { clears: true, ..Stamps::new(Vec::new(), false) };
        out.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(out.out, b"\r\x1b[2Kone\n\r\x1b[2Ktwo\n");
    }
}
