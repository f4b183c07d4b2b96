//! What a run is to do, as data: everything a person can choose, already decided.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::model::Strategy;
use super::stop::Bounds;
use crate::agent::log::Logs;
use crate::agent::sandbox::Cage;
use crate::agent::{AttemptContext, Limits, Permission, Program, ServerFlags, Servers, Session};
use crate::event::Mode;
use crate::store::Target;

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it works on.
    pub target: Target,
    /// What it may use up.
    pub bounds: Bounds,
    /// How models are chosen.
    pub strategy: Strategy,
    /// How often to retry a failed task that has no limit of its own.
    pub max_retries: u32,
    /// How work is checked.
    pub verify: VerifyPlan,
    /// Whether a model that an agent asks for is used for the next iteration.
    pub hints: bool,
    /// Whether agents are asked to write down what they learned.
    pub learn: bool,
    /// Whether new commits are pushed after each iteration.
    pub auto_push: bool,
    /// Whether commits and changes are counted.
    pub git_stats: bool,
    /// How agents are started.
    pub agent: AgentPlan,
    /// Where things are.
    pub places: Places,
}

/// How work is checked.
#[derive(Debug, Clone)]
pub struct VerifyPlan {
    /// By a second agent.
    pub agent: bool,
    /// By these shell commands, before.
    pub commands: Vec<String>,
    /// How long each of them may take.
    pub timeout: Option<Duration>,
    /// What they must say before any work is done.
    pub baseline: Baseline,
}

/// What checks must say before any work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// They must pass.
    Green,
    /// They may fail; only failures that are new count later.
    KnownRed,
    /// They are not tried.
    Off,
}

/// How agents are started.
#[derive(Debug, Clone)]
pub struct AgentPlan {
    /// The program.
    pub program: Program,
    /// It is no agent that we know: it is called without arguments of ours, reads its prompt from stdin, and
    /// may print plain text.
    pub plain: bool,
    /// Its `PATH`.
    pub path: OsString,
    /// The MCP servers it has where it works alone.
    pub servers: Servers,
    /// Where the person keeps rules for it that are not the project's.
    pub own_rules: PathBuf,
    /// What holds it.
    pub cage: Cage,
    /// The tools it may use without asking where nothing holds it.
    pub allowed_tools: Vec<String>,
    /// Whether it may go on in the background after its answer.
    pub background_tasks: bool,
    /// How long it may show no sign of life.
    pub silence: Option<Duration>,
    /// How long its process may stay after its result.
    pub exit_grace: Duration,
    /// The terminal of its own that it gets, if it gets one.
    pub terminal: Option<TerminalPlan>,
}

/// A terminal of an agent's own, which the person sees.
#[derive(Debug, Clone, Copy)]
pub struct TerminalPlan {
    /// Whether the person's keys reach the agent.
    pub interactive: bool,
    /// How long neither may do anything.
    pub idle: Option<Duration>,
    /// Its rows and columns, if the person's terminal does not tell them.
    pub usual_size: (u16, u16),
}

/// Where things are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The project.
    pub root: PathBuf,
    /// The database.
    pub database: PathBuf,
    /// The user's own prompts.
    pub prompts: PathBuf,
    /// The skills.
    pub skills: PathBuf,
    /// The logs of sessions.
    pub logs: Logs,
    /// Files for a moment.
    pub temporary: PathBuf,
    /// While this file is there, the run pauses.
    pub pause: PathBuf,
    /// Files in the project that ralph or its agents write, and that are no work of a person.
    pub own: Vec<PathBuf>,
    /// The lines of `.gitignore` that ralph adds.
    pub ignored: &'static [&'static str],
}

impl AgentPlan {
    /// What the agent is called when ralph speaks of it: the name of its program.
    pub(super) fn name(&self) -> String {
        self.program.called()
    }

    /// What it may do without asking.
    pub(super) fn permission(&self) -> Permission {
        self.cage.permission(&self.allowed_tools)
    }

    /// How its sessions are shown where the agent does not have the person's own terminal.
    pub(super) fn mode(&self) -> Mode {
        match self.terminal {
            None => Mode::Afk,
            Some(TerminalPlan { interactive: true, .. }) => Mode::Pty,
            Some(TerminalPlan { interactive: false, .. }) => Mode::Observe,
        }
    }

    /// What a session may take that has this much time.
    pub(super) fn limits(&self, time_left: Option<Duration>) -> Limits {
        Limits {
            silence: self.silence,
            exit_grace: self.exit_grace,
            deadline: time_left.map(|left| Instant::now() + left),
        }
    }
}

impl Plan {
    /// A session with this system prompt, not started yet.
    pub(super) fn session(
        &self,
        system_prompt: PathBuf,
        scratch: PathBuf,
        model: &str,
        attempt: AttemptContext,
        iteration: u32,
        servers: ServerFlags,
    ) -> Session {
        Session {
            program: self.agent.program.clone(),
            directory: self.places.root.clone(),
            system_prompt: Some(system_prompt),
            reminder: None,
            scratch: Some(scratch),
            model: Some(model.to_owned()),
            path: self.agent.path.clone(),
            socket: None,
            attempt: Some(attempt),
            iteration: Some(iteration),
            background_tasks: self.agent.background_tasks,
            budget_usd: None,
            servers,
        }
    }
}
