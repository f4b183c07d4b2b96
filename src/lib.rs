//! `ralph`: a task DAG in SQLite that drives Claude Code.

pub mod agent;
pub mod broker;
pub mod cli;
pub mod dag;
pub mod demo;
pub mod engine;
pub mod event;
mod hash;
pub mod hint;
pub mod jsonl;
mod lenient;
mod money;
pub mod ops;
pub mod process;
pub mod project;
pub mod prompt;
pub mod settings;
mod socket;
pub mod store;
pub mod time;
pub mod ui;
