//! A tool call in one line: the tool, and the one argument that tells most.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::text::{clusters, split, width};
use crate::lenient::{List, Number, Text};

/// How many characters of a command are shown.
const COMMAND: usize = 100;
/// How many characters of anything else are shown.
const ARGUMENT: usize = 80;
/// Stands for what is not shown.
const MORE: &str = "...";

/// What is shown of the input of a tool; paths inside `root` are relative to it.
pub fn argument(tool: &str, input: &str, root: &Path) -> String {
    let path = |name| relative(&text(input, name), root).into_owned();
    match tool {
        "Read" => match serde_json::from_str(input).unwrap_or_default() {
            Range { offset: Number(None), limit: Number(None) } => path("file_path"),
            Range { offset, limit: Number(None) } => {
                format!("{} {}", path("file_path"), offset.count())
            }
            Range { offset: Number(None), limit } => {
                format!("{} :{}", path("file_path"), limit.count())
            }
            Range { offset, limit } => {
                format!("{} {}:{}", path("file_path"), offset.count(), limit.count())
            }
        },
        "Edit" | "Write" => path("file_path"),
        "NotebookEdit" => path("notebook_path"),
        "Bash" => shorten(&text(input, "command"), COMMAND),
        "Glob" | "Grep" => text(input, "pattern").into_owned(),
        "TodoWrite" => {
            match serde_json::from_str::<Todos<'_>>(input).unwrap_or_default().todos.0.len() {
                1 => "1 item".to_owned(),
                count => format!("{count} items"),
            }
        }
        "Task" | "Agent" => shorten(&text(input, "description"), ARGUMENT),
        _ => shorten(&text(input, ""), ARGUMENT),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Range {
    offset: Number,
    limit: Number,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Todos<'a> {
    #[serde(borrow)]
    todos: List<Text<'a>>,
}

/// The text in the field of this name, or the first text of all if there is no name. What else is in
/// the input, such as a whole file, is passed over without being copied.
fn text<'a>(input: &'a str, name: &str) -> Cow<'a, str> {
    let mut deserializer = serde_json::Deserializer::from_str(input);
    Pick(name).deserialize(&mut deserializer).ok().flatten().unwrap_or_default()
}

/// An argument as it is shown where there are so many columns for it.
pub(super) fn fit(argument: &str, columns: usize) -> Cow<'_, str> {
    if width(argument) <= columns {
        return Cow::Borrowed(argument);
    }
    let (start, _) = split(argument, columns.saturating_sub(MORE.len()));
    Cow::Owned(format!("{start}{MORE}"))
}

/// Cut after so many characters, and marked with three dots.
fn shorten(text: &str, characters: usize) -> String {
    // No cluster is shorter than a byte.
    if text.len() <= characters {
        return text.to_owned();
    }
    let start: usize = clusters(text).take(characters).map(str::len).sum();
    let more = if start < text.len() { MORE } else { "" };
    format!("{}{more}", &text[..start])
}

fn relative<'a>(path: &'a str, root: &Path) -> Cow<'a, str> {
    match Path::new(path).strip_prefix(root) {
        Ok(inside) if !inside.as_os_str().is_empty() => inside.to_string_lossy(),
        _ => Cow::Borrowed(path),
    }
}

struct Pick<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if found.is_none() && (self.0.is_empty() || self.0 == key) {
                found = map.next_value::<Text<'de>>()?.0;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tool: &str, input: &str, expected: &str) {
        assert_eq!(argument(tool, input, Path::new("/project")), expected, "{tool} {input}");
    }

    #[test]
    fn each_tool_shows_what_tells_most() {
        check("Read", r#"{"file_path": "/project/src/main.rs"}"#, "src/main.rs");
        check(
            "Read",
            r#"{"file_path": "/etc/passwd", "offset": 430, "limit": 80}"#,
            "/etc/passwd 430:80",
        );
        check("Read", r#"{"file_path": "/project/a", "offset": 7}"#, "a 7");
        check("Read", r#"{"file_path": "/project/a", "limit": 7}"#, "a :7");
        check("Read", r#"{"file_path": "a", "offset": 5e-324, "limit": 1.5}"#, "a 0:1");
        check("Edit", r#"{"old_string": "x", "file_path": "/project/a/b.rs"}"#, "a/b.rs");
        check("Write", r#"{"file_path": "/projects/a", "content": "long"}"#, "/projects/a");
        check("NotebookEdit", r#"{"notebook_path": "/project/n.ipynb"}"#, "n.ipynb");
        check("Bash", r#"{"command": "git status", "description": "d"}"#, "git status");
        check("Glob", r#"{"pattern": "**/*.rs"}"#, "**/*.rs");
        check("Grep", r#"{"path": "src", "pattern": "TODO"}"#, "TODO");
        check("TodoWrite", r#"{"todos": [{"a": 1}, {}, {}]}"#, "3 items");
        check("Task", r#"{"description": "look", "prompt": "p"}"#, "look");
        check("Agent", r#"{"prompt": "p", "description": "look"}"#, "look");
        check("WebSearch", r#"{"n": 1, "list": ["x"], "query": "rust", "z": "y"}"#, "rust");
    }

    #[test]
    fn long_arguments_are_cut_at_characters() {
        for (tool, most) in [("Bash", 100), ("Other", 80)] {
            for character in ["é", "e\u{301}", "東", "x"] {
                let input = |count| format!(r#"{{"command": "{}"}}"#, character.repeat(count));
                check(tool, &input(most), &character.repeat(most));
                check(tool, &input(most + 1), &format!("{}...", character.repeat(most)));
                check(tool, &input(200), &format!("{}...", character.repeat(most)));
            }
        }
    }

    #[test]
    fn an_argument_is_cut_alike_wherever_it_is_shown() {
        assert_eq!(fit("cargo test", 10), "cargo test");
        assert_eq!(fit("cargo test", 9), "cargo ...");
        assert_eq!(fit("東京都東京都", 9), "東京都...");
    }

    #[test]
    fn an_input_of_any_shape_is_survived() {
        for input in ["", "null", "[]", "1", "{}", r#"{"file_path": 3}"#, r#"{"todos": "x"}"#, "{"]
        {
            for tool in ["Read", "Edit", "Bash", "Glob", "TodoWrite", "Task", "Else"] {
                argument(tool, input, Path::new("/project"));
            }
        }
    }
}
