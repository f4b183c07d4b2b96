//! Others that keep tasks, on the same machine in the same minute: Taskwarrior, and the `sqlite3` shell
//! with a bare table as the floor.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ralph::store::NewTask;
use ralph::time::Timestamp;

use crate::harness::{Project, RALPH};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "others",
    about: "Creating a task, listing all of them and asking for the next one, each as a process of its \
            own: ralph, Taskwarrior, and as the floor the `sqlite3` shell on one table with an index and \
            no rules, with a WAL and `synchronous = normal` as ralph has. They take turns; the figures \
            are medians, and how many times the floor that is.",
    run,
};

const TASKS: usize = 1_000;

/// What keeps the tasks.
struct Other {
    name: &'static str,
    /// How it is got, where it is missing.
    package: &'static str,
    start: fn(&Project, &[&str]) -> Command,
    /// Puts so many tasks into it.
    fill: fn(&Project) -> Result<()>,
    create: &'static [&'static str],
    list: &'static [&'static str],
    next: &'static [&'static str],
}

const OTHERS: [Other; 3] = [
    Other {
        name: "sqlite3",
        package: "sqlite3",
        start: |project, arguments| {
            let mut command = project.command("sqlite3");
            command.args(["-cmd", "pragma synchronous = normal", "bare.db"]).args(arguments);
            command
        },
        fill: fill_sqlite,
        create: &["insert into tasks (title) values ('Another one')"],
        list: &["select id, status, title from tasks"],
        next: &[
            "select id, title from tasks where status = 'pending' order by priority, id limit 1",
        ],
    },
    Other {
        name: "ralph",
        package: "",
        start: |project, arguments| {
            let mut command = project.command(RALPH);
            command.args(arguments);
            command
        },
        fill: fill_ralph,
        create: &["task", "add", "Another one"],
        list: &["task", "list"],
        next: &["task", "next"],
    },
    Other {
        name: "Taskwarrior",
        package: "taskwarrior",
        start: |project, arguments| {
            let mut command = project.command("task");
            command
                .env("TASKDATA", project.base().join("taskwarrior"))
                .env("TASKRC", project.base().join("taskrc"))
                .args(arguments);
            command
        },
        fill: fill_taskwarrior,
        create: &["add", "Another one"],
        list: &["list"],
        next: &["limit:1", "next"],
    },
];

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    let project = Project::new();
    let (there, missing): (Vec<&Other>, Vec<&Other>) =
        OTHERS.iter().partition(|other| other.is_there(&project));
    let mut rows: Vec<Row> = missing
        .iter()
        .map(|it| Row::skipped(it.name, format!("not installed: apt-get install {}", it.package)))
        .collect();
    for other in &there {
        (other.fill)(&project)?;
    }
    let count = dose.of(101, 15);
    for (what, arguments) in [
        (
            format!("list {TASKS} tasks"),
            (|other| other.list) as fn(&Other) -> &'static [&'static str],
        ),
        (format!("the next of {TASKS} tasks"), |other| other.next),
        (format!("create a task beside {TASKS}"), |other| other.create),
    ] {
        let mut times = vec![Vec::new(); there.len()];
        for _ in 0..count {
            for (other, times) in there.iter().zip(&mut times) {
                times.push(time((other.start)(&project, arguments(other)))?);
            }
        }
        let medians: Vec<Duration> = times.into_iter().map(median).collect();
        let floor = there.iter().position(|other| other.name == "sqlite3").map(|at| medians[at]);
        let shown = there.iter().zip(&medians).map(|(other, median)| {
            let ratio = floor.map(|floor| median.as_secs_f64() / floor.as_secs_f64());
            let ratio = ratio.map_or(String::new(), |ratio| format!(" (× {ratio:.2})"));
            format!("{} {:.2} ms{ratio}", other.name, median.as_secs_f64() * 1e3)
        });
        rows.push(Row::told(what, shown.collect::<Vec<_>>().join(", ")));
    }
    Ok(rows)
}

impl Other {
    fn is_there(&self, project: &Project) -> bool {
        let mut command = (self.start)(project, &["--version"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    }
}

fn time(mut command: Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status()?;
    let time = began.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    Ok(time)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn title(number: usize) -> String {
    format!("Make endpoint {number} refuse what its caller may not see")
}

fn fill_sqlite(project: &Project) -> Result<()> {
    let inserts: String = (0..TASKS)
        .map(|number| format!("insert into tasks (title) values ('{}');\n", title(number)))
        .collect();
    let script = format!(
        "pragma journal_mode = wal;
         create table tasks (
             id integer primary key, title text not null, status text not null default 'pending',
             priority integer not null default 0
         );
         create index ready on tasks (priority, id) where status = 'pending';
         begin; {inserts} commit;"
    );
    let mut command = project.command("sqlite3");
    command.arg("bare.db");
    project.run(command, Some(script.into_bytes())).ok();
    Ok(())
}

fn fill_ralph(project: &Project) -> Result<()> {
    let tasks: Vec<NewTask> =
        (0..TASKS).map(|number| NewTask { title: title(number), ..NewTask::default() }).collect();
    project.store().add_tasks(&tasks, None, Timestamp::now())?;
    Ok(())
}

fn fill_taskwarrior(project: &Project) -> Result<()> {
    fs::create_dir(project.base().join("taskwarrior"))?;
    // It asks and tells what a script has no use for, and collects what it has shown.
    let settings =
        "confirmation=off\nverbose=nothing\nhooks=off\ngc=on\nrecurrence=off\nnews.version=99.0\n";
    fs::write(project.base().join("taskrc"), settings)?;
    let tasks: String = (0..TASKS)
        .map(|number| format!("{{\"description\":\"{}\",\"status\":\"pending\"}}\n", title(number)))
        .collect();
    let command = (OTHERS[2].start)(project, &["import", "-"]);
    project.run(command, Some(tasks.into_bytes())).ok();
    Ok(())
}
