//! A random DAG with groups in groups, and what has to come before what in it: worked out here, without
//! asking the program.

use anyhow::Result;
use ralph::dag::TaskId;
use ralph::store::{NewTask, Store};
use ralph::time::Timestamp;

use crate::random::Random;

/// A DAG; its tasks are named by index, in the order of creation.
pub(super) struct Dag {
    nodes: Vec<Node>,
    /// Blockers, and what they block.
    edges: Vec<(usize, usize)>,
}

struct Node {
    id: TaskId,
    is_group: bool,
    parent: Option<usize>,
    max_retries: Option<u32>,
}

impl Dag {
    /// Adds one to a database.
    pub(super) fn random(store: &mut Store, random: &mut Random) -> Result<Dag> {
        let mut dag = Dag { nodes: Vec::new(), edges: Vec::new() };
        let groups = random.below(6);
        for number in 0..groups + 6 + random.below(15) {
            let parent = dag.any_group(random);
            dag.add(store, random, number < groups, parent)?;
        }
        // What waits for a group in which there is nothing would wait for ever.
        let is_empty = |group: &usize| dag.nodes.iter().all(|node| node.parent != Some(*group));
        for group in (0..groups as usize).filter(is_empty).collect::<Vec<_>>() {
            dag.add(store, random, false, Some(group))?;
        }
        let count = dag.nodes.len() as u64;
        for _ in 0..count + random.below(count) {
            let (blocker, blocked) = (random.below(count) as usize, random.below(count) as usize);
            let [from, to] = [blocker, blocked].map(|task| dag.id(task).to_string());
            // What would close a loop is refused, and is no part of the DAG.
            if store.add_dependency(&from, &to, Timestamp::now()).is_ok() {
                dag.edges.push((blocker, blocked));
            }
        }
        Ok(dag)
    }

    /// One of the groups, or none.
    fn any_group(&self, random: &mut Random) -> Option<usize> {
        let groups: Vec<usize> =
            (0..self.nodes.len()).filter(|&task| self.nodes[task].is_group).collect();
        let index = random.below(2 * groups.len() as u64) as usize;
        groups.get(index).copied()
    }

    fn add(
        &mut self,
        store: &mut Store,
        random: &mut Random,
        is_group: bool,
        parent: Option<usize>,
    ) -> Result<()> {
        let max_retries = (random.below(3) == 0).then(|| random.below(3) as u32);
        let task = NewTask {
            title: format!("T{}", self.nodes.len()),
            group: is_group,
            parent: parent.map(|parent| self.id(parent).to_string()),
            priority: random.below(5) as i32,
            max_retries,
            ..NewTask::default()
        };
        let id = store.add_tasks(&[task], None, Timestamp::now())?[0];
        self.nodes.push(Node { id, is_group, parent, max_retries });
        Ok(())
    }

    pub(super) fn id(&self, task: usize) -> TaskId {
        self.nodes[task].id
    }

    pub(super) fn max_retries(&self, task: usize) -> Option<u32> {
        self.nodes[task].max_retries
    }

    /// The tasks that are no groups.
    pub(super) fn work(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|&task| !self.nodes[task].is_group)
    }

    /// The work that has to be done before this task may begin.
    pub(super) fn before(&self, task: usize) -> Vec<usize> {
        // Whoever waits for a group waits for what is in it, and whatever is in a group waits with it.
        let is_before = |other: &usize| {
            let mut edges = self.edges.iter();
            edges.any(|&(from, to)| self.is_inside(*other, from) && self.is_inside(task, to))
        };
        self.work().filter(is_before).collect()
    }

    /// Whether a task is this one, or somewhere inside it.
    fn is_inside(&self, mut task: usize, group: usize) -> bool {
        while task != group {
            let Some(parent) = self.nodes[task].parent else { return false };
            task = parent;
        }
        true
    }
}
