//! Sessions that a command starts by itself: a conversation at the terminal, or a piece of work that
//! is watched.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::geteuid;

use super::exit::Exit;
use super::running::servers;
use super::setup::Setup;
use crate::agent::{
    self, EndedBy, Invocation, Listener, Mailbox, Permission, Program, ProgramNotFound, Report,
    Scratch, Session,
};
use crate::engine::forward_signals;
use crate::event::AgentEvent;
use crate::hint::HintExt;
use crate::settings::Settings;
use crate::ui::run::waiting_for;
use crate::ui::session::SessionView;

/// A session that is ready to begin, with its files.
pub(super) struct Conversation {
    session: Session,
    settings: Settings,
    scratch: Scratch,
}

impl Conversation {
    /// Prepares a session in the project that is told `system`.
    pub(super) fn new(setup: &Setup, system: &str, model: Option<String>) -> Result<Conversation> {
        let settings = setup.settings()?.settings;
        let scratch = Scratch::new(&setup.temporary())?;
        let (path, project) = (setup.session_path()?, setup.project()?);
        let session = Session {
            program: Program::parse(&settings.agent.command, &path, project.root())?,
            directory: project.root().to_owned(),
            system_prompt: Some(scratch.write("system.md", system)?),
            scratch: Some(scratch.path().to_owned()),
            model,
            path,
            database: Some(absolute(&setup.database_path()?)?),
            attempt: None,
            iteration: None,
            background_tasks: settings.agent.background_tasks,
            budget_usd: None,
            servers: servers(&settings, project.root(), setup)?.write(&scratch)?,
        };
        Ok(Conversation { session, settings, scratch })
    }

    /// Leaves the terminal to Claude, which speaks first; says how it ended if that was not well.
    pub(super) fn hold(&self, opening: &str, setup: &Setup) -> Result<Exit> {
        let back = found(agent::hand_over(&self.session.interview(opening)))?;
        let program = &self.settings.agent.command;
        match back.exit {
            _ if back.told_to_end => return Ok(Exit::Interrupted),
            agent::Exit::Code(0) => return Ok(Exit::Done),
            agent::Exit::Code(code) => setup.say(&format!("`{program}` ended with code {code}")),
            agent::Exit::Signal(signal) => {
                setup.say(&format!("`{program}` was ended by signal {signal}"));
            }
        }
        Ok(Exit::Error)
    }

    /// Has Claude work on `message` alone, and shows what it does on `out`.
    pub(super) fn build(
        &self,
        message: &str,
        setup: &Setup,
        out: &mut dyn Write,
    ) -> Result<Report> {
        let prompt = self.scratch.write("prompt.md", message)?;
        let invocation = self.session.build(prompt, &self.permission(setup));
        self.watch(&invocation, setup, out)
    }

    /// As root Claude refuses to skip its permissions, unless it believes that something holds it.
    fn permission(&self, setup: &Setup) -> Permission {
        if geteuid().is_root() && setup.environment.var("IS_SANDBOX").is_none() {
            Permission::Tools(self.settings.agent.allowed_tools.clone())
        } else {
            Permission::Everything
        }
    }

    fn watch(&self, invocation: &Invocation, setup: &Setup, out: &mut dyn Write) -> Result<Report> {
        let mailbox = Mailbox::new();
        forward_signals(&mailbox, true, || {})?;
        let limits = agent::Limits {
            silence: self.settings.agent.silence_timeout,
            exit_grace: self.settings.agent.exit_grace,
            deadline: None,
        };
        let view = SessionView::new(setup.terminal(), &self.session.directory);
        let program = self.session.program.called();
        let mut screen = Screen { view, out, setup, program };
        found(agent::converse(invocation, limits, &mailbox, &mut std::io::sink(), &mut screen))
    }
}

/// Whether a person ended the session.
pub(super) fn was_interrupted(report: &Report) -> bool {
    report.ended_by == EndedBy::Request
}

/// Shows a session. Work goes on if nobody looks any more.
struct Screen<'a> {
    view: SessionView,
    out: &'a mut dyn Write,
    setup: &'a Setup,
    /// What the agent is called.
    program: String,
}

impl Listener for Screen<'_> {
    fn event(&mut self, event: &AgentEvent<'_>) {
        let _ = self.view.show(self.out, event);
    }

    fn caught_up(&mut self) {
        let _ = self.out.flush();
    }

    fn interrupted(&mut self) {
        let _ = self.view.close(self.out).and_then(|()| self.out.flush());
        self.setup.say(&waiting_for(&self.program));
    }
}

/// Says what to do when there is no agent.
pub(super) fn found<T>(result: Result<T>) -> Result<T> {
    match result {
        Err(error) if error.is::<ProgramNotFound>() => Err(error).hint(ProgramNotFound::HINT),
        result => result,
    }
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("can't tell where `{}` is", path.display()))
}
