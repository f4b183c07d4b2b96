//! The only place that reads the process environment. Tests hand in their own.

use std::{collections::HashMap, env, ffi::OsString, path::PathBuf};

use anyhow::{Result, anyhow};

/// Environment variables: those of this process, or given ones.
#[derive(Debug, Clone)]
pub struct Environment {
    // The process's own are looked up when asked for and never kept.
    given: Option<HashMap<String, OsString>>,
}

impl Environment {
    /// The variables of this process.
    pub fn process() -> Self {
        Self { given: None }
    }

    /// A variable; an empty one counts as not set.
    pub fn var(&self, name: &str) -> Option<OsString> {
        match &self.given {
            Some(given) => given.get(name).cloned(),
            None => env::var_os(name),
        }
        .filter(|value| !value.is_empty())
    }

    /// A variable that must be text.
    pub fn text(&self, name: &str) -> Result<Option<String>> {
        self.var(name)
            .map(OsString::into_string)
            .transpose()
            .map_err(|_| anyhow!("environment `{name}`: not UTF-8 text"))
    }

    /// The socket of the session we are called from, through which its run answers; none outside a session.
    pub fn socket(&self) -> Option<PathBuf> {
        self.var("RALPH_SOCKET").map(PathBuf::from)
    }

    /// The database to work on in place of the project's own.
    pub fn db(&self) -> Option<PathBuf> {
        self.var("RALPH_DB").map(PathBuf::from)
    }

    /// The variable by which each session of Claude Code is paid for by use; without one it is a
    /// subscription that is used, unless the session says otherwise.
    pub fn paid_by(&self) -> Option<&'static str> {
        const PAYS: [&str; 5] = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ];
        PAYS.into_iter().find(|name| self.var(name).is_some())
    }

    /// Whether the user wants no colours.
    pub fn no_color(&self) -> bool {
        self.var("NO_COLOR").is_some()
    }

    /// The kind of terminal.
    pub fn term(&self) -> Option<String> {
        self.text("TERM").ok().flatten()
    }

    /// The width that a user asks for, in cells.
    pub fn columns(&self) -> Option<u16> {
        self.text("COLUMNS").ok()??.parse().ok().filter(|columns| *columns > 0)
    }

    /// The height that a user asks for, in cells.
    pub fn lines(&self) -> Option<u16> {
        self.text("LINES").ok()??.parse().ok().filter(|lines| *lines > 0)
    }
}

impl<K: Into<String>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let given = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { given: Some(given.collect()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_session_knows_its_socket_and_a_person_may_name_a_database() {
        let inside = Environment::from_iter([
            ("RALPH_SOCKET", "/tmp/ralph-session-1/ralph"),
            ("RALPH_DB", "/p/.ralph/progress.db"),
        ]);
        assert_eq!(inside.socket(), Some("/tmp/ralph-session-1/ralph".into()));
        assert_eq!(inside.db(), Some("/p/.ralph/progress.db".into()));
    }

    #[test]
    fn a_cloud_is_paid_by_use_like_a_key() {
        for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_FOUNDRY"] {
            assert_eq!(Environment::from_iter([(name, "1")]).paid_by(), Some(name));
        }
        assert_eq!(Environment::from_iter([("CLAUDE_CODE_OAUTH_TOKEN", "x")]).paid_by(), None);
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let empty = Environment::from_iter([
            ("RALPH_SOCKET", ""),
            ("RALPH_DB", ""),
            ("NO_COLOR", ""),
            ("TERM", ""),
            ("COLUMNS", ""),
        ]);
        assert_eq!(empty.socket(), None);
        assert_eq!(empty.db(), None);
        assert!(!empty.no_color());
        assert_eq!(empty.term(), None);
        assert_eq!(empty.columns(), None);
    }

    #[test]
    fn the_terminal_is_described_by_what_makes_sense() {
        fn check(columns: &str, expected: Option<u16>) {
            assert_eq!(Environment::from_iter([("COLUMNS", columns)]).columns(), expected);
        }
        check("80", Some(80));
        check("0", None);
        check("-1", None);
        check("wide", None);

        let dumb = Environment::from_iter([("TERM", "dumb"), ("NO_COLOR", "1")]);
        assert_eq!(dumb.term().as_deref(), Some("dumb"));
        assert!(dumb.no_color());
    }

    #[test]
    fn what_is_not_text_is_an_error_that_names_the_variable() {
        let bytes = OsString::from_vec(vec![b't', 0xff]);
        let error =
            Environment::from_iter([("RALPH_MODEL", bytes)]).text("RALPH_MODEL").unwrap_err();
        assert_eq!(error.to_string(), "environment `RALPH_MODEL`: not UTF-8 text");
    }

    #[test]
    fn the_process_has_its_own_variables() {
        assert_eq!(Environment::process().var("PATH"), env::var_os("PATH"));
    }
}
