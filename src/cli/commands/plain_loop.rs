//! `ralph loop`

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::cli::args::{LoopArgs, RunFormat};
use crate::cli::exit::Exit;
use crate::cli::running::{Audience, agent_plan, places, pty_flags, sandbox_flags, take_tree};
use crate::cli::session::found;
use crate::cli::setup::Setup;
use crate::engine::{self, Bounds, LoopPlan, LoopPrompt};
use crate::hint::HintExt;
use crate::project::Project;
use crate::settings::{Flag, Settings};

pub(super) fn run(args: &LoopArgs, setup: &Setup) -> Result<Exit> {
    let settings = setup.settings_with(&flags(args))?.settings;
    // Anything is a project here, with or without `ralph init`.
    let here = setup.directory()?;
    let project = Project::find(&here).unwrap_or_else(|_| Project::at(&here));
    let places = places(&project, &settings, setup)?;
    let plan = LoopPlan {
        prompt: prompt(args, &settings, &here)?,
        loop_id: args.loop_id.clone(),
        completion_promise: settings.completion_promise.clone(),
        checklist: args.plan.clone(),
        passthrough: !settings.pty_mode && is_passthrough(args, setup),
        model: settings.run.model.clone(),
        auto_push: settings.auto_push,
        pause: settings.plain_loop.pause,
        bounds: Bounds {
            iterations: Some(iterations(args, &settings, setup)),
            time: settings.run.max_time,
            cost: settings.run.max_cost,
        },
        agent: agent_plan(&settings, &places, &args.sandbox, &args.show, setup)?,
        places: places.clone(),
        ring,
    };
    let lock = take_tree(&plan.places.root)?;
    let audience = Audience {
        show: &args.show,
        keys_are_ours: !plan.passthrough && plan.agent.terminal.is_none(),
        places: &places,
        settings: &settings,
        setup,
    };
    audience.watch(
        |_| None,
        |mailbox, clock, view| found(engine::run_loop(&plan, &lock, mailbox, clock, view)),
    )
}

/// The settings that the flags of a loop stand for.
fn flags(args: &LoopArgs) -> Vec<Flag> {
    let mut flags = sandbox_flags(&args.sandbox);
    flags.extend(pty_flags(&args.pty));
    let mut add = |flag: Option<Flag>| flags.extend(flag);
    let most = args.max_iterations;
    add(most.map(|it| Flag::new("--max-iterations", "loop.max_iterations", i64::from(it))));
    add(args.max_time.as_deref().map(|it| Flag::new("--max-time", "run.max_time", it)));
    add(args.max_cost.map(|it| Flag::new("--max-cost", "run.max_cost", it)));
    add(args.model.as_deref().map(|it| Flag::new("--model", "run.model", it)));
    add(args.auto_push.map(|it| Flag::new("--auto-push", "auto_push", it)));
    add(args.command.as_deref().map(|it| Flag::new("--command", "agent.command", it)));
    add(args.template.as_deref().map(|it| Flag::new("--template", "sandbox.template", it)));
    flags
}

/// What to say each time: a file where the words name one, else the words themselves.
fn prompt(args: &LoopArgs, settings: &Settings, here: &Path) -> Result<LoopPrompt> {
    if let Some(text) = &args.prompt_text {
        return Ok(LoopPrompt::Text(text.clone()));
    }
    let Some(words) = &args.prompt else {
        let file = &settings.prompt_file;
        if here.join(file).is_file() {
            return Ok(LoopPrompt::File(here.join(file)));
        }
        return Err(anyhow!("there is no prompt: `{}` does not exist", file.display())).hint(
            "write it, or name a file or the words themselves: ralph loop 5 \"fix the login bug\"",
        );
    };
    let file = here.join(words);
    Ok(if file.is_file() { LoopPrompt::File(file) } else { LoopPrompt::Text(words.clone()) })
}

/// How many iterations there will be at the most.
fn iterations(args: &LoopArgs, settings: &Settings, setup: &Setup) -> u32 {
    let most = settings.plain_loop.max_iterations;
    if args.iterations > most {
        setup.say(&format!(
            "Warning: Reducing iterations from {} to {most} (--max-iterations)",
            args.iterations
        ));
    }
    args.iterations.min(most)
}

/// Whether the agent gets the terminal itself; without one nobody could talk to it.
fn is_passthrough(args: &LoopArgs, setup: &Setup) -> bool {
    if args.afk || args.show.headless || args.show.format != RunFormat::Text {
        return false;
    }
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !has_terminal {
        setup.say("this is no terminal: going on as with --afk");
    }
    has_terminal
}

/// Asks for the person's attention.
fn ring() {
    let _ = io::stderr().write_all(b"\x07");
    #[cfg(target_os = "macos")]
    let _ = std::process::Command::new("afplay")
        .arg("/System/Library/Sounds/Blow.aiff")
        .stdin(std::process::Stdio::null())
        .spawn();
}
