//! What a task is, which states it has, and who may change them how.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::id::{AttemptId, FeatureId, TaskId};
use crate::time::Timestamp;

/// Gives an enum its one written name for each variant, in columns, JSON and messages alike.
macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every variant, in order.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];

            /// The one written name.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }

            /// The variant with this name.
            pub fn from_name(name: &str) -> Option<$type> {
                match name { $($name => Some($type::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<str>::deserialize(deserializer)?;
                $type::from_name(&name)
                    .ok_or_else(|| serde::de::Error::unknown_variant(&name, &[$($name),+]))
            }
        }
    };
}
pub(crate) use names;

/// Whether an agent can do the task or it only holds others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An agent can do it.
    Work,
    /// It has children, and its state follows from theirs.
    Group,
}

names!(Kind { Work => "work", Group => "group" });

/// What we were told about a task and stored. A group is only ever pending or blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Nobody has finished it.
    Pending,
    /// A person must answer or release it.
    Blocked,
    /// It is done.
    Done,
    /// It failed for good.
    Failed,
}

names!(Status { Pending => "pending", Blocked => "blocked", Done => "done", Failed => "failed" });

/// What follows from the graph for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A pending work task that may start now.
    Ready,
    /// Pending, and not to be started now. A group that has not started is waiting, too.
    Waiting,
    /// An attempt is under way; or, for a group, something inside has started.
    InProgress,
    /// A person must answer or release it.
    Blocked,
    /// It is done.
    Done,
    /// It failed; or, for a group, a child did and no other can still run.
    Failed,
}

names!(State {
    Ready => "ready",
    Waiting => "waiting",
    InProgress => "in_progress",
    Blocked => "blocked",
    Done => "done",
    Failed => "failed",
});

impl State {
    /// The word a user sees for it: ready and waiting are both pending.
    pub fn status(self) -> &'static str {
        match self {
            State::Ready | State::Waiting => "pending",
            State::InProgress | State::Blocked | State::Done | State::Failed => self.name(),
        }
    }
}

/// The facts of a task. The names of its fields are those of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// The key under which it was added.
    pub key: Option<String>,
    /// Work or group.
    pub kind: Kind,
    /// The group it is in.
    pub parent: Option<TaskId>,
    /// The feature it belongs to.
    pub feature: Option<FeatureId>,
    /// One line.
    pub title: String,
    /// As many as needed.
    pub description: String,
    /// Lower first.
    pub priority: i32,
    /// Its status; for a group only whether a person holds it.
    pub status: Option<Status>,
    /// Why it failed, or what it is blocked on.
    pub reason: Option<String>,
    /// Retries used since the last reset.
    pub retries: u32,
    /// Retries allowed, where the task says so itself.
    pub max_retries: Option<u32>,
    /// It is not to be started before.
    pub not_before: Option<Timestamp>,
    /// The attempt whose agent made it; none for a person.
    pub created_by: Option<AttemptId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// What a log entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEvent {
    /// Somebody noted something.
    Note,
    /// The task was declared done.
    Done,
    /// The task was declared failed, or an attempt failed.
    Failed,
    /// Somebody asked a question.
    Blocked,
    /// The task was put back.
    Reset,
    /// The process that worked on it was gone.
    Crashed,
}

names!(LogEvent {
    Note => "note",
    Done => "done",
    Failed => "failed",
    Blocked => "blocked",
    Reset => "reset",
    Crashed => "crashed",
});

/// One entry in the log of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When; no two entries of a task share it.
    pub at: Timestamp,
    /// What about.
    pub event: LogEvent,
    /// The attempt whose agent wrote it; none for a person.
    pub author: Option<AttemptId>,
    /// The words.
    pub message: String,
}

/// What a person can do to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Declare it done.
    Done,
    /// Declare it failed.
    Fail,
    /// Hold it until a question is answered.
    Block,
    /// Put it back to pending, with all its retries.
    Reset,
}

/// Why a verb does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The state of a group follows from its children.
    GroupIsDerived,
    /// A finished task can't be held.
    AlreadyFinished(Status),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::GroupIsDerived => {
                write!(f, "it is a group: its status follows from its children")
            }
            Refusal::AlreadyFinished(status) => write!(f, "it is already {status}"),
        }
    }
}

impl Verb {
    /// The status a task has after it, or why it may not be.
    pub fn apply(self, kind: Kind, from: Status) -> Result<Status, Refusal> {
        match (self, kind) {
            (Verb::Done | Verb::Fail, Kind::Group) => Err(Refusal::GroupIsDerived),
            (Verb::Done, Kind::Work) => Ok(Status::Done),
            (Verb::Fail, Kind::Work) => Ok(Status::Failed),
            (Verb::Reset, _) => Ok(Status::Pending),
            (Verb::Block, _) => match from {
                Status::Pending | Status::Blocked => Ok(Status::Blocked),
                Status::Done | Status::Failed => Err(Refusal::AlreadyFinished(from)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_may_decide_from_any_state_but_not_hold_what_is_finished() {
        for &from in Status::ALL {
            assert_eq!(Verb::Done.apply(Kind::Work, from), Ok(Status::Done));
            assert_eq!(Verb::Fail.apply(Kind::Work, from), Ok(Status::Failed));
            assert_eq!(Verb::Reset.apply(Kind::Work, from), Ok(Status::Pending));
            let held = match from {
                Status::Pending | Status::Blocked => Ok(Status::Blocked),
                Status::Done | Status::Failed => Err(Refusal::AlreadyFinished(from)),
            };
            assert_eq!(Verb::Block.apply(Kind::Work, from), held);
        }
    }

    #[test]
    fn a_group_can_be_held_and_released_but_not_finished() {
        for from in [Status::Pending, Status::Blocked] {
            assert_eq!(Verb::Done.apply(Kind::Group, from), Err(Refusal::GroupIsDerived));
            assert_eq!(Verb::Fail.apply(Kind::Group, from), Err(Refusal::GroupIsDerived));
            assert_eq!(Verb::Block.apply(Kind::Group, from), Ok(Status::Blocked));
            assert_eq!(Verb::Reset.apply(Kind::Group, from), Ok(Status::Pending));
        }
    }

    #[test]
    fn every_name_reads_back() {
        for &state in State::ALL {
            assert_eq!(State::from_name(state.name()), Some(state));
        }
        assert_eq!(State::from_name("nonsense"), None);
    }
}
