//! Starts a child, turns its lines into events, ends it and all its descendants. It has never heard of
//! tasks, SQLite or the screen.

mod claude;
mod converse;
mod facts;
mod lines;
pub mod log;
mod process;
mod stream;
mod supervisor;
mod watch;
mod wire;

pub use claude::{ATTEMPT_VARIABLE, AttemptContext, Invocation, Permission, Session, session_path};
pub use converse::{Input, Listener, Mailbox, Report, converse};
pub use facts::{Exit, Facts, Observer, Trouble};
pub use lines::Lines;
pub use process::{ProgramNotFound, find_program};
pub use stream::Parser;
pub use supervisor::{SUPERVISE, end_marked, supervise};
pub use watch::{EndedBy, Limits, Request};

#[cfg(test)]
mod tests;
