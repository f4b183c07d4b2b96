//! What `ralph doctor` says of the agent: it is started, its version is known, and it can log in.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::Project;

/// What doctor says of the agent and its login, with an agent that is this shell script.
fn checks(project: &Project, script: &str, variables: &[(&str, &str)]) -> Vec<[String; 3]> {
    let agent = project.write("agent", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = project.ralph_command(["--agent", agent.to_str().unwrap()]);
    command.args(["doctor", "--json"]).envs(variables.iter().copied());
    let output = project.run(command, None);
    assert!(!output.stdout().contains("secret"), "{output:?}");
    let checks: Value = serde_json::from_str(&output.stdout()).unwrap();
    project.assert_nothing_left();
    let base = project.base().display().to_string();
    let text = |check: &Value, key: &str| {
        check[key]
            .as_str()
            .unwrap_or_default()
            .replace(&base, "")
            .replace("/project/agent", "AGENT")
    };
    let checks = checks.as_array().unwrap();
    let checks = checks.iter().filter(|it| it["name"] == "agent" || it["name"] == "login");
    checks.map(|it| [text(it, "result"), text(it, "detail"), text(it, "hint")]).collect()
}

#[track_caller]
fn check(script: &str, result: &str, detail: &str) {
    let project = Project::new();
    let found = checks(&project, script, &[("ANTHROPIC_API_KEY", "secret")]);
    assert_eq!([&*found[0][0], &*found[0][1]], [result, detail], "{script}");
    let is_claude = script.contains("Claude Code");
    assert_eq!(found.len(), if is_claude { 2 } else { 1 }, "{found:?}");
}

#[test]
fn only_something_that_answers_like_claude_code_is_ok() {
    check("echo '2.1.325 (Claude Code)'", "ok", "AGENT, Claude Code 2.1.325");
    check("echo '2.1.197 (Claude Code)'", "ok", "AGENT, Claude Code 2.1.197");
    check(
        "echo '2.1.196 (Claude Code)'",
        "warning",
        "AGENT: Claude Code 2.1.196 is older than 2.1.197, the oldest version that ralph is tested with",
    );
    check("echo hello", "warning", "`AGENT --version` says \"hello\": not Claude Code");
    check("", "warning", "`AGENT --version` says \"\": not Claude Code");
    check("echo oh no >&2; exit 3", "error", "`AGENT --version` ended with code 3:\noh no");
}

#[test]
fn whether_claude_code_can_log_in_is_told_and_no_secret_is_shown() {
    let project = Project::new();
    let claude = "echo '2.1.325 (Claude Code)'";
    let login = |variables: &[(&str, &str)]| checks(&project, claude, variables)[1].clone();
    let nobody = login(&[]);
    assert_eq!(nobody[0], "warning", "{nobody:?}");
    assert_eq!(nobody[1], "no key in the environment, and no `/home/.claude/.credentials.json`");
    assert!(nobody[2].contains("log in"), "{nobody:?}");
    for name in [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    ] {
        let found = login(&[(name, "secret")]);
        assert_eq!((&*found[0], &*found[1]), ("ok", &*format!("{name} is set")));
    }
    let elsewhere = project.base().join("elsewhere");
    for place in [project.base().join("home/.claude"), elsewhere.clone()] {
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(".credentials.json"), "secret").unwrap();
    }
    assert_eq!(login(&[])[1], "/home/.claude/.credentials.json is there");
    let found = login(&[("CLAUDE_CONFIG_DIR", elsewhere.to_str().unwrap())]);
    assert_eq!(found[1], "/elsewhere/.credentials.json is there");
}

#[test]
fn a_run_with_a_claude_code_that_nobody_has_tried_says_so_and_goes_on() {
    let project = Project::new();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo '2.0.1 (Claude Code)'\nexec {} \"$@\"\n",
        crate::harness::FAKE_CLAUDE
    );
    let agent = project.write("agent", script);
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    project.add(["Do it"]);
    let mut command = project.ralph_with("done", ["run", "--no-verify", "--format", "jsonl"]);
    command.env("RALPH_AGENT_COMMAND", &agent);
    let shown = project.run(command, None).ok();
    let told =
        "Claude Code 2.0.1 is older than 2.1.197, the oldest version that ralph is tested with";
    let warned = shown.lines().filter(|line| line.contains(told)).count();
    assert_eq!(warned, 1, "{shown}");
}
