//! What grows for ever and is of no more use: logs of sessions, what attempts left behind, and the
//! directories of sessions that were killed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::{fs, io};

use anyhow::{Context, Result};

use super::git::{Git, KeptSalvage};
use super::owner::Owner;
use super::plan::Places;
use crate::agent::Scratch;
use crate::agent::log::LogFile;
use crate::dag::{AttemptId, SessionId};
use crate::process::booted;
use crate::store::Store;
use crate::time::Timestamp;

/// What can be removed.
#[derive(Debug)]
pub struct Leftovers {
    /// Logs of sessions.
    pub logs: Pile,
    /// Directories of sessions.
    pub directories: Pile,
    git: Option<Git>,
    salvages: Vec<KeptSalvage>,
}

/// Files or directories, and how large they are together.
#[derive(Debug, Default)]
pub struct Pile {
    /// Where they are.
    pub paths: Vec<PathBuf>,
    /// Their size.
    pub bytes: u64,
}

/// What may be forgotten.
struct Rule {
    /// Only what is older than this.
    before: Timestamp,
    /// When each attempt ended; none if it or its task is not done.
    over: HashMap<AttemptId, Option<Timestamp>>,
    /// When each session of a loop ended.
    loops: HashMap<SessionId, Timestamp>,
    /// Whether an attempt that is not known is one of a task that was deleted.
    knows_all: bool,
}

impl Leftovers {
    /// Looks for what is older than this and of no task that is not done. Without the project's own
    /// database (`is_own`) it can't be told what else belongs to a task.
    pub fn find(
        store: Option<&Store>,
        is_own: bool,
        places: &Places,
        before: Timestamp,
    ) -> Result<Leftovers> {
        let over = store.map(Store::attempts_over).transpose()?.unwrap_or_default();
        let knows_all = is_own && !over.is_empty();
        let loops = store.map(Store::loops_over).transpose()?.unwrap_or_default();
        let rule = Rule { before, over, loops, knows_all };
        let mut logs = Pile::default();
        for log in places.logs.list()? {
            if rule.forgets_log(&log, places.logs.is_private()) {
                logs.add(log.path, log.bytes);
            }
        }
        let mut directories = Pile::default();
        for found in Scratch::abandoned(&places.temporary, booted().and_then(Timestamp::from_epoch))
        {
            if found.modified < before {
                directories.add(found.path, found.bytes);
            }
        }
        let git = Git::find(&places.root)?;
        let mut salvages = git.as_ref().map(Git::salvages).transpose()?.unwrap_or_default();
        salvages.retain(|it| rule.forgets_salvage(it.owner, it.at));
        Ok(Leftovers { logs, directories, git, salvages })
    }

    /// How many things these are.
    pub fn count(&self) -> usize {
        self.logs.paths.len() + self.directories.paths.len() + self.salvages.len()
    }

    /// How large they are, without what is in the repository.
    pub fn bytes(&self) -> u64 {
        self.logs.bytes + self.directories.bytes
    }

    /// Where what attempts left behind is kept.
    pub fn salvages(&self) -> impl ExactSizeIterator<Item = &str> {
        self.salvages.iter().map(|it| it.reference.as_str())
    }

    /// Removes it, as much as can be; returns why some of it could not be.
    pub fn remove(&self) -> Vec<anyhow::Error> {
        let logs = self.logs.paths.iter().map(|path| (path, fs::remove_file(path)));
        let directories =
            self.directories.paths.iter().map(|path| (path, fs::remove_dir_all(path)));
        let mut failures = Vec::new();
        for (path, removed) in logs.chain(directories) {
            match removed {
                // Another ralph may be doing the same.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let error = anyhow::Error::from(error);
                    failures.push(error.context(format!("can't remove `{}`", path.display())));
                }
                _ => {}
            }
        }
        if let Some(git) = self.git.as_ref().filter(|_| !self.salvages.is_empty()) {
            let forgotten = git.forget(&self.salvages);
            failures.extend(forgotten.context("can't remove what attempts left").err());
        }
        failures
    }
}

impl Pile {
    fn add(&mut self, path: PathBuf, bytes: u64) {
        self.paths.push(path);
        self.bytes += bytes;
    }
}

impl Rule {
    /// In a directory that is not private other projects may have logs: of what is not known there
    /// nothing can be said.
    fn forgets_log(&self, log: &LogFile, is_private: bool) -> bool {
        let attempt = log.name.strip_suffix("-verify").unwrap_or(&log.name).parse();
        let is_over = match attempt.map(|attempt: AttemptId| self.over.get(&attempt)) {
            Ok(Some(ended)) => self.is_old(*ended),
            Ok(None) => is_private && self.knows_all,
            // Of a loop, which has no tasks.
            Err(_) => is_private,
        };
        is_over && log.modified < self.before
    }

    /// The repository may hold several projects, and what others have fetched into it: what is not known
    /// stays.
    fn forgets_salvage(&self, owner: Owner, at: Timestamp) -> bool {
        let is_over = match owner {
            Owner::Attempt(id) => self.over.get(&id).is_some_and(|ended| self.is_old(*ended)),
            Owner::Loop(id) => self.loops.get(&id).is_some_and(|ended| self.is_old(Some(*ended))),
        };
        is_over && at < self.before
    }

    fn is_old(&self, ended: Option<Timestamp>) -> bool {
        ended.is_some_and(|ended| ended < self.before)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn what_is_young_or_of_a_task_that_is_not_done_is_kept() {
        let before = Timestamp::from_epoch(1_794_798_343).unwrap();
        let (old, young) = (before.minus(DAY), before.plus(DAY));
        let id = |text: &str| -> AttemptId { text.parse().unwrap() };
        let over = HashMap::from([
            (id("a-00001d"), Some(old)),
            (id("a-00002d"), Some(young)),
            (id("a-00003p"), None),
        ]);
        let session = |text: &str| -> SessionId { text.parse().unwrap() };
        let loops = HashMap::from([(session("s-00001d"), old), (session("s-00002d"), young)]);
        let mut rule = Rule { before, over, loops, knows_all: true };
        let forgets = |rule: &Rule, name: &str, modified, is_private| {
            let log = LogFile { path: PathBuf::new(), name: name.into(), bytes: 0, modified };
            rule.forgets_log(&log, is_private)
        };
        for (name, in_private, in_shared) in [
            ("a-00001d", true, true),
            ("a-00001d-verify", true, true),
            ("a-00002d", false, false),
            ("a-00003p", false, false),
            ("a-00003p-verify", false, false),
            ("a-00009x", true, false),
            ("loop-3", true, false),
        ] {
            assert_eq!(forgets(&rule, name, old, true), in_private, "{name}");
            assert_eq!(forgets(&rule, name, old, false), in_shared, "{name}, shared");
            assert!(!forgets(&rule, name, young, true), "{name} is young");
        }
        for (name, is_forgotten) in
            [("a-00001d", true), ("a-00002d", false), ("a-00003p", false), ("a-00009x", false)]
        {
            assert_eq!(rule.forgets_salvage(id(name).into(), old), is_forgotten, "{name}");
            assert!(!rule.forgets_salvage(id(name).into(), young), "{name} is young");
        }
        for (name, is_forgotten) in [("s-00001d", true), ("s-00002d", false), ("s-00009x", false)] {
            let owner = Owner::Loop(session(name));
            assert_eq!(rule.forgets_salvage(owner, old), is_forgotten, "{name}");
            assert!(!rule.forgets_salvage(owner, young), "{name} is young");
        }
        rule.knows_all = false;
        assert!(!forgets(&rule, "a-00009x", old, true), "it may be another database's");
    }
}
