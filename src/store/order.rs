//! Keeps `starts` and `ends`, the order in which nothing waits for what comes later. An edge that
//! fits the order costs two comparisons; one that does not loads the graph and moves what it must.

use std::fmt::Write;

use anyhow::{Result, anyhow};
use rusqlite::Transaction;

use super::rows::Place;
use super::snapshot::Topology;
use crate::dag::{Cycle, Kind, Labels, Link, Moment, Span};
use crate::hint::HintExt;

/// How many steps of a loop are shown before the middle is left out.
const SHOWN_STEPS: usize = 12;

/// A place for a new task: inside its parent, or behind everything.
pub(super) fn place(tx: &Transaction<'_>, parent: Option<&Place>, kind: Kind) -> Result<Span> {
    if let Some(span) = find_gap(tx, parent, kind)? {
        return Ok(span);
    }
    let mut topology = Topology::load(tx)?;
    let respaced = topology.labels.respaced();
    topology.save(tx, respaced)?;
    find_gap(tx, parent, kind)?.ok_or_else(|| anyhow!("there is no room for another task"))
}

fn find_gap(tx: &Transaction<'_>, parent: Option<&Place>, kind: Kind) -> Result<Option<Span>> {
    let Some(parent) = parent else {
        let last =
            tx.prepare_cached("select max(ends) from tasks")?.query_row([], |row| row.get(0))?;
        return Ok(Span::after(last));
    };
    let (low, high): (i64, i64) = tx
        .prepare_cached(
            "select
                 max(
                     (select max(starts) from tasks where starts < parent.ends),
                     coalesce((select max(ends) from tasks where ends < parent.ends), parent.starts)
                 ),
                 parent.ends
             from tasks as parent
             where seq = ?",
        )?
        .query_row([parent.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Span::between(low, high, kind))
}

/// Makes the order agree with a new dependency, or says which loop it would close.
pub(super) fn fit_dependency(tx: &Transaction<'_>, blocker: &Place, blocked: &Place) -> Result<()> {
    if blocker.span.is_before(blocked.span) {
        return Ok(());
    }
    let mut topology = Topology::load(tx)?;
    let (from, to) = (topology.index(blocker.seq), topology.index(blocked.seq));
    let mut labels = topology.labels.clone();
    match labels.insert(&topology.graph, &[], Moment::End(from), Moment::Start(to)) {
        Ok(()) => topology.save(tx, labels),
        Err(cycle) => Err(anyhow!(
            "`{}` can't wait for `{}`: that closes a loop{}",
            blocked.id,
            blocker.id,
            describe(tx, &topology, &cycle)?
        ))
        .hint("remove one side with `ralph task deps rm`"),
    }
}

/// Makes the order agree with a new parent of a task that has none, or says which loop that would
/// close.
pub(super) fn fit_parent(tx: &Transaction<'_>, child: &Place, parent: &Place) -> Result<()> {
    if parent.span.encloses(child.span) {
        return Ok(());
    }
    let mut topology = Topology::load(tx)?;
    let (inner, outer) = (topology.index(child.seq), topology.index(parent.seq));
    let mut labels = topology.labels.clone();
    let starts = (Moment::Start(outer), Moment::Start(inner));
    let fits = labels.insert(&topology.graph, &[], starts.0, starts.1).and_then(|()| {
        labels.insert(&topology.graph, &[starts], Moment::End(inner), Moment::End(outer))
    });
    match fits {
        Ok(()) => topology.save(tx, labels),
        Err(cycle) => Err(anyhow!(
            "`{}` can't go into `{}`: that closes a loop{}",
            child.id,
            parent.id,
            describe(tx, &topology, &cycle)?
        ))
        .hint("remove one side with `ralph task deps rm`, or choose another parent"),
    }
}

/// The steps of a loop, a line each.
pub(super) fn describe(tx: &Transaction<'_>, topology: &Topology, cycle: &Cycle) -> Result<String> {
    let mut title = tx.prepare_cached("select id, title from tasks where seq = ?")?;
    let mut name = |task: usize| {
        title.query_row([topology.seqs[task]], |row| {
            let (id, title): (String, String) = (row.get(0)?, row.get(1)?);
            Ok(format!("{id} \"{title}\""))
        })
    };
    let mut text = String::new();
    for (step, link) in cycle.links.iter().enumerate() {
        let left_out = cycle.links.len().saturating_sub(SHOWN_STEPS);
        if left_out > 0 && step == SHOWN_STEPS / 2 {
            write!(text, "\n  … {left_out} more steps …")?;
        }
        if left_out > 0 && (SHOWN_STEPS / 2..SHOWN_STEPS / 2 + left_out).contains(&step) {
            continue;
        }
        match *link {
            Link::Waits { task, on } => {
                write!(text, "\n  {} waits for {}", name(task)?, name(on)?)?;
            }
            Link::Inside { task, group } => {
                write!(text, "\n  {} is inside {}", name(task)?, name(group)?)?;
            }
        }
    }
    Ok(text)
}

impl Topology {
    /// Writes the labels that differ from those that were loaded.
    pub(super) fn save(&mut self, tx: &Transaction<'_>, labels: Labels) -> Result<()> {
        let mut update =
            tx.prepare_cached("update tasks set starts = ?2, ends = ?3 where seq = ?1")?;
        for (task, &seq) in self.seqs.iter().enumerate() {
            let span = labels.span(task);
            if span != self.labels.span(task) {
                update.execute((seq, span.start, span.end))?;
            }
        }
        self.labels = labels;
        Ok(())
    }
}
