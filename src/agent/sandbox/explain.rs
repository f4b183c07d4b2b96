//! What an agent is told of its sandbox: what it may write, what it may reach, and what to do when something is
//! refused. Nothing is promised that the back end does not enforce.

use super::Sandbox;
use super::cage::Cage;
use super::places::{LEARNED, OWN, STATE, STEERING};
use crate::settings::Network;

pub(super) fn explain(cage: &Cage, looking_only: bool) -> String {
    let write_only_to = match looking_only {
        true => "Write to temporary directories only.",
        false => "Write to the project and to temporary directories only.",
    };
    match &cage.choice.sandbox {
        None => format!(
            "This session has no sandbox: what you do happens to the machine itself. {write_only_to}"
        ),
        // It sees the project writable whatever the session is for, and it can't close the network.
        Some(Sandbox::Docker { .. }) => format!(
            "This session runs in a Docker sandbox: a machine of its own that has the project, but no `ralph`. \
             {write_only_to} The network is open."
        ),
        Some(Sandbox::Bwrap { .. }) => held("bwrap", true, cage, looking_only),
        Some(Sandbox::Landlock { namespaces, .. }) => {
            held("Landlock", *namespaces, cage, looking_only)
        }
        Some(Sandbox::Seatbelt) => held("Seatbelt", true, cage, looking_only),
    }
}

/// What a session is told whose sandbox is the policy. `protects` says whether the sandbox can protect what lies
/// inside something writable.
fn held(name: &str, protects: bool, cage: &Cage, looking_only: bool) -> String {
    let project = match looking_only {
        true => "The project is read-only. You may write to",
        false => "You may write to the project,",
    };
    // The agent's own files are its business.
    let state = STATE.iter().filter(|it| !it.contains("claude")).map(|it| format!("~/{it}"));
    let allowed = cage.settings.allow.iter().map(|it| match it.as_str() {
        "aws" => "~/.aws".to_owned(),
        path => path.to_owned(),
    });
    let mut text = format!(
        "This session runs in a sandbox ({name}). {project} {} and temporary directories such as `/tmp`. Everything \
         else is read-only",
        listed(state.chain(allowed))
    );
    if !cage.settings.deny_read.is_empty() {
        let denied = listed(cage.settings.deny_read.iter().cloned());
        text.push_str(&format!(", and {denied} can't be read"));
    }
    text.push_str(". ");
    if !looking_only {
        let mut steering = listed(STEERING.into_iter().chain([OWN]).map(str::to_owned));
        if cage.learn {
            steering.push_str(&format!(" (but `{OWN}/{LEARNED}`)"));
        }
        text.push_str(&match protects {
            true => format!(
                "In the project, {steering} and git's hooks and configuration can't be changed. "
            ),
            false => format!(
                "In the project, leave {steering} and git's hooks and configuration alone. "
            ),
        });
    }
    text.push_str(match cage.settings.network {
        Network::Open => "The network is open.",
        Network::None => "The network is closed.",
    });
    text.push_str(
        "\n\nIf something is refused (\"Permission denied\", \"Read-only file system\", \"Operation not permitted\"), \
         that is the sandbox, not a fault of the project. Don't try to get around it: have the tool write to a \
         temporary directory.",
    );
    if !looking_only {
        text.push_str(
            " If the task can't be done that way, end it as blocked and name the path or host that is needed.",
        );
    }
    text
}

/// Paths as code, in a row.
fn listed(paths: impl Iterator<Item = String>) -> String {
    paths.map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::choose::Choice;
    use super::*;
    use crate::settings::{SandboxSettings, Settings};

    fn cage(sandbox: Option<Sandbox>, settings: SandboxSettings) -> Cage {
        Cage {
            choice: Choice { sandbox, message: String::new() },
            settings,
            learn: false,
            home: "/home/u".into(),
            temporary: vec!["/tmp".into()],
            runtime: None,
            database: "/home/u/project/.ralph/progress.db".into(),
            logs: "/home/u/logs".into(),
        }
    }

    fn settings() -> SandboxSettings {
        Settings::default().sandbox
    }

    fn bwrap() -> Option<Sandbox> {
        Some(Sandbox::Bwrap { program: "/usr/bin/bwrap".into() })
    }

    fn landlock(namespaces: bool) -> Option<Sandbox> {
        Some(Sandbox::Landlock { version: 6, namespaces })
    }

    #[test]
    fn who_works_is_told_what_may_be_written() {
        insta::assert_snapshot!(explain(&cage(bwrap(), settings()), false), @r#"
        This session runs in a sandbox (bwrap). You may write to the project, `~/.cache`, `~/.local/state` and temporary directories such as `/tmp`. Everything else is read-only. In the project, `.claude`, `.mcp.json`, `.vscode`, `.idea`, `.ralph.toml`, `.ralph` and git's hooks and configuration can't be changed. The network is open.

        If something is refused ("Permission denied", "Read-only file system", "Operation not permitted"), that is the sandbox, not a fault of the project. Don't try to get around it: have the tool write to a temporary directory. If the task can't be done that way, end it as blocked and name the path or host that is needed.
        "#);
    }

    #[test]
    fn who_verifies_is_told_that_the_project_is_read_only() {
        insta::assert_snapshot!(explain(&cage(bwrap(), settings()), true), @r#"
        This session runs in a sandbox (bwrap). The project is read-only. You may write to `~/.cache`, `~/.local/state` and temporary directories such as `/tmp`. Everything else is read-only. The network is open.

        If something is refused ("Permission denied", "Read-only file system", "Operation not permitted"), that is the sandbox, not a fault of the project. Don't try to get around it: have the tool write to a temporary directory.
        "#);
    }

    #[test]
    fn what_the_settings_allow_and_deny_is_named() {
        let settings = SandboxSettings {
            allow: vec!["aws".into(), "~/.cargo".into()],
            deny_read: vec!["~/.ssh".into(), ".env".into()],
            network: Network::None,
            ..settings()
        };
        let text = explain(&cage(bwrap(), settings), false);
        for part in [
            "`~/.cache`, `~/.local/state`, `~/.aws`, `~/.cargo` and temporary directories",
            "read-only, and `~/.ssh`, `.env` can't be read. ",
            "The network is closed.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = explain(&cage(bwrap(), self::settings()), false);
        assert!(!text.contains("can't be read"), "{text}");
    }

    #[test]
    fn only_what_the_back_end_enforces_is_said_to_be_impossible() {
        for (sandbox, name, enforced) in [
            (bwrap(), "(bwrap)", true),
            (landlock(true), "(Landlock)", true),
            (landlock(false), "(Landlock)", false),
            (Some(Sandbox::Seatbelt), "(Seatbelt)", true),
        ] {
            let text = explain(&cage(sandbox, settings()), false);
            assert!(text.contains(name), "{text}");
            assert_eq!(text.contains("configuration can't be changed."), enforced, "{text}");
            assert_eq!(text.contains("configuration alone."), !enforced, "{text}");
        }
    }

    #[test]
    fn skills_may_be_written_by_who_is_to_learn() {
        let cage = cage(bwrap(), settings());
        assert!(!explain(&cage, false).contains("`.ralph` (but"));
        assert!(
            explain(&Cage { learn: true, ..cage }, false)
                .contains("`.ralph` (but `.ralph/skills`)")
        );
    }

    #[test]
    fn docker_and_no_sandbox_ask_for_what_they_do_not_enforce() {
        let deny = || SandboxSettings { deny_read: vec![".env".into()], ..settings() };
        let docker = || Some(Sandbox::Docker { template: "image".into() });
        let none = "This session has no sandbox: what you do happens to the machine itself.";
        let machine = "This session runs in a Docker sandbox: a machine of its own that has the project, but no \
                       `ralph`.";
        let works = "Write to the project and to temporary directories only.";
        let looks = "Write to temporary directories only.";
        let told = |sandbox, looking_only| explain(&cage(sandbox, deny()), looking_only);
        assert_eq!(told(None, false), format!("{none} {works}"));
        assert_eq!(told(None, true), format!("{none} {looks}"));
        assert_eq!(told(docker(), false), format!("{machine} {works} The network is open."));
        assert_eq!(told(docker(), true), format!("{machine} {looks} The network is open."));
    }
}
