//! What Claude Code does to a message before the model reads it: `@path` pulls in a file, from outside the
//! project too, and `/word` at the beginning is a command. Neither happens in a system prompt.

/// Whether Claude Code would change a message.
pub(super) fn is_expanded(message: &str) -> bool {
    message.trim_start().starts_with('/') || mentions(message).next().is_some()
}

/// The message with a backslash before each `@` that would pull in a file, and a line that says so. A backslash
/// can be seen: an invisible sign would end up in what the model copies.
pub fn defused(message: &str) -> String {
    let mut text = String::with_capacity(message.len() + 100);
    let mut from = 0;
    for at in mentions(message) {
        text.push_str(&message[from..at]);
        text.push('\\');
        from = at;
    }
    text.push_str(&message[from..]);
    if from > 0 || text.len() > message.len() {
        text.push_str("\n\n(Wherever this message has `\\@`, the original text has a plain `@`.)");
    }
    text
}

/// Where the mentions in a message begin. Behind letters, digits and ASCII punctuation an `@` is none.
fn mentions(message: &str) -> impl Iterator<Item = usize> {
    let mut before = None;
    message.char_indices().filter_map(move |(at, c)| {
        let free =
            before.is_none_or(|it: char| !it.is_alphanumeric() && !it.is_ascii_punctuation());
        before = Some(c);
        let named =
            message[at + c.len_utf8()..].chars().next().is_some_and(|it| !it.is_whitespace());
        (c == '@' && free && named).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_is_defused_and_nothing_else_changes() {
        const REMARK: &str =
            "\n\n(Wherever this message has `\\@`, the original text has a plain `@`.)";
        for (text, expected) in [
            ("see @a.txt", Some("see \\@a.txt")),
            ("@a", Some("\\@a")),
            ("x。@a", Some("x。\\@a")),
            ("x\u{a0}@\"a b\"", Some("x\u{a0}\\@\"a b\"")),
            ("@a @b\n\t@c", Some("\\@a \\@b\n\t\\@c")),
            ("me@example.org", None),
            ("`@a` (@b) \"@c\" \\@d 見@e", None),
            ("a @ b, @", None),
            ("", None),
        ] {
            let expected = expected.map_or(text.to_owned(), |it| format!("{it}{REMARK}"));
            assert_eq!(defused(text), expected, "{text:?}");
            assert_eq!(defused(&expected), expected, "{text:?}");
        }
    }

    #[test]
    fn a_command_and_a_mention_are_expanded() {
        for text in ["/init", " \n/init", "see @a"] {
            assert!(is_expanded(text), "{text:?}");
        }
        for text in ["", "# Title", "!ls", "-x", "a/b", "me@a"] {
            assert!(!is_expanded(text), "{text:?}");
        }
    }
}
