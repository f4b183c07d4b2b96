//! The sandbox of a run: chosen once, and put around each of its sessions as the project is then.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::claude::{Invocation, Permission};
use super::super::process::{ProgramNotFound, find_program};
use super::Sandbox;
use super::choose::Choice;
use super::explain::explain;
use super::placeholders::Placeholders;
use super::places::Places;
use super::policy::Policy;
use crate::settings::SandboxSettings;

/// What holds the sessions of a run.
#[derive(Debug, Clone)]
pub struct Cage {
    /// What was chosen.
    pub choice: Choice,
    /// What it is to allow and to deny.
    pub settings: SandboxSettings,
    /// Whether sessions may write skills.
    pub learn: bool,
    /// The home of the user.
    pub home: PathBuf,
    /// Directories for temporary files.
    pub temporary: Vec<PathBuf>,
    /// Where the programs of the user's login have their sockets.
    pub runtime: Option<PathBuf>,
    /// The database that `ralph` inside the session works on.
    pub database: PathBuf,
    /// Where session logs go.
    pub logs: PathBuf,
}

/// What a session is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stance {
    /// To work on the project.
    Working,
    /// To look at it, and write nothing into it.
    OnlyLooking,
    /// To work on it, with a terminal.
    AtTheTerminal,
}

/// A session that is held. It must be dropped before anybody looks whether the project has changed.
#[derive(Debug)]
pub struct Held {
    /// What to start.
    pub invocation: Invocation,
    /// What can't be protected because it is a symbolic link.
    pub links: Vec<PathBuf>,
    _placeholders: Placeholders,
}

impl Cage {
    /// Whether sessions run on a machine of their own, with an agent that this machine need not have.
    pub fn has_its_own_agent(&self) -> bool {
        self.choice.sandbox.as_ref().is_some_and(Sandbox::has_its_own_agent)
    }

    /// What an agent may do without asking.
    pub fn permission(&self, allowed_tools: &[String]) -> Permission {
        self.choice.permission(allowed_tools)
    }

    /// What a session is told of what holds it. It is the same for all sessions of a run.
    pub fn explain(&self, stance: Stance) -> String {
        explain(self, stance == Stance::OnlyLooking)
    }

    /// Puts the cage around a session.
    pub fn hold(&self, mut invocation: Invocation, stance: Stance) -> Result<Held> {
        let Some(sandbox) = &self.choice.sandbox else {
            let _placeholders = Placeholders::default();
            return Ok(Held { invocation, links: Vec::new(), _placeholders });
        };
        // Inside the sandbox a missing program would not be told. A machine of its own has its own agent.
        if !sandbox.has_its_own_agent() {
            let path = invocation.variables.iter().find(|(name, _)| *name == "PATH");
            let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
            let program = find_program(&invocation.program, &path, &invocation.directory)
                .ok_or_else(|| ProgramNotFound { program: invocation.program.clone() })?;
            invocation.program = program.into();
        }
        let places = Places {
            project: &invocation.directory,
            home: &self.home,
            temporary: self.temporary.clone(),
            runtime: self.runtime.clone(),
            database: &self.database,
            logs: &self.logs,
        };
        let mut policy = Policy::new(&places, &self.settings, self.learn)?;
        match stance {
            Stance::Working => {}
            Stance::OnlyLooking => policy = policy.looking_only(),
            Stance::AtTheTerminal => policy.terminal = true,
        }
        let links = policy.links().map(Path::to_owned).collect();
        let _placeholders = sandbox.prepare(&policy)?;
        Ok(Held { invocation: sandbox.wrap(&policy, invocation), links, _placeholders })
    }
}
