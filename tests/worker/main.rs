//! A program for tests and benchmarks that works on a database the way `ralph run` does.
//!
//!     ralph-worker claim DB        claims until nothing is ready; prints each task
//!     ralph-worker work DB         claims and finishes until nothing is left; prints each task
//!     ralph-worker hold DB         claims one task, prints it and waits for the end of stdin
//!     ralph-worker churn DB SEED   changes things at random until it is killed
//!     ralph-worker mix DB SEED GO COUNT
//!                                  waits for the file GO, then works and adds COUNT tasks at random
//!     ralph-worker listen          prints its pid and its start, then each signal that it gets

mod mix;
#[path = "../it/random.rs"]
mod random;

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ralph::dag::{Outcome, RunId, State, TaskId, Verb};
use ralph::process::Holder;
use ralph::store::{Change, Claim, Ending, NewRun, NewTask, Store, Target, explain};
use ralph::time::Timestamp;

use random::Random;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["claim", database] => claim(&mut Worker::start(database)?),
        ["work", database] => work(&mut Worker::start(database)?),
        ["hold", database] => hold(&mut Worker::start(database)?),
        ["churn", database, seed] => Churn::start(database, seed.parse()?)?.run(),
        ["mix", database, seed, go, count] => {
            mix::Mix::start(database, seed.parse()?)?.run(Path::new(go), count.parse()?)
        }
        ["listen"] => listen(),
        _ => bail!(
            "usage: ralph-worker claim|work|hold DB, churn DB SEED, mix DB SEED GO COUNT, listen"
        ),
    }
}

/// A run on a database.
struct Worker {
    store: Store,
    run: RunId,
    worst: Duration,
}

impl Worker {
    fn start(database: &str) -> Result<Worker> {
        let mut store = Store::open(Path::new(database))?;
        let run = NewRun::new();
        let run = store.start_run(&run, Timestamp::now())?;
        Ok(Worker { store, run, worst: Duration::ZERO })
    }

    fn claim(&mut self) -> Result<Option<Claim>> {
        let began = Instant::now();
        let claim = self.store.claim_next(self.run, &Target::Everything, Timestamp::now())?;
        self.worst = self.worst.max(began.elapsed());
        Ok(claim)
    }

    fn finish(&mut self, claim: Claim, outcome: Outcome) -> Result<()> {
        let reason = matches!(outcome, Outcome::Failed | Outcome::Blocked | Outcome::Silent)
            .then(|| format!("it was {outcome}"));
        let ending = Ending { reason, ..Ending::new(outcome, 1) };
        self.store.finish(claim, &ending, Timestamp::now()).map(drop)
    }

    /// Prints the longest wait for a claim, in milliseconds.
    fn report(&self) -> Result<()> {
        Ok(writeln!(io::stderr(), "{}", self.worst.as_millis())?)
    }
}

fn claim(worker: &mut Worker) -> Result<()> {
    while let Some(claim) = worker.claim()? {
        print(&claim.task)?;
    }
    worker.report()
}

fn work(worker: &mut Worker) -> Result<()> {
    loop {
        if let Some(claim) = worker.claim()? {
            print(&claim.task)?;
            ensure_it_may_run(&worker.store, claim.task)?;
            worker.finish(claim, Outcome::Done)?;
        } else if is_anything_running(&worker.store)? {
            // What the others finish may make something ready.
            std::thread::sleep(Duration::from_millis(2));
        } else {
            return worker.report();
        }
    }
}

/// Everything that it and the groups around it wait for must be done.
fn ensure_it_may_run(store: &Store, task: TaskId) -> Result<()> {
    let snapshot = store.snapshot(Timestamp::now())?;
    let place = store.find_in(&snapshot, &task.to_string())?;
    for around in snapshot.graph.lineage(place) {
        for blocker in snapshot.graph.blockers(around) {
            ensure!(snapshot.state(blocker) == State::Done, "{task} was claimed too early");
        }
    }
    Ok(())
}

/// Whether anything is in progress, or became ready since we looked.
fn is_anything_running(store: &Store) -> Result<bool> {
    let snapshot = store.snapshot(Timestamp::now())?;
    Ok(snapshot.derived.states.iter().any(|s| matches!(s, State::InProgress | State::Ready)))
}

fn hold(worker: &mut Worker) -> Result<()> {
    let claim = worker.claim()?.context("nothing is ready")?;
    print(&claim.task)?;
    io::stdin().read_to_end(&mut Vec::new())?;
    worker.finish(claim, Outcome::Interrupted)
}

/// Says who it is, and then every signal that can be heard.
fn listen() -> Result<()> {
    let all = (1..32).filter(|signal| !signal_hook::consts::FORBIDDEN.contains(signal));
    let mut signals = signal_hook::iterator::Signals::new(all)?;
    let own = Holder::current();
    print(&format!("{} {}", own.pid, own.started))?;
    for signal in &mut signals {
        print(&signal)?;
    }
    Ok(())
}

fn print(text: &dyn std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    // One write, so that a reader never sees half a line.
    out.write_all(format!("{text}\n").as_bytes())?;
    Ok(out.flush()?)
}

/// Random changes. What was added is printed once it is committed: its id, and those of the groups
/// around it. What may take tasks away is printed before it is done.
struct Churn {
    worker: Worker,
    random: Random,
    /// Each task we know, with the groups around it, innermost first.
    known: Vec<(TaskId, Vec<TaskId>)>,
    claims: Vec<Claim>,
}

impl Churn {
    fn start(database: &str, seed: u64) -> Result<Churn> {
        let worker = Worker::start(database)?;
        let snapshot = worker.store.snapshot(Timestamp::now())?;
        let id = |task: usize| snapshot.tasks[task].id;
        let known = (0..snapshot.tasks.len())
            .map(|task| (id(task), snapshot.graph.lineage(task).skip(1).map(id).collect()))
            .collect();
        Ok(Churn { worker, random: Random::new(seed), known, claims: Vec::new() })
    }

    fn run(&mut self) -> Result<()> {
        loop {
            if let Err(error) = self.step() {
                // Most random changes are against the rules. What the database says is not.
                if explain(&error, Path::new("the database")).is_some() {
                    return Err(error);
                }
            }
        }
    }

    fn step(&mut self) -> Result<()> {
        let now = Timestamp::now();
        match self.below(20) {
            0..8 => self.add(now),
            8..11 => {
                let (blocker, blocked) = (self.any(), self.any());
                self.worker.store.add_dependency(&blocker, &blocked, Timestamp::now()).map(drop)
            }
            11 => {
                let (blocker, blocked) = (self.any(), self.any());
                self.worker.store.remove_dependency(&blocker, &blocked, Timestamp::now()).map(drop)
            }
            12..15 => {
                let verbs = [Verb::Done, Verb::Fail, Verb::Block, Verb::Reset];
                let (verb, task) = (verbs[self.below(4)], self.any());
                let reason = matches!(verb, Verb::Fail | Verb::Block).then_some("by chance");
                self.worker.store.apply(verb, &task, reason, None, now).map(drop)
            }
            15..17 => {
                self.claims.extend(self.worker.claim()?);
                Ok(())
            }
            17 => self.finish(),
            18 => {
                let task = self.any();
                print(&format!("deleting {task}"))?;
                self.worker.store.delete_task(&task).map(drop)
            }
            _ => {
                let (task, parent) = (self.any(), self.any());
                print(&format!("moving {task}"))?;
                let change = Change { parent: Some(Some(parent)), ..Change::default() };
                self.worker.store.update_task(&task, &change, now).map(drop)
            }
        }
    }

    fn add(&mut self, now: Timestamp) -> Result<()> {
        let parent = (self.below(3) == 0).then(|| self.pick()).flatten();
        let after = if self.below(3) == 0 { vec![self.any()] } else { Vec::new() };
        // The large ones make the WAL overflow again and again.
        let size = if self.below(4) == 0 { 100_000 } else { 2_000 };
        let task = NewTask {
            title: format!("chance {}", self.below(1_000_000)),
            description: "x".repeat(self.below(size)),
            group: self.below(4) == 0,
            parent: parent.as_ref().map(|(id, _)| id.to_string()),
            after,
            priority: i32::try_from(self.below(5))?,
            ..NewTask::default()
        };
        let id = self.worker.store.add_tasks(&[task], None, now)?[0];
        let around: Vec<TaskId> =
            parent.into_iter().flat_map(|(id, around)| [id].into_iter().chain(around)).collect();
        let names: Vec<String> = [id].iter().chain(&around).map(TaskId::to_string).collect();
        print(&format!("added {}", names.join(" ")))?;
        self.known.push((id, around));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let outcome = Outcome::ALL[self.below(Outcome::ALL.len())];
        match self.claims.pop() {
            Some(claim) => self.worker.finish(claim, outcome),
            None => Ok(()),
        }
    }

    fn pick(&mut self) -> Option<(TaskId, Vec<TaskId>)> {
        let index = self.below(self.known.len().max(1));
        self.known.get(index).cloned()
    }

    /// A task that exists or once did.
    fn any(&mut self) -> String {
        self.pick().map_or("t-000000".to_owned(), |(id, _)| id.to_string())
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }
}
