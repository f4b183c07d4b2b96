//! Flags in, exit code out. Each command has its file in `commands`.

mod args;
mod commands;
mod compat;
mod exit;
mod keyboard;
mod notify;
mod running;
mod session;
mod setup;
mod stdout;
mod tree;
mod values;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::{CommandFactory, Parser};

pub use exit::Exit;

use crate::agent;
use crate::demo;
use crate::engine::Clock;
use crate::hint::{Hinted, hint_of};
use crate::settings::WrongFlag;
use crate::store;
use crate::ui::prose;
use args::Cli;
use setup::{Refused, Setup, WrongUsage};
use stdout::{Printed, explained, is_broken_pipe};

/// Runs the program.
pub fn main() -> ExitCode {
    main_with(Clock::real)
}

/// The command line, for those who describe or complete it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program in a time of its own.
pub fn main_with(clock: fn() -> Clock) -> ExitCode {
    // A file-size limit is to be an error like a full disk, not a death. A handler that does nothing
    // achieves that, and unlike "ignore" it is not passed on to children.
    let _ =
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let backstage = agent::backstage(std::env::args_os().skip(1));
    if let Some(exit) = backstage.or_else(|| demo::play(std::env::args_os())) {
        return exit;
    }
    let given = compat::joined(std::env::args_os());
    let arguments = match Cli::try_parse_from(&given) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let meant = compat::plain_loop(&given).or_else(|| compat::task_command(&given));
            if let Some(meant) = meant {
                return exit(Err(meant), &Setup::new(None, None, Vec::new(), clock));
            }
            // It quotes what it was given, which may hold anything.
            let text = error.render().to_string();
            let terminal = Setup::new(None, None, Vec::new(), clock).stderr();
            let _ = io::stderr().write_all(prose(&text, terminal).as_bytes());
            return Exit::Usage.into();
        }
        Err(help) => {
            let printed = help.print().map_err(|error| explained(&error).into());
            return exit(printed.map(|()| Exit::Done), &Setup::new(None, None, Vec::new(), clock));
        }
    };
    let setup = Setup::new(arguments.config, arguments.agent, given[1..].to_vec(), clock);
    let mut out = BufWriter::new(Printed(io::stdout().lock()));
    let result = commands::run(arguments.command, &setup, &mut out).and_then(|exit| {
        match out.flush().map_err(anyhow::Error::from) {
            // The command is over: what it says by its exit code still holds.
            Err(error) if is_broken_pipe(&error) => Ok(exit),
            flushed => flushed.map(|()| exit),
        }
    });
    exit(result, &setup)
}

fn exit(result: Result<Exit>, setup: &Setup) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        // The reader of a listing is gone, as `head` is after a few lines: that is no failure.
        Err(error) if is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => report(&error, setup).into(),
    }
}

/// Says what went wrong and what to do about it.
fn report(error: &anyhow::Error, setup: &Setup) -> Exit {
    let (message, hint) = described(error, setup);
    let mut text = prose(&format!("error: {message}"), setup.stderr());
    if let Some(hint) = hint {
        text.push_str(&prose(&format!("hint: {hint}"), setup.stderr()));
    }
    // If this can't be printed, there is no place left to say so.
    let _ = io::stderr().write_all(text.as_bytes());
    exit_of(error)
}

/// An error in words, and what to do about it.
fn described<'a>(error: &'a anyhow::Error, setup: &Setup) -> (String, Option<&'a str>) {
    match store::explain(error, &setup.database_path().unwrap_or_default()) {
        Some((message, hint)) => (message, Some(hint)),
        None => (format!("{error:#}"), hint_of(error)),
    }
}

/// How the program ends after this error.
fn exit_of(error: &anyhow::Error) -> Exit {
    let cause = error.downcast_ref::<Hinted>().map_or(error, |hinted| &hinted.source);
    let is_usage = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<Refused>() || cause.is::<WrongFlag>() || cause.is::<WrongUsage>()
    };
    if cause.chain().any(is_usage) { Exit::Usage } else { Exit::Error }
}
