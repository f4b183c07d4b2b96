//! A dependency that fits the order must cost the same in any graph; one that does not may take the
//! time to read the graph.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ralph::dag::TaskId;
use ralph::store::{NewTask, Store};
use ralph::time::Timestamp;

use crate::Scale;
use crate::graphs::{Shape, fill};
use crate::measure::{interleaved, median, time};
use crate::project::Project;
use crate::table::{Amount, Limit, Row};

const SMALL: usize = 10;
const ROUNDS: usize = 300;
const SLOW_ROUNDS: usize = 10;

pub(crate) fn edges(scale: &Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &size in scale.sizes {
        let (mut large, mut small) = (Chain::new(size)?, Chain::new(SMALL)?);
        let (measured, baseline) = interleaved(ROUNDS, || large.fits(), || small.fits())?;
        let name = format!("edge that fits, chain of {size} vs {SMALL}");
        rows.push(Row::ratio(name, measured, baseline, 1.2));
        // What searches is linear, and the limit is for the smaller size.
        let limit = match size {
            ..=100_000 => Limit::AtMost(Amount::Time(Duration::from_millis(250))),
            _ => Limit::None,
        };
        let against = slow(|| large.against())?;
        rows.push(Row::new(format!("edge against the order, chain of {size}"), against, limit));
        let cycle = slow(|| large.cycle())?;
        rows.push(Row::new(format!("refused cycle, chain of {size}"), cycle, limit));
    }
    Ok(rows)
}

fn slow(work: impl FnMut() -> Result<Duration>) -> Result<Amount> {
    let times = std::iter::repeat_with(work).take(SLOW_ROUNDS).collect::<Result<_>>()?;
    Ok(Amount::Time(median(times)))
}

/// A chain, and beside it a task that nothing waits for.
struct Chain {
    store: Store,
    first: TaskId,
    last: TaskId,
    beside: TaskId,
    _project: Project,
}

impl Chain {
    fn new(count: usize) -> Result<Chain> {
        let project = Project::new()?;
        let mut store = project.store()?;
        let (first, last) = fill(&mut store, Shape::Chain, count)?;
        let beside = add(&mut store, "beside the chain")?;
        Ok(Chain { store, first, last, beside, _project: project })
    }

    /// Makes the task beside the chain wait for its first one.
    fn fits(&mut self) -> Result<Duration> {
        let (first, beside) = (self.first.to_string(), self.beside.to_string());
        let (time, _) = time(|| self.store.add_dependency(&first, &beside, Timestamp::now()))?;
        self.store.remove_dependency(&first, &beside, Timestamp::now())?;
        Ok(time)
    }

    /// Makes the first one wait for a task that was added last.
    fn against(&mut self) -> Result<Duration> {
        let late = add(&mut self.store, "what the first one waits for")?;
        let (time, _) = time(|| {
            self.store.add_dependency(&late.to_string(), &self.first.to_string(), Timestamp::now())
        })?;
        Ok(time)
    }

    /// Tries to make the first one wait for the last.
    fn cycle(&mut self) -> Result<Duration> {
        let (first, last) = (self.first.to_string(), self.last.to_string());
        let (time, refused) =
            time(|| Ok(self.store.add_dependency(&last, &first, Timestamp::now()).is_err()))?;
        ensure!(refused, "a loop was not refused");
        Ok(time)
    }
}

fn add(store: &mut Store, title: &str) -> Result<TaskId> {
    let task = NewTask { title: title.into(), ..NewTask::default() };
    let ids = store.add_tasks(&[task], None, Timestamp::now())?;
    ids.first().copied().context("nothing was added")
}
