//! A child that stands still: the run notices by its silence, ends it, and goes on.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ralph::dag::{Outcome, Status};

use super::{process_below, seconds, stop, story};
use crate::harness::{DEADLINE, Project, check_rules, wait_until};
use crate::processes::{self, Process};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "worker-stopped",
    about: "Processes of a session are stopped (SIGSTOP): the run notices by their silence and goes on.",
    run: drill,
};

/// The silence that is allowed.
const SILENCE: Duration = Duration::from_secs(1);
/// How long who is told to end has for it, and then who is told to end it.
const GRACE: Duration = Duration::from_secs(5);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

fn drill(_: &mut Dose) -> Result<Vec<Row>> {
    thread::scope(|scope| {
        let cases = Case::ALL.map(|case| (case, scope.spawn(move || case.play())));
        let mut rows = Vec::new();
        for (case, played) in cases {
            let (took, wrong) = played.join().map_err(|_| anyhow!("{}", case.name()))??;
            let limit = case.limit();
            let measured = wrong.clone().unwrap_or_else(|| seconds(took));
            let holds = wrong.is_none() && took < limit;
            rows.push(Row::timed(
                format!("{}: noticed after", case.name()),
                measured,
                seconds(limit),
                holds,
            ));
        }
        Ok(rows)
    })
}

/// What stands still.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Agent,
    Itself,
    Supervisor,
    Everything,
}

impl Case {
    const ALL: [Case; 4] = [Case::Agent, Case::Itself, Case::Supervisor, Case::Everything];

    fn name(self) -> &'static str {
        match self {
            Case::Agent => "an agent is stopped",
            Case::Itself => "an agent stops itself",
            Case::Supervisor => "what stands between is stopped, and the agent hangs",
            Case::Everything => "all of a session is stopped",
        }
    }

    fn limit(self) -> Duration {
        match self {
            Case::Agent | Case::Itself => SILENCE + GRACE + SLACK,
            Case::Supervisor | Case::Everything => SILENCE + 2 * GRACE + SLACK,
        }
    }

    /// How long it took until the run had noticed, and what was wrong.
    fn play(self) -> Result<(Duration, Option<String>)> {
        let project = Project::new();
        let task = project.add(["Interrupted"]);
        let stands = if self == Case::Itself { "stop" } else { "hang" };
        // In the middle of an answer it would be the API that is silent.
        let said = project.base().join("said");
        let first = format!("orphan-setsid | say working | touch {} | {stands}", said.display());
        let mut command = project.ralph_playing(&[&first, "done"], ["run", "--no-verify"]);
        command.env("RALPH_AGENT_SILENCE_TIMEOUT_SECS", SILENCE.as_secs().to_string());
        let run = project.start(command);
        wait_until(Instant::now() + DEADLINE, || said.exists().then_some(()))
            .context("the agent never says anything")?;
        let began = Instant::now();
        let agent = process_below(&run, Process::is_agent)?;
        match self {
            Case::Agent => stop(&agent)?,
            Case::Itself => {}
            Case::Supervisor => stop(&process_below(&run, Process::is_supervisor)?)?,
            Case::Everything => processes::below(run.id()).iter().try_for_each(stop)?,
        }
        let is_over = || {
            let (attempts, ..) = story(&project, &task).ok()?;
            attempts.first().and_then(|it| it.outcome)
        };
        wait_until(began + DEADLINE, is_over).context("it is never noticed")?;
        let took = began.elapsed();
        let (status, lines, stderr) = run.finish();
        let (attempts, stored, retries) = story(&project, &task)?;
        let outcomes: Vec<Option<Outcome>> = attempts.iter().map(|it| it.outcome).collect();
        let holds = status.success()
            && outcomes == [Some(Outcome::Silent), Some(Outcome::Done)]
            && stored == Some(Status::Done)
            && retries == 1;
        project.assert_nothing_left();
        check_rules(&project);
        Ok((took, (!holds).then(|| format!("{outcomes:?} {retries} {lines:?} {stderr}"))))
    }
}
