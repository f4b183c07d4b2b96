//! What a user may write, and what the program makes of it.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt};

use insta::assert_debug_snapshot;
use proptest::{collection::vec, proptest, sample::select};

use super::*;
use crate::hint::hint_of;

const EXAMPLE: &str = include_str!("../../.ralph.toml.example");

fn load(file: &[u8], variables: &[(&str, &str)], flags: &[Flag]) -> Result<Loaded> {
    let given = file::parse(Path::new(".ralph.toml"), file)?;
    fold(given, &variables.iter().copied().collect(), flags)
}

fn show(loaded: &Loaded, key: &str) -> String {
    let entry = loaded.entries().iter().find(|entry| entry.key == key).unwrap();
    let value = entry.value.as_ref().map_or("unset".into(), Value::to_string);
    format!("{value} ({})", entry.origin)
}

/// What the binary prints.
fn report(error: &anyhow::Error) -> String {
    match hint_of(error) {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

fn refused(file: &str, expected: &str) {
    let error = load(file.as_bytes(), &[], &[]).expect_err(file);
    assert_eq!(report(&error), expected, "{file}");
}

#[test]
fn nothing_given_is_the_defaults() {
    let loaded = Settings::load(None, &Environment::from_iter([("", ""); 0]), &[]).unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.entries().iter().all(|entry| entry.origin == Origin::Default));
    assert_eq!(show(&loaded, "agent.command"), r#""claude" (default)"#);
    assert_eq!(show(&loaded, "verify.commands"), "[] (default)");
    assert_eq!(show(&loaded, "run.max_cost"), "unset (default)");
}

#[test]
fn a_file_without_end_is_refused_before_it_fills_the_memory() {
    let nothing = Environment::from_iter([("", ""); 0]);
    let error = Settings::load(Some(Path::new("/dev/zero")), &nothing, &[]).unwrap_err();
    assert_eq!(report(&error), "`/dev/zero` has more than 1048576 bytes");
}

#[test]
fn the_example_is_the_defaults() {
    assert_eq!(load(EXAMPLE.as_bytes(), &[], &[]).unwrap().settings, Settings::default());
}

#[test]
fn the_example_has_every_key_in_the_order_of_the_table() {
    let unset = |line: &str| line.starts_with('#') && !line.starts_with("# ");
    let all: Vec<_> =
        EXAMPLE.lines().map(|line| if unset(line) { &line[1..] } else { line }).collect();
    let loaded = load(all.join("\n").as_bytes(), &[], &[]).unwrap();

    let line = |entry: &Entry| match entry.origin {
        Origin::File { line, .. } => line,
        _ => panic!("`{}` is not in the example", entry.key),
    };
    assert!(loaded.entries().is_sorted_by_key(line));
}

#[test]
fn the_example_tells_every_choice() {
    for name in [Strategy::NAMES, Backend::NAMES, Network::NAMES].concat() {
        assert!(EXAMPLE.contains(name), "{name}");
    }
}

#[test]
fn every_key_reaches_its_setting() {
    let file = br#"
        pty_mode = true
        pty_interactive = false
        idle_timeout_secs = 0
        prompt_file = "p.md"
        completion_promise = "DONE"
        max_retries = 0
        learn = true
        auto_push = true
        git_stats = false
        log_dir = "/logs"
        [agent]
        command = "codex"
        background_tasks = true
        allowed_tools = ["Read"]
        mcp = "servers.json"
        silence_timeout_secs = 1
        exit_grace_secs = 2
        [run]
        strategy = "fixed"
        model = "opus"
        hints = false
        max_iterations = 3
        max_time = "4s"
        max_cost = 5
        allow_dirty = true
        [verify]
        agent = false
        commands = ["true"]
        timeout_secs = 6
        baseline = "off"
        [sandbox]
        backend = "none"
        network = "none"
        allow = ["aws"]
        deny_read = ["/secret"]
        template = "t"
        [notify]
        command = "n"
        [loop]
        command = "c"
        max_iterations = 7
        pause_secs = 0
        [clean]
        keep_days = 8
    "#;
    let loaded = load(file, &[], &[]).unwrap();
    assert!(loaded.entries().iter().all(|entry| entry.origin != Origin::Default));
    assert_debug_snapshot!(loaded.settings, @r#"
    Settings {
        pty_mode: true,
        pty_interactive: false,
        idle_timeout: None,
        prompt_file: "p.md",
        completion_promise: "DONE",
        max_retries: 0,
        learn: true,
        auto_push: true,
        git_stats: false,
        log_dir: Some(
            "/logs",
        ),
        agent: AgentSettings {
            command: "codex",
            background_tasks: true,
            allowed_tools: [
                "Read",
            ],
            mcp: "servers.json",
            silence_timeout: Some(
                1s,
            ),
            exit_grace: 2s,
        },
        run: RunSettings {
            strategy: Fixed,
            model: Some(
                "opus",
            ),
            hints: false,
            max_iterations: Some(
                3,
            ),
            max_time: Some(
                4s,
            ),
            max_cost: Some(
                5.0,
            ),
            allow_dirty: true,
        },
        verify: VerifySettings {
            agent: false,
            commands: [
                "true",
            ],
            timeout: Some(
                6s,
            ),
            baseline: Off,
        },
        sandbox: SandboxSettings {
            backend: None,
            network: None,
            allow: [
                "aws",
            ],
            deny_read: [
                "/secret",
            ],
            template: "t",
        },
        notify: NotifySettings {
            command: Some(
                "n",
            ),
        },
        plain_loop: LoopSettings {
            command: Some(
                "c",
            ),
            max_iterations: 7,
            pause: 0ns,
        },
        clean: CleanSettings {
            keep_days: 8,
        },
    }
    "#);
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    fn check(file: &str, variable: (&str, &str), flag: Flag, values: [&str; 4]) {
        let (key, flag_name) = (flag.key, flag.name);
        let (variable_name, variable, flag) = (variable.0, &[variable], &[flag]);
        let layers = [
            load(b"", &[], &[]),
            load(file.as_bytes(), &[], &[]),
            load(file.as_bytes(), variable, &[]),
            load(file.as_bytes(), variable, flag),
        ];
        let origins = [
            "default".into(),
            ".ralph.toml".into(),
            format!("environment {variable_name}"),
            format!("flag {flag_name}"),
        ];
        for ((loaded, origin), value) in layers.into_iter().zip(origins).zip(values) {
            assert_eq!(show(&loaded.unwrap(), key), format!("{value} ({origin})"));
        }
    }
    check(
        "pty_mode = true",
        ("RALPH_PTY_MODE", "no"),
        Flag::new("--pty", "pty_mode", true),
        ["false", "true", "false", "true"],
    );
    check(
        "max_retries = 1",
        ("RALPH_MAX_RETRIES", "2"),
        Flag::new("--max-retries", "max_retries", 4_u32),
        ["3", "1", "2", "4"],
    );
    check(
        "[run]\nmax_time = '1h'",
        ("RALPH_RUN_MAX_TIME", "2h"),
        Flag::new("--max-time", "run.max_time", "2h30m"),
        ["unset", r#""1h""#, r#""2h""#, r#""2h30m""#],
    );
    check(
        "run.max_cost = 1",
        ("RALPH_RUN_MAX_COST", "2"),
        Flag::new("--max-cost", "run.max_cost", 2.5),
        ["unset", "1", "2.0", "2.5"],
    );
    check(
        "sandbox = { allow = ['aws'] }",
        ("RALPH_SANDBOX_ALLOW", " /a, /b,"),
        Flag::new("--allow", "sandbox.allow", vec!["/c"]),
        ["[]", r#"["aws"]"#, r#"["/a", "/b"]"#, r#"["/c"]"#],
    );
    check(
        "run.strategy = 'fixed'",
        ("RALPH_RUN_STRATEGY", "escalate"),
        Flag::new("--strategy", "run.strategy", "plan-then-execute"),
        [r#""cost-optimized""#, r#""fixed""#, r#""escalate""#, r#""plan-then-execute""#],
    );
}

#[test]
fn a_variable_sets_its_key() {
    fn check(variables: &[(&str, &str)], key: &str, expected: &str) {
        assert_eq!(show(&load(b"", variables, &[]).unwrap(), key), expected);
    }
    check(&[("RALPH_COMMAND", "a")], "loop.command", r#""a" (environment RALPH_COMMAND)"#);
    check(&[("RALPH_COMMAND", "a")], "agent.command", r#""claude" (default)"#);
    check(&[("RALPH_TEMPLATE", "t")], "sandbox.template", r#""t" (environment RALPH_TEMPLATE)"#);
    check(
        &[("RALPH_MAX_ITERATIONS", " 5 ")],
        "loop.max_iterations",
        "5 (environment RALPH_MAX_ITERATIONS)",
    );
    for (word, expected) in [("OFF", "false"), ("0", "false"), ("No", "false"), ("1", "true")] {
        let expected = format!("{expected} (environment RALPH_VERIFY)");
        check(&[("RALPH_VERIFY", word)], "verify.agent", &expected);
    }
    check(
        &[("RALPH_LOOP_COMMAND", "own"), ("RALPH_COMMAND", "alias")],
        "loop.command",
        r#""own" (environment RALPH_LOOP_COMMAND)"#,
    );
    check(&[("RALPH_AGENT_COMMAND", "")], "agent.command", r#""claude" (default)"#);
    check(
        &[("RALPH_VERIFY_COMMANDS", ",")],
        "verify.commands",
        "[] (environment RALPH_VERIFY_COMMANDS)",
    );
    check(
        &[("RALPH_MODEL", "opus"), ("RALPH_WHAT", "?")],
        "run.model",
        r#""opus" (environment RALPH_MODEL)"#,
    );
    check(&[("RALPH_MODEL", "opus"), ("RALPH_ITERATION", "1")], "run.model", "unset (default)");
    check(
        &[("RALPH_MODEL_STRATEGY", "escalate")],
        "run.strategy",
        r#""escalate" (environment RALPH_MODEL_STRATEGY)"#,
    );
    check(&[("RALPH_LIMIT", "7")], "run.max_iterations", "7 (environment RALPH_LIMIT)");
    check(&[("RALPH_AUTO_PUSH", "true")], "auto_push", "true (environment RALPH_AUTO_PUSH)");
}

#[test]
fn no_two_keys_share_a_variable_with_each_other_or_with_a_session() {
    let sessions = [
        "RALPH_TASK_ID",
        "RALPH_ATTEMPT_ID",
        "RALPH_DB",
        "RALPH_SOCKET",
        "RALPH_ITERATION",
        "RALPH_MODEL",
        "RALPH_SESSION",
    ];
    let mut variables: Vec<_> = KEYS.iter().flat_map(|key| key.variables(true)).collect();
    variables.extend(sessions.map(String::from));
    variables.sort();
    assert!(variables.is_sorted_by(|a, b| a < b), "{variables:?}");
}

#[test]
fn a_time_without_a_unit_is_seconds_and_a_limit_of_zero_is_none() {
    let given = |file: &str| load(file.as_bytes(), &[], &[]).unwrap().settings.run;
    assert_eq!(given("run.max_time = 60").max_time, Some(Duration::from_secs(60)));
    assert_eq!(given("run.max_time = '60'").max_time, Some(Duration::from_secs(60)));
    assert_eq!(given("run.max_iterations = 0").max_iterations, None);
    let flag = Flag::new("--limit", "run.max_iterations", 0);
    let loaded = load(b"run.max_iterations = 5", &[], &[flag]).unwrap();
    assert_eq!(loaded.settings.run.max_iterations, None, "the flag wins over the file");
}

#[test]
fn verify_may_be_a_plain_boolean() {
    let loaded = load(b"verify = false", &[], &[]).unwrap();
    assert!(!loaded.settings.verify.agent);
    assert_eq!(show(&loaded, "verify.agent"), "false (.ralph.toml)");
}

#[test]
fn every_choice_can_be_made() {
    for name in Strategy::NAMES {
        let flag = Flag::new("--strategy", "run.strategy", *name);
        assert_eq!(load(b"", &[], &[flag]).unwrap().settings.run.strategy.name(), *name);
    }
    for name in Backend::NAMES {
        let flag = Flag::new("--sandbox", "sandbox.backend", *name);
        assert_eq!(load(b"", &[], &[flag]).unwrap().settings.sandbox.backend.name(), *name);
    }
    for name in Network::NAMES {
        let flag = Flag::new("--network", "sandbox.network", *name);
        assert_eq!(load(b"", &[], &[flag]).unwrap().settings.sandbox.network.name(), *name);
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    fn check(file: &str, line: usize, key: &str, meant: &str) {
        let message = format!("unknown key `{key}`\nhint: did you mean `{meant}`?");
        refused(file, &format!("`.ralph.toml`, line {line}: {message}"));
    }
    check("\n\ntty_mode = true", 3, "tty_mode", "pty_mode");
    check("[agent]\ncomand = 'x'", 2, "agent.comand", "agent.command");
    check("agent.comand = 'x'", 1, "agent.comand", "agent.command");
    check("[agnt]\ncommand = 'x'", 1, "agnt", "agent");
    check("[loop]\nmax_iteration = 1", 2, "loop.max_iteration", "loop.max_iterations");
    check("max_time = '1h'", 1, "max_time", "run.max_time");
    check("[run]\nmax_retries = 1", 2, "run.max_retries", "max_retries");
    check("\"learn\\u001b\" = true", 1, "learn ", "learn");
}

#[test]
fn an_unknown_key_like_no_other_is_refused_with_those_that_may_stand_there() {
    refused(
        "[notify]\nringtone = 1",
        "`.ralph.toml`, line 2: unknown key `notify.ringtone`\nhint: the keys here are `notify.command`",
    );
    refused(
        "colour = 1",
        "`.ralph.toml`, line 1: unknown key `colour`\n\
         hint: the keys here are `pty_mode`, `pty_interactive`, `idle_timeout_secs`, `prompt_file`, \
         `completion_promise`, `max_retries`, `learn`, `auto_push`, `git_stats`, `log_dir`, \
         `agent`, `run`, `verify`, `sandbox`, `notify`, `loop`, `clean`",
    );
}

#[test]
fn a_value_that_its_key_does_not_take_is_refused() {
    fn check(file: &str, key: &str, expected: &str, written: &str) {
        let message = format!("`{key}` must be {expected}, not `{written}`");
        refused(file, &format!("`.ralph.toml`, line 1: {message}"));
    }
    let boolean = "`true` or `false`";
    check("pty_mode = 1", "pty_mode", boolean, "1");
    check("[pty_mode]", "pty_mode", boolean, "{}");
    check("verify = 'no'", "verify.agent", boolean, r#""no""#);

    let whole = "a whole number from 0 to 4294967295";
    check("max_retries = 'three'", "max_retries", whole, r#""three""#);
    check("max_retries = -1", "max_retries", whole, "-1");
    check("max_retries = 1.0", "max_retries", whole, "1.0");
    check("max_retries = 4294967296", "max_retries", whole, "4294967296");
    check("max_retries = 99999999999999999999", "max_retries", whole, "99999999999999999999");
    let positive = "a whole number from 1 to 4294967295";
    check("loop.max_iterations = 0", "loop.max_iterations", positive, "0");

    let text = "a non-empty string";
    check("prompt_file = ' '", "prompt_file", text, r#"" ""#);
    check("prompt_file = 1979-05-27", "prompt_file", text, "1979-05-27");
    check("agent.command.path = 'x'", "agent.command", text, r#"{ path = "x" }"#);

    let list = "a list of non-empty strings";
    check("verify.commands = 'true'", "verify.commands", list, r#""true""#);
    check("verify.commands = ['true',\n1]", "verify.commands", list, r#"["true", 1]"#);
    let long = format!("verify.commands = '{}'", "x".repeat(200));
    check(&long, "verify.commands", list, &format!("\"{}...", "x".repeat(99)));

    let strategy = "one of `fixed`, `cost-optimized`, `escalate`, `plan-then-execute`";
    check("run.strategy = 'cheap'", "run.strategy", strategy, r#""cheap""#);
    let duration = "a duration such as `2h30m`, or a number of seconds";
    check("run.max_time = 0", "run.max_time", duration, "0");
    check("run.max_time = 'soon'", "run.max_time", duration, r#""soon""#);
    let amount = "an amount in USD above 0";
    check("run.max_cost = 0", "run.max_cost", amount, "0");
    check("run.max_cost = nan", "run.max_cost", amount, "nan");
    check("run.max_cost = '5'", "run.max_cost", amount, r#""5""#);

    check("agent = 'claude'", "agent", "a section, `[agent]`", "'claude'");
    check("[[agent]]", "agent", "a section, `[agent]`", "[[agent]]");
}

#[test]
fn a_wrong_variable_or_flag_is_named() {
    fn check(variables: &[(&str, &str)], flags: &[Flag], expected: &str) {
        assert_eq!(report(&load(b"", variables, flags).unwrap_err()), expected);
    }
    check(
        &[("RALPH_LOOP_PAUSE_SECS", "two")],
        &[],
        r#"environment `RALPH_LOOP_PAUSE_SECS`: `loop.pause_secs` must be a whole number from 0 to 4294967295, not `"two"`"#,
    );
    check(
        &[("RALPH_VERIFY", "maybe")],
        &[],
        r#"environment `RALPH_VERIFY`: `verify.agent` must be `true` or `false`, not `"maybe"`"#,
    );
    check(
        &[("RALPH_RUN_MAX_COST", "inf")],
        &[],
        "environment `RALPH_RUN_MAX_COST`: `run.max_cost` must be an amount in USD above 0, not `inf`",
    );
    check(
        &[],
        &[Flag::new("--max-time", "run.max_time", "soon")],
        r#"flag `--max-time`: `run.max_time` must be a duration such as `2h30m`, or a number of seconds, not `"soon"`"#,
    );

    let bytes = OsString::from_vec(vec![0xff]);
    let environment = Environment::from_iter([("RALPH_COMMAND", bytes)]);
    let error = Settings::load(None, &environment, &[]).unwrap_err();
    assert_eq!(report(&error), "environment `RALPH_COMMAND`: not UTF-8 text");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    fn check(file: &str, line: usize, message: &str) {
        refused(file, &format!("`.ralph.toml`, line {line}: not valid TOML: {message}"));
    }
    check("what", 1, "key with no value, expected `=`");
    check("\nlearn = yes", 2, "string values must be quoted, expected literal string");
    check("prompt_file = 'p", 1, "invalid literal string, expected `'`");
    check("learn = true\nlearn = true", 2, "duplicate key");
    check("verify = true\n[verify]", 2, "duplicate key");

    let error = load(b"learn = true\nlog_dir = '\xff'", &[], &[]).unwrap_err();
    assert_eq!(report(&error), "`.ralph.toml`, line 2: not UTF-8 text");
}

#[test]
fn a_file_is_read_from_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.toml");
    let none = Environment::from_iter([("", ""); 0]);

    let error = Settings::load(Some(&path), &none, &[]).unwrap_err();
    let expected = "can't read `DIR/other.toml`: No such file or directory (os error 2)";
    assert_eq!(report(&error).replace(directory.path().to_str().unwrap(), "DIR"), expected);

    fs::write(&path, "\u{feff}learn = true\r\n").unwrap();
    let loaded = Settings::load(Some(&path), &none, &[]).unwrap();
    assert!(loaded.settings.learn);
    assert_eq!(show(&loaded, "learn"), format!("true ({})", path.display()));
}

fn is_clean(file: &[u8]) {
    let Err(error) = load(file, &[], &[]) else { return };
    let report = report(&error);
    assert!(report.starts_with("`.ralph.toml`, line "), "{report:?}");
    assert!(report.lines().count() <= 2, "{report:?}");
    assert!(!report.replace('\n', "").contains(char::is_control), "{report:?}");
    assert!(report.len() < 1000 && !report.contains("Error"), "{report:?}");
}

proptest! {
    #[test]
    fn any_bytes_load_or_are_refused_cleanly(file: Vec<u8>) {
        is_clean(&file);
    }

    #[test]
    fn any_keys_and_values_load_or_are_refused_cleanly(
        lines in vec((select(words()), select(words())), 0..4),
    ) {
        let line = |(key, value)| format!("{key} = {value}\n");
        is_clean(lines.into_iter().map(line).collect::<String>().as_bytes());
    }
}

/// What a file is made of, and what breaks one.
fn words() -> Vec<&'static str> {
    let words = r#"[ [[] {} ' "" """ # 1 -1.5e999 nan true '1h' ['a','b'] 1979-05-27 "\u001b" ü"#;
    let special = [
        "",
        "\u{7f}",
        "[x]\nx",
        "'''\n\n'''",
        "0x7fffffffffffffffff",
        r#"{ "$__toml_private_datetime" = 1 }"#,
    ];
    words.split(' ').chain(special).chain(KEYS.iter().map(|key| key.name)).collect()
}
