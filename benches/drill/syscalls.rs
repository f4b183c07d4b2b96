//! Every call of the system that a command makes fails once: the k-th write, sync, open, change of a
//! directory or read, with no space, an error of the device, or no permission.

use anyhow::Result;

use crate::calls::{Call, Expected, Fault, Tally, World};
use crate::crew;
use crate::report::Row;
use crate::shim::{Failure, KINDS, Shim};
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "syscalls",
    about: "Each call of the system that a command makes fails, one after the other.",
    run,
};

const ERRORS: &[(&str, i32)] = &[("ENOSPC", 28), ("EIO", 5), ("EACCES", 13)];
/// Of how many failures the short form tries one.
const SPARSE: usize = 31;
const SPARSE_READS: usize = 199;
/// How many calls of a kind are let fail at the most.
const MOST: usize = 200;

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    if Shim::compile(tempfile::TempDir::new()?.path())?.is_none() {
        return Ok(vec![Row::skipped("calls that fail", "no LD_PRELOAD or no C compiler here")]);
    }
    let (short, seed) = (dose.short, dose.random.next());
    let (mut tally, mut unreached) = (Tally::default(), 0);
    for (theirs, missed) in crew::work(|worker, size| Saboteur::new(short, seed)?.go(worker, size))?
    {
        tally.add(theirs);
        unreached += missed;
    }
    let names: Vec<&str> = ERRORS.iter().map(|it| it.0).collect();
    let what = format!("{} with {}", KINDS.join(", "), names.join(", "));
    let mut rows = vec![Row::told("what fails", what)];
    rows.extend(tally.rows());
    rows.push(Row::told("calls that ended before it came to that", unreached));
    Ok(rows)
}

/// Somebody with a project of their own who lets calls fail in it.
struct Saboteur {
    world: World,
    shim: Shim,
    short: bool,
    seed: u64,
    tally: Tally,
    unreached: usize,
}

impl Saboteur {
    fn new(short: bool, seed: u64) -> Result<Saboteur> {
        let world = World::new();
        let shim = Shim::compile(world.project.base())?.expect("it could be compiled before");
        Ok(Saboteur { world, shim, short, seed, tally: Tally::default(), unreached: 0 })
    }

    /// Does one part of all that is to be done.
    fn go(mut self, worker: usize, size: usize) -> Result<(Tally, usize)> {
        for (number, call) in self.world.calls.clone().iter().enumerate() {
            if number % size == worker {
                self.sabotage(call, number)?;
            }
        }
        Ok((self.tally, self.unreached))
    }

    /// Lets everything that a call asks the system for fail, one after the other.
    fn sabotage(&mut self, call: &Call, number: usize) -> Result<()> {
        let expected = self.world.expect(call);
        self.world.prepare(call);
        let mut command = self.world.command(call);
        self.shim.load(&mut command);
        self.world.run(call, command).map_err(anyhow::Error::msg)?;
        let report = self.shim.report()?;
        let mut turn = self.seed as usize + number;
        for &kind in KINDS {
            for at in 1..=report.count(kind).min(MOST) {
                for (error, (name, errno)) in ERRORS.iter().enumerate() {
                    for ever in [false, true] {
                        turn += 1;
                        let sparse = if kind == "read" { SPARSE_READS } else { SPARSE };
                        if self.short && !turn.is_multiple_of(sparse) {
                            continue;
                        }
                        // A device that can't be read has its own error.
                        if kind == "read" && (error != 1 || ever && at % 3 != 0) {
                            continue;
                        }
                        let failure = Failure { kind, at, errno: *errno, ever };
                        self.try_one(call, &expected, failure, name)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn try_one(
        &mut self,
        call: &Call,
        expected: &Expected,
        failure: Failure,
        name: &str,
    ) -> Result<()> {
        self.world.prepare(call);
        let mut command = self.world.command(call);
        self.shim.fail(&mut command, failure);
        let outcome = self.world.run(call, command);
        let report = self.shim.report()?;
        self.unreached += usize::from(report.failed.is_none() && outcome.is_ok());
        let ever = if failure.ever { " and all after" } else { "" };
        let name =
            format!("{name} at {} {}{ever}, file {:?}", failure.kind, failure.at, report.failed);
        let fault = Fault {
            hides_stdout: report.failed == Some(1),
            hides_stderr: report.failed == Some(2),
            ..Fault::new(&name)
        };
        self.world.judge(call, expected, &fault, outcome, &mut self.tally);
        Ok(())
    }
}
