//! `ralph doctor --clean` removes what is old and of no more use, and nothing else.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::{Project, check_rules};
use crate::terminal::Terminal;

/// A project in which one task was done at the second attempt and another one failed, long ago.
struct Past {
    project: Project,
    done: String,
    failed: String,
}

impl Past {
    fn new() -> Past {
        let project = Project::new();
        project.git_init();
        let done = project.add(["Done"]);
        let failed = project.add(["Failed", "--max-retries", "0"]);
        let scripts = ["write a.txt a | fail no", "done", "write b.txt b | fail no"];
        let mut run = project.ralph_playing(&scripts, ["run", "--no-verify"]);
        run.env("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z");
        assert_eq!(project.run(run, None).status.code(), Some(1));
        let past = Past { project, done, failed };
        let export = aged(&past.project.export());
        // An import leaves the attempts that are there as they are.
        fs::remove_dir_all(past.project.root().join(".ralph")).unwrap();
        past.project.ralph_reading(export, ["import"]).ok();
        for log in past.logs() {
            age(&log);
        }
        past
    }

    /// The logs that are recorded, whether they are there or not.
    fn logs(&self) -> Vec<PathBuf> {
        let sessions = self.project.ralph(["logs", "--json"]).json();
        let path = |it: &Value| PathBuf::from(it["log_path"].as_str().unwrap());
        let mut logs: Vec<PathBuf> = sessions.as_array().unwrap().iter().map(path).collect();
        logs.sort();
        logs
    }

    fn directory(&self) -> PathBuf {
        self.logs()[0].parent().unwrap().to_owned()
    }

    fn salvages(&self) -> usize {
        self.project.git(["for-each-ref", "refs/ralph/salvage"]).lines().count()
    }

    /// A file in the log directory.
    fn write_log(&self, name: &str) -> PathBuf {
        let path = self.directory().join(name);
        fs::write(&path, "123456789\n").unwrap();
        path
    }
}

/// An export in which all attempts ended long ago.
fn aged(export: &str) -> String {
    let age = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "attempt" {
            line["ended_at"] = json!("2020-01-01T00:00:00.000Z");
        }
        format!("{line}\n")
    };
    export.lines().map(age).collect()
}

/// Makes a file or a directory look as if nothing had touched it for a long time.
fn age(path: &Path) {
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800);
    File::open(path).unwrap().set_modified(long_ago).unwrap();
}

#[test]
fn what_is_old_and_of_a_task_that_is_done_is_removed_and_nothing_else() {
    let past = Past::new();
    let project = &past.project;
    let (old_loop, young_loop) = ("20200101000000000-loop-1.log", "20200101000000000-loop-2.log");
    let (old_loop, young_loop) = (past.write_log(old_loop), past.write_log(young_loop));
    let other = past.write_log("mine.log");
    let scratch = |name: &str| project.base().join("tmp").join(name);
    let of_0_1_0 = scratch("ralph-session-999999999-5-00000000000000ff");
    let unknown = scratch("ralph-session-999999999-5-00000000-00000000000000ff");
    fs::create_dir(&of_0_1_0).unwrap();
    fs::create_dir(&unknown).unwrap();
    for path in [&old_loop, &other, &of_0_1_0] {
        age(path);
    }
    assert_eq!((past.logs().len(), past.salvages()), (3, 2));
    let before = project.export();

    let refused = project.ralph(["doctor", "--clean"]);
    let listed = refused.stdout();
    let bytes: u64 = past.logs()[..2].iter().map(|log| log.metadata().unwrap().len()).sum();
    let size = ralph::ui::text::size(bytes + 10);
    let state = past.directory().display().to_string();
    let listed = listed.replace(&size, "[SIZE]").replace(&state, "[LOGS]");
    insta::assert_snapshot!(project.masked(&listed), @"
    3 session logs ([SIZE]) in [LOGS]
    1 salvaged attempt in refs/ralph/salvage
    1 session directory (0 B) in [BASE]/tmp
    ");
    insta::assert_snapshot!(refused.fails(2), @"
    error: there is no terminal to ask on: Remove this, all of it older than 30 days?
    hint: repeat it with --yes
    ");
    assert!(old_loop.exists() && of_0_1_0.exists() && past.logs().iter().all(|log| log.exists()));
    assert_eq!(past.salvages(), 2);

    let said = project.ralph(["doctor", "--clean", "--yes"]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let said = said.stderr().replace(&size, "[SIZE]");
    assert_eq!(
        said.trim_end(),
        "removed 3 session logs ([SIZE]), 1 salvaged attempt, 1 session directory (0 B)"
    );
    let there: Vec<bool> = past.logs().iter().map(|log| log.exists()).collect();
    assert_eq!(there, [false, false, true], "what belongs to the failed task stays");
    assert!(!old_loop.exists() && young_loop.exists() && other.exists());
    assert!(!of_0_1_0.exists() && unknown.exists());
    let kept = project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/salvage"]);
    let attempt = project.show(&past.failed)["history"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(kept, format!("refs/ralph/salvage/{attempt}"));
    assert_eq!(project.export(), before, "every attempt is still known");
    let said = project.ralph(["logs", &past.done, "1"]).fails(1);
    assert!(said.contains("was removed: `"), "{said}");

    let again = project.ralph(["doctor", "--clean"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert_eq!(again.stderr(), "nothing to remove is older than 30 days\n");
    check_rules(project);
}

#[test]
fn what_is_young_stays_and_the_age_is_a_setting() {
    let past = Past::new();
    let project = &past.project;
    let clean = |days: &str| {
        let mut command = project.ralph_command(["doctor", "--clean", "--yes", "--json"]);
        command.env("RALPH_CLEAN_KEEP_DAYS", days);
        project.run(command, None).json()
    };
    let nothing = json!({
        "keep_days": 36500, "logs": { "count": 0, "bytes": 0 }, "salvage": [],
        "directories": { "count": 0, "bytes": 0 }, "failures": [],
    });
    assert_eq!(clean("36500"), nothing);
    assert_eq!(past.salvages(), 2);
    let removed = clean("1");
    assert_eq!(removed["logs"]["count"], 2, "{removed}");
    assert_eq!(removed["salvage"].as_array().unwrap().len(), 1, "{removed}");
    assert_eq!(past.salvages(), 1);
}

#[test]
fn copies_of_a_persons_files_from_before_an_attempt_are_removed_with_it() {
    let past = Past::new();
    let project = &past.project;
    let kept = |task: &str| {
        let attempt = project.show(task)["history"][0]["id"].as_str().unwrap().to_owned();
        let salvage = format!("refs/ralph/salvage/{attempt}");
        project.git(["update-ref", &format!("refs/ralph/before/{attempt}"), &salvage]);
        format!("refs/ralph/before/{attempt}")
    };
    let (_done, failed) = (kept(&past.done), kept(&past.failed));
    let said = project.ralph(["doctor", "--clean", "--yes"]);
    assert!(said.stdout().contains("1 copy of your files in refs/ralph/before"), "{said:?}");
    let left = project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/before"]);
    assert_eq!(left, failed, "what belongs to the failed task stays");
}

#[test]
fn of_what_this_database_does_not_know_only_the_projects_own_logs_are_removed() {
    let past = Past::new();
    let project = &past.project;
    let deleted = past.write_log("20200101000000000-a-0000zz.log");
    age(&deleted);
    let commit = project.git(["rev-parse", "HEAD"]);
    project.git(["update-ref", "refs/ralph/salvage/a-0000zz", &commit]);
    let other = project.base().join("other.db");
    fs::copy(project.database(), &other).unwrap();
    let clean = |variable: (&str, &Path)| {
        let mut command = project.ralph_command(["doctor", "--clean", "--yes", "--json"]);
        command.env(variable.0, variable.1);
        project.run(command, None).json()["logs"]["count"].clone()
    };
    assert_eq!(clean(("RALPH_LOG_DIR", &past.directory())), 2, "others may have logs there");
    assert_eq!(clean(("RALPH_DB", &other)), 0, "it may be of another database");
    assert!(deleted.exists());
    assert_eq!(clean(("NOTHING", Path::new(""))), 1);
    assert!(!deleted.exists());
    assert_eq!(past.salvages(), 2, "it may be of another project in the repository");
}

#[test]
fn doctor_says_when_there_is_a_lot_to_clean() {
    let past = Past::new();
    let disk = || {
        let checks = past.project.ralph(["doctor", "--json"]).json();
        checks.as_array().unwrap().iter().find(|check| check["name"] == "disk").cloned()
    };
    assert_eq!(disk(), None);
    for number in 0..500 {
        age(&past.write_log(&format!("20200101000000000-loop-{number}.log")));
    }
    let told = disk().expect("it is told");
    assert_eq!(told["result"], "warning");
    let detail = told["detail"].as_str().unwrap();
    let expected = "older than 30 days: 502 session logs (";
    assert!(detail.starts_with(expected) && detail.ends_with(", 1 salvaged attempt"), "{detail}");
    assert_eq!(told["hint"], "`ralph doctor --clean` removes that");
}

#[test]
fn what_can_not_be_removed_is_told() {
    let past = Past::new();
    let lock = past.project.root().join(".git/packed-refs.lock");
    fs::write(&lock, "").unwrap();
    let output = past.project.ralph(["doctor", "--clean", "--yes"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = output.stderr();
    assert!(
        said.starts_with("not all of it was removed:\ncan't remove what attempts left: git: "),
        "{said}"
    );
    assert_eq!(past.salvages(), 2);
    assert!(!past.logs()[0].exists());
}

#[test]
fn a_person_at_a_terminal_is_asked() {
    let past = Past::new();
    let answer = |key: &str| {
        let command = past.project.ralph_command(["doctor", "--clean"]);
        let mut terminal = Terminal::start(&command);
        terminal.wait_for("1 salvaged attempt in refs/ralph/salvage");
        terminal.wait_for("Remove this, all of it older than 30 days? [y/N]").press(key);
        terminal.finish()
    };
    let (code, screen) = answer("n\r");
    assert!(code == 1 && screen.contains("nothing was removed"), "{code}: {screen}");
    assert_eq!(past.salvages(), 2);
    let (code, screen) = answer("y\r");
    assert!(code == 0 && screen.contains("removed 2 session logs ("), "{code}: {screen}");
    assert_eq!(past.salvages(), 1);
}
