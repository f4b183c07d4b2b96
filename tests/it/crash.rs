//! Writers are killed at any moment: what was acknowledged is there, and nothing is damaged or stuck.

use std::collections::HashSet;
use std::time::Duration;

use ralph::time::Timestamp;
use serde_json::json;

use crate::harness::{Background, Project, assert_no_process_left, check_rules};
use crate::random::Random;

/// How many processes are killed, unless the environment says otherwise.
const KILLS: usize = 300;
/// How many of them work on one database at a time.
const WRITERS: usize = 4;
/// How often a database is used before a new one is made.
const ROUNDS: usize = 8;

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_damaged_when_writers_are_killed() {
    let kills = std::env::var("RALPH_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut killed = 0;
    while killed < kills {
        let project = Project::new();
        let mut ledger = Ledger::default();
        for number in 0..ROUNDS {
            // At first while they make the database; then while they start, or while they work.
            let moment =
                if number == 0 || random.below(4) == 0 { Moment::Start } else { Moment::Work };
            killed += round(&project, &mut ledger, &mut random, moment);
            ledger.check(&project);
        }
        check_rules(&project);
        assert_no_process_left(&project);
    }
    println!("{killed} killed");
}

/// When writers are killed.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    Start,
    Work,
}

/// Starts some writers and kills them one by one; returns how many.
fn round(project: &Project, ledger: &mut Ledger, random: &mut Random, moment: Moment) -> usize {
    let mut writers: Vec<Background> = (0..WRITERS)
        .map(|_| {
            let mut command = project.worker("churn");
            command.arg(random.next().to_string());
            project.start(command)
        })
        .collect();
    if moment == Moment::Work {
        for writer in &writers {
            ledger.note(&writer.next_line().expect("it says what it does"));
        }
    }
    // This waits for nothing: it is to be anywhere.
    for writer in &mut writers {
        std::thread::sleep(Duration::from_micros(random.below(30_000) / WRITERS as u64));
        writer.kill();
    }
    for writer in writers {
        let (status, lines, said) = writer.finish();
        assert!(status.code().is_none() && said.is_empty(), "{status}: {said}");
        lines.iter().for_each(|line| ledger.note(line));
    }
    WRITERS
}

/// What the writers of one database have said.
#[derive(Default)]
struct Ledger {
    /// Each task that was added, followed by the groups around it.
    added: Vec<Vec<String>>,
    /// What was to be deleted or moved, and may be gone with all that is inside it.
    doubtful: HashSet<String>,
}

impl Ledger {
    fn note(&mut self, line: &str) {
        let mut words = line.split(' ').map(str::to_owned);
        match words.next().as_deref() {
            Some("added") => self.added.push(words.collect()),
            Some("deleting" | "moving") => self.doubtful.extend(words),
            _ => panic!("{line:?}"),
        }
    }

    fn check(&self, project: &Project) {
        // The next command, whatever it is, takes back what the dead have claimed.
        let running = project.ralph(["task", "list", "--status", "in_progress", "--json"]).json();
        let is_work = |task: &&serde_json::Value| task["kind"] == "work";
        assert_eq!(running.as_array().unwrap().iter().find(is_work), None);
        let store = project.store();
        assert_eq!(store.activity().unwrap().open.len(), 0, "still claimed");
        assert_eq!(store.check().unwrap(), [], "damaged");
        let snapshot = store.snapshot(Timestamp::now()).unwrap();
        let there: HashSet<String> =
            snapshot.tasks.iter().map(|task| task.id.to_string()).collect();
        for names in &self.added {
            let sure = !names.iter().any(|name| self.doubtful.contains(name));
            assert!(!sure || there.contains(&names[0]), "{} was printed and is lost", names[0]);
        }
    }
}

#[test]
fn a_command_that_is_killed_has_done_all_of_it_or_nothing() {
    let project = Project::new();
    let lines: String = (0..300)
        .map(|i| json!({ "title": i.to_string(), "key": i.to_string() }).to_string() + "\n")
        .collect();
    let mut random = Random::new(u64::from(std::process::id()));
    for _ in 0..20 {
        project.write("tasks.jsonl", &lines);
        let mut command = project.command("sh");
        let script = "exec \"$0\" task add --stdin < tasks.jsonl";
        command.args(["-c", script, crate::harness::RALPH]);
        let mut adder = project.start(command);
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        adder.kill();
        let (_, printed, _) = adder.finish();
        let tasks = project.ralph(["task", "list", "--json"]).json();
        let count = tasks.as_array().unwrap().len();
        assert!(count == 0 || count == 300, "{count} of 300");
        assert!(printed.is_empty() || count == 300, "printed before it was kept");
        if count == 300 {
            let mut ids = tasks.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap());
            assert!(printed.iter().all(|id| ids.any(|stored| stored == id)));
            for name in ["progress.db", "progress.db-wal", "progress.db-shm"] {
                let _ = std::fs::remove_file(project.root().join(".ralph").join(name));
            }
        }
    }
    check_rules(&project);
    assert_no_process_left(&project);
}
