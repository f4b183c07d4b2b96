//! As much of the graph as says all about one task, so that looking at one costs the same however many
//! there are. What is left out changes nothing of what is asked; where it is too much, all is loaded.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::snapshot::{SUMMARIES, SUMMARY, load, missing, summary};
use super::{Store, resolve};
use crate::dag::{FeatureId, Graph, Kind, Node, Snapshot, Status, Summary};
use crate::time::Timestamp;

/// How many tasks are looked up one by one; loading all is quicker than more.
const MOST: usize = 1_000;

impl Store {
    /// The task that this text means: its place in a snapshot in which it, what it waits for, what waits
    /// for it, what is inside it and what is around it are as in a snapshot of everything.
    pub fn snapshot_around(&self, task: &str, now: Timestamp) -> Result<(Snapshot, usize)> {
        self.read(|tx| {
            let place = resolve::task(tx, task)?;
            let mut around = Around::new(tx, now);
            let mut agenda = around.look_at(place.seq)?;
            agenda.extend(around.blocked(place.seq)?);
            if around.collect(agenda)? {
                return around.snapshot(place.seq);
            }
            let all = load(tx, now)?;
            let index = all.tasks.iter().position(|task| task.id == place.id);
            Ok((all, index.expect("it is there")))
        })
    }

    /// The ready task that will be taken next, of a feature or of all, in a snapshot in which it and what
    /// it waited for are as in one of everything; none if nothing is ready.
    pub fn snapshot_of_next(
        &self,
        feature: Option<FeatureId>,
        now: Timestamp,
    ) -> Result<Option<(Snapshot, usize)>> {
        self.read(|tx| {
            let Some(seq) = next(tx, feature, now)? else { return Ok(None) };
            let mut around = Around::new(tx, now);
            let agenda = around.look_at(seq)?;
            if around.collect(agenda)? {
                return around.snapshot(seq).map(Some);
            }
            let all = load(tx, now)?;
            let is_wanted = |&task: &usize| feature.is_none() || all.tasks[task].feature == feature;
            let index = all.ready().into_iter().find(is_wanted);
            Ok(index.map(|index| (all, index)))
        })
    }
}

/// The ready task that comes first; a time that has passed holds nothing back.
fn next(tx: &Transaction<'_>, feature: Option<FeatureId>, now: Timestamp) -> Result<Option<i64>> {
    let of_feature = if feature.is_some() { "feature = ?1 and" } else { "?1 is null and" };
    let first = |due: &str| {
        format!(
            "select * from (
                 select seq, priority
                 from tasks
                 where {of_feature} status = 'pending' and waits = 0 and claimed = 0 and {due}
                 order by priority, seq
                 limit 1
             )"
        )
    };
    let (always, by_now) = (first("not_before is null"), first("not_before <= ?2"));
    let query = format!("{always} union all {by_now} order by priority, seq limit 1");
    Ok(tx.query_row(&query, params![feature, now], |row| row.get(0)).optional()?)
}

/// Collects tasks until what is asked follows from them.
struct Around<'a> {
    tx: &'a Transaction<'a>,
    now: Timestamp,
    tasks: BTreeMap<i64, Seen>,
    /// Blockers and what they block.
    dependencies: BTreeSet<(i64, i64)>,
}

/// A task that was loaded.
struct Seen {
    summary: Summary,
    node: Node,
    parent: Option<i64>,
    waits: bool,
    /// Whether what its start follows from has been asked for, and what its end follows from.
    starts: bool,
    ends: bool,
}

/// What is to follow of a task.
#[derive(Clone, Copy)]
enum Need {
    /// What holds it back.
    Start,
    /// Its state, and whether it can get done.
    End,
}

const BLOCKERS: &str = "select blocker from dependencies where blocked = ?";
const BLOCKED: &str = "select blocked from dependencies where blocker = ?";
const CHILDREN: &str = "select seq from tasks where parent = ?";

impl<'a> Around<'a> {
    fn new(tx: &'a Transaction<'a>, now: Timestamp) -> Around<'a> {
        Around { tx, now, tasks: BTreeMap::new(), dependencies: BTreeSet::new() }
    }

    /// The state of a task, what it waits for, and the groups around it.
    fn look_at(&mut self, seq: i64) -> Result<Vec<(i64, Need)>> {
        let blockers = self.blockers(seq)?;
        Ok(blockers.into_iter().chain([(seq, Need::Start), (seq, Need::End)]).collect())
    }

    fn blockers(&mut self, seq: i64) -> Result<Vec<(i64, Need)>> {
        let blockers = self.ask(BLOCKERS, seq)?;
        self.dependencies.extend(blockers.iter().map(|&blocker| (blocker, seq)));
        Ok(blockers.into_iter().map(|blocker| (blocker, Need::End)).collect())
    }

    fn blocked(&mut self, seq: i64) -> Result<Vec<(i64, Need)>> {
        let blocked = self.ask(BLOCKED, seq)?;
        self.dependencies.extend(blocked.iter().map(|&blocked| (seq, blocked)));
        Ok(blocked.into_iter().map(|blocked| (blocked, Need::End)).collect())
    }

    /// Loads what is needed, and what that needs; false if that is too much.
    fn collect(&mut self, mut agenda: Vec<(i64, Need)>) -> Result<bool> {
        while let Some((seq, need)) = agenda.pop() {
            if agenda.len() > MOST || (self.tasks.len() >= MOST && !self.tasks.contains_key(&seq)) {
                return Ok(false);
            }
            let seen = self.load(seq)?;
            let known = match need {
                Need::Start => std::mem::replace(&mut seen.starts, true),
                Need::End => std::mem::replace(&mut seen.ends, true),
            };
            let (node, parent, waits) = (seen.node.clone(), seen.parent, seen.waits);
            match (need, node.kind) {
                _ if known => {}
                (Need::Start, _) => {
                    agenda.extend(parent.map(|parent| (parent, Need::Start)));
                    // Where nothing is open, there is nothing to follow.
                    if waits {
                        agenda.extend(self.blockers(seq)?);
                    }
                }
                (Need::End, Kind::Work) => {
                    if node.status == Status::Pending && !node.claimed {
                        agenda.push((seq, Need::Start));
                    }
                }
                (Need::End, Kind::Group) => {
                    agenda.push((seq, Need::Start));
                    let children = self.ask(CHILDREN, seq)?;
                    agenda.extend(children.into_iter().map(|child| (child, Need::End)));
                }
            }
        }
        Ok(true)
    }

    fn load(&mut self, seq: i64) -> Result<&mut Seen> {
        Ok(match self.tasks.entry(seq) {
            Entry::Occupied(seen) => seen.into_mut(),
            Entry::Vacant(new) => new.insert(
                self.tx
                    .prepare_cached(&format!(
                        "select {SUMMARY}, kind, status, parent, claimed, not_before > ?2, waits > 0
                         from tasks
                         where seq = ?1"
                    ))?
                    .query_row(params![seq, self.now], seen)
                    .optional()?
                    .ok_or_else(missing)?,
            ),
        })
    }

    /// So many neighbours of a task that there can be no doubt if they are too many.
    fn ask(&self, query: &str, seq: i64) -> Result<Vec<i64>> {
        let mut query = self.tx.prepare_cached(&format!("{query} limit {}", MOST + 1))?;
        let found = query.query_map([seq], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(found)
    }

    fn snapshot(self, seq: i64) -> Result<(Snapshot, usize)> {
        let seqs: Vec<i64> = self.tasks.keys().copied().collect();
        let index = |seq: &i64| seqs.binary_search(seq).ok();
        let pairs: Vec<(usize, usize)> = self
            .dependencies
            .iter()
            .filter_map(|(blocker, blocked)| Some((index(blocker)?, index(blocked)?)))
            .collect();
        let place = index(&seq).expect("it was looked at");
        let (mut tasks, mut nodes) = (Vec::new(), Vec::new());
        for seen in self.tasks.into_values() {
            tasks.push(seen.summary);
            nodes.push(Node { parent: seen.parent.as_ref().and_then(index), ..seen.node });
        }
        let graph = Graph::new(nodes, &pairs);
        let derived = graph.derive().map_err(|_| anyhow!("the tasks wait in a loop"))?;
        Ok((Snapshot { tasks, graph, derived }, place))
    }
}

fn seen(row: &Row<'_>) -> rusqlite::Result<Seen> {
    let node = Node {
        kind: row.get(SUMMARIES)?,
        status: row.get::<_, Option<Status>>(SUMMARIES + 1)?.unwrap_or(Status::Pending),
        parent: None,
        claimed: row.get(SUMMARIES + 3)?,
        deferred: row.get::<_, Option<bool>>(SUMMARIES + 4)?.unwrap_or(false),
    };
    Ok(Seen {
        summary: summary(row)?,
        node,
        parent: row.get(SUMMARIES + 2)?,
        waits: row.get(SUMMARIES + 5)?,
        starts: false,
        ends: false,
    })
}
