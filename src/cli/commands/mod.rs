//! One file for each command.

mod completions;
mod config;
mod demo;
mod doctor;
mod export;
mod feature;
mod graph;
mod import;
mod init;
mod logs;
mod pause;
mod plain_loop;
mod run;
mod status;
mod task;

use std::collections::HashMap;
use std::io::Write;

use anyhow::{Result, anyhow};

use super::args::{Command, TaskCommand};
use super::exit::Exit;
use super::running::tell_early_error;
use super::setup::Setup;
use crate::dag::FeatureId;
use crate::hint::HintExt;
use crate::store::Store;

/// Runs a command; what it is asked for goes to `out`.
pub(super) fn run(command: Command, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    if setup.environment.socket().is_some() && !is_for_agents(&command) {
        return Err(anyhow!("this command is not for the agent of a session"))
            .hint("an agent can use `ralph task`; to work on another project, unset RALPH_SOCKET");
    }
    match command {
        Command::Init { hooks } => init::run(hooks, setup, out),
        Command::Task(command) => task::run(command, setup, out),
        Command::Feature(command) => feature::run(command, setup, out),
        Command::Run(args) => tell_early_error(run::run(&args, setup, out), &args.show, setup),
        Command::Loop(args) => tell_early_error(plain_loop::run(&args, setup), &args.show, setup),
        Command::Pause => pause::pause(setup),
        Command::Resume => pause::resume(setup),
        Command::Status(json) => status::run(setup, json.json, out),
        Command::Graph { target, format } => graph::run(setup, target.as_deref(), format, out),
        Command::Logs { id, number, limit, all, raw, verify, json } => {
            let selection = logs::Selection { id, number, limit, all, raw, verify };
            logs::run(&selection, json.json, setup, out)
        }
        Command::Demo { keep } => demo::run(keep, setup, out),
        Command::Export => export::run(setup, out),
        Command::Import { file } => import::run(setup, file.as_deref(), out),
        Command::Config(command) => config::run(&command, setup, out),
        Command::Doctor(args) => doctor::run(&args, setup, out),
        Command::Completions { shell } => completions::run(shell, out),
    }
}

/// Whether the agent of a session may use a command; what it may do with it is for its run to decide.
fn is_for_agents(command: &Command) -> bool {
    match command {
        Command::Task(TaskCommand::Create(_)) => false,
        Command::Task(_) | Command::Config(_) | Command::Completions { .. } => true,
        Command::Init { .. }
        | Command::Feature(_)
        | Command::Run(_)
        | Command::Loop(_)
        | Command::Pause
        | Command::Resume
        | Command::Status(_)
        | Command::Graph { .. }
        | Command::Logs { .. }
        | Command::Demo { .. }
        | Command::Export
        | Command::Import { .. }
        | Command::Doctor(_) => false,
    }
}

/// The name of each feature.
fn feature_names(store: &Store) -> Result<HashMap<FeatureId, String>> {
    Ok(store.features()?.into_iter().map(|feature| (feature.id, feature.name)).collect())
}
