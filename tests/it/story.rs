//! What a user does with it, from `init` to `import`.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Project, check_rules, feature_line, ids, is_task_id};

/// The project of the README: a task, and a group that waits for it.
struct Shop {
    project: Project,
    schema: String,
    api: String,
    endpoints: String,
}

fn shop() -> Shop {
    let project = Project::new();
    let schema = project.add(["Set up the schema", "-d", "Tables for users and orders"]);
    let api = project.add(["API", "--group"]);
    let endpoints = project.add(["Endpoints", "--parent", &api, "--after", &schema]);
    project.ralph(["task", "deps", "add", &schema, &api]).ok();
    Shop { project, schema, api, endpoints }
}

#[test]
fn init_can_be_repeated_and_overwrites_nothing() {
    let project = Project::bare();
    project.write(".gitignore", "target");
    project.ralph(["init"]).ok();
    assert!(fs::read_to_string(project.root().join(".gitignore")).unwrap().starts_with("target\n"));
    let settings = project.write(".ralph.toml", "max_retries = 7\n");
    let task = project.add(["Stays"]);
    project.ralph(["init"]).ok();
    assert_eq!(fs::read_to_string(settings).unwrap(), "max_retries = 7\n");
    assert_eq!(project.show(&task)["title"], "Stays");
}

#[test]
fn add_prints_the_id_and_nothing_else() {
    let project = Project::new();
    let output = project.ralph(["task", "add", "Set up the schema"]);
    let printed = output.stdout();
    assert!(is_task_id(printed.strip_suffix('\n').unwrap()), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_task_in_json_has_every_promised_field() {
    let Shop { project, schema, api, endpoints } = shop();
    let task = project.show(&endpoints);
    for (field, expected) in [
        ("id", json!(endpoints)),
        ("kind", json!("work")),
        ("title", json!("Endpoints")),
        ("description", json!("")),
        ("status", json!("pending")),
        ("ready", json!(false)),
        ("waiting_on", json!([schema])),
        ("parent", json!(api)),
        ("feature", Value::Null),
        ("priority", json!(0)),
        ("attempts", json!(0)),
        ("max_retries", Value::Null),
    ] {
        assert_eq!(task.get(field), Some(&expected), "{field} in {task}");
    }
    assert_eq!(project.show(&schema)["description"], "Tables for users and orders");
    assert_eq!(project.show(&api)["kind"], "group");
}

#[test]
fn what_waits_becomes_ready_when_its_blocker_is_done() {
    let Shop { project, schema, api, endpoints } = shop();
    let ready = || project.ralph(["task", "list", "--ready", "--json"]).json();
    let next = || project.ralph(["task", "next", "--json"]).json();
    assert_eq!(ids(&ready()), [&schema]);
    assert_eq!(next()["id"], json!(schema));

    project.ralph(["task", "done", &schema]).ok();
    assert_eq!(ids(&ready()), [&endpoints]);
    assert_eq!(project.show(&api)["status"], "pending");

    project.ralph(["task", "done", &endpoints]).ok();
    assert_eq!(project.show(&api)["status"], "done");
    assert_eq!(next(), Value::Null);
    check_rules(&project);
}

#[test]
fn a_group_follows_its_children_in_both_directions() {
    let Shop { project, schema, api, endpoints } = shop();
    let status = |task: &str| project.show(task)["status"].as_str().unwrap().to_owned();
    let inner = project.add(["Details", "--group", "--parent", &api]);
    let deep = project.add(["Errors", "--parent", &inner]);
    for task in [&schema, &endpoints, &deep] {
        project.ralph(["task", "done", task]).ok();
    }
    assert_eq!((status(&inner), status(&api)), ("done".into(), "done".into()));

    project.ralph(["task", "fail", &deep, "-r", "it broke"]).ok();
    assert_eq!((status(&inner), status(&api)), ("failed".into(), "failed".into()));
    assert_eq!(project.show(&deep)["reason"], "it broke");

    project.ralph(["task", "reset", &deep]).ok();
    assert_eq!((status(&inner), status(&api)), ("pending".into(), "in_progress".into()));

    project.ralph(["task", "done", &deep]).ok();
    project.add(["Late", "--parent", &inner]);
    assert_eq!((status(&inner), status(&api)), ("in_progress".into(), "in_progress".into()));
    check_rules(&project);
}

#[test]
fn a_work_task_that_is_given_a_child_becomes_a_group() {
    let project = Project::new();
    let task = project.add(["Was work"]);
    project.ralph(["task", "done", &task]).ok();
    let child = project.add(["Inside", "--parent", &task]);
    let shown = project.show(&task);
    assert_eq!((&shown["kind"], &shown["status"]), (&json!("group"), &json!("pending")));
    assert_eq!(ids(&project.ralph(["task", "list", "--ready", "--json"]).json()), [&child]);
    check_rules(&project);
}

#[test]
fn a_group_that_is_held_holds_everything_inside_it() {
    let Shop { project, schema, api, endpoints } = shop();
    project.ralph(["task", "done", &schema]).ok();
    project.ralph(["task", "block", &api, "-r", "REST or RPC?"]).ok();
    let held = project.show(&endpoints);
    assert_eq!((&held["ready"], &held["waiting_on"]), (&json!(false), &json!([api])));
    assert_eq!(project.show(&api)["reason"], "REST or RPC?");
    assert_eq!(project.ralph(["task", "next"]).status.code(), Some(4));

    project.ralph(["task", "reset", &api]).ok();
    assert_eq!(project.show(&endpoints)["ready"], true);
    check_rules(&project);
}

#[test]
fn the_next_task_is_the_first_by_priority_and_then_by_age() {
    let project = Project::new();
    let group = project.add(["Urgent group", "--group", "--priority", "-9"]);
    let second = project.add(["Second"]);
    let third = project.add(["In the group", "--parent", &group]);
    let last = project.add(["Last", "--priority", "1"]);
    let first = project.add(["First", "--priority", "-1"]);
    let ready = project.ralph(["task", "list", "--ready", "--json"]).json();
    assert_eq!(ids(&ready), [&first, &second, &third, &last]);
    assert_eq!(project.ralph(["task", "next", "--json"]).json()["id"], json!(first));
}

#[test]
fn next_says_by_its_exit_code_whether_anything_can_go_on() {
    let project = Project::new();
    let next = || project.ralph(["task", "next"]).status.code();
    assert_eq!(next(), Some(4), "there are no tasks");
    let first = project.add(["First"]);
    let second = project.add(["Second", "--after", &first]);
    assert_eq!(next(), Some(0));
    project.ralph(["task", "fail", &first]).ok();
    assert_eq!(next(), Some(4), "the rest waits for what failed");
    for task in [&first, &second] {
        project.ralph(["task", "done", task]).ok();
    }
    assert_eq!(next(), Some(0), "everything is done");
}

#[test]
fn status_counts_work_by_state() {
    let Shop { project, schema, api, .. } = shop();
    let failed = project.add(["Fails"]);
    let blocked = project.add(["Asks"]);
    project.add(["More", "--parent", &api]);
    project.add(["Ready"]);
    project.ralph(["task", "fail", &failed]).ok();
    project.ralph(["task", "block", &blocked, "-r", "Which?"]).ok();
    let status = project.ralph(["status", "--json"]).json();
    let counts = ["total", "ready", "waiting", "in_progress", "blocked", "done", "failed"]
        .map(|name| status[name].as_u64().unwrap());
    assert_eq!(counts, [6, 2, 2, 0, 1, 0, 1]);
    assert_eq!(status["running"], json!([]));
    project.ralph(["task", "done", &schema]).ok();
    assert_eq!(project.ralph(["status", "--json"]).json()["ready"], 3);
}

#[test]
fn the_tree_in_json_is_in_reading_order_with_depths() {
    let Shop { project, schema, api, endpoints } = shop();
    let other = project.add(["Other"]);
    let below = project.add(["Below", "--parent", &endpoints]);
    let tree = project.ralph(["task", "tree", "--json"]).json();
    assert_eq!(ids(&tree), [&schema, &api, &endpoints, &below, &other]);
    let depths: Vec<u64> =
        tree.as_array().unwrap().iter().map(|task| task["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [0, 0, 1, 2, 0]);
    let part = project.ralph(["task", "tree", &api, "--json"]).json();
    assert_eq!(ids(&part), [&api, &endpoints, &below]);
}

#[test]
fn a_list_can_be_narrowed_to_statuses_and_features() {
    let Shop { project, schema, api, endpoints } = shop();
    project.feature("login");
    let login = project.add(["Form", "--feature", "login"]);
    project.ralph(["task", "done", &schema]).ok();
    let check = |arguments: &[&str], expected: &[&String]| {
        let all = ["task", "list", "--json"].iter().chain(arguments);
        assert_eq!(ids(&project.ralph(all).json()), expected, "{arguments:?}");
    };
    check(&["--status", "done"], &[&schema]);
    check(&["--feature", "login"], &[&login]);
    check(&["--status", "done", "--status", "waiting"], &[&schema, &api]);
    check(&["--ready"], &[&endpoints, &login]);
    check(&["--ready", "--feature", "login"], &[&login]);
    check(&[], &[&schema, &api, &endpoints, &login]);
    assert_eq!(project.show(&login)["feature"], "login");
    let next = project.ralph(["task", "next", "--feature", "login", "--json"]).json();
    assert_eq!(next["id"], json!(login));
}

#[test]
fn an_id_may_be_shortened_to_any_beginning_that_is_unique() {
    let project = Project::new();
    let task = project.add(["Only one"]);
    for length in 3..task.len() {
        assert_eq!(project.show(&task[..length])["id"], json!(task));
    }
}

#[test]
fn update_changes_what_it_is_told_and_nothing_else() {
    let Shop { project, schema, api, endpoints } = shop();
    project.ralph(["task", "update", &schema, "--title", " Tables ", "--priority", "-3"]).ok();
    project.ralph(["task", "update", &schema, "--max-retries", "9"]).ok();
    let task = project.show(&schema);
    assert_eq!(
        (&task["title"], &task["priority"], &task["max_retries"], &task["description"]),
        (&json!("Tables"), &json!(-3), &json!(9), &json!("Tables for users and orders"))
    );
    project.ralph(["task", "update", &schema, "--max-retries", "default", "-d", ""]).ok();
    let task = project.show(&schema);
    assert_eq!((&task["max_retries"], &task["description"]), (&Value::Null, &json!("")));

    project.ralph(["task", "update", &endpoints, "--parent", "none"]).ok();
    assert_eq!(project.show(&endpoints)["parent"], Value::Null);
    assert_eq!(project.show(&api)["kind"], "group", "an empty group stays a group");
    check_rules(&project);
}

#[test]
fn dependencies_can_be_listed_added_twice_and_removed() {
    let project = Project::new();
    let (first, second) = (project.add(["First"]), project.add(["Second"]));
    for _ in 0..2 {
        project.ralph(["task", "deps", "add", &first, &second]).ok();
    }
    let listed = project.ralph(["task", "deps", "list", &second, "--json"]).json();
    assert_eq!(listed, json!([{ "blocker": first, "blocked": second, "done": false }]));
    assert_eq!(project.show(&second)["after"], json!([first]));
    project.ralph(["task", "deps", "rm", &first, &second]).ok();
    assert_eq!(project.show(&second)["ready"], true);
    check_rules(&project);
}

#[test]
fn the_log_keeps_what_happened_and_what_was_noted_in_order() {
    let project = Project::new();
    let task = project.add(["Talked about"]);
    project.ralph(["task", "log", &task, "-m", "first"]).ok();
    project.ralph(["task", "fail", &task, "-r", "second"]).ok();
    project.ralph_reading("third\nin two lines\n", ["task", "log", &task, "-m", "-"]).ok();
    let log = project.ralph(["task", "log", &task, "--json"]).json();
    let entries: Vec<(&str, &str)> = log
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["event"].as_str().unwrap(), entry["message"].as_str().unwrap()))
        .collect();
    assert_eq!(entries, [("note", "first"), ("failed", "second"), ("note", "third\nin two lines")]);
    assert_eq!(project.show(&task)["log"], log);
}

#[test]
fn a_key_that_is_used_again_finds_the_same_task_and_adds_nothing() {
    let project = Project::new();
    let first = project.add(["Same again", "--key", "schema-1"]);
    let export = project.export();
    assert_eq!(project.add(["Another title", "--key", "schema-1"]), first);
    assert_eq!(project.export(), export);
}

#[test]
fn many_tasks_come_from_stdin_and_name_each_other_by_key() {
    let project = Project::new();
    let lines = concat!(
        r#"{"title": "Schema", "key": "schema", "description": "…", "max_retries": 2}"#,
        "\n\n",
        r#"{"title": "API", "key": "api", "group": true, "after": ["schema"]}"#,
        "\r\n",
        r#"{"title": "Endpoints", "parent": "api", "priority": 1}"#,
    );
    let added = project.add_lines(lines);
    let [schema, api, endpoints] = &added[..] else { panic!("{added:?}") };
    assert_eq!(project.show(api)["after"], json!([schema]));
    assert_eq!(project.show(endpoints)["parent"], json!(api));
    assert_eq!(project.show(schema)["max_retries"], 2);
    check_rules(&project);

    let export = project.export();
    let again: Vec<String> =
        project.add_lines(lines.lines().take(3).collect::<Vec<_>>().join("\n"));
    assert_eq!(again, [schema.clone(), api.clone()], "the keys are known already");
    assert_eq!(project.export(), export);
}

#[test]
fn nothing_is_added_when_stdin_is_empty() {
    let project = Project::new();
    assert!(project.add_lines("").is_empty());
    assert_eq!(project.ralph(["task", "list", "--json"]).json(), json!([]));
}

#[test]
fn a_description_may_come_from_a_file_or_from_stdin() {
    let project = Project::new();
    let story = "x".repeat(1 << 20) + "\nÄ 漢字 🦀\n";
    project.write("story.md", &story);
    let from_file = project.add(["From a file", "-d", "@story.md"]);
    let from_stdin = project.ralph_reading(&story, ["task", "add", "From stdin", "-d", "-"]).ok();
    let from_argument = project.add(["From an argument", "-d", &story[(1 << 20) - 100_000..]]);
    assert_eq!(project.show(&from_file)["description"], json!(story));
    assert_eq!(project.show(&from_stdin)["description"], json!(story));
    assert!(project.show(&from_argument)["description"].as_str().unwrap().len() > 100_000);
    project.ralph_reading(&story, ["task", "update", &from_argument, "-d", "-"]).ok();
    assert_eq!(project.show(&from_argument)["description"], json!(story));
    check_rules(&project);
}

#[test]
fn a_task_is_deleted_with_everything_inside_it() {
    let Shop { project, schema, api, .. } = shop();
    project.add(["Deep", "--parent", &project.add(["Inner", "--group", "--parent", &api])]);
    project.ralph(["task", "delete", &api, "--yes"]).ok();
    let left = project.ralph(["task", "list", "--json"]).json();
    assert_eq!(ids(&left), [&schema]);
    check_rules(&project);
}

#[test]
fn a_feature_is_deleted_with_its_tasks_and_files() {
    let project = Project::new();
    project.feature("login");
    project.feature("kept");
    let group = project.add(["Form", "--feature", "login", "--group"]);
    project.add(["Field", "--parent", &group]);
    let kept = project.add(["Kept", "--feature", "kept"]);
    for name in ["login", "kept"] {
        fs::create_dir_all(project.root().join(".ralph/features").join(name)).unwrap();
        project.write(&format!(".ralph/features/{name}/spec.md"), "What it is.");
    }
    let login = project.ralph(["feature", "show", "login", "--json"]).json();
    assert_eq!((&login["total"], &login["has_spec"]), (&json!(1), &json!(true)));

    assert_eq!(project.ralph(["feature", "delete", "login"]).status.code(), Some(2));
    project.ralph(["feature", "delete", "login", "--yes"]).ok();
    assert!(!project.root().join(".ralph/features/login").exists());
    assert_eq!(ids(&project.ralph(["task", "list", "--json"]).json()), [&kept]);

    project.ralph(["feature", "delete", "kept", "--yes", "--keep-files"]).ok();
    assert!(project.root().join(".ralph/features/kept/spec.md").exists());
    assert_eq!(project.ralph(["feature", "list", "--json"]).json(), json!([]));
    check_rules(&project);
}

#[test]
fn an_export_can_be_imported_where_it_came_from_and_changes_nothing() {
    let Shop { project, .. } = shop();
    let export = project.export();
    project.write("dag.jsonl", &export);
    let said = project.ralph(["import", "dag.jsonl"]).ok();
    assert_eq!(said, "imported 3 tasks (0 new), 2 dependencies, 0 features");
    assert_eq!(project.export(), export);
    project.ralph_reading(&export, ["import", "-"]).ok();
    assert_eq!(project.export(), export);
    check_rules(&project);
}

#[test]
fn an_import_merges_by_id_and_keeps_what_it_does_not_mention() {
    let Shop { project, schema, endpoints, .. } = shop();
    let changed = project.export().replace("Set up the schema", "Make the tables");
    let line = changed.lines().find(|line| line.contains("Make the tables")).unwrap();
    let feature = feature_line(&json!({ "name": "new" }));
    project.ralph_reading(format!("{feature}{line}\n"), ["import"]).ok();
    assert_eq!(project.show(&schema)["title"], "Make the tables");
    assert_eq!(project.show(&endpoints)["after"], json!([schema]));
    assert_eq!(project.ralph(["feature", "show", "new", "--json"]).json()["total"], 0);
    check_rules(&project);
}

#[test]
fn every_format_of_the_graph_can_be_drawn_of_everything_or_a_part() {
    let Shop { project, api, .. } = shop();
    project.feature("login");
    for format in ["text", "dot", "mermaid"] {
        for target in [None, Some(api.as_str()), Some("login")] {
            let arguments = ["graph", "--format", format].into_iter().chain(target);
            project.ralph(arguments).ok();
        }
    }
}

#[test]
fn every_shell_gets_completions() {
    let project = Project::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = project.ralph(["completions", shell]).ok();
        assert!(script.contains("ralph"), "{shell}");
    }
}

#[test]
fn every_command_explains_itself() {
    let project = Project::bare();
    let mut commands: Vec<Vec<&str>> = vec![vec![]];
    for name in ["init", "status", "graph", "export", "import", "doctor", "completions"] {
        commands.push(vec![name]);
    }
    for name in ["add", "show", "list", "tree", "next", "update", "delete", "done", "fail", "block"]
    {
        commands.push(vec!["task", name]);
    }
    for name in ["reset", "log", "deps"] {
        commands.push(vec!["task", name]);
    }
    for name in ["list", "show", "delete"] {
        commands.push(vec!["feature", name]);
    }
    commands.push(vec!["config", "show"]);
    for command in commands {
        let help = project.ralph(command.iter().copied().chain(["--help"])).ok();
        assert!(help.contains("Usage: ralph"), "{command:?}: {help}");
    }
    assert!(project.ralph(["--version"]).ok().starts_with("ralph "));
    assert!(project.ralph(["--help"]).ok().contains("130  interrupted"));
}

#[test]
fn ralph_works_from_anywhere_inside_the_project_and_in_directories_with_odd_names() {
    use std::os::unix::ffi::OsStrExt;
    let project = Project::bare();
    let odd = project.root().join(std::ffi::OsStr::from_bytes(b"a b'\"%?#\xff\n"));
    let deep = odd.join("src/deep");
    fs::create_dir_all(&deep).unwrap();
    let run = |directory: &std::path::Path, arguments: &[&str]| {
        let mut command = project.ralph_command(arguments);
        command.current_dir(directory);
        project.run(command, None).ok()
    };
    run(&odd, &["init"]);
    let task = run(&deep, &["task", "add", "Deep"]);
    assert!(run(&odd, &["task", "list", "--json"]).contains(&task));
    assert!(odd.join(".ralph/progress.db").exists());
}

#[test]
fn a_person_reaches_the_database_that_they_name() {
    let project = Project::new();
    project.add(["From here"]);
    let mut command = project.ralph_command(["task", "add", "From elsewhere"]);
    command.current_dir(project.base()).env("RALPH_DB", project.database());
    let made = project.run(command, None).ok();
    assert_eq!(project.show(&made)["created_by"], Value::Null);
}

#[test]
fn a_failure_is_told_in_one_line_by_what_tells_most_of_its_reason() {
    for (reason, told, left_out) in [
        ("PAY_KEY is not set.\n\nI looked twice.\n---\n", "PAY_KEY is not set.", "I looked twice."),
        ("`make` ended with code 2:\ncc a.c\nerror: no `b.h`\n", "error: no `b.h`", "cc a.c"),
    ] {
        let project = Project::new();
        let task = project.add(["Pay"]);
        project.ralph(["task", "fail", &task, "-r", reason]).ok();
        for command in [&["status"][..], &["task", "tree"]] {
            let shown = project.ralph(command).ok();
            assert!(shown.contains(told), "{shown}");
            assert!(!shown.contains(left_out), "{shown}");
        }
        let shown = project.ralph(["task", "show", &task]).ok();
        assert!(shown.contains(left_out), "{shown}");
    }
}
