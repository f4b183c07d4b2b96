//! The whole program, from outside: real processes on real databases.
#![expect(clippy::unwrap_used, reason = "in a test, what can't be unwrapped is a failure")]

mod bill;
mod boundary;
mod build;
mod claims;
mod clean;
mod crash;
mod crowd;
mod demo;
mod docs;
mod doctor;
mod exchange;
mod faults;
mod guards;
mod harness;
mod interrupts;
mod interview;
mod jobs;
mod killed;
mod limits;
mod logs;
mod multiplexer;
mod order;
mod output;
mod plain_loop;
mod prompts;
mod pty;
mod random;
mod refusals;
mod render;
mod run;
mod runs;
mod salvage;
mod sandbox;
mod session;
mod settings;
#[expect(dead_code, reason = "the drills use the rest of it")]
mod shim;
mod shown;
mod story;
mod terminal;
mod tidy;
