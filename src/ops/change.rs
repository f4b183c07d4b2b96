//! Operations that change something.

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::{Agent, Caller, Operation};
use crate::dag::{Ask, TaskId, Verb};
use crate::hint::HintExt;
use crate::store::{Change, Deletion, NewTask, Store};
use crate::time::Timestamp;

/// Adds tasks, all or none. The answer is their ids, in order.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddTasks {
    tasks: Vec<NewTask>,
    /// The lines they stand on, where they come from a file.
    lines: Vec<Option<usize>>,
}

impl AddTasks {
    /// Adds these.
    pub fn new(tasks: Vec<NewTask>) -> AddTasks {
        AddTasks { lines: tasks.iter().map(|task| task.line).collect(), tasks }
    }
}

impl Operation for AddTasks {
    type Answer = Vec<TaskId>;

    fn perform(
        mut self,
        store: &mut Store,
        caller: &mut Caller,
        now: Timestamp,
    ) -> Result<Vec<TaskId>> {
        for (task, line) in self.tasks.iter_mut().zip(self.lines) {
            task.line = line;
        }
        caller.may_add(&self.tasks, store)?;
        let keys = self.tasks.iter().filter_map(|task| task.key.as_deref());
        // A key that is known finds the task it was first used for, which may be anybody's.
        let known: Vec<TaskId> =
            keys.filter_map(|key| store.find_key(key).transpose()).collect::<Result<_>>()?;
        let tasks = store.add_tasks(&self.tasks, caller.author(), now)?;
        caller.has_added(tasks.iter().copied().filter(|task| !known.contains(task)));
        Ok(tasks)
    }
}

/// Changes a task.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdateTask {
    /// The task.
    pub id: String,
    /// What is different.
    pub change: Change,
}

impl Operation for UpdateTask {
    type Answer = TaskId;

    fn perform(self, store: &mut Store, caller: &mut Caller, now: Timestamp) -> Result<TaskId> {
        caller.may_change(store.find_task(&self.id)?, &self.change, store)?;
        store.update_task(&self.id, &self.change, now)
    }
}

/// What deleting a task would remove.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanDeletion {
    /// The task.
    pub id: String,
}

impl Operation for PlanDeletion {
    type Answer = Deletion;

    fn perform(self, store: &mut Store, caller: &mut Caller, _: Timestamp) -> Result<Deletion> {
        let deletion = store.plan_deletion(&self.id)?;
        caller.may_delete(deletion.id)?;
        Ok(deletion)
    }
}

/// Deletes a task and everything inside it.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteTask {
    /// The task.
    pub id: TaskId,
}

impl Operation for DeleteTask {
    type Answer = Deletion;

    fn perform(self, store: &mut Store, caller: &mut Caller, _: Timestamp) -> Result<Deletion> {
        caller.may_delete(self.id)?;
        store.delete_task(&self.id.to_string())
    }
}

/// Leaves a note on a task.
#[derive(Debug, Serialize, Deserialize)]
pub struct Note {
    /// The task.
    pub id: String,
    /// The words.
    pub message: String,
}

impl Operation for Note {
    type Answer = TaskId;

    fn perform(self, store: &mut Store, caller: &mut Caller, now: Timestamp) -> Result<TaskId> {
        caller.may_note()?;
        store.note(&self.id, &self.message, caller.author(), now)
    }
}

/// Makes one task wait for another. The answer is both, and whether that is new.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddDependency {
    /// The task that comes first.
    pub blocker: String,
    /// The task that waits.
    pub blocked: String,
}

impl Operation for AddDependency {
    type Answer = (TaskId, TaskId, bool);

    fn perform(
        self,
        store: &mut Store,
        caller: &mut Caller,
        now: Timestamp,
    ) -> Result<(TaskId, TaskId, bool)> {
        caller.may_hold_back(store.find_task(&self.blocked)?)?;
        store.add_dependency(&self.blocker, &self.blocked, now)
    }
}

/// Lets a task no longer wait for another. The answer is both.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoveDependency {
    /// The task that came first.
    pub blocker: String,
    /// The task that waited.
    pub blocked: String,
}

impl Operation for RemoveDependency {
    type Answer = (TaskId, TaskId);

    fn perform(
        self,
        store: &mut Store,
        caller: &mut Caller,
        now: Timestamp,
    ) -> Result<(TaskId, TaskId)> {
        caller.may_hold_back(store.find_task(&self.blocked)?)?;
        store.remove_dependency(&self.blocker, &self.blocked, now)
    }
}

/// Decides about a task. A person's word holds; an agent's is a request about its own task, and the run decides.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decide {
    /// What is to become of it.
    pub verb: Verb,
    /// The task.
    pub id: String,
    /// Why, or the question.
    pub reason: Option<String>,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decided {
    /// These tasks have changed.
    Changed(Vec<TaskId>),
    /// The run will decide about this one.
    Asked(TaskId),
}

impl Operation for Decide {
    type Answer = Decided;

    fn perform(self, store: &mut Store, caller: &mut Caller, now: Timestamp) -> Result<Decided> {
        match caller {
            Caller::Person => {
                let reason = self.reason.as_deref();
                Ok(Decided::Changed(store.apply(self.verb, &self.id, reason, None, now)?))
            }
            Caller::Agent(agent) => self.ask(agent, store),
        }
    }
}

impl Decide {
    fn ask(self, agent: &Agent, store: &mut Store) -> Result<Decided> {
        let task = store.find_task(&self.id)?;
        let ask = match self.verb {
            Verb::Done => Ask::Done,
            Verb::Fail => Ask::Failed,
            Verb::Block => Ask::Blocked,
            Verb::Reset => {
                return Err(anyhow!("an agent can't reset `{task}`"))
                    .hint("say in a note what you found: `ralph task log ID -m NOTE`");
            }
        };
        let (attempt, own) = agent.assigned()?;
        if task != own {
            return Err(anyhow!("this session is about `{own}`, not about `{task}`"))
                .hint(format!("leave a note instead: `ralph task log {task} -m NOTE`"));
        }
        store.ask(attempt, ask, self.reason.as_deref())?;
        Ok(Decided::Asked(task))
    }
}
