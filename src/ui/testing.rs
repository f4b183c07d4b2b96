//! Snapshots for tests, from a few lines of text.

use std::collections::HashMap;
use std::io::{self, Write};

use super::terminal::Terminal;
use crate::dag::{FeatureId, Graph, Kind, Node, Snapshot, Status, Summary, Task, TaskId};
use crate::time::Timestamp;

pub(super) const PIPE: Terminal = Terminal::PLAIN;

pub(super) fn columns(width: usize) -> Terminal {
    Terminal { width: Some(width), colour: false }
}

/// What a function writes.
pub(super) fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The present of all tests.
pub(super) fn now() -> Timestamp {
    "2026-11-16T12:00:00.000Z".parse().unwrap()
}

pub(super) fn id(index: usize) -> TaskId {
    format!("t-{index:06}").parse().unwrap()
}

pub(super) fn feature(index: usize) -> FeatureId {
    format!("f-{index:06}").parse().unwrap()
}

pub(super) fn features(names: &[&str]) -> HashMap<FeatureId, String> {
    names.iter().enumerate().map(|(index, name)| (feature(index), (*name).to_owned())).collect()
}

/// Builds a snapshot from lines such as `api group: The API`, `login in api done: Log in`,
/// `ship after api feature 0 priority 2 failed: Ship it | because`.
pub(super) fn snapshot(text: &str) -> Snapshot {
    let lines: Vec<&str> =
        text.lines().map(str::trim_start).filter(|line| !line.is_empty()).collect();
    let names: Vec<&str> =
        lines.iter().map(|line| line.split([' ', ':']).next().unwrap()).collect();
    let index = |name: Option<&str>| names.iter().position(|n| Some(*n) == name).unwrap();
    let (mut nodes, mut tasks, mut dependencies) = (Vec::new(), Vec::new(), Vec::new());
    for (task, line) in lines.iter().enumerate() {
        let (words, said) = line.split_once(": ").unwrap_or((line, names[task]));
        let (title, reason) = said.split_once(" | ").unwrap_or((said, ""));
        let mut node = work(None);
        let mut summary = summary(task, title);
        summary.reason = (!reason.is_empty()).then(|| reason.into());
        let mut words = words.split(' ').skip(1);
        while let Some(word) = words.next() {
            match word {
                "group" => node.kind = Kind::Group,
                "in" => node.parent = Some(index(words.next())),
                "after" => dependencies.push((index(words.next()), task)),
                "claimed" => node.claimed = true,
                "deferred" => {
                    node.deferred = true;
                    summary.not_before = Some(now().plus(std::time::Duration::from_secs(300)));
                }
                "priority" => summary.priority = words.next().unwrap().parse().unwrap(),
                "feature" => {
                    summary.feature = Some(feature(words.next().unwrap().parse().unwrap()));
                }
                status => node.status = Status::from_name(status).unwrap(),
            }
        }
        nodes.push(node);
        tasks.push(summary);
    }
    build(tasks, nodes, &dependencies)
}

/// A bit of everything, with titles in awkward scripts.
pub(super) fn sample() -> Snapshot {
    snapshot(
        "setup done: Set up the project
        api group after setup: The HTTP API
        login in api done: Log in with a password
        oauth in api claimed feature 0: Log in with OAuth
        reset in api after oauth feature 0: Reset a forgotten password by mail, with a token that expires
        web group after api: The web pages
        home in web: ホームページ 👩‍👩‍👧‍👦 🇩🇪 Cafe\u{301}
        pay in web after home after oauth after reset feature 1: Pay
        mail failed: Send mail | the tests do not compile:\u{b}mismatched types in src/mail.rs:12, expected `&str`, found `String`
        news after mail: Newsletter
        db blocked priority -1: Choose a database | SQLite or Postgres? Both are in production already, and I can't tell which.
        ship after pay after news after db priority 5: Ship it
        later deferred: Try again later
        evil priority -3: \u{1b}[31mred\u{202e}desrever \"quoted\" <b>
        docs group: Documentation",
    )
}

pub(super) fn roots(snapshot: &Snapshot) -> Vec<usize> {
    all(snapshot).into_iter().filter(|&task| snapshot.parent(task).is_none()).collect()
}

pub(super) fn all(snapshot: &Snapshot) -> Vec<usize> {
    (0..snapshot.tasks.len()).collect()
}

pub(super) fn build(
    tasks: Vec<Summary>,
    nodes: Vec<Node>,
    dependencies: &[(usize, usize)],
) -> Snapshot {
    let graph = Graph::new(nodes, dependencies);
    let derived = graph.derive().unwrap();
    Snapshot { tasks, graph, derived }
}

pub(super) fn work(parent: Option<usize>) -> Node {
    Node { kind: Kind::Work, status: Status::Pending, parent, claimed: false, deferred: false }
}

pub(super) fn summary(task: usize, title: &str) -> Summary {
    Summary {
        id: id(task),
        title: title.into(),
        priority: 0,
        feature: None,
        reason: None,
        not_before: None,
        attempts: 0,
    }
}

/// The facts of a task in a snapshot.
pub(super) fn facts(snapshot: &Snapshot, index: usize) -> Task {
    let summary = &snapshot.tasks[index];
    let made: Timestamp = "2026-11-16T09:00:00.000Z".parse().unwrap();
    Task {
        id: summary.id,
        key: None,
        kind: snapshot.kind(index),
        parent: snapshot.parent(index).map(id),
        feature: summary.feature,
        title: summary.title.to_string(),
        description: String::new(),
        priority: summary.priority,
        status: Some(snapshot.graph.nodes()[index].status),
        reason: summary.reason.as_deref().map(str::to_owned),
        retries: 0,
        max_retries: None,
        not_before: summary.not_before,
        created_by: None,
        created_at: made,
        updated_at: made,
    }
}
