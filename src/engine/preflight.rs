//! What a run looks at before it spends anything: whether the agent works, and whether the checks pass
//! on the tree as it is.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::command::{self, Ended};
use super::helm::{Helm, NobodyElse};
use super::plan::Baseline;
use super::{Engine, Reached, RunEnd};
use crate::agent::sandbox::Stance;
use crate::agent::{Invocation, Mailbox, Program, ProgramNotFound, Stdin, Version, find_program};
use crate::dag::failed_command;
use crate::event::{Activity, Event, Verifier, Verify, VerifyStatus};
use crate::hint::{HintExt, quoted};

/// How long an agent may take to tell its version.
const ANSWER: Duration = Duration::from_secs(20);

/// What to do about an agent that does not work.
const TRY_BY_HAND: &str = "try it by hand, or name another program with --agent, \
                           RALPH_AGENT_COMMAND or agent.command";
/// What to do about a command that is not there.
const ANOTHER_COMMAND: &str = "name another program with --command, RALPH_COMMAND or loop.command";

impl Helm<'_> {
    /// An error unless the agent is there and tells its version. Tells how the run ends if something
    /// else ends it meanwhile.
    pub(super) fn try_agent(&mut self) -> Result<Option<RunEnd>> {
        if self.agent.cage.has_its_own_agent() {
            return Ok(None);
        }
        let (program, path) = (self.agent.program.clone(), self.agent.path.clone());
        let directory = self.places.root.clone();
        if self.agent.plain {
            // It takes no arguments: to start it is to have it work.
            return require_program(&program.name, &path, &directory, ANOTHER_COMMAND)
                .map(|()| None);
        }
        require_program(&program.name, &path, &directory, ProgramNotFound::HINT)?;
        let invocation = version_request(&program, path, directory);
        let asked = in_words(&invocation);
        let held = self.hold(invocation, Stance::OnlyLooking)?;
        match self.execute_and_keep(&held.invocation, Some(ANSWER), Activity::Working)? {
            (Ended::Well, said) => {
                if let Some(version) = Version::parse(&said).filter(|it| *it < Version::OLDEST) {
                    self.warn(&too_old(version));
                }
                Ok(None)
            }
            (Ended::Interrupted, _) => Ok(Some(RunEnd::Interrupted)),
            (Ended::Badly { how, tail, .. }, _) => {
                let told = failed_command(&asked, &how, &tail);
                Err(anyhow!("the agent does not work: {told}")).hint(TRY_BY_HAND)
            }
        }
    }
}

/// Asks an agent for its version, outside of any run and sandbox: what it printed. An error unless it can be
/// started and ends well.
pub fn ask_version(program: &Program, path: OsString, directory: PathBuf) -> Result<String> {
    require_program(&program.name, &path, &directory, ProgramNotFound::HINT)?;
    let invocation = version_request(program, path, directory);
    let mailbox = Mailbox::new();
    match command::run(&invocation, Some(ANSWER), &mailbox, &mut NobodyElse)? {
        (Ended::Well, said) => Ok(said),
        (Ended::Interrupted, _) => Err(anyhow!("`{}` was interrupted", in_words(&invocation))),
        (Ended::Badly { how, tail, .. }, _) => {
            Err(anyhow!("{}", failed_command(&in_words(&invocation), &how, &tail)))
                .hint(TRY_BY_HAND)
        }
    }
}

/// What a person is told of a version that is not tested.
pub fn too_old(version: Version) -> String {
    let oldest = Version::OLDEST;
    format!(
        "Claude Code {version} is older than {oldest}, the oldest version that ralph is tested with"
    )
}

fn version_request(program: &Program, path: OsString, directory: PathBuf) -> Invocation {
    let mut arguments = program.arguments.clone();
    arguments.push("--version".into());
    Invocation {
        program: program.name.clone(),
        arguments,
        variables: vec![("PATH", path)],
        removed: vec![],
        stdin: Stdin::Nothing,
        scratch: None,
        directory,
    }
}

fn in_words(invocation: &Invocation) -> String {
    let words = std::iter::once(&invocation.program).chain(&invocation.arguments);
    words.map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// An error that says why, unless this program can be started. If it is missing, `hint` tells what to do.
fn require_program(program: &OsStr, path: &OsStr, directory: &Path, hint: &str) -> Result<()> {
    if find_program(program, path, directory).is_some() {
        return Ok(());
    }
    match find_file(program, path, directory) {
        Some(file) => {
            let (shown, program) = (file.display(), program.display());
            Err(anyhow!("the agent `{program}` can't be started: `{shown}` is not executable"))
                .hint(format!("make it so with `chmod +x {}`", quoted(&file)))
        }
        None => {
            let missing = ProgramNotFound { program: program.to_owned() };
            Err(anyhow!(missing)).hint(hint)
        }
    }
}

/// The file of this name, where a program of this name would be.
fn find_file(name: &OsStr, path: &OsStr, directory: &Path) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(|file| file.is_file());
    }
    std::env::split_paths(path)
        .map(|place| directory.join(place).join(name))
        .find(|file| file.is_file())
}

impl Engine<'_> {
    /// Looks before the first session whether it can lead to anything. Tells how the run ends if it
    /// can't.
    pub(super) fn look_first(&mut self) -> Result<Option<RunEnd>> {
        match self.helm.try_agent()? {
            Some(end) => Ok(Some(end)),
            None => self.try_checks(),
        }
    }

    /// Tries the checks on the tree as it is.
    fn try_checks(&mut self) -> Result<Option<RunEnd>> {
        let baseline = self.plan.verify.baseline;
        if baseline == Baseline::Off {
            return Ok(None);
        }
        for command in &self.plan.verify.commands {
            self.tell_baseline(command, VerifyStatus::Started, None);
            match self.run_check(command)? {
                Ended::Well => self.tell_baseline(command, VerifyStatus::Passed, None),
                Ended::Interrupted => return Ok(Some(RunEnd::Interrupted)),
                Ended::Badly { .. } if self.helm.is_out_of_time() => {
                    return Ok(Some(RunEnd::Limit(Reached::Time)));
                }
                Ended::Badly { how, tail, output } => {
                    let reason = failed_command(command, &how, &tail);
                    self.tell_baseline(command, VerifyStatus::Failed, Some(&reason));
                    if baseline == Baseline::Green {
                        return Ok(Some(RunEnd::RedBaseline { command: command.clone(), how }));
                    }
                    self.known_red.remember(command, &how, &output);
                }
            }
        }
        Ok(None)
    }

    fn tell_baseline(&mut self, command: &str, status: VerifyStatus, reason: Option<&str>) {
        let by = Verifier::Command(command);
        let verify = Verify { iteration: 0, task: None, by, status, reason, log: None };
        self.helm.tell(&Event::Verify(verify));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_that_can_not_be_started_is_not_missing() {
        let directory = tempfile::TempDir::new().unwrap();
        let here = directory.path();
        fs::write(here.join("agent"), "").unwrap();
        let told = |name: &str, path: &Path| {
            let found = require_program(name.as_ref(), path.as_os_str(), here, "");
            found.err().map_or(String::new(), |error| error.to_string())
        };
        for (name, path) in [("./agent", Path::new("/bin")), ("agent", here)] {
            let said = told(name, path);
            assert!(said.ends_with("agent` is not executable"), "{said}");
        }
        assert_eq!(told("other", here), "the agent `other` was not found");
        assert_eq!(told("sh", Path::new("/nowhere:/bin")), "");
    }
}
