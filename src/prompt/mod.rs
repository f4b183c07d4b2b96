//! What agents are told: templates in, text out. Where tasks are kept is not known here.

pub mod context;
pub mod document;
mod template;

pub use template::{Prompt, Values};
