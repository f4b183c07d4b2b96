//! Projects in directories of their own, and the real program in them. Every wait has a deadline: a
//! hang is a failure.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ralph::store::Store;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything takes on a slow and busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The program under test.
pub(crate) const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

/// The stand-in for the agent.
pub(crate) const FAKE_CLAUDE: &str = env!("CARGO_BIN_EXE_fake-claude");

/// A directory with a project in it, and a home of its own beside that.
pub(crate) struct Project {
    base: PathBuf,
    root: PathBuf,
    _directory: TempDir,
}

impl Project {
    /// A project as `ralph init` makes it.
    pub(crate) fn new() -> Project {
        let project = Project::bare();
        project.ralph(["init"]).ok();
        project
    }

    /// An empty directory.
    pub(crate) fn bare() -> Project {
        let directory = TempDir::with_prefix("ralph-it-").unwrap();
        let base = directory.path().canonicalize().unwrap();
        let root = base.join("project");
        for place in [&root, &base.join("home"), &base.join("tmp")] {
            fs::create_dir(place).unwrap();
        }
        Project { base, root, _directory: directory }
    }

    /// Where the project is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What the test has for itself, the project included.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join(".ralph/progress.db")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.database()).unwrap()
    }

    /// Writes a file into the project.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A program that will start in the project and know nothing of the machine around it.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.root)
            .env_clear()
            .env("HOME", self.base.join("home"))
            .env("TMPDIR", self.base.join("tmp"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            // An hour ahead of UTC, so that a test sees in which zone a time is shown.
            .env("TZ", "TST-1")
            .envs(["AUTHOR", "COMMITTER"].into_iter().flat_map(|who| {
                [
                    (format!("GIT_{who}_NAME"), "Test"),
                    (format!("GIT_{who}_EMAIL"), "test@localhost"),
                ]
            }));
        command
    }

    /// `ralph` with these arguments, not started yet.
    pub(crate) fn ralph_command(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = self.command(RALPH);
        command.args(arguments);
        command
    }

    /// Runs `ralph` with these arguments.
    pub(crate) fn ralph(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.run(self.ralph_command(arguments), None)
    }

    /// Runs `ralph` with this on its stdin.
    pub(crate) fn ralph_reading(
        &self,
        input: impl AsRef<[u8]>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Output {
        self.run(self.ralph_command(arguments), Some(input.as_ref().to_vec()))
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, mut command: Command, input: Option<Vec<u8>>) -> Output {
        let shown = format!("{command:?}");
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        if let Some(input) = input {
            let mut pipe = child.stdin.take().unwrap();
            // A program that does not read all of it is free not to.
            thread::spawn(move || pipe.write_all(&input));
        }
        let (tell_out, stdout) = mpsc::channel();
        let (tell_err, stderr) = mpsc::channel();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        thread::spawn(move || tell_out.send(read_all(&mut out)));
        thread::spawn(move || tell_err.send(read_all(&mut err)));
        let deadline = Instant::now() + DEADLINE;
        let ended = (|| {
            let stdout = stdout.recv_timeout(left(deadline)).ok()?;
            let stderr = stderr.recv_timeout(left(deadline)).ok()?;
            Some((stdout, stderr, wait_until(deadline, || child.try_wait().unwrap())?))
        })();
        let Some((stdout, stderr, status)) = ended else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{shown} hangs");
        };
        let base = self.base.display().to_string();
        Output { shown, base, status, stdout, stderr }
    }

    /// Starts a command and leaves it running.
    pub(crate) fn start(&self, command: Command) -> Background {
        Background::start(command)
    }

    /// The helper program, not started yet.
    pub(crate) fn worker(&self, mode: &str) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_ralph-worker"));
        command.arg(mode).arg(self.database());
        command
    }

    /// `ralph` with these arguments, whose agent plays this script.
    pub(crate) fn ralph_with(
        &self,
        script: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = self.ralph_command(arguments);
        command.env("RALPH_AGENT_COMMAND", FAKE_CLAUDE).env("FAKE_CLAUDE", script);
        // What holds a session has tests of its own.
        command.env("RALPH_SANDBOX_BACKEND", "none");
        command
    }

    /// What is left in the directory for temporary files.
    pub(crate) fn temporary_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.base.join("tmp")).unwrap();
        entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// `ralph` with these arguments, whose agents play these scripts one after the other, the last one
    /// again and again.
    pub(crate) fn ralph_playing(
        &self,
        scripts: &[&str],
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = self.ralph_with("", arguments);
        command.env("FAKE_CLAUDE_SCRIPTS", self.scripts(scripts));
        command
    }

    /// A new directory with these scripts.
    pub(crate) fn scripts(&self, scripts: &[&str]) -> PathBuf {
        let directory = TempDir::with_prefix_in("scripts-", &self.base).unwrap().keep();
        for (number, script) in scripts.iter().enumerate() {
            fs::write(directory.join((number + 1).to_string()), script).unwrap();
        }
        directory
    }

    /// Makes the project a repository with everything in it committed.
    pub(crate) fn git_init(&self) -> &Project {
        self.git(["init", "-q", "-b", "main"]);
        self.git(["add", "--all"]);
        self.git(["commit", "-q", "-m", "begin"]);
        self
    }

    #[track_caller]
    pub(crate) fn git<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let mut command = self.command("git");
        command.args(arguments);
        self.run(command, None).ok()
    }

    /// Asserts that no process and no file is left of anything that ran here.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_no_process_left(self);
        let deadline = Instant::now() + DEADLINE;
        let none = wait_until(deadline, || self.temporary_files().is_empty().then_some(()));
        assert!(none.is_some(), "{:?}", self.temporary_files());
        assert!(!self.root.join(".ralph/run.json").exists());
    }

    /// Writes spec and plan of a feature.
    pub(crate) fn write_feature(&self, name: &str, spec: &str, plan: &str) {
        let directory = format!(".ralph/features/{name}");
        fs::create_dir_all(self.root.join(&directory)).unwrap();
        for (file, text) in [("spec.md", spec), ("plan.md", plan)] {
            if !text.is_empty() {
                self.write(&format!("{directory}/{file}"), text);
            }
        }
    }

    /// Adds a task and returns its id.
    #[track_caller]
    pub(crate) fn add<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> String {
        let id = self.ralph(["task", "add"].into_iter().chain(arguments)).ok();
        assert!(is_task_id(&id), "{id:?} is not one id");
        id
    }

    /// Adds tasks from lines of JSON and returns their ids.
    #[track_caller]
    pub(crate) fn add_lines(&self, lines: impl AsRef<[u8]>) -> Vec<String> {
        let ids = self.ralph_reading(lines, ["task", "add", "--stdin"]).ok();
        ids.lines().map(str::to_owned).collect()
    }

    /// Makes a feature, as nothing but an import can so far, and returns its id.
    #[track_caller]
    pub(crate) fn feature(&self, name: &str) -> String {
        let id = format!("f-{:06}", self.features());
        let line = feature_line(&json!({ "id": id, "name": name }));
        self.ralph_reading(line, ["import"]).ok();
        id
    }

    fn features(&self) -> usize {
        self.ralph(["feature", "list", "--json"]).json().as_array().unwrap().len()
    }

    /// Everything that is stored, as text.
    #[track_caller]
    pub(crate) fn export(&self) -> String {
        self.ralph(["export"]).ok()
    }

    #[track_caller]
    pub(crate) fn show(&self, task: &str) -> Value {
        self.ralph(["task", "show", task, "--json"]).json()
    }

    /// Runs what must be refused, asserts that nothing changed, and returns what was said.
    #[track_caller]
    pub(crate) fn refuses<'a>(
        &self,
        code: i32,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> String {
        self.refuses_reading(code, "", arguments)
    }

    /// As `refuses`, with this on stdin.
    #[track_caller]
    pub(crate) fn refuses_reading<'a>(
        &self,
        code: i32,
        input: impl AsRef<[u8]>,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> String {
        let before = self.export();
        let said = self.ralph_reading(input, arguments).fails(code);
        assert_eq!(self.export(), before, "something changed");
        self.masked(&said)
    }

    /// The text with ids as `[A]`, `[B]`, … in order of appearance, and without paths and times.
    pub(crate) fn masked(&self, text: &str) -> String {
        let text = text
            .replace(&*self.root.to_string_lossy(), "[ROOT]")
            .replace(&*self.base.to_string_lossy(), "[BASE]");
        mask_ids(&text)
    }
}

/// How a command ended and what it said.
pub(crate) struct Output {
    shown: String,
    base: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Output {
    /// What it printed, if it succeeded.
    #[track_caller]
    pub(crate) fn ok(&self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.stdout().trim_end_matches('\n').to_owned()
    }

    /// What it said, if it failed with this code and in words.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        let said = self.said();
        assert!(said.starts_with("error: "), "{self:?}");
        assert_civil(&said.replace(&self.base, ""));
        said.trim_end_matches('\n').to_owned()
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.ok()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// What it said on stderr, but for what it remarks before it begins.
    #[track_caller]
    pub(crate) fn said(&self) -> String {
        without_remarks(&self.stderr())
    }

    #[track_caller]
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.stderr.clone()).unwrap()
    }
}

/// What a command said on stderr, but for what it remarks before it begins.
pub(crate) fn without_remarks(stderr: &str) -> String {
    let is_remark = |line: &&str| line.starts_with("warning: ") || line.starts_with("note: ");
    stderr.split_inclusive('\n').skip_while(is_remark).collect()
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |bytes: &[u8]| -> String {
            String::from_utf8_lossy(bytes).chars().take(4_000).collect()
        };
        let (out, err) = (short(&self.stdout), short(&self.stderr));
        write!(f, "{}\n{}\nstdout: {out}\nstderr: {err}", self.shown, self.status)
    }
}

/// A message is for people: no panics, no SQL, no debug prints, no control characters.
#[track_caller]
pub(crate) fn assert_civil(message: &str) {
    const UNCIVIL: &[&str] = &[
        "panicked",
        "RUST_BACKTRACE",
        "sqlite",
        "SQL",
        "select ",
        "insert into",
        "no such table",
        "no such column",
        "constraint failed",
        "FOREIGN",
        "UNIQUE",
        "Some(",
        "Err(",
        "Os {",
        "Error {",
        "Error(",
        "called `",
    ];
    for word in UNCIVIL {
        assert!(!message.contains(word), "{word:?} in {message:?}");
    }
    let is_raw = |c: char| c.is_control() && c != '\n';
    assert!(!message.contains(is_raw), "a control character in {message:?}");
}

/// A child that is ended when the test is.
pub(crate) struct Background {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Background {
    fn start(mut command: Command) -> Background {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, lines) = mpsc::channel();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut err = child.stderr.take().unwrap();
        thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|read| read > 0) && line.ends_with('\n') {
                if tell.send(line.trim_end().to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        let stderr = Some(thread::spawn(move || read_all(&mut err)));
        Background { child, lines, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ends within this time.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        wait_until(Instant::now() + time, || self.child.try_wait().unwrap()).is_some()
    }

    /// The next line it prints; none once it has printed its last.
    pub(crate) fn next_line(&self) -> Option<String> {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it prints nothing"),
        }
    }

    /// Ends it as nothing can prevent. It is dead afterwards, and a zombie until `finish`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        let pid = WaitId::Pid(Pid::from_child(&self.child));
        waitid(pid, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    }

    /// Waits for its end: how it ended, the lines that nobody has read, and its stderr.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<String>, String) {
        drop(self.child.stdin.take());
        let lines = std::iter::from_fn(|| self.next_line()).collect();
        let deadline = Instant::now() + DEADLINE;
        let status = wait_until(deadline, || self.child.try_wait().unwrap());
        let status = status.expect("it has closed its stdout and does not end");
        let stderr = self.stderr.take().unwrap().join().unwrap();
        (status, lines, String::from_utf8(stderr).unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of an export: a task with what is given, and defaults for the rest.
pub(crate) fn task_line(given: &Value) -> String {
    let task = json!({
        "type": "task", "id": "t-000001", "key": null, "kind": "work", "parent": null,
        "feature": null, "title": "Imported", "description": "", "priority": 0,
        "status": "pending", "reason": null, "retries": 0, "max_retries": null,
        "not_before": null, "created_by": null, "created_at": "2026-11-16T02:24:16.123Z",
        "updated_at": "2026-11-16T02:24:16.123Z",
    });
    merged(task, given)
}

/// A line of an export: a feature with what is given, and defaults for the rest.
pub(crate) fn feature_line(given: &Value) -> String {
    let feature = json!({
        "type": "feature", "id": "f-000001", "name": "login", "status": "draft",
        "spec_path": null, "plan_path": null, "created_at": "2026-11-16T02:24:16.123Z",
        "updated_at": "2026-11-16T02:24:16.123Z",
    });
    merged(feature, given)
}

fn merged(mut line: Value, given: &Value) -> String {
    for (name, value) in given.as_object().unwrap() {
        line[name] = value.clone();
    }
    format!("{line}\n")
}

/// The ids of the tasks in an array.
#[track_caller]
pub(crate) fn ids(tasks: &Value) -> Vec<&str> {
    tasks.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

/// Asserts every rule of the database, as the program sees it and as the library does.
#[track_caller]
pub(crate) fn check_rules(project: &Project) {
    let checks = project.ralph(["doctor", "--json"]).json();
    let database: Vec<&Value> =
        checks.as_array().unwrap().iter().filter(|check| check["name"] == "database").collect();
    assert!(!database.is_empty(), "{checks}");
    assert!(database.iter().all(|check| check["result"] == "ok"), "{checks}");
    let findings = project.store().check().unwrap();
    assert!(findings.is_empty(), "{findings:?}");
}

/// The back ends that work here, as ralph itself finds out; the others are said to be skipped.
pub(crate) fn working_sandboxes() -> Vec<&'static str> {
    let checks = Project::new().ralph(["doctor", "--json"]).stdout();
    let works = checks.split_once("works here: ").map_or("", |it| it.1);
    let (there, missing): (Vec<_>, Vec<_>) =
        ["bwrap", "landlock"].into_iter().partition(|name| works.contains(name));
    for name in missing {
        // Not by a macro: those are only heard when a test fails.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} does not work here");
    }
    there
}

/// Asserts that no process of this test is left.
#[track_caller]
pub(crate) fn assert_no_process_left(project: &Project) {
    let marker = project.base.display().to_string();
    let none =
        wait_until(Instant::now() + DEADLINE, || processes_with(&marker).is_empty().then_some(()));
    assert!(none.is_some(), "left: {:?}", processes_with(&marker));
}

fn processes_with(marker: &str) -> Vec<String> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let has_marker = |path: &PathBuf| {
        ["environ", "cmdline"].iter().any(|file| {
            let bytes = fs::read(path.join(file)).unwrap_or_default();
            bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
        })
    };
    names.filter(has_marker).map(|path| path.display().to_string()).collect()
}

/// Asks again and again until there is an answer or the deadline has come.
pub(crate) fn wait_until<T>(deadline: Instant, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let answer = ask();
        if answer.is_some() || Instant::now() > deadline {
            return answer;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn read_all(source: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).unwrap();
    bytes
}

pub(crate) fn is_task_id(text: &str) -> bool {
    text.parse::<ralph::dag::TaskId>().is_ok()
}

fn mask_ids(text: &str) -> String {
    const LENGTH: usize = "t-3f9a01".len();
    let mut names: HashMap<String, char> = HashMap::new();
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let follows_word = masked.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        let is_example = |id: &&str| id.ends_with("3f9a01") || id.ends_with("xxxxxx");
        let id = rest.get(..LENGTH).filter(|id| !follows_word && is_id(id) && !is_example(id));
        let ends = !rest[id.map_or(0, str::len)..].starts_with(|c: char| c.is_alphanumeric());
        match id.filter(|_| ends) {
            Some(id) => {
                let next = char::from(b'A' + u8::try_from(names.len()).unwrap());
                let name = *names.entry(id.to_owned()).or_insert(next);
                masked.extend(['[', name, ']']);
                rest = &rest[LENGTH..];
            }
            None => {
                masked.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    masked
}

fn is_id(text: &str) -> bool {
    is_task_id(text)
        || text.parse::<ralph::dag::FeatureId>().is_ok()
        || text.parse::<ralph::dag::AttemptId>().is_ok()
}

#[test]
fn ids_are_named_in_the_order_in_which_they_appear() {
    let text =
        "`t-zz0000` waits for t-aaaaaa, not t-zz0000; t-aaaaaaa, xt-aaaaaa and t-3f9a01 stay";
    let masked = "`[A]` waits for [B], not [A]; t-aaaaaaa, xt-aaaaaa and t-3f9a01 stay";
    assert_eq!(mask_ids(text), masked);
}
