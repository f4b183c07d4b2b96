//! What a run would do first, without doing it.

use std::path::PathBuf;

use anyhow::Result;

use super::Engine;
use super::briefing::Told;
use super::clock::Clock;
use super::git::Git;
use super::helm::Helm;
use super::model::Choice;
use super::plan::Plan;
use crate::agent::{AttemptContext, Invocation, Mailbox};
use crate::dag::{RunId, TaskId};
use crate::event::{Stamped, View};
use crate::store::Store;

/// What a run would do first.
#[derive(Debug)]
pub struct Preview {
    /// The task it would take.
    pub task: TaskId,
    /// Its title.
    pub title: String,
    /// The model it would use.
    pub model: String,
    /// The MCP servers its session would have.
    pub servers: String,
    /// What it would start.
    pub invocation: Invocation,
    /// How the agent would be told to work.
    pub system: String,
    /// What the agent would be told of the task.
    pub prompt: String,
}

/// What a run would do first; none if nothing is ready.
pub fn preview(store: Store, plan: &Plan, clock: &Clock) -> Result<Option<Preview>> {
    let Some(task) = store.peek_next(&plan.target)? else { return Ok(None) };
    let around = store.surroundings(task)?;
    let (mailbox, mut nobody) = (Mailbox::new(), Nobody);
    let run = RunId::from_bits(0);
    let helm = Helm::new(&plan.agent, &plan.places, plan.bounds, &mailbox, clock, &mut nobody, run);
    let engine = Engine::new(store, plan, helm, Git::of(&plan.places)?);
    let failed = super::decision::last_failed(&around);
    let model = match plan.strategy.choose(&engine.record, failed, clock.now()) {
        Choice::Model { name, .. } => name,
        Choice::NoneBefore(_) => unreachable!("a new run knows of no model that is used up"),
    };
    let number = 1 + around.attempts.last().map_or(0, |attempt| attempt.number);
    let context = AttemptContext { task: task.to_string(), attempt: "a-xxxxxx".to_owned() };
    let file = |name: &str| PathBuf::from(format!("SCRATCH/{name}"));
    let servers = plan.agent.servers.flags("SCRATCH".as_ref());
    let mut session =
        plan.session(file("system.md"), "SCRATCH".into(), &model, context, 1, servers);
    session.socket = Some(file("ralph"));
    session.reminder = Some(file("reminder.md"));
    let tree = engine.git.as_ref().map(Git::look).transpose()?;
    let Told { system, message } = engine.told(&around, number, tree.as_ref())?;
    Ok(Some(Preview {
        task,
        title: around.task.title.clone(),
        servers: plan.agent.servers.describe(),
        invocation: session.work(file("prompt.md"), &plan.agent.permission()),
        system,
        prompt: message,
        model,
    }))
}

struct Nobody;

impl View for Nobody {
    fn event(&mut self, _event: &Stamped<'_>) -> std::io::Result<()> {
        Ok(())
    }
}
