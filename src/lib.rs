//! `ralph`: a task DAG in SQLite that drives Claude Code.

pub mod dag;
