//! `ralph task`

mod add;
mod create;
mod delete;
mod deps;
mod list;
mod log;
mod next;
mod show;
mod tree;
mod update;
mod verbs;

use std::io::Write;

use anyhow::Result;

use crate::cli::args::TaskCommand;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::Verb;
use crate::ops::ListTasks;

pub(super) fn run(command: TaskCommand, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    match command {
        TaskCommand::Add(args) => add::run(args, setup, out),
        TaskCommand::Create(model) => create::run(model.model, setup),
        TaskCommand::Show(one) => show::run(&one, setup, out),
        TaskCommand::List { all: _, ready, status, feature, json } => {
            let states = status.iter().flat_map(|it| it.states()).copied().collect();
            list::run(ListTasks { ready, states, feature }, json.json, setup, out)
        }
        TaskCommand::Tree { id, json } => tree::run(id.as_deref(), json.json, setup, out),
        TaskCommand::Next { feature, json } => next::run(feature.as_deref(), json.json, setup, out),
        TaskCommand::Update(args) => update::run(&args, setup),
        TaskCommand::Delete { id, yes } => delete::run(&id, yes.yes, setup),
        TaskCommand::Done { id } => verbs::run(Verb::Done, &id, None, setup),
        TaskCommand::Fail { id, reason } => verbs::run(Verb::Fail, &id, reason.as_deref(), setup),
        TaskCommand::Block { id, reason } => verbs::run(Verb::Block, &id, Some(&reason), setup),
        TaskCommand::Reset { id } => verbs::run(Verb::Reset, &id, None, setup),
        TaskCommand::Log { id, message, json } => {
            log::run(&id, message.as_deref(), json.json, setup, out)
        }
        TaskCommand::Deps(command) => deps::run(command, setup, out),
    }
}
