//! The agent of the demo: a script that plays its part for real. It edits files, runs commands, commits,
//! and calls ralph, as its own process.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::story::{self, Step};
use super::stream::Stream;

/// Called by this name, ralph is that agent.
pub const AGENT: &str = "scripted-agent";

/// How long it seems to think before it does something.
const THOUGHT: Duration = Duration::from_millis(200);

/// Plays the agent if the program was called by its name.
pub fn play(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = arguments.next()?;
    if Path::new(&program).file_name()? != AGENT {
        return None;
    }
    let arguments: Vec<String> = arguments.map(|it| it.to_string_lossy().into_owned()).collect();
    if arguments.iter().any(|it| it == "--version") {
        return Some(say(&mut io::stdout(), "a script (ralph demo)", ExitCode::SUCCESS));
    }
    Some(match Session::new(&arguments).and_then(|mut session| session.play()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(&mut io::stderr(), &format!("{AGENT}: {error:#}"), ExitCode::FAILURE),
    })
}

fn say(out: &mut dyn Write, text: &str, exit: ExitCode) -> ExitCode {
    // Nobody is left to be told that this could not be said.
    let _ = writeln!(out, "{text}");
    exit
}

/// One session: what is to be done, and what its words stand for.
struct Session {
    json: bool,
    steps: &'static [Step],
    /// What stands in braces, and what for.
    names: HashMap<&'static str, String>,
}

impl Session {
    fn new(arguments: &[String]) -> Result<Session> {
        let value_of = |flag: &str| {
            let at = arguments.iter().position(|it| it == flag)?;
            arguments.get(at + 1)
        };
        ensure!(
            arguments.iter().any(|it| it == "--print"),
            "this is a script, with which nobody can talk; put `agent.command = \"claude\"` into .ralph.toml"
        );
        let mut told = String::new();
        io::stdin().read_to_string(&mut told).context("can't read the prompt")?;
        let system =
            value_of("--append-system-prompt-file").context("there is no system prompt")?;
        let system = fs::read_to_string(system).context("can't read the system prompt")?;
        let (steps, names) = match env::var("RALPH_TASK_ID") {
            // Only who verifies is told how to say so.
            Ok(_) if system.contains("<verify-pass/>") => (story::VERIFY, HashMap::new()),
            Ok(task) => (story::work(&key(&task)?, &told), HashMap::from([("task", task)])),
            Err(_) => (story::BUILD, HashMap::from([("root", root(&system)?)])),
        };
        let json = value_of("--output-format").is_some_and(|format| format == "stream-json");
        Ok(Session { json, steps, names })
    }

    fn play(&mut self) -> Result<()> {
        let directory = env::current_dir().context("can't tell the current directory")?;
        let mut stream = Stream::begin(self.json, &directory)?;
        for step in self.steps {
            thread::sleep(THOUGHT);
            match step {
                Step::Say(text) => stream.say(&self.filled(text))?,
                Step::Write(name, text) => {
                    let path = directory.join(name);
                    let input = json!({ "file_path": path, "content": text });
                    let call = stream.call("Write", &input)?;
                    fs::write(&path, text).with_context(|| format!("can't write `{name}`"))?;
                    stream.answer(&call, "File written.\n", false)?;
                }
                Step::Run(command) => {
                    run(&self.filled(command), &mut stream)?;
                }
                Step::Add(name, arguments) => {
                    let command = format!("ralph task add {}", self.filled(arguments));
                    let id = run(&command, &mut stream)?;
                    self.names.insert(name, id.trim().to_owned());
                }
            }
        }
        stream.end()?;
        Ok(())
    }

    /// The text with the names in it replaced by what they stand for.
    fn filled(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }
}

/// Runs a command as a tool does; returns what it printed.
fn run(command: &str, stream: &mut Stream) -> Result<String> {
    let call = stream.call("Bash", &json!({ "command": command }))?;
    let output = Command::new("sh").args(["-c", command]).output().context("can't run sh")?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    stream.answer(&call, &format!("{printed}{complaint}"), !output.status.success())?;
    Ok(printed)
}

/// By what the script knows a task.
fn key(task: &str) -> Result<String> {
    let output = Command::new("ralph").args(["task", "show", task, "--json"]).output();
    let shown: Value = serde_json::from_slice(&output.context("can't run ralph")?.stdout)
        .with_context(|| format!("ralph shows no task {task}"))?;
    Ok(shown["key"].as_str().unwrap_or_default().to_owned())
}

/// The group below which tasks are to be added, as the instructions name it.
fn root(instructions: &str) -> Result<String> {
    let Some((_, rest)) = instructions.split_once("the root group `") else {
        bail!("the instructions name no root group")
    };
    Ok(rest.split('`').next().unwrap_or_default().to_owned())
}
