//! Cuts a stream of bytes into lines without ever holding more than one line of bounded length.

/// A longer line is passed over: it goes to the log, but is not read.
const MAX_LINE: usize = 16 << 20;

/// Collects bytes until a line is whole.
#[derive(Debug)]
pub struct Lines {
    partial: Vec<u8>,
    /// The line has become too long; the rest of it is passed over.
    overflowed: bool,
    limit: usize,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines::with_limit(MAX_LINE)
    }
}

impl Lines {
    fn with_limit(limit: usize) -> Lines {
        Lines { partial: Vec::new(), overflowed: false, limit }
    }

    /// Hands every line that these bytes complete to `each`; returns how many were too long.
    pub fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(&[u8])) -> usize {
        let mut too_long = 0;
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.overflowed || self.partial.len() + line.len() > self.limit {
                too_long += 1;
            } else if self.partial.is_empty() {
                each(line);
            } else {
                self.partial.extend_from_slice(line);
                each(&self.partial);
            }
            self.forget();
            bytes = rest;
        }
        self.keep(bytes);
        too_long
    }

    /// Hands over what stands without a line end at the end.
    pub fn finish(mut self, each: &mut dyn FnMut(&[u8])) {
        if !self.overflowed && !self.partial.is_empty() {
            each(&std::mem::take(&mut self.partial));
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.overflowed {
            return;
        }
        if self.partial.len() + bytes.len() > self.limit {
            self.forget();
            self.overflowed = true;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn forget(&mut self) {
        self.overflowed = false;
        // The memory of a huge line is given back, that of an ordinary one is used again.
        if self.partial.capacity() > 1 << 20 {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_are_cut(
            text in "[a-c\n]{0,200}",
            cuts in prop::collection::vec(1..20usize, 0..40),
        ) {
            let mut lines = Lines::with_limit(10);
            let mut got: Vec<String> = Vec::new();
            let mut push = |line: &[u8]| got.push(String::from_utf8(line.to_vec()).unwrap());
            let mut rest = text.as_bytes();
            let mut too_long = 0;
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                too_long += lines.push(now, &mut push);
                rest = later;
            }
            too_long += lines.push(rest, &mut push);
            lines.finish(&mut push);
            let mut all: Vec<&str> = text.split('\n').collect();
            let last = all.pop().filter(|last| !last.is_empty() && last.len() <= 10);
            let expected: Vec<&str> =
                all.iter().copied().filter(|line| line.len() <= 10).chain(last).collect();
            prop_assert_eq!(got, expected);
            prop_assert_eq!(too_long, all.iter().filter(|line| line.len() > 10).count());
        }
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.push(&vec![b'x'; 1 << 20], &mut |_| ());
        }
        assert!(lines.partial.capacity() <= MAX_LINE + (1 << 20));
        let mut after = 0;
        assert_eq!(lines.push(b"\nnext\n", &mut |line| after += line.len()), 1);
        assert_eq!(after, 4);
    }
}
