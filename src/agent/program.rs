//! The program of an agent, as a person names it: a name, a path, or a command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Result, anyhow};

use super::process::find_program;
use crate::hint::HintExt;

/// A program, and the arguments that come before all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its name or path.
    pub name: OsString,
    /// What a command line has besides, such as `X=1 prog` after `env`.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Splits a command line like a shell does, unless all of it names a program that exists: then its
    /// blanks are part of its name.
    pub fn parse(text: &str, path: &OsStr, directory: &Path) -> Result<Program> {
        if find_program(text.as_ref(), path, directory).is_some() {
            return Ok(text.into());
        }
        let mut words = shell_words::split(text)
            .map_err(|_| anyhow!("the command `{text}` has a quote that is not closed"))
            .hint("quote it as in a shell")?
            .into_iter()
            .map(OsString::from);
        match words.next() {
            Some(name) => Ok(Program { name, arguments: words.collect() }),
            None => Ok(text.into()),
        }
    }

    /// What it is called when ralph speaks of it: the name of its file, and not `env`.
    pub fn called(&self) -> String {
        let file = |name: &OsStr| {
            let file = Path::new(name).file_name().unwrap_or(name);
            file.to_string_lossy().into_owned()
        };
        let is_name = |word: &&OsString| {
            let word = word.as_encoded_bytes();
            !word.contains(&b'=') && !word.starts_with(b"-")
        };
        match file(&self.name).as_str() {
            "env" => self.arguments.iter().find(is_name).map_or("env".to_owned(), |it| file(it)),
            name => name.to_owned(),
        }
    }
}

impl From<OsString> for Program {
    fn from(name: OsString) -> Program {
        Program { name, arguments: Vec::new() }
    }
}

impl From<&str> for Program {
    fn from(name: &str) -> Program {
        OsString::from(name).into()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_command_line_is_split_like_a_shell_does_unless_it_names_a_program() {
        let directory = tempfile::TempDir::new().unwrap();
        let blanks = directory.path().join("my agent");
        fs::write(&blanks, "").unwrap();
        fs::set_permissions(&blanks, fs::Permissions::from_mode(0o755)).unwrap();
        let parse = |text: &str| {
            let program = Program::parse(text, "/bin".as_ref(), directory.path())?;
            let words = [program.name].into_iter().chain(program.arguments);
            Ok::<_, anyhow::Error>(words.map(|it| it.into_string().unwrap()).collect::<Vec<_>>())
        };
        for (text, words) in [
            ("claude", &["claude"][..]),
            ("claude --foo bar", &["claude", "--foo", "bar"]),
            ("env X='a b' claude \"--settings={}\"", &["env", "X=a b", "claude", "--settings={}"]),
            ("./my agent", &["./my agent"]),
            ("'./my agent' --flag", &["./my agent", "--flag"]),
        ] {
            assert_eq!(parse(text).unwrap(), words, "{text}");
        }
        for (text, called) in [("claude", "claude"), ("/a/b -x", "b"), ("env -i X=1 ./c d", "c")] {
            let program = Program::parse(text, "/bin".as_ref(), directory.path()).unwrap();
            assert_eq!(program.called(), called, "{text}");
        }
        let error = parse("claude 'x").unwrap_err().to_string();
        assert_eq!(error, "the command `claude 'x` has a quote that is not closed");
    }
}
