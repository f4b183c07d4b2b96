//! Starts a child, turns its lines into events, ends it and all its descendants. It has never heard of
//! tasks, SQLite or the screen.

use std::ffi::OsString;
use std::process::ExitCode;

mod claude;
mod converse;
mod descendants;
mod facts;
mod foreground;
mod keys;
mod lines;
pub mod log;
mod process;
mod scratch;
mod screen;
mod stream;
mod supervisor;
mod terminal;
mod watch;
mod wire;

pub use claude::{ATTEMPT_VARIABLE, AttemptContext, Invocation, Permission, Session, session_path};
pub use converse::{Input, Listener, Mailbox, Report, converse};
pub use descendants::end_marked;
pub use facts::{Exit, Facts, Observer, Trouble};
pub use foreground::{HandedBack, hand_over};
pub use lines::Lines;
pub use process::{ProgramNotFound, find_program};
pub use scratch::Scratch;
pub use stream::Parser;
pub use watch::{EndedBy, Limits, Request};

/// What this program does when another ralph has started it, to stand between ralph and an agent.
pub fn backstage(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let role = arguments.next()?;
    match role.to_str()? {
        supervisor::SUPERVISE => Some(supervisor::supervise(arguments)),
        foreground::ATTEND => Some(foreground::attend(arguments)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
