//! The settings and where each came from, as the program shows them.

use serde_json::{Value, json};

use crate::harness::Project;

fn entry(project: &Project, arguments: &[&str], environment: &[(&str, &str)], key: &str) -> Value {
    let mut command = project.ralph_command(arguments);
    command.args(["config", "show", "--json"]).envs(environment.iter().copied());
    let entries = project.run(command, None).json();
    entries.as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap().clone()
}

#[test]
fn a_setting_tells_its_value_and_where_it_came_from() {
    let project = Project::new();
    let path = project.write(".ralph.toml", "max_retries = 7\n[run]\nstrategy = \"escalate\"\n");
    let check = |arguments: &[&str], environment: &[(&str, &str)], value: Value, origin: &str| {
        let entry = entry(&project, arguments, environment, "max_retries");
        assert_eq!(entry, json!({ "key": "max_retries", "value": value, "origin": origin }));
    };
    check(&[], &[], json!(7), path.to_str().unwrap());
    check(&[], &[("RALPH_MAX_RETRIES", "5")], json!(5), "environment RALPH_MAX_RETRIES");
    check(&[], &[("RALPH_MAX_RETRIES", "")], json!(7), path.to_str().unwrap());

    project.write("other.toml", "max_retries = 1\n");
    check(&["--config", "other.toml"], &[], json!(1), "other.toml");
    let strategy = entry(&project, &["--config", "other.toml"], &[], "run.strategy");
    assert_eq!(strategy["origin"], "default", "another file is used instead, not besides");
}

#[test]
fn a_new_project_has_nothing_but_defaults() {
    let project = Project::new();
    let entries = project.ralph(["config", "show", "--json"]).json();
    let entries = entries.as_array().unwrap();
    assert!(entries.len() > 25, "{entries:?}");
    assert!(entries.iter().all(|entry| entry["origin"] == "default"), "{entries:?}");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let project = Project::new();
    project.write(".ralph.toml", "\nmax_retrys = 7\n");
    let said = project.ralph(["config", "show"]).fails(1);
    insta::assert_snapshot!(project.masked(&said), @r"
    error: `[ROOT]/.ralph.toml`, line 2: unknown key `max_retrys`
    hint: did you mean `max_retries`?
    ");
}

#[test]
fn a_value_that_makes_no_sense_is_refused_where_it_stands() {
    let project = Project::new();
    let said = |arguments: &[&str], variable: (&str, &str)| {
        let mut command = project.ralph_command(arguments);
        command.args(["config", "show"]).env(variable.0, variable.1);
        project.masked(&project.run(command, None).fails(1))
    };
    let none = ("NOTHING", "");
    insta::assert_snapshot!(said(&[], ("RALPH_MAX_RETRIES", "-1")), @"error: environment `RALPH_MAX_RETRIES`: `max_retries` must be a whole number from 0 to 4294967295, not `-1`");
    insta::assert_snapshot!(said(&["--config", "missing.toml"], none), @"error: can't read `missing.toml`: No such file or directory (os error 2)");
    project.write(".ralph.toml", "[run]\nmax_time = \"soon\"\n");
    insta::assert_snapshot!(said(&[], none), @r#"error: `[ROOT]/.ralph.toml`, line 2: `run.max_time` must be a duration such as `2h30m`, or a number of seconds, not `"soon"`"#);
    project.write(".ralph.toml", "max_retries = \n");
    insta::assert_snapshot!(said(&[], none), @"error: `[ROOT]/.ralph.toml`, line 1: not valid TOML: string values must be quoted, expected literal string");
    project.write(".ralph.toml", b"# \xff\n");
    insta::assert_snapshot!(said(&[], none), @"error: `[ROOT]/.ralph.toml`, line 1: not UTF-8 text");
}

#[test]
fn a_bad_settings_file_does_not_keep_anybody_from_their_tasks() {
    let project = Project::new();
    project.write(".ralph.toml", "nonsense");
    let task = project.add(["Still there"]);
    assert_eq!(project.show(&task)["title"], "Still there");
    assert_eq!(project.ralph(["doctor"]).status.code(), Some(1));
}
