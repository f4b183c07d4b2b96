//! What a terminal would show of an agent's output, for programs that have no other way to tell us what
//! they say. A real emulation: text that jumps about with the cursor is read where it stands, and a line
//! that is wrapped at the right edge is one line.

use std::num::NonZeroU16;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem, memrchr, memrchr_iter};

/// How many lines are kept that have left the screen at its top.
const SCROLLBACK: usize = 1_000;
/// The largest screen that is emulated; of a larger one, so much.
const MOST_ROWS: u16 = 300;
const MOST_COLUMNS: u16 = 500;
/// Longer than any sequence that leaves the alternate screen.
const LONGEST: usize = 32;
/// How much is collected before it is emulated: of a flood of lines, only the last will be left.
const COLLECTED: usize = 512 << 10;
/// So many lines in a row leave nothing of what was there before.
const ALL_LINES: usize = SCROLLBACK + MOST_ROWS as usize;

/// How much of a title the emulation gets.
const LONGEST_TITLE: usize = 256;

const PRIVATE: &[u8] = b"\x1b[?";
/// Begins a title, or whatever else is told to a terminal and not shown.
const TITLE: &[u8] = b"\x1b]";

/// The emulated terminal of one session. It never holds more than a screen and a bounded scrollback.
pub(super) struct Screen {
    emulation: vt100::Parser,
    /// What has been shown but not emulated yet.
    waiting: Vec<u8>,
    /// What stood on the alternate screen when it was left: a program that cleans up behind itself takes
    /// its last words with it.
    left: String,
    /// The beginning of a character, or of what may be a sequence that leaves the alternate screen.
    held: Vec<u8>,
    /// How much has been seen of a title that has not ended yet.
    title: Option<usize>,
    /// Whether the emulation is surely not in the middle of a sequence.
    is_text_next: bool,
}

impl Screen {
    pub(super) fn new(rows: u16, columns: u16) -> Screen {
        let emulation =
            vt100::Parser::new(within(rows, MOST_ROWS), within(columns, MOST_COLUMNS), SCROLLBACK);
        Screen {
            emulation,
            waiting: Vec::new(),
            left: String::new(),
            held: Vec::new(),
            title: None,
            is_text_next: true,
        }
    }

    pub(super) fn resize(&mut self, rows: u16, columns: u16) {
        self.catch_up();
        self.emulation.set_size(within(rows, MOST_ROWS), within(columns, MOST_COLUMNS));
    }

    /// Shows these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= COLLECTED {
            self.make_room();
        }
    }

    /// What can be seen at this moment.
    pub(super) fn visible(&mut self) -> String {
        self.catch_up();
        self.emulation.screen().contents()
    }

    /// Whether the alternate screen is shown.
    pub(super) fn is_alternate(&mut self) -> bool {
        self.catch_up();
        self.emulation.screen().alternate_screen()
    }

    /// Whether the cursor stands at the beginning of a line.
    pub(super) fn at_line_start(&mut self) -> bool {
        self.catch_up();
        self.emulation.screen().cursor_position().1 == 0
    }

    /// All that was shown, as far as it is kept: the alternate screen when it was left last, what has
    /// left the screen at its top, and what can be seen.
    pub(super) fn text(&mut self) -> String {
        self.catch_up();
        let mut text = self.left.clone();
        if !text.is_empty() {
            text.push('\n');
        }
        let screen = self.emulation.screen_mut();
        let height = usize::from(screen.size().0.get());
        let mut above = screen.scrollback_len();
        while above > 0 {
            screen.set_scrollback(above);
            let lines = above.min(height);
            write_rows(screen, lines, &mut text);
            above -= lines;
        }
        screen.set_scrollback(0);
        write_rows(screen, height, &mut text);
        text.truncate(text.trim_end().len());
        text
    }

    /// Emulates as little as possible of what is waiting: lines that others have pushed out since are
    /// forgotten, and the last ones may be pushed out yet.
    fn make_room(&mut self) {
        let mut bytes = self.take_waiting();
        let lines = end_of_last_jump(&bytes);
        // In the middle of a sequence nobody knows what is text, and without a return in which column.
        let is_text = is_text_next(&bytes[..lines]).unwrap_or(self.is_text_next);
        let returns = |at: &usize| is_text && bytes[..lines + at].ends_with(b"\r");
        let last = memrchr_iter(b'\n', &bytes[lines..]).skip(ALL_LINES).find(returns);
        self.show(&bytes[..if last.is_some() { lines } else { bytes.len() }]);
        bytes.drain(..last.map_or(bytes.len(), |at| lines + at + 1));
        self.waiting = bytes;
    }

    fn catch_up(&mut self) {
        self.make_room();
        let mut bytes = self.take_waiting();
        self.show(&bytes);
        bytes.clear();
        self.waiting = bytes;
    }

    fn take_waiting(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.waiting);
        bytes.splice(..0, self.held.drain(..));
        limit_repetitions(&mut bytes, self.emulation.screen().size().1.get());
        bytes
    }

    fn show(&mut self, mut bytes: &[u8]) {
        self.is_text_next = is_text_next(bytes).unwrap_or(self.is_text_next);
        while let Some(at) = memmem::find(bytes, PRIVATE) {
            let (before, sequence) = bytes.split_at(at);
            self.emulate(before);
            let Some(length) = length_of(sequence) else {
                if sequence.len() <= LONGEST {
                    return self.held.extend_from_slice(sequence);
                }
                return self.emulate(sequence);
            };
            let (sequence, rest) = sequence.split_at(length);
            if leaves_alternate_screen(sequence) && self.emulation.screen().alternate_screen() {
                self.left = self.emulation.screen().contents();
            }
            self.emulate(sequence);
            bytes = rest;
        }
        let held = half_sequence(bytes).or_else(|| half_character(bytes)).unwrap_or(0);
        let (now, later) = bytes.split_at(bytes.len() - held);
        self.emulate(now);
        self.held.extend_from_slice(later);
    }

    /// The emulation gets every byte but most of a long title: it would keep all of one, and one that
    /// is never ended takes in whatever is printed afterwards.
    fn emulate(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = match self.title {
                Some(_) => bytes.iter().position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b)),
                None => memmem::find(bytes, TITLE).map(|at| at + TITLE.len()),
            };
            let (now, later) = bytes.split_at(end.unwrap_or(bytes.len()));
            let room = self.title.map_or(now.len(), |seen| LONGEST_TITLE.saturating_sub(seen));
            self.emulation.process(&now[..now.len().min(room)]);
            self.title = match (self.title, end) {
                (None, Some(_)) => Some(0),
                (Some(seen), None) => Some(seen + now.len()),
                (Some(_), Some(_)) | (None, None) => None,
            };
            bytes = later;
        }
    }
}

fn within(size: u16, most: u16) -> NonZeroU16 {
    NonZeroU16::new(size.min(most)).unwrap_or(NonZeroU16::MIN)
}

/// Where the lines begin that do nothing but follow each other: no jumps of the cursor, no modes, only
/// text and its colours.
fn end_of_last_jump(bytes: &[u8]) -> usize {
    let jumps = |at: usize| match bytes[at] {
        b'\n' | b'\r' | b'\t' | 0x07 | 0x20.. => false,
        0x1b => !is_colour(&bytes[at..]),
        _ => true,
    };
    let Some(jump) = (0..bytes.len()).rev().find(|&at| jumps(at)) else { return 0 };
    memchr(b'\n', &bytes[jump..]).map_or(bytes.len(), |end| jump + end + 1)
}

fn is_colour(sequence: &[u8]) -> bool {
    let Some(rest) = sequence.strip_prefix(b"\x1b[") else { return false };
    rest.iter().find(|byte| !(b'0'..=b';').contains(byte)) == Some(&b'm')
}

/// How long the sequence is that these bytes begin with; none if its end is missing.
fn length_of(bytes: &[u8]) -> Option<usize> {
    let end = bytes[PRIVATE.len()..].iter().position(|byte| !(0x20..0x40).contains(byte))?;
    // Where another begins, it is over.
    let last = usize::from(bytes[PRIVATE.len() + end] != 0x1b);
    Some(PRIVATE.len() + end + last)
}

/// Whether the last sequence in these bytes is whole, so that what stands behind them is text; none if
/// there is no sequence in them.
fn is_text_next(bytes: &[u8]) -> Option<bool> {
    let sequence = &bytes[memrchr(0x1b, bytes)? + 1..];
    let ends = |body: &[u8], inside: Range<u8>, last: Range<u8>| {
        body.iter().find(|byte| !inside.contains(byte)).is_some_and(|byte| last.contains(byte))
    };
    Some(match sequence {
        [b'[', body @ ..] => ends(body, 0x20..0x40, 0x40..0x7f),
        [b']', title @ ..] => title.contains(&0x07),
        [b'P' | b'X' | b'^' | b'_', ..] => false,
        _ => ends(sequence, 0x20..0x30, 0x30..0x7f),
    })
}

/// How many bytes at the end are the beginning of a sequence with numbers. What it does is not known yet.
fn half_sequence(bytes: &[u8]) -> Option<usize> {
    let (_, near) = bytes.split_at(bytes.len().saturating_sub(LONGEST));
    let sequence = &near[memrchr(0x1b, near)?..];
    let is_half = match sequence {
        [_] => true,
        [_, b'[', numbers @ ..] => numbers.iter().all(|&byte| is_inside(byte)),
        _ => false,
    };
    is_half.then_some(sequence.len())
}

/// Whether a byte may stand inside a sequence, which goes on behind it: numbers, what is between them,
/// and what is obeyed at once.
fn is_inside(byte: u8) -> bool {
    byte < 0x40 && !matches!(byte, 0x18 | 0x1a | 0x1b)
}

/// A character can be repeated 65,535 times in a few bytes; nobody means more than a line of them.
fn limit_repetitions(bytes: &mut Vec<u8>, columns: u16) {
    let count_before = |at: usize| {
        let start = bytes[..at].iter().rposition(|&byte| !is_inside(byte))?;
        let digits = bytes[..=start].ends_with(b"\x1b[").then(|| &bytes[start + 1..at])?;
        let number =
            digits.iter().filter(|byte| byte.is_ascii_digit()).fold(0_u32, |number, digit| {
                number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
            });
        (number > u32::from(columns)).then_some(start + 1..at)
    };
    let excessive: Vec<Range<usize>> = memchr_iter(b'b', bytes).filter_map(count_before).collect();
    if excessive.is_empty() {
        return;
    }
    let mut limited = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for Range { start, end } in excessive {
        limited.extend_from_slice(&bytes[from..start]);
        limited.extend_from_slice(columns.to_string().as_bytes());
        from = end;
    }
    limited.extend_from_slice(&bytes[from..]);
    *bytes = limited;
}

/// How many bytes at the end are the beginning of a character. The emulation must not get it in pieces:
/// it can lose what stands behind it.
fn half_character(bytes: &[u8]) -> Option<usize> {
    let behind = bytes.iter().rev().take(3).position(|byte| byte & 0xc0 != 0x80)?;
    let whole = bytes[bytes.len() - 1 - behind].leading_ones() as usize;
    (whole > behind + 1).then_some(behind + 1)
}

fn leaves_alternate_screen(sequence: &[u8]) -> bool {
    let Some((b'l', modes)) = sequence[PRIVATE.len()..].split_last() else { return false };
    modes.split(|&byte| byte == b';').any(|mode| matches!(mode, b"47" | b"1047" | b"1049"))
}

/// Writes so many rows from the top of what is in view; rows that are wrapped are one line.
fn write_rows(screen: &vt100::Screen, count: usize, text: &mut String) {
    let columns = screen.size().1.get();
    for (row, line) in (0..).zip(screen.rows(0, columns).take(count)) {
        text.push_str(&line);
        if !screen.row_wrapped(row) {
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(rows: u16, columns: u16, bytes: &[u8]) -> String {
        let mut screen = Screen::new(rows, columns);
        screen.feed(bytes);
        screen.text()
    }

    #[test]
    fn colours_and_jumps_of_the_cursor_leave_plain_text() {
        let text = "\x1b[1;36m  Thinking...\x1b[0m\r\x1b[2K\x1b[32mAll\x1b[1Cdone.\x1b[0m\x1b[5G\
                    \x1b[90m<event topic=\"build.done\">\x1b[0m\r\n\x1b[33mLOOP_COMPLETE\x1b[0m\r\n";
        assert_eq!(
            shown(24, 80, text.as_bytes()),
            "All <event topic=\"build.done\">\nLOOP_COMPLETE"
        );
    }

    #[test]
    fn a_line_that_is_wrapped_is_one_line() {
        let sigil = "<task-done>t-abc123</task-done>";
        assert_eq!(
            shown(5, 12, format!("I am done: {sigil}\r\nbye").as_bytes()),
            format!("I am done: {sigil}\nbye")
        );
    }

    #[test]
    fn what_has_scrolled_off_is_kept_up_to_a_bound() {
        let lines: String = (0..500).map(|line| format!("line {line} wraps here\r\n")).collect();
        let text = shown(4, 9, lines.as_bytes());
        let expected: Vec<String> =
            (0..500).map(|line| format!("line {line} wraps here")).collect();
        let kept: Vec<&str> = text.lines().collect();
        assert!(kept.len() > 300, "{}", kept.len());
        // The first may be cut.
        assert_eq!(kept[1..], expected[500 - kept.len() + 1..]);
    }

    #[test]
    fn the_last_words_on_the_alternate_screen_are_kept_wherever_it_is_cut() {
        let bytes =
            b"before\r\n\x1b[?1049h\x1b[H\x1b[2Jworking\x1b[Hall done\x1b[?25h\x1b[?1049lafter";
        for cut in 0..bytes.len() {
            let mut screen = Screen::new(5, 40);
            screen.feed(&bytes[..cut]);
            screen.catch_up();
            screen.feed(&bytes[cut..]);
            assert_eq!(screen.text(), "all done\nbefore\nafter", "{cut}");
        }
    }

    #[test]
    fn the_real_thing_is_read_where_it_stands() {
        let capture = |name: &str| {
            let path = format!("{}/tests/fixtures/terminal/{name}", env!("CARGO_MANIFEST_DIR"));
            shown(24, 80, &std::fs::read(path).unwrap())
        };
        let text = capture("tui.pty");
        assert!(text.contains("● All done. LOOP_COMPLETE <task-done>t-abc</task-done>"), "{text}");
        let text = capture("tui_noalt.pty");
        assert!(text.contains("paragraph 0 with some words"), "{text}");
        assert!(text.contains("paragraph 39 with some words"), "{text}");
    }

    #[test]
    fn lines_that_pass_are_not_emulated_and_not_missed() {
        let line = |number: usize| format!("\x1b[32mline\x1b[0m {number} wraps here\r\n");
        let many: String = (0..5_000).map(line).collect();
        let beginnings =
            ["", "\x1b[2;4r", "\x1b[?1049h", "\x1b[3;3H\x1b[1;31m", "half a", "\x1bPq"];
        for beginning in beginnings {
            let bytes = [beginning, &many, "the end"].concat();
            let mut at_once = Screen::new(5, 12);
            at_once.feed(bytes.as_bytes());
            at_once.make_room();
            let waiting = at_once.waiting.len();
            assert!((1..bytes.len() / 2).contains(&waiting), "{beginning:?}: {waiting}");
            let mut line_by_line = Screen::new(5, 12);
            for line in bytes.split_inclusive('\n') {
                line_by_line.feed(line.as_bytes());
                line_by_line.catch_up();
            }
            assert_eq!(at_once.text(), line_by_line.text(), "{beginning:?}");
        }
    }

    #[test]
    fn memory_is_bounded_however_long_it_runs() {
        let mut screen = Screen::new(24, 80);
        for _ in 0..200 {
            screen.feed("all work and no play\r\n".repeat(1_000).as_bytes());
            screen.feed("\x1b[?".as_bytes());
            screen.feed("1;".repeat(50).as_bytes());
        }
        assert_eq!(screen.emulation.screen().scrollback_len(), SCROLLBACK);
        assert!(screen.waiting.capacity() <= 4 * COLLECTED);
        assert!(screen.text().len() < 100_000);
        assert!(screen.held.len() <= LONGEST);
    }

    #[test]
    fn lines_are_forgotten_only_where_it_is_known_what_the_rest_is() {
        let lines = "line\r\n".repeat(3 * ALL_LINES);
        let steps = "step\n".repeat(3 * ALL_LINES);
        for bytes in [
            format!("{steps}the end"),
            format!("\x1b[3{lines}8m the end"),
            format!("\x1b{lines}[31mthe end"),
            format!("\x1b]0;{lines}\x07the end"),
            format!("\x1b]0;{lines}\x1b[0mthe end"),
            format!("\x1bP{lines}\x1b\\the end"),
        ] {
            let mut by_pieces = Screen::new(5, 12);
            for piece in bytes.as_bytes().chunks(100) {
                by_pieces.feed(piece);
                by_pieces.catch_up();
            }
            let shown = shown(5, 12, bytes.as_bytes());
            assert_eq!(shown.lines().last(), by_pieces.text().lines().last(), "{:?}", &bytes[..5]);
        }
    }

    #[test]
    fn a_character_is_repeated_as_often_as_there_is_room_and_no_more() {
        for (bytes, expected) in [
            ("x\x1b[3b", "xxxx"),
            ("x\x1b[65535b", "xxxxxxxxxxxxx"),
            ("x\x1b[99999999999999999999b!", "xxxxxxxxxxxxx!"),
            ("x\x1b[0000000002b", "xxx"),
            ("x\x1b[?\x1b[65535b!", "xxxxxxxxxxxxx!"),
            ("x\x1b[17\x07b!", "xxxxxxxxxxxxx!"),
            ("x\x1b[\x1817b", "x17b"),
            ("99b\x1b[99Bb", "99b\n\n\n\n   b"),
        ] {
            assert_eq!(shown(5, 12, bytes.as_bytes()), expected, "{bytes:?}");
            let mut by_bytes = Screen::new(5, 12);
            for byte in bytes.bytes() {
                by_bytes.feed(&[byte]);
                by_bytes.catch_up();
            }
            assert_eq!(by_bytes.text(), expected, "{bytes:?}");
        }
        let flood = "x\x1b[65535b".repeat(100_000);
        assert!(shown(5, 12, flood.as_bytes()).contains('x'), "within a moment");
    }

    #[test]
    fn a_title_ends_where_it_ends_however_long_it_is() {
        for length in [0, 1, LONGEST_TITLE, 10_000] {
            for end in ["\x07", "\x1b\\", "\x18", "\x1b]2;two\x07", "\x1b[0m"] {
                let title = format!("a\x1b]0;{}{end}b", "x".repeat(length));
                assert_eq!(shown(5, 12, title.as_bytes()), "ab", "{length} {end:?}");
                let mut by_bytes = Screen::new(5, 12);
                for byte in title.bytes() {
                    by_bytes.feed(&[byte]);
                    by_bytes.catch_up();
                }
                assert_eq!(by_bytes.text(), "ab", "{length} {end:?}");
            }
        }
    }

    #[test]
    fn a_title_without_end_takes_no_memory() {
        let mut screen = Screen::new(5, 12);
        screen.feed(b"\x1b]0;");
        for _ in 0..20 {
            screen.feed(&[b'x'; 1 << 20]);
        }
        screen.catch_up();
        assert_eq!(screen.title, Some(2 + (20 << 20)));
        screen.feed(b"\x07seen");
        assert_eq!(screen.text(), "seen");
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let sequence =
            "\x1b[\\[\\]()#P_^78=>cDEHM]?[?>=<]?[0-9;:]{0,8}[@-~]".prop_map(String::into_bytes);
        let text = "[a-z東京é\r\n\t\u{8} ]{0,20}".prop_map(String::into_bytes);
        prop::collection::vec(prop_oneof![sequence, text], 0..40).prop_map(|it| it.concat())
    }

    fn anything() -> impl Strategy<Value = Vec<u8>> {
        let bytes = prop::collection::vec(any::<u8>(), 0..20);
        prop::collection::vec(prop_oneof![text(), bytes], 0..10).prop_map(|it| it.concat())
    }

    proptest! {
        #[test]
        fn nothing_an_agent_prints_is_an_error(
            output in prop::collection::vec((anything(), 0..70u16, 0..40u16), 1..5)
        ) {
            let mut screen = Screen::new(5, 10);
            for (bytes, columns, rows) in output {
                screen.feed(&bytes);
                screen.resize(rows, columns);
            }
            screen.text();
        }

        #[test]
        fn it_looks_the_same_however_the_bytes_are_cut(
            bytes in text(),
            cuts in prop::collection::vec(1..9usize, 0..40),
        ) {
            let mut screen = Screen::new(6, 20);
            let mut rest = &bytes[..];
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                screen.feed(now);
                screen.catch_up();
                rest = later;
            }
            screen.feed(rest);
            prop_assert_eq!(screen.text(), shown(6, 20, &bytes));
        }
    }
}
