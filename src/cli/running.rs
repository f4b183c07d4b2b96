//! What `ralph run` and `ralph loop` have in common: who holds the sessions, who watches, and how it
//! ends.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::args::{PtyArgs, RunFormat, SandboxArgs, ShowArgs};
use super::exit::Exit;
use super::keyboard::Keyboard;
use super::notify::{Notifier, Notifying};
use super::session::{absolute, found};
use super::setup::Setup;
use super::stdout::{Heard, Printed, is_broken_pipe};
use super::{described, exit_of, report};
use crate::agent::sandbox::{Cage, Here, choose};
use crate::agent::{self, ClaudeHome, Mailbox, Program, Servers};
use crate::dag::{Bill, RunId};
use crate::engine::{
    AgentPlan, Clock, Finished, Places, RunEnd, TerminalPlan, Totals, TreeHeld, TreeLock,
    forward_signals,
};
use crate::event::{Event, Problem, Stamped, Summary, View};
use crate::hint::HintExt;
use crate::project::{CLAUDE_SETTINGS, DIRECTORY, IGNORED, Project};
use crate::settings::{Backend, Flag, Settings};
use crate::time::Timestamp;
use crate::ui::Terminal;
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
    let logs = match &settings.log_dir {
        Some(directory) => agent::log::Logs::at(root.join(directory)),
        None => agent::log::Logs::of_project(&setup.state(), &root),
    };
    Ok(Places {
        database: absolute(&setup.environment.db().unwrap_or_else(|| project.database()))?,
        prompts: project.prompts(),
        skills: project.skills(),
        pause: project.pause(),
        // `ralph init --hooks` writes it, and Claude Code, which keeps it out of repositories itself.
        own: vec![root.join(CLAUDE_SETTINGS)],
        ignored: IGNORED,
        logs,
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
        own_rules: claude_home(setup).directory(),
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
    let interactive = settings.pty_interactive;
    if let Some(reason) = why_headless(interactive, show) {
        setup.say(&format!("PTY mode requested but {reason}, falling back to headless"));
        return None;
    }
    let environment = &setup.environment;
    let usual_size = (environment.lines().unwrap_or(24), environment.columns().unwrap_or(80));
    Some(TerminalPlan { interactive, idle: settings.idle_timeout, usual_size })
}

/// Why an agent can't have a terminal of its own; none if it can.
fn why_headless(interactive: bool, show: &ShowArgs) -> Option<&'static str> {
    if !io::stdout().is_terminal() {
        return Some("stdout is not a TTY");
    }
    if show.headless || show.format != RunFormat::Text {
        return Some("the output is not for a person");
    }
    let has_keys = io::stdin().is_terminal();
    if interactive && !has_keys {
        return Some("stdin is not a TTY");
    }
    (has_keys && !agent::is_in_foreground()).then_some("ralph is in the background")
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
    Servers::choose(&settings.agent.mcp, root, &claude_home(setup))
}

/// Where Claude Code keeps its settings, logins and transcripts.
pub(super) fn claude_home(setup: &Setup) -> ClaudeHome {
    let place = |name: &str| setup.environment.var(name).map(PathBuf::from);
    let home = place("HOME").unwrap_or("/".into());
    ClaudeHome::new(&home, place("CLAUDE_CONFIG_DIR").as_deref())
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
        logs: places.logs.directory().to_owned(),
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

/// The person or program that watches a run.
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
        next: impl FnOnce(&RunEnd, &Totals) -> Option<String>,
        engine: impl FnOnce(&Mailbox, &Clock, &mut dyn View) -> Result<Finished>,
    ) -> Result<Exit> {
        let finished = self.let_run(next, engine)?;
        // The screen and the keyboard are as they were.
        Ok(finished.unwrap_or_else(|error| report(&error, self.setup)))
    }

    /// The same, but for the words on stderr if an error broke it off.
    fn let_run(
        &self,
        next: impl FnOnce(&RunEnd, &Totals) -> Option<String>,
        engine: impl FnOnce(&Mailbox, &Clock, &mut dyn View) -> Result<Finished>,
    ) -> Result<Result<Exit>> {
        let clock = self.setup.clock();
        let mailbox = Mailbox::new();
        let listens = self.keys_are_ours && is_watched(self.show);
        let keyboard = listens.then(|| Keyboard::listen(&self.places.pause)).transpose()?;
        match &keyboard {
            Some(keyboard) => {
                forward_signals(&mailbox, self.keys_are_ours, keyboard.restorer())?;
            }
            None => forward_signals(&mailbox, self.keys_are_ours, agent::leave_raw_mode)?,
        }
        let notifier = Notifier::new(self.settings.notify.command.clone(), self.setup);
        let view = view(self.show, self.setup, &self.places.root);
        let mut view = Notifying { view, notifier };
        let finished = engine(&mailbox, &clock, &mut view)?;
        let run = Some(finished.run);
        let (end, summary) = self.sum_up(finished, next);
        let told = match (&end, self.show.format) {
            // A person reads it on stderr.
            (Err(_), RunFormat::Text) => {
                view.notifier.notify(summary.outcome, &summary.message);
                Ok(())
            }
            (
                Err(_) | Ok(RunEnd::Refused(_) | RunEnd::RedBaseline { .. } | RunEnd::Breaker(_)),
                _,
            ) => tell_failure(&mut view, &summary, run, clock.now()),
            (Ok(_), _) => tell(&mut view, &Event::Complete(&summary), run, clock.now()),
        };
        let exit = end.map(|end| exit(&end));
        Ok(match (exit, told) {
            (Err(error), _) => Err(error),
            // The run was over: only its last words could not be written.
            (Ok(exit), Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(exit),
            (Ok(exit), told) => told.map(|()| exit).map_err(anyhow::Error::from),
        })
    }

    /// How a run ended, and what it came to.
    fn sum_up(
        &self,
        finished: Finished,
        next: impl FnOnce(&RunEnd, &Totals) -> Option<String>,
    ) -> (Result<RunEnd>, Summary) {
        let Finished { end, totals, .. } = finished;
        let end = found(end);
        let (outcome, exit, message, next) = match &end {
            Ok(end) => (end.name(), exit(end), end.to_string(), next(end, &totals)),
            Err(error) => ("error", exit_of(error), described(error, self.setup).0, None),
        };
        let summary = Summary {
            outcome,
            exit_code: exit.code(),
            next,
            message,
            tasks: finished.progress,
            iterations: finished.iterations,
            results: totals.results,
            diff: totals.diff,
            bill: Bill { cost_usd: finished.cost_usd, ..totals.bill },
            duration_secs: finished.duration.as_secs_f64(),
        };
        (end, summary)
    }
}

/// Tells a program that reads events or the summary of an error that came before the run had begun.
pub(super) fn tell_early_error(
    result: Result<Exit>,
    show: &ShowArgs,
    setup: &Setup,
) -> Result<Exit> {
    if let Err(error) = &result
        && show.format != RunFormat::Text
        && !is_broken_pipe(error)
    {
        let summary = Summary {
            outcome: "error",
            exit_code: exit_of(error).code(),
            message: described(error, setup).0,
            ..Summary::default()
        };
        let mut view = view(show, setup, Path::new(""));
        // If it can't be written: the words are on stderr as well.
        let _ = tell_failure(&mut *view, &summary, None, Timestamp::now());
    }
    result
}

fn tell(
    view: &mut dyn View,
    event: &Event<'_>,
    run: Option<RunId>,
    ts: Timestamp,
) -> io::Result<()> {
    view.event(&Stamped { ts, run, event })
}

/// Tells what went wrong, and that it ended the run.
fn tell_failure(
    view: &mut dyn View,
    summary: &Summary,
    run: Option<RunId>,
    ts: Timestamp,
) -> io::Result<()> {
    let error = Event::Error(Problem { message: &summary.message, fatal: true });
    tell(view, &error, run, ts)?;
    tell(view, &Event::Complete(summary), run, ts)
}

/// Whether a person watches on a terminal and has a keyboard.
pub(super) fn is_watched(args: &ShowArgs) -> bool {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    has_terminal && !args.headless && args.format == RunFormat::Text
}

fn view(args: &ShowArgs, setup: &Setup, root: &Path) -> Box<dyn View> {
    let out = Printed(Heard(io::stdout()));
    match args.format {
        RunFormat::Text => {
            let terminal = setup.terminal();
            let status_line = !args.headless && terminal.colour && io::stdout().is_terminal();
            let options = RunViewOptions { timestamps: args.timestamps, status_line };
            let environment = setup.environment.clone();
            let view = RunView::new(io::BufWriter::new(out), terminal, root, options)
                .warning_on(Box::new(io::stderr()), setup.stderr())
                .following(move || Terminal::stdout(&environment))
                .unless(agent::is_in_background);
            Box::new(view)
        }
        RunFormat::Jsonl => Box::new(JsonLines::new(io::BufWriter::new(out))),
        RunFormat::Json => Box::new(JsonSummary::new(out)),
    }
}

/// How the program ends when a run has ended like this.
fn exit(end: &RunEnd) -> Exit {
    match end {
        RunEnd::Done | RunEnd::Signalled(_) => Exit::Done,
        RunEnd::Failed
        | RunEnd::Failure
        | RunEnd::Refused(_)
        | RunEnd::RedBaseline { .. }
        | RunEnd::Breaker(_) => Exit::Error,
        RunEnd::Limit(_) => Exit::Limit,
        RunEnd::Stuck(_) | RunEnd::Empty => Exit::Stuck,
        RunEnd::Interrupted | RunEnd::Stopped(_) | RunEnd::Unheard => Exit::Interrupted,
    }
}
