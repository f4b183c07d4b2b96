//! `ralph run`

use std::io::Write;

use anyhow::{Result, anyhow};

use crate::agent::Trouble;
use crate::cli::args::RunArgs;
use crate::cli::exit::Exit;
use crate::cli::running::{
    Audience, agent_plan, is_watched, places, pty_flags, sandbox_flags, take_tree,
};
use crate::cli::setup::{Refused, Setup};
use crate::cli::tree::{Leave, ask_for_tree};
use crate::dag::{Status, TaskId};
use crate::engine::{self, Baseline, Bounds, Common, Plan, RunEnd, Strategy, Totals, VerifyPlan};
use crate::hint::{HintExt, quoted};
use crate::settings::{self, Flag, Settings};
use crate::store::{Store, Target};
use crate::time::Timestamp;
use crate::ui::text::printable_lines;

pub(super) fn run(args: &RunArgs, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let settings = setup.settings_with(&flags(args))?.settings;
    let mut store = setup.store()?;
    let target = match &args.target {
        Some(text) => store.target(text)?,
        None => Target::Everything,
    };
    let mut plan = plan(args, &settings, target, setup)?;
    if args.dry_run {
        return dry_run(store, &plan, setup, out);
    }
    let lock = take_tree(&plan.places.root)?;
    for note in engine::salvage_crash(Some(&store), &plan.places)? {
        setup.say(&format!("note: {note}"));
    }
    let allow_dirty = settings.run.allow_dirty;
    match ask_for_tree(&plan.places, &[], allow_dirty, &args.show, setup)? {
        Leave::Granted => {}
        // Unfinished work is no reason to refuse to go on with it.
        Leave::Resumed if plan.verify.baseline == Baseline::Green => {
            plan.verify.baseline = Baseline::Off;
        }
        Leave::Resumed => {}
        Leave::Denied => return Ok(Exit::Interrupted),
    }
    reset_failed(args, &mut store, &plan.target, setup)?;
    let is_asked =
        !args.yes && plan.bounds.cost.is_none() && is_watched(&args.show) && !store.has_runs()?;
    if is_asked {
        plan.bounds.cost = ask_for_limit(setup)?;
    }
    let again = again(setup.this_command(), plan.bounds.cost.filter(|_| is_asked));
    let next = |end: &RunEnd, totals: &Totals| next(end, totals, again, setup);
    let audience = Audience {
        show: &args.show,
        keys_are_ours: plan.agent.terminal.is_none(),
        places: &plan.places,
        settings: &settings,
        setup,
    };
    audience
        .watch(next, |mailbox, clock, view| engine::run(store, &plan, &lock, mailbox, clock, view))
}

/// The settings that the flags of a run stand for.
fn flags(args: &RunArgs) -> Vec<Flag> {
    let mut flags = sandbox_flags(&args.sandbox);
    flags.extend(pty_flags(&args.pty));
    let mut add = |flag: Option<Flag>| flags.extend(flag);
    add(args.max_iterations.map(|it| Flag::new("--limit", "run.max_iterations", i64::from(it))));
    add(args.once.then(|| Flag::new("--once", "run.max_iterations", 1)));
    add(args.max_time.as_deref().map(|it| Flag::new("--max-time", "run.max_time", it)));
    add(args.max_cost.map(|it| Flag::new("--max-cost", "run.max_cost", it)));
    add(args.model.as_deref().map(|it| Flag::new("--model", "run.model", it)));
    add(args.strategy.as_deref().map(|it| Flag::new("--strategy", "run.strategy", it)));
    add(args.max_retries.map(|it| Flag::new("--max-retries", "max_retries", i64::from(it))));
    add(args.allow_dirty.then(|| Flag::new("--allow-dirty", "run.allow_dirty", true)));
    add(args.no_baseline.then(|| Flag::new("--no-baseline", "verify.baseline", "off")));
    add(args.no_verify.then(|| Flag::new("--no-verify", "verify.agent", false)));
    add(args.learn.then(|| Flag::new("--learn", "learn", true)));
    add(args.no_learn.then(|| Flag::new("--no-learn", "learn", false)));
    add(args.model_lock.then(|| Flag::new("--model-lock", "run.hints", false)));
    add(args.auto_push.map(|it| Flag::new("--auto-push", "auto_push", it)));
    flags
}

fn plan(args: &RunArgs, settings: &Settings, target: Target, setup: &Setup) -> Result<Plan> {
    let places = places(&setup.project()?, settings, setup)?;
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
            baseline: baseline(settings.verify.baseline),
        },
        hints: settings.run.hints,
        learn: settings.learn,
        auto_push: settings.auto_push,
        git_stats: settings.git_stats,
        agent: agent_plan(settings, &places, &args.sandbox, &args.show, setup)?,
        places,
    })
}

fn baseline(wanted: settings::Baseline) -> Baseline {
    match wanted {
        settings::Baseline::Green => Baseline::Green,
        settings::Baseline::KnownRed => Baseline::KnownRed,
        settings::Baseline::Off => Baseline::Off,
    }
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

/// The limit on cost that a person wants who pays for each session.
fn ask_for_limit(setup: &Setup) -> Result<Option<f64>> {
    let Some(name) = setup.environment.paid_by() else { return Ok(None) };
    setup.say(&format!("{name} is set, so each session is paid for, and this run has no limit."));
    loop {
        let question = "Stop when this much is spent, in USD (Enter: no limit):";
        let answer = setup.ask(question, "name one with --max-cost")?;
        match answer.trim_start_matches('$').parse::<f64>() {
            _ if answer.is_empty() => return Ok(None),
            Ok(limit) if limit > 0.0 && limit.is_finite() => return Ok(Some(limit)),
            _ => setup.say("that is not an amount: write 5 or 2.50"),
        }
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
        return Err(anyhow!(Refused::Question(format!("{tasks} failed in an earlier run"))))
            .hint("`ralph task reset ID` puts one back, --yes all of them");
    }
    let question = format!("{tasks} failed in an earlier run. Reset and try again?");
    if !setup.confirm(&question, args.yes || args.show.headless)? {
        return Ok(());
    }
    let reset = store.reset_failed(target, Timestamp::now())?;
    let ids: Vec<String> = reset.iter().map(TaskId::to_string).collect();
    setup.say(&format!("reset {}", ids.join(", ")));
    Ok(())
}

/// The command that goes on with a run: the same one, and the limit on cost that was answered to a question.
fn again(command: String, answered: Option<f64>) -> String {
    match answered {
        Some(limit) => format!("{command} --max-cost {limit}"),
        None => command,
    }
}

/// The next command to type.
fn next(end: &RunEnd, totals: &Totals, again: String, setup: &Setup) -> Option<String> {
    let failed = totals.results.iter().find(|it| it.status == Status::Failed);
    match end {
        RunEnd::Done | RunEnd::Signalled(_) | RunEnd::Unheard => None,
        RunEnd::Failed => Some(match failed {
            Some(result) => format!("ralph task show {}", result.task),
            None => "ralph status".to_owned(),
        }),
        RunEnd::Stuck(behind) => Some(match behind.first() {
            Some(task) => format!("ralph task show {task}"),
            None => "ralph status".to_owned(),
        }),
        RunEnd::Breaker(Common::Empty { .. } | Common::NotStarted { .. }) => {
            Some(setup.command("doctor"))
        }
        RunEnd::Breaker(Common::Unverified { task, .. }) => Some(format!("ralph task show {task}")),
        RunEnd::Breaker(Common::Void { .. }) => Some("git status".to_owned()),
        RunEnd::RedBaseline { command, .. } | RunEnd::Breaker(Common::Check { command, .. }) => {
            Some(command.clone())
        }
        RunEnd::Refused(Trouble::Authentication | Trouble::NoCredit) => {
            Some(setup.command("doctor"))
        }
        RunEnd::Empty => Some("ralph task add TITLE, or ralph feature spec NAME".to_owned()),
        RunEnd::Limit(_)
        | RunEnd::Interrupted
        | RunEnd::Stopped(_)
        | RunEnd::Failure
        | RunEnd::Refused(_) => Some(again),
    }
}

fn dry_run(store: Store, plan: &Plan, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let Some(preview) = engine::preview(store, plan, &setup.clock())? else {
        setup.say("nothing is ready; `ralph status` says why");
        return Ok(Exit::Stuck);
    };
    let arguments: Vec<String> = preview.invocation.arguments.iter().map(quoted).collect();
    let program = preview.invocation.program.to_string_lossy();
    writeln!(out, "task     {}  {}", preview.task, printable_lines(&preview.title))?;
    writeln!(out, "model    {}", printable_lines(&preview.model))?;
    writeln!(out, "mcp      {}", printable_lines(&preview.servers))?;
    writeln!(out, "command  {program} {} < SCRATCH/prompt.md", arguments.join(" "))?;
    writeln!(out, "\n--- SCRATCH/system.md\n{}", printable_lines(&preview.system))?;
    writeln!(out, "\n--- SCRATCH/prompt.md\n{}", printable_lines(&preview.prompt))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_answered_to_a_question_is_asked_for_again() {
        let command = || "ralph run login --no-verify".to_owned();
        assert_eq!(again(command(), None), "ralph run login --no-verify");
        assert_eq!(again(command(), Some(2.5)), "ralph run login --no-verify --max-cost 2.5");
    }
}
