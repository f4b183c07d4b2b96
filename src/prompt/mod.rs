//! What agents are told: templates in, text out. Where tasks are kept is not known here.

pub mod brief;
pub mod common;
pub mod context;
pub mod document;
pub mod near_miss;
pub mod review;
pub mod room;
pub mod sigils;
pub mod skills;
mod template;
#[cfg(test)]
mod testing;

pub use template::{Prompt, Values};
