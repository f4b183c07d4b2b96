//! Sessions that a command starts by itself: a conversation at the terminal, or a piece of work that
//! is watched.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::geteuid;

use super::exit::Exit;
use super::running::{claude_home, places, servers};
use super::setup::Setup;
use crate::agent::{
    self, EndedBy, Invocation, Listener, Mailbox, Permission, Program, ProgramNotFound, Report,
    Scratch, Session, usual_billing,
};
use crate::broker::Broker;
use crate::dag::{Bill, Feature, FeatureId, SessionKind};
use crate::engine::forward_signals;
use crate::event::AgentEvent;
use crate::hint::HintExt;
use crate::ops::Role;
use crate::settings::Settings;
use crate::store::{NewSession, Store};
use crate::time::Timestamp;
use crate::ui::run::waiting_for;
use crate::ui::session::SessionView;

/// A session that is ready to begin, with its files.
pub(super) struct Conversation {
    began: Timestamp,
    session: Session,
    settings: Settings,
    /// Answers `ralph` in it.
    _broker: Broker,
    scratch: Scratch,
}

impl Conversation {
    /// Prepares a session in the project that is told `system` and may do with tasks what its role says.
    pub(super) fn new(
        setup: &Setup,
        system: &str,
        model: Option<String>,
        role: Role,
    ) -> Result<Conversation> {
        let settings = setup.settings()?.settings;
        let scratch = Scratch::new(&setup.temporary())?;
        let broker = Broker::serve(scratch.path(), &absolute(&setup.database_path()?)?, role)?;
        let (path, project) = (setup.session_path()?, setup.project()?);
        let session = Session {
            program: Program::parse(&settings.agent.command, &path, project.root())?,
            directory: project.root().to_owned(),
            system_prompt: Some(scratch.write("system.md", system)?),
            reminder: None,
            scratch: Some(scratch.path().to_owned()),
            model,
            path,
            socket: Some(broker.socket().to_owned()),
            attempt: None,
            iteration: None,
            background_tasks: settings.agent.background_tasks,
            budget_usd: None,
            servers: servers(&settings, project.root(), setup)?.write(&scratch)?,
        };
        Ok(Conversation { began: Timestamp::now(), session, settings, _broker: broker, scratch })
    }

    /// Leaves the terminal to Claude, which speaks first; says how it ended if that was not well. What it
    /// has cost is recorded for the feature it was about.
    pub(super) fn hold(
        &self,
        opening: &str,
        feature: Option<FeatureId>,
        store: &mut Store,
        setup: &Setup,
    ) -> Result<Ending> {
        let name = agent::new_session_name();
        let session = NewSession {
            feature,
            model: self.session.model.clone(),
            session_id: Some(name.clone()),
            ..NewSession::new(SessionKind::Interview, self.began)
        };
        let id = store.begin_session(&session)?;
        let back = found(agent::hand_over(&self.session.interview(opening, &name)));
        match agent::bill_of_session(&claude_home(setup).directory(), &name) {
            Some(bill) => {
                let bill = Bill { billing: Some(usual_billing()), ..bill };
                store.end_session(id, &NewSession { bill, ..session }, Timestamp::now())?;
            }
            None => store.forget_session(id)?,
        }
        let back = back?;
        let interrupted = back.interrupted;
        let ending = |exit| Ok(Ending { exit, interrupted });
        let program = &self.settings.agent.command;
        match back.exit {
            _ if back.told_to_end => return ending(Exit::Interrupted),
            agent::Exit::Code(0) => return ending(Exit::Done),
            _ if interrupted => return ending(Exit::Interrupted),
            agent::Exit::Code(code) => setup.say(&format!("`{program}` ended with code {code}")),
            agent::Exit::Signal(signal) => {
                setup.say(&format!("`{program}` was ended by signal {signal}"));
            }
        }
        ending(Exit::Error)
    }

    /// Has Claude work on `message` alone, and shows what it does on `out`. What it has cost is recorded
    /// for the feature.
    pub(super) fn build(
        &self,
        message: &str,
        feature: &Feature,
        store: &mut Store,
        setup: &Setup,
        out: &mut dyn Write,
    ) -> Result<Report> {
        let prompt = self.scratch.write("prompt.md", message)?;
        let invocation = self.session.build(prompt, &self.permission(setup));
        let places = places(&setup.project()?, &self.settings, setup)?;
        let name = format!("{}-build", feature.id);
        let (path, mut log) = places.logs.create(&name, self.began)?;
        let session = NewSession {
            feature: Some(feature.id),
            model: self.session.model.clone(),
            log_path: Some(path.to_string_lossy().into_owned()),
            ..NewSession::new(SessionKind::Build, self.began)
        };
        let id = store.begin_session(&session)?;
        let report = self.watch(&invocation, &mut log, setup, out)?;
        let session = NewSession {
            model: report.facts.model.clone().or(session.model),
            bill: report.facts.bill,
            session_id: report.facts.session.clone(),
            ..session
        };
        store.end_session(id, &session, Timestamp::now())?;
        Ok(report)
    }

    /// As root Claude refuses to skip its permissions, unless it believes that something holds it.
    fn permission(&self, setup: &Setup) -> Permission {
        if geteuid().is_root() && setup.environment.var("IS_SANDBOX").is_none() {
            Permission::Tools(self.settings.agent.allowed_tools.clone())
        } else {
            Permission::Everything
        }
    }

    fn watch(
        &self,
        invocation: &Invocation,
        log: &mut dyn Write,
        setup: &Setup,
        out: &mut dyn Write,
    ) -> Result<Report> {
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
        found(agent::converse(invocation, limits, &mailbox, log, &mut screen))
    }
}

/// How a conversation at the terminal ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) exit: Exit,
    /// Whether Ctrl+C reached ralph, too. While Claude reads keys it does not: so this was before the
    /// conversation began, or Claude had given the terminal to another program.
    interrupted: bool,
}

impl Ending {
    /// The exit code of a command whose conversation has produced nothing.
    pub(super) fn with_nothing_made(self) -> Exit {
        match self.exit {
            Exit::Interrupted => Exit::Interrupted,
            _ if self.interrupted => Exit::Interrupted,
            _ => Exit::Error,
        }
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
