//! What each command costs with a thousand, ten thousand, a hundred thousand and a million tasks: the
//! time and the memory, and how they grow.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ralph::dag::{Outcome, RunId, TaskId};
use ralph::store::{Ending, NewRun, NewTask, Store, Target};
use ralph::time::Timestamp;

use crate::harness::{Project, RALPH};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "scale",
    about: "The time of each command as a process, and of a claim, in projects of a thousand tasks, ten \
            thousand and so on, which take turns: the median, or the best of three of what shows all. A tenth of the tasks are groups, and in each the tasks \
            wait for each other. What looks at one task must not cost more in a larger project; what \
            shows all of them may cost ten times as much for ten times as many.",
    run,
};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const BATCH: usize = 10_000;
/// Reports what a program has used.
const TIME: &str = "/usr/bin/time";

/// How the cost may grow with each tenfold.
#[derive(Clone, Copy)]
enum Growth {
    None,
    Linear,
    /// A search for each task, which takes longer where there is more to search.
    Searches,
}

impl Growth {
    fn most(self) -> f64 {
        match self {
            Growth::None => 1.5,
            Growth::Linear => 12.0,
            Growth::Searches => 15.0,
        }
    }
}

/// The commands; `ID` stands for a task.
const COMMANDS: &[(&[&str], Growth)] = &[
    (&["task", "add", "Another one"], Growth::None),
    (&["task", "add", "Another one", "--after", "ID"], Growth::None),
    (&["task", "next"], Growth::None),
    (&["task", "show", "ID"], Growth::None),
    (&["task", "log", "ID", "-m", "a note"], Growth::None),
    (&["task", "list"], Growth::Linear),
    (&["task", "list", "--json"], Growth::Searches),
    (&["task", "tree"], Growth::Linear),
    (&["status"], Growth::Linear),
    (&["graph"], Growth::Linear),
    (&["export"], Growth::Linear),
    (&["doctor"], Growth::Linear),
];

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    let sizes = &SIZES[..dose.of(SIZES.len(), 2)];
    let mut places = sizes.iter().map(|&size| Place::new(size)).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    let built: Vec<String> =
        places.iter().map(|place| format!("{:.1}", place.built.as_secs_f64())).collect();
    rows.push(Row::told(
        format!("{} tasks; seconds to add them", names(sizes)),
        format!("{} s", built.join(" / ")),
    ));
    let claims = rounds(&mut places, dose.of(200, 50), Growth::None, Place::claim)?;
    rows.push(row("claim", &claims, 1e3, "ms", Growth::None));
    for &(arguments, growth) in COMMANDS {
        let name = arguments.join(" ");
        let count = match growth {
            Growth::None => dose.of(31, 15),
            Growth::Linear | Growth::Searches => 3,
        };
        let times = rounds(&mut places, count, growth, |place| place.time(arguments))?;
        rows.push(row(&name, &times, 1e3, "ms", growth));
        if !Path::new(TIME).exists() {
            rows.push(Row::skipped(format!("{name}: memory"), format!("there is no {TIME} here")));
            continue;
        }
        let memory =
            places.iter().map(|place| place.memory(arguments)).collect::<Result<Vec<_>>>()?;
        rows.push(row(&format!("{name}: memory"), &memory, 1.0, "MB", growth));
    }
    let imports = rounds(&mut places, 1, Growth::Linear, Place::import)?;
    rows.push(row("import of its own export", &imports, 1e3, "ms", Growth::Linear));
    Ok(rows)
}

fn names(sizes: &[usize]) -> String {
    sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / ")
}

/// The amounts at each size, and by how much they grow at the most from one size to the next.
fn row(name: &str, amounts: &[f64], scale: f64, unit: &str, growth: Growth) -> Row {
    let shown: Vec<String> = amounts.iter().map(|amount| figure(amount * scale)).collect();
    let factors: Vec<f64> = amounts.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let worst = factors.iter().copied().fold(0.0, f64::max);
    Row::timed(
        name,
        format!("{} {unit}, × {worst:.1}", shown.join(" / ")),
        format!("× {}", growth.most()),
        worst <= growth.most(),
    )
}

fn figure(amount: f64) -> String {
    match amount {
        100.0.. => format!("{amount:.0}"),
        10.0.. => format!("{amount:.1}"),
        _ => format!("{amount:.2}"),
    }
}

/// The times in seconds, one for each place; they take turns, so that a busy moment is everybody's. Of a
/// few long ones it is the shortest, which was disturbed least.
fn rounds(
    places: &mut [Place],
    count: usize,
    growth: Growth,
    mut act: impl FnMut(&mut Place) -> Result<Duration>,
) -> Result<Vec<f64>> {
    let mut times = vec![Vec::new(); places.len()];
    for _ in 0..count {
        for (place, times) in places.iter_mut().zip(&mut times) {
            times.push(act(place)?);
        }
    }
    let typical = |mut times: Vec<Duration>| {
        times.sort_unstable();
        let place = match growth {
            Growth::None => times.len() / 2,
            Growth::Linear | Growth::Searches => 0,
        };
        times[place].as_secs_f64()
    };
    Ok(times.into_iter().map(typical).collect())
}

/// A project of so many tasks.
struct Place {
    project: Project,
    store: Store,
    run: RunId,
    /// One of its tasks, in the middle.
    some: TaskId,
    built: Duration,
}

impl Place {
    fn new(size: usize) -> Result<Place> {
        let project = Project::new();
        let mut store = project.store();
        let began = Instant::now();
        let mut some = None;
        for start in (0..size).step_by(BATCH) {
            let tasks: Vec<NewTask> = (start..size.min(start + BATCH)).map(task).collect();
            let ids = store.add_tasks(&tasks, None, Timestamp::now())?;
            if start <= size / 2 {
                some = ids.get(ids.len() / 2 + 1).copied();
            }
        }
        let built = began.elapsed();
        let run = store.start_run(&NewRun::new(), Timestamp::now())?;
        Ok(Place { project, store, run, some: some.context("there are tasks")?, built })
    }

    /// How long a claim takes; giving it back is not counted.
    fn claim(&mut self) -> Result<Duration> {
        let now = Timestamp::now();
        let began = Instant::now();
        let claim = self.store.claim_next(self.run, &Target::Everything, now)?;
        let time = began.elapsed();
        let ending = Ending::new(Outcome::Interrupted, 0);
        self.store.finish(claim.context("nothing is ready")?, &ending, now)?;
        Ok(time)
    }

    fn ralph(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.project.command(program);
        if program != RALPH {
            command.args(["-q", "-f", "%M", RALPH]);
        }
        let some = self.some.to_string();
        command.args(arguments.iter().map(|it| if *it == "ID" { some.as_str() } else { *it }));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn time(&self, arguments: &[&str]) -> Result<Duration> {
        let mut command = self.ralph(RALPH, arguments);
        let began = Instant::now();
        let status = command.status()?;
        let time = began.elapsed();
        ensure!(status.success() || arguments == ["doctor"], "{command:?}: {status}");
        Ok(time)
    }

    /// The most memory that a command has at any time, in megabytes.
    fn memory(&self, arguments: &[&str]) -> Result<f64> {
        let output = self.ralph(TIME, arguments).stderr(Stdio::piped()).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let kilobytes = text.lines().last().context("`time` says nothing")?.trim();
        Ok(kilobytes.parse::<f64>().with_context(|| text.clone())? / 1024.0)
    }

    /// How long it takes to merge all that is there into itself.
    fn import(&mut self) -> Result<Duration> {
        let export = self.project.root().join("export.jsonl");
        let mut command = self.ralph(RALPH, &["export"]);
        ensure!(command.stdout(std::fs::File::create(&export)?).status()?.success());
        self.time(&["import", "export.jsonl"])
    }
}

/// Ten tasks in a group, each waiting for the one before it.
fn task(number: usize) -> NewTask {
    let key = |number: usize| format!("k{number}");
    let place = number % 10;
    NewTask {
        title: format!("Make endpoint {number} refuse what its caller may not see"),
        description: "It is to say why, and to say it in the log, too. ".repeat(3),
        group: place == 0,
        key: Some(key(number)),
        parent: (place > 0).then(|| key(number - place)),
        after: if place > 1 { vec![key(number - 1)] } else { vec![] },
        ..NewTask::default()
    }
}
