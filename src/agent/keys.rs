//! Which keys are ours: Ctrl+C twice within a second stops a session, Ctrl+\ kills it. Everything else
//! is the agent's, byte for byte. The time is handed in, so this is all there is to test.

use std::time::{Duration, Instant};

/// How soon a second Ctrl+C must follow to mean stop.
const WINDOW: Duration = Duration::from_secs(1);
/// How long the beginning of what may be a key of ours waits for its rest.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longer than any key of ours in any spelling.
const LONGEST: usize = 48;

const ESCAPE: u8 = 0x1b;
const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// What to do about what was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    /// This belongs to the agent.
    Forward(&'a [u8]),
    /// So does this, but nobody has typed it: it tells of the mouse, or answers a question.
    Report(&'a [u8]),
    /// The session is to end.
    Stop,
    /// The session is to end at once.
    Kill,
}

/// Reads what is typed, however it is cut.
#[derive(Debug, Default)]
pub(super) struct Keys {
    last_interrupt: Option<Instant>,
    reading: Reading,
    /// The escape sequence that is being read.
    sequence: Vec<u8>,
    /// How much of it the agent has already, because its rest was late.
    passed_on: usize,
    held_since: Option<Instant>,
    /// What goes to the agent next.
    ready: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Reading {
    #[default]
    Plain,
    Escape,
    Control,
    /// Text from the clipboard, whatever it holds; so much of its end has been seen.
    Paste(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reserved {
    Interrupt,
    Quit,
}

impl Keys {
    /// Hands what these bytes mean to `each`, in order.
    pub(super) fn read(&mut self, bytes: &[u8], now: Instant, each: &mut dyn FnMut(Key<'_>)) {
        for &byte in bytes {
            self.take(byte, now, each);
        }
        self.forward(each);
        let holds = self.sequence.len() > self.passed_on;
        self.held_since = holds.then(|| self.held_since.unwrap_or(now));
    }

    /// Until when something is held that may be the beginning of a key of ours.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held_since.map(|since| since + PATIENCE)
    }

    /// Passes on what has been held for long enough.
    pub(super) fn expire(&mut self, now: Instant, each: &mut dyn FnMut(Key<'_>)) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.pass_on_sequence();
            self.held_since = None;
            self.forward(each);
        }
    }

    fn take(&mut self, byte: u8, now: Instant, each: &mut dyn FnMut(Key<'_>)) {
        match (self.reading, byte) {
            (Reading::Paste(seen), _) => self.paste(byte, seen),
            (Reading::Escape, b'[') => {
                self.sequence.push(byte);
                self.reading = Reading::Control;
            }
            // Parameters and what may stand behind them.
            (Reading::Control, 0x20..=0x3f) if self.sequence.len() < LONGEST => {
                self.sequence.push(byte);
            }
            (Reading::Control, 0x40..=0x7e) => {
                self.sequence.push(byte);
                self.finish_sequence(now, each);
            }
            (_, ESCAPE) => {
                self.end_sequence();
                self.sequence.push(byte);
                self.reading = Reading::Escape;
            }
            (_, 0x03) => {
                self.end_sequence();
                self.press(Reserved::Interrupt, &[byte], now, each);
            }
            (_, 0x1c) => {
                self.end_sequence();
                self.press(Reserved::Quit, &[byte], now, each);
            }
            _ => {
                self.end_sequence();
                self.ready.push(byte);
            }
        }
    }

    fn paste(&mut self, byte: u8, seen: usize) {
        self.ready.push(byte);
        self.reading = match seen {
            _ if byte == PASTE_ENDS[seen] && seen + 1 == PASTE_ENDS.len() => Reading::Plain,
            _ if byte == PASTE_ENDS[seen] => Reading::Paste(seen + 1),
            _ => Reading::Paste(usize::from(byte == ESCAPE)),
        };
    }

    fn finish_sequence(&mut self, now: Instant, each: &mut dyn FnMut(Key<'_>)) {
        match reserved(&self.sequence) {
            Some(key) => {
                let rest = self.sequence.split_off(self.passed_on);
                self.end_sequence();
                self.press(key, &rest, now, each);
            }
            None if is_report(&self.sequence) => {
                let rest = self.sequence.split_off(self.passed_on);
                self.end_sequence();
                self.forward(each);
                each(Key::Report(&rest));
            }
            None => {
                let pastes = self.sequence == PASTE_BEGINS;
                self.end_sequence();
                self.reading = if pastes { Reading::Paste(0) } else { Reading::Plain };
            }
        }
    }

    fn press(
        &mut self,
        key: Reserved,
        spelling: &[u8],
        now: Instant,
        each: &mut dyn FnMut(Key<'_>),
    ) {
        let ours = match key {
            Reserved::Quit => Key::Kill,
            Reserved::Interrupt => match self.last_interrupt.replace(now) {
                Some(last) if now - last < WINDOW => Key::Stop,
                _ => return self.ready.extend_from_slice(spelling),
            },
        };
        self.forward(each);
        each(ours);
    }

    /// What was being read is no key of ours.
    fn end_sequence(&mut self) {
        self.pass_on_sequence();
        self.sequence.clear();
        self.passed_on = 0;
        self.reading = Reading::Plain;
    }

    fn pass_on_sequence(&mut self) {
        self.ready.extend_from_slice(&self.sequence[self.passed_on..]);
        self.passed_on = self.sequence.len();
    }

    fn forward(&mut self, each: &mut dyn FnMut(Key<'_>)) {
        if !self.ready.is_empty() {
            each(Key::Forward(&self.ready));
            self.ready.clear();
        }
    }
}

/// Whether a sequence is a report of the terminal: of the mouse, the focus, the window or itself.
fn is_report(sequence: &[u8]) -> bool {
    match &sequence[2..] {
        [b'I' | b'O'] | [b'<'..=b'?', ..] => true,
        [_, .., last] => matches!(last, b'R' | b'n' | b't' | b'y'),
        _ => false,
    }
}

/// The key of ours that a sequence spells, when it is pressed: `ESC [ 99 ; 5 u` with whatever else a
/// keyboard protocol adds, or `ESC [ 27 ; 5 ; 99 ~`.
fn reserved(sequence: &[u8]) -> Option<Reserved> {
    let text = std::str::from_utf8(sequence).ok()?.strip_prefix("\x1b[")?;
    let (text, form) = text.split_at(text.len() - 1);
    let mut parameters = text.split(';');
    let (codes, modifiers) = match form {
        "u" => (parameters.next()?, parameters.next()?),
        "~" if parameters.next()? == "27" => {
            let modifiers = parameters.next()?;
            (parameters.next()?, modifiers)
        }
        _ => return None,
    };
    let (modifiers, event) = modifiers.split_once(':').unwrap_or((modifiers, "1"));
    (is_control(modifiers) && event == "1").then(|| key_of(codes))?
}

/// Whether these modifiers are Control alone. The locks don't count.
fn is_control(modifiers: &str) -> bool {
    const CONTROL: u16 = 4;
    const LOCKS: u16 = 64 | 128;
    let bits = modifiers.parse::<u16>().ok().and_then(|number| number.checked_sub(1));
    bits.is_some_and(|bits| bits & !LOCKS == CONTROL)
}

/// The key by its code; or, on a keyboard with other letters, by the one in its place: `1089::99`.
fn key_of(codes: &str) -> Option<Reserved> {
    let mut codes = codes.split(':');
    let (own, place) = (codes.next(), codes.nth(1));
    [own, place].into_iter().flatten().find_map(|code| match code {
        "99" => Some(Reserved::Interrupt),
        "92" => Some(Reserved::Quit),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What comes of reading these pieces, each so many milliseconds after the one before.
    fn read(pieces: &[(u64, &[u8])]) -> String {
        let mut keys = Keys::default();
        let mut now = Instant::now();
        let mut shown = String::new();
        let mut show = |key: Key<'_>| match key {
            Key::Forward(bytes) | Key::Report(bytes) => {
                shown.push_str(&bytes.escape_ascii().to_string());
            }
            Key::Stop => shown.push_str("<STOP>"),
            Key::Kill => shown.push_str("<KILL>"),
        };
        for &(pause, bytes) in pieces {
            now += Duration::from_millis(pause);
            keys.expire(now, &mut show);
            keys.read(bytes, now, &mut show);
        }
        keys.expire(now + PATIENCE, &mut show);
        shown
    }

    fn check(pieces: &[(u64, &[u8])], expected: &str) {
        assert_eq!(read(pieces), expected, "{pieces:?}");
    }

    #[test]
    fn a_lone_interrupt_is_the_agents_and_two_within_a_second_are_ours() {
        check(&[(0, b"\x03")], r"\x03");
        check(&[(0, b"\x03"), (500, b"\x03")], r"\x03<STOP>");
        check(&[(0, b"\x03\x03")], r"\x03<STOP>");
        check(&[(0, b"\x03"), (1000, b"\x03")], r"\x03\x03");
        check(&[(0, b"\x03"), (2000, b"\x03"), (999, b"\x03")], r"\x03\x03<STOP>");
        check(&[(0, b"\x03"), (400, b"y"), (400, b"\x03")], r"\x03y<STOP>");
        check(&[(0, b"a\x03b"), (10, b"c\x03d")], r"a\x03bc<STOP>d");
    }

    #[test]
    fn every_spelling_of_an_interrupt_is_one() {
        let spellings: [&[u8]; 9] = [
            b"\x03",
            b"\x1b[99;5u",
            b"\x1b[99;5:1u",
            b"\x1b[99:67;5u",
            b"\x1b[1089::99;5u",
            b"\x1b[99;69u",
            b"\x1b[99;197:1;99u",
            b"\x1b[27;5;99~",
            b"\x1b[27;133;99~",
        ];
        for first in spellings {
            for second in spellings {
                let expected = format!("{}<STOP>", first.escape_ascii());
                check(&[(0, first), (100, second)], &expected);
            }
        }
    }

    #[test]
    fn control_backslash_kills_at_once() {
        for spelling in [&b"\x1c"[..], b"\x1b[92;5u", b"\x1b[92;5:1u", b"\x1b[27;5;92~"] {
            check(&[(0, b"a"), (0, spelling), (0, b"b")], "a<KILL>b");
        }
    }

    #[test]
    fn what_only_looks_like_a_key_of_ours_is_the_agents() {
        let others: [&[u8]; 14] = [
            b"\x1b[99;6u",
            b"\x1b[99;3u",
            b"\x1b[99u",
            b"\x1b[99;5:2u",
            b"\x1b[99;5:3u",
            b"\x1b[100;5u",
            b"\x1b[27;6;99~",
            b"\x1b[27;5;99u",
            b"\x1b[99;5~",
            b"\x1b[A",
            b"\x1b[<35;99;5M",
            b"\x1b[?62;99;5c",
            b"\x1b]11;rgb:0000/0000/0000\x07",
            b"c\x1b\x1bOP\xc3\xa9\xff\x00",
        ];
        for other in others {
            let shown = other.escape_ascii().to_string();
            check(&[(0, other), (10, other)], &format!("{shown}{shown}"));
        }
    }

    #[test]
    fn what_nobody_typed_is_told_apart() {
        let check = |bytes: &[u8], reports: usize| {
            let mut count = 0;
            Keys::default().read(bytes, Instant::now(), &mut |key| {
                count += usize::from(matches!(key, Key::Report(_)));
            });
            assert_eq!(count, reports, "{}", bytes.escape_ascii());
        };
        for report in [&b"\x1b[<35;10;5M"[..], b"\x1b[I", b"\x1b[O", b"\x1b[?62;4c", b"\x1b[24;80R"]
        {
            check(report, 1);
        }
        for typed in [&b"a"[..], b"\x1b[A", b"\x1b[3~", b"\x1b[1;5C", b"\x1b[97;5u", b"\x1bOP"] {
            check(typed, 0);
        }
    }

    #[test]
    fn a_paste_is_text_whatever_it_holds() {
        check(
            &[(0, b"\x1b[200~\x03\x03\x1c\x1b[99;5u\x1b[99;5u\x1b[201~")],
            r"\x1b[200~\x03\x03\x1c\x1b[99;5u\x1b[99;5u\x1b[201~",
        );
        check(
            &[(0, b"\x1b[200~\x03\x1b[20\x1b[201~\x03\x03")],
            r"\x1b[200~\x03\x1b[20\x1b[201~\x03<STOP>",
        );
    }

    #[test]
    fn a_paste_is_seen_wherever_it_is_cut_and_however_late_its_rest_comes() {
        let paste = b"\x1b[200~\x03\x03\x1c\x1b[201~\x03\x03";
        let expected = r"\x1b[200~\x03\x03\x1c\x1b[201~\x03<STOP>";
        for cut in 0..paste.len() - 1 {
            for pause in [0, 5, 200] {
                check(&[(0, &paste[..cut]), (pause, &paste[cut..])], expected);
            }
        }
    }

    #[test]
    fn the_beginning_of_a_key_is_held_for_a_moment_only() {
        let mut keys = Keys::default();
        let now = Instant::now();
        let mut got = Vec::new();
        let mut each = |key: Key<'_>| match key {
            Key::Forward(bytes) => got.extend_from_slice(bytes),
            Key::Report(_) | Key::Stop | Key::Kill => unreachable!(),
        };
        keys.read(b"x\x1b", now, &mut each);
        assert_eq!(keys.deadline(), Some(now + PATIENCE));
        keys.expire(now + PATIENCE / 2, &mut each);
        keys.expire(now + PATIENCE, &mut each);
        assert_eq!(keys.deadline(), None);
        keys.read(b"[A", now + PATIENCE, &mut each);
        assert_eq!(got, b"x\x1b[A");
    }

    #[test]
    fn a_key_of_ours_whose_rest_is_late_is_still_one() {
        let pieces: [(u64, &[u8]); 3] = [(0, b"\x03"), (100, b"\x1b[9"), (100, b"9;5u")];
        check(&pieces, r"\x03\x1b[9<STOP>");
    }

    #[test]
    fn a_sequence_without_end_takes_no_memory() {
        let mut keys = Keys::default();
        let mut count = 0;
        let now = Instant::now();
        keys.read(b"\x1b[", now, &mut |_| ());
        for _ in 0..1000 {
            keys.read(&[b'1'; 1000], now, &mut |key| {
                if let Key::Forward(bytes) = key {
                    count += bytes.len();
                }
            });
        }
        assert!(keys.sequence.len() <= LONGEST && count > 999_000);
    }

    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let keys = prop::sample::select(vec![
            b"\x1b".to_vec(),
            b"[".to_vec(),
            b"99;5u".to_vec(),
            b"\x1b[99;5u".to_vec(),
            b"\x1b[200~".to_vec(),
            b"\x1b[201~".to_vec(),
            b"\x1b[27;5;99~".to_vec(),
            b"\x03".to_vec(),
            b"\x1c".to_vec(),
        ]);
        let bytes = prop::collection::vec(any::<u8>(), 0..6);
        prop::collection::vec(prop_oneof![keys, bytes], 0..30)
    }

    /// What is forwarded, and what is ours, in one text.
    fn cut(text: &[u8], cuts: &[usize]) -> (Vec<u8>, usize) {
        let (mut keys, now) = (Keys::default(), Instant::now());
        let (mut forwarded, mut ours) = (Vec::new(), 0);
        let mut each = |key: Key<'_>| match key {
            Key::Forward(bytes) | Key::Report(bytes) => forwarded.extend_from_slice(bytes),
            Key::Stop | Key::Kill => ours += 1,
        };
        let mut rest = text;
        for cut in cuts {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            keys.read(piece, now, &mut each);
            rest = later;
        }
        keys.read(rest, now, &mut each);
        keys.expire(now + PATIENCE, &mut each);
        (forwarded, ours)
    }

    proptest! {
        #[test]
        fn it_means_the_same_however_it_is_cut(
            pieces in pieces(),
            cuts in prop::collection::vec(0..5usize, 0..60),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(cut(&text, &cuts), cut(&text, &[]));
        }

        #[test]
        fn nothing_but_the_keys_of_ours_is_missing(
            pieces in pieces(),
            cuts in prop::collection::vec(0..5usize, 0..60),
        ) {
            let text = pieces.concat();
            let (forwarded, ours) = cut(&text, &cuts);
            if ours == 0 {
                prop_assert_eq!(&forwarded, &text);
            }
            let mut rest = text.iter();
            prop_assert!(forwarded.iter().all(|byte| rest.any(|it| it == byte)), "out of order");
            prop_assert!(text.len() - forwarded.len() <= ours * LONGEST);
        }
    }
}
