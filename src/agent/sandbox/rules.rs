//! Paths as users write them in `sandbox.allow` and `sandbox.deny_read`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::hint::{HintExt, quoted};

/// What a rule of `sandbox.allow` lets a session write.
pub(super) fn allowed(rule: &str, project: &Path, home: &Path) -> Result<PathBuf> {
    let path = match rule {
        "aws" => home.join(".aws"),
        _ if is_path(rule) => absolute(rule, project, home),
        _ => {
            return Err(anyhow!("`sandbox.allow` has an unknown rule, `{rule}`"))
                .hint("it takes `aws`, or a path such as `~/.cargo` or `./dist`");
        }
    };
    path.canonicalize()
        .map_err(|_| anyhow!("`sandbox.allow` names `{rule}`, which does not exist"))
        .hint(format!("make it first: mkdir {}", quoted(&path)))
}

/// What an entry of `sandbox.deny_read` names; none if it is not there.
pub(super) fn denied(entry: &str, project: &Path, home: &Path) -> Option<PathBuf> {
    absolute(entry, project, home).canonicalize().ok()
}

fn is_path(rule: &str) -> bool {
    rule.contains('/') || rule.starts_with(['~', '.'])
}

fn absolute(path: &str, project: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => project.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_meant_from_the_home_or_the_project() {
        let check = |path: &str, expected: &str| {
            let meant = absolute(path, Path::new("/project"), Path::new("/home/u"));
            assert_eq!(meant, Path::new(expected), "{path}");
        };
        check("~", "/home/u");
        check("~/.cargo", "/home/u/.cargo");
        check("dist", "/project/dist");
        check("./dist", "/project/./dist");
        check("/var/cache", "/var/cache");
        check("~other/x", "/project/~other/x");
    }

    #[test]
    fn an_unknown_rule_is_an_error() {
        let home = tempfile::TempDir::new().unwrap();
        let rule = |rule: &str| allowed(rule, home.path(), home.path());
        let error = |it: &str| rule(it).unwrap_err().to_string();
        assert_eq!(error("awz"), "`sandbox.allow` has an unknown rule, `awz`");
        assert_eq!(error("~/.cargo"), "`sandbox.allow` names `~/.cargo`, which does not exist");
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        assert!(rule("aws").unwrap().ends_with(".aws"));
    }
}
