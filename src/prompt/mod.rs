//! What agents are told: templates in, text out. Where tasks are kept is not known here.

pub mod brief;
pub mod context;
pub mod document;
pub mod sigils;
pub mod skills;
mod template;

pub use template::{Prompt, Values};
