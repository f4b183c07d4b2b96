//! A worker that adds, joins, claims, finishes and resets at random, as a run and the people around it do.
//! It prints what it did, and how long each of it took, many lines at a time:
//!
//!     took NANOSECONDS KIND
//!     held TASK ASKED FROM TO SAID kept|lost
//!                                           a claim: asked for, ours, finished, and when we knew of that
//!     reset TASK FROM TO                    by us, whoever held it
//!     refused COUNT                         what the rules of the graph do not allow

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use ralph::dag::{Outcome, TaskId, Verb};
use ralph::store::{Claim, ClaimLost, NewTask};
use ralph::time::Timestamp;

use super::random::Random;
use super::{Worker, print};

/// So much is kept before it is said: a pipe holds more.
const MUCH: usize = 4_096;

pub(crate) struct Mix {
    worker: Worker,
    random: Random,
    known: Vec<TaskId>,
    /// What we work on, when we asked for it and since when we have it.
    held: Option<(Claim, u128, u128)>,
    refused: usize,
    report: String,
}

impl Mix {
    pub(crate) fn start(database: &str, seed: u64) -> Result<Mix> {
        let worker = Worker::start(database)?;
        let tasks = worker.store.snapshot(Timestamp::now())?.tasks;
        let known = tasks.iter().map(|task| task.id).collect();
        let random = Random::new(seed);
        Ok(Mix { worker, random, known, held: None, refused: 0, report: String::new() })
    }

    /// Begins when there is such a file, and ends when it has added so many tasks.
    pub(crate) fn run(mut self, go: &Path, adds: usize) -> Result<()> {
        print(&"ready")?;
        while !go.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut added = 0;
        while added < adds {
            let began = Instant::now();
            let (kind, done) = self.step();
            writeln!(self.report, "took {} {kind}", began.elapsed().as_nanos())?;
            match done {
                Ok(()) => added += usize::from(kind == "add"),
                // What the database says is no refusal.
                Err(error) if error.is::<rusqlite::Error>() => {
                    return Err(error);
                }
                Err(_) => self.refused += 1,
            }
            if self.report.len() > MUCH {
                self.say()?;
            }
        }
        self.finish()?;
        writeln!(self.report, "refused {}", self.refused)?;
        self.say()
    }

    fn say(&mut self) -> Result<()> {
        print(&self.report.trim_end())?;
        self.report.clear();
        Ok(())
    }

    fn step(&mut self) -> (&'static str, Result<()>) {
        match self.below(20) {
            0..7 => ("add", self.add()),
            7..10 => ("join", self.join()),
            10 => ("part", self.part()),
            11 => ("beat", self.worker.store.heartbeat(self.worker.run, Timestamp::now())),
            12 => ("reset", self.reset()),
            _ if self.held.is_some() => ("finish", self.finish()),
            _ => ("claim", self.claim()),
        }
    }

    fn add(&mut self) -> Result<()> {
        let task = NewTask {
            title: format!("chance {}", self.below(1_000_000)),
            description: "x".repeat(self.below(500)),
            group: self.below(20) == 0,
            parent: (self.below(4) == 0).then(|| self.any()),
            after: (0..self.below(3)).map(|_| self.any()).collect(),
            priority: i32::try_from(self.below(5))?,
            ..NewTask::default()
        };
        let ids = self.worker.store.add_tasks(&[task], None, Timestamp::now())?;
        self.known.extend(ids);
        Ok(())
    }

    fn join(&mut self) -> Result<()> {
        let (blocker, blocked) = (self.any(), self.any());
        self.worker.store.add_dependency(&blocker, &blocked, Timestamp::now()).map(drop)
    }

    fn part(&mut self) -> Result<()> {
        let (blocker, blocked) = (self.any(), self.any());
        self.worker.store.remove_dependency(&blocker, &blocked, Timestamp::now()).map(drop)
    }

    fn reset(&mut self) -> Result<()> {
        let (task, from) = (self.any(), now());
        let reset = self.worker.store.apply(Verb::Reset, &task, None, None, Timestamp::now());
        for task in reset.iter().flatten() {
            writeln!(self.report, "reset {task} {from} {}", now())?;
        }
        reset.map(drop)
    }

    fn claim(&mut self) -> Result<()> {
        let asked = now();
        self.held = self.worker.claim()?.map(|claim| (claim, asked, now()));
        self.known.extend(self.held.iter().map(|(claim, ..)| claim.task));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let Some((claim, asked, from)) = self.held.take() else { return Ok(()) };
        let outcome = match self.below(10) {
            0 => Outcome::Failed,
            1 => Outcome::Silent,
            2 => Outcome::Interrupted,
            _ => Outcome::Done,
        };
        let (task, ends) = (claim.task, now());
        // It was ours when we began to finish it; or it was taken from us, at the latest while we did.
        let (kept, to) = match self.worker.finish(claim, outcome) {
            Ok(()) => ("kept", ends),
            Err(error) if error.is::<ClaimLost>() => ("lost", now()),
            Err(error) => return Err(error),
        };
        Ok(writeln!(self.report, "held {task} {asked} {from} {to} {} {kept}", now())?)
    }

    fn any(&mut self) -> String {
        let index = self.below(self.known.len());
        self.known.get(index).map_or("t-000000".to_owned(), TaskId::to_string)
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }
}

/// The time, which is the same for all processes.
fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos()
}
