//! One session of an agent, and what it has cost.

use serde::{Deserialize, Serialize};

use super::bill::{Billing, Tokens};
use super::id::{AttemptId, FeatureId, RunId, SessionId, TaskId};
use super::task::names;
use crate::money;
use crate::time::Timestamp;

/// One session that has ended. The names of its fields are those of an export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "the fields are the columns of the table, which says what they are"
)]
pub struct SessionEntry {
    pub id: SessionId,
    pub kind: SessionKind,
    pub attempt: Option<AttemptId>,
    pub task: Option<TaskId>,
    pub feature: Option<FeatureId>,
    pub run: Option<RunId>,
    pub model: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub cost_usd: f64,
    pub input_tokens: Option<i64>,
    pub cache_read_tokens: Option<i64>,
    pub cache_write_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub billing: Option<Billing>,
    pub log_path: Option<String>,
    pub session_id: Option<String>,
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// Work on a task.
    Work,
    /// A second look at work.
    Verify,
    /// Making the tasks of a feature.
    Build,
    /// Talking with a person about a feature or a task.
    Interview,
    /// An iteration of `ralph loop`.
    Loop,
}

names!(SessionKind {
    Work => "work",
    Verify => "verify",
    Build => "build",
    Interview => "interview",
    Loop => "loop",
});

/// What sessions have cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    /// By what they were for.
    pub kinds: Vec<(SessionKind, f64)>,
    /// What was paid for by use, as far as is known.
    pub charged: f64,
    /// What the API would have charged for what a subscription paid.
    pub covered: f64,
    /// How all of it is paid for; none if that is not known, or not the same for all sessions.
    pub billing: Option<Billing>,
}

impl Costs {
    /// What all of it costs at API prices.
    pub fn total(&self) -> f64 {
        money::rounded(self.charged + self.covered)
    }
}

impl Tokens {
    /// The tokens as four columns: input, cache read, cache write, output.
    pub fn columns(self) -> [i64; 4] {
        let column = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        [self.input, self.cache_read, self.cache_write, self.output].map(column)
    }
}
