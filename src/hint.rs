//! Errors that say what to do next: a hint travels with its error to the place that prints both.

use std::{error::Error, ffi::OsStr, fmt};

/// An error with its next step; it reads as the error alone.
#[derive(Debug)]
pub struct Hinted {
    /// What went wrong.
    pub source: anyhow::Error,
    /// What to do about it, without the word `hint:`.
    pub hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)
    }
}

impl Error for Hinted {
    // The source speaks through `Display`, so the chain goes on after it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// Attaches a hint to a failure.
pub trait HintExt<T> {
    /// Says what to do when this fails.
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T> HintExt<T> for anyhow::Result<T> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|source| Hinted { source, hint: hint.into() }.into())
    }
}

/// A word or a path as a shell needs it, for a command that a person is to type.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let text = word.as_ref().to_string_lossy().into_owned();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The hint of an error, wherever in its chain it was attached.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|e| e.downcast_ref::<Hinted>()).map(|hinted| hinted.hint.as_str())
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_path_as_it_is() {
        for (path, expected) in [
            ("/tmp/a-b_c.db", "/tmp/a-b_c.db"),
            ("/tmp/my project", "'/tmp/my project'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("~x", "'~x'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(path), expected);
            let echo = format!("printf %s {}", quoted(path));
            let read = std::process::Command::new("sh").args(["-c", &echo]).output().unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), path);
        }
    }

    #[test]
    fn a_hint_survives_context_and_is_no_part_of_the_message() {
        let error = Err::<(), _>(anyhow!("no such file").context("can't read the plan"))
            .hint("run `ralph feature plan`")
            .context("can't build")
            .unwrap_err();

        assert_eq!(format!("{error:#}"), "can't build: can't read the plan: no such file");
        assert_eq!(hint_of(&error), Some("run `ralph feature plan`"));
        assert_eq!(hint_of(&anyhow!("plain")), None);
    }
}
