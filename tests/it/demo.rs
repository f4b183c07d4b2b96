//! `ralph demo`: what it shows is true, it is over soon, and nothing is left unless that is wanted.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Output, Project, RALPH, assert_no_process_left};
use crate::terminal::Terminal;

/// What is left of demos.
fn left(place: &Project) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.base().join("tmp")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_demo_goes_from_plan_to_done_and_leaves_nothing() {
    let place = Project::bare();
    let output = place.ralph(["demo"]);
    let shown = output.ok();
    for part in [
        "Only the agent is not Claude but a script",
        "$ ralph feature build wordcount\n",
        "-> Bash(ralph task add 'Count each word' --parent",
        "○ Show the most frequent words",
        "$ git add . && git commit -qm Plan && ralph run wordcount\n",
        "verify   ✗ sh check.sh\n✗ failed, will be tried again",
        "attempt 2 · script",
        "verify   ✓ a second agent\n",
        "4/4 done · 5 iterations",
        "everything is done\n",
        "2 be\n2 to\n1 is\n",
        "The project is gone now",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert_eq!(left(&place), [] as [PathBuf; 0]);
    assert_no_process_left(&place);
}

#[test]
fn what_is_kept_is_a_project_like_any_other_wherever_the_demo_was_started() {
    let place = Project::new();
    let mut command = place.ralph_command(["demo", "--keep"]);
    // These are of the project we are called from, and of a git hook.
    command.env("RALPH_DB", place.database()).env("RALPH_MAX_RETRIES", "0");
    command.env("GIT_DIR", place.root().join(".git"));
    let shown = place.run(command, None).ok();
    let [kept] = &left(&place)[..] else { panic!("{:?}", left(&place)) };
    let root = kept.join("wordcount");
    assert!(shown.contains(&format!("The project is in {}.\n", root.display())), "{shown}");
    let in_it = |arguments: &[&str]| -> Output {
        let mut command = place.ralph_command(arguments);
        command.current_dir(&root);
        place.run(command, None)
    };
    let tasks = in_it(&["task", "list", "--json"]).json();
    let of = |key: &str| -> Value {
        tasks.as_array().unwrap().iter().find(|task| task["key"] == key).unwrap().clone()
    };
    for key in ["words", "count", "top", "readme"] {
        assert_eq!(of(key)["status"], "done", "{tasks}");
    }
    assert_eq!((&of("count")["attempts"], &of("count")["retries"]), (&2.into(), &1.into()));
    in_it(&["doctor"]).ok();
    in_it(&["run"]).ok();
    // What the script does not know it does not pretend to do.
    in_it(&["task", "add", "Something else"]).ok();
    let output = in_it(&["run", "--max-retries", "0"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout().contains("I am a script and know nothing but the demo"), "{output:?}");
    assert_eq!(place.ralph(["task", "list", "--json"]).json(), Value::Array(vec![]));
    assert_no_process_left(&place);
}

#[test]
fn keys_stop_the_demo_and_nothing_is_left_of_it() {
    let place = Project::bare();
    let mut terminal = Terminal::start(&place.ralph_command(["demo"]));
    terminal.wait_for("Everything that is not a letter");
    terminal.press("\x03");
    terminal.wait_for("The project is gone now");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("Interrupted"), "{screen}");
    assert_eq!(left(&place), [] as [PathBuf; 0]);
    assert_no_process_left(&place);
}

#[test]
fn a_reader_who_had_enough_ends_the_demo_quietly() {
    let place = Project::bare();
    let mut command = place.command("sh");
    command.args(["-c", "\"$0\" demo | head -n 3"]).arg(RALPH);
    let output = place.run(command, None);
    assert_eq!((output.ok().lines().count(), output.stderr()), (3, String::new()));
    assert_eq!(left(&place), [] as [PathBuf; 0]);
    assert_no_process_left(&place);
}

#[test]
fn without_git_the_demo_says_what_it_needs() {
    let place = Project::bare();
    let mut command = place.ralph_command(["demo"]);
    command.env("PATH", place.base());
    insta::assert_snapshot!(place.run(command, None).fails(1), @"
    error: can't run `git`: No such file or directory (os error 2)
    hint: the demo works in a git repository: install git
    ");
    assert_eq!(left(&place), [] as [PathBuf; 0]);
}
