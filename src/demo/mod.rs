//! What `ralph demo` needs besides ralph: a small project, and a script that plays the agent in it.

mod agent;
mod story;
mod stream;

pub use agent::{AGENT, play};
pub use story::{FEATURE, FILES, PLAN, SPEC};
