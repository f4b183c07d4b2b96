//! Export and import: nothing is lost on the way out, and nothing bad comes in.

use serde_json::{Value, json};

use crate::harness::{Project, assert_no_process_left, check_rules, feature_line, ids, task_line};

/// A project with something of everything that can be stored.
fn rich() -> Project {
    let project = Project::new();
    project.feature("login");
    project.feature("größe ✓");
    let schema =
        project.add(["Schema 漢字 🦀 \u{1b}[31m", "-d", "Line\n\tline \"quoted\" \\ é\u{301}"]);
    let api = project.add(["API", "--group", "--feature", "login", "--key", "the api"]);
    let inner = project.add(["Inner", "--group", "--parent", &api, "--priority", "-5"]);
    let deep = project.add(["Deep", "--parent", &inner, "--after", &schema, "--max-retries", "0"]);
    let held = project.add(["Held group", "--group", "--feature", "größe ✓"]);
    project.add(["Inside the held one", "--parent", &held, "--after", &deep]);
    let failed = project.add(["Failed", "--priority", "2147483647"]);
    let asked = project.add(["Asked"]);
    project.add(["Empty group", "--group"]);
    let late = project.add(["Late", "--after", &failed, "--after", &asked]);
    // A dependency against the order of creation.
    project.ralph(["task", "deps", "add", &late, &held]).ok();
    project.ralph(["task", "block", &held, "-r", "Which size?\nBig?"]).ok();
    project.ralph(["task", "fail", &failed, "-r", "no \"luck\""]).ok();
    project.ralph(["task", "block", &asked, "-r", "Why?"]).ok();
    project.ralph(["task", "log", &schema, "-m", "a note\nin two lines"]).ok();
    project.ralph(["task", "log", &api, "-m", "a note on a group"]).ok();
    let (status, ..) = project.start(project.worker("work")).finish();
    assert!(status.success());
    // A task that was deleted leaves a hole in the order of creation.
    let gone = project.add(["Gone"]);
    project.add(["After the gone one"]);
    project.ralph(["task", "delete", &gone, "--yes"]).ok();
    let line = task_line(&json!({
        "id": "t-abcdef", "not_before": "2099-01-01T00:00:00.000Z", "retries": 2,
        "created_by": "a-000000", "title": "Deferred",
    }));
    let attempt = json!({
        "type": "attempt", "id": "a-abcdef", "task": "t-abcdef", "number": 1, "run": null,
        "model": "best", "started_at": "2026-01-01T00:00:00.000Z",
        "ended_at": "2026-01-01T00:00:01.001Z", "outcome": "failed", "reason": "tests", "exit_code": -1,
        "cost_usd": 0.1 + 0.2, "input_tokens": 9_007_199_254_740_993_i64, "output_tokens": 0,
        "turns": 3, "log_path": "logs/ü", "session_id": "s", "head_before": "0", "head_after": "1",
    });
    project.ralph_reading(format!("{line}{attempt}\n"), ["import"]).ok();
    check_rules(&project);
    project
}

#[test]
fn an_export_imported_into_an_empty_project_exports_the_same_bytes() {
    let (project, copy) = (rich(), Project::new());
    let export = project.ralph(["export"]);
    copy.ralph_reading(&export.stdout, ["import"]).ok();
    assert_eq!(copy.ralph(["export"]).stdout(), export.stdout());
    check_rules(&copy);
    // What is derived is the same as well.
    let list = |project: &Project| project.ralph(["task", "list", "--json"]).json();
    assert_eq!(list(&copy), list(&project));
    let kinds = ["export", "feature", "run", "task", "dependency", "attempt", "log"];
    for kind in kinds {
        assert!(export.stdout().contains(&format!("{{\"type\":\"{kind}\"")), "no {kind}");
    }
    assert_no_process_left(&project);
}

#[test]
fn the_lines_of_an_export_may_come_in_any_order() {
    let (project, copy) = (rich(), Project::new());
    let export = project.export();
    let reversed: Vec<&str> = export.lines().rev().collect();
    copy.ralph_reading(reversed.join("\n"), ["import"]).ok();
    check_rules(&copy);
    let sorted = |project: &Project| {
        let tasks = project.ralph(["task", "list", "--json"]).json();
        let mut tasks: Vec<Value> = tasks.as_array().unwrap().clone();
        tasks.sort_by_key(|task| task["id"].as_str().unwrap().to_owned());
        for task in &mut tasks {
            for list in ["waiting_on", "after"] {
                task[list]
                    .as_array_mut()
                    .unwrap()
                    .sort_by_key(|id| id.as_str().unwrap().to_owned());
            }
        }
        tasks
    };
    assert_eq!(sorted(&copy), sorted(&project));
}

#[test]
fn what_is_in_progress_is_exported_as_pending_and_stays_in_progress() {
    let project = Project::new();
    let task = project.add(["Running"]);
    let worker = project.start(project.worker("hold"));
    assert_eq!(worker.next_line().as_deref(), Some(&*task));
    let export = project.export();
    assert!(!export.contains("attempt"), "{export}");
    project.ralph_reading(&export, ["import"]).ok();
    assert_eq!(project.show(&task)["status"], "in_progress");
    let done = export.replace("\"pending\"", "\"done\"");
    insta::assert_snapshot!(project.refuses_reading(1, done, ["import"]), @"error: can't import stdin: line 2: `[A]` is in progress here; stop its run first");
    let (status, ..) = worker.finish();
    assert!(status.success());
    assert_eq!(project.show(&task)["status"], "pending");
    check_rules(&project);
    assert_no_process_left(&project);
}

/// A project with a group and a task in it, both with ids that are known beforehand.
fn small() -> Project {
    let project = Project::new();
    let group =
        task_line(&json!({ "id": "t-000010", "kind": "group", "status": null, "title": "Group" }));
    let child = task_line(&json!({ "id": "t-000011", "parent": "t-000010", "title": "Child" }));
    let lines = format!("{}{group}{child}", feature_line(&json!({})));
    project.ralph_reading(lines, ["import"]).ok();
    project
}

/// What an import says to these lines, which come after a good one.
#[track_caller]
fn refuses(project: &Project, lines: &str) -> String {
    let good = task_line(&json!({ "id": "t-000001", "title": "Good" }));
    let said = project.refuses_reading(1, format!("{good}{lines}"), ["import"]);
    check_rules(project);
    said
}

fn dependency(blocker: &str, blocked: &str) -> String {
    json!({ "type": "dependency", "blocker": blocker, "blocked": blocked }).to_string() + "\n"
}

#[test]
fn a_line_that_cannot_be_read_is_named() {
    let project = small();
    insta::assert_snapshot!(refuses(&project, "\nnonsense\n"), @"error: can't import stdin: line 3: expected ident (column 2)");
    insta::assert_snapshot!(refuses(&project, "{\"type\": \"task\""), @"error: can't import stdin: line 2: EOF while parsing an object (column 15)");
    insta::assert_snapshot!(refuses(&project, "{}"), @"error: can't import stdin: line 2: missing field `type` (column 2)");
    insta::assert_snapshot!(refuses(&project, "{\"type\": \"note\"}"), @"error: can't import stdin: line 2: unknown variant `note`, expected one of `export`, `feature`, `run`, `task`, `dependency`, `attempt`, `session`, `log` (column 15)");
    insta::assert_snapshot!(refuses(&project, "{\"type\": \"export\", \"version\": 2}"), @"error: can't import stdin: line 2: this is version 2 of the format; this ralph reads version 1");
    insta::assert_snapshot!(refuses(&project, "{\"type\": \"export\", \"version\": -1}"), @"error: can't import stdin: line 2: invalid value: integer `-1`, expected u32");
    let good = task_line(&json!({ "title": "Twice" }));
    insta::assert_snapshot!(refuses(&project, &format!("{good}{good}")), @"error: can't import stdin: line 2: `[A]` stands on line 1 already");
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    project.refuses_reading(1, binary, ["import"]);
}

#[test]
fn a_task_with_a_wrong_field_is_named_by_its_line() {
    let project = small();
    let said = |field: &str, value: Value| {
        let mut given = json!({ "id": "t-000002" });
        given[field] = value;
        refuses(&project, &task_line(&given))
    };
    insta::assert_snapshot!(said("colour", json!("red")), @"error: can't import stdin: line 2: unknown field `colour`, expected one of `id`, `key`, `kind`, `parent`, `feature`, `title`, `description`, `priority`, `status`, `reason`, `retries`, `max_retries`, `not_before`, `created_by`, `created_at`, `updated_at`");
    insta::assert_snapshot!(said("id", json!("t-1")), @"error: can't import stdin: line 2: `t-1` is not an id of the form `t-xxxxxx`");
    insta::assert_snapshot!(said("id", json!("f-000001")), @"error: can't import stdin: line 2: `[A]` is not an id of the form `t-xxxxxx`");
    insta::assert_snapshot!(said("kind", json!("epic")), @"error: can't import stdin: line 2: unknown variant `epic`, expected `work` or `group`");
    insta::assert_snapshot!(said("title", json!(" ")), @"error: can't import stdin: line 2: the title is empty");
    insta::assert_snapshot!(said("title", json!("a\nb")), @r"
    error: can't import stdin: line 2: the title `a\nb` has more than one line
    hint: put the rest into the description (-d)
    ");
    insta::assert_snapshot!(said("title", json!("x".repeat(1 << 20))), @r"
    error: can't import stdin: line 2: the title has 1048576 characters, more than 500
    hint: keep the title to a line and put the rest into the description (-d)
    ");
    insta::assert_snapshot!(said("title", json!("a\0b")), @"error: can't import stdin: line 2: the title contains a NUL character");
    insta::assert_snapshot!(said("status", json!("in_progress")), @"error: can't import stdin: line 2: unknown variant `in_progress`, expected one of `pending`, `blocked`, `done`, `failed`");
    insta::assert_snapshot!(said("status", json!(null)), @"error: can't import stdin: line 2: the work task `[A]` has no status");
    insta::assert_snapshot!(said("reason", json!("none")), @"error: can't import stdin: line 2: `[A]` has a reason but is not stopped");
    insta::assert_snapshot!(said("retries", json!(-1)), @"error: can't import stdin: line 2: invalid value: integer `-1`, expected u32");
    insta::assert_snapshot!(said("max_retries", json!(1_u64 << 32)), @"error: can't import stdin: line 2: invalid value: integer `4294967296`, expected u32");
    insta::assert_snapshot!(said("priority", json!(1.5)), @"error: can't import stdin: line 2: invalid type: floating point `1.5`, expected i32");
    insta::assert_snapshot!(said("created_at", json!("yesterday")), @"error: can't import stdin: line 2: a time must look like `2026-11-16T02:24:16.123Z`");
    insta::assert_snapshot!(said("parent", json!("t-000002")), @"error: can't import stdin: line 2: `[A]` can't be its own parent");
    insta::assert_snapshot!(said("parent", json!("t-zzzzzz")), @"error: can't import stdin: line 2: there is no task `[A]`");
    insta::assert_snapshot!(said("parent", json!("t-000011")), @"error: can't import stdin: line 2: the parent of `[A]`, `[B]`, is not a group");
    insta::assert_snapshot!(said("feature", json!("f-zzzzzz")), @"error: can't import stdin: line 2: there is no feature `[A]`");
    insta::assert_snapshot!(said("key", json!("t-000002")), @"error: can't import stdin: line 2: the key `[A]` looks like a task id");
}

#[test]
fn a_group_is_imported_only_as_what_a_group_can_be() {
    let project = small();
    let said = |given: Value| refuses(&project, &task_line(&given));
    let group = |status: &str| json!({ "id": "t-000002", "kind": "group", "status": status });
    insta::assert_snapshot!(said(group("pending")), @"error: can't import stdin: line 2: `[A]` is a group and can't be pending by itself");
    insta::assert_snapshot!(said(group("done")), @"error: can't import stdin: line 2: `[A]` is a group and can't be done by itself");
    // It has a child here, whatever the file says.
    insta::assert_snapshot!(said(json!({ "id": "t-000010" })), @"error: can't import stdin: line 2: the parent of `[A]`, `[B]`, is not a group");
    insta::assert_snapshot!(said(json!({ "id": "t-000011", "parent": "t-000010", "feature": "f-000001" })), @"error: can't import stdin: line 2: `[A]` and its parent `[B]` belong to different features");
}

#[test]
fn a_loop_in_an_import_is_shown() {
    let project = small();
    insta::assert_snapshot!(refuses(&project, &dependency("t-000001", "t-000001")), @"error: can't import stdin: line 2: `[A]` can't wait for itself");
    let both = dependency("t-000001", "t-000011") + &dependency("t-000011", "t-000001");
    insta::assert_snapshot!(refuses(&project, &both), @r#"
    error: can't import stdin: the tasks would wait in a loop
      [A] "Good" waits for [B] "Child"
      [B] "Child" waits for [A] "Good"
    "#);
    insta::assert_snapshot!(refuses(&project, &dependency("t-000010", "t-000011")), @r#"
    error: can't import stdin: the tasks would wait in a loop
      [A] "Child" waits for [B] "Group"
      [A] "Child" is inside [B] "Group"
    "#);
    insta::assert_snapshot!(refuses(&project, &dependency("t-000011", "t-zzzzzz")), @"error: can't import stdin: line 2: there is no task `[A]`");
    let group = |id: &str, parent: &str| {
        task_line(&json!({ "id": id, "parent": parent, "kind": "group", "status": null }))
    };
    let nested = group("t-000002", "t-000003") + &group("t-000003", "t-000002");
    insta::assert_snapshot!(refuses(&project, &nested), @r#"
    error: can't import stdin: the tasks would wait in a loop
      [A] "Imported" is inside [B] "Imported"
      [B] "Imported" is inside [A] "Imported"
    "#);
    insta::assert_snapshot!(refuses(&project, &group("t-000010", "t-000010")), @"error: can't import stdin: line 2: `[A]` can't be its own parent");
}

#[test]
fn features_runs_and_attempts_are_checked_as_well() {
    let project = small();
    let named =
        |name: &str| refuses(&project, &feature_line(&json!({ "id": "f-000002", "name": name })));
    insta::assert_snapshot!(named("login"), @"error: can't import stdin: line 2: the name `login` belongs to another feature, `[A]`");
    insta::assert_snapshot!(named("../../etc"), @r"
    error: can't import stdin: line 2: `../../etc` can't be the name of a feature: it starts with a dot or a dash
    hint: use a short name such as `login` or `pdf-export`
    ");
    insta::assert_snapshot!(named("t-000001"), @r"
    error: can't import stdin: line 2: `[A]` can't be the name of a feature: it looks like an id
    hint: use a short name such as `login` or `pdf-export`
    ");
    insta::assert_snapshot!(named(""), @"error: can't import stdin: line 2: the name of a feature is empty");
    let status = feature_line(&json!({ "status": "sleeping" }));
    insta::assert_snapshot!(refuses(&project, &status), @"error: can't import stdin: line 2: unknown variant `sleeping`, expected one of `draft`, `planned`, `ready`, `running`, `done`, `failed`");
    let attempt = |given: Value| {
        let mut line = json!({
            "type": "attempt", "id": "a-000001", "task": "t-000001", "number": 1, "run": null,
            "model": null, "started_at": "2026-01-01T00:00:00.000Z",
            "ended_at": "2026-01-01T00:00:01.000Z", "outcome": "done", "reason": null,
            "exit_code": null, "cost_usd": null, "input_tokens": null, "output_tokens": null,
            "turns": null, "log_path": null, "session_id": null, "head_before": null,
            "head_after": null,
        });
        for (name, value) in given.as_object().unwrap() {
            line[name] = value.clone();
        }
        refuses(&project, &format!("{line}\n"))
    };
    insta::assert_snapshot!(attempt(json!({ "ended_at": null, "outcome": null })), @"error: can't import stdin: line 2: attempt `[A]` has not ended");
    insta::assert_snapshot!(attempt(json!({ "run": "r-000001" })), @"error: can't import stdin: line 2: there is no run `r-000001`");
    insta::assert_snapshot!(attempt(json!({ "task": "t-zzzzzz" })), @"error: can't import stdin: line 2: there is no task `[A]`");
    insta::assert_snapshot!(attempt(json!({ "outcome": "great" })), @"error: can't import stdin: line 2: unknown variant `great`, expected one of `done`, `failed`, `blocked`, `silent`, `interrupted`, `crashed`, `limited`, `overruled`");
    insta::assert_snapshot!(attempt(json!({ "number": -1 })), @"error: can't import stdin: line 2: invalid value: integer `-1`, expected u32");
    let log = json!({
        "type": "log", "task": "t-000001", "at": "2026-01-01T00:00:00.000Z", "event": "sung",
        "author": null, "message": "",
    });
    insta::assert_snapshot!(refuses(&project, &log.to_string()), @"error: can't import stdin: line 2: unknown variant `sung`, expected one of `note`, `done`, `failed`, `blocked`, `reset`, `crashed`");
}

#[test]
fn a_file_that_is_not_there_is_told_so() {
    let project = small();
    insta::assert_snapshot!(project.refuses(1, ["import", "missing.jsonl"]), @"error: can't open `missing.jsonl`: No such file or directory (os error 2)");
    insta::assert_snapshot!(project.refuses(1, ["import", ".ralph"]), @"error: can't import `.ralph`: can't read line 1: Is a directory (os error 21)");
    project.write("bad.jsonl", "{}");
    insta::assert_snapshot!(project.refuses(1, ["import", "bad.jsonl"]), @"error: can't import `bad.jsonl`: line 1: missing field `type` (column 2)");
}

#[test]
fn an_import_that_finishes_a_blocker_makes_what_waits_ready() {
    let project = small();
    let waits = project.add(["Waits", "--after", "t-000010"]);
    let done = task_line(&json!({ "id": "t-000011", "parent": "t-000010", "status": "done" }));
    project.ralph_reading(done, ["import"]).ok();
    assert_eq!(ids(&project.ralph(["task", "list", "--ready", "--json"]).json()), [&waits]);
    check_rules(&project);
}
