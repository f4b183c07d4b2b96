//! What commands need around them: the project, its database, the settings, the terminal.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

use super::running::claude_home;
use crate::agent;
use crate::broker;
use crate::engine::{Clock, take_back};
use crate::hint::{HintExt, Hinted, quoted};
use crate::ops::{Caller, Operation};
use crate::project::Project;
use crate::settings::{Environment, Flag, Loaded, Settings};
use crate::store::{Store, TakenBack};
use crate::time::Timestamp;
use crate::ui::{Terminal, prose};

/// A text longer than this can't be meant.
const MAX_INPUT: u64 = 64 << 20;

/// Where the program was started.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) environment: Environment,
    config: Option<PathBuf>,
    agent: Option<String>,
    /// The arguments of this command, as they were given.
    arguments: Vec<OsString>,
    clock: fn() -> Clock,
}

/// What answers operations on the task graph.
pub(super) enum Dag {
    /// The database.
    Store(Store),
    /// The run whose session we are called from, behind this socket.
    Run(PathBuf),
}

impl Dag {
    pub(super) fn perform<O: Operation>(&mut self, operation: O) -> Result<O::Answer> {
        match self {
            Dag::Store(store) => operation.perform(store, &mut Caller::Person, Timestamp::now()),
            Dag::Run(socket) => broker::ask(socket, operation),
        }
    }
}

/// A question would have to be asked and may not be.
#[derive(Debug)]
pub(super) enum Refused {
    /// Whether to do it, or how; in words that say what it is about.
    Question(String),
    /// Many.
    Interview,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Question(about) => about,
            Refused::Interview => "an interview needs a terminal for both input and output",
        })
    }
}

impl std::error::Error for Refused {}

/// A command line that makes no sense, in its own words.
#[derive(Debug)]
pub(super) struct WrongUsage(pub(super) String);

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

impl Setup {
    pub(super) fn new(
        config: Option<PathBuf>,
        agent: Option<String>,
        arguments: Vec<OsString>,
        clock: fn() -> Clock,
    ) -> Setup {
        Setup { environment: Environment::process(), config, agent, arguments, clock }
    }

    /// The same command again, as a person types it.
    pub(super) fn this_command(&self) -> String {
        let words = self.arguments.iter().map(quoted);
        std::iter::once("ralph".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Another command for a person to type, with the settings and the agent of this one.
    pub(super) fn command(&self, command: &str) -> String {
        let mut line = format!("ralph {command}");
        if let Some(file) = &self.config {
            line.push_str(&format!(" --config {}", quoted(file)));
        }
        if let Some(agent) = &self.agent {
            line.push_str(&format!(" --agent {}", quoted(agent)));
        }
        line
    }

    /// Whether the command line names an agent.
    pub(super) fn names_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// The time, from now on.
    pub(super) fn clock(&self) -> Clock {
        (self.clock)()
    }

    pub(super) fn directory(&self) -> Result<PathBuf> {
        std::env::current_dir().context("can't tell the current directory")
    }

    pub(super) fn project(&self) -> Result<Project> {
        Project::find(&self.directory()?)
    }

    /// The database of the session we are called from, else the project's.
    pub(super) fn database_path(&self) -> Result<PathBuf> {
        match self.environment.db() {
            Some(path) if path.exists() => Ok(path),
            Some(path) => Err(anyhow!("RALPH_DB names `{}`, which does not exist", path.display()))
                .hint("unset RALPH_DB to work on the project you are in"),
            None => Ok(self.project()?.database()),
        }
    }

    /// Opens the database, and takes back what dead processes have claimed.
    pub(super) fn store(&self) -> Result<Store> {
        let path = self.database_path()?;
        if let Some(directory) = path.parent().filter(|directory| !directory.exists())
            && self.environment.db().is_none()
        {
            // The project was found by its settings alone, as in a fresh clone.
            std::fs::create_dir_all(directory)
                .with_context(|| format!("can't make `{}`", directory.display()))?;
        }
        let mut store = Store::open(&path).map_err(|error| match is_read_only(&error) {
            true => out_of_reach(),
            false => error,
        })?;
        self.take_back(&mut store)?;
        Ok(store)
    }

    /// Takes back what dead processes have claimed, and ends what is left of them.
    pub(super) fn take_back(&self, store: &mut Store) -> Result<Vec<TakenBack>> {
        take_back(store, &claude_home(self).directory(), Timestamp::now())
    }

    /// What answers operations: inside a session its run, else the database.
    pub(super) fn dag(&self) -> Result<Dag> {
        match self.environment.socket() {
            Some(socket) => Ok(Dag::Run(socket)),
            None => Ok(Dag::Store(self.store()?)),
        }
    }

    pub(super) fn settings(&self) -> Result<Loaded> {
        self.settings_with(&[])
    }

    /// The settings under the flags of a command.
    pub(super) fn settings_with(&self, flags: &[Flag]) -> Result<Loaded> {
        let file = match &self.config {
            Some(file) => Some(file.clone()),
            None => self.project().ok().and_then(|project| project.config()),
        };
        let agent = self.agent.as_deref().map(|it| Flag::new("--agent", "agent.command", it));
        let flags: Vec<Flag> = agent.into_iter().chain(flags.iter().cloned()).collect();
        Settings::load(file.as_deref(), &self.environment, &flags)
    }

    /// Where programs keep what should outlive a restart and is not worth a backup.
    pub(super) fn state(&self) -> PathBuf {
        let given = self.environment.var("XDG_STATE_HOME").map(PathBuf::from);
        let home =
            || self.environment.var("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        // Relative paths are to be ignored, says the specification.
        given.filter(|path| path.is_absolute()).or_else(home).unwrap_or_else(|| self.temporary())
    }

    /// Where temporary files go.
    pub(super) fn temporary(&self) -> PathBuf {
        self.environment.var("TMPDIR").map_or("/tmp".into(), PathBuf::from)
    }

    /// The `PATH` of a session, in which `ralph` is this program.
    pub(super) fn session_path(&self) -> Result<OsString> {
        let program = std::env::current_exe().context("can't tell where this program is")?;
        let path = self.environment.var("PATH").unwrap_or_default();
        Ok(agent::session_path(program.parent().unwrap_or(&program), &path))
    }

    pub(super) fn terminal(&self) -> Terminal {
        Terminal::stdout(&self.environment)
    }

    /// What is known of the terminal on which a person is told things.
    pub(super) fn stderr(&self) -> Terminal {
        Terminal::stderr(&self.environment)
    }

    /// Says something to a person.
    pub(super) fn say(&self, text: &str) {
        // A person who has closed stderr does not want to know.
        let _ = io::stderr().write_all(prose(text, self.stderr()).as_bytes());
    }

    /// Asks before something is destroyed. Without a terminal that is refused.
    pub(super) fn confirm(&self, question: &str, yes: bool) -> Result<bool> {
        if yes {
            return Ok(true);
        }
        self.require_answers(question, "repeat it with --yes")?;
        let answer = self.ask(&format!("{question} [y/N]"), "repeat it with --yes")?;
        Ok(matches!(answer.as_str(), "y" | "Y" | "yes" | "Yes"))
    }

    /// Asks the person at the terminal. Without one, and in the background, that is refused, and
    /// `otherwise` says what to do instead.
    pub(super) fn ask(&self, question: &str, otherwise: &str) -> Result<String> {
        self.require_answers(question, otherwise)?;
        write!(io::stderr(), "{} ", prose(question, self.stderr()).trim_end())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }

    /// An error that names the question unless a person can answer it here.
    fn require_answers(&self, question: &str, otherwise: &str) -> Result<()> {
        let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        if has_terminal && agent::is_in_foreground() {
            return Ok(());
        }
        let question = question.lines().next().unwrap_or_default();
        let about = format!("there is no terminal to ask on: {question}");
        Err(anyhow!(Refused::Question(about))).hint(otherwise)
    }

    /// An error unless a person can talk to an agent here.
    pub(super) fn require_terminal(&self) -> Result<()> {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            return Ok(());
        }
        Err(anyhow!(Refused::Interview)).hint("run it in a terminal, without pipes")
    }
}

fn is_read_only(error: &anyhow::Error) -> bool {
    let is = |error: &io::Error| error.kind() == io::ErrorKind::ReadOnlyFilesystem;
    error.downcast_ref::<io::Error>().is_some_and(is)
}

/// What is most likely wrong where no database can be made: a sandbox shows none.
fn out_of_reach() -> anyhow::Error {
    Hinted {
        source: anyhow!("the database is out of reach"),
        hint: "inside a session, ralph reaches it through RALPH_SOCKET, which is not set"
            .to_owned(),
    }
    .into()
}

/// A text argument: `-` is stdin, `@FILE` a file, anything else itself.
pub(super) fn text_argument(argument: &str) -> Result<String> {
    let (bytes, origin) = match argument.strip_prefix('@') {
        _ if argument == "-" => (read_limited(io::stdin().lock()), "stdin".to_owned()),
        Some(path) => (File::open(path).and_then(read_limited), format!("`{path}`")),
        None => return Ok(argument.to_owned()),
    };
    let bytes = bytes
        .with_context(|| format!("can't read {origin}"))
        .hint("a text that begins with @ names a file; any text can be given on stdin, with `-`")?;
    String::from_utf8(bytes).map_err(|_| anyhow!("{origin} is not UTF-8 text"))
}

fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_INPUT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(io::Error::other(format!("it has more than {MAX_INPUT} bytes")));
    }
    Ok(bytes)
}
