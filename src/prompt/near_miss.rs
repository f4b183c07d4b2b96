//! What an agent said that is nearly a verdict. It is none, but the next attempt must be told what was wrong
//! with it: otherwise it says the same again.

use super::sigils::{VERDICTS, is_in_code, without_code_marks};
use crate::dag::TaskId;

/// How much of what was said is repeated.
const SHOWN: usize = 200;

/// What in a last message is nearly a verdict on this task, why it is none, and how it is said right; none
/// if there is nothing of the kind.
pub fn near_miss(message: &str, task: TaskId) -> Option<String> {
    let id = task.to_string();
    let Some(found) = Found::last_in(message) else {
        let right = right_form("task-done", &id);
        return message.contains(&id).then(|| {
            format!("it names `{id}` but has no tag; a task that is done is reported as {right}")
        });
    };
    let why = found.fault(message, &id)?;
    let said = shown(&message[found.start..found.end]);
    Some(format!("it said \"{said}\", {why}; write {}", right_form(found.name, &id)))
}

fn right_form(name: &str, id: &str) -> String {
    let question = if name == "task-blocked" { ": your question" } else { "" };
    format!(
        "<{name}>{id}{question}</{name}>, without code marks, as the last line of the last message"
    )
}

/// The last thing in a message that begins or ends like a verdict.
struct Found {
    name: &'static str,
    start: usize,
    end: usize,
    kind: Kind,
}

enum Kind {
    /// From the opening tag to the closing one, with this in between.
    Whole {
        inner: std::ops::Range<usize>,
    },
    /// `<task-done/>`
    SelfClosing,
    /// An opening tag that is not written as it should be.
    OddTag,
    NotClosed,
    NotOpened,
}

impl Found {
    fn last_in(message: &str) -> Option<Found> {
        // As long as the message, byte for byte.
        let small = message.to_ascii_lowercase();
        let opened = VERDICTS
            .iter()
            .filter_map(|&name| Some((small.rfind(&format!("<{name}"))?, name)))
            .max_by_key(|&(at, _)| at);
        let Some((start, name)) = opened else {
            return VERDICTS.iter().find_map(|&name| {
                let close = format!("</{name}>");
                let start = small.rfind(&close)?;
                Some(Found { name, start, end: start + close.len(), kind: Kind::NotOpened })
            });
        };
        let line_end = message[start..].find('\n').map_or(message.len(), |at| start + at);
        let Some(tag_end) = message[start..line_end].find('>').map(|at| start + at + 1) else {
            return Some(Found { name, start, end: line_end, kind: Kind::NotClosed });
        };
        let close = format!("</{name}>");
        let closed = small[tag_end..].find(&close).map(|at| tag_end + at);
        let end = closed.map_or(line_end, |at| at + close.len());
        let kind = match (&message[start..tag_end], closed) {
            (tag, _) if tag.ends_with("/>") => Kind::SelfClosing,
            (tag, _) if tag != format!("<{name}>") => Kind::OddTag,
            (_, None) => Kind::NotClosed,
            (_, Some(at)) if message[at..].starts_with(&close) => {
                Kind::Whole { inner: tag_end..at }
            }
            (_, Some(_)) => Kind::OddTag,
        };
        let end = if matches!(kind, Kind::SelfClosing) { tag_end } else { end };
        Some(Found { name, start, end, kind })
    }

    /// Why this is no verdict on the task with this id; none if it should have been one.
    fn fault(&self, message: &str, id: &str) -> Option<String> {
        Some(match &self.kind {
            Kind::SelfClosing => "which has no id in it".to_owned(),
            Kind::OddTag => format!(
                "but a tag is written in small letters and without attributes, <{}>",
                self.name
            ),
            Kind::NotClosed => format!("which is not closed by </{}>", self.name),
            Kind::NotOpened => format!("but there is no <{}> before it", self.name),
            Kind::Whole { inner } => {
                let inner = message[inner.clone()].trim();
                let named = match inner.split_once(':') {
                    Some((named, _)) if self.name == "task-blocked" => named.trim(),
                    _ => inner,
                };
                return fault_inside(named, id, is_in_code(message, self.start));
            }
        })
    }
}

/// Why this, in a tag, does not name the task with this id.
fn fault_inside(named: &str, id: &str, in_code: bool) -> Option<String> {
    let unbroken: String = named.split_whitespace().collect();
    Some(match named {
        _ if in_code => "which stands in code and is taken for a quotation".to_owned(),
        _ if named == id => return None,
        _ if without_code_marks(named) == id => {
            "which has code marks around the id and does not stand alone on the last line"
                .to_owned()
        }
        _ if unbroken == id => "in which the id is broken in two".to_owned(),
        _ if named.contains(id) => {
            "which has more in the tag than the id; a summary belongs before it".to_owned()
        }
        _ if named.parse::<TaskId>().is_ok() => {
            format!("which names another task; yours is `{id}`")
        }
        _ => format!("which does not have the id of the task in the tag, `{id}`"),
    })
}

/// What was said, on one line and not too long.
fn shown(said: &str) -> String {
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "t-3f9a01";

    fn missed(message: &str) -> Option<String> {
        near_miss(&message.replace("ID", ID), ID.parse().unwrap())
    }

    #[test]
    fn what_is_nothing_like_a_verdict_is_no_near_miss() {
        for message in ["", "All is done.", "<promise>COMPLETE</promise>", "<task>ID2</task>"] {
            let message = message.replace("ID2", "t-000000");
            assert_eq!(missed(&message), None, "{message}");
        }
        assert_eq!(missed("<task-done>ID</task-done>"), None);
    }

    #[test]
    fn what_was_said_is_repeated_on_one_line_and_not_at_length() {
        let told = missed(&format!("<task-done>ID: {}\nx</task-done>", "so ".repeat(500))).unwrap();
        assert!(told.starts_with("it said \"<task-done>t-3f9a01: so so "), "{told}");
        assert!(told.contains("…\", which has more in the tag than the id"), "{told}");
        assert!(told.len() < 600 && !told.contains('\n'), "{told}");
    }

    proptest! {
        #[test]
        fn any_text_is_looked_at(text in "(<|>|/|task-done|Task-failed|task-blocked|`|\n|ü|t-3f9a01|:| ){0,20}") {
            near_miss(&text, ID.parse().unwrap());
        }
    }
}
