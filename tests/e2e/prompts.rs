//! What the model really reads, as the stand-in for the API records it: what sessions have in common, what is
//! left after a compaction, and what Claude Code may not add.

use std::fs;

use serde_json::{Value, json};

use crate::api::{Answer, Request, Role, bash, say};
use crate::build::decompose;
use crate::install::{OLDER, PINNED};
use crate::rig::Rig;
use crate::run::done;

const SUMMARY: &str = "Nothing worth keeping.";

/// Commits something, and has its conversation summarised on the way if it works on the first task.
fn work(request: &Request) -> Answer {
    let is_summarised = text_of(&request.body["messages"]).contains(SUMMARY);
    match request.turn {
        _ if request.compacting => say(format!("<summary>{SUMMARY}</summary>")),
        _ if is_summarised => done(request),
        turn @ 1..=3 => {
            let number = request.task.trim_start_matches("t-");
            let answer = bash(format!(
                "echo {turn} > {number}-{turn} && git add . && git commit -q -m 'Part {turn}'"
            ));
            let is_full = request.title == "Add the table" && turn == 3;
            answer.reading(if is_full { 970_000 } else { 100 })
        }
        _ => done(request),
    }
}

/// All text that is somewhere in a part of a request.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => fields.values().map(text_of).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The texts of the messages, in their order.
fn blocks(request: &Request) -> Vec<String> {
    let messages = request.body["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|it| match &it["content"] {
        Value::Array(blocks) => blocks.iter().map(text_of).collect(),
        content => vec![text_of(content)],
    });
    blocks.collect()
}

/// What is told to two sessions on different tasks is the same up to where the repository and the task are told of.
#[track_caller]
fn assert_common_until_the_task(one: &Request, other: &Request) {
    assert_ne!(one.task, other.task);
    assert_eq!(one.body["tools"], other.body["tools"]);
    assert_eq!(one.body["system"], other.body["system"]);
    let (one, other) = (blocks(one), blocks(other));
    let differs = one.iter().zip(&other).find(|(one, other)| one != other).unwrap().0;
    assert!(differs.contains("# gitStatus") || differs.starts_with("# "), "{differs}");
}

fn rig(version: &'static str) -> Option<Rig> {
    let rig = Rig::with_version(version, |request| match request.role {
        Role::Build => decompose(request),
        Role::Verify => say("I have seen it.\n\n<verify-pass/>"),
        Role::Work | Role::Loop | Role::Interview => work(request),
    })?;
    let (home, root) = (rig.project.base().join("home/.claude"), rig.project.root());
    let slug = root.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let memory = home.join("projects").join(slug).join("memory");
    fs::create_dir_all(&memory).unwrap();
    fs::write(memory.join("MEMORY.md"), "I remember last summer.\n").unwrap();
    fs::write(home.join("CLAUDE.md"), "The person's own rule.\n").unwrap();
    let hook = json!([{ "hooks": [{ "type": "command", "command": "echo The hook was here." }] }]);
    let settings = json!({ "hooks": { "SessionStart": hook } }).to_string();
    fs::write(home.join("settings.json"), settings).unwrap();
    rig.project.write("CLAUDE.md", "The rule of the project.\n");
    rig.project.write("secret.txt", "Not for everybody.\n");
    rig.project.write(".ralph.toml", "[verify]\ncommands = [\"true\"]\nbaseline = \"off\"\n");
    let (spec, plan) = ("# Spec\nR1: it works, see @secret.txt", "# Plan\nPhase 1: a table");
    rig.project.write_feature("login", spec, plan);
    rig.project.git(["add", "."]);
    rig.project.git(["commit", "-q", "-m", "begin"]);
    rig.finish(rig.ralph(&["feature", "build", "login"])).with_code(0);
    let tasks = rig.project.ralph(["task", "list", "--json"]).json();
    let table = tasks[1]["id"].as_str().unwrap();
    rig.project.ralph(["task", "update", table, "-d", "All columns, see @secret.txt"]).ok();
    Some(rig)
}

fn what_the_model_reads(version: &'static str) {
    let Some(rig) = rig(version) else { return };
    let ended = rig.run(&["--model", "sonnet"]).with_code(0);
    let (work, verify) = (rig.asked(Role::Work), rig.asked(Role::Verify));
    let second = work.iter().find(|it| it.task != work[0].task).unwrap();
    let second_look = verify.iter().find(|it| it.task != verify[0].task).unwrap();
    assert_common_until_the_task(&work[0], second);
    assert_common_until_the_task(&verify[0], second_look);

    // What comes first is about the feature, and what comes last about the task.
    for part in ["# How this session works", "R1: it works", "Phase 1: a table", "- `true`"] {
        assert!(work[0].system.contains(part), "{part}: {}", work[0].system);
    }
    assert!(!work[0].system.contains(&work[0].task), "{}", work[0].system);
    assert!(work[0].prompt.contains("All columns, see \\@secret.txt"), "{}", work[0].prompt);

    // After a compaction the task is told again.
    let after = work.iter().find(|it| text_of(&it.body["messages"]).contains(SUMMARY));
    let after = after.unwrap_or_else(|| panic!("nothing was summarised: {ended:#?}"));
    assert!(!after.prompt.contains("All columns"), "{}", after.prompt);
    let messages = text_of(&after.body["messages"]);
    let task = &work[0].task;
    for part in ["All columns", &format!("ralph task show {task}"), &format!("<task-done>{task}<")]
    {
        assert!(messages.contains(part), "{part}: {messages}");
    }
    assert!(after.system.contains("## How to end"));

    // Nothing is added by a memory or because of a name in a text.
    for request in work.iter().chain(&verify) {
        let all = text_of(&request.body);
        for absent in ["Not for everybody.", "I remember last summer.", "memory/MEMORY.md"] {
            assert!(!all.contains(absent), "{absent}: {all}");
        }
        assert!(all.contains("The rule of the project."), "{all}");
        let works = request.role == Role::Work;
        assert_eq!(all.contains("The person's own rule."), works, "{all}");
    }
    assert!(text_of(&work[0].body).contains("The hook was here."));
    assert!(!text_of(&verify[0].body).contains("The hook was here."));

    // A verifier knows what was done, what passed, and what is claimed.
    let told = &verify[0].prompt;
    let claim = format!("```text\nIt is complete.\n\n<task-done>{task}</task-done>\n```");
    for part in ["# The task that is to be checked: ", " Part 3", "-3`", "- `true` passed", &claim]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("attempt"), "{told}");
}

#[test]
fn what_the_model_reads_is_common_until_the_task_and_survives_a_compaction() {
    what_the_model_reads(PINNED);
}

#[test]
fn what_the_model_reads_with_the_older_version_is_no_different() {
    what_the_model_reads(OLDER);
}
