//! A run that was stopped for longer than its lease and goes on: what it then says comes too late.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ralph::dag::Outcome;
use ralph::process::Holder;
use ralph::store::{ClaimLost, Ending, LEASE, NewRun, NewTask, Target};
use ralph::time::Timestamp;
use rustix::process::Signal;

use super::{process_below, seconds, stop, story, wait_for_line};
use crate::harness::{Background, DEADLINE, Project, check_rules, wait_until};
use crate::processes::{self, Process};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "worker-late",
    about: "A run is stopped (SIGSTOP) past its lease, and continued: what it then says is refused.",
    run: drill,
};

fn drill(dose: &mut Dose) -> Result<Vec<Row>> {
    let times = dose.of(10, 1);
    let mut wrong = [const { Vec::new() }; 4];
    for _ in 0..times {
        for (index, case) in Case::ALL.into_iter().enumerate() {
            for whole in [false, true] {
                wrong[index].extend(case.play(whole)?);
            }
        }
    }
    let mut rows =
        vec![Row::told("times each of these, with ralph stopped, and with all", times * 2)];
    for (case, wrong) in Case::ALL.into_iter().zip(&wrong) {
        rows.push(Row::none(case.broken(), wrong));
    }
    rows.push(Row::never(
        "past the lease on another host: a claim not taken back, or too early, or told too late",
        elsewhere()?,
    ));
    rows.push(match dose.short {
        true => Row::skipped("a whole lease was waited for", "only in the long form"),
        false => {
            let (took, wrong) = wait_a_lease()?;
            let limit = format!("{} to {}", seconds(LEASE), seconds(LEASE + SLACK));
            let what = "a whole lease was waited for: taken over after";
            let holds = wrong.is_none() && took >= LEASE && took < LEASE + SLACK;
            Row::limited(what, seconds(took), limit, holds)
        }
    });
    Ok(rows)
}

/// How much later than it could be a claim is taken over: a heartbeat that was just due, and a moment.
const SLACK: Duration = Duration::from_secs(15);

/// What happens while the run is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    /// Another one does the task.
    Finished,
    /// Another one is doing the task.
    TakenOver,
    /// Nobody looks.
    Unseen,
    /// Another one would like the task, but the lease is not over.
    Within,
}

impl Case {
    const ALL: [Case; 4] = [Case::Finished, Case::TakenOver, Case::Unseen, Case::Within];

    fn broken(self) -> &'static str {
        match self {
            Case::Finished => "past the lease, done by another run: a late completion recorded",
            Case::TakenOver => "past the lease, another run at it: a late completion recorded",
            Case::Unseen => "past the lease, nobody looked: a completion refused",
            Case::Within => "within the lease: a claim taken away or a completion refused",
        }
    }

    /// Plays it; returns what was wrong. The `whole` run is stopped, or only ralph, while its agent goes
    /// on and finishes.
    fn play(self, whole: bool) -> Result<Option<String>> {
        let scene = Scene::new()?;
        let first = scene.start("first")?;
        let stopped = scene.stop(&first, whole)?;
        fs::write(scene.file("first"), "")?;
        let mut second = None;
        if matches!(self, Case::Finished | Case::TakenOver) {
            // It waits for the first one, and sees that this one is silent for too long.
            second = Some(scene.start_other("second", false)?);
            scene.let_lease_pass()?;
            wait_for_line(second.as_ref().context("it was started")?, "working")?;
        }
        match self {
            Case::Finished => {
                fs::write(scene.file("second"), "")?;
                let ended = second.take().map(Background::finish);
                ensure!(ended.is_some_and(|it| it.0.success()), "the other run failed");
            }
            Case::TakenOver => {}
            Case::Unseen => scene.let_lease_pass()?,
            Case::Within => {
                let other = scene.start_other("second", true)?;
                wait_for_line(&other, "waits for another run")?;
                second = Some(other);
            }
        }
        for process in &stopped {
            process.signal(Signal::CONT);
        }
        let (.., stderr) = match self {
            // It waits for the other one, which has the task now.
            Case::TakenOver => {
                wait_for_line(&first, "waits for another run")?;
                fs::write(scene.file("second"), "")?;
                first.finish()
            }
            _ => first.finish(),
        };
        if let Some(second) = second {
            ensure!(second.finish().0.success(), "the other run failed");
        }
        scene.judge(self, stderr.contains("was taken back"))
    }
}

/// A task and two working trees in which runs want it.
struct Scene {
    project: Project,
    task: String,
    other: PathBuf,
}

impl Scene {
    fn new() -> Result<Scene> {
        let project = Project::new();
        project.git_init();
        let other = project.base().join("worktree");
        let path = other.to_str().context("its path is text")?;
        project.git(["worktree", "add", "-q", path, "-b", "other"]);
        let task = project.add(["Wanted by two"]);
        Ok(Scene { project, task, other })
    }

    /// The file that the agent of a run waits for.
    fn file(&self, name: &str) -> PathBuf {
        self.project.base().join(name)
    }

    fn start(&self, name: &str) -> Result<Background> {
        let run = self.start_in(name, self.project.root());
        wait_for_line(&run, "working")?;
        Ok(run)
    }

    fn start_other(&self, name: &str, at_once: bool) -> Result<Background> {
        if at_once {
            fs::write(self.file(name), "")?;
        }
        Ok(self.start_in(name, &self.other))
    }

    fn start_in(&self, name: &str, directory: &std::path::Path) -> Background {
        let script = format!("say working | wait-file {} | done", self.file(name).display());
        let mut command = self.project.ralph_with(&script, ["run", "--no-verify"]);
        command.current_dir(directory).env("RALPH_DB", self.project.database());
        self.project.start(command)
    }

    fn stop(&self, run: &Background, whole: bool) -> Result<Vec<Process>> {
        process_below(run, Process::is_agent)?;
        let mut processes: Vec<Process> = Process::of(run.id()).into_iter().collect();
        if whole {
            processes.extend(processes::below(run.id()));
        }
        processes.iter().try_for_each(stop)?;
        Ok(processes)
    }

    /// Says that the run was last heard of before its lease.
    fn let_lease_pass(&self) -> Result<()> {
        let mut store = self.project.store();
        let run = store.activity()?.open.first().and_then(|it| it.run).context("it is claimed")?;
        let now = chrono::Utc::now().timestamp();
        let past = now - i64::try_from(LEASE.as_secs())? - 10;
        store.heartbeat(run, Timestamp::from_epoch(past).context("it is a time")?)
    }

    fn judge(&self, case: Case, refused: bool) -> Result<Option<String>> {
        let (attempts, _, retries) = story(&self.project, &self.task)?;
        let outcomes: Vec<Option<Outcome>> = attempts.iter().map(|it| it.outcome).collect();
        let expected: &[Option<Outcome>] = match case {
            Case::Finished | Case::TakenOver => &[Some(Outcome::Crashed), Some(Outcome::Done)],
            Case::Unseen | Case::Within => &[Some(Outcome::Done)],
        };
        let is_late = matches!(case, Case::Finished | Case::TakenOver);
        let told = refused == is_late;
        check_rules(&self.project);
        self.project.assert_nothing_left();
        let holds = outcomes == expected && told && retries == 0;
        Ok((!holds).then(|| format!("{outcomes:?}, refused: {refused}")))
    }
}

/// The same where nobody can tell whether a process is alive; returns what was wrong.
fn elsewhere() -> Result<usize> {
    let project = Project::new();
    let mut store = project.store();
    let task = NewTask { title: "Held elsewhere".into(), ..NewTask::default() };
    store.add_tasks(&[task], None, Timestamp::now())?;
    let holder = Holder { host: "another machine".into(), pid: 1, started: 1 };
    let run = NewRun { holder, ..NewRun::new() };
    let run = store.start_run(&run, Timestamp::now())?;
    let claim = store.claim_next(run, &Target::Everything, Timestamp::now())?.context("a claim")?;
    let open = |project: &Project| {
        project.ralph(["status"]).ok();
        project.store().activity().map(|activity| activity.open.len())
    };
    let early = open(&project)? != 1;
    let past = chrono::Utc::now().timestamp() - i64::try_from(LEASE.as_secs())? - 10;
    store.heartbeat(run, Timestamp::from_epoch(past).context("it is a time")?)?;
    let kept = open(&project)? != 0;
    let late = store.finish(claim, &Ending::new(Outcome::Done, 0), Timestamp::now());
    let recorded = !late.is_err_and(|error| error.is::<ClaimLost>());
    check_rules(&project);
    Ok([early, kept, recorded].into_iter().filter(|&it| it).count())
}

/// Nothing is written into the database here: the time passes. How long it took, and what was wrong.
fn wait_a_lease() -> Result<(Duration, Option<String>)> {
    let scene = Scene::new()?;
    let first = scene.start("first")?;
    let began = Instant::now();
    let stopped = scene.stop(&first, false)?;
    fs::write(scene.file("first"), "")?;
    let second = scene.start_other("second", true)?;
    let is_taken = || {
        let (attempts, ..) = story(&scene.project, &scene.task).ok()?;
        (attempts.len() > 1).then_some(())
    };
    let taken = wait_until(began + LEASE + DEADLINE, is_taken);
    let took = began.elapsed();
    taken.context("nobody takes it over")?;
    ensure!(second.finish().0.success(), "the other run failed");
    for process in &stopped {
        process.signal(Signal::CONT);
    }
    let (.., stderr) = first.finish();
    Ok((took, scene.judge(Case::Finished, stderr.contains("was taken back"))?))
}
