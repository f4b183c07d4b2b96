//! A policy and an invocation for tests.

use super::super::claude::{Invocation, Stdin};
use super::policy::{Hidden, Policy, Protected, Standin, State, Veiled};
use crate::settings::Network;

pub(super) fn policy() -> Policy {
    let present = |path: &str| Protected { path: path.into(), state: State::Present };
    let absent =
        |path: &str| Protected { path: path.into(), state: State::Absent(Standin::Directory) };
    Policy {
        project: "/home/u/project".into(),
        project_read_only: false,
        home: "/home/u".into(),
        git: vec!["/home/u/project/.git".into()],
        temporary: vec!["/tmp".into()],
        state: vec!["/home/u/.claude".into(), "/home/u/.cache".into()],
        allowed: Vec::new(),
        protected: vec![
            present("/home/u/project/.git/config"),
            present("/home/u/project/.git/hooks"),
            absent("/home/u/project/.mcp.json"),
            present("/home/u/.claude/settings.json"),
        ],
        hidden: vec![
            Hidden { path: "/home/u/.ssh".into(), directory: true },
            Hidden { path: "/home/u/project/.env".into(), directory: false },
        ],
        veiled: vec![Veiled {
            path: "/home/u/project/.ralph".into(),
            shown: vec!["/home/u/project/.ralph/features".into()],
            writable: vec!["/home/u/project/.ralph/skills".into()],
        }],
        network: Network::Open,
        terminal: false,
        as_root: false,
    }
}

pub(super) fn invocation() -> Invocation {
    Invocation {
        program: "claude".into(),
        arguments: vec!["--print".into(), "a b".into()],
        variables: vec![("PATH", "/usr/bin".into()), ("RALPH_TASK_ID", "t-000001".into())],
        removed: Vec::new(),
        stdin: Stdin::Nothing,
        scratch: None,
        directory: "/home/u/project".into(),
    }
}

/// The command line, a line for each option.
pub(super) fn shown(invocation: &Invocation) -> String {
    let mut text = invocation.program.to_string_lossy().into_owned();
    for argument in &invocation.arguments {
        let argument = argument.to_string_lossy();
        text.push_str(if argument.starts_with('-') { "\n" } else { " " });
        text.push_str(&argument);
    }
    text
}
