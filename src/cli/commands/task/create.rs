//! `ralph task create`: Claude interviews a person and adds one task.

use std::collections::HashSet;

use anyhow::Result;

use crate::cli::commands::feature;
use crate::cli::exit::Exit;
use crate::cli::session::Conversation;
use crate::cli::setup::Setup;
use crate::dag::{Kind, Snapshot, Summary, TaskId};
use crate::ops::Role;
use crate::prompt::context::{Context, TaskLine};
use crate::prompt::{Prompt, Values};
use crate::time::Timestamp;
use crate::ui::text::printable;

const OPENING: &str = "Start the interview for a new task.";

pub(super) fn run(model: Option<String>, setup: &Setup) -> Result<Exit> {
    setup.require_terminal()?;
    let mut store = setup.store()?;
    let project = setup.project()?;
    let before = store.snapshot(Timestamp::now())?;
    let context = Context::new(project.root(), &feature::lines(&store, setup)?)
        .standalone_tasks(&standalone(&before))
        .into_text();
    let system =
        Prompt::TaskCreate.render(&project.prompts(), &Values::from([("context", &*context)]))?;
    let conversation = Conversation::new(setup, &system, model, Role::Guest)?;
    let ending = conversation.hold(OPENING, None, &mut store, setup)?;
    let known: HashSet<TaskId> = before.tasks.iter().map(|task| task.id).collect();
    let after = store.snapshot(Timestamp::now())?;
    let created: Vec<&Summary> = after
        .tasks
        .iter()
        .filter(|task| task.feature.is_none() && !known.contains(&task.id))
        .collect();
    for task in &created {
        setup.say(&format!("created {}  {}", task.id, printable(&task.title)));
    }
    match (created.first(), ending.exit) {
        (None, Exit::Done) => {
            setup.say("no task was created");
            Ok(ending.with_nothing_made())
        }
        (Some(first), Exit::Done) => {
            setup.say(&format!("Next: {}", setup.command(&format!("run {}", first.id))));
            Ok(Exit::Done)
        }
        (_, exit) => Ok(exit),
    }
}

fn standalone(snapshot: &Snapshot) -> Vec<TaskLine> {
    (0..snapshot.tasks.len())
        .filter(|&task| snapshot.tasks[task].feature.is_none() && snapshot.kind(task) == Kind::Work)
        .map(|task| TaskLine {
            id: snapshot.tasks[task].id,
            state: snapshot.state(task),
            title: snapshot.tasks[task].title.to_string(),
        })
        .collect()
}
