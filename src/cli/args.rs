//! The command line, as data.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::exit;
use super::values::{count, duration, ordinal, priority, seconds, usd};
use crate::time::{NoStart, Timestamp, parse_not_before};

/// Turns a feature into a DAG of tasks and has Claude Code work through it, unattended.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = exit::TABLE,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(super) struct Cli {
    /// Read the settings from this file instead of the project's .ralph.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The program to start as the agent instead of claude; a command line is split as in a shell
    #[arg(long, global = true, value_name = "PROGRAM")]
    pub(super) agent: Option<String>,

    #[command(subcommand)]
    pub(super) command: Command,
}

// The arguments of a command are put together when it is called: most calls are of one, and live for
// two milliseconds.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum Command {
    /// Make this directory a project
    ///
    /// Adds .ralph.toml (all settings, commented out), .ralph/ and lines in .gitignore. It can be
    /// repeated and never overwrites anything.
    Init {
        /// Add hooks to .claude/settings.local.json, so that `ralph loop` rings when Claude waits for you
        #[arg(long)]
        hooks: bool,
    },
    /// Add, show and change tasks
    #[command(subcommand, arg_required_else_help = true)]
    Task(TaskCommand),
    /// Specify, plan, build, show and delete features
    #[command(subcommand, arg_required_else_help = true)]
    Feature(FeatureCommand),
    /// Work the DAG, unattended
    ///
    /// Claims the next ready task, has a fresh Claude work on it, checks what it says it did, records it,
    /// and goes on until everything is done, a limit is reached, or you stop it. Ctrl+C lets Claude
    /// clean up, twice kills it; nothing is lost either way. A file .ralph-done (at most two directories
    /// down) ends the run after the current session.
    Run(Box<RunArgs>),
    /// Run the same prompt again and again, without a DAG
    ///
    /// Ends when Claude makes the file .ralph-complete (at most two directories down), says the
    /// completion promise in its final answer, or the iterations are used up (exit code 3).
    Loop(Box<LoopArgs>),
    /// Hold runs before their next iteration
    Pause,
    /// Let held runs go on
    Resume,
    /// One screen: progress, what is running, ready or waiting, what failed and why, and how the last run ended
    Status(Json),
    /// Draw the tasks and what waits for what
    Graph {
        /// A feature or a task (a group means everything inside it); by default everything
        target: Option<String>,
        /// How to draw it
        #[arg(long, value_enum, default_value_t = GraphFormat::Text)]
        format: GraphFormat,
    },
    /// List sessions, and replay one as it looked
    ///
    /// Without an id: the latest sessions of all tasks. With a task: its sessions. With an attempt, or a
    /// task and a number: that session, shown again.
    Logs {
        /// A task or an attempt
        id: Option<String>,
        /// Which attempt at the task
        #[arg(value_parser = ordinal, allow_negative_numbers = true)]
        number: Option<u32>,
        /// List at most N sessions, the latest ones [default: 20; all with --json or for one task]
        #[arg(short = 'n', long, value_name = "N", value_parser = count, allow_negative_numbers = true, conflicts_with_all = ["number", "raw"])]
        limit: Option<u32>,
        /// List all sessions
        #[arg(long, conflicts_with_all = ["number", "raw", "limit"])]
        all: bool,
        /// Print the raw log instead; for a task, that of its last session
        #[arg(long, requires = "id", conflicts_with = "json")]
        raw: bool,
        /// Show the session that verified it instead; for a task, that of its last session
        #[arg(long, requires = "id", conflicts_with_all = ["limit", "all", "json"])]
        verify: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Write the whole DAG to stdout, one JSON object a line, without loss
    ///
    /// What is running just now is exported as pending.
    Export,
    /// Merge an export into this project: all of it, or nothing
    ///
    /// Features and tasks are matched by id. What the file says wins; what it does not mention stays.
    Import {
        /// The file; - or nothing is stdin
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show the settings
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// Look for what is wrong and say how to fix it
    Doctor(DoctorArgs),
    /// Watch a small project go from plan to done, with a script in place of Claude
    ///
    /// Takes about 15 seconds and costs nothing: a project in a directory for temporary files is planned,
    /// built into tasks and worked on, by this program as it works with Claude.
    Demo {
        /// Keep the project, so that you can look around in it
        #[arg(long)]
        keep: bool,
    },
    /// Print a completion script for your shell
    ///
    /// For example: ralph completions bash > ~/.local/share/bash-completion/completions/ralph
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// A feature, or a task (a group means everything inside it); by default everything
    pub(super) target: Option<String>,
    /// Show the next task, model, command line and prompt, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Stop after one iteration
    #[arg(long, short_alias = 'o', conflicts_with = "max_iterations")]
    pub(super) once: bool,
    /// Stop after this many iterations; 0: no limit
    #[arg(long = "limit", visible_alias = "max-iterations", value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub(super) max_iterations: Option<u32>,
    /// Stop after this time, such as 2h30m, or this many seconds
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub(super) max_time: Option<String>,
    /// Stop when this much is spent, in USD
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    pub(super) max_cost: Option<f64>,
    /// Use this model for every task, by any name Claude knows
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// How to choose the model: fixed, cost-optimized, escalate or plan-then-execute
    #[arg(long, alias = "model-strategy", value_name = "NAME")]
    pub(super) strategy: Option<String>,
    /// Ignore the model that an agent asks for with <next-model>
    #[arg(long)]
    pub(super) model_lock: bool,
    /// How often to retry a failed task that has no limit of its own
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub(super) max_retries: Option<u32>,
    /// Do not have a second agent check what is said to be done
    #[arg(long)]
    pub(super) no_verify: bool,
    /// Do not run the [verify] commands before the first session
    #[arg(long)]
    pub(super) no_baseline: bool,
    /// Work in a tree with uncommitted changes, which an agent may commit or overwrite
    #[arg(long)]
    pub(super) allow_dirty: bool,
    /// Ask agents to write skills and to keep CLAUDE.md current
    #[arg(long)]
    pub(super) learn: bool,
    /// Do not, even if the settings say so
    #[arg(long, hide = true, conflicts_with = "learn")]
    pub(super) no_learn: bool,
    #[command(flatten)]
    pub(super) pty: PtyArgs,
    #[command(flatten)]
    pub(super) sandbox: SandboxArgs,
    /// Push new commits after each iteration, or do not
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) auto_push: Option<bool>,
    #[command(flatten)]
    pub(super) show: ShowArgs,
    /// Reset what failed in an earlier run without asking
    #[arg(short, long, conflicts_with = "no_auto_reset")]
    pub(super) yes: bool,
    /// Do not reset what failed in an earlier run: exit with 2 instead
    #[arg(long)]
    pub(super) no_auto_reset: bool,
}

#[derive(Debug, Args)]
pub(super) struct LoopArgs {
    /// How many iterations; by default 1. May be left out before a PROMPT that is not a number
    #[arg(value_name = "ITERATIONS", allow_negative_numbers = true)]
    pub(super) first: Option<String>,
    /// A file with the prompt, or the words themselves; by default prompt.md
    #[arg(value_name = "PROMPT")]
    pub(super) second: Option<String>,
    /// The words themselves, whatever they look like
    #[arg(
        short,
        long = "prompt",
        value_name = "TEXT",
        conflicts_with = "second",
        allow_hyphen_values = true
    )]
    pub(super) prompt_text: Option<String>,
    /// A plan with items (- [ ]): `{plan}` in the prompt becomes its path, and all items ticked off end the
    /// loop. Without a prompt, a built-in one has each iteration do one item
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Have Claude work alone and show what it does, instead of giving it the terminal
    #[arg(short, long)]
    pub(super) afk: bool,
    /// A name for this loop, shown with each iteration
    #[arg(long, value_name = "ID")]
    pub(super) loop_id: Option<String>,
    /// The most iterations there may be
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub(super) max_iterations: Option<u32>,
    /// Stop after this time, such as 2h30m, or this many seconds
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub(super) max_time: Option<String>,
    /// Stop when this much is spent, in USD
    #[arg(long, value_name = "USD", value_parser = usd, allow_negative_numbers = true)]
    pub(super) max_cost: Option<f64>,
    /// The model to use, by any name Claude knows; by default Claude's own choice
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// Push new commits after each iteration, or do not
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) auto_push: Option<bool>,
    /// Work in a tree with uncommitted changes, which an agent may commit or overwrite
    #[arg(long)]
    pub(super) allow_dirty: bool,
    /// A program to start in place of the agent, without arguments and with the prompt on stdin
    #[arg(long, value_name = "PROGRAM")]
    pub(super) command: Option<String>,
    /// The image for the docker sandbox
    #[arg(long, value_name = "IMAGE")]
    pub(super) template: Option<String>,
    #[command(flatten)]
    pub(super) pty: PtyArgs,
    #[command(flatten)]
    pub(super) sandbox: SandboxArgs,
    #[command(flatten)]
    pub(super) show: ShowArgs,
    // A loop has no tasks to reset: scripts pass these two to `run` and `loop` alike.
    /// Accepted as by `ralph run`
    #[arg(short, long, hide = true, conflicts_with = "no_auto_reset")]
    pub(super) yes: bool,
    /// Accepted as by `ralph run`
    #[arg(long, hide = true)]
    pub(super) no_auto_reset: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Never ask questions, and need no terminal
    #[arg(short = 'H', long)]
    pub(super) headless: bool,
    /// What to print
    #[arg(long, value_enum, default_value_t = RunFormat::Text)]
    pub(super) format: RunFormat,
    /// Put the time before each line of text
    #[arg(long)]
    pub(super) timestamps: bool,
}

#[derive(Debug, Args)]
pub(super) struct PtyArgs {
    /// Give Claude a terminal of its own, see its own screen, and type into it
    #[arg(long, conflicts_with = "no_pty")]
    pub(super) pty: bool,
    /// The same, but read-only: what you type is not passed on
    #[arg(long, conflicts_with = "no_pty")]
    pub(super) observe: bool,
    /// Do not use PTY mode, even if the settings say so
    #[arg(long)]
    pub(super) no_pty: bool,
    /// End a session in that terminal after this many seconds without output or a key press; 0: never
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) idle_timeout: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct SandboxArgs {
    /// The sandbox that sessions run in: auto, none, bwrap, landlock, seatbelt or docker
    #[arg(long, value_name = "NAME")]
    pub(super) sandbox: Option<String>,
    /// Run sessions without a sandbox, restricted only by the list of allowed tools
    #[arg(long, conflicts_with = "sandbox")]
    pub(super) no_sandbox: bool,
    /// Let sessions write here, too: a path, or `aws` (may be repeated)
    #[arg(long, value_name = "RULE")]
    pub(super) allow: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RunFormat {
    /// For people
    Text,
    /// One JSON object a line, as things happen
    Jsonl,
    /// One JSON object at the end
    Json,
}

#[derive(Debug, Args)]
pub(super) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum GraphFormat {
    /// A line for each task, with what it waits for
    Text,
    /// For Graphviz
    Dot,
    /// For Mermaid, as in Markdown
    Mermaid,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum TaskCommand {
    /// Add a task and print its id
    ///
    /// The id, and nothing else, goes to stdout: A=$(ralph task add "Set up the schema").
    #[command(after_help = ADD_HELP)]
    Add(AddArgs),
    /// Have Claude interview you about a piece of work and add it as one task
    Create(Model),
    /// Show one task with its description, attempts and log
    Show(OneTask),
    /// List tasks
    List {
        /// All of them, which is what is listed without it, too
        #[arg(long, hide = true, conflicts_with_all = ["ready", "status"])]
        all: bool,
        /// Only what can start now, in the order in which it will
        #[arg(long)]
        ready: bool,
        /// Only tasks with this status (may be repeated)
        #[arg(long, value_enum, value_name = "STATUS")]
        status: Vec<StatusFilter>,
        /// Only tasks of this feature
        #[arg(long, value_name = "NAME|ID")]
        feature: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Draw the tasks as a tree
    Tree {
        /// Only this task and what is inside it
        id: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Show the task that would be worked on next
    Next {
        /// Only of this feature
        #[arg(long, value_name = "NAME|ID")]
        feature: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Change a task
    Update(UpdateArgs),
    /// Delete a task and everything inside it
    ///
    /// Refused while something outside waits for it.
    Delete {
        /// The task
        id: String,
        #[command(flatten)]
        yes: Yes,
    },
    /// Declare a task done
    Done {
        /// The task
        id: String,
    },
    /// Declare a task failed
    Fail {
        /// The task
        id: String,
        /// Why
        #[arg(short, long)]
        reason: Option<String>,
    },
    /// Hold a task until a person has answered; for a group, hold everything inside it
    Block {
        /// The task
        id: String,
        /// The question
        #[arg(short, long, value_name = "QUESTION")]
        reason: String,
    },
    /// Put a task back to pending, with all its retries
    ///
    /// A group is released, and what failed or is blocked inside it is reset; what is done stays done.
    Reset {
        /// The task
        id: String,
    },
    /// Show the log of a task, or add a note to it
    Log {
        /// The task
        id: String,
        /// The note: text, @FILE, or - for stdin
        #[arg(short, long)]
        message: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Say what waits for what
    #[command(subcommand, arg_required_else_help = true)]
    Deps(DepsCommand),
}

const ADD_HELP: &str = "An id may be shortened to any beginning that is unique.

Examples:
  A=$(ralph task add \"Set up the schema\" -d \"Tables for users and orders\")
  G=$(ralph task add \"API\" --group)
  ralph task add \"Endpoints\" --parent $G --after $A
  ralph task add \"Long story\" -d - < story.md

With --stdin each line is an object with the same names as the options; `parent` and `after` may
also name the `key` of an earlier line:
  {\"title\": \"Schema\", \"key\": \"schema\", \"description\": \"…\"}
  {\"title\": \"Endpoints\", \"after\": [\"schema\"], \"priority\": 1}";

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// What is to be done, in one line
    #[arg(required_unless_present = "stdin")]
    pub(super) title: Option<String>,
    /// The description: text, @FILE, or - for stdin
    #[arg(short, long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// The task it is a part of, which becomes a group
    #[arg(long, value_name = "ID")]
    pub(super) parent: Option<String>,
    /// The feature it belongs to; by default its parent's
    #[arg(long, value_name = "NAME|ID")]
    pub(super) feature: Option<String>,
    /// A task it has to wait for (may be repeated)
    #[arg(long, value_name = "ID")]
    pub(super) after: Vec<String>,
    /// Lower comes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "N", value_parser = priority)]
    pub(super) priority: i32,
    /// How often it may be tried again
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = count)]
    pub(super) max_retries: Option<u32>,
    /// Do not start it before: a time (2026-11-16T08:00:00Z), a while from now (2h30m), or `none`
    #[arg(long, value_name = "TIME|none", value_parser = not_before)]
    pub(super) not_before: Option<NotBefore>,
    /// Make an empty group, to be given children
    #[arg(long)]
    pub(super) group: bool,
    /// Add nothing if there is a task with this key already, and print that one's id
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Add many tasks in one transaction, from a JSON object a line
    #[arg(long, conflicts_with_all = ["title", "description", "parent", "feature", "after", "priority", "max_retries", "not_before", "group", "key"])]
    pub(super) stdin: bool,
}

#[derive(Debug, Args)]
pub(super) struct OneTask {
    /// The task
    pub(super) id: String,
    #[command(flatten)]
    pub(super) json: Json,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(super) struct UpdateArgs {
    /// The task
    pub(super) id: String,
    /// Another title
    #[arg(long, group = "change")]
    pub(super) title: Option<String>,
    /// Another description: text, @FILE, or - for stdin
    #[arg(short, long, value_name = "TEXT", group = "change")]
    pub(super) description: Option<String>,
    /// Lower comes first
    #[arg(long, allow_negative_numbers = true, value_name = "N", group = "change", value_parser = priority)]
    pub(super) priority: Option<i32>,
    /// The task it is a part of, or `none`
    #[arg(long, value_name = "ID|none", group = "change")]
    pub(super) parent: Option<String>,
    /// How often it may be tried again, or `default` for what the settings say
    #[arg(long, allow_negative_numbers = true, value_name = "N|default", group = "change", value_parser = retries)]
    pub(super) max_retries: Option<Retries>,
    /// Do not start it before: a time (2026-11-16T08:00:00Z), a while from now (2h30m), or `none`
    #[arg(long, value_name = "TIME|none", group = "change", value_parser = not_before)]
    pub(super) not_before: Option<NotBefore>,
}

/// A time to start, or none.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotBefore(pub(super) Option<Timestamp>);

fn not_before(text: &str) -> Result<NotBefore, NoStart> {
    parse_not_before(text).map(NotBefore)
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Retries {
    Default,
    Count(u32),
}

fn retries(text: &str) -> Result<Retries, &'static str> {
    match text {
        "default" => Ok(Retries::Default),
        text => text
            .parse()
            .map(Retries::Count)
            .map_err(|_| "it must be a whole number from 0, such as 3, or `default`"),
    }
}

#[derive(Debug, Args)]
pub(super) struct Model {
    /// The model to use, by any name Claude knows; by default Claude's own choice
    #[arg(long, value_name = "MODEL")]
    pub(super) model: Option<String>,
}

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Existing {
    /// Keep the tasks that are there, and add what is missing
    #[arg(long = "continue", conflicts_with = "replace")]
    pub(super) go_on: bool,
    /// Remove the unfinished tasks first
    #[arg(long)]
    pub(super) replace: bool,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Remove old session logs, salvaged work and session directories that are no longer needed
    ///
    /// Anything younger than clean.keep_days (30) stays, as does anything of a task that is not done.
    #[arg(long)]
    pub(super) clean: bool,
    /// Do not ask
    #[arg(short, long, requires = "clean")]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

#[derive(Debug, Args)]
pub(super) struct Yes {
    /// Do not ask
    #[arg(short, long)]
    pub(super) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum StatusFilter {
    Pending,
    Ready,
    Waiting,
    InProgress,
    Blocked,
    Done,
    Failed,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum DepsCommand {
    /// Make BLOCKED wait until BLOCKER is done
    ///
    /// A dependency of a group holds back everything inside it. What would close a loop is refused.
    Add {
        /// What has to be done first
        blocker: String,
        /// What has to wait
        blocked: String,
    },
    /// Make BLOCKED no longer wait for BLOCKER
    Rm {
        /// What it waited for
        blocker: String,
        /// What waited
        blocked: String,
    },
    /// Show what a task waits for and what waits for it
    List(OneTask),
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum FeatureCommand {
    /// Have Claude interview you about a feature and write its spec
    ///
    /// Leave whenever you like: called again, it goes on from the draft.
    Spec {
        /// Its name; a new one makes a new feature
        name: String,
        #[command(flatten)]
        model: Model,
    },
    /// Have Claude plan a feature with you, from its spec
    ///
    /// Leave whenever you like: called again, it goes on from the draft.
    Plan {
        /// Its name or id
        name: String,
        #[command(flatten)]
        model: Model,
    },
    /// Have Claude turn the plan of a feature into tasks
    ///
    /// Claude works alone and calls ralph itself. If there are tasks already, you are asked what to do.
    Build {
        /// Its name or id
        name: String,
        #[command(flatten)]
        existing: Existing,
        #[command(flatten)]
        model: Model,
    },
    /// List the features
    List(Json),
    /// Show one feature with its tasks
    Show {
        /// Its name or id
        name: String,
        #[command(flatten)]
        json: Json,
    },
    /// Delete a feature, its tasks and its files
    ///
    /// Refused while a task outside waits for one of its tasks.
    Delete {
        /// Its name or id
        name: String,
        /// Keep spec.md and plan.md
        #[arg(long)]
        keep_files: bool,
        #[command(flatten)]
        yes: Yes,
    },
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum ConfigCommand {
    /// Print every setting, its value and where it came from
    Show(Json),
}
