//! Bad input gets a clear error and changes nothing.

use serde_json::json;

use crate::harness::{Project, check_rules, feature_line, is_task_id, task_line};

/// Two tasks of which the second waits for the first.
fn pair() -> (Project, String, String) {
    let project = Project::new();
    let first = project.add(["First"]);
    let second = project.add(["Second", "--after", &first]);
    (project, first, second)
}

#[test]
fn an_unknown_task_is_told_with_the_nearest_ids() {
    let project = Project::new();
    insta::assert_snapshot!(project.refuses(1, ["task", "show", "t-zzz"]), @r"
    error: there is no task `t-zzz`
    hint: there are no tasks yet; add one with `ralph task add TITLE`
    ");
    let task = |id: &str, title: &str| {
        let line = task_line(&json!({ "id": id, "title": title }));
        project.ralph_reading(line, ["import"]).ok();
    };
    task("t-abcdef", "The only one");
    insta::assert_snapshot!(project.refuses(1, ["task", "show", "t-zzz"]), @r#"
    error: there is no task `t-zzz`
    hint: the nearest ids are [A] "The only one"
    "#);
    for id in ["t-000002", "t-abc003", "t-zz0004", "t-000005"] {
        task(id, "Another one");
    }
    // One letter is wrong, or one is missing: what was meant comes first.
    for wrong in ["t-abcdeg", "t-abdef"] {
        let said = project.ralph(["task", "show", wrong]).fails(1);
        assert!(said.contains("the nearest ids are t-abcdef \"The only one\", t-"), "{said}");
    }
}

#[test]
fn every_command_refuses_an_unknown_task() {
    let (project, first, _) = pair();
    let no = if first.starts_with("t-00") { "t-zz0000" } else { "t-000000" };
    let commands: &[&[&str]] = &[
        &["task", "show", no],
        &["task", "tree", no],
        &["task", "update", no, "--title", "x"],
        &["task", "update", &first, "--parent", no],
        &["task", "delete", no, "--yes"],
        &["task", "done", no],
        &["task", "fail", no],
        &["task", "block", no, "-r", "x"],
        &["task", "reset", no],
        &["task", "log", no],
        &["task", "log", no, "-m", "x"],
        &["task", "deps", "add", no, &first],
        &["task", "deps", "add", &first, no],
        &["task", "deps", "rm", no, &first],
        &["task", "deps", "list", no],
        &["task", "add", "x", "--parent", no],
        &["task", "add", "x", "--after", no],
        &["task", "add", "x", "--after", &first, "--after", no],
        &["graph", no],
    ];
    for command in commands {
        let said = project.refuses(1, command.iter().copied());
        assert!(said.starts_with("error: there is no task `[A]`\nhint: "), "{command:?}: {said}");
    }
}

#[test]
fn what_does_not_look_like_an_id_is_told_so() {
    let (project, ..) = pair();
    for text in ["", "1", "First", "T-000000", "t-toolong", "t_000000", "f-000000", "t-00000\u{e9}"]
    {
        let said = project.refuses(1, ["task", "show", text]);
        let expected = format!(
            "error: `{text}` is not a task id\nhint: ids look like `t-3f9a01`; `ralph task list` shows them"
        );
        assert_eq!(said, project.masked(&expected));
    }
    insta::assert_snapshot!(project.refuses(1, ["graph", "First"]), @r"
    error: there is no feature `First`
    hint: there are no features yet
    ");
}

#[test]
fn a_beginning_of_several_ids_is_told_with_the_candidates() {
    let lonely = Project::new();
    lonely.add(["The only one"]);
    insta::assert_snapshot!(lonely.refuses(1, ["task", "delete", "t-", "--yes"]), @"
    error: `t-` is the beginning of every id
    hint: type more of it: [A]
    ");
    let (project, first, second) = pair();
    let said = project.ralph(["task", "done", "t-"]).fails(1);
    let mut both = [first.as_str(), second.as_str()];
    both.sort_unstable();
    let expected = format!(
        "error: `t-` is the beginning of more than one id\nhint: type more of it: {}",
        both.join(", ")
    );
    assert_eq!(said, expected);
    for count in 3..=7 {
        project.add([&*format!("Number {count}")]);
    }
    insta::assert_snapshot!(project.refuses(1, ["task", "done", "t-"]), @r"
    error: `t-` is the beginning of more than one id
    hint: type more of it: [A], [B], [C], [D], [E], …
    ");
}

#[test]
fn a_title_is_one_line_that_is_neither_empty_nor_endless() {
    let (project, first, _) = pair();
    let long = "x".repeat(100_000);
    for (title, expected) in [
        ("", "error: the title is empty"),
        (" \t\u{a0}\n ", "error: the title is empty"),
        (
            "two\nlines",
            "error: the title `two\\nlines` has more than one line\nhint: put the rest into the description (-d)",
        ),
        (
            "two\rlines",
            "error: the title `two\\rlines` has more than one line\nhint: put the rest into the description (-d)",
        ),
        (
            &long,
            "error: the title has 100000 characters, more than 500\nhint: keep the title to a line and put the rest into the description (-d)",
        ),
    ] {
        assert_eq!(project.refuses(1, ["task", "add", title]), expected);
        assert_eq!(project.refuses(1, ["task", "update", &first, "--title", title]), expected);
        let line = json!({ "title": title }).to_string();
        let expected = expected.replacen("error: ", "error: line 1: ", 1);
        assert_eq!(project.refuses_reading(1, line, ["task", "add", "--stdin"]), expected);
    }
    // An argument can't be that long, a line can.
    let line = json!({ "title": "x".repeat(1 << 20) }).to_string();
    insta::assert_snapshot!(project.refuses_reading(1, line, ["task", "add", "--stdin"]), @"
    error: line 1: the title has 1048576 characters, more than 500
    hint: keep the title to a line and put the rest into the description (-d)
    ");
    insta::assert_snapshot!(project.refuses_reading(1, "{}", ["task", "add", "--stdin"]), @"error: line 1: the title is empty");
    project.add([&*"漢".repeat(500)]);
    check_rules(&project);
}

#[test]
fn a_description_that_cannot_be_read_is_told_so() {
    let (project, first, _) = pair();
    project.write("latin1.txt", b"sch\xf6n");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "-d", "@missing.md"]), @"
    error: can't read `missing.md`: No such file or directory (os error 2)
    hint: a text that begins with @ names a file; any text can be given on stdin, with `-`
    ");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "-d", "@latin1.txt"]), @"error: `latin1.txt` is not UTF-8 text");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "-d", "@.ralph"]), @"
    error: can't read `.ralph`: Is a directory (os error 21)
    hint: a text that begins with @ names a file; any text can be given on stdin, with `-`
    ");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "-d", "@"]), @"
    error: can't read ``: No such file or directory (os error 2)
    hint: a text that begins with @ names a file; any text can be given on stdin, with `-`
    ");
    insta::assert_snapshot!(project.refuses_reading(1, b"\xff", ["task", "update", &first, "-d", "-"]), @"error: stdin is not UTF-8 text");
    insta::assert_snapshot!(project.refuses_reading(1, b"\xff", ["task", "log", &first, "-m", "-"]), @"error: stdin is not UTF-8 text");
    let endless = vec![b'x'; (16 << 20) + 1];
    insta::assert_snapshot!(project.refuses_reading(1, endless, ["task", "add", "x", "-d", "-"]), @"error: the description has 16777217 bytes, more than 16777216");
}

#[test]
fn a_nul_character_is_refused_wherever_it_can_be_written() {
    let (project, first, _) = pair();
    let add = |line: &str| project.refuses_reading(1, line, ["task", "add", "--stdin"]);
    insta::assert_snapshot!(add(r#"{"title": "a\u0000b"}"#), @"error: line 1: the title contains a NUL character");
    insta::assert_snapshot!(add(r#"{"title": "a", "description": "\u0000"}"#), @"error: line 1: the description contains a NUL character");
    insta::assert_snapshot!(add(r#"{"title": "a", "key": "k\u0000"}"#), @"error: line 1: the key contains a NUL character");
    insta::assert_snapshot!(add("{\"title\": \"a\0b\"}"), @r"error: line 1: control character (\u0000-\u001F) found while parsing a string (column 13)");
    insta::assert_snapshot!(project.refuses_reading(1, "a\0b", ["task", "add", "x", "-d", "-"]), @"error: the description contains a NUL character");
    insta::assert_snapshot!(project.refuses_reading(1, "a\0b", ["task", "log", &first, "-m", "-"]), @"error: a note contains a NUL character");
}

#[test]
fn numbers_must_be_in_range() {
    let (project, first, _) = pair();
    for number in ["-1", "4294967296", "99999999999999999999", "1.5", "many", ""] {
        let said = project.refuses(2, ["task", "add", "x", "--max-retries", number]);
        assert!(said.contains("--max-retries"), "{said}");
        let line = format!(
            r#"{{"title": "x", "max_retries": {}}}"#,
            if number.is_empty() { "\"\"" } else { number }
        );
        let said = project.refuses_reading(1, line, ["task", "add", "--stdin"]);
        assert!(said.starts_with("error: line 1: "), "{said}");
    }
    for number in ["2147483648", "-2147483649", "0x1", ""] {
        let said = project.refuses(2, ["task", "add", "x", "--priority", number]);
        assert!(said.contains("--priority"), "{said}");
        project.refuses(2, ["task", "update", &first, "--priority", number]);
    }
    let edge = project.add(["x", "--max-retries", "4294967295", "--priority", "-2147483648"]);
    let edge = project.show(&edge);
    assert_eq!((&edge["max_retries"], &edge["priority"]), (&json!(u32::MAX), &json!(i32::MIN)));
    check_rules(&project);
}

#[test]
fn a_wrong_feature_of_any_length_is_told_at_once() {
    let project = Project::new();
    let features = (0..20).map(|number| {
        let name = format!("{number} {}", "x".repeat(60));
        feature_line(&json!({ "id": format!("f-{number:06}"), "name": name }))
    });
    project.ralph_reading(features.collect::<String>(), ["import"]).ok();
    let line = json!({ "title": "One", "feature": "y".repeat(16 << 20) });
    let said = project.refuses_reading(1, format!("{line}\n"), ["task", "add", "--stdin"]);
    assert!(said.contains("line 1: there is no feature `yyyy") && said.len() < 300, "{said}");
}

#[test]
fn a_wrong_feature_is_told_with_the_nearest() {
    let (project, first, _) = pair();
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "--feature", "login"]), @r"
    error: there is no feature `login`
    hint: there are no features yet
    ");
    project.feature("login");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "--feature", "logni"]), @r"
    error: there is no feature `logni`
    hint: the nearest is `login`; `ralph feature list` shows all
    ");
    for command in [
        &["task", "list", "--feature", "nope"][..],
        &["task", "next", "--feature", "nope"],
        &["feature", "show", "nope"],
        &["feature", "delete", "nope", "--yes"],
        &["feature", "show", ""],
        &["graph", "nope"],
        &["task", "add", "x", "--feature", &first],
    ] {
        let said = project.refuses(1, command.iter().copied());
        assert!(said.starts_with("error: there is no feature `"), "{command:?}: {said}");
    }
}

#[test]
fn a_parent_must_be_in_the_same_feature() {
    let (project, first, second) = pair();
    project.feature("login");
    let login = project.add(["Form", "--feature", "login"]);
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "--feature", "login", "--parent", &first]), @r"
    error: the parent `[A]` does not belong to feature `login`
    hint: leave out --feature, or choose a parent inside that feature
    ");
    insta::assert_snapshot!(project.refuses(1, ["task", "update", &second, "--parent", &login]), @"error: `[A]` and `[B]` belong to different features");
    insta::assert_snapshot!(project.refuses(1, ["task", "update", &login, "--parent", &second]), @"error: `[A]` and `[B]` belong to different features");
    let child = project.add(["Field", "--parent", &login]);
    assert_eq!(project.show(&child)["feature"], "login", "it is the parent's by default");
    check_rules(&project);
}

#[test]
fn a_task_cannot_wait_for_itself() {
    let (project, first, _) = pair();
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "add", &first, &first]), @"error: `[A]` can't wait for itself");
    let line = r#"{"title": "x", "key": "me", "after": ["me"]}"#;
    project.refuses_reading(1, line, ["task", "add", "--stdin"]);
}

#[test]
fn a_loop_is_refused_and_shown() {
    let (project, first, second) = pair();
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "add", &second, &first]), @r#"
    error: `[A]` can't wait for `[B]`: that closes a loop
      [B] "Second" waits for [A] "First"
    hint: remove one side with `ralph task deps rm`
    "#);
    let third = project.add(["Third", "--after", &second]);
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "add", &third, &first]), @r#"
    error: `[A]` can't wait for `[B]`: that closes a loop
      [C] "Second" waits for [A] "First"
      [B] "Third" waits for [C] "Second"
    hint: remove one side with `ralph task deps rm`
    "#);
    check_rules(&project);
}

#[test]
fn a_long_loop_is_shown_without_its_middle() {
    let project = Project::new();
    let lines: String = (0..50)
        .map(|i| {
            let after = if i == 0 { vec![] } else { vec![format!("k{}", i - 1)] };
            json!({ "title": format!("Step {i}"), "key": format!("k{i}"), "after": after })
                .to_string()
                + "\n"
        })
        .collect();
    let steps = project.add_lines(lines);
    let said = project.refuses(1, ["task", "deps", "add", &steps[49], &steps[0]]);
    assert!(said.lines().count() < 20, "{said}");
    assert!(said.contains("more steps"), "{said}");
}

#[test]
fn nothing_inside_a_group_can_wait_for_the_group_nor_the_group_for_it() {
    let project = Project::new();
    let outer = project.add(["Outer", "--group"]);
    let inner = project.add(["Inner", "--group", "--parent", &outer]);
    let child = project.add(["Child", "--parent", &inner]);
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "add", &outer, &child]), @r#"
    error: `[A]` can't wait for `[B]`: that closes a loop
      [A] "Child" is inside [C] "Inner"
      [C] "Inner" is inside [B] "Outer"
    hint: remove one side with `ralph task deps rm`
    "#);
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "add", &child, &outer]), @r#"
    error: `[A]` can't wait for `[B]`: that closes a loop
      [C] "Inner" is inside [A] "Outer"
      [B] "Child" is inside [C] "Inner"
    hint: remove one side with `ralph task deps rm`
    "#);
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "New", "--parent", &inner, "--after", &outer]), @r#"
    error: `[A]` can't wait for `[B]`: that closes a loop
      [A] "New" is inside [C] "Inner"
      [C] "Inner" is inside [B] "Outer"
    hint: remove one side with `ralph task deps rm`
    "#);
    check_rules(&project);
}

#[test]
fn two_groups_cannot_wait_for_each_others_insides() {
    let project = Project::new();
    let (api, ui) = (project.add(["API", "--group"]), project.add(["UI", "--group"]));
    let endpoint = project.add(["Endpoint", "--parent", &api]);
    let button = project.add(["Button", "--parent", &ui]);
    project.ralph(["task", "deps", "add", &button, &api]).ok();
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "add", &endpoint, &ui]), @r#"
    error: `[A]` can't wait for `[B]`: that closes a loop
      [C] "Button" is inside [A] "UI"
      [D] "API" waits for [C] "Button"
      [B] "Endpoint" is inside [D] "API"
    hint: remove one side with `ralph task deps rm`
    "#);
    project.ralph(["task", "deps", "rm", &button, &api]).ok();
    project.ralph(["task", "deps", "add", &endpoint, &ui]).ok();
    check_rules(&project);
}

#[test]
fn a_task_cannot_move_where_it_would_wait_for_itself() {
    let project = Project::new();
    let outer = project.add(["Outer", "--group"]);
    let inner = project.add(["Inner", "--group", "--parent", &outer]);
    let child = project.add(["Child", "--parent", &inner]);
    let after = project.add(["After", "--after", &outer]);
    insta::assert_snapshot!(project.refuses(1, ["task", "update", &outer, "--parent", &outer]), @"error: `[A]` can't go into itself");
    insta::assert_snapshot!(project.refuses(1, ["task", "update", &outer, "--parent", &child]), @r#"
    error: `[A]` can't go into `[B]`: that closes a loop
      [C] "Inner" is inside [A] "Outer"
      [B] "Child" is inside [C] "Inner"
    hint: remove one side with `ralph task deps rm`, or choose another parent
    "#);
    insta::assert_snapshot!(project.refuses(1, ["task", "update", &after, "--parent", &inner]), @r#"
    error: `[A]` can't go into `[B]`: that closes a loop
      [B] "Inner" is inside [C] "Outer"
      [A] "After" waits for [C] "Outer"
    hint: remove one side with `ralph task deps rm`, or choose another parent
    "#);
    // What else was to be changed is not changed either.
    project.refuses(1, ["task", "update", &outer, "--title", "New", "--parent", &child]);
    check_rules(&project);
}

#[test]
fn what_is_not_there_cannot_be_removed() {
    let (project, first, second) = pair();
    insta::assert_snapshot!(project.refuses(1, ["task", "deps", "rm", &second, &first]), @r"
    error: `[A]` does not wait for `[B]`
    hint: `ralph task deps list [A]` shows what it waits for
    ");
    project.refuses(1, ["task", "deps", "rm", &first, &first]);
}

#[test]
fn a_group_cannot_be_finished_by_hand() {
    let project = Project::new();
    let group = project.add(["Group", "--group"]);
    insta::assert_snapshot!(project.refuses(1, ["task", "done", &group]), @r"
    error: `[A]` can't be declared done: it is a group: its status follows from its children
    hint: `ralph task tree [A]` shows what is inside
    ");
    insta::assert_snapshot!(project.refuses(1, ["task", "fail", &group, "-r", "x"]), @r"
    error: `[A]` can't be declared failed: it is a group: its status follows from its children
    hint: `ralph task tree [A]` shows what is inside
    ");
    let child = project.add(["Child", "--parent", &group]);
    project.ralph(["task", "done", &child]).ok();
    insta::assert_snapshot!(project.refuses(1, ["task", "block", &group, "-r", "Why?"]), @r"
    error: `[A]` can't be blocked: it is already done
    hint: `ralph task tree [A]` shows what is inside
    ");
}

#[test]
fn what_is_finished_cannot_be_held() {
    let (project, first, second) = pair();
    project.ralph(["task", "done", &first]).ok();
    project.ralph(["task", "fail", &second]).ok();
    insta::assert_snapshot!(project.refuses(1, ["task", "block", &first, "-r", "Why?"]), @r"
    error: `[A]` can't be blocked: it is already done
    hint: `ralph task reset [A]` puts it back to pending
    ");
    insta::assert_snapshot!(project.refuses(1, ["task", "block", &second, "-r", "Why?"]), @r"
    error: `[A]` can't be blocked: it is already failed
    hint: `ralph task reset [A]` puts it back to pending
    ");
}

#[test]
fn reasons_and_notes_say_something() {
    let (project, first, _) = pair();
    insta::assert_snapshot!(project.refuses(1, ["task", "fail", &first, "-r", ""]), @"error: the reason is empty");
    insta::assert_snapshot!(project.refuses(1, ["task", "block", &first, "-r", " \n"]), @"error: the reason is empty");
    insta::assert_snapshot!(project.refuses(1, ["task", "log", &first, "-m", "  "]), @"error: a note can't be empty");
    let said = project.refuses(2, ["task", "block", &first]);
    assert!(said.contains("--reason"), "{said}");
}

#[test]
fn what_is_waited_for_cannot_be_deleted() {
    let project = Project::new();
    let group = project.add(["Group", "--group"]);
    let inside = project.add(["Inside", "--parent", &group]);
    let beside = project.add(["Beside", "--parent", &group, "--after", &inside]);
    let outside = project.add(["Outside", "--after", &inside]);
    insta::assert_snapshot!(project.refuses(1, ["task", "delete", &group, "--yes"]), @r#"
    error: `[A]` can't be deleted: [B] "Outside" waits for [C]
    hint: remove that with `ralph task deps rm [C] [B]`
    "#);
    insta::assert_snapshot!(project.refuses(1, ["task", "delete", &inside, "--yes"]), @r#"
    error: `[A]` can't be deleted: [B] "Beside" waits for [A]
    hint: remove that with `ralph task deps rm [A] [B]`
    "#);
    project.ralph(["task", "deps", "rm", &inside, &outside]).ok();
    project.ralph(["task", "delete", &group, "--yes"]).ok();
    let gone = project.ralph(["task", "show", &beside]).fails(1);
    assert!(gone.contains("there is no task"), "{gone}");
    check_rules(&project);
}

#[test]
fn a_feature_that_others_wait_for_cannot_be_deleted() {
    let project = Project::new();
    project.feature("login");
    let form = project.add(["Form", "--feature", "login"]);
    project.add(["Outside", "--after", &form]);
    std::fs::create_dir_all(project.root().join(".ralph/features/login")).unwrap();
    insta::assert_snapshot!(project.refuses(1, ["feature", "delete", "login", "--yes"]), @r#"
    error: the feature can't be deleted: [A] "Outside" waits for its task [B]
    hint: remove that with `ralph task deps rm [B] [A]`
    "#);
    assert!(project.root().join(".ralph/features/login").exists());
}

#[test]
fn deleting_asks_and_refuses_where_nobody_can_answer() {
    let (project, _, second) = pair();
    project.feature("login");
    insta::assert_snapshot!(project.refuses(2, ["task", "delete", &second]), @r#"
    error: there is no terminal to ask on: Delete [A] "Second"?
    hint: repeat it with --yes
    "#);
    project.refuses_reading(2, "y\n", ["task", "delete", &second]);
    project.refuses(2, ["feature", "delete", "login"]);
}

#[test]
fn wrong_usage_is_code_two() {
    let (project, first, _) = pair();
    for command in [
        &["nonsense"][..],
        &["task", "add"],
        &["task", "add", "a", "b"],
        &["task", "add", "a", "--stdin"],
        &["task", "add", "--stdin", "--key", "k"],
        &["task", "update", &first],
        &["task", "list", "--status", "finished"],
        &["task", "deps", "add", &first],
        &["graph", "--format", "svg"],
        &["completions", "tcsh"],
        &["task", "show", &first, "--nonsense"],
    ] {
        project.refuses(2, command.iter().copied());
    }
    // Without anything at all it explains itself, but that was no success either.
    for command in [&[][..], &["task"], &["task", "deps"], &["feature"], &["config"]] {
        let output = project.ralph(command);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stderr().contains("Usage: ralph"), "{output:?}");
    }
}

#[test]
fn a_key_is_not_empty_endless_or_an_id() {
    let (project, ..) = pair();
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "--key", ""]), @"error: the key is empty");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "--key", "t-3f"]), @"error: the key `t-3f` looks like a task id");
    insta::assert_snapshot!(project.refuses(1, ["task", "add", "x", "--key", &"k".repeat(201)]), @"error: the key has more than 200 characters");
}

#[test]
fn one_bad_line_on_stdin_and_nothing_is_added() {
    let (project, ..) = pair();
    let good = r#"{"title": "Good", "key": "good"}"#;
    let after = |line: &str| {
        let lines = format!("{good}\n{line}\n{good}\n");
        project.refuses_reading(1, lines, ["task", "add", "--stdin"])
    };
    insta::assert_snapshot!(after("{"), @"error: line 2: EOF while parsing an object (column 1)");
    insta::assert_snapshot!(after("[]"), @"error: line 2: the title is empty");
    insta::assert_snapshot!(after("null"), @"error: line 2: invalid type: null, expected struct NewTask (column 4)");
    insta::assert_snapshot!(after(r#""Title""#), @r#"error: line 2: invalid type: string "Title", expected struct NewTask (column 7)"#);
    insta::assert_snapshot!(after(r#"{"title": 1}"#), @"error: line 2: invalid type: integer `1`, expected a string (column 11)");
    insta::assert_snapshot!(after(r#"{"titel": "x"}"#), @"error: line 2: unknown field `titel`, expected one of `title`, `description`, `group`, `parent`, `feature`, `after`, `priority`, `max_retries`, `not_before`, `key` (column 8)");
    insta::assert_snapshot!(after(r#"{"title": "x", "title": "y"}"#), @"error: line 2: duplicate field `title` (column 22)");
    insta::assert_snapshot!(after(r#"{"title": "x", "parent": "nowhere"}"#), @"
    error: line 2: `nowhere` is not a task id
    hint: ids look like `t-3f9a01`; `ralph task list` shows them
    ");
    insta::assert_snapshot!(after(r#"{"title": "x", "after": ["good", "t-zzzzzzz"]}"#), @"
    error: line 2: `t-zzzzzzz` is not a task id
    hint: ids look like `t-3f9a01`; `ralph task list` shows them
    ");
    insta::assert_snapshot!(after(r#"{"title": "x"} {"title": "y"}"#), @"error: line 2: trailing characters (column 16)");
    let deep = "[".repeat(100_000);
    let said = after(&format!(r#"{{"title": {deep}"#));
    assert!(said.starts_with("error: line 2: "), "{said}");
    assert_eq!(
        project.refuses_reading(1, b"\xff\xfe", ["task", "add", "--stdin"]),
        "error: line 1: expected value (column 1)"
    );
}

#[test]
fn a_variable_makes_nobody_an_agent() {
    let (project, first, _) = pair();
    let mut command = project.ralph_command(["task", "add", "By a person"]);
    command.env("RALPH_ATTEMPT_ID", "a-000001").env("RALPH_TASK_ID", &first);
    let added = project.run(command, None).ok();
    assert_eq!(project.show(&added)["created_by"], serde_json::Value::Null);
}

#[test]
fn a_session_that_is_over_is_answered_by_nobody() {
    let (project, first, _) = pair();
    let before = project.export();
    let mut command = project.ralph_command(["task", "done", &first]);
    command.env("RALPH_SOCKET", project.base().join("nowhere/ralph"));
    let said = project.masked(&project.run(command, None).fails(1));
    insta::assert_snapshot!(said, @"
    error: the run behind `[BASE]/nowhere/ralph` does not answer: No such file or directory (os error 2)
    hint: the session that RALPH_SOCKET belongs to is over; unset it to work on the project
    ");
    assert_eq!(project.export(), before);
}

#[test]
fn an_id_that_was_printed_is_always_an_id() {
    let project = Project::new();
    let lines = "{\"title\": \"x\"}\n".repeat(500);
    let ids = project.add_lines(lines);
    assert!(ids.iter().all(|id| is_task_id(id)));
    assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), 500);
}
