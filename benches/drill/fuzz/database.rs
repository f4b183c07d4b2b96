//! Lines that become tasks: imports, and `task add --stdin`.

use std::path::PathBuf;

use ralph::dag::{Ask, Outcome, Verb};
use ralph::jsonl;
use ralph::store::{Ending, NewRun, NewTask, SessionRecord, Store, Target as Wanted};
use ralph::time::Timestamp;
use tempfile::TempDir;

use super::mutate::Corpus;
use super::text::civil;
use super::{Reader, Target, memory, promise};

pub(super) const IMPORT: Target = Target {
    name: "import",
    promise: "all of it or nothing, every rule of the database holds afterwards, and an export that is \
              imported elsewhere is the same export",
    inputs: 150_000,
    readings: 1,
    corpus: || {
        let export = sample_export();
        let lines = export.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec);
        let lines: Vec<Vec<u8>> = lines.collect();
        Corpus::new([export.clone(), export.clone()].into_iter().chain(lines).collect(), WORDS)
            .together(3)
    },
    reader: import,
};

pub(super) const ADD: Target = Target {
    name: "add",
    promise: "all of it or nothing, as many ids as lines, and every rule of the database holds",
    inputs: 150_000,
    readings: 1,
    corpus: || {
        Corpus::new(ADDED.iter().map(|it| it.as_bytes().to_vec()).collect(), WORDS).together(5)
    },
    reader: add,
};

const WORDS: &[&str] = &[
    "\"parent\":",
    "\"after\":[",
    "\"key\":",
    "\"title\":\"x\"",
    "\"blocker\":",
    "\"blocked\":",
    "k1",
    "k2",
    "t-",
    "{}\n",
    "\n",
    "\r\n",
    "\\u0000",
    "\u{0}",
    "\u{feff}",
    "\"status\":\"done\"",
    "\"kind\":\"group\"",
    "\"feature\":\"login\"",
    "{\"type\":\"export\",\"version\":2}\n",
];

const ADDED: &[&str] = &[
    "{\"title\":\"One\",\"key\":\"k1\"}\n",
    "{\"title\":\"Two\",\"key\":\"k2\",\"after\":[\"k1\"]}\n",
    "{\"title\":\"Three\",\"after\":[\"k1\",\"k2\"],\"priority\":-5,\"max_retries\":2}\n",
    "{\"title\":\"Group\",\"group\":true,\"key\":\"g\",\"feature\":\"login\"}\n",
    "{\"title\":\"Inside\",\"parent\":\"g\",\"description\":\"größe\\n東京\"}\n",
    "{\"title\":\"One\",\"key\":\"k1\"}\n{\"title\":\"Two\",\"key\":\"k2\",\"after\":[\"k1\"]}\n{\"title\":\"In\",\"parent\":\"k2\"}\n",
];

/// When its export has more bytes than this, it begins anew.
const MANY: usize = 20_000;

/// A database that may be thrown away.
struct Place {
    directory: TempDir,
    store: Store,
    /// What is in it.
    export: Vec<u8>,
}

impl Place {
    fn new(lines: &[u8]) -> Place {
        let directory = TempDir::new_in(memory()).unwrap();
        let mut store = Store::open(&directory.path().join("progress.db")).unwrap();
        store.import(lines).unwrap();
        let export = export(&store);
        Place { directory, store, export }
    }

    /// Whether all or nothing happened; what is there afterwards is kept in mind.
    fn settle<T>(&mut self, result: Result<T, anyhow::Error>) -> Result<Option<T>, String> {
        let now = export(&self.store);
        match result {
            Err(error) => {
                promise(now == self.export, || format!("refused, and yet changed: {error:#}"))?;
                civil(&error)?;
                Ok(None)
            }
            Ok(value) => {
                self.export = now;
                let findings = self.store.check().map_err(|error| format!("{error:#}"))?;
                promise(findings.is_empty(), || format!("{findings:?}"))?;
                Ok(Some(value))
            }
        }
    }

    fn elsewhere(&self) -> PathBuf {
        self.directory.path().join("elsewhere.db")
    }
}

fn export(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.export(&mut bytes).unwrap();
    bytes
}

/// An export with one of everything.
fn sample_export() -> Vec<u8> {
    let directory = TempDir::new_in(memory()).unwrap();
    let mut store = Store::open(&directory.path().join("progress.db")).unwrap();
    let now: Timestamp = "2026-11-16T02:24:16.123Z".parse().unwrap();
    store.open_feature("login", now).unwrap();
    let tasks: Vec<NewTask> = jsonl::read(ADDED.concat().as_bytes())
        .unwrap()
        .into_iter()
        .map(|(line, task)| NewTask { line: Some(line), ..task })
        .collect();
    let ids = store.add_tasks(&tasks, None, now).unwrap();
    let run = store.start_run(&NewRun { max_cost: Some(1.5), ..NewRun::new() }, now).unwrap();
    for outcome in [Outcome::Failed, Outcome::Done, Outcome::Blocked] {
        let claim = store.claim_next(run, &Wanted::Everything, now).unwrap().unwrap();
        let session = SessionRecord {
            model: Some("opus".into()),
            bill: Some(ralph::dag::Bill { cost_usd: 0.1, ..Default::default() }),
            turns: Some(7),
            ..SessionRecord::default()
        };
        store.ask(claim.attempt, Ask::Done, Some("because")).unwrap();
        let ending = Ending { reason: Some("so it is".into()), session, ..Ending::new(outcome, 3) };
        store.finish(claim, &ending, now).unwrap();
    }
    store.note(&ids[2].to_string(), "a note", None, now).unwrap();
    store.apply(Verb::Block, &ids[3].to_string(), Some("held?"), None, now).unwrap();
    // Ids are random, and inputs are to come again.
    let mut text = String::from_utf8(export(&store)).unwrap();
    let mut names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    names.dedup();
    for (number, id) in names.iter().enumerate() {
        text = text.replace(id, &format!("t-00000{number}"));
    }
    for kind in ["f-", "r-", "a-"] {
        let mut number = 0;
        while let Some(at) = text.find(&format!("\"{kind}")).filter(|_| number < 10) {
            let id = text[at + 1..at + 9].to_owned();
            text = text.replace(&format!("\"{id}\""), &format!("\u{0}\"{kind}00000{number}\""));
            text = text.replace(&format!("\u{0}\"{kind}"), &format!("\"{}!", &kind[..1]));
            number += 1;
        }
        text = text.replace(&format!("\"{}!", &kind[..1]), &format!("\"{kind}"));
    }
    text.into_bytes()
}

fn import() -> Reader {
    let sample = sample_export();
    let mut place = Place::new(&sample);
    Box::new(move |bytes, random| {
        if place.export.len() > MANY {
            place = Place::new(&sample);
        }
        let result = place.store.import(bytes);
        if place.settle(result)?.is_none() || random.below(4) > 0 {
            return Ok(());
        }
        let path = place.elsewhere();
        let mut other = Store::open(&path).unwrap();
        let again = other.import(&*place.export).map(|_| export(&other));
        drop(other);
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
        let again = again.map_err(|error| format!("an export is refused: {error:#}"))?;
        promise(again == place.export, || {
            let same =
                again.iter().zip(&place.export).take_while(|(one, other)| one == other).count();
            let from = same.saturating_sub(200);
            let piece =
                |text: &[u8]| text[from..text.len().min(from + 400)].escape_ascii().to_string();
            format!(
                "imported and exported it differs:\n{}\n{}",
                piece(&place.export),
                piece(&again)
            )
        })
    })
}

fn add() -> Reader {
    let sample = sample_export();
    let mut place = Place::new(&sample);
    Box::new(move |bytes, _| {
        if place.export.len() > MANY {
            place = Place::new(&sample);
        }
        let mut lines = 0;
        let result = jsonl::read(bytes).and_then(|tasks| {
            let tasks: Vec<NewTask> = tasks
                .into_iter()
                .map(|(line, task)| NewTask { line: Some(line), ..task })
                .collect();
            lines = tasks.len();
            place.store.add_tasks(&tasks, None, Timestamp::now())
        });
        match place.settle(result)? {
            Some(ids) => promise(ids.len() == lines, || format!("{ids:?}")),
            None => Ok(()),
        }
    })
}
