//! A session held by bubblewrap: namespaces of its own, in which only what the policy names is writable.

use std::ffi::OsString;
use std::path::Path;

use super::super::claude::Invocation;
use super::super::supervisor::HEED;
use super::policy::{Access, Policy};
use crate::settings::Network;

/// What every sandbox has.
pub(super) const BASE: [&str; 21] = [
    "--die-with-parent",
    "--unshare-pid",
    "--unshare-ipc",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    // To root the settings of the kernel would be files like others.
    "--ro-bind-try",
    "/proc/sys",
    "/proc/sys",
    "--ro-bind-try",
    "/proc/fs",
    "/proc/fs",
    "--ro-bind-try",
    "/proc/sysrq-trigger",
    "/proc/sysrq-trigger",
];

/// Becomes bwrap with the signals ignored that are meant for the agent. At a terminal they reach the whole
/// process group, and bwrap would die of them, and take the agent with it in the middle of its clean-up.
const SHIELD: &str = r#"trap '' INT QUIT TERM; exec "$0" "$@""#;

/// `own` is this program as the session sees it: inside, it gives the agent back the signals that bwrap
/// ignores. Without it they are not ignored.
pub(super) fn wrap(
    program: &Path,
    own: Option<&Path>,
    policy: &Policy,
    invocation: Invocation,
) -> Invocation {
    let own = own.filter(|_| policy.terminal);
    let mut arguments: Vec<OsString> = Vec::new();
    if !policy.terminal {
        arguments.push("--new-session".into());
    }
    arguments.extend(BASE.map(OsString::from));
    if policy.network == Network::None {
        arguments.push("--unshare-net".into());
    }
    let mut closed_at_last: Vec<OsString> = Vec::new();
    for (path, access) in policy.accesses() {
        let path = path.into_os_string();
        match access {
            // What is shown of it is mounted into it before it is closed.
            Access::Veiled => {
                arguments.extend(["--perms".into(), "0755".into(), "--tmpfs".into(), path.clone()]);
                closed_at_last.extend(["--remount-ro".into(), path]);
            }
            Access::Write => arguments.extend(["--bind".into(), path.clone(), path]),
            Access::Read => arguments.extend(["--ro-bind".into(), path.clone(), path]),
            // A device that is mounted like this can't be opened.
            Access::HiddenFile => arguments.extend(["--ro-bind".into(), "/dev/null".into(), path]),
            Access::HiddenDirectory => arguments.extend([
                "--perms".into(),
                "0000".into(),
                "--tmpfs".into(),
                path.clone(),
                "--remount-ro".into(),
                path,
            ]),
        }
    }
    arguments.extend(closed_at_last);
    arguments.extend(["--chdir".into(), invocation.directory.clone().into_os_string()]);
    arguments.push("--".into());
    arguments.extend(own.into_iter().flat_map(|own| [own.into(), HEED.into()]));
    arguments.push(invocation.program);
    arguments.extend(invocation.arguments);
    let program = program.as_os_str().to_owned();
    if own.is_none() {
        return Invocation { program, arguments, ..invocation };
    }
    let shield = ["-c".into(), SHIELD.into(), program];
    let arguments = shield.into_iter().chain(arguments).collect();
    Invocation { program: "/bin/sh".into(), arguments, ..invocation }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{invocation, policy, shown};
    use super::*;

    fn wrapped(policy: &Policy) -> String {
        let own = Some(Path::new("/usr/bin/ralph"));
        shown(&wrap(Path::new("/usr/bin/bwrap"), own, policy, invocation()))
    }

    #[test]
    fn only_what_the_policy_names_is_writable() {
        insta::assert_snapshot!(wrapped(&policy()), @"
        /usr/bin/bwrap
        --new-session
        --die-with-parent
        --unshare-pid
        --unshare-ipc
        --cap-drop ALL
        --ro-bind / /
        --dev /dev
        --proc /proc
        --ro-bind-try /proc/sys /proc/sys
        --ro-bind-try /proc/fs /proc/fs
        --ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger
        --bind /home/u/.cache /home/u/.cache
        --bind /home/u/.claude /home/u/.claude
        --ro-bind /home/u/.claude/settings.json /home/u/.claude/settings.json
        --perms 0000
        --tmpfs /home/u/.ssh
        --remount-ro /home/u/.ssh
        --bind /home/u/project /home/u/project
        --ro-bind /dev/null /home/u/project/.env
        --bind /home/u/project/.git /home/u/project/.git
        --ro-bind /home/u/project/.git/config /home/u/project/.git/config
        --ro-bind /home/u/project/.git/hooks /home/u/project/.git/hooks
        --ro-bind /home/u/project/.mcp.json /home/u/project/.mcp.json
        --perms 0755
        --tmpfs /home/u/project/.ralph
        --ro-bind /home/u/project/.ralph/features /home/u/project/.ralph/features
        --bind /home/u/project/.ralph/skills /home/u/project/.ralph/skills
        --bind /tmp /tmp
        --remount-ro /home/u/project/.ralph
        --chdir /home/u/project
        -- claude
        --print a b
        ");
    }

    #[test]
    fn without_a_network_there_is_none() {
        let policy = Policy { network: Network::None, ..policy() };
        assert!(wrapped(&policy).contains("--unshare-net"));
    }

    #[test]
    fn a_terminal_of_its_own_is_kept() {
        let policy = Policy { terminal: true, ..policy() };
        let wrapped = wrapped(&policy);
        assert!(!wrapped.contains("--new-session"), "{wrapped}");
        assert!(wrapped.contains("trap '' INT QUIT TERM"), "{wrapped}");
        assert!(wrapped.contains("-- /usr/bin/ralph __heed claude"), "{wrapped}");
    }
}
