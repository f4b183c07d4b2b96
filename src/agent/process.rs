//! A child while we hold it. Threads move its bytes into a mailbox; orders go to its supervisor.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};

use super::claude::Invocation;
use super::facts::Exit;
use super::supervisor::{Order, SUPERVISE, arguments};

/// How much is read at a time.
const CHUNK: usize = 64 << 10;
/// How much of what a child says on stderr is kept: its end.
const STDERR_TAIL: usize = 16 << 10;

/// What a child did.
#[derive(Debug)]
pub enum Message {
    /// It wrote this.
    Output(Vec<u8>),
    /// It will write no more.
    OutputClosed,
    /// It will write no more on stderr.
    ErrorsClosed,
    /// It has ended, and everything it started.
    Ended(Exit),
    /// A key was pressed, or the window changed: ask the keyboard.
    Typed,
    /// It told this apart from its output.
    Told(Vec<u8>),
}

/// A program that is not there.
#[derive(Debug, PartialEq, Eq)]
pub struct ProgramNotFound {
    /// The program, as it was asked for.
    pub program: OsString,
}

impl fmt::Display for ProgramNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the agent `{}` was not found", self.program.display())
    }
}

impl std::error::Error for ProgramNotFound {}

impl ProgramNotFound {
    /// What to do about it.
    pub const HINT: &str = "install Claude Code with `npm install -g @anthropic-ai/claude-code`, \
         or name another program with --agent, RALPH_AGENT_COMMAND or agent.command";
}

/// A running agent and its supervisor.
#[derive(Debug)]
pub(super) struct Process {
    orders: ChildStdin,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    /// Ends the threads that read, when it is closed: a process that can't be found may hold the pipes.
    _stop: PipeWriter,
}

impl Process {
    /// Starts it; what it does is handed to `post`, from other threads.
    pub(super) fn start(
        invocation: &Invocation,
        post: impl Fn(Message) + Clone + Send + 'static,
    ) -> Result<Process> {
        let mut command = supervisor(invocation, SUPERVISE)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut supervisor = command.spawn().with_context(|| not_started(invocation))?;
        let Some(mut stdout) = supervisor.stdout.take() else { unreachable!("it is piped") };
        let (stopped, stop) = io::pipe()?;
        let (stop_output, post_output) = (stopped.try_clone()?, post.clone());
        let read_output = move || {
            let each = |bytes: &[u8]| post_output(Message::Output(bytes.to_vec()));
            pump(&mut stdout, &stop_output, each);
        };
        Ok(Process::of(supervisor, read_output, (stopped, stop), post))
    }

    /// Takes charge of a supervisor whose stdin and stderr are pipes; `read_output` posts what the agent
    /// writes, and returns when that is all, or when the pipe `stop` is closed.
    pub(super) fn of(
        mut supervisor: Child,
        read_output: impl FnOnce() + Send + 'static,
        (stopped, stop): (PipeReader, PipeWriter),
        post: impl Fn(Message) + Clone + Send + 'static,
    ) -> Process {
        let (Some(orders), Some(mut stderr)) = (supervisor.stdin.take(), supervisor.stderr.take())
        else {
            unreachable!("both are piped")
        };
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let process = Process { orders, stderr: Arc::clone(&tail), _stop: stop };
        let (post_output, post_errors) = (post.clone(), post.clone());
        thread::spawn(move || {
            read_output();
            post_output(Message::OutputClosed);
        });
        thread::spawn(move || {
            pump(&mut stderr, &stopped, |bytes| keep_tail(&tail, bytes));
            post_errors(Message::ErrorsClosed);
        });
        thread::spawn(move || post(Message::Ended(wait(supervisor))));
        process
    }

    /// Tells the supervisor what to do. If it is gone, so is all it watched over.
    pub(super) fn order(&mut self, order: Order) {
        let _ = self.orders.write_all(&[order.byte()]);
    }

    /// The end of what it has said on stderr.
    pub(super) fn stderr(&self) -> String {
        let tail = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, second) = tail.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }
}

/// The supervisor of this kind for an agent, not started yet.
pub(super) fn supervisor(invocation: &Invocation, kind: &str) -> Result<Command> {
    let path = invocation.variables.iter().find(|(name, _)| *name == "PATH");
    let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
    let program = find_program(&invocation.program, &path, &invocation.directory)
        .ok_or_else(|| ProgramNotFound { program: invocation.program.clone() })?;
    let mut command = Command::new(own_program());
    command
        .arg(kind)
        .args(arguments(invocation, program))
        .envs(invocation.variables.iter().map(|(name, value)| (name, value)))
        .current_dir(&invocation.directory);
    for name in &invocation.removed {
        command.env_remove(name);
    }
    Ok(command)
}

pub(super) fn not_started(invocation: &Invocation) -> String {
    format!("can't start a session in `{}`", invocation.directory.display())
}

/// This very program, even if its file has been replaced since it was started.
pub(super) fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_else(|_| "ralph".into())
}

/// The file of this program. If it has been replaced since we were started, the new one does as well.
pub(super) fn own_file() -> Option<PathBuf> {
    let file = std::env::current_exe().ok()?;
    let text = file.to_string_lossy();
    Some(text.strip_suffix(" (deleted)").map_or_else(|| file.clone(), PathBuf::from))
}

/// Reads to the end, or until the other end of `stopped` is closed and there is nothing to read.
fn pump(source: &mut (impl Read + AsFd), stopped: &PipeReader, mut each: impl FnMut(&[u8])) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let mut fds = [PollFd::new(source, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let polled = poll(&mut fds, None);
        if polled.is_ok() && fds[0].revents().is_empty() && !fds[1].revents().is_empty() {
            return;
        }
        match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => each(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn keep_tail(tail: &Mutex<VecDeque<u8>>, bytes: &[u8]) {
    let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = &bytes[bytes.len().saturating_sub(STDERR_TAIL)..];
    let excess = (tail.len() + bytes.len()).saturating_sub(STDERR_TAIL);
    tail.drain(..excess);
    tail.extend(bytes);
}

fn wait(mut supervisor: Child) -> Exit {
    match supervisor.wait() {
        Ok(status) => exit_of(status),
        // Nobody else waits for it, so this can't happen; it is not there any more in any case.
        Err(_) => Exit::Code(1),
    }
}

pub(super) fn exit_of(status: ExitStatus) -> Exit {
    match status.signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Code(status.code().unwrap_or(1)),
    }
}

/// The file that a program name means, as a shell in `directory` would find it.
pub fn find_program(name: &OsStr, path: &OsStr, directory: &Path) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        let file = std::fs::metadata(file);
        file.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(is_program);
    }
    std::env::split_paths(path).map(|place| directory.join(place).join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let here = Path::new("/");
        let find =
            |name: &str| find_program(name.as_ref(), "/nowhere:/usr/bin:/bin".as_ref(), here);
        assert!(find("sh").is_some());
        assert_eq!(find("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("/etc/passwd"), None, "not executable");
        assert_eq!(find("/etc"), None, "a directory");
        assert_eq!(find(""), None);
    }

    #[test]
    fn only_the_end_of_stderr_is_kept() {
        let tail = Mutex::new(VecDeque::new());
        for _ in 0..100 {
            keep_tail(&tail, &[b'x'; 1000]);
        }
        keep_tail(&tail, &vec![b'y'; 2 * STDERR_TAIL]);
        keep_tail(&tail, b"the end");
        let kept: Vec<u8> = tail.into_inner().unwrap().into();
        assert_eq!(kept.len(), STDERR_TAIL);
        assert!(kept.ends_with(b"yythe end"));
    }
}
