//! Holds a session so that it can't hurt what it should not touch. One policy, four back ends, each of
//! which turns what to start into what to start instead; nothing is started here.

mod bwrap;
mod cage;
mod choose;
#[cfg(target_os = "linux")]
mod confine;
mod docker;
mod explain;
mod git;
mod landlock;
#[cfg(target_os = "linux")]
mod namespace;
mod placeholders;
mod places;
mod policy;
mod probe;
mod rules;
mod seatbelt;
#[cfg(test)]
mod testing;
mod within;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;

pub use cage::{Cage, Held, Stance};
pub use choose::{Choice, Here, Landlock, choose};
#[cfg(target_os = "linux")]
pub(super) use confine::confine;
pub use landlock::CONFINE;
pub use placeholders::Placeholders;
pub use places::Places;
pub use policy::{Access, Hidden, Policy, Protected, Standin, State, Veiled};
pub(super) use within::agent_of;

#[cfg(test)]
use super::claude::Stdin;
use super::claude::{Invocation, Permission};
use super::process::own_file;

/// What a session in a sandbox does not get of our environment: by these, programs find what runs
/// outside and does as it is told.
const DOORBELLS: [&str; 7] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "STY",
    "TMUX",
    "TMUX_PANE",
    "WAYLAND_DISPLAY",
];

/// What holds a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sandbox {
    /// Bubblewrap.
    Bwrap {
        /// Where it is.
        program: PathBuf,
    },
    /// Landlock, in this program.
    Landlock {
        /// The version of its interface.
        version: u32,
        /// With namespaces, in which also what lies inside something writable can be protected.
        namespaces: bool,
    },
    /// The sandbox of macOS.
    Seatbelt,
    /// A Docker sandbox.
    Docker {
        /// The image it starts from.
        template: String,
    },
}

impl Sandbox {
    /// Makes ready what the sandbox needs. What is returned must live as long as the session, and be
    /// dropped before anybody looks whether the project has changed.
    pub fn prepare(&self, policy: &Policy) -> Result<Placeholders> {
        match self {
            Sandbox::Bwrap { .. } | Sandbox::Landlock { namespaces: true, .. } => {
                Placeholders::put(policy)
            }
            Sandbox::Landlock { namespaces: false, .. }
            | Sandbox::Seatbelt
            | Sandbox::Docker { .. } => Ok(Placeholders::default()),
        }
    }

    /// Whether the agent that is started is not the one of this machine.
    pub fn has_its_own_agent(&self) -> bool {
        matches!(self, Sandbox::Docker { .. })
    }

    /// What to start so that `invocation` runs in the sandbox.
    pub fn wrap(&self, policy: &Policy, invocation: Invocation) -> Invocation {
        let invocation = told(policy, invocation);
        match self {
            Sandbox::Bwrap { program } => {
                let own = own_file().filter(|own| own.is_file() && !policy.hides(own));
                bwrap::wrap(program, own.as_deref(), policy, invocation)
            }
            Sandbox::Landlock { namespaces, .. } => landlock::wrap(*namespaces, policy, invocation),
            Sandbox::Seatbelt => seatbelt::wrap(policy, invocation),
            Sandbox::Docker { template } => docker::wrap(template, policy, invocation),
        }
    }
}

impl Choice {
    /// What an agent may do without asking: everything where something holds it, else these tools.
    pub fn permission(&self, allowed_tools: &[String]) -> Permission {
        match self.sandbox {
            Some(_) => Permission::Everything,
            None => Permission::Tools(allowed_tools.to_vec()),
        }
    }
}

/// The agent refuses to work for root unless it is told that something holds it.
fn told(policy: &Policy, mut invocation: Invocation) -> Invocation {
    if policy.as_root {
        invocation.variables.push(("IS_SANDBOX", "1".into()));
    }
    invocation.removed.extend(DOORBELLS.map(OsString::from));
    invocation
}

#[cfg(test)]
mod tests {
    use super::testing::{invocation, policy};
    use super::*;

    fn every_sandbox() -> [Sandbox; 5] {
        [
            Sandbox::Bwrap { program: "/usr/bin/bwrap".into() },
            Sandbox::Landlock { version: 7, namespaces: true },
            Sandbox::Landlock { version: 7, namespaces: false },
            Sandbox::Seatbelt,
            Sandbox::Docker { template: "image".into() },
        ]
    }

    #[test]
    fn only_root_has_to_be_told_that_it_is_held() {
        for sandbox in every_sandbox() {
            for as_root in [false, true] {
                let wrapped = sandbox.wrap(&Policy { as_root, ..policy() }, invocation());
                let is_told = wrapped.variables.iter().any(|(name, _)| *name == "IS_SANDBOX");
                assert_eq!(is_told, as_root, "{sandbox:?}");
            }
        }
    }

    #[test]
    fn the_rest_of_an_invocation_stays() {
        for sandbox in every_sandbox() {
            let stdin = Stdin::File("/tmp/prompt".into());
            let invocation = Invocation { stdin, ..invocation() };
            let wrapped = sandbox.wrap(&policy(), invocation.clone());
            if !matches!(sandbox, Sandbox::Docker { .. }) {
                assert_eq!(wrapped.stdin, invocation.stdin);
            }
            assert_eq!(wrapped.directory, invocation.directory);
            assert_eq!(wrapped.variables, invocation.variables);
            assert!(wrapped.removed.contains(&"TMUX".into()));
        }
    }

    #[test]
    fn only_who_is_held_may_do_everything() {
        let tools = ["Read".to_owned()];
        let choice = |sandbox| Choice { sandbox, message: String::new() };
        assert_eq!(choice(Some(Sandbox::Seatbelt)).permission(&tools), Permission::Everything);
        assert_eq!(choice(None).permission(&tools), Permission::Tools(tools.to_vec()));
    }
}
