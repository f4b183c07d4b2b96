//! Two programs in one: `hold` runs a command in a sandbox, as `ralph` does with an agent, and `attack`
//! is such a command: it tries what a sandbox must refuse and tells what came of each attempt.

#[cfg(target_os = "linux")]
mod attacks;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context, Result, anyhow};
use ralph::agent::sandbox::{self, Here, Places, Policy, Sandbox};
use ralph::agent::{
    Exit, Input, Invocation, Limits, Listener, Mailbox, Request, Scratch, Stdin, backstage, execute,
};
use ralph::broker::Broker;
use ralph::event::AgentEvent;
use ralph::ops::Role;
use ralph::settings::{Backend, Network, SandboxSettings, Settings};
use signal_hook::consts::SIGINT;

fn main() -> ExitCode {
    if let Some(exit) = backstage(env::args_os().skip(1)) {
        return exit;
    }
    let mut arguments = env::args_os().skip(1).peekable();
    #[cfg(target_os = "linux")]
    if arguments.next_if(|first| first == "attack").is_some() {
        attacks::all(arguments);
        return ExitCode::SUCCESS;
    }
    match hold(arguments) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `BACKEND BASE [--read-only] [--no-network] [--hide PATH]... PROGRAM [ARGUMENT]...`
fn hold(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let mut next = || arguments.next().context("too few arguments");
    let backend = next()?.into_string().map_err(|it| anyhow!("odd back end {it:?}"))?;
    let base = PathBuf::from(next()?);
    let mut settings = Settings::default().sandbox;
    let mut read_only = false;
    let program = loop {
        let argument = next()?;
        match argument.to_str() {
            Some("--read-only") => read_only = true,
            Some("--no-network") => settings.network = Network::None,
            Some("--hide") => {
                settings.deny_read.push(next()?.to_string_lossy().into_owned());
            }
            _ => break argument,
        }
    };
    let sandbox = chosen(&backend, &mut settings)?;
    let policy = policy(&base, &settings)?;
    let policy = if read_only { policy.looking_only() } else { policy };
    let _placeholders = sandbox.prepare(&policy)?;
    let scratch = Scratch::new(&base.join("tmp"))?;
    let role = if read_only { Role::Verifier } else { Role::Guest };
    let broker = Broker::serve(scratch.path(), &database(&base), role)?;
    let invocation = Invocation {
        program,
        arguments: arguments.collect(),
        variables: vec![
            ("PATH", env::var_os("PATH").unwrap_or_default()),
            ("RALPH_SOCKET", broker.socket().into()),
        ],
        removed: Vec::new(),
        stdin: Stdin::Nothing,
        scratch: None,
        directory: policy.project.clone(),
    };
    run(&sandbox.wrap(&policy, invocation))
}

/// The back end by its name; `landlock-alone` is what it is without namespaces.
fn chosen(name: &str, settings: &mut SandboxSettings) -> Result<Sandbox> {
    settings.backend = match name {
        "bwrap" => Backend::Bwrap,
        "docker" => Backend::Docker,
        "landlock" | "landlock-alone" => Backend::Landlock,
        _ => return Err(anyhow!("there is no back end {name:?}")),
    };
    let here = Here::look(&env::var_os("PATH").unwrap_or_default());
    let sandbox = sandbox::choose(settings, &here)?.sandbox.context("nothing was chosen")?;
    Ok(match sandbox {
        Sandbox::Landlock { version, .. } if name == "landlock-alone" => {
            Sandbox::Landlock { version, namespaces: false }
        }
        sandbox => sandbox,
    })
}

fn database(base: &Path) -> PathBuf {
    base.join("project/.ralph/progress.db")
}

fn policy(base: &Path, settings: &SandboxSettings) -> Result<Policy> {
    let project = base.join("project");
    let places = Places {
        project: &project,
        home: &base.join("home"),
        temporary: vec![base.join("tmp")],
        runtime: Some(base.join("run")),
        database: &database(base),
        logs: &base.join("logs"),
    };
    Policy::new(&places, settings, false)
}

/// Runs it as a session; what it prints is printed, and an interrupt is passed on.
fn run(invocation: &Invocation) -> Result<ExitCode> {
    let mailbox = Mailbox::new();
    let (mut signals, wake) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGINT, wake)?;
    let requests = mailbox.sender();
    thread::spawn(move || {
        while signals.read_exact(&mut [0]).is_ok() {
            let _ = requests.send(Input::Request(Request::Interrupt));
        }
    });
    let limits = Limits {
        silence: Some(Duration::from_secs(50)),
        exit_grace: Duration::from_secs(10),
        deadline: None,
    };
    let report = execute(invocation, limits, &mailbox, &mut Flushing, &mut Deaf)?;
    write!(io::stderr(), "{}", report.stderr)?;
    Ok(match report.facts.exit {
        Some(Exit::Code(code)) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Some(Exit::Signal(_)) | None => ExitCode::from(u8::MAX),
    })
}

/// A log that is read while it is written.
struct Flushing;

impl Write for Flushing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write_all(bytes)?;
        io::stdout().flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Deaf;

impl Listener for Deaf {
    fn event(&mut self, _event: &AgentEvent<'_>) {}

    fn caught_up(&mut self) {}
}
