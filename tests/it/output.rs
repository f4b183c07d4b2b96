//! What leaves the program, and where to: pipes that close, permissions, escape sequences.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Instant;

use crate::harness::{DEADLINE, Project, RALPH, wait_until};

#[test]
fn a_reader_that_has_had_enough_is_no_failure() {
    let project = Project::new();
    let id = project.feature("login");
    let line = r#"{"title": "One of very many", "description": "about this", "feature": "login"}"#;
    let tasks = project.add_lines(format!("{line}\n").repeat(2_000));
    let commands: &[&[&str]] = &[
        &["task", "list"],
        &["task", "list", "--json"],
        &["task", "list", "--ready", "--json"],
        &["task", "tree"],
        &["task", "tree", "--json"],
        &["task", "show", &tasks[0], "--json"],
        &["task", "deps", "list", &tasks[0]],
        &["status"],
        &["status", "--json"],
        &["graph"],
        &["graph", "--format", "dot"],
        &["graph", "--format", "mermaid"],
        &["feature", "list"],
        &["feature", "show", &id],
        &["export"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["doctor"],
        &["completions", "zsh"],
        &["--help"],
        &["task", "add", "--help"],
    ];
    for command in commands {
        for bytes in [0, 1, 5_000] {
            closes_early(&project, command, bytes);
        }
    }
}

/// Reads this much of what the command prints and then closes the pipe.
#[track_caller]
fn closes_early(project: &Project, arguments: &[&str], bytes: u64) {
    let mut command = project.ralph_command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = Vec::new();
    child.stdout.take().unwrap().take(bytes).read_to_end(&mut first).unwrap();
    let status = wait_until(Instant::now() + DEADLINE, || child.try_wait().unwrap());
    let Some(status) = status else {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("{arguments:?} hangs");
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.success() && said.is_empty(), "{arguments:?}: {status} {said}");
}

#[test]
fn only_its_owner_can_read_the_database() {
    let project = Project::new();
    let mut command = project.command("sh");
    command.args(["-c", r#"umask 0; exec "$0" task add Secret"#, RALPH]);
    project.run(command, None).ok();
    for name in ["db", "db-wal", "db-shm"] {
        let path = project.database().with_extension(name);
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode, 0o600, "{name}: {mode:o}");
    }
}

#[test]
fn a_database_that_others_can_read_is_told_by_doctor() {
    let project = Project::new();
    project.add(["Secret"]);
    fs::set_permissions(project.database(), fs::Permissions::from_mode(0o644)).unwrap();
    let doctor = project.ralph(["doctor"]).ok();
    assert!(doctor.contains("others than its owner can read it"), "{doctor}");
}

#[test]
fn what_a_machine_reads_is_on_stdout_and_what_a_person_reads_is_not() {
    let project = Project::new();
    let (first, second) = (project.add(["First"]), project.add(["Second"]));
    for command in [
        &["task", "deps", "add", &first, &second][..],
        &["task", "deps", "rm", &first, &second],
        &["task", "update", &first, "--title", "x"],
        &["task", "log", &first, "-m", "x"],
        &["task", "fail", &first],
        &["task", "reset", &first],
        &["task", "done", &first],
        &["task", "delete", &first, "--yes"],
    ] {
        let output = project.ralph(command);
        assert!(output.ok().is_empty() && !output.stderr.is_empty(), "{output:?}");
    }
    for command in [&["task", "list", "--json"][..], &["export"], &["status", "--json"]] {
        let output = project.ralph(command);
        assert!(!output.ok().is_empty() && output.stderr.is_empty(), "{output:?}");
    }
}

/// Colours the rest red, rings, clears the screen in one character, erases the one before.
const NASTY: &str = "a\u{1b}[31mb\u{7}c\u{9b}2Jd\u{7f}e";

#[test]
fn control_characters_do_not_reach_the_terminal_in_an_error() {
    let project = Project::new();
    project.feature("login");
    let first = project.add([NASTY]);
    let second = project.add([NASTY, "--after", &first]);
    // `refuses` asserts that there are none.
    project.refuses(1, ["task", "show", "t-000000"]);
    project.refuses(1, ["task", "show", NASTY]);
    project.refuses(1, ["task", "deps", "add", &second, &first]);
    project.refuses(1, ["task", "delete", &first, "--yes"]);
    project.refuses(1, ["task", "add", "x", "--feature", NASTY]);
    project.refuses(1, ["task", "add", "x", "-d", &format!("@{NASTY}")]);
    project.refuses(1, ["task", "add", &format!("{NASTY}\n{NASTY}")]);
    project.refuses(1, ["import", NASTY]);
    project.refuses(2, ["task", "update", &first, "--max-retries", NASTY]);
    project.refuses(2, ["task", "list", "--status", NASTY]);
    project.refuses(2, [NASTY]);
    for line in [
        r#"{"\u001b[31m": 1}"#,
        r#"{"title": "x", "parent": "t-\u0000\u001b"}"#,
        r#"{"title": "x", "after": ["\u009b"]}"#,
        r#"{"title": "x", "feature": "\u0000\u0007"}"#,
    ] {
        project.refuses_reading(1, line, ["task", "add", "--stdin"]);
    }
    project.refuses_reading(1, r#"{"type": "\u001b[31m"}"#, ["import"]);
    project.write(".ralph.toml", "\"\\u001b[31m\" = 1");
    project.refuses(1, ["config", "show"]);
    let mut command = project.ralph_command(["task", "list"]);
    command.env("RALPH_DB", project.base().join(NASTY).join("x.db"));
    project.run(command, None).fails(1);
}

#[test]
fn control_characters_do_not_reach_the_terminal_in_a_listing() {
    let project = Project::new();
    project.feature("login");
    let first = project.add([NASTY, "-d", NASTY, "--feature", "login"]);
    let second = project.add([NASTY, "--after", &first]);
    project.ralph(["task", "log", &first, "-m", NASTY]).ok();
    project.ralph(["task", "fail", &first, "-r", NASTY]).ok();
    project.write(".ralph.toml", "prompt_file = \"\\u001b[31m\"");
    for command in [
        &["task", "list"][..],
        &["task", "tree"],
        &["task", "show", &first],
        &["task", "log", &first],
        &["task", "deps", "list", &first],
        &["status"],
        &["graph"],
        &["graph", "--format", "dot"],
        &["graph", "--format", "mermaid"],
        &["feature", "show", "login"],
        &["config", "show"],
        &["task", "delete", &second, "--yes"],
    ] {
        let output = project.ralph(command);
        let shown = output.ok() + &output.stderr();
        let is_raw = |c: char| c.is_control() && c != '\n';
        assert!(!shown.contains(is_raw), "{command:?}: {shown:?}");
    }
}

#[test]
fn deleting_asks_on_a_terminal_and_does_as_it_is_told() {
    let project = Project::new();
    let task = project.add(["To be or not to be"]);
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let asked = |answer: &str| {
        let mut terminal = project.command("script");
        terminal.args(["-qec", &format!("{ralph} task delete {task}"), "/dev/null"]);
        project.run(terminal, Some(answer.as_bytes().to_vec()))
    };
    let refused = asked("n\n");
    assert!(refused.stdout().contains("Delete"), "{refused:?}");
    assert!(refused.stdout().contains("nothing was deleted"), "{refused:?}");
    assert_eq!(project.show(&task)["title"], "To be or not to be");
    let agreed = asked("y\n");
    assert!(agreed.stdout().contains(&format!("deleted {task}")), "{agreed:?}");
    project.ralph(["task", "show", &task]).fails(1);
}

#[test]
fn prose_is_broken_between_words_on_a_narrow_terminal() {
    let project = Project::new();
    let commands: &[&[&str]] = &[
        &["init"],
        &["status"],
        &["doctor"],
        &["task", "show", "t-zzz"],
        &["run", "--max-cost", "x"],
        &["run", "--strategy", "cheap"],
        &["run", "--yes", "--agent", "./nope"],
    ];
    for arguments in commands {
        let said = |columns: Option<&str>| {
            let mut command = project.ralph_command(*arguments);
            columns.map(|columns| command.env("COLUMNS", columns));
            let output = project.run(command, None);
            format!("{}{}", output.stdout(), output.stderr())
        };
        let (wide, narrow) = (said(None), said(Some("40")));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let is_long = |word: &String| word.chars().count() > 38;
        // A path may be too long for any line.
        if !words(&wide).iter().any(is_long) {
            assert_eq!(words(&narrow), words(&wide), "{arguments:?}");
        }
        let longest = narrow.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(40), "{arguments:?}: {narrow}");
    }
}
