//! A session held by the sandbox of macOS: a profile in which the last rule that fits decides.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::super::claude::Invocation;
use super::policy::{Access, Policy};
use crate::settings::Network;

pub(super) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// What a session may do however it is held.
const BASE: &str = r#"(version 1)
(allow default)
(deny signal)
(allow signal (target same-sandbox))
(deny file-write*)
(allow file-write* (subpath "/dev/fd"))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx"))
"#;

pub(super) fn wrap(policy: &Policy, invocation: Invocation) -> Invocation {
    let git = policy.git.first().unwrap_or(&policy.project);
    let mut arguments: Vec<OsString> = Vec::new();
    for (name, path) in
        [("PROJECT_DIR", &policy.project), ("HOME", &policy.home), ("ROOT_GIT_DIR", git)]
    {
        let mut value = OsString::from(format!("{name}="));
        value.push(path);
        arguments.extend(["-D".into(), value]);
    }
    arguments.extend(["-p".into(), profile(policy).into(), invocation.program]);
    arguments.extend(invocation.arguments);
    Invocation { program: PROGRAM.into(), arguments, ..invocation }
}

fn profile(policy: &Policy) -> String {
    let mut profile = BASE.to_owned();
    let accesses = policy.accesses();
    for (path, access) in &accesses {
        let place = place(path, policy);
        let is_in_veil = |(veil, access): &(PathBuf, Access)| {
            *access == Access::Veiled && path != veil && path.starts_with(veil)
        };
        if accesses.iter().any(is_in_veil) {
            let _ = writeln!(profile, "(allow file-read* (subpath {place}))");
        }
        let rule = match access {
            Access::Write => format!("(allow file-write* (subpath {place}))"),
            Access::Read => format!("(deny file-write* (subpath {place}))"),
            Access::HiddenFile | Access::HiddenDirectory | Access::Veiled => {
                format!("(deny file-read* file-write* (subpath {place}))")
            }
        };
        let _ = writeln!(profile, "{rule}");
    }
    // What is to stay in its place must not be moved away, either.
    for (path, _) in &accesses {
        let _ = writeln!(profile, "(deny file-write-unlink (literal {}))", place(path, policy));
    }
    if policy.network == Network::None {
        profile.push_str("(deny network*)\n");
    }
    profile
}

/// A path, by the parameter it lies in where it lies in one.
fn place(path: &Path, policy: &Policy) -> String {
    let below = |name: &str, root: &Path| {
        let rest = path.strip_prefix(root).ok()?;
        let root = format!(r#"(param "{name}")"#);
        Some(match rest.as_os_str().is_empty() {
            true => root,
            false => format!("(string-append {root} {})", quoted(&Path::new("/").join(rest))),
        })
    };
    below("PROJECT_DIR", &policy.project)
        .or_else(|| policy.git.first().and_then(|git| below("ROOT_GIT_DIR", git)))
        .or_else(|| below("HOME", &policy.home))
        .unwrap_or_else(|| quoted(path))
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', r"\\").replace('"', r#"\""#);
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{invocation, policy, shown};
    use super::*;

    #[test]
    fn only_what_the_policy_names_is_writable() {
        insta::assert_snapshot!(profile(&policy()), @r#"
        (version 1)
        (allow default)
        (deny signal)
        (allow signal (target same-sandbox))
        (deny file-write*)
        (allow file-write* (subpath "/dev/fd"))
        (allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx"))
        (allow file-write* (subpath (string-append (param "HOME") "/.cache")))
        (allow file-write* (subpath (string-append (param "HOME") "/.claude")))
        (deny file-write* (subpath (string-append (param "HOME") "/.claude/settings.json")))
        (deny file-read* file-write* (subpath (string-append (param "HOME") "/.ssh")))
        (allow file-write* (subpath (param "PROJECT_DIR")))
        (deny file-read* file-write* (subpath (string-append (param "PROJECT_DIR") "/.env")))
        (allow file-write* (subpath (string-append (param "PROJECT_DIR") "/.git")))
        (deny file-write* (subpath (string-append (param "PROJECT_DIR") "/.git/config")))
        (deny file-write* (subpath (string-append (param "PROJECT_DIR") "/.git/hooks")))
        (deny file-write* (subpath (string-append (param "PROJECT_DIR") "/.mcp.json")))
        (deny file-read* file-write* (subpath (string-append (param "PROJECT_DIR") "/.ralph")))
        (allow file-read* (subpath (string-append (param "PROJECT_DIR") "/.ralph/features")))
        (deny file-write* (subpath (string-append (param "PROJECT_DIR") "/.ralph/features")))
        (allow file-read* (subpath (string-append (param "PROJECT_DIR") "/.ralph/skills")))
        (allow file-write* (subpath (string-append (param "PROJECT_DIR") "/.ralph/skills")))
        (allow file-write* (subpath "/tmp"))
        (deny file-write-unlink (literal (string-append (param "HOME") "/.cache")))
        (deny file-write-unlink (literal (string-append (param "HOME") "/.claude")))
        (deny file-write-unlink (literal (string-append (param "HOME") "/.claude/settings.json")))
        (deny file-write-unlink (literal (string-append (param "HOME") "/.ssh")))
        (deny file-write-unlink (literal (param "PROJECT_DIR")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.env")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.git")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.git/config")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.git/hooks")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.mcp.json")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.ralph")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.ralph/features")))
        (deny file-write-unlink (literal (string-append (param "PROJECT_DIR") "/.ralph/skills")))
        (deny file-write-unlink (literal "/tmp"))
        "#);
    }

    #[test]
    fn the_profile_and_its_parameters_are_arguments() {
        let wrapped = shown(&wrap(&policy(), invocation()));
        let rest = wrapped.replace(&profile(&policy()), "PROFILE");
        insta::assert_snapshot!(rest, @"
        /usr/bin/sandbox-exec
        -D PROJECT_DIR=/home/u/project
        -D HOME=/home/u
        -D ROOT_GIT_DIR=/home/u/project/.git
        -p PROFILE claude
        --print a b
        ");
    }

    #[test]
    fn without_a_network_there_is_none() {
        let policy = Policy { network: Network::None, ..policy() };
        assert!(profile(&policy).ends_with("(deny network*)\n"));
    }

    #[test]
    fn a_path_can_not_end_its_quotes() {
        assert_eq!(quoted(Path::new(r#"/a"b\c"#)), r#""/a\"b\\c""#);
    }
}
