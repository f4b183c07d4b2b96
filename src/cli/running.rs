//! What `ralph run` and `ralph loop` have in common: who holds the sessions, who watches, and how it
//! ends.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::args::{PtyArgs, RunFormat, SandboxArgs, ShowArgs};
use super::exit::Exit;
use super::keyboard::Keyboard;
use super::notify::{Notifier, Notifying};
use super::session::absolute;
use super::setup::Setup;
use super::stdout::{Printed, is_broken_pipe};
use crate::agent::sandbox::{Cage, Here, choose};
use crate::agent::{self, ClaudeHome, Mailbox, Program, Servers};
use crate::engine::{
    AgentPlan, Clock, Finished, Places, RunEnd, TerminalPlan, TreeHeld, TreeLock, forward_signals,
};
use crate::event::{Event, Problem, Stamped, Summary, View};
use crate::hint::HintExt;
use crate::project::{DIRECTORY, Project};
use crate::settings::{Backend, Flag, Settings};
use crate::ui::records::{JsonLines, JsonSummary};
use crate::ui::run::{RunView, RunViewOptions};

/// The settings that the flags about sandboxes stand for; `--allow` adds to what is allowed.
pub(super) fn sandbox_flags(args: &SandboxArgs) -> Vec<Flag> {
    let named = args.sandbox.as_deref().map(|it| Flag::new("--sandbox", "sandbox.backend", it));
    let none = args.no_sandbox.then(|| Flag::new("--no-sandbox", "sandbox.backend", "none"));
    named.into_iter().chain(none).collect()
}

/// Where things are for sessions in this project.
pub(super) fn places(project: &Project, settings: &Settings, setup: &Setup) -> Result<Places> {
    let root = project.root().to_owned();
    let temporary = setup.temporary();
    let logs = settings.log_dir.clone().unwrap_or_else(|| agent::log::directory(&temporary, &root));
    Ok(Places {
        database: absolute(&setup.environment.db().unwrap_or_else(|| project.database()))?,
        prompts: project.prompts(),
        skills: project.skills(),
        pause: project.pause(),
        logs: root.join(logs),
        root,
        temporary,
    })
}

/// How agents are started here.
pub(super) fn agent_plan(
    settings: &Settings,
    places: &Places,
    sandbox: &SandboxArgs,
    show: &ShowArgs,
    setup: &Setup,
) -> Result<AgentPlan> {
    let path = setup.session_path()?;
    Ok(AgentPlan {
        program: Program::parse(&settings.agent.command, &path, &places.root)?,
        plain: false,
        servers: servers(settings, &places.root, setup)?,
        path,
        cage: cage(settings, places, sandbox, setup)?,
        allowed_tools: settings.agent.allowed_tools.clone(),
        background_tasks: settings.agent.background_tasks,
        silence: settings.agent.silence_timeout,
        exit_grace: settings.agent.exit_grace,
        terminal: terminal_plan(settings, show, setup),
    })
}

/// The terminal that agents get, if the settings say so and there is one to show it on.
fn terminal_plan(settings: &Settings, show: &ShowArgs, setup: &Setup) -> Option<TerminalPlan> {
    if !settings.pty_mode {
        return None;
    }
    if !is_watched(show) {
        setup.say("PTY mode was asked for, but this is no terminal: going on without");
        return None;
    }
    Some(TerminalPlan { interactive: settings.pty_interactive, idle: settings.idle_timeout })
}

/// The settings that the flags about terminals stand for.
pub(super) fn pty_flags(args: &PtyArgs) -> Vec<Flag> {
    let mut flags = Vec::new();
    let mut add = |wanted: bool, flag: fn() -> Flag| flags.extend(wanted.then(flag));
    add(args.pty, || Flag::new("--pty", "pty_mode", true));
    add(args.observe, || Flag::new("--observe", "pty_mode", true));
    add(args.observe, || Flag::new("--observe", "pty_interactive", false));
    add(args.no_pty, || Flag::new("--no-pty", "pty_mode", false));
    let idle = args.idle_timeout;
    flags.extend(idle.map(|it| Flag::new("--idle-timeout", "idle_timeout_secs", i64::from(it))));
    flags
}

/// The MCP servers of sessions here that work alone.
pub(super) fn servers(settings: &Settings, root: &Path, setup: &Setup) -> Result<Servers> {
    let place = |name: &str| setup.environment.var(name).map(PathBuf::from);
    let home = place("HOME").unwrap_or("/".into());
    let home = ClaudeHome::new(&home, place("CLAUDE_CONFIG_DIR").as_deref());
    Servers::choose(&settings.agent.mcp, root, &home)
}

/// What holds the sessions here.
fn cage(settings: &Settings, places: &Places, args: &SandboxArgs, setup: &Setup) -> Result<Cage> {
    let mut sandbox = settings.sandbox.clone();
    sandbox.allow.extend(args.allow.iter().cloned());
    let here = match sandbox.backend {
        // There is no need to look.
        Backend::None => Here::nothing(),
        _ => Here::look(&setup.environment.var("PATH").unwrap_or_default()),
    };
    Ok(Cage {
        choice: choose(&sandbox, &here)?,
        settings: sandbox,
        learn: settings.learn,
        home: setup.environment.var("HOME").map_or("/".into(), PathBuf::from),
        temporary: [places.temporary.clone(), "/tmp".into(), "/var/tmp".into()].into(),
        runtime: setup.environment.var("XDG_RUNTIME_DIR").map(PathBuf::from),
        database: places.database.clone(),
        logs: places.logs.clone(),
    })
}

/// Takes the working tree, or says who has it.
pub(super) fn take_tree(root: &Path) -> Result<TreeLock> {
    match TreeLock::take(root, root.join(DIRECTORY).join("run.json")) {
        Err(error) if error.is::<TreeHeld>() => {
            Err(error).hint("wait for it, end it, or use another working tree (`git worktree add`)")
        }
        taken => taken,
    }
}

/// Whoever watches a run.
pub(super) struct Audience<'a> {
    pub(super) show: &'a ShowArgs,
    /// Whether the keys are for ralph, and not for the agents.
    pub(super) keys_are_ours: bool,
    pub(super) places: &'a Places,
    pub(super) settings: &'a Settings,
    pub(super) setup: &'a Setup,
}

impl Audience<'_> {
    /// Lets `engine` run in front of it, tells how it ended and what comes `next`.
    pub(super) fn watch(
        &self,
        next: impl FnOnce(&Finished) -> Option<String>,
        engine: impl FnOnce(&Mailbox, &Clock, &mut dyn View) -> Result<Finished>,
    ) -> Result<Exit> {
        let clock = self.setup.clock();
        let mailbox = Mailbox::new();
        let listens = self.keys_are_ours && is_watched(self.show);
        let keyboard = listens.then(|| Keyboard::listen(&self.places.pause)).transpose()?;
        match &keyboard {
            Some(keyboard) => {
                forward_signals(&mailbox, self.keys_are_ours, keyboard.restorer())?;
            }
            None => forward_signals(&mailbox, self.keys_are_ours, || {})?,
        }
        let notifier = Notifier::new(self.settings.notify.command.clone(), self.setup);
        let view = view(self.show, self.setup, &self.places.root);
        let mut view = Notifying { view, notifier };
        let finished = engine(&mailbox, &clock, &mut view)?;
        let exit = exit(&finished.end);
        let next = next(&finished);
        match conclude(&finished, exit, next, &clock, &mut view) {
            // The run was over: only its last words could not be written.
            Err(error) if is_broken_pipe(&error) => Ok(exit),
            told => told.map(|()| exit),
        }
    }
}

/// Whether a person watches on a terminal and has a keyboard.
fn is_watched(args: &ShowArgs) -> bool {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    has_terminal && !args.headless && args.format == RunFormat::Text
}

fn view(args: &ShowArgs, setup: &Setup, root: &Path) -> Box<dyn View> {
    let out = Printed(io::stdout());
    match args.format {
        RunFormat::Text => {
            let terminal = setup.terminal();
            let status_line = !args.headless && terminal.colour && io::stdout().is_terminal();
            let options = RunViewOptions { timestamps: args.timestamps, status_line };
            Box::new(RunView::new(io::BufWriter::new(out), terminal, root, options))
        }
        RunFormat::Jsonl => Box::new(JsonLines::new(io::BufWriter::new(out))),
        RunFormat::Json => Box::new(JsonSummary::new(out)),
    }
}

/// How the program ends when a run has ended like this.
fn exit(end: &RunEnd) -> Exit {
    match end {
        RunEnd::Done | RunEnd::Signalled(_) => Exit::Done,
        RunEnd::Failed | RunEnd::Failure | RunEnd::Refused(_) => Exit::Error,
        RunEnd::Limit(_) => Exit::Limit,
        RunEnd::Stuck(_) | RunEnd::Empty => Exit::Stuck,
        RunEnd::Interrupted | RunEnd::Stopped(_) | RunEnd::Unheard => Exit::Interrupted,
    }
}

fn conclude(
    finished: &Finished,
    exit: Exit,
    next: Option<String>,
    clock: &Clock,
    view: &mut dyn View,
) -> Result<()> {
    let (ts, run) = (clock.now(), finished.run);
    let message = finished.end.to_string();
    if let RunEnd::Refused(_) = finished.end {
        let event = Event::Error(Problem { message: &message, fatal: true });
        view.event(&Stamped { ts, run, event: &event })?;
    }
    let totals = &finished.totals;
    let summary = Summary {
        outcome: finished.end.name(),
        exit_code: exit.code(),
        next,
        message,
        tasks: finished.progress,
        iterations: finished.iterations,
        results: totals.results.clone(),
        diff: totals.diff,
        cost_usd: finished.cost_usd,
        input_tokens: totals.input_tokens,
        output_tokens: totals.output_tokens,
        duration_secs: finished.duration.as_secs_f64(),
    };
    Ok(view.event(&Stamped { ts, run, event: &Event::Complete(&summary) })?)
}
