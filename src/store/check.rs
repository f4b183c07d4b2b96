//! Compares what is derived with what is stored: says what differs, or writes it anew.

use std::fmt;

use anyhow::{Result, anyhow};
use rusqlite::Transaction;

use super::Store;
use super::migrate;
use super::order::describe;
use super::problem::RESTORE;
use super::snapshot::Topology;
use crate::dag::{Derived, Labels, TaskId};

/// How many differences are told one by one.
const SHOWN: usize = 10;
/// How many damaged places are counted.
const PLACES: usize = 100;

/// Children whose parent is not a group of their feature.
pub(super) const STRANGE_FAMILIES: &str =
    "from tasks as child join tasks as parent on parent.seq = child.parent
     where parent.kind <> 'group' or parent.feature is not child.feature";

/// Something that is wrong with the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The facts are there, and something else does not agree with them.
    Contradiction(String),
    /// Pages of the file, or what is in them, are not what they were.
    Damage {
        /// In how many places, as far as they were counted.
        places: usize,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Contradiction(what) => f.write_str(what),
            Finding::Damage { places: 1 } => f.write_str("the file is damaged in one place"),
            Finding::Damage { places: PLACES } => {
                write!(f, "the file is damaged in {PLACES} places or more")
            }
            Finding::Damage { places } => write!(f, "the file is damaged in {places} places"),
        }
    }
}

impl Finding {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Finding::Contradiction(_) => {
                "`ralph export | ralph import` derives everything anew; keep a copy of the file"
            }
            Finding::Damage { .. } => RESTORE,
        }
    }
}

impl Store {
    /// Everything that is wrong with the database; nothing, if all is well.
    pub fn check(&self) -> Result<Vec<Finding>> {
        let mut findings = self.read(|tx| {
            let mut findings = check_file(tx)?;
            if findings.is_empty() {
                findings = check_derived(tx)?;
            }
            Ok(findings)
        })?;
        // An export reads every row as what it should be.
        if findings.is_empty() && self.export(&mut std::io::sink()).is_err() {
            findings.push(Finding::Contradiction(
                "some rows or tables are not what they should be".into(),
            ));
        }
        Ok(findings)
    }
}

fn check_file(tx: &Transaction<'_>) -> Result<Vec<Finding>> {
    let mut query = tx.prepare(&format!("pragma integrity_check({PLACES})"))?;
    let lines: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let lines = lines.iter().filter(|&line| line != "ok");
    let (rules, places): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.starts_with("CHECK constraint failed"));
    // The rules of the tables are in the file, too.
    let schema = migrate::schema(tx)?;
    let missing = migrate::our_schema()?.iter().filter(|ours| !schema.contains(ours)).count();
    let mut findings = Vec::new();
    if places.len() + missing > 0 {
        // Which pages and indexes these are means nothing to a person.
        findings.push(Finding::Damage { places: (places.len() + missing).min(PLACES) });
    }
    if !rules.is_empty() {
        findings.push(Finding::Contradiction("some rows break a rule of their table".into()));
    }
    if tx.prepare(&format!("select 1 {STRANGE_FAMILIES}"))?.exists([])? {
        findings.push(Finding::Contradiction(
            "some tasks are inside what is no group of their feature".into(),
        ));
    }
    if tx.prepare("pragma foreign_key_check")?.exists([])? {
        findings.push(Finding::Contradiction("some rows refer to rows that are not there".into()));
    }
    Ok(findings)
}

fn check_derived(tx: &Transaction<'_>) -> Result<Vec<Finding>> {
    let topology = Topology::load(tx)?;
    let derived = match topology.graph.derive() {
        Ok(derived) => derived,
        Err(cycle) => {
            let text = format!("the tasks wait in a loop{}", describe(tx, &topology, &cycle)?);
            return Ok(vec![Finding::Contradiction(text)]);
        }
    };
    let mut findings = Vec::new();
    if !topology.labels.agree_with(&topology.graph) {
        findings.push(Finding::Contradiction(
            "the stored order does not agree with the dependencies".into(),
        ));
    }
    let mut wrong = 0;
    each_stored(tx, |task, id, stored| {
        let right = Counters::derived(&derived, task, stored.claims);
        if stored != right {
            wrong += 1;
            if wrong <= SHOWN {
                findings.push(Finding::Contradiction(format!(
                    "{id}: stored {stored}, but it should be {right}"
                )));
            }
        }
        Ok(())
    })?;
    if wrong > SHOWN {
        findings.push(Finding::Contradiction(format!("… and {} more like that", wrong - SHOWN)));
    }
    Ok(findings)
}

/// The derived columns of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    claimed: bool,
    waits: u32,
    children: u32,
    children_done: u32,
    /// Open attempts, counted: a fact.
    claims: u32,
}

impl Counters {
    fn derived(derived: &Derived, task: usize, claims: u32) -> Counters {
        Counters {
            claimed: claims > 0,
            waits: derived.waits[task],
            children: derived.children[task],
            children_done: derived.children_done[task],
            claims,
        }
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { claimed, waits, children, children_done, .. } = self;
        write!(f, "claimed={claimed} waits={waits} children={children_done}/{children}")
    }
}

/// Hands the stored counters of each task to `look`, in the order of creation.
fn each_stored(
    tx: &Transaction<'_>,
    mut look: impl FnMut(usize, TaskId, Counters) -> Result<()>,
) -> Result<()> {
    let mut query = tx.prepare(
        "select id, claimed, waits, children, children_done,
             (select count(*) from attempts where task = tasks.seq and ended_at is null)
         from tasks
         order by seq",
    )?;
    let mut rows = query.query([])?;
    let mut task = 0;
    while let Some(row) = rows.next()? {
        let counters = Counters {
            claimed: row.get(1)?,
            waits: row.get(2)?,
            children: row.get(3)?,
            children_done: row.get(4)?,
            claims: row.get(5)?,
        };
        look(task, row.get(0)?, counters)?;
        task += 1;
    }
    Ok(())
}

/// Derives anew which tasks are claimed.
pub(super) fn rebuild_claims(tx: &Transaction<'_>) -> Result<()> {
    tx.execute(
        "update tasks
         set claimed = not claimed
         where claimed <> exists (
             select 1 from attempts where task = tasks.seq and ended_at is null
         )",
        [],
    )?;
    Ok(())
}

/// Derives everything else anew from the facts; an error if they contain a loop.
pub(super) fn rebuild(tx: &Transaction<'_>) -> Result<()> {
    let mut topology = Topology::load(tx)?;
    let order = match topology.graph.order() {
        Ok(order) => order,
        Err(cycle) => {
            return Err(anyhow!(
                "the tasks would wait in a loop{}",
                describe(tx, &topology, &cycle)?
            ));
        }
    };
    topology.save(tx, Labels::spaced(&order))?;
    let derived = topology.derive(tx)?;
    let mut update = tx.prepare(
        "update tasks
         set waits = ?2, children = ?3, children_done = ?4
         where seq = ?1 and (waits, children, children_done) <> (?2, ?3, ?4)",
    )?;
    for (task, &seq) in topology.seqs.iter().enumerate() {
        update.execute((
            seq,
            derived.waits[task],
            derived.children[task],
            derived.children_done[task],
        ))?;
    }
    Ok(())
}
