//! Makes inputs: real ones, and what becomes of them when bytes, pieces and values are changed.

use std::ops::Range;

use crate::random::Random;

/// No input is longer; longer ones are among the extremes.
const MOST: usize = 128 << 10;

/// What inputs are made from.
pub(super) struct Corpus {
    /// Real ones.
    pub(super) seeds: Vec<Vec<u8>>,
    /// What means something to the reader.
    pub(super) words: Vec<Vec<u8>>,
    /// How many seeds an input may consist of.
    pub(super) together: u64,
}

impl Corpus {
    pub(super) fn new(
        seeds: Vec<Vec<u8>>,
        words: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Corpus {
        assert!(seeds.iter().any(|seed| !seed.is_empty()), "there is nothing to begin with");
        let words = words.into_iter().map(|word| word.as_ref().to_vec()).collect();
        Corpus { seeds, words, together: 1 }
    }

    pub(super) fn together(self, together: u64) -> Corpus {
        Corpus { together, ..self }
    }

    /// An input: as it is once in a while, and otherwise changed in one place or several.
    pub(super) fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..=random.below(self.together) {
            bytes.extend_from_slice(self.seed(random));
        }
        let changes = match random.below(16) {
            0 => 0,
            1..=8 => 1,
            _ => 1 + random.below(6),
        };
        for _ in 0..changes {
            self.change(&mut bytes, random);
            bytes.truncate(MOST);
        }
        bytes
    }

    fn seed(&self, random: &mut Random) -> &[u8] {
        pick::<Vec<u8>>(&self.seeds, random)
    }

    fn change(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(16) {
            0 => flip(bytes, random),
            1 => {
                let byte = *pick(
                    b"\0\t\n\r\x03\x1b\x1c \"'\\{}[]<>`:;,=#\x7f\x80\xc3\xe2\xf0\xff",
                    random,
                );
                bytes.insert(at, byte);
            }
            2 => drop(bytes.drain(range(bytes.len(), random))),
            3 => repeat(bytes, random),
            4 => {
                let other = self.seed(random);
                let piece = range(other.len(), random);
                bytes.splice(at..at, other[piece].iter().copied());
            }
            5 => bytes.truncate(at),
            6 => {
                let piece: Vec<u8> = bytes.drain(range(bytes.len(), random)).collect();
                let to = random.below(bytes.len() as u64 + 1) as usize;
                bytes.splice(to..to, piece);
            }
            7 => *bytes = replace_all(bytes, b"\n", b"\r\n"),
            8 => {
                let count = 1 << random.below(14);
                let byte = *pick(b"a0[{(\"\\`~\x1b\n\xf0 ", random);
                bytes.splice(at..at, std::iter::repeat_n(byte, count));
            }
            9..=11 if !self.words.is_empty() => {
                let word = pick(&self.words, random);
                bytes.splice(at..at, word.iter().copied());
            }
            9..=11 => flip(bytes, random),
            _ => replace_value(bytes, at, random),
        }
    }
}

fn pick<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

/// A piece of so many bytes; a short one more often than a long one.
fn range(length: usize, random: &mut Random) -> Range<usize> {
    let start = random.below(length as u64 + 1) as usize;
    let most = 1_u64 << random.below(12);
    let end = length.min(start + random.below(most) as usize + 1);
    start..end.max(start)
}

fn flip(bytes: &mut [u8], random: &mut Random) {
    let at = random.below(bytes.len() as u64) as usize;
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << random.below(8);
    }
}

fn repeat(bytes: &mut Vec<u8>, random: &mut Random) {
    let piece = range(bytes.len(), random);
    let times = 1 << random.below(11);
    let copies = bytes[piece.clone()].repeat(times.min(MOST / piece.len().max(1)));
    bytes.splice(piece.end..piece.end, copies);
}

fn replace_all(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, from) {
        changed.extend_from_slice(&rest[..at]);
        changed.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    changed.extend_from_slice(rest);
    changed
}

/// Puts another value where JSON or TOML has one, so that what stands around it stays as it is.
fn replace_value(bytes: &mut Vec<u8>, from: usize, random: &mut Random) {
    let mark = |byte: &u8| matches!(byte, b':' | b'=' | b'[');
    let Some(mark) = bytes[from..].iter().position(mark) else { return };
    let blanks = bytes[from + mark + 1..].iter().take_while(|&&byte| byte == b' ').count();
    let start = from + mark + 1 + blanks;
    let end = value_end(bytes, start);
    bytes.splice(start..end, value(random));
}

/// Where the value ends that begins here.
fn value_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, &byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => {
                quoted = !quoted;
                if !quoted && depth == 0 {
                    return at + 1;
                }
            }
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b',' | b'}' | b']' | b'\n' if depth == 0 => return at,
            _ => {}
        }
    }
    bytes.len()
}

/// A value that is seldom seen.
fn value(random: &mut Random) -> Vec<u8> {
    const VALUES: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "0.1",
        "-0.0",
        "1e999",
        "-1e999",
        "1e-999",
        "5e-324",
        "1.7976931348623157e308",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551616",
        "123456789e300",
        "429",
        "1794798343",
        "nan",
        "inf",
        "\"\"",
        "\" \"",
        "\"x\"",
        "\"\\ud83d\"",
        "\"\\udc00\\ud800x\"",
        "\"\\u0000\"",
        "\"\\u202e\\u001b[31m\"",
        "\"東京 🎉\"",
        "[]",
        "{}",
        "[1]",
        "[\"x\"]",
        "[null, {}]",
        "{\"type\": \"text\", \"text\": \"x\"}",
        "[{\"type\": \"text\", \"text\": \"x\"}]",
        "\"2026-11-16T02:24:16.123Z\"",
        "\"0000-01-01T00:00:00.000Z\"",
        "\"9999-12-31T23:59:59.999Z\"",
        "\"t-000001\"",
        "\"t-\"",
        "\"f-000001\"",
        "\"a-000001\"",
        "\"success\"",
        "\"done\"",
        "\"group\"",
        "\"2h30m\"",
        "\"fixed\"",
        "\"bwrap\"",
        "'x'",
        "\"\"\"x\"\"\"",
        "2026-11-16",
        "07:32:00",
    ];
    match random.below(8) {
        0 => {
            let depth = 1 << random.below(12);
            let (open, close) =
                *pick(&[("[", "]"), ("{\"a\":", "}"), ("{\"content\":[", "]}")], random);
            [open.repeat(depth), "1".to_owned(), close.repeat(depth)].concat().into_bytes()
        }
        1 => {
            let piece = *pick(&["x", "東", "🎉", "\\u202e", "9", "\\n", "<", "\\\\"], random);
            format!("\"{}\"", piece.repeat(1 << random.below(13))).into_bytes()
        }
        2 => format!("{}{}", 1 + random.below(9), "7".repeat(1 << random.below(12))).into_bytes(),
        _ => pick(VALUES, random).as_bytes().to_vec(),
    }
}
