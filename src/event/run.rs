//! What happens in a run, as data. Its JSON is what `--format jsonl` prints: fields are added, never
//! taken away.

use std::io;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{AgentEvent, Speaker};
use crate::dag::{AttemptId, Bill, Outcome, RunId, Status, TaskId};
use crate::time::Timestamp;

/// Something that happened in a run.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The run begins.
    Start(Start<'a>),
    /// An iteration begins: a task was claimed and a session is about to start.
    IterationStart(IterationStart<'a>),
    /// The agent said something.
    Text(Said<'a>),
    /// The agent thought something.
    Reasoning(Said<'a>),
    /// The agent calls a tool.
    Tool(ToolUse<'a>),
    /// A tool has failed.
    ToolError(ToolFailure<'a>),
    /// An iteration has ended and is recorded.
    IterationEnd(IterationEnd<'a>),
    /// Something that is said to be done is checked, or a check is tried before anything is done.
    Verify(Verify<'a>),
    /// How far the work is.
    Progress(Progress),
    /// What an iteration did to the repository.
    Stats(Stats<'a>),
    /// The run waits because the API asks it to.
    LimitWait(LimitWait<'a>),
    /// A person holds the run.
    Pause,
    /// The run goes on.
    Resume,
    /// Nothing can be claimed now, but that will change.
    Idle(Idle<'a>),
    /// Something went wrong, and the run goes on unless this is fatal.
    Error(Problem<'a>),
    /// The run has ended.
    Complete(&'a Summary),
}

/// How a run begins.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Start<'a> {
    pub version: &'a str,
    pub project: &'a str,
    pub command: RunCommand,
    pub target: Option<&'a str>,
    pub mode: Mode,
    pub plan: Option<&'a str>,
    pub loop_id: Option<&'a str>,
    pub done: u32,
    pub total: u32,
    pub max_iterations: Option<u32>,
    pub max_seconds: Option<u64>,
    pub max_cost_usd: Option<f64>,
    pub sandbox: &'a str,
}

/// Which command it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCommand {
    /// `ralph run`, which works the DAG.
    Run,
    /// `ralph loop`, which repeats a prompt.
    Loop,
}

/// How sessions are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The agent works alone, and what it does is shown as text.
    Afk,
    /// The agent has the person's own terminal.
    Terminal,
    /// The agent has a terminal of its own, into which the person can type.
    Pty,
    /// The agent has a terminal of its own, which the person only sees.
    Observe,
}

impl Mode {
    /// It in a word.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Afk => "afk",
            Mode::Terminal => "terminal",
            Mode::Pty => "pty",
            Mode::Observe => "observe",
        }
    }
}

/// How an iteration begins.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct IterationStart<'a> {
    pub iteration: u32,
    pub task: Option<TaskId>,
    pub title: &'a str,
    pub attempt: u32,
    pub attempt_id: Option<AttemptId>,
    pub model: &'a str,
    pub hinted: bool,
    pub done: u32,
    pub total: u32,
    pub elapsed_secs: f64,
    pub cost_usd: f64,
    pub log: &'a str,
}

/// Words of an agent.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Said<'a> {
    pub iteration: u32,
    pub from: Speaker,
    pub verifying: bool,
    pub text: &'a str,
}

/// A call of a tool.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct ToolUse<'a> {
    pub iteration: u32,
    pub from: Speaker,
    pub verifying: bool,
    pub name: &'a str,
    pub input: Option<&'a RawValue>,
}

/// A tool that failed.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct ToolFailure<'a> {
    pub iteration: u32,
    pub from: Speaker,
    pub verifying: bool,
    pub error: &'a str,
}

/// How an iteration ended.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct IterationEnd<'a> {
    pub iteration: u32,
    pub task: Option<TaskId>,
    pub attempt_id: Option<AttemptId>,
    pub outcome: Outcome,
    pub reason: Option<&'a str>,
    pub status: Option<Status>,
    pub model: &'a str,
    pub duration_secs: f64,
    #[serde(flatten)]
    pub bill: Bill,
    pub turns: u32,
    pub log: &'a str,
}

/// A step of a verification.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Verify<'a> {
    pub iteration: u32,
    pub task: Option<TaskId>,
    pub by: Verifier<'a>,
    pub status: VerifyStatus,
    pub reason: Option<&'a str>,
    pub log: Option<&'a str>,
}

/// Who verifies.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verifier<'a> {
    /// This command of the settings.
    Command(&'a str),
    /// A second agent.
    Agent,
}

/// How a verification stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyStatus {
    /// It begins.
    Started,
    /// The work is what it should be.
    Passed,
    /// It is not, or nobody can tell.
    Failed,
}

/// How far the work is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Progress {
    pub total: u32,
    pub done: u32,
    pub failed: u32,
    pub blocked: u32,
    pub in_progress: u32,
}

/// What an iteration did to the repository.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Stats<'a> {
    pub iteration: u32,
    pub head: Option<&'a str>,
    #[serde(flatten)]
    pub diff: Diff,
    pub salvage: Option<&'a str>,
    pub salvaged: Option<Left>,
    pub pushed: bool,
}

/// What an attempt left behind that is not on the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Changes that are not committed.
    Changes,
    /// Commits.
    Commits,
    /// Both.
    Both,
}

impl Left {
    /// These, and uncommitted changes as well.
    #[must_use]
    pub fn with_changes(self) -> Left {
        match self {
            Left::Changes => Left::Changes,
            Left::Commits | Left::Both => Left::Both,
        }
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Left::Changes => "uncommitted changes",
            Left::Commits => "commits that are not on the branch",
            Left::Both => "uncommitted changes and commits that are not on the branch",
        })
    }
}

/// Commits and what they changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Diff {
    pub commits: u32,
    pub files: u32,
    pub insertions: u32,
    pub deletions: u32,
}

/// A wait that the API asks for.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct LimitWait<'a> {
    pub reason: &'a str,
    pub until: Timestamp,
    pub seconds: u64,
}

/// A wait for others.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Idle<'a> {
    pub reason: &'a str,
    pub until: Option<Timestamp>,
}

/// Something that went wrong.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Problem<'a> {
    pub message: &'a str,
    pub fatal: bool,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct Summary {
    pub outcome: &'static str,
    pub exit_code: u8,
    pub message: String,
    pub next: Option<String>,
    pub tasks: Progress,
    pub iterations: u32,
    pub results: Vec<TaskResult>,
    #[serde(flatten)]
    pub diff: Diff,
    #[serde(flatten)]
    pub bill: Bill,
    pub duration_secs: f64,
}

/// What came of one task in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are documented in docs/events.md")]
pub struct TaskResult {
    pub task: TaskId,
    pub title: String,
    pub attempts: u32,
    pub outcome: Outcome,
    pub status: Status,
    pub reason: Option<String>,
    #[serde(flatten)]
    pub bill: Bill,
    pub duration_secs: f64,
}

/// An event with when and where it happened: a line of JSON.
#[derive(Debug, Serialize)]
pub struct Stamped<'a> {
    /// When.
    pub ts: Timestamp,
    /// In which run; none if it ended before it had begun.
    pub run: Option<RunId>,
    /// What.
    #[serde(flatten)]
    pub event: &'a Event<'a>,
}

/// What a run is doing just now, for a view that shows it all the time.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// An agent works on a task.
    Working,
    /// What was done is checked.
    Verifying,
    /// The API asks to wait.
    Waiting {
        /// Until then.
        until: Timestamp,
    },
    /// A person holds the run.
    Paused,
    /// There is nothing to claim just now.
    Idle,
    /// A loop waits between two iterations.
    Between {
        /// The next one begins then.
        until: Timestamp,
    },
}

/// Is told what happens in a run. An error means that it can't be written any more.
pub trait View {
    /// Something happened.
    fn event(&mut self, event: &Stamped<'_>) -> io::Result<()>;

    /// The agent did something, told as it happens: pieces of text, signs of life.
    fn live(&mut self, _event: &AgentEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// That is all for the moment; the time goes on.
    fn tick(&mut self, _now: Timestamp, _activity: &Activity) -> io::Result<()> {
        Ok(())
    }

    /// `program` was interrupted, and has all the time it needs to clean up.
    fn interrupted(&mut self, _program: &str) -> io::Result<()> {
        Ok(())
    }
}
