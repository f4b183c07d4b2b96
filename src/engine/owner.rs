//! Whose session it is: what is kept of a session has the name of its attempt, or in a loop its own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dag::{AttemptId, ParseIdError, SessionId};

/// Whose session it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Owner {
    /// An attempt at a task.
    Attempt(AttemptId),
    /// A loop, whose sessions belong to no task.
    Loop(SessionId),
}

impl Owner {
    /// The last part of the names of its references.
    pub(super) fn name(self) -> String {
        match self {
            Owner::Attempt(id) => id.to_string(),
            Owner::Loop(id) => id.to_string(),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Attempt(id) => write!(f, "attempt {id}"),
            Owner::Loop(id) => write!(f, "session {id}"),
        }
    }
}

impl From<AttemptId> for Owner {
    fn from(id: AttemptId) -> Owner {
        Owner::Attempt(id)
    }
}

impl FromStr for Owner {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Owner, ParseIdError> {
        text.parse().map(Owner::Attempt).or_else(|_| text.parse().map(Owner::Loop))
    }
}
