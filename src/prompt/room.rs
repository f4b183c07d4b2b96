//! How much a model can read. Texts are measured in tokens, roughly; what does not fit is cut, and the cut
//! says where the rest is.

use super::document::fenced;

/// How many tokens a session is told at the most. The smallest model reads 200,000, of which Claude Code itself
/// takes some 25,000.
pub const ROOM: usize = 120_000;
/// How many tokens are left of a part that gives way.
const STUB: usize = 125;
/// How many tokens the remark about a cut takes.
const REMARK: usize = 50;

/// About how many tokens a text has, rather too many than too few: four ASCII characters are one token, and so
/// is one character of any other script.
pub fn tokens(text: &str) -> usize {
    text.chars().map(quarters).sum::<usize>().div_ceil(4)
}

fn quarters(c: char) -> usize {
    match c {
        '\0'..='\u{7f}' => 1,
        // Latin letters with marks.
        '\u{80}'..='\u{24f}' => 2,
        '\u{250}'..='\u{ffff}' => 4,
        _ => 8,
    }
}

/// A part of a prompt. The higher its weight, the later it gives way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// How important it is.
    pub weight: u8,
    /// Its heading.
    pub heading: String,
    /// What it says.
    pub text: String,
    /// It is a document: it stands between fences, marked with this language.
    pub fence: Option<&'static str>,
    /// Where all of it can be read.
    pub source: String,
}

impl Part {
    fn render(&self) -> String {
        let text = match self.fence {
            Some(language) => fenced(&self.text, language),
            None => closed(self.text.trim_end()),
        };
        format!("# {}\n\n{text}", self.heading)
    }

    /// The part with so many tokens of its text.
    fn cut(&self, room: usize) -> String {
        let (kept, all) = (first(&self.text, room), self.text.chars().count());
        let characters = kept.chars().count();
        let short = Part { text: kept.to_owned(), ..self.clone() };
        let remark = format!("[Cut here: {characters} of {all} characters; {}]", self.source);
        format!("{}\n\n{remark}", short.render())
    }
}

/// Joins the parts; the lightest are cut until everything fits into so many tokens.
pub fn fit(parts: &[Part], room: usize) -> String {
    let mut texts: Vec<String> = parts.iter().map(Part::render).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&index| parts[index].weight);
    for index in order {
        let all: usize = texts.iter().map(|text| tokens(text) + 1).sum();
        if all <= room {
            break;
        }
        let size = tokens(&parts[index].text);
        let keep = size.saturating_sub(all - room + REMARK).max(STUB);
        if keep < size {
            texts[index] = parts[index].cut(keep);
        }
    }
    texts.join("\n\n")
}

/// The beginning of a text that has so many tokens, up to the end of a line where there is one near.
pub fn first(text: &str, room: usize) -> &str {
    let mut left = 4 * room;
    for (at, c) in text.char_indices() {
        match left.checked_sub(quarters(c)) {
            Some(rest) => left = rest,
            None => {
                let kept = &text[..at];
                return match kept.rfind('\n') {
                    Some(end) if end > at / 2 => &kept[..end],
                    _ => kept,
                };
            }
        }
    }
    text
}

/// A text whose code blocks all end, so that what comes after it is not taken for code.
pub fn closed(text: &str) -> String {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(sign) = line.chars().next().filter(|it| matches!(it, '`' | '~')) else { continue };
        let length = line.chars().take_while(|&it| it == sign).count();
        let rest = &line[length..];
        open = match open {
            Some((with, least)) if with == sign && length >= least && rest.trim().is_empty() => {
                None
            }
            None if length >= 3 && !rest.contains('`') => Some((sign, length)),
            other => other,
        };
    }
    match open {
        Some((sign, length)) => {
            let fence: String = std::iter::repeat_n(sign, length).collect();
            format!("{}\n{fence}", text.trim_end_matches('\n'))
        }
        None => text.to_owned(),
    }
}

/// Words that are not ours, with a mark on each line, so that they can't be mistaken for ours.
pub fn quote(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { ">".to_owned() } else { format!("> {line}") };
    text.trim().lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(weight: u8, text: String) -> Part {
        let source = "`spec.md` has the rest".to_owned();
        Part { weight, heading: format!("Part {weight}"), text, fence: None, source }
    }

    #[test]
    fn tokens_are_estimated_for_every_script() {
        for (text, expected) in [
            ("", 0),
            ("word", 1),
            ("words", 2),
            ("größe", 2),
            ("東京", 2),
            ("привет", 6),
            ("🎉", 2),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn the_least_important_gives_way_first_and_visibly() {
        let parts = |size| [9, 1, 4].map(|weight| part(weight, "wörter\n".repeat(size)));
        let text = fit(&parts(1_000), 5_000);
        assert!(tokens(&text) <= 5_000, "{}", tokens(&text));
        assert_eq!(text.matches("[Cut here:").count(), 1);
        assert!(text.contains("characters; `spec.md` has the rest]"), "{text}");
        let text = fit(&parts(1_000), 2_500);
        assert!(tokens(&text) <= 2_500, "{}", tokens(&text));
        assert_eq!(text.matches("[Cut here:").count(), 2);
        assert!(!fit(&parts(10), 1_000).contains("Cut here"));
    }

    #[test]
    fn a_text_in_japanese_is_cut_in_time() {
        let spec = part(4, "仕様書".repeat(65_334));
        let text = fit(&[spec], ROOM);
        assert!(tokens(&text) <= ROOM, "{}", text.chars().count());
        assert!(text.contains("[Cut here: "));
    }

    #[test]
    fn a_cut_leaves_no_fence_open() {
        let code = format!("See:\n```rust\n{}", "let x = 1;\n".repeat(1_000));
        let fenced = Part { fence: Some("markdown"), ..part(4, code.clone()) };
        let text = fit(&[fenced, part(9, "after".to_owned())], 500);
        let (before, after) = text.split_once("[Cut here:").unwrap();
        assert!(before.ends_with("let x = 1;\n````\n\n"), "{text}");
        assert!(after.ends_with("# Part 9\n\nafter"), "{text}");
        let text = fit(&[part(4, code)], 500);
        assert!(text.contains("let x = 1;\n```\n\n[Cut here:"), "{text}");
    }

    #[test]
    fn code_blocks_that_nobody_closed_are_closed() {
        for (text, expected) in [
            ("", ""),
            ("text", "text"),
            ("```\na\n```\nb", "```\na\n```\nb"),
            ("```rust\na", "```rust\na\n```"),
            ("~~~~\n```\n~~~", "~~~~\n```\n~~~\n~~~~"),
            ("````\n```\n````", "````\n```\n````"),
            ("```not a fence``` x", "```not a fence``` x"),
            ("- list\n  ```\n  a\n", "- list\n  ```\n  a\n```"),
        ] {
            assert_eq!(closed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn words_of_others_are_marked_line_by_line() {
        assert_eq!(quote("one\n\n# two\n"), "> one\n>\n> # two");
        assert_eq!(quote(" \n"), "");
    }
}
