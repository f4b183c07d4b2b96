//! `ralph`: a task DAG in SQLite that drives Claude Code.

pub mod dag;
pub mod hint;
pub mod jsonl;
pub mod process;
pub mod settings;
pub mod store;
pub mod time;
pub mod ui;
