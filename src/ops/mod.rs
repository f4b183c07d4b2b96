//! What a person or an agent can ask of the task graph: one operation for each command, with its rules and its
//! answer. It has never heard of flags, colours or sockets.

mod caller;
mod change;
mod look;

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::store::Store;
use crate::time::Timestamp;

pub use caller::{Agent, Caller, Role};
pub use change::{
    AddDependency, AddTasks, Decide, Decided, DeleteTask, Note, PlanDeletion, RemoveDependency,
    UpdateTask,
};
pub use look::{
    ListTasks, Next, NextTask, Nothing, ReadTasks, Selection, ShowTask, Shown, TaskLog, TaskTree,
};

/// Something that can be asked for.
pub trait Operation: Into<Request> {
    /// What it comes to.
    type Answer: Serialize + DeserializeOwned;

    /// Does it, if the caller may.
    fn perform(
        self,
        store: &mut Store,
        caller: &mut Caller,
        now: Timestamp,
    ) -> Result<Self::Answer>;
}

/// One type for all operations, for a caller in another process.
macro_rules! requests {
    ($($operation:ident),+ $(,)?) => {
        /// An operation, whichever it is.
        #[derive(Debug, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each is described where it is defined")]
        pub enum Request {
            $($operation($operation)),+
        }

        $(impl From<$operation> for Request {
            fn from(operation: $operation) -> Request {
                Request::$operation(operation)
            }
        })+

        impl Request {
            /// Does it, if the caller may; the answer is that of the operation, as JSON.
            pub fn perform(
                self,
                store: &mut Store,
                caller: &mut Caller,
                now: Timestamp,
            ) -> Result<Box<RawValue>> {
                match self {
                    $(Request::$operation(operation) => {
                        Ok(to_raw_value(&operation.perform(store, caller, now)?)?)
                    })+
                }
            }
        }
    };
}

requests!(
    AddDependency,
    AddTasks,
    Decide,
    DeleteTask,
    ListTasks,
    NextTask,
    Note,
    PlanDeletion,
    ReadTasks,
    RemoveDependency,
    ShowTask,
    TaskLog,
    TaskTree,
    UpdateTask,
);

#[cfg(test)]
mod tests;
