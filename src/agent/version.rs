//! The version of Claude Code, as it tells it.

use std::fmt;

/// A version of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32, u32, u32);

impl Version {
    /// The oldest version that ralph is tested with; README.md names it, too.
    pub const OLDEST: Version = Version(2, 1, 197);

    /// The version in what `claude --version` prints, such as `2.1.325 (Claude Code)`; none if something
    /// else has answered.
    pub fn parse(said: &str) -> Option<Version> {
        let line = said.lines().find(|line| line.contains("(Claude Code)"))?;
        let mut numbers = line.split_whitespace().next()?.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Version(next()?, next()?, next()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claude_code_has_a_version() {
        let check = |said: &str, expected: Option<&str>| {
            let version = Version::parse(said).map(|it| it.to_string());
            assert_eq!(version.as_deref(), expected, "{said}");
        };
        check("2.1.325 (Claude Code)\n", Some("2.1.325"));
        check("warning: old\n2.1.197 (Claude Code)", Some("2.1.197"));
        check("2.1.325", None);
        check("(Claude Code)", None);
        check("2.1 (Claude Code)", None);
        check("GNU bash, version 5.2.15", None);
        check("", None);
    }

    #[test]
    fn versions_have_an_order_by_number() {
        let version = |said: &str| Version::parse(&format!("{said} (Claude Code)")).unwrap();
        assert!(version("2.1.97") < Version::OLDEST && version("2.1.325") > Version::OLDEST);
        assert!(version("1.9.999") < Version::OLDEST && version("3.0.0") > Version::OLDEST);
    }

    #[test]
    fn the_oldest_version_is_the_one_that_the_readme_names() {
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&format!("Claude Code {} or newer", Version::OLDEST)));
    }
}
