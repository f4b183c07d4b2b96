//! `ralph doctor`

mod clean;
mod login;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::agent::sandbox::{Choice, Here, choose};
use crate::agent::{Program, ProgramNotFound, Version, find_program};
use crate::cli::args::DoctorArgs;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::engine::{ask_version, too_old};
use crate::hint::{hint_of, quoted};
use crate::settings::Backend;
use crate::store::{self, Store};
use crate::ui::json::Array;
use crate::ui::{Terminal, labelled};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    result: Verdict,
    detail: String,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Error,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, result: Verdict::Ok, detail: detail.into(), hint: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Check {
        Check { name, result: Verdict::Warning, detail: detail.into(), hint: Some(hint.into()) }
    }

    fn error(name: &'static str, detail: impl Into<String>, hint: Option<String>) -> Check {
        Check { name, result: Verdict::Error, detail: detail.into(), hint }
    }

    fn failed(name: &'static str, error: &anyhow::Error) -> Check {
        Check::error(name, format!("{error:#}"), hint_of(error).map(str::to_owned))
    }
}

pub(super) fn run(args: &DoctorArgs, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let json = args.json.json;
    if args.clean {
        return clean::run(args.yes, json, setup, out);
    }
    let mut checks = vec![check_project(setup)];
    if checks[0].result != Verdict::Error {
        checks.push(check_settings(setup));
        checks.extend(check_database(setup));
        checks.extend(check_disk(setup));
    }
    checks.extend(check_agent(setup));
    checks.push(check_git(setup));
    checks.push(check_sandbox(setup));
    if json {
        let mut array = Array::begin(out)?;
        checks.iter().try_for_each(|check| array.push(check))?;
        array.end()?;
    } else {
        for check in &checks {
            out.write_all(in_words(check, setup.terminal()).as_bytes())?;
        }
    }
    let broken = checks.iter().any(|check| check.result == Verdict::Error);
    Ok(if broken { Exit::Error } else { Exit::Done })
}

fn in_words(check: &Check, terminal: Terminal) -> String {
    let mark = match check.result {
        Verdict::Ok => "ok     ",
        Verdict::Warning => "warning",
        Verdict::Error => "error  ",
    };
    let mut text = labelled(&format!("{mark}  {:<9} ", check.name), &check.detail, terminal);
    if let Some(hint) = &check.hint {
        text.push_str(&labelled(&" ".repeat(19), &format!("hint: {hint}"), terminal));
    }
    text
}

fn check_project(setup: &Setup) -> Check {
    match setup.project() {
        Err(error) => Check::failed("project", &error),
        Ok(project) => match project.missing_ignores().as_slice() {
            [] => Check::ok("project", project.root().display().to_string()),
            missing => Check::warning(
                "project",
                format!(".gitignore is missing {}", missing.join(", ")),
                "`ralph init` adds what is missing",
            ),
        },
    }
}

fn check_settings(setup: &Setup) -> Check {
    match setup.settings() {
        Ok(_) => Check::ok("settings", "all keys are known and all values are valid"),
        Err(error) => Check::failed("settings", &error),
    }
}

fn check_database(setup: &Setup) -> Vec<Check> {
    let path = match setup.database_path() {
        Ok(path) => path,
        Err(error) => return vec![Check::failed("database", &error)],
    };
    if !path.exists() {
        return vec![Check::ok("database", "none yet; the first task makes it")];
    }
    inspect(setup, &path).unwrap_or_else(|error| match store::explain(&error, &path) {
        Some((what, hint)) => vec![Check::error("database", what, Some(hint.to_owned()))],
        None => vec![Check::failed("database", &error)],
    })
}

/// Tells when there is a lot to clean. What keeps it from looking is for the other checks to tell.
fn check_disk(setup: &Setup) -> Option<Check> {
    let found = clean::Found::look(setup).ok().filter(clean::Found::is_a_lot)?;
    let detail = format!("older than {}: {}", found.days(), found.summary());
    Some(Check::warning("disk", detail, "`ralph doctor --clean` removes that"))
}

fn inspect(setup: &Setup, path: &Path) -> Result<Vec<Check>> {
    let mut store = Store::open(path)?;
    let mut checks = Vec::new();
    let findings = store.check()?;
    if findings.is_empty() {
        checks.push(Check::ok("database", "intact; derived columns agree with the stored facts"));
    }
    for finding in findings {
        let hint = finding.hint().to_owned();
        checks.push(Check::error("database", finding.to_string(), Some(hint)));
    }
    let taken = setup.take_back(&mut store)?;
    if !taken.is_empty() {
        let ids: Vec<String> = taken.iter().map(|claim| claim.task.to_string()).collect();
        checks.push(Check::ok(
            "leftovers",
            format!("took back {} from a process that is gone", ids.join(", ")),
        ));
    }
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        checks.push(Check::warning(
            "database",
            "others than its owner can read it",
            format!("chmod 600 {}", quoted(path)),
        ));
    }
    Ok(checks)
}

/// Starts the agent and looks at its version, and whether it can log in if it is Claude Code.
fn check_agent(setup: &Setup) -> Vec<Check> {
    let command = match setup.settings() {
        Ok(loaded) => loaded.settings.agent.command,
        Err(_) => "claude".to_owned(),
    };
    let path = setup.environment.var("PATH").unwrap_or_default();
    let here = setup.directory().unwrap_or_default();
    let program = match Program::parse(&command, &path, &here) {
        Ok(program) => program,
        Err(error) => return vec![Check::failed("agent", &error)],
    };
    let name = program.name.to_string_lossy().into_owned();
    let Some(file) = find(setup, &name) else {
        let missing = format!("`{name}` was not found");
        return vec![Check::warning("agent", missing, ProgramNotFound::HINT)];
    };
    match ask_version(&program, path, here) {
        Err(error) => vec![Check::failed("agent", &error)],
        Ok(said) => match Version::parse(&said) {
            Some(version) if version < Version::OLDEST => {
                let detail = format!("{file}: {}", too_old(version));
                let hint = format!("install {} or newer", Version::OLDEST);
                vec![Check::warning("agent", detail, hint), login::check(setup)]
            }
            Some(version) => {
                let detail = format!("{file}, Claude Code {version}");
                vec![Check::ok("agent", detail), login::check(setup)]
            }
            None => {
                let answer = said.lines().next().unwrap_or_default().trim();
                let detail = format!("`{file} --version` says \"{answer}\": not Claude Code");
                let hint = "`ralph loop --command` takes any program; `ralph run` needs one that \
                            understands the options of Claude Code";
                vec![Check::warning("agent", detail, hint)]
            }
        },
    }
}

fn check_git(setup: &Setup) -> Check {
    if find(setup, "git").is_none() {
        let hint = "install git: without it there are no statistics, and nothing of a failed attempt is kept";
        return Check::warning("git", "`git` was not found", hint);
    }
    let inside =
        setup.directory().is_ok_and(|here| here.ancestors().any(|it| it.join(".git").exists()));
    if inside {
        Check::ok("git", "this is a repository")
    } else {
        Check::warning("git", "this is not a git repository", "`git init` makes it one")
    }
}

fn check_sandbox(setup: &Setup) -> Check {
    let settings = setup.settings().map(|loaded| loaded.settings).unwrap_or_default().sandbox;
    let here = Here::look(&setup.environment.var("PATH").unwrap_or_default());
    let works = match here.names().as_slice() {
        [] => "nothing works here".to_owned(),
        names => format!("works here: {}", names.join(", ")),
    };
    match choose(&settings, &here) {
        Err(error) => Check::error("sandbox", format!("{error:#}; {works}"), None),
        Ok(Choice { sandbox: Some(_), message }) => {
            Check::ok("sandbox", format!("{message}; {works}"))
        }
        Ok(Choice { sandbox: None, message }) => {
            let hint = match settings.backend {
                Backend::None => "`sandbox.backend = \"auto\"` takes the best that works here",
                _ => "install bubblewrap, so that an agent can work on its own and hurt nothing",
            };
            Check::warning("sandbox", format!("{message}; {works}"), hint)
        }
    }
}

/// Where a program is that would be started by this name.
fn find(setup: &Setup, name: &str) -> Option<String> {
    let path = setup.environment.var("PATH").unwrap_or_default();
    let program = find_program(name.as_ref(), &path, &setup.directory().ok()?)?;
    Some(program.display().to_string())
}
