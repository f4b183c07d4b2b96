//! Many processes that claim from one database at once. Each is this program again.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ralph::store::{NewRun, NewTask, Store, Target};
use ralph::time::Timestamp;

use crate::Scale;
use crate::measure::{percentile, time};
use crate::project::Project;
use crate::table::{Amount, Limit, Row};

/// The argument that makes this program one of the crowd.
pub(crate) const MEMBER: &str = "--claim-until-none-is-left";
const MEMBERS: usize = 8;
const TASKS: usize = 40_000;

pub(crate) fn claims(_: &Scale) -> Result<Vec<Row>> {
    let project = Project::new()?;
    let tasks: Vec<NewTask> = (0..TASKS)
        .map(|number| NewTask { title: format!("Task {number}"), ..NewTask::default() })
        .collect();
    project.store()?.add_tasks(&tasks, None, Timestamp::now())?;

    let mut members = (0..MEMBERS).map(|_| Member::start(&project)).collect::<Result<Vec<_>>>()?;
    members.iter_mut().try_for_each(Member::wait_until_ready)?;
    let began = Instant::now();
    members.iter_mut().try_for_each(Member::go)?;
    let waits = members.into_iter().map(Member::finish).collect::<Result<Vec<_>>>()?;
    let took = began.elapsed();

    let mut waits: Vec<Duration> = waits.into_iter().flatten().collect();
    ensure!(waits.len() == TASKS, "{} claims on {TASKS} tasks", waits.len());
    let rate = Amount::PerSecond(TASKS as f64 / took.as_secs_f64());
    let worst = Amount::Time(percentile(&mut waits, 100));
    let usual = Amount::Time(percentile(&mut waits, 99));
    let name = format!("claims by {MEMBERS} processes");
    Ok(vec![
        Row::new(name, rate, Limit::AtLeast(Amount::PerSecond(5_000.0))),
        Row::new("  longest", worst, Limit::AtMost(Amount::Time(Duration::from_secs(2)))),
        Row::new("  99 of 100 within", usual, Limit::None),
    ])
}

/// A process of the crowd, seen from outside.
struct Member {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Member {
    fn start(project: &Project) -> Result<Member> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(MEMBER)
            .arg(project.database())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().context("its stdout is piped")?);
        Ok(Member { child, answers })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        Ok(self.answers.read_line(&mut String::new()).map(|_| ())?)
    }

    fn go(&mut self) -> Result<()> {
        Ok(self.child.stdin.as_mut().context("its stdin is piped")?.write_all(b"go\n")?)
    }

    /// How long each of its claims took.
    fn finish(mut self) -> Result<Vec<Duration>> {
        let mut text = String::new();
        self.answers.read_to_string(&mut text)?;
        ensure!(self.child.wait()?.success(), "a process that claimed has failed");
        text.lines().map(|line| Ok(Duration::from_nanos(line.parse()?))).collect()
    }
}

/// Claims until nothing is left, then prints how long each claim took.
pub(crate) fn member(arguments: &[String]) -> Result<ExitCode> {
    let path = arguments.first().context("the path of a database is given")?;
    let mut store = Store::open(path.as_ref())?;
    let run = NewRun::new();
    let run = store.start_run(&run, Timestamp::now())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready")?;
    std::io::stdin().read_line(&mut String::new())?;
    let mut times = Vec::new();
    loop {
        let claim = || store.claim_next(run, &Target::Everything, Timestamp::now());
        let (time, claimed) = time(claim)?;
        if claimed.is_none() {
            break;
        }
        times.push(time);
    }
    for time in times {
        writeln!(out, "{}", time.as_nanos())?;
    }
    Ok(ExitCode::SUCCESS)
}
