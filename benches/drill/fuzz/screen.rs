//! What an agent draws on its terminal.

use std::fs;

use ralph::agent::drill::Drawing;

use super::agent::fixtures;
use super::mutate::Corpus;
use super::{Target, cut, promise};
use crate::random::Random;

pub(super) const SCREEN: Target = Target {
    name: "screen",
    promise: "what stands there does not depend on how the bytes are cut, and is bounded",
    inputs: 150_000,
    readings: 2,
    corpus: || Corpus::new(recordings(), SEQUENCES).together(2),
    reader: || Box::new(drawn),
};

/// Rows and columns, more of which are not emulated.
const MOST: usize = (1_000 + 300 + 300) * 500;

const SEQUENCES: &[&[u8]] = &[
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1b[?47h",
    b"\x1b[?1047l",
    b"\x1b[H",
    b"\x1b[2J",
    b"\x1b[3J",
    b"\x1b[K",
    b"\x1b[65535;65535H",
    b"\x1b[999999999999A",
    b"\x1b[65535L",
    b"\x1b[65535M",
    b"\x1b[65535@",
    b"\x1b[65535P",
    b"\x1b[65535S",
    b"\x1b[65535T",
    b"\x1b[65535X",
    b"\x1b[65535b",
    b"\x1b[1;65535r",
    b"\x1b[9;2r",
    b"\x1b7",
    b"\x1b8",
    b"\x1bc",
    b"\x1bM",
    b"\x1bD",
    b"\x1b[?6h",
    b"\x1b[?7l",
    b"\x1b]0;title\x07",
    b"\x1b]52;c;AAAA",
    b"\x1bP",
    b"\x1b[38;2;1;2;3m",
    b"\x1b[38:5:1m",
    b"\x1b[0m",
    b"\x1b[?2026h",
    b"\x1b[?25l",
    b"\x1b[6n",
    b"\x1b[18t",
    b"\r\n",
    b"\t",
    b"\x08",
    b"\x0e",
    b"\x0f",
    "東京".as_bytes(),
    "🎉".as_bytes(),
    "e\u{301}".as_bytes(),
    b"\xe6\x9d",
    b"\xf0\x9f",
    b"Quick safety check:",
];

/// Real screens, whole and in pieces.
fn recordings() -> Vec<Vec<u8>> {
    let entries = fs::read_dir(fixtures().join("terminal")).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "pty")).collect();
    files.sort();
    let whole: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let pieces = whole.iter().flat_map(|text| text.chunks(200).map(<[u8]>::to_vec));
    pieces.collect::<Vec<_>>().into_iter().chain(whole.clone()).collect()
}

fn drawn(bytes: &[u8], random: &mut Random) -> Result<(), String> {
    let (rows, columns) = (random.below(40) as u16, random.below(100) as u16);
    let mut whole = Drawing::new(rows, columns);
    whole.feed(bytes);
    let text = whole.text();
    promise(text.len() <= 8 * MOST, || format!("there are {} bytes", text.len()))?;
    let mut pieces = Drawing::new(rows, columns);
    let cuts = cut(bytes, random);
    // To look at it takes longer than to draw, and only what was looked at was cut there.
    let seldom = 1 + cuts.len() as u64 / 32;
    for piece in cuts {
        pieces.feed(piece);
        if random.below(seldom) == 0 {
            pieces.question();
        }
    }
    // Half characters are replaced, how often is for the emulation to say; and a sequence that is longer
    // than any real one is not waited for.
    if std::str::from_utf8(bytes).is_ok() && longest_sequence(bytes) < 32 {
        let cut = pieces.text();
        promise(text == cut, || format!("cut, it looks different:\n{text:?}\n{cut:?}"))?;
    }
    pieces.resize(random.below(60) as u16, random.below(250) as u16);
    pieces.feed(&bytes[..bytes.len().min(8 << 10)]);
    pieces.resize(random.below(10) as u16, random.below(10) as u16);
    pieces.text();
    Ok(())
}

/// How long the numbers are that a sequence has at the most.
fn longest_sequence(bytes: &[u8]) -> usize {
    let starts = memchr::memmem::find_iter(bytes, b"\x1b[").map(|at| &bytes[at..]);
    let length =
        |sequence: &[u8]| 2 + sequence[2..].iter().take_while(|byte| **byte < 0x40).count();
    starts.map(length).max().unwrap_or(0)
}

/// What a terminal shows of this much output.
pub(super) fn shown(bytes: &[u8]) -> usize {
    let mut screen = Drawing::new(50, 200);
    for chunk in bytes.chunks(32 << 10) {
        screen.feed(chunk);
    }
    screen.text().len()
}
