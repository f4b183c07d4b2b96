//! Who asks, and what they may do. A person may do everything; an agent may look at every task and change only
//! what it has added itself.

use std::collections::HashSet;

use anyhow::{Result, anyhow};

use crate::dag::{AttemptId, TaskId};
use crate::hint::HintExt;
use crate::store::{Change, NewTask, Store};

/// Who asks for an operation.
#[derive(Debug)]
pub enum Caller {
    /// A person at a shell.
    Person,
    /// The agent of one session.
    Agent(Agent),
}

/// The agent of one session, and what it has done so far.
#[derive(Debug)]
pub struct Agent {
    role: Role,
    added: Vec<TaskId>,
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It works on a task.
    Worker {
        /// The attempt.
        attempt: AttemptId,
        /// The task.
        task: TaskId,
    },
    /// It checks the work of another session.
    Verifier,
    /// It turns a plan into tasks.
    Builder {
        /// The group of the feature, which everything goes into.
        root: TaskId,
    },
    /// It has no task of its own: an interview, or an iteration of a loop.
    Guest,
}

impl Role {
    /// How many tasks one session may add.
    fn most_tasks(self) -> usize {
        match self {
            Role::Worker { .. } | Role::Guest => 50,
            Role::Verifier => 0,
            Role::Builder { .. } => 1_000,
        }
    }
}

impl Agent {
    /// An agent that has not asked for anything yet.
    pub fn new(role: Role) -> Agent {
        Agent { role, added: Vec::new() }
    }
}

impl Caller {
    /// The attempt that stands as the author of what is written; none for a person.
    pub(super) fn author(&self) -> Option<AttemptId> {
        match self {
            Caller::Agent(Agent { role: Role::Worker { attempt, .. }, .. }) => Some(*attempt),
            Caller::Agent(_) | Caller::Person => None,
        }
    }

    /// Takes note of what was added: the agent may change it later.
    pub(super) fn has_added(&mut self, tasks: impl Iterator<Item = TaskId>) {
        if let Caller::Agent(agent) = self {
            agent.added.extend(tasks);
        }
    }

    /// An error unless these tasks may be added.
    pub(super) fn may_add(&self, tasks: &[NewTask], store: &Store) -> Result<()> {
        let Caller::Agent(agent) = self else { return Ok(()) };
        agent.may_write()?;
        let most = agent.role.most_tasks();
        if agent.added.len() + tasks.len() > most {
            return Err(anyhow!("a session can add {most} tasks at most"))
                .hint("end the session, and say in its last message what else is needed");
        }
        let mut keys: HashSet<&str> = HashSet::new();
        for task in tasks {
            if task.max_retries.is_some() {
                return Err(anyhow!("an agent can't set `max_retries`")).hint("leave it out");
            }
            match task.parent.as_deref() {
                // A group that is added with it. A key that was known before names what was there before.
                Some(parent) if keys.contains(parent) && store.find_key(parent)?.is_none() => {}
                Some(parent) => agent.may_add_below(parent, store)?,
                None => agent.may_add_alone(task.feature.as_deref(), store)?,
            }
            keys.extend(task.key.as_deref());
        }
        Ok(())
    }

    /// An error unless this task may be changed like this.
    pub(super) fn may_change(&self, task: TaskId, change: &Change, store: &Store) -> Result<()> {
        let Caller::Agent(agent) = self else { return Ok(()) };
        agent.must_have_added(task)?;
        if change.max_retries.is_some() {
            return Err(anyhow!("an agent can't set `max_retries`")).hint("leave it out");
        }
        match &change.parent {
            Some(Some(parent)) => agent.may_add_below(parent, store),
            Some(None) => agent.may_add_alone(None, store),
            None => Ok(()),
        }
    }

    /// An error unless this task may be deleted.
    pub(super) fn may_delete(&self, task: TaskId) -> Result<()> {
        match self {
            Caller::Person => Ok(()),
            Caller::Agent(agent) => agent.must_have_added(task),
        }
    }

    /// An error unless what this task waits for may be changed.
    pub(super) fn may_hold_back(&self, task: TaskId) -> Result<()> {
        match self {
            Caller::Person => Ok(()),
            Caller::Agent(agent) if agent.task() == Some(task) => Ok(()),
            Caller::Agent(agent) => agent.must_have_added(task),
        }
    }

    /// An error unless notes may be left.
    pub(super) fn may_note(&self) -> Result<()> {
        match self {
            Caller::Person => Ok(()),
            Caller::Agent(agent) => agent.may_write(),
        }
    }
}

impl Agent {
    /// The task it works on.
    fn task(&self) -> Option<TaskId> {
        match self.role {
            Role::Worker { task, .. } => Some(task),
            Role::Verifier | Role::Builder { .. } | Role::Guest => None,
        }
    }

    /// The attempt and the task that it may ask a decision on.
    pub(super) fn assigned(&self) -> Result<(AttemptId, TaskId)> {
        match self.role {
            Role::Worker { attempt, task } => Ok((attempt, task)),
            Role::Verifier | Role::Builder { .. } | Role::Guest => {
                Err(anyhow!("this session has no task of its own: a person decides about tasks"))
            }
        }
    }

    fn may_write(&self) -> Result<()> {
        match self.role {
            Role::Worker { .. } | Role::Builder { .. } | Role::Guest => Ok(()),
            Role::Verifier => Err(anyhow!("a session that verifies can't change anything"))
                .hint("say what you found in your verdict"),
        }
    }

    fn must_have_added(&self, task: TaskId) -> Result<()> {
        if self.added.contains(&task) {
            return Ok(());
        }
        Err(anyhow!("this session has not added `{task}`, and can't change it"))
            .hint(format!("leave a note instead: `ralph task log {task} -m NOTE`"))
    }

    /// An error unless tasks may be added to the group that this text means.
    fn may_add_below(&self, parent: &str, store: &Store) -> Result<()> {
        let parent = match store.find_key(parent)? {
            Some(id) => id,
            None => store.find_task(parent)?,
        };
        let group = match self.role {
            Role::Worker { task, .. } => store.task(task)?.and_then(|task| task.parent),
            Role::Builder { root } => Some(root),
            Role::Verifier | Role::Guest => None,
        };
        // A task that turns out to be too large is split by adding tasks to it.
        if [group, self.task()].contains(&Some(parent)) || self.added.contains(&parent) {
            return Ok(());
        }
        let error = Err(anyhow!("this session can't add tasks to `{parent}`"));
        match group {
            Some(group) => error.hint(format!("use `--parent {group}`")),
            None => error.hint("leave out --parent"),
        }
    }

    /// An error unless a task may be added outside every group, to this feature or to none.
    fn may_add_alone(&self, feature: Option<&str>, store: &Store) -> Result<()> {
        if let Role::Builder { root } = self.role {
            return Err(anyhow!("this session adds tasks to `{root}` only"))
                .hint(format!("use `--parent {root}`"));
        }
        let Some(name) = feature else { return Ok(()) };
        let own = match self.task() {
            Some(task) => store.task(task)?.and_then(|task| task.feature),
            None => None,
        };
        if own == Some(store.feature(name)?.id) {
            return Ok(());
        }
        Err(anyhow!("this session can't add tasks to the feature `{name}`"))
            .hint("leave out --feature: a person can move the task later")
    }
}
