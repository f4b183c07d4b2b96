//! What a user and a project have set up for Claude Code: hooks are theirs and run, servers of tools stay
//! out of sessions that nobody watches.

use std::fs;

use serde_json::json;

use crate::api::{Role, bash, say};
use crate::rig::{RUN, Rig};
use crate::run::done;

#[test]
fn servers_of_tools_stay_out_of_unattended_sessions() {
    let rig = Rig::new(|request| match (request.role, request.turn) {
        (Role::Build, 1) => bash(format!("ralph task add Extra -d x --parent {}", request.task)),
        (Role::Verify, _) => say("<verify-pass/>"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let started = rig.project.base().join("started");
    let start = format!("touch {}; sleep 600", started.display());
    let servers = json!({ "mcpServers": { "tools": { "command": "sh", "args": ["-c", start] } } });
    fs::write(rig.project.base().join("home/.claude.json"), servers.to_string()).unwrap();
    rig.project.write(".mcp.json", servers.to_string());
    rig.project.git_init();
    rig.project.write_feature("login", "# Spec\nR1: it works", "# Plan\nPhase 1: a table");
    rig.finish(rig.ralph(&["feature", "build", "login"])).with_code(0);
    rig.run(&[]).with_code(0);
    assert!(!started.exists());
    for role in [Role::Build, Role::Work, Role::Verify] {
        let asked = rig.asked(role);
        assert!(!asked.is_empty(), "{role:?}");
        assert!(!asked.iter().any(|it| it.tools.iter().any(|tool| tool.starts_with("mcp"))));
    }
}

#[test]
fn a_server_that_the_person_has_approved_is_started_for_work_and_not_for_the_verifier() {
    let rig = Rig::new(|request| match request.role {
        Role::Verify => say("<verify-pass/>"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let started = rig.project.root().join("started");
    // Only a verifier's tools are restricted.
    let server = |name: &str| {
        let verifier = "tr '\\0' ' ' </proc/$PPID/cmdline | grep -c -e --tools";
        let note = format!("echo {name} $({verifier}) >> {}", started.display());
        json!({ "command": "sh", "args": ["-c", note] })
    };
    let servers = json!({ "mcpServers": { "ours": server("ours"), "other": server("other") } });
    rig.project.write(".mcp.json", servers.to_string());
    fs::create_dir(rig.project.root().join(".claude")).unwrap();
    rig.project.git_init();
    let approved = json!({ "enabledMcpjsonServers": ["ours"] });
    rig.project.write(".claude/settings.local.json", approved.to_string());
    rig.project.add(["Do it"]);
    rig.run(&[]).with_code(0);
    assert!(!rig.asked(Role::Verify).is_empty());
    // Claude Code starts a server that ends at once again.
    let started = fs::read_to_string(started).unwrap();
    assert!(!started.is_empty() && started.lines().all(|line| line == "ours 0"), "{started}");
}

#[test]
fn a_session_knows_nothing_of_the_one_that_ralph_was_started_in() {
    let rig = Rig::new(|request| match request.turn {
        1 => bash("tr '\\0' '\\n' </proc/$CLAUDE_PID/environ | sed -n 's/=outer$//p'; env"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.project.add(["Do it"]);
    let mut command = rig.ralph(&[&RUN[..], &["--no-verify"]].concat());
    // What Claude Code gives to the commands of its Bash tool.
    let nested =
        ["CHILD_SESSION", "ENTRYPOINT", "MESSAGING_SOCKET", "MESSAGING_TOKEN", "SESSION_ID"];
    command.envs(nested.map(|name| (format!("CLAUDE_CODE_{name}"), "outer")));
    command.envs(["CLAUDECODE", "CLAUDE_PID"].map(|name| (name, "outer")));
    rig.finish(command).with_code(0);
    let printed = &rig.asked(Role::Work)[1].printed;
    let inherited: Vec<&str> = printed.lines().take_while(|line| !line.contains('=')).collect();
    assert_eq!(inherited, [""; 0]);
    assert!(printed.contains("CLAUDECODE=1"), "{printed}");
}

#[test]
fn a_hook_that_does_not_let_claude_stop_is_heard_before_the_verdict() {
    let rig = Rig::new(|request| match request.turn {
        1 => say("I stop here."),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let once = rig.project.base().join("stopped");
    let stop = format!(
        "[ -e {once} ] || {{ touch {once}; echo 'say whether it is done' >&2; exit 2; }}",
        once = once.display()
    );
    set_stop_hook(&rig, &stop);
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify"]).with_code(0);
    assert!(once.exists(), "{ended:#?}");
    assert_eq!(rig.history(&task).len(), 1, "{ended:#?}");
    assert_eq!(rig.status(&task), "done");
}

/// Has Claude Code run this command whenever it wants to stop, by the settings of the user.
fn set_stop_hook(rig: &Rig, command: &str) {
    let hook = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let settings = json!({ "hooks": { "Stop": hook } }).to_string();
    fs::create_dir(rig.project.base().join("home/.claude")).unwrap();
    fs::write(rig.project.base().join("home/.claude/settings.json"), settings).unwrap();
}

#[test]
fn a_hook_that_never_lets_claude_stop_does_not_keep_a_session_for_ever() {
    let Some(rig) = Rig::new(done) else { return };
    set_stop_hook(&rig, "echo 'not yet' >&2; exit 2");
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify"]).with_code(0);
    assert_eq!(rig.outcomes(&task), ["done"], "{ended:#?}");
    // Claude Code itself listens to it so many times in a row.
    assert!(rig.asked(Role::Work).len() <= 10, "{ended:#?}");
}

#[test]
fn a_hook_that_hangs_when_claude_stops_is_ended_with_its_session() {
    let Some(rig) = Rig::new(done) else { return };
    set_stop_hook(&rig, "sleep 600");
    rig.project.write(".ralph.toml", "max_retries = 0\n[agent]\nsilence_timeout_secs = 4\n");
    rig.project.git_init();
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify"]);
    let history = rig.history(&task);
    assert_eq!(history.len(), 1, "{history:?} {ended:#?}");
}
