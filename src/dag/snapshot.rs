//! All tasks at one moment, with what follows for each: what listings and pictures are made of.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::graph::{Derived, Graph, Node};
use super::id::{FeatureId, TaskId};
use super::task::{Kind, State};
use crate::time::Timestamp;

/// What a listing shows of a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: TaskId,
    /// Its title.
    pub title: Box<str>,
    /// Lower first.
    pub priority: i32,
    /// The feature it belongs to.
    pub feature: Option<FeatureId>,
    /// Why it failed, or what it is blocked on.
    pub reason: Option<Box<str>>,
    /// It is not to be started before.
    pub not_before: Option<Timestamp>,
    /// How many attempts there were.
    pub attempts: u32,
}

/// All tasks and what follows for each, at one moment. Tasks are named by their index, in the order
/// of creation.
#[derive(Debug)]
pub struct Snapshot {
    /// The tasks.
    pub tasks: Vec<Summary>,
    /// How they hang together.
    pub graph: Graph,
    /// What follows.
    pub derived: Derived,
}

impl Snapshot {
    /// The state of a task.
    pub fn state(&self, task: usize) -> State {
        self.derived.states[task]
    }

    /// What holds a pending task back.
    pub fn waiting_on(&self, task: usize) -> Vec<usize> {
        match self.state(task) {
            State::Waiting | State::Ready => self.graph.waiting_on(task, &self.derived),
            State::InProgress | State::Blocked | State::Done | State::Failed => Vec::new(),
        }
    }

    /// The group a task is in.
    pub fn parent(&self, task: usize) -> Option<usize> {
        self.graph.nodes()[task].parent
    }

    /// Work or group.
    pub fn kind(&self, task: usize) -> Kind {
        self.graph.nodes()[task].kind
    }

    /// The tasks that are in no group.
    pub fn roots(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|&task| self.parent(task).is_none()).collect()
    }

    /// These tasks and everything inside them as a tree is read, each with how deep it is.
    pub fn walk(&self, roots: &[usize]) -> Vec<(usize, usize)> {
        let mut walk = Vec::new();
        let mut ahead: Vec<(usize, usize)> = roots.iter().rev().map(|&root| (root, 0)).collect();
        while let Some((task, depth)) = ahead.pop() {
            walk.push((task, depth));
            let first = ahead.len();
            ahead.extend(self.graph.children(task).map(|child| (child, depth + 1)));
            ahead[first..].reverse();
        }
        walk
    }

    /// A task and everything inside it, in the order of creation.
    pub fn inside(&self, task: usize) -> Vec<usize> {
        let mut inside: Vec<usize> = self.walk(&[task]).into_iter().map(|(task, _)| task).collect();
        inside.sort_unstable();
        inside
    }

    /// The ready tasks in the order in which they will be taken.
    pub fn ready(&self) -> Vec<usize> {
        let mut ready: Vec<usize> =
            (0..self.tasks.len()).filter(|&task| self.state(task) == State::Ready).collect();
        ready.sort_by_key(|&task| self.tasks[task].priority);
        ready
    }
}

/// What a snapshot is sent as: what follows from it is derived again where it arrives.
#[derive(Serialize, Deserialize)]
struct Sent<Tasks, Nodes> {
    tasks: Tasks,
    nodes: Nodes,
    /// Blockers and what they block.
    dependencies: Vec<(usize, usize)>,
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = |blocked| self.graph.blockers(blocked).map(move |blocker| (blocker, blocked));
        let dependencies = (0..self.tasks.len()).flat_map(pairs).collect();
        Sent { tasks: &self.tasks, nodes: self.graph.nodes(), dependencies }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent: Sent<Vec<Summary>, Vec<Node>> = Sent::deserialize(deserializer)?;
        let graph = Graph::new(sent.nodes, &sent.dependencies);
        let derived =
            graph.derive().map_err(|_| serde::de::Error::custom("the tasks wait in a loop"))?;
        Ok(Snapshot { tasks: sent.tasks, graph, derived })
    }
}
