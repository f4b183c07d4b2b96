//! `ralph task update`

use anyhow::Result;

use crate::cli::args::{Retries, UpdateArgs};
use crate::cli::exit::Exit;
use crate::cli::setup::{Setup, text_argument};
use crate::ops::UpdateTask;
use crate::store::Change;

pub(super) fn run(args: &UpdateArgs, setup: &Setup) -> Result<Exit> {
    let change = Change {
        title: args.title.clone(),
        description: args.description.as_deref().map(text_argument).transpose()?,
        priority: args.priority,
        max_retries: args.max_retries.map(|retries| match retries {
            Retries::Default => None,
            Retries::Count(count) => Some(count),
        }),
        not_before: args.not_before.map(|it| it.0),
        parent: args.parent.clone().map(|parent| Some(parent).filter(|parent| parent != "none")),
    };
    let id = setup.dag()?.perform(UpdateTask { id: args.id.clone(), change })?;
    setup.say(&format!("{id} was updated"));
    Ok(Exit::Done)
}
