//! A child that is killed as the system does when there is no memory left: that is recorded, and tried
//! again as often as the rules allow.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use ralph::dag::{Outcome, Status};
use rustix::process::Signal;

use super::{process_below, story, wait_for_line};
use crate::harness::{FAKE_CLAUDE, Project, check_rules};
use crate::processes::{self, Process};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "worker-killed",
    about: "Processes of a session are killed as for want of memory: that is recorded and tried again.",
    run: drill,
};

fn drill(dose: &mut Dose) -> Result<Vec<Row>> {
    let times = dose.of(20, 2);
    let mut rows = vec![Row::told("times each", times)];
    for case in Case::ALL {
        let mut wrong = Vec::new();
        for _ in 0..times {
            wrong.extend(case.play(2)?);
        }
        rows.push(Row::none(
            format!("{}: not recorded as that, or not tried again", case.name()),
            &wrong,
        ));
    }
    let mut wrong = Vec::new();
    for case in Case::ALL {
        wrong.extend(case.play(0)?);
    }
    rows.push(Row::none("without retries: not failed for good, or the rest not done", &wrong));
    Ok(rows)
}

/// What is killed, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Agent,
    Supervisor,
    Session,
    Memory,
}

impl Case {
    const ALL: [Case; 4] = [Case::Agent, Case::Supervisor, Case::Session, Case::Memory];

    fn name(self) -> &'static str {
        match self {
            Case::Agent => "the agent is killed",
            Case::Supervisor => "what stands between is killed",
            Case::Session => "all of a session is killed",
            Case::Memory => "the agent may have no more memory (`ulimit -v`)",
        }
    }

    /// Plays it with a task that has so many retries and one beside it; returns what was wrong.
    fn play(self, retries: u32) -> Result<Option<String>> {
        let project = Project::new();
        let task = project.add(["Killed", "--max-retries", &retries.to_string()]);
        let beside = project.add(["Beside it"]);
        let first = match self {
            Case::Memory => "say working | exit 0",
            Case::Agent | Case::Supervisor | Case::Session => "orphan-setsid | say working | hang",
        };
        let mut command = project.ralph_playing(&[first, "done"], ["run", "--no-verify"]);
        if self == Case::Memory {
            command.env("RALPH_AGENT_COMMAND", glutton(&project)?);
        }
        let run = project.start(command);
        if self != Case::Memory {
            wait_for_line(&run, "working")?;
            let agent = process_below(&run, Process::is_agent)?;
            let victims = match self {
                Case::Agent => vec![agent],
                Case::Supervisor => vec![process_below(&run, Process::is_supervisor)?],
                Case::Session | Case::Memory => processes::below(run.id()),
            };
            for victim in victims {
                victim.signal(Signal::KILL);
            }
        }
        let (status, lines, stderr) = run.finish();
        let (attempts, stored, used) = story(&project, &task)?;
        let (_, other, _) = story(&project, &beside)?;
        let outcomes: Vec<Option<Outcome>> = attempts.iter().map(|it| it.outcome).collect();
        let first = attempts.first();
        let reason = first.and_then(|it| it.reason.as_deref()).unwrap_or("");
        let code = first.and_then(|it| it.exit_code);
        let is_told = match self {
            Case::Memory => code == Some(1) && reason.contains("memory"),
            _ => code == Some(137) && reason.contains("signal 9"),
        };
        let holds = match retries {
            0 => {
                outcomes == [Some(Outcome::Failed)]
                    && (status.code(), stored, used) == (Some(1), Some(Status::Failed), 0)
            }
            _ => {
                outcomes == [Some(Outcome::Failed), Some(Outcome::Done)]
                    && (status.code(), stored, used) == (Some(0), Some(Status::Done), 1)
            }
        };
        let holds = holds && is_told && other == Some(Status::Done);
        project.assert_nothing_left();
        check_rules(&project);
        let told = || format!("{outcomes:?}, {code:?}, {reason:?}, {status}, {lines:?} {stderr}");
        Ok((!holds).then(told))
    }
}

/// An agent that wants more memory than it gets in the middle of its first session; then one that works.
fn glutton(project: &Project) -> Result<std::path::PathBuf> {
    let program = project.base().join("glutton-claude");
    let ate = project.base().join("ate");
    let text = format!(
        "#!/bin/sh\n[ -e {ate} ] || [ \"$1\" = --version ] && exec {FAKE_CLAUDE} \"$@\"\n\
         {FAKE_CLAUDE} \"$@\"\ntouch {ate}\nulimit -v 50000\n\
         exec tail /dev/zero\n",
        ate = ate.display()
    );
    fs::write(&program, text)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}
