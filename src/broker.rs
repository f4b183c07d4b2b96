//! How `ralph` inside a session reaches the task graph: through a socket that belongs to this one session. What it
//! may ask for is decided by the process that serves it (`ops`); the database itself is out of its reach.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::hint::{HintExt, hint_of};
use crate::ops::{Agent, Caller, Operation, Request, Role};
use crate::socket;
use crate::store::{self, Store};
use crate::time::Timestamp;

/// What the socket is called in the directory of a session.
const SOCKET: &str = "ralph";
/// How long either side waits for the other to say or read something.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest request or answer that is read.
const LONGEST: u64 = 256 << 20;
/// How many calls are served at the same time. More are not answered.
const MOST_CALLS: usize = 64;

/// What a call comes to.
#[derive(Serialize, Deserialize)]
enum Reply<Answer> {
    Answer(Answer),
    Error { message: String, hint: Option<String> },
}

/// Serves one session for as long as it lives.
#[derive(Debug)]
pub struct Broker {
    socket: PathBuf,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    /// Serves a session that may do what `role` says, through a socket in its directory.
    pub fn serve(directory: &Path, database: &Path, role: Role) -> Result<Broker> {
        let socket = directory.join(SOCKET);
        let listener = socket::bind(&socket)
            .with_context(|| format!("can't listen on `{}`", socket.display()))?;
        let (stopped, stop) = io::pipe().context("can't make a pipe")?;
        let desk = Desk {
            database: database.to_owned(),
            open: Mutex::new((None, Caller::Agent(Agent::new(role)))),
        };
        let thread = thread::spawn(move || serve(&listener, &stopped, &desk));
        Ok(Broker { socket, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the session was told by a closed connection.
            let _ = thread.join();
        }
    }
}

/// What calls are answered from: the database, opened by the first call, and what the agent has done so far.
struct Desk {
    database: PathBuf,
    open: Mutex<(Option<Store>, Caller)>,
}

impl Desk {
    fn answer(&self, request: &[u8]) -> Reply<Box<RawValue>> {
        match self.perform(request) {
            Ok(answer) => Reply::Answer(answer),
            Err(error) => match store::explain(&error, &self.database) {
                Some((message, hint)) => Reply::Error { message, hint: Some(hint.to_owned()) },
                None => Reply::Error {
                    message: format!("{error:#}"),
                    hint: hint_of(&error).map(str::to_owned),
                },
            },
        }
    }

    fn perform(&self, request: &[u8]) -> Result<Box<RawValue>> {
        let request: Request =
            serde_json::from_slice(request).context("the run does not know this request")?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (store, caller) = &mut *open;
        let store = match store {
            Some(store) => store,
            None => store.insert(Store::open_existing(&self.database)?),
        };
        request.perform(store, caller, Timestamp::now())
    }
}

/// Answers calls, each on a thread of its own, until the other end of `stopped` is closed.
fn serve(listener: &UnixListener, stopped: &PipeReader, desk: &Desk) {
    thread::scope(|scope| {
        let mut calls: Vec<(UnixStream, thread::ScopedJoinHandle<'_, ()>)> = Vec::new();
        socket::accept(listener, stopped, |call| {
            calls.retain(|(_, thread)| !thread.is_finished());
            if calls.len() < MOST_CALLS
                && let Ok(line) = call.try_clone()
            {
                calls.push((line, scope.spawn(|| drop(take(call, desk)))));
            }
        });
        // Calls that are still open would keep the session from ending.
        for (line, _) in &calls {
            let _ = line.shutdown(Shutdown::Both);
        }
    });
}

/// Answers one call. A caller that goes away in the middle of it misses the answer, and nothing else happens.
fn take(mut call: UnixStream, desk: &Desk) -> io::Result<()> {
    call.set_read_timeout(Some(PATIENCE))?;
    call.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    (&call).take(LONGEST).read_to_end(&mut request)?;
    call.write_all(&serde_json::to_vec(&desk.answer(&request))?)?;
    // `serve` has the call open as well: the end of the answer is not told by dropping it here.
    call.shutdown(Shutdown::Both)
}

/// Asks the run behind this socket for something.
pub fn ask<O: Operation>(socket: &Path, operation: O) -> Result<O::Answer> {
    let request: Request = operation.into();
    let answer = call(socket, &serde_json::to_vec(&request)?)
        .with_context(|| format!("the run behind `{}` does not answer", socket.display()))
        .hint(
            "the session that RALPH_SOCKET belongs to is over; unset it to work on the project",
        )?;
    match serde_json::from_slice(&answer).context("the answer of the run can't be read")? {
        Reply::Answer(answer) => Ok(answer),
        Reply::Error { message, hint: Some(hint) } => Err(anyhow!(message)).hint(hint),
        Reply::Error { message, hint: None } => Err(anyhow!(message)),
    }
}

fn call(socket: &Path, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut call = socket::connect(socket)?;
    call.set_read_timeout(Some(PATIENCE))?;
    call.set_write_timeout(Some(PATIENCE))?;
    call.write_all(request)?;
    call.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    call.take(LONGEST).read_to_end(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{AddTasks, ListTasks, Note};
    use crate::store::NewTask;

    fn task(title: &str) -> AddTasks {
        AddTasks::new(vec![NewTask { title: title.to_owned(), ..NewTask::default() }])
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::TempDir::new().unwrap();
        let database = directory.path().join("progress.db");
        drop(Store::open(&database).unwrap());
        (directory, database)
    }

    #[test]
    fn a_session_is_answered_and_refused_as_its_role_says() {
        let (directory, database) = place();
        let broker = Broker::serve(directory.path(), &database, Role::Guest).unwrap();
        let added = ask(broker.socket(), task("A task")).unwrap();
        let everything = ListTasks { ready: false, states: Vec::new(), feature: None };
        let listed = ask(broker.socket(), everything).unwrap();
        assert_eq!(listed.snapshot.tasks[0].id, added[0]);
        let wrong = Note { id: "t-zzzzzz".to_owned(), message: "Hello.".to_owned() };
        let error = ask(broker.socket(), wrong).unwrap_err();
        assert_eq!(error.to_string(), "there is no task `t-zzzzzz`");
        assert!(hint_of(&error).unwrap().contains(&added[0].to_string()), "{error:?}");
    }

    #[test]
    fn many_calls_at_once_are_all_answered() {
        let (directory, database) = place();
        let broker = Broker::serve(directory.path(), &database, Role::Guest).unwrap();
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| ask(broker.socket(), task("One of many")).unwrap());
            }
        });
        let store = Store::open(&database).unwrap();
        assert_eq!(store.snapshot(Timestamp::now()).unwrap().tasks.len(), 20);
    }

    #[test]
    fn nonsense_is_an_error_and_hurts_nobody() {
        let (directory, database) = place();
        let broker = Broker::serve(directory.path(), &database, Role::Guest).unwrap();
        for request in ["", "{}", "\0\u{ff}", "{\"ImportEverything\":{}}"] {
            let answer = call(broker.socket(), request.as_bytes()).unwrap();
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.contains("does not know this request"), "{request}: {answer}");
        }
        ask(broker.socket(), task("A task")).unwrap();
    }

    #[test]
    fn a_call_that_says_nothing_does_not_keep_a_session_from_ending() {
        let (directory, database) = place();
        let broker = Broker::serve(directory.path(), &database, Role::Guest).unwrap();
        let silent = socket::connect(broker.socket()).unwrap();
        ask(broker.socket(), task("Another call gets through")).unwrap();
        drop(broker);
        drop(silent);
    }

    #[test]
    fn after_the_session_nobody_answers() {
        let (directory, database) = place();
        let broker = Broker::serve(directory.path(), &database, Role::Guest).unwrap();
        let socket = broker.socket().to_owned();
        drop(broker);
        let error = ask(&socket, task("Too late")).unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
    }
}
