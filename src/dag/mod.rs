//! The rules of the task graph as pure code: what a task is, which may run next, what would
//! deadlock. It has never heard of clocks, databases, processes or terminals.

mod attempt;
mod bill;
mod feature;
mod graph;
mod id;
mod order;
mod reason;
mod session;
mod snapshot;
mod task;

pub use attempt::{Ask, Attempt, Outcome, Verification};
pub use bill::{Bill, Billing, Tokens};
pub use feature::{Feature, FeatureStatus, check_feature_name};
pub use graph::{Cycle, Derived, Graph, Link, Moment, Node};
pub use id::{AttemptId, FeatureId, Id, ParseIdError, RunId, SessionId, TaskId};
pub use order::{Labels, Span};
pub use reason::{BadEnd, ReasonKind, failed_command, failed_session, one_line};
pub use session::{Costs, SessionEntry, SessionKind};
pub use snapshot::{Snapshot, Summary};
pub use task::{Kind, LogEntry, LogEvent, Refusal, State, Status, Task, Verb};
