//! A stand-in for `claude` that plays a script. It takes any arguments; with
//! `--output-format stream-json` it prints what the real program prints, else plain text.
//!
//! The script is the next file of the directory `FAKE_CLAUDE_SCRIPTS` (named 1, 2, 3, …; the last one
//! is played again and again), or the file `FAKE_CLAUDE_SCRIPT`, or the text `FAKE_CLAUDE`. Its steps
//! stand on lines of their own or between bars (`\|` is a bar inside a step); `\n` in a TEXT is a line
//! end; a line that begins with `#` says nothing.
//!
//! | step | what happens |
//! |---|---|
//! | `say TEXT`, `think TEXT`, `subagent TEXT` | a block of text, of thinking, the text of a subagent |
//! | `stamp` | says the time at which it says so, in nanoseconds since 1970 |
//! | `tool NAME JSON` | a tool is called; it ends when the next thing is printed |
//! | `tool-error TEXT` | the tool that was called ends with an error |
//! | `run COMMAND` | a Bash call that is real: `sh -c`, in a session of its own |
//! | `done`, `fail TEXT`, `block QUESTION` | the sigils for `$RALPH_TASK_ID` |
//! | `result` | a successful result; there is one at the end if there was none |
//! | `no-result` | there is none at the end |
//! | `result-error SUBTYPE REASON` | a result such as `error_max_turns max_turns`; exit code 1 |
//! | `cost USD` | what the session has cost so far |
//! | `error STATUS KIND TEXT` | the API refuses for good; exit code 1 |
//! | `limit WINDOW RESETS_AT [STATUS]` | a usage limit; unless STATUS is another than `rejected`, exit code 1 |
//! | `retry STATUS [ATTEMPT]` | the API fails and is asked again |
//! | `sleep MS`, `wait-file PATH`, `hang` | waits: so long, until there is such a file, for ever |
//! | `linger` | the result, and then for ever |
//! | `touch PATH`, `write PATH TEXT`, `save-stdin PATH` | makes a file |
//! | `save-system PATH`, `save-args PATH` | the same with its system prompt, and its arguments, a line each |
//! | `read-line PATH` | reads a line from the terminal into a file |
//! | `read-keys N PATH` | the same with so many bytes |
//! | `print TEXT` | shows it, as it is; `\e` in it begins an escape sequence |
//! | `spin N` | so many pictures of something that turns |
//! | `size`, `report-size` | shows the size of the terminal, now or whenever it changes |
//! | `dialog FILE` | shows it, and asks something before the session begins |
//! | `ask-permission TOOL`, `prompted` | tells by hooks that it asks; that a turn begins |
//! | `no-hooks` | as the first step: calls no hooks, as the real program does that was told not to |
//! | `raw-mode` | puts the terminal into raw mode, hides the cursor, and leaves it so |
//! | `expect-terminal` | exits with 97 unless stdin, stdout and stderr are a terminal |
//! | `stop` | stops itself, as a program does that is told to by a key |
//! | `expect-arg TEXT` | exits with 97 unless the arguments, joined by blanks, contain it |
//! | `expect-env NAME VALUE`, `expect-no-env NAME`, `expect-stdin TEXT` | the same for what they name |
//! | `ignore SIGINT`, `ignore SIGTERM` | does not end by these |
//! | `on-sigint exit0` | ends without a result then; otherwise with one that says it was aborted |
//! | `orphan [SECONDS]` | leaves a child behind; with any of these traits at the end of the word: |
//! | `-setsid`, `-double-fork`, `-ignore-term`, `-holds-stdout`, `-hides` (has no environment) | … |
//! | `close-stdout` | closes it and goes on |
//! | `flood-stderr [MB]`, `flood-stdout [MB]` | writes so much; without a number, for ever |
//! | `long-line MB` | a text block of that size |
//! | `raw TEXT`, `half-line TEXT` | a line as it is; one without an end, and then exits |
//! | `exit CODE`, `kill SIGNAL` | ends, like this or by a signal |
//! | `replay FILE [timing]` | prints a capture, with its pauses if asked to |
//!
//! Signals do what they do to the real program: SIGINT ends it with code 0, SIGTERM with 143.
//!
//! With `--settings` and without `--print` it is what a person sees in a terminal: it calls the hooks,
//! writes down what it says, and does not end by itself.

mod script;
mod stream;
mod tui;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM, SIGWINCH};

use script::{Ignored, Step, Trait};
use stream::Stream;

/// The exit code when the script makes no sense.
const NONSENSE: i32 = 96;
/// The exit code when something is not as the script expects it.
const UNEXPECTED: i32 = 97;
/// How long a file is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

static IGNORE_SIGINT: AtomicBool = AtomicBool::new(false);
static IGNORE_SIGTERM: AtomicBool = AtomicBool::new(false);
static QUIET_SIGINT: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    if arguments.iter().any(|it| it == "--version") {
        stream::raw(b"2.1.325 (Claude Code)");
        return ExitCode::SUCCESS;
    }
    match play(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err((code, complaint)) => {
            complain(&complaint);
            ExitCode::from(code as u8)
        }
    }
}

/// Why a script can't go on: an exit code and words.
type Stop = (i32, String);

fn play(arguments: &[String]) -> Result<u8, Stop> {
    let steps = script::load().map_err(|complaint| (NONSENSE, complaint))?;
    let mut stdin = Vec::new();
    let prints = arguments.iter().any(|it| it == "--print" || it == "-p");
    if prints && !io::stdin().is_terminal() {
        // As the real program: if there is no end of it, it waits for ever.
        let _ = io::stdin().read_to_end(&mut stdin);
    }
    let stream = Stream::new(arguments);
    listen_to_signals(stream.clone()).map_err(|error| (NONSENSE, error.to_string()))?;
    let mut player =
        Player { arguments: arguments.join(" "), stdin, stream, wants_result: true, failed: false };
    let replays = steps.iter().any(|step| matches!(step, Step::Replay { .. }));
    let asks_first = matches!(steps.first(), Some(Step::Dialog(_)));
    if matches!(steps.first(), Some(Step::NoHooks)) {
        player.stream.call_no_hooks();
    }
    if !replays && !asks_first {
        player.stream.begin();
    }
    for step in steps {
        player.take(step)?;
    }
    if player.wants_result && !player.stream.has_result() && !replays {
        player.stream.result();
    }
    if player.stream.stays() {
        hang();
    }
    Ok(u8::from(player.failed))
}

struct Player {
    arguments: String,
    stdin: Vec<u8>,
    stream: Stream,
    wants_result: bool,
    failed: bool,
}

impl Player {
    fn take(&mut self, step: Step) -> Result<(), Stop> {
        match step {
            Step::Say(text) => self.stream.say(&text),
            Step::Stamp => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                self.stream.say(&format!("stamp {}", now.unwrap_or_default().as_nanos()));
            }
            Step::Think(text) => self.stream.think(&text),
            Step::Tool { name, input } => self.stream.call(&name, &input),
            Step::ToolError(text) => self.stream.end_tool(&text, true),
            Step::Subagent(text) => self.stream.subagent(&text),
            Step::Done => self.stream.say(&format!("<task-done>{}</task-done>", task())),
            Step::Fail(text) => {
                let text = format!("{text}\n<task-failed>{}</task-failed>", task());
                self.stream.say(text.trim_start());
            }
            Step::Block(question) => {
                let text = format!("<task-blocked>{}: {question}</task-blocked>", task());
                self.stream.say(&text);
            }
            Step::Cost(cost) => self.stream.cost(cost),
            Step::Result => self.stream.result(),
            Step::NoResult => self.wants_result = false,
            Step::ResultError { subtype, reason } => {
                self.stream.result_error(&subtype, &reason);
                self.failed = true;
            }
            Step::Error { status, kind, text } => {
                self.stream.error(status, &kind, &text);
                self.failed = true;
            }
            Step::Limit { window, resets_at, status } => {
                self.stream.limit(&window, resets_at, &status);
                self.failed |= status == "rejected";
            }
            Step::Retry { status, attempt } => self.stream.retry(status, attempt),
            Step::Sleep(time) => thread::sleep(time),
            Step::WaitFile(path) => wait_for(&path)?,
            Step::Touch(path) => write_file(&path, b"")?,
            Step::Write { path, text } => write_file(&path, text.as_bytes())?,
            Step::SaveStdin(path) => write_file(&path, &self.stdin)?,
            Step::SaveSystem(path) => self.save_system(&path)?,
            Step::SaveArgs(path) => {
                let arguments: Vec<String> =
                    env::args().skip(1).map(|argument| argument + "\n").collect();
                write_file(&path, arguments.concat().as_bytes())?;
            }
            Step::ReadLine(path) => {
                let mut line = String::new();
                let read = io::stdin().read_line(&mut line);
                read.map_err(|error| (NONSENSE, format!("stdin: {error}")))?;
                write_file(&path, line.as_bytes())?;
            }
            Step::ReadKeys { count, path } => {
                let mut keys = vec![0; count];
                let read = io::stdin().read_exact(&mut keys);
                read.map_err(|error| (NONSENSE, format!("stdin: {error}")))?;
                write_file(&path, &keys)?;
            }
            Step::Print(text) => stream::write(text.as_bytes()),
            Step::Spin(count) => tui::spin(count),
            Step::Size => tui::show_size(),
            Step::ReportSize => {
                let listens = listen(SIGWINCH, tui::show_size);
                listens.map_err(|error| (NONSENSE, format!("SIGWINCH: {error}")))?;
            }
            Step::Dialog(file) => {
                let shown = fs::read(&file);
                let shown =
                    shown.map_err(|error| (NONSENSE, format!("{}: {error}", file.display())))?;
                stream::write(&shown);
            }
            Step::AskPermission(tool) => self.stream.ask_permission(&tool),
            Step::Prompted => self.stream.prompted(),
            Step::RawMode => raw_mode()?,
            // Before the first hook was called.
            Step::NoHooks => {}
            Step::ExpectTerminal => {
                let are = [io::stdin().is_terminal(), io::stdout().is_terminal()];
                let all = are == [true; 2] && io::stderr().is_terminal();
                expect(all, || format!("stdin and stdout: {are:?}"))?;
            }
            Step::Stop => {
                let own = rustix::process::getpid();
                let stopped = rustix::process::kill_process(own, rustix::process::Signal::STOP);
                stopped.map_err(|error| (NONSENSE, format!("stop: {error}")))?;
            }
            Step::ExpectArg(text) => expect(self.arguments.contains(&text), || {
                format!("the arguments `{}` lack `{text}`", self.arguments)
            })?,
            Step::ExpectEnv { name, value } => expect_variable(&name, Some(&value))?,
            Step::ExpectNoEnv(name) => expect_variable(&name, None)?,
            Step::ExpectStdin(text) => {
                let stdin = String::from_utf8_lossy(&self.stdin);
                expect(stdin.contains(&text), || format!("stdin lacks `{text}`: {stdin}"))?;
            }
            Step::Run(command) => self.run(&command)?,
            Step::Ignore(Ignored::Sigint) => IGNORE_SIGINT.store(true, Ordering::SeqCst),
            Step::Ignore(Ignored::Sigterm) => IGNORE_SIGTERM.store(true, Ordering::SeqCst),
            Step::OnSigintExit0 => QUIET_SIGINT.store(true, Ordering::SeqCst),
            Step::Orphan { traits, seconds } => leave_orphan(&traits, seconds)?,
            Step::CloseStdout => close_stdout()?,
            Step::FloodStderr(megabytes) => flood(io::stderr(), b"all is lost\n", megabytes),
            Step::FloodStdout(megabytes) => {
                let line = self.stream.sign_of_life();
                flood(io::stdout(), line.as_bytes(), megabytes);
            }
            Step::LongLine(megabytes) => {
                let (before, after) = self.stream.around_text();
                stream::write(before.as_bytes());
                flood(io::stdout(), b"x", Some(megabytes));
                stream::write(after.as_bytes());
            }
            Step::HalfLine(text) => {
                stream::write(text.as_bytes());
                exit(0);
            }
            Step::Raw(line) => stream::raw(line.as_bytes()),
            Step::Hang => hang(),
            Step::Linger => {
                self.stream.result();
                hang();
            }
            Step::Exit(code) => exit(code),
            Step::Kill(signal) => {
                // A shell, because the runtime of this program takes some signals for itself.
                let error = Command::new("sh").args(["-c", &format!("kill -{signal} $$")]).exec();
                return Err((NONSENSE, format!("sh: {error}")));
            }
            Step::Replay { file, timing } => replay(&file, timing)?,
        }
        Ok(())
    }

    fn save_system(&self, path: &Path) -> Result<(), Stop> {
        let mut arguments = env::args().skip_while(|it| it != "--append-system-prompt-file");
        let file = arguments.nth(1).unwrap_or_default();
        let prompt = fs::read(&file).map_err(|error| (NONSENSE, format!("{file}: {error}")))?;
        write_file(path, &prompt)
    }

    /// A Bash call. The real program gives each a session of its own.
    fn run(&mut self, command: &str) -> Result<(), Stop> {
        self.stream.call("Bash", &json!({ "command": command, "description": "run it" }));
        let output = Command::new("setsid")
            .args(["sh", "-c", command])
            .env("CLAUDECODE", "1")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| (NONSENSE, format!("setsid: {error}")))?;
        let text = [&*output.stdout, &*output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        match output.status.code() {
            Some(0) => self.stream.end_tool(text.trim_end(), false),
            code => {
                let code = code.unwrap_or(137);
                self.stream.end_tool(&format!("Exit code {code}\n{text}"), true);
            }
        }
        Ok(())
    }
}

fn task() -> String {
    env::var("RALPH_TASK_ID").unwrap_or_default()
}

fn complain(complaint: &str) {
    let _ = writeln!(io::stderr(), "fake-claude: {complaint}");
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err((UNEXPECTED, otherwise())) }
}

fn expect_variable(name: &str, value: Option<&str>) -> Result<(), Stop> {
    let is = env::var_os(name).map(|it| it.to_string_lossy().into_owned());
    expect(is.as_deref() == value, || format!("{name} is {is:?}, not {value:?}"))
}

fn wait_for(path: &Path) -> Result<(), Stop> {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        expect(Instant::now() < deadline, || format!("{} never came", path.display()))?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), Stop> {
    // Whoever waits for the file finds it whole.
    let whole = path.with_extension("part");
    let written = fs::write(&whole, content).and_then(|()| fs::rename(&whole, path));
    written.map_err(|error| (NONSENSE, format!("{}: {error}", path.display())))
}

/// Leaves a child behind, and returns when it is as it should be.
fn leave_orphan(traits: &[Trait], seconds: u64) -> Result<(), Stop> {
    let has = |it: Trait| traits.contains(&it);
    let deaf = if has(Trait::IgnoreTerm) { "trap '' TERM INT HUP; " } else { "" };
    // The child says on stderr that it is ready, so that stdout is free to be held.
    let child = format!("{deaf}echo ready >&2; exec sleep {seconds} 2>/dev/null");
    let hide = if has(Trait::Hides) { "env -i " } else { "" };
    let leave = if has(Trait::Setsid) { "setsid " } else { "" };
    let start = format!("{hide}{leave}sh -c");
    let quoted = child.replace('\'', "'\\''");
    let line = if has(Trait::DoubleFork) {
        // What starts it has a parent that is gone by the time the child runs.
        format!("({start} '{quoted}' &) &")
    } else {
        format!("exec {start} '{quoted}'")
    };
    let stdout = if has(Trait::HoldsStdout) { Stdio::inherit() } else { Stdio::null() };
    let fail = |error: io::Error| (NONSENSE, format!("sh: {error}"));
    let mut shell = Command::new("sh")
        .args(["-c", &line])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let mut ready = String::new();
    let stderr = shell.stderr.take().expect("it is piped");
    BufReader::new(stderr).read_line(&mut ready).map_err(fail)?;
    if has(Trait::DoubleFork) {
        shell.wait().map_err(fail)?;
    }
    expect(ready == "ready\n", || format!("an orphan said {ready:?}"))
}

fn raw_mode() -> Result<(), Stop> {
    use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
    let set = tcgetattr(io::stdin()).and_then(|mut modes| {
        modes.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)
    });
    stream::write(b"\x1b[?25l\x1b[?1049h\x1b[?2004h\x1b[?1000h");
    set.map_err(|error| (NONSENSE, format!("raw mode: {error}")))
}

fn close_stdout() -> Result<(), Stop> {
    let nothing = OpenOptions::new().write(true).open("/dev/null");
    let closed = nothing.and_then(|it| Ok(rustix::stdio::dup2_stdout(it)?));
    closed.map_err(|error| (NONSENSE, format!("/dev/null: {error}")))
}

/// Writes the same again and again.
fn flood(mut to: impl Write, what: &[u8], megabytes: Option<u64>) {
    let mut left = megabytes.map_or(u64::MAX, |it| it << 20);
    let chunk = what.repeat((64 << 10) / what.len() + 1);
    while left > 0 {
        let now = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if to.write_all(&chunk[..now]).is_err() {
            return;
        }
        left -= now as u64;
    }
    let _ = to.flush();
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Prints a capture; the pauses are those between the times that its lines bear.
fn replay(file: &Path, timing: bool) -> Result<(), Stop> {
    let fail = |error: io::Error| (NONSENSE, format!("{}: {error}", file.display()));
    let began = Instant::now();
    let mut first = None;
    for line in BufReader::new(File::open(file).map_err(fail)?).split(b'\n') {
        let line = line.map_err(fail)?;
        if let Some(time) = timing.then(|| time_of(&line)).flatten() {
            let since = time - *first.get_or_insert(time);
            let since = Duration::from_millis(since.try_into().unwrap_or(0));
            thread::sleep(since.saturating_sub(began.elapsed()));
        }
        stream::raw(&line);
    }
    Ok(())
}

fn time_of(line: &[u8]) -> Option<i64> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let time = chrono::DateTime::parse_from_rfc3339(line["timestamp"].as_str()?);
    Some(time.ok()?.timestamp_millis())
}

/// Ends this process by a signal as the real program does, from a thread of its own.
fn listen_to_signals(mut aborted: Stream) -> io::Result<()> {
    listen(SIGINT, move || {
        if IGNORE_SIGINT.load(Ordering::SeqCst) {
            return;
        }
        if !QUIET_SIGINT.load(Ordering::SeqCst) {
            aborted.result_error("error_during_execution", "aborted_streaming");
        }
        exit(0);
    })?;
    listen(SIGTERM, || {
        if !IGNORE_SIGTERM.load(Ordering::SeqCst) {
            exit(143);
        }
    })
}

fn listen(signal: i32, mut then: impl FnMut() + Send + 'static) -> io::Result<()> {
    let (mut read, write) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal, write)?;
    thread::spawn(move || {
        while read.read_exact(&mut [0]).is_ok() {
            then();
        }
    });
    Ok(())
}

#[expect(clippy::exit, reason = "a step and a signal end the program wherever it is")]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}
