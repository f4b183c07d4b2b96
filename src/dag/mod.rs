//! The rules of the task graph as pure code: what a task is, which may run next, what would
//! deadlock. It has never heard of clocks, databases, processes or terminals.

mod attempt;
mod graph;
mod id;
mod order;
mod task;

pub use attempt::Outcome;
pub use graph::{Cycle, Derived, Graph, Link, Moment, Node};
pub use id::{AttemptId, FeatureId, Id, ParseIdError, RunId, TaskId};
pub use order::{Labels, Span};
pub use task::{FeatureStatus, Kind, Refusal, State, Status, Verb};
