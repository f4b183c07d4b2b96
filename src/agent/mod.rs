//! Starts a child, turns its lines into events, ends it and all its descendants. It has never heard of
//! tasks, SQLite or the screen.

use std::ffi::OsString;
use std::process::ExitCode;

mod account;
mod claude;
mod converse;
mod descendants;
mod descriptors;
mod dialog;
#[cfg(feature = "test-programs")]
#[doc(hidden)]
pub mod drill;
mod expand;
mod facts;
mod foreground;
mod hook;
mod keyboard;
mod keys;
mod lines;
pub mod log;
mod mcp;
mod mirror;
mod opening;
mod prices;
mod process;
mod program;
mod pty;
mod question;
mod recall;
pub mod sandbox;
mod scratch;
mod screen;
mod settings;
mod stage;
mod story;
mod stream;
mod supervisor;
mod terminal;
mod transcript;
mod trouble;
mod version;
mod watch;
mod wire;

pub use claude::{
    ATTEMPT_VARIABLE, AttemptContext, Invocation, Permission, Session, Stdin, session_path,
    usual_billing,
};
pub use converse::{Input, Listener, Mailbox, Report, converse, converse_in_text, execute};
pub use descendants::end_marked;
pub use expand::defused;
pub use facts::{Exit, Facts, Observer};
pub use foreground::{HandedBack, hand_over};
pub use hook::Hooks;
pub use lines::Lines;
pub use mcp::{ClaudeHome, ServerFlags, Servers};
pub use mirror::NoTerminal;
pub use opening::{open_in_pty, open_piped, open_with};
pub use process::{ProgramNotFound, find_program};
pub use program::Program;
pub use pty::{PtyOptions, converse_in_pty};
pub use recall::facts_in_log;
pub use scratch::{Abandoned, Scratch};
pub use stream::Parser;
pub use terminal::{is_in_background, is_in_foreground, leave_raw_mode};
pub use transcript::{bill_of_session, new_session_name};
pub use trouble::Trouble;
pub use version::Version;
pub use watch::{EndedBy, Limits, Request};

/// What this program does when another ralph has started it, to stand between ralph and an agent.
pub fn backstage(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let role = arguments.next()?;
    match role.to_str()? {
        supervisor::SUPERVISE => Some(supervisor::supervise(arguments)),
        foreground::ATTEND => Some(foreground::attend(arguments)),
        #[cfg(target_os = "linux")]
        sandbox::CONFINE => Some(sandbox::confine(arguments)),
        supervisor::HEED => Some(supervisor::heed(arguments)),
        stage::STAGE => Some(stage::direct(arguments)),
        hook::HOOK => Some(hook::pass_on(arguments)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
