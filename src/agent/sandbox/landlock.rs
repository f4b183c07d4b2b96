//! A session held by Landlock: this very program, started again, restricts itself as its arguments say
//! and then becomes the agent. No other program is needed.

use std::ffi::OsString;
use std::path::PathBuf;

use super::super::claude::Invocation;
use super::super::process::own_program;
use super::policy::{Access, Policy};
use crate::settings::Network;

/// The first argument that makes a ralph restrict itself.
pub const CONFINE: &str = "__confine";
/// With this in place of rules it tells what it could do here.
pub(super) const PROBE: &str = "probe";

/// What a confined process is to do to itself, and then become.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Confinement {
    /// It gets a view of the file system of its own, in which what is protected is read-only.
    pub(super) namespaces: bool,
    pub(super) network: Network,
    pub(super) accesses: Vec<(PathBuf, Access)>,
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

pub(super) fn wrap(namespaces: bool, policy: &Policy, invocation: Invocation) -> Invocation {
    let confinement = Confinement {
        namespaces,
        network: policy.network,
        accesses: policy.accesses(),
        program: invocation.program,
        arguments: invocation.arguments,
    };
    Invocation {
        program: own_program().into_os_string(),
        arguments: std::iter::once(CONFINE.into()).chain(confinement.into_arguments()).collect(),
        ..invocation
    }
}

impl Confinement {
    fn into_arguments(self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if self.namespaces {
            arguments.push("--namespaces".into());
        }
        if self.network == Network::None {
            arguments.push("--no-network".into());
        }
        for (path, access) in self.accesses {
            arguments.extend([flag(access).into(), path.into_os_string()]);
        }
        arguments.extend(["--".into(), self.program]);
        arguments.extend(self.arguments);
        arguments
    }

    /// None if that is not what ralph starts itself with.
    #[cfg(any(target_os = "linux", test))]
    pub(super) fn from_arguments(
        mut arguments: impl Iterator<Item = OsString>,
    ) -> Option<Confinement> {
        let mut confinement = Confinement {
            namespaces: false,
            network: Network::Open,
            accesses: Vec::new(),
            program: OsString::new(),
            arguments: Vec::new(),
        };
        loop {
            let argument = arguments.next()?;
            match argument.to_str()? {
                "--namespaces" => confinement.namespaces = true,
                "--no-network" => confinement.network = Network::None,
                "--" => break,
                name => {
                    let access = ACCESSES.into_iter().find(|it| flag(*it) == name)?;
                    confinement.accesses.push((arguments.next()?.into(), access));
                }
            }
        }
        confinement.program = arguments.next()?;
        confinement.arguments = arguments.collect();
        Some(confinement)
    }
}

#[cfg(any(target_os = "linux", test))]
const ACCESSES: [Access; 5] =
    [Access::Write, Access::Read, Access::HiddenFile, Access::HiddenDirectory, Access::Veiled];

fn flag(access: Access) -> &'static str {
    match access {
        Access::Write => "--write",
        Access::Read => "--read",
        Access::HiddenFile => "--hide-file",
        Access::HiddenDirectory => "--hide-directory",
        Access::Veiled => "--veil",
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{invocation, policy, shown};
    use super::*;

    #[test]
    fn the_rules_are_the_policy() {
        let policy = Policy { network: Network::None, ..policy() };
        let wrapped = Invocation { program: "ralph".into(), ..wrap(true, &policy, invocation()) };
        insta::assert_snapshot!(shown(&wrapped), @"
        ralph __confine
        --namespaces
        --no-network
        --write /home/u/.cache
        --write /home/u/.claude
        --read /home/u/.claude/settings.json
        --hide-directory /home/u/.ssh
        --write /home/u/project
        --hide-file /home/u/project/.env
        --write /home/u/project/.git
        --read /home/u/project/.git/config
        --read /home/u/project/.git/hooks
        --read /home/u/project/.mcp.json
        --veil /home/u/project/.ralph
        --read /home/u/project/.ralph/features
        --write /home/u/project/.ralph/skills
        --write /tmp
        -- claude
        --print a b
        ");
    }

    #[test]
    fn what_was_asked_for_is_what_is_read() {
        let confinement = || Confinement {
            namespaces: true,
            network: Network::None,
            accesses: policy().accesses(),
            program: "--".into(),
            arguments: vec!["--namespaces".into(), "--".into()],
        };
        let read = Confinement::from_arguments(confinement().into_arguments().into_iter());
        assert_eq!(read, Some(confinement()));
    }

    #[test]
    fn anything_else_is_refused() {
        for arguments in
            [&["--write"][..], &["--write", "/tmp"], &["--odd", "/tmp", "--", "a"], &["--"]]
        {
            let arguments = arguments.iter().map(OsString::from);
            assert_eq!(Confinement::from_arguments(arguments), None);
        }
    }
}
