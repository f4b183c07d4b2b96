//! A stand-in for the Messages API on loopback. What it answers is up to the scenario of a test, which
//! is a function from a request to an answer.

mod answer;
mod http;
mod request;

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

pub(crate) use answer::{Answer, agent, bash, hang, nothing, page, refuse, say, think, tool};
use answer::{Fate, events};
use http::{Call, EventStream, send_json, send_page};
pub(crate) use request::{LOOP, Request, Role};

type Scenario = dyn Fn(&Request) -> Answer + Send + Sync;

/// The stand-in, which listens until it is dropped.
pub(crate) struct Api {
    port: u16,
    desk: Arc<Desk>,
    listening: Option<JoinHandle<()>>,
}

impl Api {
    /// Begins to listen.
    pub(crate) fn start(scenario: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Api {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let desk = Arc::new(Desk {
            scenario: Box::new(scenario),
            journal: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let listening = Some(thread::spawn({
            let desk = Arc::clone(&desk);
            move || desk.listen(&listener)
        }));
        Api { port, desk, listening }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Everything that was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.desk.journal.lock().unwrap().requests.clone()
    }

    /// Calls for others than this API, which was made the proxy to catch them.
    pub(crate) fn strays(&self) -> Vec<String> {
        self.desk.journal.lock().unwrap().strays.clone()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.desk.closed.store(true, Ordering::Relaxed);
        // Whoever listens is woken by a call.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = self.listening.take().map(JoinHandle::join);
    }
}

/// Where calls are taken and answered.
struct Desk {
    scenario: Box<Scenario>,
    journal: Mutex<Journal>,
    closed: AtomicBool,
}

/// What was asked so far.
#[derive(Default)]
struct Journal {
    requests: Vec<Request>,
    strays: Vec<String>,
    /// The number of each session among those of its role and task.
    sessions: HashMap<String, usize>,
}

impl Desk {
    fn listen(self: &Arc<Desk>, listener: &TcpListener) {
        while let Ok((connection, _)) = listener.accept() {
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            let desk = Arc::clone(self);
            // It ends with its client, and that a client goes away at any time is no fault.
            thread::spawn(move || desk.serve(connection));
        }
    }

    fn serve(&self, mut connection: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(call) = Call::read(&mut reader)? {
            if !call.target.starts_with('/') {
                let stray = format!("{} {}", call.method, call.target);
                self.journal.lock().unwrap().strays.push(stray);
                return send_json(&mut connection, 403, &[], &json!({}));
            }
            let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
            let is_messages = call.target.split('?').next() == Some("/v1/messages");
            match Request::read(&body).filter(|_| is_messages) {
                Some(request) => {
                    let session = call.header("x-claude-code-session-id").unwrap_or_default();
                    let (number, request) = self.enter(request, session);
                    self.answer(&mut connection, number, &request)?;
                }
                None => send_json(&mut connection, 200, &[], &json!({}))?,
            }
        }
        Ok(())
    }

    /// Gives a request its place among the others.
    fn enter(&self, mut request: Request, session: &str) -> (usize, Request) {
        let mut journal = self.journal.lock().unwrap();
        let is_akin = |it: &&Request| it.role == request.role && it.task == request.task;
        let latest = journal.requests.iter().filter(is_akin).map(|it| it.session).max();
        let next = latest.unwrap_or(0) + 1;
        request.session = *journal.sessions.entry(session.to_owned()).or_insert(next);
        let is_same =
            |it: &&Request| is_akin(it) && it.session == request.session && it.turn == request.turn;
        request.attempt = journal.requests.iter().filter(is_same).count() + 1;
        journal.requests.push(request.clone());
        (journal.requests.len(), request)
    }

    fn answer(&self, connection: &mut TcpStream, number: usize, asked: &Request) -> io::Result<()> {
        let answer = (self.scenario)(asked);
        let headers = &answer.headers;
        let message = answer.message(number, &asked.model);
        let events = events(&message);
        match answer.fate {
            Fate::Arrives if asked.streamed => stream(connection, headers, &events)?.end(),
            Fate::Arrives => send_json(connection, 200, headers, &message),
            Fate::Refused { status, message } => {
                let error = json!({ "type": error_type(status), "message": message });
                send_json(connection, status, headers, &json!({ "type": "error", "error": error }))
            }
            Fate::Replaced { status } => send_page(connection, status),
            Fate::NeverComes => wait_for_the_end(connection),
            Fate::BreaksOff { after } => {
                stream(connection, headers, &events[..after])?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Fate::StopsDead { after } => {
                stream(connection, headers, &events[..after])?;
                wait_for_the_end(connection)
            }
        }
    }
}

fn stream<'a>(
    connection: &'a mut TcpStream,
    headers: &[(&str, String)],
    events: &[(&str, Value)],
) -> io::Result<EventStream<'a, TcpStream>> {
    let mut stream = EventStream::begin(connection, headers)?;
    for (name, payload) in events {
        stream.send(name, payload)?;
    }
    Ok(stream)
}

/// Says nothing until the client gives up.
fn wait_for_the_end(connection: &mut TcpStream) -> io::Result<()> {
    io::copy(connection, &mut io::sink())?;
    Err(io::ErrorKind::ConnectionAborted.into())
}

fn error_type(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}
