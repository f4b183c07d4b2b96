//! Runs one session through the library, as `ralph` does, and tells what happens: a short line for each
//! event and at the end one line of JSON with what came of it. SIGINT asks the agent to stop, a second
//! one and SIGTERM kill it. With `--pty`, the session has a terminal of its own.

mod pty;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, anyhow};
use ralph::agent::{
    AttemptContext, Input, Invocation, Limits, Listener, Mailbox, Permission, ProgramNotFound,
    Report, Request, ServerFlags, Session, backstage, converse,
};
use ralph::event::{AgentEvent, Speaker};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The threads that are there before and after a session: this one and those that wait for signals.
const OWN_THREADS: u64 = 3;

fn main() -> ExitCode {
    if let Some(exit) = backstage(env::args_os().skip(1)) {
        return exit;
    }
    match run(env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            if error.is::<ProgramNotFound>() {
                let _ = writeln!(io::stderr(), "hint: {}", ProgramNotFound::HINT);
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut options = Options::from_arguments(arguments)?;
    if let Some(terminal) = options.pty.take() {
        return pty::run(&terminal, &options);
    }
    let mailbox = Mailbox::new();
    on_signal(SIGINT, mailbox.sender(), Request::Interrupt)?;
    on_signal(SIGTERM, mailbox.sender(), Request::Kill)?;
    for _ in 0..options.sessions {
        let invocation = options.invocation()?;
        let report = converse(
            &invocation,
            options.limits,
            &mailbox,
            &mut *options.log,
            &mut options.teller,
        )?;
        print(&facts(&report).to_string());
    }
    Ok(())
}

/// Prints a line for each event.
#[derive(Debug, Default)]
struct Teller {
    /// How long it pauses whenever it has caught up.
    delay: Duration,
    panic_after: Option<String>,
}

impl Listener for Teller {
    fn event(&mut self, event: &AgentEvent<'_>) {
        let line = shown(event);
        print(&line);
        if let Some(text) = &self.panic_after {
            assert!(!line.contains(text), "told to panic after {text:?}");
        }
    }

    fn caught_up(&mut self) {
        thread::sleep(self.delay);
    }
}

struct Options {
    limits: Limits,
    answer: Option<Duration>,
    log: Box<dyn Write>,
    sessions: u32,
    teller: Teller,
    prompt: PathBuf,
    ralph: Option<PathBuf>,
    pty: Option<pty::Terminal>,
    agent: Vec<OsString>,
}

impl Options {
    /// `[--FLAG VALUE]... PROGRAM [ARGUMENT]...`
    fn from_arguments(mut arguments: impl Iterator<Item = OsString>) -> Result<Options> {
        let silence = Some(Duration::from_secs(60));
        let mut options = Options {
            limits: Limits { silence, exit_grace: Duration::from_secs(10), deadline: None },
            answer: None,
            log: Box::new(io::sink()),
            sessions: 1,
            teller: Teller::default(),
            prompt: "/dev/null".into(),
            ralph: None,
            pty: None,
            agent: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let flag = argument.to_string_lossy().into_owned();
            if !flag.starts_with("--") {
                options.agent = std::iter::once(argument).chain(arguments).collect();
                break;
            }
            let value = arguments.next().with_context(|| format!("{flag} needs a value"))?;
            let millis = || -> Result<Duration> {
                Ok(Duration::from_millis(value.to_string_lossy().parse()?))
            };
            match &*flag {
                "--silence-ms" => options.limits.silence = Some(millis()?),
                "--answer-ms" => options.answer = Some(millis()?),
                "--grace-ms" => options.limits.exit_grace = millis()?,
                "--deadline-ms" => options.limits.deadline = Some(Instant::now() + millis()?),
                "--log" => options.log = Box::new(File::create(value)?),
                "--sessions" => options.sessions = value.to_string_lossy().parse()?,
                "--listen-slowly-ms" => options.teller.delay = millis()?,
                "--panic-after" => {
                    options.teller.panic_after = Some(value.to_string_lossy().into());
                }
                "--prompt" => options.prompt = value.into(),
                "--ralph" => options.ralph = Some(value.into()),
                "--pty" => options.pty = Some(pty::Terminal::new(&value)),
                "--hooks" => options.terminal()?.hooks = value == "yes",
                "--report" => options.terminal()?.report = Some(value.into()),
                "--tell" => options.terminal()?.tell = value.into(),
                _ => return Err(anyhow!("{flag} is not an option")),
            }
        }
        Ok(options)
    }

    fn terminal(&mut self) -> Result<&mut pty::Terminal> {
        self.pty.as_mut().context("it needs --pty first")
    }

    /// What the library makes of an attempt at a task, with the arguments that were given.
    fn invocation(&self) -> Result<Invocation> {
        let mut invocation = self.session()?.work(self.prompt.clone(), &Permission::Everything);
        invocation.arguments.extend(self.agent[1..].iter().cloned());
        Ok(invocation)
    }

    fn session(&self) -> Result<Session> {
        let program = self.agent.first().context("no program")?;
        let path = env::var_os("PATH").unwrap_or_default();
        let places = self.ralph.iter().cloned().chain(env::split_paths(&path));
        Ok(Session {
            reminder: None,
            program: program.clone().into(),
            directory: env::current_dir()?,
            system_prompt: Some("/dev/null".into()),
            scratch: None,
            model: Some("opus".into()),
            path: env::join_paths(places)?,
            socket: Some("/nowhere/ralph".into()),
            attempt: Some(AttemptContext { task: "t-000001".into(), attempt: "a-000001".into() }),
            iteration: Some(1),
            background_tasks: false,
            budget_usd: None,
            servers: ServerFlags::None,
        })
    }
}

fn on_signal(signal: i32, mailbox: SyncSender<Input>, request: Request) -> Result<()> {
    let (mut read, write) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal, write)?;
    thread::spawn(move || {
        while read.read_exact(&mut [0]).is_ok() {
            print(&format!("asked {request:?}"));
            let _ = mailbox.send(Input::Request(request));
        }
    });
    Ok(())
}

fn print(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// An event as one line.
fn shown(event: &AgentEvent<'_>) -> String {
    let who = |from: &Speaker| match from {
        Speaker::Agent => "",
        Speaker::Subagent => "subagent ",
    };
    let line = match event {
        AgentEvent::Started(started) => format!("started {}", started.model),
        AgentEvent::TextDelta { from, text } => format!("{}text+ {text}", who(from)),
        AgentEvent::Text { from, text, .. } => format!("{}text {text}", who(from)),
        AgentEvent::ThinkingDelta { from, text } => format!("{}thinking+ {text}", who(from)),
        AgentEvent::Thinking { from, text, .. } => format!("{}thinking {text}", who(from)),
        AgentEvent::ToolCall { from, name, input, .. } => {
            format!("{}tool {name} {input}", who(from))
        }
        AgentEvent::ToolResult { from, error, .. } => match error {
            None => format!("{}tool ended", who(from)),
            Some(error) => format!("{}tool error {error}", who(from)),
        },
        AgentEvent::Finished(finished) => format!("finished {}", finished.subtype),
        AgentEvent::Used(_) | AgentEvent::Alive | AgentEvent::Asking | AgentEvent::Answered => {
            "alive".to_owned()
        }
        AgentEvent::Declined { why } => format!("declined {why}"),
        AgentEvent::Denied { .. }
        | AgentEvent::Retrying { .. }
        | AgentEvent::Refused { .. }
        | AgentEvent::RateLimit(_)
        | AgentEvent::Notice { .. }
        | AgentEvent::Unknown { .. } => format!("{event:?}"),
    };
    let line: String = line.chars().take(200).collect();
    line.replace('\n', "\\n")
}

fn facts(report: &Report) -> Value {
    let facts = &report.facts;
    json!({
        "trouble": facts.trouble.as_ref().map(|trouble| format!("{trouble:?}")),
        "ended_by": format!("{:?}", report.ended_by),
        "exit": facts.exit.map(|exit| format!("{exit:?}")),
        "answer": facts.answer.chars().take(2000).collect::<String>(),
        "result": facts.result.as_ref().map(|it| it.chars().take(2000).collect::<String>()),
        "on_screen": facts.on_screen,
        "cost": facts.bill.cost_usd,
        "turns": facts.turns,
        "stderr": report.stderr,
        "long_lines": report.long_lines,
        "logged": report.logged,
        "threads_left": threads_left(OWN_THREADS),
        "children_left": children_left(),
        "peak_kb": status_field("VmHWM:"),
    })
}

/// The threads of the session that are still there once they have had the time to end.
fn threads_left(own: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let left = status_field("Threads:").saturating_sub(own);
        if left == 0 || Instant::now() > deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Our children, zombies among them.
fn children_left() -> usize {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .map(|children| children.split_whitespace().count())
        .sum()
}

fn status_field(name: &str) -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
