//! What must be true after every kill, and where it was not.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use ralph::dag::{Attempt, Outcome, Status};

use super::graph::Dag;
use crate::harness::Project;
use crate::report::Row;

/// The retries of a task that says nothing of them.
pub(super) const MAX_RETRIES: u32 = 2;

/// A project in which runs are killed, and what is known of it apart from its database.
pub(super) struct Site {
    pub(super) project: Project,
    pub(super) dag: Dag,
    /// What holds its sessions.
    pub(super) sandbox: &'static str,
    /// Where sessions may write outside the project.
    pub(super) notes: PathBuf,
    /// What sessions say that they do.
    pub(super) ledger: PathBuf,
    /// The files that sessions say they have written.
    pub(super) written: PathBuf,
    /// By this the processes are known that have no environment.
    pub(super) number: u64,
    /// How many attempts a task had when it was last reset.
    pub(super) resets: HashMap<usize, usize>,
    /// How many runs were killed.
    pub(super) kills: usize,
    /// The runs that were killed since one of them has tidied up.
    pub(super) killed: Vec<u32>,
}

impl Site {
    pub(super) fn new(project: Project, dag: Dag, sandbox: &'static str) -> Result<Site> {
        let notes = project.base().join("notes");
        fs::create_dir(&notes)?;
        let (ledger, written) = (notes.join("ledger"), notes.join("written"));
        // A number of seconds that nobody else on this machine sleeps for.
        let number = 1_000_000_000 + u64::from(std::process::id());
        let resets = HashMap::new();
        Ok(Site {
            project,
            dag,
            sandbox,
            notes,
            ledger,
            written,
            number,
            resets,
            kills: 0,
            killed: Vec::new(),
        })
    }

    pub(super) fn attempts(&self) -> Result<usize> {
        let store = self.project.store();
        self.dag.work().map(|task| Ok(store.attempts(self.dag.id(task))?.len())).sum()
    }
}

/// What must be true.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Sound,
    Once,
    Order,
    Alone,
    Retries,
    Told,
    Next,
    Lock,
    Process,
    File,
    Lost,
}

impl Rule {
    const ALL: [Rule; 11] = [
        Rule::Sound,
        Rule::Once,
        Rule::Order,
        Rule::Alone,
        Rule::Retries,
        Rule::Told,
        Rule::Next,
        Rule::Lock,
        Rule::Process,
        Rule::File,
        Rule::Lost,
    ];

    /// How it is called when it is broken.
    fn broken(self) -> &'static str {
        match self {
            Rule::Sound => "the database was damaged, or a rule of the DAG broken",
            Rule::Once => "a task was done twice, begun after it was done, or done by nobody",
            Rule::Order => "a session began before what it had to wait for was done",
            Rule::Alone => "two sessions worked at once, or one that nobody knows of",
            Rule::Retries => "retries or crashes were counted wrongly, or a claim was left",
            Rule::Told => "an agent was killed and something else was recorded",
            Rule::Next => "the next command failed or said something",
            Rule::Lock => "a lock was left",
            Rule::Process => "a process was left",
            Rule::File => "a file was left",
            Rule::Lost => "something that a session had written was lost",
        }
    }
}

/// Where what must be true was not.
#[derive(Default)]
pub(super) struct Rules {
    found: BTreeMap<Rule, Vec<String>>,
}

impl Rules {
    pub(super) fn found(&mut self, rule: Rule, what: String) {
        // At once, because whoever waits for the end may wait for half an hour.
        let _ = writeln!(std::io::stderr(), "{}: {what}", rule.broken());
        self.found.entry(rule).or_default().push(what);
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        let found = |rule: Rule| self.found.get(&rule).map_or(&[][..], Vec::as_slice);
        Rule::ALL.into_iter().map(move |rule| Row::none(rule.broken(), found(rule)))
    }

    /// Checks everything that can be checked while no run is there.
    pub(super) fn check(&mut self, site: &Site) -> Result<()> {
        self.check_database(site)?;
        self.check_files(site);
        self.check_written(site);
        let histories = site
            .dag
            .work()
            .map(|task| Ok((task, site.project.store().attempts(site.dag.id(task))?)))
            .collect::<Result<HashMap<_, _>>>()?;
        self.check_attempts(site, &histories)?;
        self.check_ledger(site, &histories);
        Ok(())
    }

    fn check_database(&mut self, site: &Site) -> Result<()> {
        let output = site.project.ralph(["doctor", "--json"]);
        let checks = serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
        let checks = checks.as_array().cloned().unwrap_or_default();
        let mut of_database = checks.iter().filter(|check| check["name"] == "database").peekable();
        if of_database.peek().is_none() || of_database.any(|check| check["result"] != "ok") {
            self.found(Rule::Sound, format!("{output:?}"));
        }
        let findings = site.project.store().check()?;
        if !findings.is_empty() {
            self.found(Rule::Sound, format!("{findings:?}"));
        }
        Ok(())
    }

    /// Only what was killed last may have left something, and only what the next run removes.
    fn check_files(&mut self, site: &Site) {
        let is_killed = !site.killed.is_empty();
        for name in site.project.temporary_files() {
            let is_of = |pid: &u32| name.starts_with(&format!("ralph-session-{pid}-"));
            if !site.killed.iter().any(is_of) {
                self.found(Rule::File, name);
            }
        }
        let entries = fs::read_dir(site.project.root().join(".ralph")).into_iter().flatten();
        for name in entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()) {
            let is_known = match name.as_str() {
                "progress.db" | "progress.db-wal" | "progress.db-shm" => true,
                // The last three stand in for what is protected, until the next session.
                "run.json" | "skills" | "features" | "prompts" => is_killed,
                _ => false,
            };
            if !is_known {
                self.found(Rule::File, format!(".ralph/{name}"));
            }
        }
        // Here, too, something may stand in.
        let entries = fs::read_dir(site.project.root()).into_iter().flatten().flatten();
        for name in entries.map(|it| it.file_name().to_string_lossy().into_owned()) {
            let is_known = [".git", ".gitignore", ".ralph", ".ralph.toml"].contains(&name.as_str())
                || name.starts_with("half-");
            if !is_known && !is_killed {
                self.found(Rule::File, name);
            }
        }
    }

    /// Whatever a session had written is in a commit, its own or one that was kept, or still there.
    fn check_written(&mut self, site: &Site) {
        let history = site.project.git(["log", "--all", "--name-only", "--format="]);
        let history: Vec<&str> = history.lines().collect();
        let written = fs::read_to_string(&site.written).unwrap_or_default();
        for file in written.lines() {
            if !history.contains(&file) && !site.project.root().join(file).exists() {
                self.found(Rule::Lost, file.to_owned());
            }
        }
    }

    fn check_attempts(
        &mut self,
        site: &Site,
        histories: &HashMap<usize, Vec<Attempt>>,
    ) -> Result<()> {
        let store = site.project.store();
        let mut crashes = 0;
        for (&task, attempts) in histories {
            let Some(stored) = store.task(site.dag.id(task))? else {
                self.found(Rule::Sound, format!("{} is gone", site.dag.id(task)));
                continue;
            };
            let count = |outcome: Outcome, attempts: &[Attempt]| {
                attempts.iter().filter(|attempt| attempt.outcome == Some(outcome)).count()
            };
            // An agent that was killed before it said a word is a crash, too: that one has an exit code.
            let is_of_ralph =
                |it: &&Attempt| it.outcome == Some(Outcome::Crashed) && it.exit_code.is_none();
            crashes += attempts.iter().filter(is_of_ralph).count();
            let is_done = stored.status == Some(Status::Done);
            if count(Outcome::Done, attempts) != usize::from(is_done) {
                self.found(Rule::Once, shown(attempts));
            }
            // Nothing but these can happen here; one that is open is a claim that was left.
            let known = [Outcome::Done, Outcome::Failed, Outcome::Crashed];
            let numbers_fit = attempts.iter().zip(1..).all(|(it, number)| it.number == number);
            let outcomes_fit =
                attempts.iter().all(|it| it.outcome.is_some_and(|it| known.contains(&it)));
            let since = site.resets.get(&task).copied().unwrap_or(0);
            let failures = count(Outcome::Failed, &attempts[since..]);
            let most = site.dag.max_retries(task).unwrap_or(MAX_RETRIES) as usize;
            let has_failed = stored.status == Some(Status::Failed);
            let retries_fit = stored.retries as usize == failures.min(most)
                && has_failed == (failures > most)
                && failures <= most + 1;
            if !(numbers_fit && outcomes_fit && retries_fit) {
                let told = format!("{} retries, {:?}", stored.retries, stored.status);
                self.found(Rule::Retries, format!("{told} of {most}: {}", shown(attempts)));
            }
        }
        if crashes > site.kills {
            self.found(Rule::Retries, format!("{crashes} crashes, {} kills", site.kills));
        }
        Ok(())
    }

    /// What the sessions themselves say.
    fn check_ledger(&mut self, site: &Site, histories: &HashMap<usize, Vec<Attempt>>) {
        let tasks: HashMap<String, usize> =
            site.dag.work().map(|task| (site.dag.id(task).to_string(), task)).collect();
        let mut done: HashMap<usize, String> = HashMap::new();
        for (&task, attempts) in histories {
            let it = attempts.iter().find(|attempt| attempt.outcome == Some(Outcome::Done));
            done.extend(it.map(|attempt| (task, attempt.id.to_string())));
        }
        let text = fs::read_to_string(&site.ledger).unwrap_or_default();
        let mut ended: Vec<(usize, &str)> = Vec::new();
        let mut current = "";
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, id, attempt] = words[..] else {
                self.found(Rule::Alone, format!("{line:?} in the ledger"));
                continue;
            };
            let known = tasks
                .get(id)
                .filter(|task| histories[task].iter().any(|known| known.id.to_string() == attempt));
            let Some(&task) = known else {
                self.found(Rule::Alone, format!("{line:?}: nobody knows of it"));
                continue;
            };
            if what == "end" {
                ended.push((task, attempt));
                if attempt != current {
                    self.found(Rule::Alone, format!("{line:?} after {current} had begun"));
                }
                continue;
            }
            current = attempt;
            let is_done = |task: &usize| {
                ended.iter().any(|(it, by)| it == task && done.get(task).is_some_and(|it| it == by))
            };
            if is_done(&task) {
                self.found(Rule::Once, format!("{line:?} after it was done"));
            }
            if let Some(missing) = site.dag.before(task).iter().find(|task| !is_done(task)) {
                let missing = site.dag.id(*missing);
                self.found(Rule::Order, format!("{line:?} before {missing} was done"));
            }
        }
        for (task, by) in &done {
            if !ended.contains(&(*task, by)) {
                self.found(Rule::Once, format!("{by} is done, and did nothing"));
            }
        }
    }
}

fn shown(attempts: &[Attempt]) -> String {
    attempts.iter().fold(String::new(), |mut text, it| {
        let _ = write!(text, "{} {} {:?} {:?}; ", it.number, it.task, it.outcome, it.reason);
        text
    })
}
