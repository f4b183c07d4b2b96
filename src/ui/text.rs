//! Text from elsewhere, made fit for a terminal: nothing that acts on the terminal or hides in the
//! text, and measured, cut and wrapped by the columns it takes.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::dag::one_line;

const JOINER: char = '\u{200d}';
const NON_JOINER: char = '\u{200c}';
/// Nothing is wrapped more narrowly, so that an indented wide character fits.
const NARROWEST: usize = 4;

/// The text in one line, with everything escaped as in Rust that would act on the terminal, change
/// the order of what is read, or can't be seen.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |_, _| None)
}

/// The same for text of many lines: newlines stay, and tabs become spaces.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b'\n' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    escape(text, |character, next| match (character, next) {
        ('\n', _) => Some("\n"),
        ('\r', Some('\n')) => Some(""),
        ('\t', _) => Some("    "),
        _ => None,
    })
}

/// Text of many lines as one: blanks and newlines become single spaces.
pub(super) fn flat(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&printable(word));
    }
    line
}

/// So many of something, such as `1 task` and `2 tasks`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A number of bytes as a person would say it, such as `812 B` and `1.2 GB`.
pub fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let (mut amount, mut unit) = (bytes as f64, "B");
    for next in units {
        if amount < 999.5 {
            break;
        }
        (amount, unit) = (amount / 1000.0, next);
    }
    match unit {
        "B" => format!("{bytes} B"),
        unit if amount < 9.95 => format!("{amount:.1} {unit}"),
        unit => format!("{amount:.0} {unit}"),
    }
}

/// The line of a reason that tells most.
pub fn headline(reason: &str) -> String {
    flat(&one_line(reason))
}

/// How many columns the text takes.
pub fn width(text: &str) -> usize {
    if is_plain(text) { text.len() } else { text.width() }
}

/// As much of the text as fits in `max` columns, ending in `…` if that is not all.
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if width(text) <= max {
        return Cow::Borrowed(text);
    }
    let Some(room) = max.checked_sub(1) else { return Cow::Borrowed("") };
    let (head, _) = split(text, room);
    Cow::Owned(format!("{}…", head.trim_end()))
}

/// The text, filled up with spaces to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{:1$}", "", columns.saturating_sub(width(text)))
}

/// The lines of the text, each broken between words into as many as needed to fit in `columns`.
/// What follows a break is indented like the line it belongs to.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    text.lines().flat_map(|line| wrap_line(line.trim_end(), columns.max(NARROWEST))).collect()
}

fn wrap_line(line: &str, columns: usize) -> Vec<String> {
    if width(line) <= columns {
        return vec![line.to_owned()];
    }
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let indent = " ".repeat(spaces.min(columns / 2));
    let mut lines = Vec::new();
    let mut current = indent.clone();
    for mut word in line.split(' ').filter(|word| !word.is_empty()) {
        if current != indent && width(&current) + 1 + width(word) > columns {
            lines.push(std::mem::replace(&mut current, indent.clone()));
        }
        if current != indent {
            current.push(' ');
        }
        loop {
            let (head, tail) = split(word, columns - width(&current));
            // A character that is wider than the line is left alone.
            if tail.is_empty() || head.is_empty() {
                break;
            }
            lines.push(format!("{current}{head}"));
            current.clone_from(&indent);
            word = tail;
        }
        current.push_str(word);
    }
    lines.push(current);
    lines
}

/// Splits off as many whole clusters as fit in `columns`.
pub(super) fn split(text: &str, columns: usize) -> (&str, &str) {
    // What comes right behind decides whether the last character is whole; nothing further does.
    let seen = text.len().min(columns.saturating_add(1));
    if text.as_bytes()[..seen].iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.split_at(text.len().min(columns));
    }
    let (mut end, mut used) = (0, 0);
    for cluster in clusters(text) {
        used += width(cluster);
        if used > columns {
            break;
        }
        end += cluster.len();
    }
    text.split_at(end)
}

/// What a terminal shows as one character each: a base with all that is drawn onto it, the parts
/// of a joined emoji, the two letters of a flag.
pub(super) fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut characters = rest.char_indices();
        let (_, mut previous) = characters.next()?;
        let (mut is_flag, mut base) = (false, 0);
        let end = characters.find_map(|(at, character)| {
            let is_pair = is_regional(previous) && is_regional(character) && !is_flag;
            is_flag |= is_pair;
            let is_drawn_onto = character.width() == Some(0);
            let is_part = previous == JOINER && is_pictorial(character) || is_skin_tone(character);
            // Not everything can have a part: a letter stays a letter, and the emoji stands beside it.
            let fits = || rest[base..at + character.len_utf8()].width() <= 2;
            let joins = is_drawn_onto || is_pair || (is_part && fits());
            if !is_drawn_onto {
                base = at;
            }
            previous = character;
            (!joins).then_some(at)
        });
        let (cluster, tail) = rest.split_at(end.unwrap_or(rest.len()));
        rest = tail;
        Some(cluster)
    })
}

fn is_regional(character: char) -> bool {
    matches!(character, '\u{1f1e6}'..='\u{1f1ff}')
}

fn is_skin_tone(character: char) -> bool {
    matches!(character, '\u{1f3fb}'..='\u{1f3ff}')
}

fn is_pictorial(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn escape(
    text: &str,
    allowed: impl Fn(char, Option<char>) -> Option<&'static str>,
) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut previous = None;
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        if let Some(instead) = allowed(character, next) {
            escaped.push_str(instead);
        } else if !deceives(character) || joins(previous, character, next) {
            escaped.push(character);
        } else if matches!(character, '\n' | '\r' | '\t') {
            write!(escaped, "{}", character.escape_default()).expect("a string takes all");
        } else {
            write!(escaped, "{}", character.escape_unicode()).expect("a string takes all");
        }
        previous = Some(character);
    }
    Cow::Owned(escaped)
}

/// Whether this is a joiner at work: in an emoji, or inside a word of a script that needs it.
fn joins(previous: Option<char>, character: char, next: Option<char>) -> bool {
    let is_joined = |neighbour: Option<char>| {
        neighbour.is_some_and(|neighbour| !neighbour.is_ascii() && !deceives(neighbour))
    };
    matches!(character, JOINER | NON_JOINER) && is_joined(previous) && is_joined(next)
}

/// Whether the character acts on the terminal or the order of reading, or is there unseen.
fn deceives(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_have_two_digits_or_three() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9_949, "9.9 kB"),
            (9_951, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (1_234_000_000, "1.2 GB"),
            (5_000_000_000_000_000, "5000 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn what_acts_on_a_terminal_or_hides_is_escaped() {
        fn check(text: &str, expected: &str) {
            assert_eq!(printable(text), expected);
        }
        check("plain", "plain");
        check("größer 東京 e\u{301}", "größer 東京 e\u{301}");
        check("\x1b[31mred\x07\x7f\u{9b}", r"\u{1b}[31mred\u{7}\u{7f}\u{9b}");
        check("a\nb\tc\rd", r"a\nb\tc\rd");
        check("txt.\u{202e}exe", r"txt.\u{202e}exe");
        check("\u{2066}a\u{2069}", r"\u{2066}a\u{2069}");
        check("ad\u{200b}min\u{ad}\u{feff}", r"ad\u{200b}min\u{ad}\u{feff}");
        check("\u{e0041}", r"\u{e0041}");
    }

    #[test]
    fn a_joiner_stays_where_it_joins() {
        for kept in ["👩‍👩‍👧‍👦", "🏳️‍🌈", "می‌خواهم", "🇩🇪", "👍🏽", "❤️"]
        {
            assert_eq!(printable(kept), kept);
        }
        assert_eq!(printable("ad\u{200d}min"), r"ad\u{200d}min");
        assert_eq!(printable("\u{200d}é"), r"\u{200d}é");
        assert_eq!(printable("é\u{200d}\u{200d}é"), r"é\u{200d}\u{200d}é");
    }

    #[test]
    fn many_lines_keep_their_newlines_and_get_spaces_for_tabs() {
        assert_eq!(printable_lines("a\r\n\tb\x1bc\rd"), "a\n    b\\u{1b}c\\rd");
        assert_eq!(flat(" a\r\n\tb  c\n"), "a b c");
    }

    #[test]
    fn things_are_counted_as_a_person_would() {
        let tasks = |count| counted(count, "task", "tasks");
        assert_eq!([tasks(0), tasks(1), tasks(2)], ["0 tasks", "1 task", "2 tasks"]);
    }

    #[test]
    fn a_cut_falls_between_what_is_seen_as_characters() {
        #[track_caller]
        fn check(text: &str, max: usize, expected: &str) {
            assert_eq!(cut(text, max), expected);
        }
        check("short", 5, "short");
        check("shorter", 5, "shor…");
        check("a b c d", 4, "a b…");
        check("x", 0, "");
        check("xy", 1, "…");
        check("東京都", 6, "東京都");
        check("東京都", 5, "東京…");
        check("東京都", 4, "東…");
        check("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…");
        check("👩‍👩‍👧‍👦 family", 4, "👩‍👩‍👧‍👦…");
        check("👩‍👩‍👧‍👦 family", 2, "…");
        check("🇩🇪🇫🇷🇮🇹", 5, "🇩🇪🇫🇷…");
        check("🇩🇪🇫🇷🇮🇹", 4, "🇩🇪…");
        check("👍🏽👍🏽", 3, "👍🏽…");
    }

    #[test]
    fn padding_counts_columns() {
        assert_eq!(pad("東", 4), "東  ");
        assert_eq!(pad("long", 2), "long");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        #[track_caller]
        fn check(text: &str, columns: usize, expected: &[&str]) {
            assert_eq!(wrap(text, columns), expected);
        }
        check("one two three", 20, &["one two three"]);
        check("one two three", 8, &["one two", "three"]);
        check("one\n\ntwo", 8, &["one", "", "two"]);
        check("  - one two three", 11, &["  - one two", "  three"]);
        check("abcdefghij", 4, &["abcd", "efgh", "ij"]);
        check("ab cdefghij", 4, &["ab", "cdef", "ghij"]);
        check("東京都 東京", 5, &["東京", "都", "東京"]);
        check("      東京 東京", 4, &["  東", "  京", "  東", "  京"]);
        check("  a🏽", 4, &["  a", "  🏽"]);
        check("  \u{fffd}\u{200d}👩\u{200d}👧", 4, &["  \u{fffd}\u{200d}", "  👩\u{200d}👧"]);
        check("  👍🏽👍🏽", 4, &["  👍🏽", "  👍🏽"]);
        check("", 5, &[]);
    }

    fn awkward() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "\\PC{0,8}",
            any::<String>(),
            "[a-z ]{0,12}",
            Just("👩‍👩‍👧‍👦".to_owned()),
            Just("🇩🇪🇫".to_owned()),
            Just("e\u{301}\u{302}".to_owned()),
            Just("\u{200d}\u{fe0f}".to_owned()),
        ];
        prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn nothing_deceives_and_once_is_enough(text in awkward()) {
            let once = printable(&text);
            prop_assert_eq!(printable(&once), once.as_ref());
            prop_assert!(!once.contains(char::is_control));
        }

        #[test]
        fn what_is_cut_or_wrapped_fits(text in awkward(), columns in NARROWEST..40) {
            let text = printable(&text);
            prop_assert!(width(&cut(&text, columns)) <= columns);
            for line in wrap(&text, columns) {
                prop_assert!(width(&line) <= columns, "{line:?}");
            }
        }

        #[test]
        fn wrapping_loses_nothing_but_blanks(text in awkward(), columns in NARROWEST..40) {
            let text = printable(&text).into_owned();
            let kept: String = wrap(&text, columns).concat();
            prop_assert_eq!(kept.replace(' ', ""), text.trim_end().replace(' ', ""));
        }
    }
}
