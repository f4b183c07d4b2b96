//! The little language: text in, steps out. A script that makes no sense is refused before it begins.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, io, process};

use serde_json::Value;

/// What is played when nothing says what to play.
const DEFAULT: &str = "say working | done";

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Stamp,
    Think(String),
    Tool { name: String, input: Value },
    ToolError(String),
    Subagent(String),
    Done,
    Fail(String),
    Block(String),
    Cost(f64),
    Result,
    ResultError { subtype: String, reason: String },
    NoResult,
    Error { status: u16, kind: String, text: String },
    Limit { window: String, resets_at: i64, status: String },
    Retry { status: u16, attempt: u32 },
    Sleep(Duration),
    WaitFile(PathBuf),
    Touch(PathBuf),
    Write { path: PathBuf, text: String },
    SaveStdin(PathBuf),
    SaveSystem(PathBuf),
    SaveArgs(PathBuf),
    ReadLine(PathBuf),
    ReadKeys { count: usize, path: PathBuf },
    Print(String),
    Spin(u32),
    Size,
    ReportSize,
    Dialog(PathBuf),
    AskPermission(String),
    Prompted,
    RawMode,
    NoHooks,
    ExpectTerminal,
    Stop,
    ExpectArg(String),
    ExpectEnv { name: String, value: String },
    ExpectNoEnv(String),
    ExpectStdin(String),
    Run(String),
    Ignore(Ignored),
    OnSigintExit0,
    Orphan { traits: Vec<Trait>, seconds: u64 },
    CloseStdout,
    FloodStderr(Option<u64>),
    FloodStdout(Option<u64>),
    LongLine(u64),
    HalfLine(String),
    Raw(String),
    Hang,
    Linger,
    Exit(i32),
    Kill(i32),
    Replay { file: PathBuf, timing: bool },
}

/// A signal that can be ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignored {
    Sigint,
    Sigterm,
}

/// What makes an orphan hard to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trait {
    Setsid,
    DoubleFork,
    IgnoreTerm,
    HoldsStdout,
    Hides,
}

/// The steps of this invocation, as the environment tells.
pub(crate) fn load() -> Result<Vec<Step>, String> {
    let text = if let Some(directory) = env::var_os("FAKE_CLAUDE_SCRIPTS") {
        take_next(&PathBuf::from(directory))?
    } else if let Some(file) = env::var_os("FAKE_CLAUDE_SCRIPT") {
        fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?
    } else {
        env::var("FAKE_CLAUDE").unwrap_or_else(|_| DEFAULT.to_owned())
    };
    split(&text).iter().map(|step| parse(step)).collect()
}

/// The script with the lowest number. All but the last are renamed, so that each is played once, by
/// whoever renames it.
fn take_next(directory: &PathBuf) -> Result<String, String> {
    let fail = |error: io::Error| format!("{}: {error}", directory.display());
    loop {
        let entries = fs::read_dir(directory).map_err(fail)?;
        let mut numbers: Vec<u32> =
            entries.filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        let Some(first) = numbers.first() else {
            return Err(format!("{}: no script left", directory.display()));
        };
        let script = directory.join(first.to_string());
        if numbers.len() == 1 {
            return fs::read_to_string(script).map_err(fail);
        }
        let taken = directory.join(format!("{first}.taken-by-{}", process::id()));
        match fs::rename(&script, &taken) {
            Ok(()) => return fs::read_to_string(taken).map_err(fail),
            // Somebody was quicker.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
        }
    }
}

/// Steps end at a `|` or at the end of a line; `\|` is a bar that ends nothing.
fn split(text: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        let last = steps.last_mut().expect("there is always one");
        match next {
            '\\' if rest.next_if_eq(&'|').is_some() => last.push('|'),
            '|' | '\n' => steps.push(String::new()),
            other => last.push(other),
        }
    }
    let is_step = |step: &&str| !step.is_empty() && !step.starts_with('#');
    steps.iter().map(|step| step.trim()).filter(is_step).map(str::to_owned).collect()
}

fn parse(step: &str) -> Result<Step, String> {
    let (verb, rest) = step.split_once(char::is_whitespace).unwrap_or((step, ""));
    let rest = rest.trim();
    understand(verb, rest).ok_or_else(|| format!("`{step}` is not a step"))
}

fn understand(verb: &str, rest: &str) -> Option<Step> {
    let mut words = rest.split_whitespace();
    let (first, others) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(match verb {
        "say" => Step::Say(unescape(rest)),
        "stamp" => Step::Stamp,
        "think" => Step::Think(unescape(rest)),
        "tool" => {
            let input = if others.is_empty() { "{}" } else { others };
            Step::Tool { name: first.to_owned(), input: serde_json::from_str(input).ok()? }
        }
        "tool-error" => Step::ToolError(unescape(rest)),
        "subagent" => Step::Subagent(unescape(rest)),
        "done" => Step::Done,
        "fail" => Step::Fail(unescape(rest)),
        "block" => Step::Block(unescape(rest)),
        "cost" => Step::Cost(rest.parse().ok()?),
        "result" => Step::Result,
        "result-error" => {
            Step::ResultError { subtype: first.to_owned(), reason: others.trim().to_owned() }
        }
        "no-result" => Step::NoResult,
        "error" => Step::Error {
            status: words.next()?.parse().ok()?,
            kind: words.next()?.to_owned(),
            text: words.collect::<Vec<_>>().join(" "),
        },
        "limit" => Step::Limit {
            window: words.next()?.to_owned(),
            resets_at: words.next()?.parse().ok()?,
            status: words.next().unwrap_or("rejected").to_owned(),
        },
        "retry" => Step::Retry {
            status: words.next()?.parse().ok()?,
            attempt: words.next().unwrap_or("1").parse().ok()?,
        },
        "sleep" => Step::Sleep(Duration::from_millis(rest.parse().ok()?)),
        "wait-file" => Step::WaitFile(rest.into()),
        "touch" => Step::Touch(rest.into()),
        "write" => Step::Write { path: first.into(), text: unescape(others) },
        "save-stdin" => Step::SaveStdin(rest.into()),
        "save-system" => Step::SaveSystem(rest.into()),
        "save-args" => Step::SaveArgs(rest.into()),
        "read-line" => Step::ReadLine(rest.into()),
        "read-keys" => {
            Step::ReadKeys { count: words.next()?.parse().ok()?, path: words.next()?.into() }
        }
        "print" => Step::Print(unescape(rest).replace("\\e", "\x1b")),
        "spin" => Step::Spin(rest.parse().ok()?),
        "size" => Step::Size,
        "report-size" => Step::ReportSize,
        "dialog" => Step::Dialog(rest.into()),
        "ask-permission" => Step::AskPermission(rest.to_owned()),
        "prompted" => Step::Prompted,
        "raw-mode" => Step::RawMode,
        "no-hooks" => Step::NoHooks,
        "expect-terminal" => Step::ExpectTerminal,
        "stop" => Step::Stop,
        "expect-arg" => Step::ExpectArg(rest.to_owned()),
        "expect-env" => Step::ExpectEnv { name: first.to_owned(), value: others.trim().to_owned() },
        "expect-no-env" => Step::ExpectNoEnv(rest.to_owned()),
        "expect-stdin" => Step::ExpectStdin(unescape(rest)),
        "run" => Step::Run(rest.to_owned()),
        "ignore" => Step::Ignore(match rest {
            "SIGINT" => Ignored::Sigint,
            "SIGTERM" => Ignored::Sigterm,
            _ => return None,
        }),
        "on-sigint" if rest == "exit0" => Step::OnSigintExit0,
        "close-stdout" => Step::CloseStdout,
        "flood-stderr" => Step::FloodStderr(megabytes(rest)?),
        "flood-stdout" => Step::FloodStdout(megabytes(rest)?),
        "long-line" => Step::LongLine(rest.parse().ok()?),
        "half-line" => Step::HalfLine(rest.to_owned()),
        "raw" => Step::Raw(rest.to_owned()),
        "hang" => Step::Hang,
        "linger" => Step::Linger,
        "exit" => Step::Exit(rest.parse().ok()?),
        "kill" => Step::Kill(signal_number(rest)?),
        "replay" => Step::Replay { file: first.into(), timing: others.trim() == "timing" },
        _ => orphan(verb.strip_prefix("orphan")?, rest)?,
    })
}

/// An orphan may have several traits: `orphan-setsid-ignore-term`.
fn orphan(mut traits: &str, seconds: &str) -> Option<Step> {
    const TRAITS: [(&str, Trait); 5] = [
        ("-setsid", Trait::Setsid),
        ("-double-fork", Trait::DoubleFork),
        ("-ignore-term", Trait::IgnoreTerm),
        ("-holds-stdout", Trait::HoldsStdout),
        ("-hides", Trait::Hides),
    ];
    let mut found = Vec::new();
    while !traits.is_empty() {
        let (rest, it) =
            TRAITS.iter().find_map(|(name, it)| Some((traits.strip_prefix(name)?, *it)))?;
        found.push(it);
        traits = rest;
    }
    let seconds = if seconds.is_empty() { 600 } else { seconds.parse().ok()? };
    Some(Step::Orphan { traits: found, seconds })
}

/// A number of megabytes; nothing is without end.
fn megabytes(text: &str) -> Option<Option<u64>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

fn signal_number(name: &str) -> Option<i32> {
    use signal_hook::consts::signal;
    Some(match name {
        "SIGHUP" => signal::SIGHUP,
        "SIGINT" => signal::SIGINT,
        "SIGKILL" => signal::SIGKILL,
        "SIGSEGV" => signal::SIGSEGV,
        "SIGPIPE" => signal::SIGPIPE,
        "SIGSTOP" => signal::SIGSTOP,
        "SIGTERM" => signal::SIGTERM,
        _ => return None,
    })
}

/// `\n` in a text is the end of a line.
fn unescape(text: &str) -> String {
    text.replace("\\n", "\n")
}
