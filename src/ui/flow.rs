//! Lays out text that comes in pieces: lines are broken between words, as soon as each word is known.
//! Text never depends on the terminal's own line wrapping, so a status line may be drawn after any piece.

use unicode_width::UnicodeWidthChar;

use super::text::{split, width};

/// Lines inside such fences are code: they are broken only where the terminal itself would do it.
const FENCES: [&str; 2] = ["```", "~~~"];

/// No more bytes of a word than this are held back: marks take no column, and have no end.
const LONGEST: usize = 4096;

/// One text while it is being written.
#[derive(Debug)]
pub(super) struct Flow {
    /// How many columns a line has.
    columns: usize,
    /// How many of them are taken by what the caller writes before each line.
    margin: usize,
    /// How many of them are used.
    column: usize,
    /// How far behind the margin a line goes on after a break.
    indent: usize,
    /// Spaces that are written when a word follows them on the same line.
    gap: usize,
    /// What is not written yet: the beginning of a word, or the character in a line's last column.
    held: String,
    /// How many columns a word takes that is held back, at most.
    held_columns: usize,
    line: Line,
    /// The fence around the lines that are code.
    fence: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Its first word is not known yet.
    Start,
    Prose,
    Code,
}

impl Flow {
    /// A text for lines of so many columns; the caller writes something before each line that takes
    /// `margin` of them.
    pub(super) fn new(columns: usize, margin: usize) -> Flow {
        Flow {
            columns,
            margin,
            column: margin,
            indent: 0,
            gap: 0,
            held: String::new(),
            held_columns: 0,
            line: Line::Start,
            fence: None,
        }
    }

    /// Goes on in lines of so many columns.
    pub(super) fn resize(&mut self, columns: usize) {
        self.columns = columns.max(self.margin + 2);
        self.indent = self.indent.min(self.room() / 2);
        self.column = self.column.min(self.columns);
    }

    /// Takes a piece, and returns what can be written now. The beginning of a word is held back until
    /// the word is complete.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        let mut rest = piece;
        while let Some(character) = rest.chars().next() {
            let words = self.plain_words(rest);
            if !words.is_empty() {
                self.push_words(words, &mut out);
                rest = &rest[words.len()..];
                continue;
            }
            let run = self.plain_run(rest);
            if !run.is_empty() {
                self.push_run(run, &mut out);
                rest = &rest[run.len()..];
                continue;
            }
            rest = &rest[character.len_utf8()..];
            match (character, self.line) {
                ('\n', _) => {
                    self.end_word(&mut out);
                    out.push('\n');
                    (self.column, self.indent, self.gap) = (self.margin, 0, 0);
                    self.line = Line::Start;
                }
                (_, Line::Code) => self.push_code(character, &mut out),
                (' ', _) => {
                    self.end_word(&mut out);
                    match self.line {
                        Line::Code => self.push_code(' ', &mut out),
                        Line::Start | Line::Prose => self.gap += 1,
                    }
                }
                (_, Line::Start | Line::Prose) => self.push_prose(character, &mut out),
            }
        }
        out
    }

    /// What is held back, now that nothing follows.
    pub(super) fn finish(mut self) -> String {
        let mut out = String::new();
        self.end_word(&mut out);
        out
    }

    /// The whole words at the beginning of `text`, and the space behind each, that fit on the line as it
    /// is: nothing among them has to be looked at by itself.
    fn plain_words<'a>(&self, text: &'a str) -> &'a str {
        if self.line != Line::Prose || self.held.ends_with(breaks_anywhere) {
            return "";
        }
        let used = self.column.saturating_add(self.gap).saturating_add(self.held_columns);
        let plain = text.bytes().take(self.columns.saturating_sub(used));
        let plain = plain.take_while(|byte| matches!(byte, b' '..=b'~')).count();
        text[..plain].rfind(' ').map_or("", |space| &text[..=space])
    }

    fn push_words(&mut self, words: &str, out: &mut String) {
        let text = words.trim_end_matches(' ');
        if !self.held.is_empty() || !text.is_empty() {
            out.extend(std::iter::repeat_n(' ', self.gap));
            out.push_str(&self.held);
            out.push_str(text);
            self.column += self.gap + self.held_columns + text.len();
            (self.gap, self.held_columns) = (0, 0);
            self.held.clear();
        }
        self.gap += words.len() - text.len();
    }

    /// The letters at the beginning of `text` that go on with a word of prose, one column each, as many as
    /// a line has room for. It is what most text is made of, and need not be looked at letter by letter.
    fn plain_run<'a>(&self, text: &'a str) -> &'a str {
        if self.line != Line::Prose || self.held.ends_with(breaks_anywhere) {
            return "";
        }
        let most = self.room().saturating_sub(self.held_columns);
        let letters = text.bytes().take(most).take_while(u8::is_ascii_graphic);
        &text[..letters.count()]
    }

    fn push_run(&mut self, run: &str, out: &mut String) {
        self.held.push_str(run);
        self.held_columns += run.len();
        self.end_long_word(out);
    }

    fn push_prose(&mut self, character: char, out: &mut String) {
        let breaks = breaks_anywhere(character) || self.held.ends_with(breaks_anywhere);
        // What is drawn onto a character stays with it.
        if breaks && character.width() != Some(0) {
            self.end_word(out);
        }
        self.held.push(character);
        self.held_columns += character.width().unwrap_or(0);
        if self.line == Line::Start && self.held.chars().count() >= FENCES[0].len() {
            self.begin_line(out);
        }
        if self.line == Line::Prose {
            self.end_long_word(out);
        }
    }

    /// A word that is longer than a line is not waited for, nor one that hardly shows.
    fn end_long_word(&mut self, out: &mut String) {
        if self.held_columns >= self.room() || self.held.len() >= LONGEST {
            self.end_word(out);
        }
    }

    fn push_code(&mut self, character: char, out: &mut String) {
        let wide = character.width().unwrap_or(0);
        if wide > 0 {
            out.push_str(&self.held);
            self.held.clear();
            let end = self.column.saturating_add(wide);
            self.column = if end > self.columns { wide } else { end };
        }
        // Behind a last column the terminal waits for what comes next; so do we.
        if self.column == self.columns {
            self.held.push(character);
        } else {
            out.push(character);
        }
    }

    /// The first word of a line tells what kind of line it is.
    fn begin_line(&mut self, out: &mut String) {
        let fence = FENCES.into_iter().find(|fence| self.held.starts_with(fence));
        let was_inside = self.fence.is_some();
        match (self.fence, fence) {
            (None, Some(_)) => self.fence = fence,
            (Some(open), Some(fence)) if open == fence => self.fence = None,
            (None, None) | (Some(_), _) => {}
        }
        if was_inside || self.fence.is_some() {
            self.line = Line::Code;
            let word = std::mem::take(&mut self.held);
            self.held_columns = 0;
            let spaces = std::mem::take(&mut self.gap);
            let text = std::iter::repeat_n(' ', spaces).chain(word.chars());
            text.for_each(|character| self.push_code(character, out));
        } else {
            self.line = Line::Prose;
            self.indent = self.gap.min(self.room() / 2);
            self.gap = 0;
            self.start_line(out);
        }
    }

    /// How much of a line is left for the text.
    fn room(&self) -> usize {
        self.columns - self.margin
    }

    fn start_line(&mut self, out: &mut String) {
        out.extend(std::iter::repeat_n(' ', self.indent));
        self.column = self.margin + self.indent;
    }

    fn is_at_start(&self) -> bool {
        self.column <= self.margin + self.indent
    }

    fn end_word(&mut self, out: &mut String) {
        if self.line == Line::Start && !self.held.is_empty() {
            self.begin_line(out);
        }
        self.held_columns = 0;
        if self.held.is_empty() || self.line == Line::Code {
            out.push_str(&self.held);
            self.held.clear();
            return;
        }
        let mut held = std::mem::take(&mut self.held);
        let gap = std::mem::take(&mut self.gap);
        let end = self.column.saturating_add(gap).saturating_add(width(&held));
        if end <= self.columns {
            out.extend(std::iter::repeat_n(' ', gap));
            self.column += gap;
        } else if !self.is_at_start() {
            self.break_line(out);
        }
        let mut word = held.as_str();
        loop {
            let (head, tail) = split(word, self.columns - self.column);
            // A character that is wider than the line is left alone.
            if tail.is_empty() || (head.is_empty() && self.is_at_start()) {
                break;
            }
            out.push_str(head);
            self.break_line(out);
            word = tail;
        }
        out.push_str(word);
        self.column = self.column.saturating_add(width(word)).min(self.columns);
        // The next word has the same memory.
        held.clear();
        self.held = held;
    }

    fn break_line(&mut self, out: &mut String) {
        out.push('\n');
        self.start_line(out);
    }
}

/// Whether a line may be broken on either side of this character: these scripts have no spaces.
fn breaks_anywhere(character: char) -> bool {
    matches!(
        character,
        '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}' | '\u{20000}'..='\u{3fffd}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::text::{printable_lines, wrap};
    use super::*;

    /// The text in pieces of so many characters.
    fn flow(text: &str, columns: usize, piece: usize) -> String {
        let mut flow = Flow::new(columns, 0);
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(piece.max(1)).map(|piece| piece.iter().collect::<String>());
        let mut out: String = pieces.map(|piece| flow.push(&piece)).collect();
        out.push_str(&flow.finish());
        out
    }

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &str) {
        for piece in [1, 2, 3, 5, 1000] {
            assert_eq!(flow(text, columns, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_word_that_does_not_fit_goes_to_the_next_line() {
        check("one two three", 20, "one two three");
        check("one two three", 8, "one two\nthree");
        check("one two three", 7, "one two\nthree");
        check("one two", 6, "one\ntwo");
        check("one\n\ntwo\n", 8, "one\n\ntwo\n");
        check("  - one two three", 11, "  - one two\n  three");
        check("one   two", 8, "one\ntwo");
        check("one   two", 9, "one   two");
        check("one  \ntwo", 9, "one\ntwo");
        check("exactly8\nmore", 8, "exactly8\nmore");
        check("exactly8 more", 8, "exactly8\nmore");
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_is_broken() {
        check("abcdefghij", 4, "abcd\nefgh\nij");
        check("ab cdefghij", 4, "ab\ncdef\nghij");
        check("      abcdef", 4, "  ab\n  cd\n  ef");
    }

    #[test]
    fn wide_characters_are_broken_between() {
        check("東京都東京", 5, "東京\n都東\n京");
        check("ab東京", 5, "ab東\n京");
        check("a 東 京", 5, "a 東\n京");
        check("👩‍👩‍👧‍👦 👩‍👩‍👧‍👦", 4, "👩‍👩‍👧‍👦\n👩‍👩‍👧‍👦");
        check("か\u{3099}き", 2, "か\u{3099}\nき");
    }

    #[test]
    fn code_stays_as_it_is() {
        let code = "see:\n```rust\nlet a  =  1; // one two three\n```\none two three";
        check(code, 8, "see:\n```rust\nlet a  =  1; // one two three\n```\none two\nthree");
        check("~~~\n```\n  a b c d e f\n~~~\none two", 6, "~~~\n```\n  a b c d e f\n~~~\none\ntwo");
        check("`a` b c", 5, "`a` b\nc");
    }

    #[test]
    fn a_whole_word_is_not_kept_waiting() {
        let mut flow = Flow::new(80, 0);
        assert_eq!(flow.push("one tw"), "one");
        assert_eq!(flow.push("o "), " two");
        assert_eq!(flow.push("three"), "");
        assert_eq!(flow.push("\n```\nlet x"), " three\n```\nlet x");
        assert_eq!(flow.push("\n~"), "\n");
        assert_eq!(flow.finish(), "~");
    }

    #[test]
    fn a_character_in_the_last_column_of_code_waits_for_the_next() {
        let mut flow = Flow::new(6, 0);
        assert_eq!(flow.push("```\nabcdef"), "```\nabcde");
        assert_eq!(flow.push("g"), "fg");
        assert_eq!(flow.push("hij東"), "hij");
        assert_eq!(flow.push("\u{301}"), "");
        assert_eq!(flow.push("\n"), "東\u{301}\n");
        assert_eq!(flow.push("abcde東"), "abcde東");
        assert_eq!(flow.push("abcd"), "abc");
        assert_eq!(flow.finish(), "d");
    }

    #[test]
    fn what_stands_before_each_line_takes_its_room() {
        let mut flow = Flow::new(10, 2);
        assert_eq!(flow.push("exactly8 one two "), "exactly8\none two");
        assert_eq!(flow.push("\n```\nabcdefgh"), "\n```\nabcdefg");
        // The terminal begins its next row at the very left.
        assert_eq!(flow.push("ijklmnopqr"), "hijklmnopq");
    }

    #[test]
    fn a_text_goes_on_in_the_width_that_the_terminal_has_now() {
        let mut flow = Flow::new(20, 0);
        assert_eq!(flow.push("      one two three "), "      one two three");
        flow.resize(10);
        assert_eq!(flow.push("four five six "), "\n     four\n     five\n     six");
        flow.resize(28);
        assert_eq!(flow.push("seven eight nine ten "), " seven eight nine\n     ten");
        assert_eq!(flow.push("\n```\nabcdefgh"), "\n```\nabcdefgh");
        flow.resize(8);
        assert_eq!(flow.push("ij"), "ij");
        assert_eq!(flow.finish(), "");
    }

    #[test]
    fn marks_without_end_take_no_time() {
        let text = format!("e{}", "\u{301}".repeat(1_000_000));
        let began = std::time::Instant::now();
        for line in ["", "```\n"] {
            assert_eq!(flow(&format!("{line}{text}"), 80, 1000).len(), line.len() + text.len());
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn prose_fits_loses_nothing_but_blanks_and_is_the_same_in_any_pieces(
            text in "([a-z]{1,9}|[ \n]{1,3}|東京|👩‍👩‍👧‍👦|e\u{301}|🇩🇪|\\PC){0,30}",
            columns in 4..30_usize,
            piece in 1..9_usize,
        ) {
            let text = printable_lines(&text).into_owned();
            prop_assume!(!text.contains("```") && !text.contains("~~~"));
            let laid = flow(&text, columns, piece);
            prop_assert_eq!(&laid, &flow(&text, columns, usize::MAX));
            for line in laid.lines() {
                prop_assert!(width(line) <= columns, "{line:?}");
            }
            let bare = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(bare(&laid), bare(&text));
        }

        #[test]
        fn plain_prose_is_laid_out_like_text_that_came_at_once(
            text in "([a-z]{1,9}[ \n]){0,20}",
            columns in 10..30_usize,
        ) {
            let lines = flow(&text, columns, 3);
            prop_assert_eq!(lines.lines().collect::<Vec<_>>(), wrap(&text, columns));
        }
    }
}
