//! What a session waits longer for when something holds it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ralph::agent::sandbox::{CONFINE, Here, Places, Policy, Sandbox};
use ralph::agent::{Invocation, Stdin};
use ralph::settings::Settings;
use tempfile::TempDir;

use crate::Scale;
use crate::measure::interleaved;
use crate::project::{EMPTY, RALPH, run};
use crate::table::{Amount, Limit, Row};

const ROUNDS: usize = 200;

pub(crate) fn start(_: &Scale) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let here = Here::look(&std::env::var_os("PATH").unwrap_or_default());
    let bwrap = here.bwrap.ok().map(|program| Sandbox::Bwrap { program });
    let landlock = here
        .landlock
        .ok()
        .map(|it| Sandbox::Landlock { version: it.version, namespaces: it.namespaces.is_ok() });
    Ok(vec![
        place.row(
            "landlock over the bare child",
            landlock,
            "landlock",
            Duration::from_millis(3),
        )?,
        place.row("bwrap over the bare child", bwrap, "bwrap", Duration::from_millis(15))?,
    ])
}

/// A repository in a home.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Result<Place> {
        let place = Place { directory: TempDir::new()? };
        for name in ["home", "project", "tmp"] {
            std::fs::create_dir(place.path().join(name))?;
        }
        let project = place.path().join("project");
        ralph::project::Project::init(&project)?;
        let status = Command::new("git").args(["init", "-q"]).current_dir(project).status();
        ensure!(status.context("can't run git")?.success(), "git init failed");
        Ok(place)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn row(
        &self,
        name: &str,
        sandbox: Option<Sandbox>,
        what: &'static str,
        most: Duration,
    ) -> Result<Row> {
        let limit = Limit::AtMost(Amount::Time(most));
        let measured = match sandbox {
            Some(sandbox) => Amount::Time(self.cost(&sandbox)?),
            None => Amount::Missing(what),
        };
        Ok(Row::new(name, measured, limit))
    }

    /// How much longer a program takes that does nothing.
    fn cost(&self, sandbox: &Sandbox) -> Result<Duration> {
        let policy = self.policy()?;
        let _placeholders = sandbox.prepare(&policy)?;
        let invocation = Invocation {
            program: EMPTY.into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            removed: Vec::new(),
            stdin: Stdin::Nothing,
            scratch: None,
            directory: policy.project.clone(),
        };
        let held = sandbox.wrap(&policy, invocation.clone());
        let (held, bare) =
            interleaved(ROUNDS, || run(command(&held)), || run(command(&invocation)))?;
        Ok(held.saturating_sub(bare))
    }

    fn policy(&self) -> Result<Policy> {
        let project = self.path().join("project");
        let places = Places {
            project: &project,
            home: &self.path().join("home"),
            temporary: vec![self.path().join("tmp")],
            runtime: None,
            database: &project.join(".ralph/progress.db"),
            logs: &self.path().join("tmp"),
        };
        Policy::new(&places, &Settings::default().sandbox, false)
    }
}

fn command(invocation: &Invocation) -> Command {
    // What starts itself again is to be ralph, not this benchmark.
    let is_ours = invocation.arguments.first().is_some_and(|first| first == CONFINE);
    let mut command = Command::new(if is_ours { RALPH.as_ref() } else { &*invocation.program });
    command.args(&invocation.arguments).current_dir(&invocation.directory);
    command
}
