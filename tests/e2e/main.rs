//! The real Claude Code, driven by the real program, against a stand-in for its API on loopback. Where
//! it can't be installed nothing is tried, and that is said aloud.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test, what can't be unwrapped is a failure")]

mod api;
mod bill;
mod build;
#[path = "../it/harness.rs"]
#[expect(dead_code, reason = "the tests with a scripted agent use the rest of it")]
mod harness;
mod install;
mod interrupts;
mod order;
mod outages;
mod prompts;
mod refusals;
mod rig;
mod run;
mod sandbox;
mod shown;
mod surroundings;
#[path = "../it/terminal.rs"]
#[expect(dead_code, reason = "the tests with a scripted agent use the rest of it")]
mod terminal;
mod versions;
