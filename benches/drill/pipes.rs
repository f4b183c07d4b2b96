//! Nobody reads what a command prints: the pipe is closed early, there is none, or the disk is full.

use std::fs::OpenOptions;
use std::io::{PipeReader, Read, Write, pipe};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::calls::{Call, Ended, Expected, Fault, INTERRUPTED, Tally, World, lossy};
use crate::crew;
use crate::harness::{DEADLINE, RALPH, wait_until};
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "pipes",
    about: "Whoever reads what a command prints goes away, or there never was anybody.",
    run,
};

/// Where stdout or stderr leads.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Drain {
    /// To somebody who reads all of it.
    Reader,
    /// To somebody who reads so many bytes and goes away.
    Reads(u64),
    /// Nowhere: it is closed from the start.
    Closed,
    /// To a disk that is full.
    Full,
}

/// What is wrong, for stdout and stderr.
const DRAINS: &[(Drain, Drain)] = &[
    (Drain::Reads(0), Drain::Reader),
    (Drain::Reads(1), Drain::Reader),
    (Drain::Reads(5_000), Drain::Reader),
    (Drain::Closed, Drain::Reader),
    (Drain::Full, Drain::Reader),
    (Drain::Reader, Drain::Reads(0)),
    (Drain::Reader, Drain::Closed),
    (Drain::Reader, Drain::Full),
    (Drain::Reads(0), Drain::Reads(0)),
    (Drain::Closed, Drain::Closed),
    (Drain::Full, Drain::Full),
];

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    let (rounds, stride) = (dose.of(5, 1), dose.of(1, 4));
    let mut tally = Tally::default();
    for theirs in crew::work(|worker, size| {
        let (world, mut tally) = (World::new(), Tally::default());
        for (number, call) in world.calls.iter().enumerate().skip(worker).step_by(size) {
            let expected = world.expect(call);
            for _ in 0..rounds {
                for &drains in DRAINS.iter().skip(number % stride).step_by(stride) {
                    close(&world, call, &expected, drains, &mut tally)?;
                }
            }
        }
        Ok(tally)
    })? {
        tally.add(theirs);
    }
    Ok(tally.rows())
}

/// Makes a call whose output leads there, and judges it.
fn close(
    world: &World,
    call: &Call,
    expected: &Expected,
    (stdout, stderr): (Drain, Drain),
    tally: &mut Tally,
) -> Result<()> {
    if cfg!(not(target_os = "linux")) && [stdout, stderr].contains(&Drain::Full) {
        return Ok(());
    }
    world.prepare(call);
    let outcome = make(world, call, stdout, stderr)?;
    let name = format!("stdout {stdout:?}, stderr {stderr:?}");
    let fault = Fault {
        hides_stdout: stdout != Drain::Reader,
        hides_stderr: stderr != Drain::Reader,
        ends_runs: matches!(stdout, Drain::Reads(_)),
        ..Fault::new(&name)
    };
    // On a full disk what has something to print fails. That a reader went away ends runs, and is no failure
    // of anything else.
    let fails = stdout == Drain::Full && expected.prints;
    let code = outcome.as_ref().ok().and_then(|it| it.code);
    let is_right = match code {
        Some(code) if fails => code == 1,
        Some(code) => {
            code == expected.code || fault.ends_runs && call.has_agent() && code == INTERRUPTED
        }
        // The judge has its say on this.
        None => true,
    };
    if is_right {
        world.judge(call, expected, &fault, outcome, tally);
    } else {
        tally.wrong_code(call, &fault, &format!("{outcome:?}"));
    }
    Ok(())
}

fn make(world: &World, call: &Call, stdout: Drain, stderr: Drain) -> Result<Result<Ended, String>> {
    let mut command = closing(&world.command(call), stdout, stderr);
    command.stdin(Stdio::piped());
    let (to, out) = lead(stdout)?;
    command.stdout(to);
    let (to, err) = lead(stderr)?;
    command.stderr(to);
    let mut child = command.spawn()?;
    // The command has the other ends of the pipes, too.
    drop(command);
    let readers =
        [out, err].map(|it| it.map(|(pipe, bytes)| thread::spawn(move || read(pipe, bytes))));
    // Not everything reads it.
    let _ =
        child.stdin.take().expect("it is piped").write_all(&World::input(call).unwrap_or_default());
    let Some(status) = wait_until(Instant::now() + DEADLINE, || child.try_wait().unwrap()) else {
        child.kill()?;
        child.wait()?;
        return Ok(Err("it hangs".to_owned()));
    };
    let [stdout, stderr] =
        readers.map(|it| it.map_or(Vec::new(), |it| it.join().unwrap_or_default()));
    Ok(Ok(Ended { code: status.code(), stdout: lossy(&stdout), stderr: lossy(&stderr) }))
}

/// The same command, by a shell that closes what is to be closed.
fn closing(command: &Command, stdout: Drain, stderr: Drain) -> Command {
    let closed = |drain, how| if drain == Drain::Closed { how } else { "" };
    let script = format!(r#"exec "$0" "$@" {} {}"#, closed(stdout, ">&-"), closed(stderr, "2>&-"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, RALPH]).args(command.get_args()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().expect("it is in a project"));
    shell
}

/// Opens what leads there: the end to write to, the one to read from, and how much of it is read.
fn lead(drain: Drain) -> Result<(Stdio, Option<(PipeReader, u64)>)> {
    let bytes = match drain {
        Drain::Reader => u64::MAX,
        Drain::Reads(bytes) => bytes,
        Drain::Closed => return Ok((Stdio::null(), None)),
        Drain::Full => return Ok((OpenOptions::new().write(true).open("/dev/full")?.into(), None)),
    };
    let (reader, writer) = pipe()?;
    // Of those who read nothing there is nobody from the start.
    Ok((writer.into(), (bytes > 0).then_some((reader, bytes))))
}

fn read(pipe: PipeReader, bytes: u64) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = pipe.take(bytes).read_to_end(&mut all);
    all
}
