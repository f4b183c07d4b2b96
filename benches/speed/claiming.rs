//! Taking the next task must cost the same however many tasks there are.

use std::time::Duration;

use anyhow::{Context, Result};
use ralph::dag::{Outcome, RunId};
use ralph::store::{Ending, NewRun, Store, Target};
use ralph::time::Timestamp;

use crate::Scale;
use crate::graphs::{Shape, fill};
use crate::measure::{cpu, interleaved, time};
use crate::project::Project;
use crate::table::{Amount, Limit, Row};

const SMALL: usize = 1_000;
const ROUNDS: usize = 300;

pub(crate) fn claims(scale: &Scale) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for shape in Shape::ALL {
        let mut small = Claimer::new(shape, SMALL)?;
        for &size in scale.sizes {
            let mut large = Claimer::new(shape, size)?;
            let name = format!("claim, {}, {size} tasks vs {SMALL}", shape.name());
            let (measured, baseline) = interleaved(ROUNDS, || large.claim(), || small.claim())?;
            rows.push(Row::ratio(name, measured, baseline, 2.0));
            let limit = Limit::AtMost(Amount::Time(Duration::from_millis(1)));
            rows.push(Row::new("  mean CPU of a claim", Amount::Time(large.mean_cpu()), limit));
        }
    }
    Ok(rows)
}

/// Takes the same task again and again.
struct Claimer {
    store: Store,
    run: RunId,
    claims: u32,
    cpu: Duration,
    _project: Project,
}

impl Claimer {
    fn new(shape: Shape, count: usize) -> Result<Claimer> {
        let project = Project::new()?;
        let mut store = project.store()?;
        fill(&mut store, shape, count)?;
        let run = NewRun::new();
        let run = store.start_run(&run, Timestamp::now())?;
        Ok(Claimer { store, run, claims: 0, cpu: Duration::ZERO, _project: project })
    }

    /// How long a claim takes; giving it back is not counted.
    fn claim(&mut self) -> Result<Duration> {
        let now = Timestamp::now();
        let cpu_before = cpu();
        let (time, claim) = time(|| self.store.claim_next(self.run, &Target::Everything, now))?;
        self.cpu += cpu() - cpu_before;
        self.claims += 1;
        let ending = Ending::new(Outcome::Interrupted, 0);
        self.store.finish(claim.context("nothing is ready")?, &ending, now)?;
        Ok(time)
    }

    fn mean_cpu(&self) -> Duration {
        self.cpu / self.claims
    }
}
