//! `ralph task delete`

use anyhow::Result;

use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::ops::{DeleteTask, PlanDeletion};
use crate::ui::text::printable;

pub(super) fn run(id: &str, yes: bool, setup: &Setup) -> Result<Exit> {
    let mut dag = setup.dag()?;
    let plan = dag.perform(PlanDeletion { id: id.to_owned() })?;
    let inside = match plan.inside {
        0 => String::new(),
        1 => " and the task inside it".to_owned(),
        count => format!(" and the {count} tasks inside it"),
    };
    let what = format!("{} \"{}\"{inside}", plan.id, printable(&plan.title));
    if !setup.confirm(&format!("Delete {what}?"), yes)? {
        setup.say("nothing was deleted");
        return Ok(Exit::Error);
    }
    dag.perform(DeleteTask { id: plan.id })?;
    setup.say(&format!("deleted {what}"));
    Ok(Exit::Done)
}
