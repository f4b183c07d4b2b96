//! A long run whose agents leave processes and descriptors behind: none of that adds up.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ralph::store::NewTask;
use ralph::time::Timestamp;
use rusqlite::Connection;

use crate::harness::{Background, DEADLINE, Project, check_rules, wait_until};
use crate::processes::{self, Process};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "worker-leaks",
    about: "One run whose agents leave processes and descriptors behind in each iteration.",
    run: drill,
};

/// The iterations of which it is looked at the first, when all that is made once was made.
const FIRST: usize = 5;
/// How much larger ralph may be at the end, in kilobytes.
const GROWTH: u64 = 1_024;

fn drill(dose: &mut Dose) -> Result<Vec<Row>> {
    let iterations = dose.of(500, 25);
    let project = Project::new();
    let tasks: Vec<NewTask> = (0..iterations)
        .map(|number| NewTask { title: format!("Task {number}"), ..NewTask::default() })
        .collect();
    project.store().add_tasks(&tasks, None, Timestamp::now())?;
    let site = Site::new(project);
    let scripts: Vec<String> = (1..=iterations).map(|number| site.script(number)).collect();
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    let arguments = ["run", "--no-verify", "--format", "jsonl"];
    let mut run = site.project.start(site.project.ralph_playing(&scripts, arguments));
    for number in 1..iterations {
        if number != FIRST {
            site.let_go(number)?;
        }
    }
    if !dose.short {
        site.wait_for_heartbeat()?;
    }
    let first = site.look(&mut run, FIRST)?;
    let last = site.look(&mut run, iterations)?;
    let (status, _, stderr) = run.finish();
    ensure!(status.success(), "the run ended with {status}: {stderr}");
    site.project.assert_nothing_left();
    check_rules(&site.project);
    let same = |what: &str, first: usize, last: usize| {
        Row::limited(format!("{what} at the end"), last, first, last == first)
    };
    let growth = last.memory.saturating_sub(first.memory);
    Ok(vec![
        Row::told("iterations", iterations),
        Row::told("processes that were left behind", iterations * ORPHANS.len()),
        same("processes", first.processes, last.processes),
        same("descriptors of ralph", first.descriptors, last.descriptors),
        same("threads of ralph", first.threads, last.threads),
        Row::told("memory of ralph in the fifth iteration", format!("{} KB", first.memory)),
        Row::limited(
            "it has grown since by",
            format!("{growth} KB"),
            format!("{GROWTH} KB"),
            growth <= GROWTH,
        ),
    ])
}

/// What each agent leaves behind.
const ORPHANS: [&str; 4] = [
    "orphan-setsid-holds-stdout",
    "orphan-double-fork",
    "orphan-setsid-double-fork-holds-stdout",
    "orphan-hides-setsid-double-fork",
];
/// What one of ten leaves besides: it does not end before it must.
const STUBBORN: &str = "orphan-setsid-double-fork-ignore-term-holds-stdout";

struct Site {
    project: Project,
    /// By this the processes are known that have no environment.
    seconds: String,
}

/// What there is in the middle of an iteration.
struct Look {
    processes: usize,
    descriptors: usize,
    threads: usize,
    memory: u64,
}

impl Site {
    fn new(project: Project) -> Site {
        // A number of seconds that nobody else on this machine sleeps for.
        let seconds = (2_000_000_000 + u64::from(std::process::id())).to_string();
        Site { project, seconds }
    }

    /// What the agent of this iteration does: it waits before it leaves anything behind.
    fn script(&self, number: usize) -> String {
        let mut steps = vec![
            format!("touch {}", self.file("at", number).display()),
            format!("wait-file {}", self.file("go", number).display()),
        ];
        steps.extend(ORPHANS.iter().map(|orphan| format!("{orphan} {}", self.seconds)));
        if number.is_multiple_of(10) {
            steps.push(format!("{STUBBORN} {}", self.seconds));
        }
        steps.push("done".to_owned());
        steps.join(" | ")
    }

    fn file(&self, what: &str, number: usize) -> PathBuf {
        self.project.base().join(format!("{what}-{number}"))
    }

    fn let_go(&self, number: usize) -> Result<()> {
        Ok(fs::write(self.file("go", number), "")?)
    }

    /// Waits for the first sign of life of the run, while its fifth agent waits. SQLite keeps the
    /// descriptor of whoever has opened the same file a second time, and uses it again the next time.
    fn wait_for_heartbeat(&self) -> Result<()> {
        let connection = Connection::open(self.project.database())?;
        let has_beaten = || {
            let query = "select heartbeat_at > started_at from runs";
            let beaten = connection.query_row(query, [], |row| row.get::<_, bool>(0));
            beaten.is_ok_and(|it| it).then_some(())
        };
        wait_until(Instant::now() + DEADLINE, has_beaten).context("the run gives no sign of life")
    }

    /// Looks while the agent of this iteration waits, and lets it go on.
    fn look(&self, run: &mut Background, number: usize) -> Result<Look> {
        let at = self.file("at", number);
        // As long as it goes on, however slowly.
        let mut deadline = Instant::now() + DEADLINE;
        let mut seen = 0;
        let there = wait_until(Instant::now() + DEADLINE * 60, || {
            let now = (seen + 1..=number).take_while(|it| self.file("at", *it).exists()).count();
            if now > 0 {
                (seen, deadline) = (seen + now, Instant::now() + DEADLINE);
            }
            (at.exists() || Instant::now() > deadline).then_some(())
        });
        ensure!(there.is_some() && at.exists(), "iteration {number} never came");
        let ralph = Process::of(run.id()).context("the run is there")?;
        let base = self.project.base().display().to_string();
        // What the last one left is given the second that it has; what the threads of its session do, too.
        let look = || Look {
            processes: processes::with(&base).len() + processes::with(&self.seconds).len(),
            descriptors: ralph.descriptors(),
            threads: ralph.threads(),
            memory: ralph.memory(),
        };
        let mut looks: Vec<Look> = Vec::new();
        for _ in 0..20 {
            looks.push(look());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let least = |what: fn(&Look) -> usize| looks.iter().map(what).min().unwrap_or(0);
        let found = Look {
            processes: least(|it| it.processes),
            descriptors: least(|it| it.descriptors),
            threads: least(|it| it.threads),
            memory: looks.iter().map(|it| it.memory).min().unwrap_or(0),
        };
        self.let_go(number)?;
        Ok(found)
    }
}
