//! The whole graph in memory, for what looks at all of it: listings, trees, searches for loops.

use anyhow::{Result, anyhow};
use rusqlite::{Row, Transaction};

use super::Store;
use super::order::describe;
use super::resolve;
use crate::dag::{Derived, Graph, Kind, Labels, Node, Snapshot, Span, Status, Summary};
use crate::hint::Hinted;
use crate::time::Timestamp;

/// The graph with its order. Tasks are named by their index, in the order of creation.
pub(super) struct Topology {
    pub(super) seqs: Vec<i64>,
    pub(super) graph: Graph,
    pub(super) labels: Labels,
}

impl Topology {
    pub(super) fn load(tx: &Transaction<'_>) -> Result<Topology> {
        Topology::load_at(tx, None)
    }

    /// Loads the graph; with a time it also knows which tasks are not due yet.
    pub(super) fn load_at(tx: &Transaction<'_>, now: Option<Timestamp>) -> Result<Topology> {
        let count: u32 = tx.query_row("select count(*) from tasks", [], |row| row.get(0))?;
        let count = count as usize;
        let mut seqs: Vec<i64> = Vec::with_capacity(count);
        let mut nodes: Vec<Node> = Vec::with_capacity(count);
        let mut parents: Vec<Option<i64>> = Vec::with_capacity(count);
        let mut spans: Vec<Span> = Vec::with_capacity(count);
        let mut query = tx.prepare(
            "select seq, parent, starts, ends, claimed, kind = 'group', status, not_before > ?1
             from tasks
             order by seq",
        )?;
        let mut rows = query.query([now])?;
        while let Some(row) = rows.next()? {
            seqs.push(row.get(0)?);
            spans.push(Span { start: row.get(2)?, end: row.get(3)? });
            parents.push(row.get(1)?);
            nodes.push(Node {
                kind: if row.get(5)? { Kind::Group } else { Kind::Work },
                status: row.get::<_, Option<Status>>(6)?.unwrap_or(Status::Pending),
                parent: None,
                claimed: row.get(4)?,
                deferred: row.get::<_, Option<bool>>(7)?.unwrap_or(false),
            });
        }
        let index = |seq: i64| find(&seqs, seq);
        for (node, parent) in nodes.iter_mut().zip(parents) {
            node.parent = parent.map(index).transpose()?;
        }
        let mut query = tx.prepare("select blocker, blocked from dependencies")?;
        let mut dependencies: Vec<(usize, usize)> = Vec::new();
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            dependencies.push((index(row.get(0)?)?, index(row.get(1)?)?));
        }
        let graph = Graph::new(nodes, &dependencies);
        Ok(Topology { graph, labels: Labels::new(spans), seqs })
    }

    /// The index of a task that was loaded.
    pub(super) fn index(&self, seq: i64) -> usize {
        find(&self.seqs, seq).expect("it was loaded")
    }

    /// What follows from the graph; an error if it has a loop.
    pub(super) fn derive(&self, tx: &Transaction<'_>) -> Result<Derived> {
        match self.graph.derive() {
            Ok(derived) => Ok(derived),
            Err(cycle) => Err(anyhow!("the tasks wait in a loop{}", describe(tx, self, &cycle)?)),
        }
    }
}

fn find(seqs: &[i64], seq: i64) -> Result<usize> {
    seqs.binary_search(&seq).map_err(|_| missing())
}

/// A task that is referred to is not there.
pub(super) fn missing() -> anyhow::Error {
    Hinted {
        source: anyhow!("the database refers to a task that is not there"),
        hint: "run `ralph doctor` to see what is wrong with it".into(),
    }
    .into()
}

/// The columns that `summary` reads.
pub(super) const SUMMARY: &str = "id, title, priority, feature, reason, not_before,
     (select count(*) from attempts where task = tasks.seq)";
/// How many these are.
pub(super) const SUMMARIES: usize = 7;

pub(super) fn summary(row: &Row<'_>) -> rusqlite::Result<Summary> {
    Ok(Summary {
        id: row.get(0)?,
        title: row.get(1)?,
        priority: row.get(2)?,
        feature: row.get(3)?,
        reason: row.get(4)?,
        not_before: row.get(5)?,
        attempts: row.get(6)?,
    })
}

/// All tasks as they are now.
pub(super) fn load(tx: &Transaction<'_>, now: Timestamp) -> Result<Snapshot> {
    let topology = Topology::load_at(tx, Some(now))?;
    let derived = topology.derive(tx)?;
    let (count, graph) = (topology.seqs.len(), topology.graph);
    let mut query = tx.prepare(&format!("select {SUMMARY} from tasks order by seq"))?;
    let mut tasks = Vec::with_capacity(count);
    for task in query.query_map([], summary)? {
        tasks.push(task?);
    }
    Ok(Snapshot { tasks, graph, derived })
}

impl Store {
    /// All tasks as they are now.
    pub fn snapshot(&self, now: Timestamp) -> Result<Snapshot> {
        self.read(|tx| load(tx, now))
    }

    /// The index in a snapshot of the task that this text means.
    pub fn find_in(&self, snapshot: &Snapshot, task: &str) -> Result<usize> {
        let id = self.read(|tx| Ok(resolve::task(tx, task)?.id))?;
        snapshot
            .tasks
            .iter()
            .position(|task| task.id == id)
            .ok_or_else(|| anyhow!("`{id}` was added just now; try again"))
    }
}
