//! The configuration: built-in defaults, `.ralph.toml`, the environment and flags, folded once into
//! [`Settings`]. Finding the file and naming the flags is left to the command line.

mod duration;
mod environment;
mod file;
mod keys;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, anyhow};
use serde::{Deserialize, de::DeserializeOwned};
use toml::Value;

use duration::duration_of;
pub use environment::Environment;
use keys::{KEYS, Key};

/// Everything a user can set, with a meaning for all that was not.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Sessions get a pseudo-terminal and show their own screen.
    pub pty_mode: bool,
    /// The user's keys reach the session in that terminal.
    pub pty_interactive: bool,
    /// How long a session in that terminal may be idle; `None` is for ever.
    pub idle_timeout: Option<Duration>,
    /// What `ralph loop` sends when it is given no prompt.
    pub prompt_file: PathBuf,
    /// The words in a final answer that complete a loop.
    pub completion_promise: String,
    /// How often a failed task is tried again.
    pub max_retries: u32,
    /// Agents are asked to write down what they learned.
    pub learn: bool,
    /// New commits are pushed after each iteration.
    pub auto_push: bool,
    /// Commits and changed lines are counted after each iteration.
    pub git_stats: bool,
    /// Where session logs go, if not to the usual place.
    pub log_dir: Option<PathBuf>,
    /// `[agent]`
    pub agent: AgentSettings,
    /// `[run]`
    pub run: RunSettings,
    /// `[verify]`
    pub verify: VerifySettings,
    /// `[sandbox]`
    pub sandbox: SandboxSettings,
    /// `[notify]`
    pub notify: NotifySettings,
    /// `[loop]`
    pub plain_loop: LoopSettings,
    /// `[clean]`
    pub clean: CleanSettings,
}

impl Settings {
    /// Folds the defaults, the file, the environment and the flags; each wins over those before it.
    pub fn load(file: Option<&Path>, environment: &Environment, flags: &[Flag]) -> Result<Loaded> {
        let given = file.map(file::read).transpose()?.unwrap_or_default();
        fold(given, environment, flags)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Entries::defaults().settings()
    }
}

/// The program that does the work.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    /// What to start.
    pub command: String,
    /// Unattended sessions may start background tasks.
    pub background_tasks: bool,
    /// The tools it may use without asking where no sandbox holds it.
    pub allowed_tools: Vec<String>,
    /// The MCP servers of unattended sessions: `none`, `project`, `all`, or a file.
    pub mcp: String,
    /// How long it may print nothing; `None` is for ever.
    pub silence_timeout: Option<Duration>,
    /// How long its process may stay after its final result.
    pub exit_grace: Duration,
}

/// What `ralph run` does and when it stops.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSettings {
    /// How the model of an iteration is chosen.
    pub strategy: Strategy,
    /// The model to use, by any name the agent knows.
    pub model: Option<String>,
    /// A model that an agent asks for is used for the next iteration.
    pub hints: bool,
    /// How many iterations it may take.
    pub max_iterations: Option<u32>,
    /// How long it may take.
    pub max_time: Option<Duration>,
    /// What it may cost, in USD.
    pub max_cost: Option<f64>,
    /// It works in a tree with uncommitted changes.
    pub allow_dirty: bool,
}

/// How a task that says it is done is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifySettings {
    /// A second agent checks the work.
    pub agent: bool,
    /// Shell commands that must succeed before that.
    pub commands: Vec<String>,
    /// How long each command may take; `None` is for ever.
    pub timeout: Option<Duration>,
    /// What the commands must say before any work is done.
    pub baseline: Baseline,
}

/// What holds the sessions of `ralph run` and `ralph loop`.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSettings {
    /// What builds the sandbox.
    pub backend: Backend,
    /// What it may reach.
    pub network: Network,
    /// Rules and paths that may be written besides the usual ones.
    pub allow: Vec<String>,
    /// Paths that may not be read.
    pub deny_read: Vec<String>,
    /// The image that the docker backend starts from.
    pub template: String,
}

/// How a person is told.
#[derive(Debug, Clone, PartialEq)]
pub struct NotifySettings {
    /// A shell command, in place of what the system offers.
    pub command: Option<String>,
}

/// What bounds `ralph loop`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopSettings {
    /// A program to start in place of the agent, without arguments and with the prompt on stdin.
    pub command: Option<String>,
    /// The most iterations that may be asked for.
    pub max_iterations: u32,
    /// The pause between two iterations.
    pub pause: Duration,
}

/// What `ralph doctor --clean` leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanSettings {
    /// Nothing is removed before it is so many days old.
    pub keep_days: u32,
}

/// Defines an enum whose variants have names in the configuration.
macro_rules! choices {
    ($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        pub enum $type { $($(#[$meaning])* #[serde(rename = $name)] $variant,)* }

        impl $type {
            /// All names, in the order they are listed to a user.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name that a user writes.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

choices! {
    /// How the model of an iteration is chosen.
    Strategy {
        /// Always the same.
        Fixed = "fixed",
        /// The middle one; dearer after a failure, cheaper after successes.
        CostOptimized = "cost-optimized",
        /// The cheapest, and one step up for each failure.
        Escalate = "escalate",
        /// The best first, then the middle one.
        PlanThenExecute = "plan-then-execute",
    }
}

choices! {
    /// What the checks must say before any work is done.
    Baseline {
        /// They must pass.
        Green = "green",
        /// They may fail; only new failures count later.
        KnownRed = "known-red",
        /// They are not tried.
        Off = "off",
    }
}

choices! {
    /// What builds the sandbox.
    Backend {
        /// The strongest that works here.
        Auto = "auto",
        /// Nothing.
        None = "none",
        /// macOS `sandbox-exec`.
        Seatbelt = "seatbelt",
        /// Linux Landlock.
        Landlock = "landlock",
        /// Linux bubblewrap.
        Bwrap = "bwrap",
        /// Docker sandboxes.
        Docker = "docker",
    }
}

choices! {
    /// What a sandbox may reach.
    Network {
        /// Everything.
        Open = "open",
        /// Nothing.
        None = "none",
    }
}

/// A flag of the command line that sets a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    name: &'static str,
    key: &'static str,
    value: Value,
}

impl Flag {
    /// The flag as the user wrote it (`--no-pty`), the key it sets and the value it stands for.
    pub fn new(name: &'static str, key: &'static str, value: impl Into<Value>) -> Self {
        Self { name, key, value: value.into() }
    }
}

/// A flag with a value that makes no sense.
#[derive(Debug)]
pub struct WrongFlag(String);

impl fmt::Display for WrongFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongFlag {}

/// The settings and where each came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What the program uses.
    pub settings: Settings,
    entries: Entries,
}

impl Loaded {
    /// Every key, in the order of `.ralph.toml.example`.
    pub fn entries(&self) -> &[Entry] {
        &self.entries.0
    }
}

/// One key, what it is and who said so.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The dotted name.
    pub key: &'static str,
    /// `None` when it is unset.
    pub value: Option<Value>,
    /// Who said so.
    pub origin: Origin,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is built in.
    Default,
    /// A `.ralph.toml`.
    File {
        /// As it was given.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable of this name.
    Environment(String),
    /// A flag of this name.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File { path, .. } => write!(f, "{}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Origin {
    /// How an error begins that happened here.
    fn place(&self) -> String {
        match self {
            Self::Default => "default".into(),
            Self::File { path, line } => format!("`{}`, line {line}", path.display()),
            Self::Environment(variable) => format!("environment `{variable}`"),
            Self::Flag(name) => format!("flag `{name}`"),
        }
    }

    fn refuses(&self, key: &str, expected: &str, written: &str) -> anyhow::Error {
        let written = one_line(written);
        let message = format!("{}: `{key}` must be {expected}, not `{written}`", self.place());
        match self {
            Self::Flag(_) => WrongFlag(message).into(),
            Self::Default | Self::File { .. } | Self::Environment(_) => anyhow!(message),
        }
    }
}

fn fold(given: Vec<file::Given>, environment: &Environment, flags: &[Flag]) -> Result<Loaded> {
    let mut entries = Entries::defaults();
    for (key, value, origin) in given {
        entries.set(key, value, origin)?;
    }
    let in_session = environment.var("RALPH_ITERATION").is_some();
    for key in KEYS {
        for variable in key.variables(in_session) {
            if let Some(text) = environment.text(&variable)? {
                entries.set(key, key.kind.parse(&text), Origin::Environment(variable))?;
            }
        }
    }
    for flag in flags {
        let key = Key::named(flag.key).expect("a flag sets a known key");
        entries.set(key, flag.value.clone(), Origin::Flag(flag.name))?;
    }
    Ok(Loaded { settings: entries.settings(), entries })
}

/// One entry for each key, each with a value that its key takes.
#[derive(Debug, Clone, PartialEq)]
struct Entries(Vec<Entry>);

impl Entries {
    fn defaults() -> Self {
        let default =
            |key: &Key| Entry { key: key.name, value: key.default(), origin: Origin::Default };
        Self(KEYS.iter().map(default).collect())
    }

    fn set(&mut self, key: &Key, value: Value, origin: Origin) -> Result<()> {
        if !key.kind.accepts(&value) {
            return Err(origin.refuses(key.name, &key.kind.expected(), &value.to_string()));
        }
        let entry = self.0.iter_mut().find(|entry| entry.key == key.name);
        let entry = entry.expect("every key has an entry");
        (entry.value, entry.origin) = (Some(value), origin);
        Ok(())
    }

    fn settings(&self) -> Settings {
        Settings {
            pty_mode: self.get("pty_mode"),
            pty_interactive: self.get("pty_interactive"),
            idle_timeout: self.timeout("idle_timeout_secs"),
            prompt_file: self.get("prompt_file"),
            completion_promise: self.get("completion_promise"),
            max_retries: self.get("max_retries"),
            learn: self.get("learn"),
            auto_push: self.get("auto_push"),
            git_stats: self.get("git_stats"),
            log_dir: self.find("log_dir"),
            agent: AgentSettings {
                command: self.get("agent.command"),
                background_tasks: self.get("agent.background_tasks"),
                allowed_tools: self.get("agent.allowed_tools"),
                mcp: self.get("agent.mcp"),
                silence_timeout: self.timeout("agent.silence_timeout_secs"),
                exit_grace: self.seconds("agent.exit_grace_secs"),
            },
            run: RunSettings {
                strategy: self.get("run.strategy"),
                model: self.find("run.model"),
                hints: self.get("run.hints"),
                max_iterations: self.find("run.max_iterations").filter(|&most| most > 0),
                max_time: self
                    .value("run.max_time")
                    .map(|time| duration_of(time).expect("its key takes nothing but a duration")),
                max_cost: self.find("run.max_cost"),
                allow_dirty: self.get("run.allow_dirty"),
            },
            verify: VerifySettings {
                agent: self.get("verify.agent"),
                commands: self.get("verify.commands"),
                timeout: self.timeout("verify.timeout_secs"),
                baseline: self.get("verify.baseline"),
            },
            sandbox: SandboxSettings {
                backend: self.get("sandbox.backend"),
                network: self.get("sandbox.network"),
                allow: self.get("sandbox.allow"),
                deny_read: self.get("sandbox.deny_read"),
                template: self.get("sandbox.template"),
            },
            notify: NotifySettings { command: self.find("notify.command") },
            plain_loop: LoopSettings {
                command: self.find("loop.command"),
                max_iterations: self.get("loop.max_iterations"),
                pause: self.seconds("loop.pause_secs"),
            },
            clean: CleanSettings { keep_days: self.get("clean.keep_days") },
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        let entry = self.0.iter().find(|entry| entry.key == key).expect("every key has an entry");
        entry.value.as_ref()
    }

    fn find<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let value = self.value(key)?.clone();
        Some(value.try_into().expect("a key takes only what its setting can hold"))
    }

    fn get<T: DeserializeOwned>(&self, key: &str) -> T {
        self.find(key).expect("a key whose setting is not optional has a default")
    }

    fn seconds(&self, key: &str) -> Duration {
        Duration::from_secs(self.get(key))
    }

    fn timeout(&self, key: &str) -> Option<Duration> {
        Some(self.seconds(key)).filter(|timeout| !timeout.is_zero())
    }
}

/// What somebody wrote, cut and without control characters, so that an error stays one line.
fn one_line(text: &str) -> String {
    let line = text.replace(char::is_control, " ");
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
