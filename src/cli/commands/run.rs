//! `ralph run`

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::agent::sandbox::{Cage, Here, choose};
use crate::agent::{self, Mailbox};
use crate::cli::args::{RunArgs, RunFormat};
use crate::cli::exit::Exit;
use crate::cli::keyboard::Keyboard;
use crate::cli::notify::{Notifier, Notifying};
use crate::cli::session::{absolute, found};
use crate::cli::setup::{Refused, Setup};
use crate::dag::TaskId;
use crate::engine::{
    self, AgentPlan, Bounds, Clock, Finished, Places, Plan, RunEnd, Strategy, TreeHeld, TreeLock,
    VerifyPlan, forward_signals,
};
use crate::event::{Event, Problem, Stamped, Summary, View};
use crate::hint::HintExt;
use crate::settings::{self, Backend, Flag, Settings};
use crate::store::{Store, Target};
use crate::time::Timestamp;
use crate::ui::records::{JsonLines, JsonSummary};
use crate::ui::run::{RunView, RunViewOptions};
use crate::ui::text::printable_lines;

pub(super) fn run(args: &RunArgs, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let mut settings = setup.settings_with(&flags(args))?.settings;
    settings.sandbox.allow.extend(args.sandbox.allow.iter().cloned());
    let mut store = setup.store()?;
    let target = match &args.target {
        Some(text) => store.target(text)?,
        None => Target::Everything,
    };
    let plan = plan(args, &settings, target, setup)?;
    let clock = setup.clock();
    if args.dry_run {
        return dry_run(store, &plan, &clock, setup, out);
    }
    let lock = take_tree(&plan)?;
    reset_failed(args, &mut store, &plan.target, setup)?;
    let mailbox = Mailbox::new();
    let keyboard = is_watched(args).then(|| Keyboard::listen(&plan.places.pause)).flatten();
    match &keyboard {
        Some(keyboard) => forward_signals(&mailbox, keyboard.restorer())?,
        None => forward_signals(&mailbox, || {})?,
    }
    let mut view = Notifying {
        view: view(args, setup, &plan),
        notifier: Notifier::new(settings.notify.command, setup),
    };
    let finished = found(engine::run(store, &plan, &lock, &mailbox, &clock, &mut view));
    let finished = match finished {
        Ok(finished) => finished,
        Err(error) => {
            drop(view);
            drop(keyboard);
            return Err(error);
        }
    };
    let exit = exit(&finished.end);
    conclude(&finished, exit, args, &clock, &mut view)?;
    Ok(exit)
}

/// The settings that the flags of a run stand for.
fn flags(args: &RunArgs) -> Vec<Flag> {
    let mut flags = Vec::new();
    let mut add = |flag: Option<Flag>| flags.extend(flag);
    add(args.max_iterations.map(|it| Flag::new("--limit", "run.max_iterations", i64::from(it))));
    add(args.once.then(|| Flag::new("--once", "run.max_iterations", 1)));
    add(args.max_time.as_deref().map(|it| Flag::new("--max-time", "run.max_time", it)));
    add(args.max_cost.map(|it| Flag::new("--max-cost", "run.max_cost", it)));
    add(args.model.as_deref().map(|it| Flag::new("--model", "run.model", it)));
    add(args.strategy.as_deref().map(|it| Flag::new("--strategy", "run.strategy", it)));
    add(args.max_retries.map(|it| Flag::new("--max-retries", "max_retries", i64::from(it))));
    add(args.no_verify.then(|| Flag::new("--no-verify", "verify.agent", false)));
    add(args.sandbox.sandbox.as_deref().map(|it| Flag::new("--sandbox", "sandbox.backend", it)));
    add(args.sandbox.no_sandbox.then(|| Flag::new("--no-sandbox", "sandbox.backend", "none")));
    add(args.learn.then(|| Flag::new("--learn", "learn", true)));
    add(args.auto_push.then(|| Flag::new("--auto-push", "auto_push", true)));
    flags
}

fn plan(args: &RunArgs, settings: &Settings, target: Target, setup: &Setup) -> Result<Plan> {
    let project = setup.project()?;
    let root = project.root().to_owned();
    let temporary = setup.temporary();
    let logs = settings.log_dir.clone().unwrap_or_else(|| agent::log::directory(&temporary, &root));
    let logs = root.join(logs);
    Ok(Plan {
        target,
        bounds: Bounds {
            iterations: settings.run.max_iterations,
            time: settings.run.max_time,
            cost: settings.run.max_cost,
        },
        strategy: strategy(args, settings)?,
        max_retries: settings.max_retries,
        verify: VerifyPlan {
            agent: settings.verify.agent,
            commands: settings.verify.commands.clone(),
            timeout: settings.verify.timeout,
        },
        learn: settings.learn,
        auto_push: settings.auto_push,
        git_stats: settings.git_stats,
        agent: AgentPlan {
            program: settings.agent.command.clone().into(),
            path: setup.session_path()?,
            cage: cage(settings, &logs, setup)?,
            allowed_tools: settings.agent.allowed_tools.clone(),
            background_tasks: settings.agent.background_tasks,
            silence: settings.agent.silence_timeout,
            exit_grace: settings.agent.exit_grace,
        },
        places: Places {
            database: absolute(&setup.database_path()?)?,
            prompts: project.prompts(),
            skills: project.skills(),
            pause: project.pause(),
            logs,
            root,
            temporary,
        },
    })
}

/// What holds the sessions of a run here.
fn cage(settings: &Settings, logs: &Path, setup: &Setup) -> Result<Cage> {
    let path = setup.environment.var("PATH").unwrap_or_default();
    let choice = match settings.sandbox.backend {
        // There is no need to look.
        Backend::None => choose(&settings.sandbox, &Here::nothing())?,
        _ => choose(&settings.sandbox, &Here::look(&path))?,
    };
    let home = setup.environment.var("HOME").map_or("/".into(), PathBuf::from);
    let temporary = [setup.temporary(), "/tmp".into(), "/var/tmp".into()];
    Ok(Cage {
        choice,
        settings: settings.sandbox.clone(),
        learn: settings.learn,
        home,
        temporary: temporary.into(),
        runtime: setup.environment.var("XDG_RUNTIME_DIR").map(PathBuf::from),
        database: absolute(&setup.database_path()?)?,
        logs: logs.to_owned(),
    })
}

fn strategy(args: &RunArgs, settings: &Settings) -> Result<Strategy> {
    // A model that is named is the model; unless a strategy is named on the same command line.
    if let Some(model) = &settings.run.model
        && (args.model.is_some() || args.strategy.is_none())
    {
        return Ok(Strategy::Fixed(model.clone()));
    }
    match settings.run.strategy {
        settings::Strategy::Fixed => Err(anyhow!("the strategy `fixed` needs a model"))
            .hint("name one with --model, or choose another strategy"),
        settings::Strategy::CostOptimized => Ok(Strategy::CostOptimized),
        settings::Strategy::Escalate => Ok(Strategy::Escalate),
        settings::Strategy::PlanThenExecute => Ok(Strategy::PlanThenExecute),
    }
}

fn take_tree(plan: &Plan) -> Result<TreeLock> {
    let note = plan.places.root.join(crate::project::DIRECTORY).join("run.json");
    match TreeLock::take(&plan.places.root, note) {
        Err(error) if error.is::<TreeHeld>() => {
            Err(error).hint("wait for it, end it, or use another working tree (`git worktree add`)")
        }
        taken => taken,
    }
}

/// Puts back what an earlier run left failed, if that is wanted.
fn reset_failed(args: &RunArgs, store: &mut Store, target: &Target, setup: &Setup) -> Result<()> {
    let failed = store.counts(target)?.failed;
    if failed == 0 {
        return Ok(());
    }
    let tasks = if failed == 1 { "1 task".to_owned() } else { format!("{failed} tasks") };
    if args.no_auto_reset {
        return Err(anyhow!(Refused::Question)
            .context(format!("{tasks} failed in an earlier run")))
        .hint("`ralph task reset ID` puts one back, --yes all of them");
    }
    let question = format!("{tasks} failed in an earlier run. Reset and try again?");
    if !setup.confirm(&question, args.yes || args.headless)? {
        return Ok(());
    }
    let reset = store.reset_failed(target, Timestamp::now())?;
    let ids: Vec<String> = reset.iter().map(TaskId::to_string).collect();
    setup.say(&format!("reset {}", ids.join(", ")));
    Ok(())
}

/// Whether a person watches the run on a terminal and has a keyboard.
fn is_watched(args: &RunArgs) -> bool {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    has_terminal && !args.headless && args.format == RunFormat::Text
}

fn view(args: &RunArgs, setup: &Setup, plan: &Plan) -> Box<dyn View> {
    let out = io::stdout();
    match args.format {
        RunFormat::Text => {
            let terminal = setup.terminal();
            let status_line = !args.headless && terminal.colour && io::stdout().is_terminal();
            let options = RunViewOptions { timestamps: args.timestamps, status_line };
            let out = io::BufWriter::new(out);
            Box::new(RunView::new(out, terminal, &plan.places.root, options))
        }
        RunFormat::Jsonl => Box::new(JsonLines::new(io::BufWriter::new(out))),
        RunFormat::Json => Box::new(JsonSummary::new(out)),
    }
}

/// How the program ends when a run has ended like this.
fn exit(end: &RunEnd) -> Exit {
    match end {
        // That nobody listens is no failure, as everywhere.
        RunEnd::Done | RunEnd::Unheard => Exit::Done,
        RunEnd::Failed | RunEnd::Failure | RunEnd::Refused(_) => Exit::Error,
        RunEnd::Limit(_) => Exit::Limit,
        RunEnd::Stuck(_) | RunEnd::Empty => Exit::Stuck,
        RunEnd::Interrupted => Exit::Interrupted,
    }
}

fn conclude(
    finished: &Finished,
    exit: Exit,
    args: &RunArgs,
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
        next: next(finished, args.target.as_deref()),
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

/// The next command to type.
fn next(finished: &Finished, target: Option<&str>) -> Option<String> {
    let again = target.map_or("ralph run".to_owned(), |target| format!("ralph run {target}"));
    let failed = finished.totals.results.iter().find(|it| it.status == crate::dag::Status::Failed);
    match &finished.end {
        RunEnd::Done | RunEnd::Unheard => None,
        RunEnd::Failed => Some(match failed {
            Some(result) => format!("ralph task show {}", result.task),
            None => "ralph status".to_owned(),
        }),
        RunEnd::Stuck(behind) => Some(match behind.first() {
            Some(task) => format!("ralph task show {task}"),
            None => "ralph status".to_owned(),
        }),
        RunEnd::Empty => Some("ralph task add TITLE, or ralph feature spec NAME".to_owned()),
        RunEnd::Limit(_) | RunEnd::Interrupted | RunEnd::Failure | RunEnd::Refused(_) => {
            Some(again)
        }
    }
}

fn dry_run(
    store: Store,
    plan: &Plan,
    clock: &Clock,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let Some(preview) = engine::preview(store, plan, clock)? else {
        setup.say("nothing is ready; `ralph status` says why");
        return Ok(Exit::Stuck);
    };
    let arguments: Vec<String> =
        preview.invocation.arguments.iter().map(|it| quoted(&it.to_string_lossy())).collect();
    let program = preview.invocation.program.to_string_lossy();
    writeln!(out, "task     {}  {}", preview.task, printable_lines(&preview.title))?;
    writeln!(out, "model    {}", printable_lines(&preview.model))?;
    writeln!(out, "command  {program} {} < SCRATCH/prompt.md", arguments.join(" "))?;
    writeln!(out, "\n--- SCRATCH/system.md\n{}", printable_lines(&preview.system))?;
    writeln!(out, "\n--- SCRATCH/prompt.md\n{}", printable_lines(&preview.prompt))?;
    Ok(Exit::Done)
}

/// An argument as a shell would need it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,=:@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}
