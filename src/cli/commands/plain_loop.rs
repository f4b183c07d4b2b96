//! `ralph loop`

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::agent::Program;
use crate::cli::args::{LoopArgs, RunFormat};
use crate::cli::exit::Exit;
use crate::cli::running::{Audience, agent_plan, places, pty_flags, sandbox_flags, take_tree};
use crate::cli::setup::{Setup, WrongUsage};
use crate::cli::tree::{Leave, ask_for_tree};
use crate::engine::{self, Bounds, Checklist, LoopPlan, LoopPrompt, PLAN, Places};
use crate::hint::HintExt;
use crate::project::Project;
use crate::settings::{Flag, Settings};
use crate::store::Store;

pub(super) fn run(args: &LoopArgs, setup: &Setup) -> Result<Exit> {
    let settings = setup.settings_with(&flags(args))?.settings;
    // Anything is a project here, with or without `ralph init`.
    let here = setup.directory()?;
    let project = Project::find(&here).unwrap_or_else(|_| Project::at(&here));
    let places = places(&project, &settings, setup)?;
    let asked = Asked::of(args)?;
    let checklist = args.plan.as_deref().map(|plan| checklist(&here.join(plan))).transpose()?;
    let prompt = prompt(args, asked.prompt, &settings, &here)?;
    check_prompt(&prompt, &places, checklist.is_some())?;
    let mut agent = agent_plan(&settings, &places, &args.sandbox, &args.show, setup)?;
    if let Some(command) = plain_command(args, &settings, setup)? {
        if agent.cage.has_its_own_agent() {
            let message = "the docker sandbox has its own agent, and can't start a --command";
            return Err(anyhow!(WrongUsage(message.to_owned()))).hint("choose another sandbox");
        }
        agent.program = Program::parse(&command, &agent.path, &places.root)?;
        agent.plain = true;
    }
    let plan = LoopPlan {
        prompt,
        loop_id: args.loop_id.clone(),
        completion_promise: settings.completion_promise.clone(),
        checklist,
        passthrough: !settings.pty_mode && is_passthrough(args, setup),
        model: settings.run.model.clone(),
        auto_push: settings.auto_push,
        pause: settings.plain_loop.pause,
        bounds: Bounds {
            iterations: Some(iterations(asked.iterations, &settings, setup)),
            time: settings.run.max_time,
            cost: settings.run.max_cost,
        },
        agent,
        places: places.clone(),
        ring,
    };
    let lock = take_tree(&plan.places.root)?;
    let store = store(&places, setup)?;
    for note in engine::salvage_crash(store.as_ref(), &places)? {
        setup.say(&format!("note: {note}"));
    }
    let mut inputs: Vec<PathBuf> = args.plan.iter().map(|plan| here.join(plan)).collect();
    inputs.push(here.join(&settings.prompt_file));
    if let LoopPrompt::File(file) = &plan.prompt {
        inputs.push(file.clone());
    }
    let allow_dirty = settings.run.allow_dirty;
    match ask_for_tree(&places, &inputs, allow_dirty, &args.show, setup)? {
        Leave::Granted | Leave::Resumed => {}
        Leave::Denied => return Ok(Exit::Interrupted),
    }
    let audience = Audience {
        show: &args.show,
        keys_are_ours: !plan.passthrough && plan.agent.terminal.is_none(),
        places: &places,
        settings: &settings,
        setup,
    };
    audience.watch(
        |_, _| None,
        |mailbox, clock, view| engine::run_loop(store, &plan, &lock, mailbox, clock, view),
    )
}

/// The database of the project, if it has one: a loop works without.
fn store(places: &Places, setup: &Setup) -> Result<Option<Store>> {
    if !places.database.exists() {
        return Ok(None);
    }
    let mut store = Store::open(&places.database)?;
    setup.take_back(&mut store)?;
    Ok(Some(store))
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
    add(args.allow_dirty.then(|| Flag::new("--allow-dirty", "run.allow_dirty", true)));
    add(args.command.as_deref().map(|it| Flag::new("--command", "loop.command", it)));
    add(args.template.as_deref().map(|it| Flag::new("--template", "sandbox.template", it)));
    flags
}

/// What the words of the command line ask for.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    iterations: u32,
    prompt: Option<&'a str>,
}

impl Asked<'_> {
    /// The number of iterations may be left out, as in `ralph loop -a "fix the bug"`.
    fn of(args: &LoopArgs) -> Result<Asked<'_>> {
        let (iterations, prompt) = match (args.first.as_deref(), args.second.as_deref()) {
            (Some(first), prompt) if is_number(first) => (iterations_of(first)?, prompt),
            (Some(first), Some(_)) => {
                let message = format!("`{first}` is not a number of iterations");
                return Err(anyhow!(WrongUsage(message)))
                    .hint("put the prompt in quotes: ralph loop 5 \"fix the login bug\"");
            }
            (Some(first), None) if args.prompt_text.is_some() => {
                let message = format!("there are two prompts: `{first}` and that of --prompt");
                return Err(anyhow!(WrongUsage(message))).hint("leave out one of them");
            }
            (prompt, _) => (1, prompt),
        };
        Ok(Asked { iterations, prompt })
    }
}

/// Whether a word can only be meant as a number.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+']);
    digits.starts_with(|c: char| c.is_ascii_digit()) && word.parse::<f64>().is_ok()
}

fn iterations_of(word: &str) -> Result<u32> {
    match word.parse() {
        Ok(iterations) if iterations > 0 => Ok(iterations),
        _ => {
            let message = format!(
                "the number of iterations must be a whole number from 1 to {}, not `{word}`",
                u32::MAX
            );
            Err(anyhow!(WrongUsage(message)))
                .hint("a prompt that looks like a number is given with --prompt")
        }
    }
}

/// What to say each time: a file where the words name one, else the words themselves.
fn prompt(
    args: &LoopArgs,
    words: Option<&str>,
    settings: &Settings,
    here: &Path,
) -> Result<LoopPrompt> {
    if let Some(text) = &args.prompt_text {
        return Ok(LoopPrompt::Text(text.clone()));
    }
    let Some(words) = words else {
        let file = &settings.prompt_file;
        if here.join(file).is_file() {
            return Ok(LoopPrompt::File(here.join(file)));
        }
        if args.plan.is_some() {
            return Ok(LoopPrompt::Plan);
        }
        return Err(anyhow!("there is no prompt: `{}` does not exist", file.display())).hint(
            "write it, or name a file or the words themselves: ralph loop 5 \"fix the login bug\"",
        );
    };
    let file = here.join(words);
    let is_file = !words.is_empty() && file.is_file();
    Ok(if is_file { LoopPrompt::File(file) } else { LoopPrompt::Text(words.to_owned()) })
}

/// Refuses a prompt for which a session would only cost money.
fn check_prompt(prompt: &LoopPrompt, places: &Places, has_plan: bool) -> Result<()> {
    let text = prompt.read(&places.prompts)?;
    if text.trim().is_empty() {
        return Err(anyhow!(WrongUsage("the prompt is empty".to_owned())))
            .hint("say what the agent is to do; is a variable of your script unset?");
    }
    if !has_plan && text.contains(PLAN) {
        let message = format!("the prompt names `{PLAN}`, and there is no --plan");
        return Err(anyhow!(WrongUsage(message)))
            .hint("name the file with the items: ralph loop --plan plan.md");
    }
    Ok(())
}

/// The file with the items of a plan.
fn checklist(plan: &Path) -> Result<PathBuf> {
    let text =
        fs::read(plan).with_context(|| format!("can't read the plan `{}`", plan.display()))?;
    if Checklist::read(&String::from_utf8_lossy(&text)).total == 0 {
        return Err(anyhow!("the plan `{}` has no items", plan.display()))
            .hint("an item is a line such as `- [ ] Add the tests`");
    }
    Ok(plan.to_owned())
}

/// How many iterations there will be at the most.
fn iterations(asked: u32, settings: &Settings, setup: &Setup) -> u32 {
    let most = settings.plain_loop.max_iterations;
    if asked > most {
        setup.say(&format!("warning: iterations limited to {most} by --max-iterations"));
    }
    asked.min(most)
}

/// The program in place of the agent, if there is to be one. An agent that is named on the command line wins
/// over the settings.
fn plain_command(args: &LoopArgs, settings: &Settings, setup: &Setup) -> Result<Option<String>> {
    if args.command.is_some() && setup.names_agent() {
        let message = "--agent and --command name two programs".to_owned();
        return Err(anyhow!(WrongUsage(message))).hint("leave out one of them");
    }
    Ok(settings.plain_loop.command.clone().filter(|_| !setup.names_agent()))
}

/// Whether the agent gets the terminal itself; without one nobody could talk to it.
fn is_passthrough(args: &LoopArgs, setup: &Setup) -> bool {
    if args.afk || args.show.headless || args.show.format != RunFormat::Text {
        return false;
    }
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !has_terminal {
        setup.say("not a terminal: going on as with --afk");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Cli, Command};
    use clap::Parser;

    fn asked(words: &[&str]) -> Result<(u32, Option<String>), String> {
        let cli = Cli::try_parse_from(["ralph", "loop"].iter().chain(words)).unwrap();
        let Command::Loop(args) = cli.command else { unreachable!("it is a loop") };
        let asked = Asked::of(&args).map_err(|error| format!("{error:#}"))?;
        Ok((asked.iterations, asked.prompt.map(str::to_owned)))
    }

    #[test]
    fn the_number_of_iterations_may_be_left_out() {
        let text = |text: &str| Some(text.to_owned());
        for (words, expected) in [
            (&[][..], (1, None)),
            (&["-a", "3"], (3, None)),
            (&["-a", "fix the bug"], (1, text("fix the bug"))),
            (&["prompt.md"], (1, text("prompt.md"))),
            (&["5", "fix"], (5, text("fix"))),
            (&["5", "7"], (5, text("7"))),
            (&["2fast"], (1, text("2fast"))),
            (&["infinity"], (1, text("infinity"))),
            (&["3", "-p", "text"], (3, None)),
            (&[""], (1, text(""))),
        ] {
            assert_eq!(asked(words), Ok(expected), "{words:?}");
        }
    }

    #[test]
    fn a_number_that_can_not_be_counted_to_is_refused_in_plain_words() {
        for word in ["0", "-1", "4294967296", "99999999999999999999", "1.5", "1e3"] {
            let expected = format!(
                "the number of iterations must be a whole number from 1 to 4294967295, not `{word}`"
            );
            assert_eq!(asked(&[word]), Err(expected));
        }
        let two = asked(&["fix", "the"]);
        assert_eq!(two, Err("`fix` is not a number of iterations".to_owned()));
        let two = asked(&["fix", "-p", "it"]);
        assert_eq!(two, Err("there are two prompts: `fix` and that of --prompt".to_owned()));
    }
}
