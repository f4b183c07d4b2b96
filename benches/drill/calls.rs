//! Every command that ralph has, in a project with something of everything in it, and a judge of what
//! came of it when something was wrong with the world.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use ralph::dag::{AttemptId, FeatureId, RunId, TaskId};
use ralph::process::Holder;
use ralph::store::Store;
use ralph::time::Timestamp;
use rusqlite::Connection;
use serde_json::Value;

use crate::harness::{Output, Project, assert_civil};
use crate::report::Row;

/// What the agent does in every session: something for its task, and it says so.
const SCRIPT: &str =
    "say working | run ralph task list >list.txt | write made.txt something | done";

/// How long a text is that makes a brimful WAL overflow.
const LONG: usize = 100_000;
/// The exit code of a run that was interrupted, or whose reader went away.
pub(crate) const INTERRUPTED: i32 = 130;

/// A call of ralph.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) arguments: Vec<String>,
    input: &'static str,
    pub(crate) start: Start,
    pub(crate) kind: Kind,
}

/// What the project is like before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Start {
    /// An empty directory.
    Bare,
    /// After `ralph init`.
    New,
    /// With a feature and tasks in every state.
    Used,
    /// The same, and the next change moves the WAL into the database.
    Brimful,
    /// With a database of the first version.
    Old,
}

/// How it is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It looks, or makes one change: all of it or nothing.
    Whole,
    /// It takes steps that are recorded each for itself, and goes on where it was when called again.
    Steps,
    /// It says on its stdout what is wrong.
    Doctor,
}

impl Call {
    fn new(start: Start, kind: Kind, arguments: &[&str]) -> Call {
        let arguments = arguments.iter().map(|&it| it.to_owned()).collect();
        Call { arguments, input: "", start, kind }
    }

    /// It as one would type it.
    pub(crate) fn shown(&self) -> String {
        let arguments: String = self.arguments.join(" ").chars().take(80).collect();
        format!("{arguments} ({:?})", self.start)
    }

    /// Whether an agent has a part in it.
    pub(crate) fn has_agent(&self) -> bool {
        matches!(self.arguments[0].as_str(), "run" | "loop")
    }
}

/// A project to misuse, and what it is like when nobody does.
pub(crate) struct World {
    pub(crate) project: Project,
    starts: BTreeMap<Start, Files>,
    pub(crate) calls: Vec<Call>,
}

/// What a call does when all is well.
pub(crate) struct Expected {
    pub(crate) code: i32,
    pub(crate) prints: bool,
    stdout: String,
    before: State,
    after: State,
}

/// What is stored: as text in which times and ids are masked, the status of each task, and the files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    export: String,
    statuses: Vec<(String, String)>,
    files: Files,
}

impl World {
    pub(crate) fn new() -> World {
        let project = Project::bare();
        let mut starts = BTreeMap::new();
        starts.insert(Start::Bare, Files::of(project.root()));
        project.ralph(["init"]).ok();
        project.git_init();
        starts.insert(Start::New, Files::of(project.root()));
        let ids = furnish(&project);
        starts.insert(Start::Used, Files::of(project.root()));
        fill_wal(&project, &ids.done);
        starts.insert(Start::Brimful, Files::of(project.root()));
        starts[&Start::New].put(project.root());
        make_old(&project);
        starts.insert(Start::Old, Files::of(project.root()));
        World { project, starts, calls: calls(&ids) }
    }

    /// Makes everything as it is before this call.
    pub(crate) fn prepare(&self, call: &Call) {
        self.starts[&call.start].put(self.project.root());
    }

    /// The files as they are before such a call.
    pub(crate) fn files(&self, start: Start) -> &Files {
        &self.starts[&start]
    }

    /// The call, not started yet.
    pub(crate) fn command(&self, call: &Call) -> Command {
        self.project.ralph_with(SCRIPT, &call.arguments)
    }

    /// What the call reads from its stdin.
    pub(crate) fn input(call: &Call) -> Option<Vec<u8>> {
        Some(call.input.as_bytes().to_vec())
    }

    /// Makes the call; how it ended, or why that can't be told.
    pub(crate) fn run(&self, call: &Call, command: Command) -> Result<Ended, String> {
        attempt(|| self.project.run(command, World::input(call))).map(Ended::from)
    }

    /// What the call does when nothing is wrong.
    pub(crate) fn expect(&self, call: &Call) -> Expected {
        self.prepare(call);
        self.expect_now(call)
    }

    /// What the call does when nothing is wrong, with everything as it is.
    pub(crate) fn expect_now(&self, call: &Call) -> Expected {
        let before = self.state().unwrap();
        let output = self.project.run(self.command(call), World::input(call));
        let after = self.state().unwrap();
        Expected {
            code: output.status.code().unwrap_or_else(|| panic!("{output:?}")),
            prints: !output.stdout.is_empty(),
            stdout: self.comparable(&output.stdout()),
            before,
            after,
        }
    }

    /// What is stored now; what is wrong with it if something is.
    pub(crate) fn state(&self) -> Result<State, String> {
        attempt(|| self.look()).and_then(|it| it.map_err(|error| format!("{error:#}")))
    }

    fn look(&self) -> anyhow::Result<State> {
        let files = Files::of(self.project.root()).without_database();
        let database = self.project.database();
        let mut export = Vec::new();
        // None at all, and one that nothing was ever written to, are the same.
        if fs::metadata(&database).is_ok_and(|it| it.len() > 0) {
            let mut store = Store::open(&database)?;
            store.take_back(Holder::life, Timestamp::now())?;
            let findings = store.check()?;
            anyhow::ensure!(findings.is_empty(), "{findings:?}");
            store.export(&mut export)?;
        }
        let export = String::from_utf8(export)?;
        let mut statuses = Vec::new();
        for line in export.lines() {
            let line: Value = serde_json::from_str(line)?;
            if line["type"] == "task" {
                statuses.push((line["title"].to_string(), line["status"].to_string()));
            }
        }
        let lines: Vec<&str> = export.lines().skip(1).collect();
        Ok(State { export: self.comparable(&lines.join("\n")), statuses, files })
    }

    /// A text without what differs each time.
    fn comparable(&self, text: &str) -> String {
        mask(&text.replace(&*self.project.base().to_string_lossy(), "[BASE]"))
    }

    /// Judges a call while something was wrong with the world. Nothing is wrong any more.
    pub(crate) fn judge(
        &self,
        call: &Call,
        expected: &Expected,
        fault: &Fault<'_>,
        outcome: Result<Ended, String>,
        tally: &mut Tally,
    ) {
        tally.calls += 1;
        let verdict = self.verdict(call, expected, fault, outcome);
        match verdict {
            Ok(Held::Worked) => tally.worked += 1,
            Ok(Held::Refused) => tally.refused += 1,
            Ok(Held::Late) => tally.late += 1,
            Err((wrong, why)) => {
                let finding = format!("{}: {}: {wrong:?}: {why}", fault.name, call.shown());
                tally.findings.push((wrong, finding));
            }
        }
    }

    fn verdict(
        &self,
        call: &Call,
        expected: &Expected,
        fault: &Fault<'_>,
        outcome: Result<Ended, String>,
    ) -> Result<Held, (Wrong, String)> {
        let Ended { code, stdout, stderr } = outcome.map_err(|why| (Wrong::End, why))?;
        let shown = format!("exit code {code:?}\nstdout: {stdout}\nstderr: {stderr}");
        let code = code.ok_or_else(|| (Wrong::End, shown.clone()))?;
        if stdout.contains("panicked") || stderr.contains("panicked") {
            return Err((Wrong::End, shown));
        }
        let state = self.state().map_err(|why| (Wrong::Damage, format!("{why}: {shown}")))?;
        if fault.ends_runs && call.has_agent() && code == INTERRUPTED {
            self.works_again(call, expected).map_err(|why| (Wrong::After, why))?;
            return Ok(Held::Worked);
        }
        if code == expected.code {
            if !state.is_reached(call, expected) {
                let differs = state.differs_from(&expected.after);
                return Err((Wrong::Success, format!("{differs}: {shown}")));
            }
            let printed = self.comparable(&stdout);
            if call.kind == Kind::Whole && !fault.hides_stdout && !printed.is_like(&expected.stdout)
            {
                return Err((Wrong::Success, format!("it printed something else: {shown}")));
            }
            return Ok(Held::Worked);
        }
        self.civil(call, fault, code, &stdout, &stderr).map_err(|why| (Wrong::Words, why))?;
        let is_whole = state == expected.before || state == expected.after;
        if call.kind != Kind::Steps && !is_whole {
            let differs = state.differs_from(&expected.before);
            return Err((Wrong::Half, format!("{differs}: {shown}")));
        }
        let is_late = state != expected.before && call.kind == Kind::Whole;
        // It may have done it all and be unable to say so, or have one more thing to say.
        let may_be_late = fault.hides_stdout || stderr.contains("but not its files");
        if is_late && !may_be_late {
            return Err((Wrong::Words, format!("it says that it failed, and it did not: {shown}")));
        }
        if !is_late {
            self.works_again(call, expected)
                .map_err(|why| (Wrong::After, format!("{why}\nbefore: {shown}")))?;
        }
        Ok(if is_late { Held::Late } else { Held::Refused })
    }

    /// Whether what was said when it did not work is for people.
    fn civil(
        &self,
        call: &Call,
        fault: &Fault<'_>,
        code: i32,
        stdout: &str,
        stderr: &str,
    ) -> Result<(), String> {
        let shown = || format!("exit code {code}\nstdout: {stdout}\nstderr: {stderr}");
        let base = self.project.base().to_string_lossy();
        let said = if call.kind == Kind::Doctor { stdout } else { stderr };
        attempt(|| assert_civil(&said.replace(&*base, ""))).map_err(|why| why + &shown())?;
        let fits = match call.kind {
            Kind::Doctor if !fault.hides_stdout => said.contains("error"),
            Kind::Steps if code != 1 => stderr.is_empty() || !stdout.is_empty(),
            _ => fault.hides_stderr || stderr.lines().any(|line| line.starts_with("error: ")),
        };
        let codes: &[i32] = if call.kind == Kind::Steps { &[1, 3, 4] } else { &[1] };
        if fits && codes.contains(&code) { Ok(()) } else { Err(shown()) }
    }

    /// What did not work does once the world is in order.
    fn works_again(&self, call: &Call, expected: &Expected) -> Result<(), String> {
        let output = self.run(call, self.command(call))?;
        let state = self.state()?;
        let code = output.code;
        if !state.is_reached(call, expected) {
            return Err(format!("{}: {output:?}", state.differs_from(&expected.after)));
        }
        // A run that has nothing left to do says so in another way.
        let fits = code == Some(expected.code) || call.has_agent() && code == Some(0);
        if fits { Ok(()) } else { Err(format!("{output:?}")) }
    }
}

/// How a call ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None if it was by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let (stdout, stderr) = (lossy(&output.stdout), lossy(&output.stderr));
        Ended { code: output.status.code(), stdout, stderr }
    }
}

/// What is wrong with the world, and what of a call it hides.
#[derive(Clone, Copy)]
pub(crate) struct Fault<'a> {
    pub(crate) name: &'a str,
    /// Nobody can tell what it would have printed.
    pub(crate) hides_stdout: bool,
    /// Nobody can tell what it would have said.
    pub(crate) hides_stderr: bool,
    /// A run may end early, as interrupted: its reader is gone.
    pub(crate) ends_runs: bool,
}

impl<'a> Fault<'a> {
    pub(crate) fn new(name: &'a str) -> Fault<'a> {
        Fault { name, hides_stdout: false, hides_stderr: false, ends_runs: false }
    }
}

/// How a call ended as it may.
enum Held {
    /// As if nothing were wrong.
    Worked,
    /// With an error, and nothing was changed.
    Refused,
    /// With an error, and everything was changed.
    Late,
}

/// What a call must never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Panic, die by a signal, or not end.
    End,
    /// Say something that is not for people, or not true.
    Words,
    /// Leave half of a change.
    Half,
    /// Say that it worked when it did not.
    Success,
    /// Damage the database.
    Damage,
    /// Not work when all is well again.
    After,
}

/// What became of many calls.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) calls: usize,
    pub(crate) worked: usize,
    pub(crate) refused: usize,
    pub(crate) late: usize,
    pub(crate) findings: Vec<(Wrong, String)>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.calls += other.calls;
        self.worked += other.worked;
        self.refused += other.refused;
        self.late += other.late;
        self.findings.extend(other.findings);
    }

    /// Takes note of a call that ended with another exit code than it should.
    pub(crate) fn wrong_code(&mut self, call: &Call, fault: &Fault<'_>, outcome: &str) {
        self.calls += 1;
        let finding = format!("{}: {}: another exit code: {outcome}", fault.name, call.shown());
        self.findings.push((Wrong::Success, finding));
    }

    /// The rows of a document; what was found is told on stderr.
    pub(crate) fn rows(&self) -> Vec<Row> {
        use Wrong::{After, Damage, End, Half, Success, Words};
        let mut rows = vec![
            Row::told("calls of ralph", self.calls),
            Row::told("worked all the same", self.worked),
            Row::told("a clear error, nothing changed, and it works afterwards", self.refused),
            Row::told("a clear error that what was done can't be told or cleaned up", self.late),
        ];
        rows.extend(self.rows_of(&[End, Words, Half, Success, Damage, After]));
        rows
    }

    /// The rows about what must never be.
    pub(crate) fn rows_of(&self, wrongs: &[Wrong]) -> Vec<Row> {
        const SHOWN: usize = 30;
        for (_, finding) in self.findings.iter().take(SHOWN) {
            let _ = writeln!(std::io::stderr(), "FOUND {finding}\n");
        }
        let count = |wrong| self.findings.iter().filter(|it| it.0 == wrong).count();
        wrongs.iter().map(|&wrong| Row::never(wrong.sentence(), count(wrong))).collect()
    }
}

impl Wrong {
    fn sentence(self) -> &'static str {
        match self {
            Wrong::End => "panics, deaths by a signal, hangs",
            Wrong::Words => "errors not in clear and true words",
            Wrong::Half => "changes by halves",
            Wrong::Success => "successes that are none",
            Wrong::Damage => "databases that break a rule",
            Wrong::After => "calls that do not work when all is well again",
        }
    }
}

impl State {
    /// Whether everything is there that the call is for.
    fn is_reached(&self, call: &Call, expected: &Expected) -> bool {
        match call.kind {
            Kind::Whole | Kind::Doctor => self == &expected.after,
            // How often an agent tried is another matter.
            Kind::Steps => {
                self.statuses == expected.after.statuses && self.files == expected.after.files
            }
        }
    }

    /// Where two states differ, to look at.
    fn differs_from(&self, other: &State) -> String {
        let lines = |it: &State| {
            let files = it.files.0.iter().map(|(path, bytes)| format!("{path:?} {}", lossy(bytes)));
            it.export.lines().map(str::to_owned).chain(files).collect::<Vec<_>>()
        };
        let (ours, theirs) = (lines(self), lines(other));
        let more =
            ours.iter().filter(|line| !theirs.contains(line)).map(|line| format!("+ {line}"));
        let less =
            theirs.iter().filter(|line| !ours.contains(line)).map(|line| format!("- {line}"));
        let short = |line: String| line.chars().take(160).collect::<String>();
        more.chain(less).take(6).map(short).collect::<Vec<_>>().join("\n")
    }
}

/// Whether a text is what it would be at another time.
trait IsLike {
    fn is_like(&self, other: &str) -> bool;
}

impl IsLike for String {
    fn is_like(&self, other: &str) -> bool {
        // What is for people says how long ago something was.
        if self.starts_with(['{', '[']) {
            self == other
        } else {
            self.lines().count() == other.lines().count()
        }
    }
}

/// Files and what is in them; an empty directory is a name that ends with a slash.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Files(BTreeMap<PathBuf, Vec<u8>>);

impl Files {
    /// All in this directory but what belongs to git.
    pub(crate) fn of(root: &Path) -> Files {
        fn collect(root: &Path, place: &Path, files: &mut Files) {
            let mut entries = fs::read_dir(place).unwrap().peekable();
            if entries.peek().is_none() {
                files.0.insert(place.strip_prefix(root).unwrap().join(""), Vec::new());
            }
            for entry in entries {
                let path = entry.unwrap().path();
                match path.file_name().unwrap().to_str() {
                    Some(".git") => {}
                    _ if path.is_dir() => collect(root, &path, files),
                    _ => {
                        let name = path.strip_prefix(root).unwrap().to_owned();
                        files.0.insert(name, fs::read(&path).unwrap());
                    }
                }
            }
        }
        let mut files = Files::default();
        collect(root, root, &mut files);
        files
    }

    /// Makes the directory hold these and nothing else, but for what belongs to git.
    pub(crate) fn put(&self, root: &Path) {
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            match path.file_name().unwrap().to_str() {
                Some(".git") => {}
                _ if path.is_dir() => fs::remove_dir_all(&path).unwrap(),
                _ => fs::remove_file(&path).unwrap(),
            }
        }
        for (name, bytes) in &self.0 {
            let path = root.join(name);
            if name.to_string_lossy().is_empty() {
                continue;
            }
            if name.to_string_lossy().ends_with('/') {
                fs::create_dir_all(&path).unwrap();
                continue;
            }
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap();
            file.write_all(bytes).unwrap();
        }
    }

    /// The same with this in place of what is in one file, or without that file.
    pub(crate) fn with(&self, name: &str, bytes: Option<&[u8]>) -> Files {
        let mut files = self.clone();
        files.0.remove(Path::new(name));
        files.0.extend(bytes.map(|bytes| (name.into(), bytes.to_vec())));
        files
    }

    /// What is in a file.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(Path::new(name)).map(Vec::as_slice)
    }

    /// Those that a person would look at.
    fn without_database(mut self) -> Files {
        let is_ours = |name: &Path| {
            let name = name.to_string_lossy();
            name.starts_with(".ralph/progress.db")
                || matches!(&*name, ".ralph/" | ".ralph/run.json")
                // What could not be removed any more, of which one is told.
                || name.contains(".deleted-")
                || name == ".ralph/features/"
        };
        let is_made = |name: &Path| {
            name.starts_with("list.txt")
                || name.starts_with("made.txt")
                || name.starts_with("made.part")
        };
        self.0.retain(|name, _| !is_ours(name) && !is_made(name));
        self
    }
}

/// The ids in the project that the calls need.
struct Ids {
    group: String,
    pending: String,
    waiting: String,
    failed: String,
    blocked: String,
    done: String,
    export: &'static str,
}

/// A feature, tasks in every state, and sessions.
fn furnish(project: &Project) -> Ids {
    project.write_feature("login", "# Spec\nIt works", "# Plan\nMake it work");
    project.feature("login");
    let group = project.add(["API", "--group", "--feature", "login"]);
    let inside = |title: &str| project.add([title, "-d", "about it", "--parent", &group]);
    let (pending, done) = (inside("Endpoints"), inside("Schema"));
    let waiting = project.add(["Client", "--feature", "login", "--after", &pending]);
    let (failed, blocked) = (project.add(["Logo"]), project.add(["Name"]));
    let session = project.ralph_with(SCRIPT, ["run", &done, "--headless", "--no-verify"]);
    project.run(session, None).ok();
    project.ralph(["task", "fail", &failed, "-r", "no idea"]).ok();
    project.ralph(["task", "block", &blocked, "-r", "which one?"]).ok();
    project.ralph(["task", "log", &pending, "-m", "a note"]).ok();
    let lines: String =
        (0..40).map(|number| format!("{{\"title\": \"One of many {number}\"}}\n")).collect();
    project.add_lines(lines);
    settle(project);
    let export: &'static str = project.export().leak();
    settle(project);
    for made in ["made.txt", "list.txt"] {
        fs::remove_file(project.root().join(made)).unwrap();
    }
    Ids { group, pending, waiting, failed, blocked, done, export }
}

/// Writes until one more write moves the WAL into the database.
fn fill_wal(project: &Project, task: &str) {
    /// When that happens, in bytes (WAL_LIMIT in the store).
    const LIMIT: u64 = 5 << 18;
    let size =
        || fs::metadata(project.database().with_extension("db-wal")).map_or(0, |it| it.len());
    let text = "x".repeat(LONG);
    while size() < LIMIT - 2 * LONG as u64 - (20 << 10) {
        project.ralph_reading(&text, ["task", "update", task, "-d", "-"]).ok();
    }
    while size() < LIMIT - LONG as u64 {
        project.ralph(["task", "update", task, "-d", "x"]).ok();
    }
    assert!(size() < LIMIT, "{}", size());
}

/// The database of a ralph that knew nothing of verdicts.
fn make_old(project: &Project) {
    let connection = Connection::open(project.database()).unwrap();
    connection.execute_batch(include_str!("../../migrations/0001_tasks.sql")).unwrap();
    connection
        .execute_batch(
            "pragma application_id = 0x524c5048;
             pragma user_version = 1;
             insert into tasks (id, kind, title, status, created_at, updated_at, starts, ends)
             values ('t-3f9a01', 'work', 'Old', 'pending', '2026-01-01T00:00:00.000Z',
                 '2026-01-01T00:00:00.000Z', 1000, 2000)",
        )
        .unwrap();
}

/// Moves everything into the one file of the database.
pub(crate) fn settle(project: &Project) {
    let connection = Connection::open(project.database()).unwrap();
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
}

/// One call of every command, and those on databases of another kind.
fn calls(ids: &Ids) -> Vec<Call> {
    use Kind::{Doctor, Steps, Whole};
    use Start::{Bare, Brimful, New, Old, Used};
    let Ids { group, pending, waiting, failed, blocked, done, export } = ids;
    // Where nothing can be written, ralph can't remember what its own sessions left in the tree.
    let run = &["run", "login", "--headless", "--no-verify", "--yes", "--allow-dirty"];
    let mut calls = vec![
        Call::new(Bare, Steps, &["init"]),
        Call::new(Used, Whole, &["init"]),
        Call::new(Used, Whole, &["task", "add", "More", "-d", "about it", "--after", pending]),
        Call::new(Used, Whole, &["task", "add", "More", "--parent", group, "--key", "more"]),
        Call::new(Used, Whole, &["task", "show", done]),
        Call::new(Used, Whole, &["task", "show", done, "--json"]),
        Call::new(Used, Whole, &["task", "list"]),
        Call::new(Used, Whole, &["task", "list", "--json"]),
        Call::new(Used, Whole, &["task", "list", "--ready", "--json"]),
        Call::new(Used, Whole, &["task", "tree"]),
        Call::new(Used, Whole, &["task", "tree", "--json"]),
        Call::new(Used, Whole, &["task", "next", "--json"]),
        Call::new(Used, Whole, &["task", "update", pending, "--title", "New", "--priority", "3"]),
        Call::new(Used, Whole, &["task", "delete", waiting, "--yes"]),
        Call::new(Used, Whole, &["task", "done", pending]),
        Call::new(Used, Whole, &["task", "fail", pending, "-r", "why"]),
        Call::new(Used, Whole, &["task", "block", pending, "-r", "what?"]),
        Call::new(Used, Whole, &["task", "reset", failed]),
        Call::new(Used, Whole, &["task", "reset", blocked]),
        Call::new(Used, Whole, &["task", "log", pending]),
        Call::new(Used, Whole, &["task", "log", pending, "-m", "another"]),
        Call::new(Used, Whole, &["task", "deps", "add", failed, blocked]),
        Call::new(Used, Whole, &["task", "deps", "rm", pending, waiting]),
        Call::new(Used, Whole, &["task", "deps", "list", waiting]),
        Call::new(Used, Whole, &["task", "create"]),
        Call::new(Used, Whole, &["feature", "list"]),
        Call::new(Used, Whole, &["feature", "list", "--json"]),
        Call::new(Used, Whole, &["feature", "show", "login", "--json"]),
        Call::new(Used, Whole, &["feature", "delete", "login", "--yes"]),
        Call::new(Used, Whole, &["feature", "spec", "login"]),
        Call::new(Used, Whole, &["status"]),
        Call::new(Used, Whole, &["status", "--json"]),
        Call::new(Used, Whole, &["logs"]),
        Call::new(Used, Whole, &["logs", done, "--json"]),
        Call::new(Used, Whole, &["logs", done, "1"]),
        Call::new(Used, Whole, &["logs", done, "--raw"]),
        Call::new(Used, Whole, &["graph"]),
        Call::new(Used, Whole, &["graph", "--format", "dot"]),
        Call::new(Used, Whole, &["graph", "--format", "mermaid"]),
        Call::new(Used, Whole, &["export"]),
        Call::new(Used, Whole, &["config", "show"]),
        Call::new(Used, Whole, &["config", "show", "--json"]),
        Call::new(Used, Whole, &["pause"]),
        Call::new(Used, Whole, &["resume"]),
        Call::new(Used, Whole, &["completions", "bash"]),
        Call::new(Used, Whole, &["--help"]),
        Call::new(Used, Doctor, &["doctor"]),
        Call::new(Used, Doctor, &["doctor", "--json"]),
        Call::new(Used, Whole, &["run", "--dry-run"]),
        Call::new(Used, Steps, run),
        Call::new(
            Used,
            Steps,
            &["run", group, "--headless", "--no-verify", "--format", "jsonl", "--allow-dirty"],
        ),
        Call::new(Used, Steps, &["loop", "1", "--afk", "-p", "hello", "--allow-dirty"]),
        Call::new(New, Whole, &["task", "add", "The first"]),
        Call::new(New, Whole, &["status", "--json"]),
        Call::new(Old, Whole, &["task", "done", "t-3f9a01"]),
        Call::new(Old, Whole, &["task", "list", "--json"]),
        Call::new(Brimful, Whole, &["task", "add", "More", "-d", &"x".repeat(LONG)]),
        Call::new(Brimful, Whole, &["task", "fail", pending, "-r", &"x".repeat(LONG)]),
    ];
    let lines = "{\"title\": \"A\", \"key\": \"a\"}\n{\"title\": \"B\", \"after\": [\"a\"]}\n";
    for (start, arguments, input) in [
        (Used, &["task", "add", "--stdin"][..], lines),
        (Used, &["import"], *export),
        (New, &["import"], *export),
        (Used, &["task", "update", pending, "-d", "-"], "from stdin"),
    ] {
        calls.push(Call { input, ..Call::new(start, Whole, arguments) });
    }
    calls
}

/// What `ask` returns, or what it said when it panicked.
pub(crate) fn attempt<T>(ask: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(ask)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
    })
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text with ids as numbers in order of appearance, and without times.
fn mask(text: &str) -> String {
    const ID: usize = "t-3f9a01".len();
    const TIME: usize = "2026-11-16T02:24:16.123Z".len();
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut masked = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let begins = at == 0 || !bytes[at - 1].is_ascii_alphanumeric() && bytes[at - 1] != b'-';
        let word = |length| text.get(at..at + length).filter(|_| begins);
        let time = word(TIME).filter(|_| bytes[at].is_ascii_digit());
        let id = word(ID).filter(|_| bytes.get(at + 1) == Some(&b'-'));
        let length = if time.is_some_and(|time| time.parse::<Timestamp>().is_ok()) {
            masked.extend([&text[copied..at], "[TIME]"]);
            TIME
        } else if let Some(id) = id.filter(|id| is_id(id)) {
            let next = names.len();
            let name = names.entry(id).or_insert(next);
            masked.push_str(&format!("{}[{name}]", &text[copied..at]));
            ID
        } else {
            at += 1;
            continue;
        };
        at += length;
        copied = at;
    }
    masked.push_str(&text[copied..]);
    masked
}

fn is_id(text: &str) -> bool {
    text.parse::<TaskId>().is_ok()
        || text.parse::<FeatureId>().is_ok()
        || text.parse::<AttemptId>().is_ok()
        || text.parse::<RunId>().is_ok()
}
