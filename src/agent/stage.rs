//! The supervisor of an agent that has a terminal of its own. It makes that terminal the controlling one
//! of a new session, and the agent the one who gets its keys; for the rest it is like any supervisor.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, ioctl_tiocsctty, kill_process_group, setsid, waitid,
};
use rustix::stdio::stdout;
use rustix::termios::tcsetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::flag;

use super::supervisor::{Orders, let_go_of_output};

/// The first argument that makes a ralph the supervisor of an agent in the terminal on its stdout.
pub(super) const STAGE: &str = "__stage";

pub(super) fn direct(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(orders) = Orders::read(arguments) else { return ExitCode::FAILURE };
    orders.carry_out(take_terminal, |supervisor| {
        give_keys_to(supervisor.agent);
        let_go_of_output();
        keep_awake(supervisor.agent);
        supervisor.watch()
    })
}

/// Makes the terminal ours, and all that the agent has.
fn take_terminal(command: &mut Command) -> Result<()> {
    survive_the_terminal()?;
    setsid().and_then(|_| ioctl_tiocsctty(stdout())).context("can't take the terminal")?;
    let terminal = || -> Result<Stdio> { Ok(stdout().as_fd().try_clone_to_owned()?.into()) };
    command.process_group(0).stdin(terminal()?).stdout(terminal()?).stderr(terminal()?);
    Ok(())
}

/// When ralph is gone, so is the terminal, and whoever leads its session is told by a signal. We have to
/// see to it that nothing is left. A handler, unlike "ignore", is not passed on to the agent.
fn survive_the_terminal() -> Result<()> {
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

fn give_keys_to(agent: Pid) {
    let _ = tcsetpgrp(stdout(), agent);
    // If it was quicker than we are and used the terminal already, it was stopped for that.
    let _ = kill_process_group(agent, Signal::CONT);
}

/// There is no shell that could wake an agent that was suspended by a key.
fn keep_awake(agent: Pid) {
    thread::spawn(move || {
        loop {
            match waitid(WaitId::Pid(agent), WaitIdOptions::STOPPED) {
                Ok(_) => drop(kill_process_group(agent, Signal::CONT)),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
}
