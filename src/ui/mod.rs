//! What listing commands show: pure functions from data to text. They never overflow the terminal, make sense without colour, and let nothing through that a task's author could use to
//! deceive. `out` is written to once a line, so it should be buffered.

pub mod chapter;
pub mod features;
mod flow;
pub mod graph;
pub mod json;
mod line;
pub mod list;
mod mark;
mod price;
mod progress;
mod prose;
pub mod records;
pub mod remarks;
pub mod run;
pub mod session;
pub mod sessions;
pub mod show;
mod stamps;
pub mod status;
mod status_line;
mod summary;
mod table;
mod terminal;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod text;
pub mod tool;
pub mod tree;
mod when;

pub use mark::{Mark, mark};
pub use prose::{labelled, prose};
pub use terminal::Terminal;
pub use when::{ago, lasted};
