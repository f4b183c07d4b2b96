//! Whether a program printed what a document shows, but for what is another each time: ids, times, costs
//! and commits. An id stands for the same thing throughout a story.

use ralph::dag::{AttemptId, FeatureId, RunId, TaskId};

/// A line of a document that stands for any number of lines.
const ANYTHING: &str = "…";
/// `t-3f9a01`, in bytes.
const ID: usize = 8;
const UNITS: &[&str] = &["ms", "s", "min", "h", "days", "day"];

/// Which id of a document stands for which real one.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    /// A command of the document with the real ids in it.
    pub(super) fn translate(&self, command: &str) -> String {
        let mut text = String::new();
        for piece in pieces(command) {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Other { written, .. } => text.push_str(written),
                Piece::Id { separator, id } => {
                    let real = self.0.iter().find(|(shown, _)| *shown == id);
                    let real = real.map_or(&id, |(_, real)| real);
                    text.push_str(&real.replace('-', separator));
                }
            }
        }
        text
    }

    /// Whether the ids can stand for each other, as they do from now on.
    fn agree(&mut self, shown: &str, real: &str) -> bool {
        let known = self.0.iter().find(|(a, b)| a == shown || b == real);
        match known {
            Some((a, b)) => a == shown && b == real,
            None => {
                self.0.push((shown.to_owned(), real.to_owned()));
                true
            }
        }
    }
}

/// Whether these lines show what was printed; what the ids stand for is kept if they do.
pub(super) fn matches(shown: &[String], printed: &str, names: &mut Names) -> bool {
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    match lines_match(trim(&shown), trim(&printed), names) {
        Some(found) => {
            *names = found;
            true
        }
        None => false,
    }
}

/// Without the empty lines at both ends.
fn trim<'a, 'b>(mut lines: &'a [&'b str]) -> &'a [&'b str] {
    while let [first, rest @ ..] = lines
        && first.is_empty()
    {
        lines = rest;
    }
    while let [rest @ .., last] = lines
        && last.is_empty()
    {
        lines = rest;
    }
    lines
}

fn lines_match(shown: &[&str], printed: &[&str], names: &Names) -> Option<Names> {
    let Some((first, rest)) = shown.split_first() else {
        return printed.is_empty().then(|| names.clone());
    };
    if first.trim() == ANYTHING {
        return (0..=printed.len()).find_map(|skip| lines_match(rest, &printed[skip..], names));
    }
    let (line, others) = printed.split_first()?;
    let mut names = names.clone();
    if !line_matches(first, line, &mut names) {
        return None;
    }
    lines_match(rest, others, &names)
}

fn line_matches(shown: &str, printed: &str, names: &mut Names) -> bool {
    let (shown, printed) = (pieces(shown), pieces(printed));
    shown.len() == printed.len()
        && shown.iter().zip(&printed).all(|pair| match pair {
            (Piece::Text(a), Piece::Text(b)) => a == b,
            (Piece::Other { kind: a, .. }, Piece::Other { kind: b, .. }) => a == b,
            (Piece::Id { id: a, .. }, Piece::Id { id: b, .. }) => {
                a[..2] == b[..2] && names.agree(a, b)
            }
            _ => false,
        })
}

/// A part of a line.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// An id, with a dash, and what stands there instead of that.
    Id {
        separator: &'a str,
        id: String,
    },
    /// What is another each time, and of what kind.
    Other {
        kind: Kind,
        written: &'a str,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Moment,
    Duration,
    Cost,
    Commit,
}

fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut text, mut at) = (0, 0);
    while at < line.len() {
        let before = line[..at].chars().next_back();
        let found = (!before.is_some_and(char::is_alphanumeric)).then(|| piece(&line[at..]));
        if let Some((piece, length)) = found.flatten() {
            if text < at {
                pieces.push(Piece::Text(&line[text..at]));
            }
            pieces.push(piece);
            at += length;
            text = at;
        } else {
            at += line[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    if text < line.len() {
        pieces.push(Piece::Text(&line[text..]));
    }
    pieces
}

/// The piece that a text begins with, unless that is ordinary text.
fn piece(text: &str) -> Option<(Piece<'_>, usize)> {
    if let Some(id) = text.get(..ID).and_then(id_in)
        && ends_word(&text[ID..])
    {
        return Some((Piece::Id { separator: &text[1..2], id }, ID));
    }
    let lengths = [
        (Kind::Moment, moment(text)),
        (Kind::Cost, text.strip_prefix('$').and_then(|rest| Some(1 + number(rest)?))),
        (Kind::Duration, duration(text)),
        (Kind::Commit, commit(text)),
    ];
    let (kind, length) = lengths.into_iter().find_map(|(kind, length)| Some((kind, length?)))?;
    Some((Piece::Other { kind, written: &text[..length] }, length))
}

fn ends_word(rest: &str) -> bool {
    !rest.starts_with(char::is_alphanumeric)
}

/// The id that this is, with a dash or, in a picture, without.
fn id_in(text: &str) -> Option<String> {
    let separator = text.get(1..2).filter(|it| ["-", "_"].contains(it))?;
    let id = text.replacen(separator, "-", 1);
    let is_id = id.parse::<TaskId>().is_ok()
        || id.parse::<FeatureId>().is_ok()
        || id.parse::<AttemptId>().is_ok()
        || id.parse::<RunId>().is_ok();
    is_id.then_some(id)
}

/// The length of the moment that a text begins with: a date and a time, either of them, or the digits
/// of both.
fn moment(text: &str) -> Option<usize> {
    const PATTERNS: [&str; 7] = [
        "0000-00-00T00:00:00.000Z",
        "0000-00-00 00:00:00",
        "0000-00-00 00:00",
        "0000-00-00",
        "00:00:00",
        "00:00",
        "00000000000000000",
    ];
    let fits = |pattern: &&str| {
        let long_enough = text.len() >= pattern.len();
        long_enough
            && pattern.bytes().zip(text.bytes()).all(|(wanted, found)| match wanted {
                b'0' => found.is_ascii_digit(),
                other => found == other,
            })
            && ends_word(&text[pattern.len()..])
    };
    PATTERNS.iter().find(|it| fits(it)).map(|pattern| pattern.len())
}

/// The length of a number, perhaps with a fraction.
fn number(text: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = Some(digits(text)).filter(|&it| it > 0)?;
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    Some(if fraction > 0 { whole + 1 + fraction } else { whole })
}

/// The length of a time span such as `84.0 s` or `2 h 5 min`.
fn duration(text: &str) -> Option<usize> {
    let mut length = number(text)?;
    let rest = text[length..].strip_prefix(' ')?;
    let unit =
        UNITS.iter().find(|unit| rest.starts_with(*unit) && ends_word(&rest[unit.len()..]))?;
    length += 1 + unit.len();
    let more = text[length..].strip_prefix(' ').and_then(duration);
    Some(more.map_or(length, |more| length + 1 + more))
}

/// The length of the name of a commit.
fn commit(text: &str) -> Option<usize> {
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let name: Vec<u8> = text.bytes().take_while(is_hex).collect();
    let is_mixed = name.iter().any(u8::is_ascii_digit) && name.iter().any(u8::is_ascii_alphabetic);
    let is_name = is_mixed && (7..=40).contains(&name.len()) && ends_word(&text[name.len()..]);
    is_name.then_some(name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shown: &str, printed: &str, expected: bool) {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        let found = matches(&shown, printed, &mut Names::default());
        assert_eq!(found, expected, "{shown:?} and {printed:?}");
    }

    #[test]
    fn what_is_another_each_time_may_be_another() {
        check("● A  t-t88cet", "● A  t-000000\n", true);
        check("t-t88cet waits for t-2cm22q", "t-000001 waits for t-000002", true);
        check("t_t88cet --> t_2cm22q", "t_000001 --> t_000002", true);
        check("✓ 84.0 s  $0.2100  12 turns", "✓ 0.1 s  $0.0000  12 turns", true);
        check(
            "done in 2 h 5 min at 2026-11-16 02:24:16",
            "done in 3 s at 2027-01-01 00:00:00",
            true,
        );
        check("log 20261117203223300-a-f76135.log", "log 20270101000000000-a-000000.log", true);
        check("at abc1234, 1 file", "at 0000000a, 1 file", true);
    }

    #[test]
    fn everything_else_must_be_the_same() {
        check("● A  t-t88cet", "○ A  t-000000", false);
        check("12 turns", "13 turns", false);
        check("a\nb", "a", false);
        check("a", "a\nb", false);
        check("", "a", false);
        check("t-t88cet", "a-t88cet", false);
        check("3 s", "$3", false);
    }

    #[test]
    fn an_id_stands_for_one_other_id() {
        check("t-aaaaaa t-bbbbbb", "t-000001 t-000001", false);
        check("t-aaaaaa t-aaaaaa", "t-000001 t-000002", false);
        let mut names = Names::default();
        assert!(matches(&["t-aaaaaa".to_owned()], "t-000001", &mut names));
        assert!(!matches(&["t-aaaaaa".to_owned()], "t-000002", &mut names));
        assert_eq!(
            names.translate("show t-aaaaaa t_aaaaaa t-zzzzzz 3 s"),
            "show t-000001 t_000001 t-zzzzzz 3 s"
        );
    }

    #[test]
    fn an_ellipsis_is_any_number_of_lines() {
        for printed in ["a\nz", "a\nb\nz", "a\nb\nz\nz"] {
            check("a\n…\nz", printed, true);
        }
        check("…", "", true);
        check("a\n…", "b\na", false);
        check("…\nt-aaaaaa x\nt-aaaaaa y", "t-000001 x\nt-000001 y", true);
        check("…\nt-aaaaaa x\n…\nt-aaaaaa y", "t-000002 x\nt-000001 x\nt-000001 y", true);
    }

    #[test]
    fn empty_lines_and_blanks_at_the_ends_do_not_count() {
        check("\na\n", "a  \n\n", true);
        check("a\n\nb", "a\nb", false);
    }
}
