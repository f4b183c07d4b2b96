//! A pid that is recorded somewhere and now belongs to a process that has nothing to do with it: that
//! process is never signalled.

use std::fs::{self, File};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ralph::process::Holder;
use ralph::store::{LEASE, NewRun, NewTask, Target};
use ralph::time::Timestamp;
use rustix::process::Signal;

use crate::harness::{Background, Project, check_rules};
use crate::processes::Process;
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "worker-pid",
    about: "The pid of a process that has nothing to do with it is recorded as a run's: it is never \
            signalled.",
    run: drill,
};

/// What takes back claims, tidies up, or works.
const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["task", "list"],
    &["task", "add", "One more"],
    &["logs"],
    &["graph"],
    &["export"],
    &["feature", "list"],
    &["doctor"],
    &["run", "--no-verify", "--limit", "1"],
    &["loop", "1", "Do it"],
];

fn drill(dose: &mut Dose) -> Result<Vec<Row>> {
    let (mut signals, mut commands, mut kept) = (0, 0, 0);
    for _ in 0..dose.of(5, 1) {
        for record in Record::ALL {
            for command in COMMANDS {
                let (heard, claims) = meet(record, command)?;
                signals += heard;
                kept += claims;
                commands += 1;
            }
        }
    }
    let records: Vec<&str> = Record::ALL.iter().map(|record| record.name()).collect();
    Ok(vec![
        Row::told("its pid is recorded", records.join("; ")),
        Row::told("commands that met it", commands),
        Row::never("signals it got", signals),
        Row::never("claims of a run that is gone left, or of one that is there taken", kept),
    ])
}

/// Where the pid is recorded, and as what.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Record {
    /// As that of a run which has begun at another time.
    Reused,
    /// As that of a run which has begun when it did, and is silent: the clock may have been set.
    Silent,
    /// As that of a run on this very host, which goes on.
    Alive,
    /// As that of a run on another host, which is silent.
    Elsewhere,
    /// As that of whoever holds the working tree, beside the lock; and nobody does.
    Note,
    /// The same, and somebody does.
    Held,
    /// In the name of a directory for the files of a session.
    Scratch,
}

impl Record {
    const ALL: [Record; 7] = [
        Record::Reused,
        Record::Silent,
        Record::Alive,
        Record::Elsewhere,
        Record::Note,
        Record::Held,
        Record::Scratch,
    ];

    /// Whether it is that of a run which keeps its task.
    fn goes_on(self) -> bool {
        matches!(self, Record::Silent | Record::Alive)
    }

    fn name(self) -> &'static str {
        match self {
            Record::Reused => "as a run that began at another time",
            Record::Silent => "as a run that goes on in silence",
            Record::Alive => "as a run that goes on",
            Record::Elsewhere => "as a run on another host past its lease",
            Record::Note => "in run.json",
            Record::Held => "in run.json, with the tree locked",
            Record::Scratch => "in the name of a session's directory",
        }
    }
}

/// Runs a command where the pid of a bystander is recorded like this: how many signals it got, and how
/// many claims are not as they should be.
fn meet(record: Record, command: &[&str]) -> Result<(usize, usize)> {
    let project = Project::new();
    let bystander = Bystander::start(&project)?;
    let mut store = project.store();
    let task = NewTask { title: "Recorded".into(), ..NewTask::default() };
    store.add_tasks(&[task], None, Timestamp::now())?;
    let note = project.root().join(".ralph/run.json");
    let mut lock = None;
    let mut claimed = 0;
    match record {
        Record::Reused | Record::Silent | Record::Alive | Record::Elsewhere => {
            let mut holder = bystander.holder();
            match record {
                Record::Reused => holder.started += 1,
                Record::Elsewhere => holder.host = "another machine".into(),
                _ => {}
            }
            let run = NewRun { holder, ..NewRun::new() };
            let run = store.start_run(&run, Timestamp::now())?;
            let claim = store.claim_next(run, &Target::Everything, Timestamp::now())?;
            ensure!(claim.is_some(), "there is a task to be claimed");
            if matches!(record, Record::Silent | Record::Elsewhere) {
                let past = chrono::Utc::now() - LEASE - Duration::from_secs(10);
                let past = Timestamp::from_epoch(past.timestamp()).context("it is a time")?;
                store.heartbeat(run, past)?;
            }
            claimed = usize::from(record.goes_on());
        }
        Record::Note | Record::Held => {
            let text = format!(
                "{{\"pid\": {}, \"run\": \"r-3f9a01\", \"since\": \"2026-11-16T03:05:43.000Z\"}}",
                bystander.pid
            );
            fs::write(note, text)?;
            if record == Record::Held {
                let directory = File::open(project.root())?;
                directory.lock()?;
                lock = Some(directory);
            }
        }
        Record::Scratch => {
            for started in [bystander.started, bystander.started + 1] {
                let owner = Holder { pid: bystander.pid, started, ..Holder::current() };
                let name = ralph::agent::Scratch::name_of(&owner, 0xff);
                fs::create_dir(project.base().join("tmp").join(name))?;
            }
        }
    }
    // A run would wait for as long as the task is held.
    let works = command[0] == "run" && !record.goes_on();
    let output = match command[0] {
        "run" | "loop" => {
            let more: &[&str] = if works || command[0] == "loop" { &[] } else { &["--dry-run"] };
            project.run(project.ralph_with("done", command.iter().chain(more)), None)
        }
        _ => project.ralph(command),
    };
    let expected: &[i32] = match (command[0], record) {
        ("run" | "loop", Record::Held) => &[1],
        ("run", _) if record.goes_on() => &[4],
        ("run", _) => &[0, 3],
        ("loop", _) => &[3],
        // There is no real agent here.
        ("doctor", _) => &[0, 1],
        _ => &[0],
    };
    ensure!(output.status.code().is_some_and(|code| expected.contains(&code)), "{output:?}");
    drop(lock);
    check_rules(&project);
    let open = project.store().activity()?.open.len();
    Ok((bystander.finish()?, open.abs_diff(claimed)))
}

/// A process that tells which signals it gets.
struct Bystander {
    listener: Background,
    pid: u32,
    started: u64,
}

impl Bystander {
    fn start(project: &Project) -> Result<Bystander> {
        let mut command = project.command(env!("CARGO_BIN_EXE_ralph-worker"));
        // What is of another session is another matter.
        command
            .arg("listen")
            .env("RALPH_ATTEMPT_ID", "a-3f9a01")
            .env("RALPH_SESSION", "1-00000001");
        let listener = project.start(command);
        let line = listener.next_line().context("it says who it is")?;
        let (pid, started) = line.split_once(' ').context("it is a pid and a time")?;
        let (pid, started) = (pid.parse()?, started.parse()?);
        Ok(Bystander { listener, pid, started })
    }

    fn holder(&self) -> Holder {
        Holder { pid: self.pid, started: self.started, ..Holder::current() }
    }

    /// How many signals it got: an end or a stop is one, too.
    fn finish(self) -> Result<usize> {
        let process = Process::of(self.pid).context("it is there, dead or alive")?;
        if process.state().is_none_or(|state| matches!(state, 'T' | 'Z')) {
            return Ok(1);
        }
        // One that it gets from us: if it hears this, it has heard all others before.
        process.signal(Signal::USR1);
        let usr1 = Signal::USR1.as_raw().to_string();
        let heard = std::iter::from_fn(|| self.listener.next_line());
        Ok(heard.take_while(|line| *line != usr1).count())
    }
}
