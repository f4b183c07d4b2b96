//! The table of keys: what each is called, what it takes and what it is when nobody says.

use toml::Value;

use super::{Backend, Baseline, Network, Strategy, duration::duration_of};
use Kind::{Bool, Duration, List, OneOf, Text, Usd, Whole};

/// Every key, in the order of `.ralph.toml.example`.
pub(super) static KEYS: &[Key] = &[
    key("pty_mode", Bool, "false"),
    key("pty_interactive", Bool, "true"),
    key("idle_timeout_secs", Whole(0), "30"),
    key("prompt_file", Text, "prompt.md"),
    key("completion_promise", Text, "LOOP_COMPLETE"),
    key("max_retries", Whole(0), "3"),
    key("learn", Bool, "false"),
    key("auto_push", Bool, "false"),
    key("git_stats", Bool, "true"),
    unset("log_dir", Text),
    key("agent.command", Text, "claude"),
    key("agent.background_tasks", Bool, "false"),
    key(
        "agent.allowed_tools",
        List,
        "Bash,Read,Edit,Write,Glob,Grep,NotebookEdit,TodoWrite,Task,WebFetch,WebSearch",
    ),
    key("agent.mcp", Text, "project"),
    key("agent.silence_timeout_secs", Whole(0), "1800"),
    key("agent.exit_grace_secs", Whole(0), "10"),
    key("run.strategy", OneOf(Strategy::NAMES), "cost-optimized").alias("RALPH_MODEL_STRATEGY"),
    unset("run.model", Text).alias(MODEL),
    key("run.hints", Bool, "true"),
    unset("run.max_iterations", Whole(0)).alias("RALPH_LIMIT"),
    unset("run.max_time", Duration),
    unset("run.max_cost", Usd),
    key("run.allow_dirty", Bool, "false"),
    key("verify.agent", Bool, "true").alias("RALPH_VERIFY"),
    key("verify.commands", List, ""),
    key("verify.timeout_secs", Whole(0), "600"),
    key("verify.baseline", OneOf(Baseline::NAMES), "green"),
    key("sandbox.backend", OneOf(Backend::NAMES), "auto"),
    key("sandbox.network", OneOf(Network::NAMES), "open"),
    key("sandbox.allow", List, ""),
    key("sandbox.deny_read", List, ""),
    key("sandbox.template", Text, "ralph-sandbox:latest").alias("RALPH_TEMPLATE"),
    unset("notify.command", Text),
    unset("loop.command", Text).alias("RALPH_COMMAND"),
    key("loop.max_iterations", Whole(1), "100").alias("RALPH_MAX_ITERATIONS"),
    key("loop.pause_secs", Whole(0), "2"),
    key("clean.keep_days", Whole(1), "30"),
];

/// Sets `run.model`. Sessions have it as well: there it says which model works, and sets nothing.
const MODEL: &str = "RALPH_MODEL";

/// What can be set, by its dotted name.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    alias: Option<&'static str>,
    /// Written as in an environment variable; `None` leaves the key unset.
    default: Option<&'static str>,
}

const fn key(name: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { name, kind, alias: None, default: Some(default) }
}

const fn unset(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, alias: None, default: None }
}

impl Key {
    const fn alias(self, variable: &'static str) -> Self {
        Self { alias: Some(variable), ..self }
    }

    pub(super) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    pub(super) fn default(&self) -> Option<Value> {
        self.default.map(|text| self.kind.parse(text))
    }

    /// The environment variables that set this key, inside a session or outside; a later one wins.
    pub(super) fn variables(&self, in_session: bool) -> impl Iterator<Item = String> {
        let own = format!("RALPH_{}", self.name.replace('.', "_").to_ascii_uppercase());
        let alias = self.alias.filter(|&alias| !(in_session && alias == MODEL));
        alias.map(String::from).into_iter().chain([own])
    }
}

/// What a key takes.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Bool,
    /// A number of at least this many.
    Whole(u32),
    Usd,
    Duration,
    Text,
    List,
    OneOf(&'static [&'static str]),
}

impl Kind {
    /// Reads an environment variable. What makes no sense stays text, for `accepts` to refuse.
    pub(super) fn parse(self, text: &str) -> Value {
        let meant = match self {
            Bool => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(true.into()),
                "false" | "0" | "no" | "off" => Some(false.into()),
                _ => None,
            },
            Whole(_) => text.trim().parse().ok().map(Value::Integer),
            Usd => text.trim().parse().ok().map(Value::Float),
            List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Some(Value::Array(items.map(Value::from).collect()))
            }
            Duration | Text | OneOf(_) => None,
        };
        meant.unwrap_or_else(|| text.into())
    }

    pub(super) fn accepts(self, value: &Value) -> bool {
        match self {
            Bool => value.is_bool(),
            Whole(least) => value
                .as_integer()
                .and_then(|number| u32::try_from(number).ok())
                .is_some_and(|number| number >= least),
            Usd => value
                .as_float()
                .or(value.as_integer().map(|dollars| dollars as f64))
                .is_some_and(|dollars| dollars > 0.0 && dollars.is_finite()),
            Duration => duration_of(value).is_some(),
            Text => value.as_str().is_some_and(|text| !text.trim().is_empty()),
            List => value.as_array().is_some_and(|items| items.iter().all(|i| Text.accepts(i))),
            OneOf(names) => value.as_str().is_some_and(|text| names.contains(&text)),
        }
    }

    /// What is accepted, as it follows "must be".
    pub(super) fn expected(self) -> String {
        match self {
            Bool => "`true` or `false`".into(),
            Whole(least) => format!("a whole number from {least} to {}", u32::MAX),
            Usd => "an amount in USD above 0".into(),
            Duration => "a duration such as `2h30m`, or a number of seconds".into(),
            Text => "a non-empty string".into(),
            List => "a list of non-empty strings".into(),
            OneOf(names) => format!("one of `{}`", names.join("`, `")),
        }
    }
}
