//! Bytes of the database and its WAL that change, or are missing. SQLite keeps no checksum of a
//! database, so a byte inside a title can become another, and nobody can tell; what the graph is made
//! of is stored twice or follows from something else, so that a change there is found. A WAL has
//! checksums: what comes after a damaged byte did not happen.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result, bail};
use ralph::store::{Change, NewTask, Store, Target, explain};
use ralph::time::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::calls::{Start, Tally, World, Wrong, attempt, lossy};
use crate::harness::{DEADLINE, assert_civil};
use crate::random::Random;
use crate::report::Row;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "damage",
    about: "Bytes of the database and its WAL change or are missing.",
    run,
};

const DATABASE: &str = ".ralph/progress.db";
const WAL: &str = ".ralph/progress.db-wal";
/// How many changes are in the WAL.
const CHANGES: usize = 12;

/// The fields that say which records there are and how they hang together. The others are content.
const STRUCTURE: &[(&str, &[&str])] = &[
    ("export", &["version"]),
    ("feature", &["id", "name", "status"]),
    ("run", &["id", "kind"]),
    ("task", &["id", "key", "kind", "parent", "feature", "status"]),
    ("dependency", &["blocker", "blocked"]),
    ("attempt", &["id", "task", "number", "run", "outcome"]),
    ("log", &["task", "event"]),
];

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    let world = World::new();
    let sample = Arc::new(Sample::new(&world)?);
    let mut counts = Counts::default();
    let mut tally = Tally::default();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    let (tell, results) = mpsc::channel();
    let cases = dose.of(10_000, 300);
    for worker in 0..threads {
        let (tell, sample) = (tell.clone(), Arc::clone(&sample));
        let random = Random::new(dose.random.next());
        // Not in a scope: who hangs here would be waited for.
        thread::spawn(move || work(&sample, random, cases / threads + worker % 2, &tell));
    }
    drop(tell);
    loop {
        match results.recv_timeout(DEADLINE) {
            Ok((damage, result)) => counts.take(damage, result, &mut tally),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => bail!("a thread hangs or has died"),
        }
    }
    for _ in 0..dose.of(150, 1) {
        by_the_program(&world, &sample, &mut dose.random, &mut tally);
    }
    let mut rows = counts.rows();
    rows.push(Row::told("calls of ralph on some of these", tally.calls));
    rows.extend(tally.rows_of(&[Wrong::End, Wrong::Words, Wrong::Success, Wrong::Damage]));
    Ok(rows)
}

/// A database to damage, and what is in it.
struct Sample {
    database: Vec<u8>,
    /// The places where there is something.
    used: Vec<usize>,
    export: Vec<Value>,
    /// The same with a WAL, and what was in it after each change.
    base: Vec<u8>,
    wal: Vec<u8>,
    history: HashSet<String>,
    task: String,
}

impl Sample {
    fn new(world: &World) -> Result<Sample> {
        let database = world.files(Start::Used).bytes(DATABASE).context("no database")?.to_vec();
        let directory = TempDir::new()?;
        let path = directory.path().join("progress.db");
        fs::write(&path, &database)?;
        let mut store = Store::open(&path)?;
        let export = export(&store)?;
        let tasks = store.snapshot(Timestamp::now())?.tasks;
        let task = tasks.last().context("no task")?.id.to_string();
        let mut history = HashSet::from([export.clone()]);
        for number in 0..CHANGES {
            match number % 3 {
                0 => drop(store.add_tasks(&[new_task()], None, Timestamp::now())?),
                1 => drop(store.note(&task, "a note", None, Timestamp::now())?),
                _ => {
                    let title = Some(format!("Title {number}"));
                    let change = Change { title, ..Change::default() };
                    store.update_task(&task, &change, Timestamp::now())?;
                }
            }
            history.insert(self::export(&store)?);
        }
        let (base, wal) = (fs::read(&path)?, fs::read(path.with_extension("db-wal"))?);
        let export = export.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let used = (0..database.len()).filter(|&at| database[at] != 0).collect();
        Ok(Sample { database, used, export, base, wal, history, task })
    }
}

fn export(store: &Store) -> Result<String> {
    let mut bytes = Vec::new();
    store.export(&mut bytes)?;
    Ok(String::from_utf8(bytes)?)
}

fn new_task() -> NewTask {
    NewTask { title: "New".into(), description: "About it".into(), ..NewTask::default() }
}

/// What is done to the files.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip { at: usize, by: u8 },
    Cut { length: usize },
    FlipWal { at: usize, by: u8 },
    CutWal { length: usize },
}

impl Damage {
    fn random(sample: &Sample, random: &mut Random) -> Damage {
        let mut below = |end: usize| random.below(end as u64) as usize;
        let by = if below(2) == 0 { 1 << below(8) } else { 1 + below(255) as u8 };
        match below(20) {
            // The first page is small and says much.
            0 => Damage::Flip { at: below(100), by },
            1..3 => Damage::Flip { at: below(sample.database.len()), by },
            3..13 => Damage::Flip { at: sample.used[below(sample.used.len())], by },
            13..15 => Damage::Cut { length: below(sample.database.len()) },
            15..19 => Damage::FlipWal { at: below(sample.wal.len()), by },
            _ => Damage::CutWal { length: below(sample.wal.len()) },
        }
    }

    /// The database, and the WAL if there is one.
    fn files(self, sample: &Sample) -> (Vec<u8>, Option<Vec<u8>>) {
        let (database, base, wal) = (&sample.database, &sample.base, &sample.wal);
        match self {
            Damage::Flip { at, by } => (flipped(database, at, by), None),
            Damage::Cut { length } => (database[..length].to_vec(), None),
            Damage::FlipWal { at, by } => (base.clone(), Some(flipped(wal, at, by))),
            Damage::CutWal { length } => (base.clone(), Some(wal[..length].to_vec())),
        }
    }
}

fn flipped(bytes: &[u8], at: usize, by: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= by;
    bytes
}

/// What came of it.
enum Fate {
    /// It can't be opened, and that is told.
    Refused,
    /// `ralph doctor` finds it; whether an export is another one.
    Found { differs: bool },
    /// Everything is as before, or as after an earlier change.
    Harmless,
    /// One record has another content.
    Content,
    /// What must not be.
    Wrong(Wrong, String),
}

fn work(sample: &Sample, mut random: Random, cases: usize, tell: &Sender<(Damage, Fate)>) {
    let directory = TempDir::new().expect("a temporary directory can be made");
    let path = directory.path().join("progress.db");
    for _ in 0..cases {
        let damage = Damage::random(sample, &mut random);
        let result = attempt(|| suffer(sample, damage, &path))
            .unwrap_or_else(|panic| Fate::Wrong(Wrong::End, panic));
        if tell.send((damage, result)).is_err() {
            return;
        }
    }
}

/// Damages the files and does everything that can be done with them.
fn suffer(sample: &Sample, damage: Damage, path: &PathBuf) -> Fate {
    let (database, wal) = damage.files(sample);
    for name in ["db-wal", "db-shm", "db-journal"] {
        let _ = fs::remove_file(path.with_extension(name));
    }
    fs::write(path, database).unwrap();
    if let Some(wal) = &wal {
        fs::write(path.with_extension("db-wal"), wal).unwrap();
    }
    let mut store = match Store::open(path) {
        Ok(store) => store,
        Err(error) => return told(&error, path, Fate::Refused),
    };
    let findings = match store.check() {
        Ok(findings) => findings.iter().map(ToString::to_string).collect(),
        Err(error) => vec![words(&error, path)],
    };
    let exported = export(&store);
    let result = match &exported {
        _ if findings.iter().any(|finding| !is_civil(finding)) => {
            Fate::Wrong(Wrong::Words, findings.join("\n"))
        }
        Err(error) if findings.is_empty() => {
            Fate::Wrong(Wrong::Success, format!("doctor finds nothing, and no export: {error:#}"))
        }
        Err(error) => told(error, path, Fate::Found { differs: false }),
        Ok(text) if findings.is_empty() && wal.is_some() => earlier(sample, text),
        Ok(text) if findings.is_empty() => compare(sample, text),
        Ok(text) => Fate::Found { differs: !matches!(compare(sample, text), Fate::Harmless) },
    };
    if matches!(result, Fate::Wrong(..)) {
        return result;
    }
    use_it(&mut store, sample, path, findings.is_empty()).err().unwrap_or(result)
}

/// Reads and writes; an error must be in words, and what was written must be there.
fn use_it(store: &mut Store, sample: &Sample, path: &Path, is_sound: bool) -> Result<(), Fate> {
    let now = Timestamp::now();
    let mut errors = Vec::new();
    errors.extend(store.snapshot(now).err());
    errors.extend(store.features().err());
    errors.extend(store.latest_attempts(20).err());
    errors.extend(store.counts(&Target::Everything).err());
    errors.extend(store.peek_next(&Target::Everything).err());
    errors.extend(store.find_task(&sample.task).err());
    errors.extend(store.note(&sample.task, "a note", None, now).err());
    errors.extend(store.add_dependency(&sample.task, "t-", now).err());
    let added = store.add_tasks(&[new_task()], None, now);
    for error in errors.iter().chain(added.as_ref().err()) {
        if let wrong @ Fate::Wrong(..) = told(error, path, Fate::Harmless) {
            return Err(wrong);
        }
    }
    // That nothing can be added any more is an answer.
    let Ok(added) = added else { return Ok(()) };
    let is_there = export(store).map(|it| is_as_added(&it, &added[0].to_string()));
    match is_there {
        Ok(false) => Err(Fate::Wrong(Wrong::Success, "what was added is not there".into())),
        Err(error) if is_sound => {
            Err(Fate::Wrong(Wrong::Damage, format!("no export after a change: {error:#}")))
        }
        // Doctor has found it; that it gets in the way now is told, too.
        Err(error) => match told(&error, path, Fate::Harmless) {
            wrong @ Fate::Wrong(..) => Err(wrong),
            _ => Ok(()),
        },
        _ if is_sound && !store.check().is_ok_and(|it| it.is_empty()) => {
            Err(Fate::Wrong(Wrong::Damage, "not sound any more after a change".into()))
        }
        _ => Ok(()),
    }
}

/// Whether the task that was added is there, with everything that it should have.
fn is_as_added(export: &str, id: &str) -> bool {
    let records = export.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let added = records.filter(|record| record["type"] == "task").find(|task| task["id"] == id);
    let Some(mut added) = added else { return false };
    for differs in ["created_at", "updated_at"] {
        added[differs] = Value::Null;
    }
    let expected = json!({
        "type": "task", "id": id, "key": null, "kind": "work", "parent": null, "feature": null,
        "title": "New", "description": "About it", "priority": 0, "status": "pending",
        "reason": null, "retries": 0, "max_retries": null, "not_before": null,
        "created_by": null, "created_at": null, "updated_at": null,
    });
    added == expected
}

/// What a person is told of an error.
fn words(error: &anyhow::Error, path: &Path) -> String {
    explain(error, path).map_or(format!("{error:#}"), |(what, hint)| format!("{what}\n{hint}"))
}

fn told(error: &anyhow::Error, path: &Path, otherwise: Fate) -> Fate {
    let words = words(error, path);
    if is_civil(&words) { otherwise } else { Fate::Wrong(Wrong::Words, words) }
}

fn is_civil(words: &str) -> bool {
    attempt(|| assert_civil(words)).is_ok()
}

/// With a WAL it is some earlier state, whole.
fn earlier(sample: &Sample, text: &str) -> Fate {
    if sample.history.contains(text) {
        Fate::Harmless
    } else {
        Fate::Wrong(Wrong::Success, "a state that never was".into())
    }
}

/// What another export than the first one means.
fn compare(sample: &Sample, text: &str) -> Fate {
    let Ok(now) = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>() else {
        return Fate::Wrong(Wrong::Success, "an export that is no JSON".into());
    };
    let other = |these: &[Value], those: &[Value]| -> Vec<Value> {
        these.iter().filter(|it| !those.contains(it)).cloned().collect()
    };
    let (new, old) = (other(&now, &sample.export), other(&sample.export, &now));
    match (&new[..], &old[..]) {
        ([], []) if now.len() == sample.export.len() => Fate::Harmless,
        ([new], [old]) if now.len() == sample.export.len() && structure(new) == structure(old) => {
            Fate::Content
        }
        _ => {
            let differs = format!("{old:?} became {new:?}").chars().take(2_000).collect();
            Fate::Wrong(Wrong::Success, differs)
        }
    }
}

fn structure(record: &Value) -> Vec<&Value> {
    let fields =
        STRUCTURE.iter().find(|(kind, _)| record["type"] == *kind).map_or(&[][..], |it| it.1);
    [&record["type"]].into_iter().chain(fields.iter().map(|field| &record[*field])).collect()
}

/// How often what happened.
#[derive(Default)]
struct Counts {
    flips: usize,
    cuts: usize,
    wals: usize,
    refused: usize,
    found: usize,
    differing: usize,
    harmless: usize,
    content: usize,
}

impl Counts {
    fn take(&mut self, damage: Damage, result: Fate, tally: &mut Tally) {
        match damage {
            Damage::Flip { .. } => self.flips += 1,
            Damage::Cut { .. } => self.cuts += 1,
            Damage::FlipWal { .. } | Damage::CutWal { .. } => self.wals += 1,
        }
        match result {
            Fate::Refused => self.refused += 1,
            Fate::Found { differs } => {
                self.found += 1;
                self.differing += usize::from(differs);
            }
            Fate::Harmless => self.harmless += 1,
            Fate::Content => self.content += 1,
            Fate::Wrong(wrong, why) => {
                tally.findings.push((wrong, format!("{damage:?}: {wrong:?}: {why}")));
            }
        }
    }

    fn rows(&self) -> Vec<Row> {
        vec![
            Row::told("changed bytes of the database", self.flips),
            Row::told("databases cut short", self.cuts),
            Row::told("WALs with a changed byte or cut short", self.wals),
            Row::told("refused with a clear error", self.refused),
            Row::told("opened, and `ralph doctor` finds it", self.found),
            Row::told(
                "… of which an export says something else, and does not fail",
                self.differing,
            ),
            Row::told("as before, or as after an earlier change", self.harmless),
            Row::told(
                "one record has another text, number or time, which nobody can tell",
                self.content,
            ),
        ]
    }
}

/// Every command on one damaged database: it ends, in time and in words.
fn by_the_program(world: &World, sample: &Sample, random: &mut Random, tally: &mut Tally) {
    let damage = Damage::random(sample, random);
    let (database, wal) = damage.files(sample);
    let files = world.files(Start::Used).with(DATABASE, Some(&database)).with(WAL, wal.as_deref());
    for call in world.calls.iter().filter(|call| call.start == Start::Used) {
        files.put(world.project.root());
        tally.calls += 1;
        let wrong = match world.run(call, world.command(call)) {
            Err(why) => Some((Wrong::End, why)),
            Ok(ended) => {
                let is_end =
                    matches!(ended.code, Some(0..=4)) && !ended.stderr.contains("panicked");
                let base = lossy(world.project.base().as_os_str().as_encoded_bytes());
                let wrong = if is_end { Wrong::Words } else { Wrong::End };
                let fine = is_end && is_civil(&ended.stderr.replace(&base, ""));
                (!fine).then(|| (wrong, format!("{ended:?}")))
            }
        };
        if let Some((wrong, why)) = wrong {
            tally.findings.push((wrong, format!("{damage:?}: {}: {why}", call.shown())));
        }
    }
}
