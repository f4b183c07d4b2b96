//! `ralph run` with the real agent: a graph to its end, and what a session sees of ralph.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::api::{Answer, Request, Role, bash, refuse, say, think};
use crate::harness::RALPH;
use crate::rig::Rig;

/// Says that the task is done.
pub(crate) fn done(request: &Request) -> Answer {
    say(format!("It is complete.\n\n<task-done>{}</task-done>", request.task))
}

/// Commits a file that is called like the task.
fn commit(request: &Request) -> Answer {
    let file = request.title.to_lowercase();
    think("I look at the task.")
        .say("I begin.")
        .bash(format!("echo {file} > {file} && git add {file} && git commit -q -m {file}"))
}

/// A usage limit of a subscription, which is over in so many seconds.
pub(crate) fn usage_limit(seconds: u64, window: &'static str) -> Answer {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let reset = (now + Duration::from_secs(seconds)).as_secs().to_string();
    refuse(429, "This request would exceed your account's rate limit.")
        .header("x-should-retry", "false")
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &reset)
        .header("anthropic-ratelimit-unified-representative-claim", window)
        .header("anthropic-ratelimit-unified-5h-status", "rejected")
        .header("anthropic-ratelimit-unified-5h-reset", &reset)
        .header("anthropic-ratelimit-unified-5h-utilization", "1")
}

/// A graph that is worked, verified, tried again, and waits for a limit, with a version of Claude Code.
pub(crate) fn graph_of_three(version: &'static str) {
    let rig = Rig::with_version(version, |request| match (request.role, request.title.as_str()) {
        (Role::Work, "Docs") if request.session == 1 => usage_limit(8, "five_hour"),
        (Role::Work, _) if request.turn == 1 => commit(request),
        (Role::Work, _) => done(request),
        (Role::Verify, "Endpoints") if request.session == 1 => {
            say("<verify-fail>there is no test</verify-fail>")
        }
        (Role::Verify, _) if request.turn == 1 => bash("git log --oneline"),
        (Role::Verify, _) => say("I have seen it.\n\n<verify-pass/>"),
        (Role::Build | Role::Loop | Role::Interview, _) => refuse(400, "nothing is built here"),
    });
    let Some(rig) = rig else { return };
    let schema = rig.project.add(["Schema", "-d", "Tables"]);
    let endpoints = rig.project.add(["Endpoints", "--after", &schema]);
    let docs = rig.project.add(["Docs", "--after", &endpoints]);
    let mut command = rig.clocked(&[]);
    // A limit has a time only for those who have a subscription.
    command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "no-token-at-all");
    let ended = rig.finish(command).with_code(0);
    assert_eq!(rig.outcomes(&schema), ["done"]);
    assert_eq!(rig.outcomes(&endpoints), ["failed", "done"]);
    assert_eq!(rig.outcomes(&docs), ["limited", "done"], "{ended:#?}");
    assert!(rig.history(&endpoints)[0].1.contains("there is no test"));
    assert_eq!(rig.project.show(&docs)["retries"], 0);
    let waits = ended.events("limit_wait");
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!(waits[0]["reason"], "the usage limit is reached");
    assert!(waits[0]["seconds"].as_u64().unwrap() <= 13, "{waits:?}");
    let again =
        rig.asked(Role::Work).into_iter().find(|it| it.task == endpoints && it.session == 2);
    assert!(again.unwrap().prompt.contains("there is no test"));
    let summary = &ended.events("complete")[0];
    assert_eq!(summary["exit_code"], 0, "{summary}");
    assert!(summary["cost_usd"].as_f64().unwrap() > 0.0, "{summary}");
    assert_eq!(rig.project.git(["log", "--format=%s", "--", "schema"]), "schema");
    assert_eq!(rig.project.git(["status", "--porcelain"]), "");
    let thought = ended.events("reasoning").iter().any(|it| it["text"] == "I look at the task.");
    assert!(thought, "{ended:#?}");
}

#[test]
fn what_is_nearly_a_verdict_is_told_to_the_next_attempt_and_code_marks_do_not_matter() {
    let rig = Rig::new(|request| {
        let (id, half) = (&request.task, request.task.len() / 2);
        match request.session {
            1 => say(format!("<task-done>{id}: all tests pass</task-done>")),
            2 => say(format!("<task-done>{}", &id[..half]))
                .say(format!("{}</task-done>", &id[half..])),
            _ => say(format!("All tests pass.\n\n`<task-done>{id}</task-done>`")),
        }
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify"]).with_code(0);
    assert_eq!(rig.outcomes(&task), ["silent", "silent", "done"], "{ended:#?}");
    let last = &rig.asked(Role::Work)[2];
    for told in ["which has more in the tag than the id", "in which the id is broken in two"] {
        assert!(last.prompt.contains(told) || last.system.contains(told), "{told}: {last:#?}");
    }
}

#[test]
fn a_verdict_before_the_last_words_counts_if_it_is_verified() {
    let rig = Rig::new(|request| match (request.role, request.turn) {
        (Role::Verify, _) => say("<verify-pass/>"),
        (_, 1) => done(request).bash("git status --short"),
        _ => say("Nothing is left to commit. Bye."),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    rig.finish(rig.ralph(&["run", "--no-verify", "--once"])).with_code(3);
    assert_eq!(rig.status(&task), "pending");
    rig.run(&[]).with_code(0);
    assert_eq!(rig.status(&task), "done");
}

#[test]
fn ralph_inside_a_session_is_this_one_on_this_database_and_knows_its_task() {
    let rig = Rig::new(|request| match (request.title.as_str(), request.turn) {
        ("Do it", 1) => bash(
            "cd / && command -v ralph && echo $RALPH_TASK_ID $RALPH_ITERATION $RALPH_MODEL && \
             ralph task add Extra -d found && ralph task log $RALPH_TASK_ID -m 'a note' && \
             ralph task done $RALPH_TASK_ID",
        ),
        ("Do it", _) => say("I have asked for it."),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it", "--priority", "-1"]);
    rig.run(&["--no-verify"]).with_code(0);
    let printed = &rig.asked(Role::Work)[1].printed;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], RALPH, "{printed}");
    assert_eq!(lines[1], format!("{task} 1 sonnet"), "{printed}");
    assert_eq!(rig.status(lines[2]), "done", "{printed}");
    let attempt = rig.project.show(&task)["history"][0]["id"].clone();
    assert_eq!(rig.project.show(lines[2])["created_by"], attempt);
    assert!(rig.project.show(&task)["log"].to_string().contains("a note"));
    assert_eq!(rig.status(&task), "done");
}

#[test]
fn a_session_ends_when_the_money_is_spent() {
    let rig = Rig::new(|request| match request.turn {
        // Claude Code may start a tool before it knows the price of the message.
        1 => bash("true").costing(1_000_000),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify", "--max-cost", "0.5"]).with_code(3);
    assert_eq!(rig.history(&task)[0].0, "limited", "{ended:#?}");
    assert_eq!(rig.status(&task), "pending");
    assert_eq!(rig.asked(Role::Work).len(), 1, "nothing is asked that can't be paid");
}

#[test]
fn the_session_of_a_verifier_is_shown_again() {
    let rig = Rig::new(|request| match (request.role, request.turn) {
        (Role::Verify, 1) => bash("git log --oneline"),
        (Role::Verify, _) => say("I have looked at it.\n\n<verify-pass/>"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    rig.run(&[]).with_code(0);
    let shown = rig.finish(rig.ralph(&["logs", &task, "--verify"])).with_code(0).lines.join("\n");
    for part in ["git log --oneline", "I have looked at it."] {
        assert_eq!(shown.matches(part).count(), 1, "{shown}");
    }
    assert!(!shown.contains("It is complete."), "{shown}");
}

#[test]
fn a_verifier_has_four_tools_and_no_session_of_a_run_is_kept() {
    let rig = Rig::new(|request| match request.role {
        Role::Verify => say("<verify-pass/>"),
        Role::Work | Role::Build | Role::Loop | Role::Interview => done(request),
    });
    let Some(rig) = rig else { return };
    rig.project.add(["Do it"]);
    rig.run(&[]).with_code(0);
    let mut tools = rig.asked(Role::Verify)[0].tools.clone();
    // It stands for tools that are looked up when they are needed, of which there are none.
    tools.retain(|it| it != "DeferredToolPlaceholder");
    assert_eq!(tools, ["Bash", "Glob", "Grep", "Read"]);
    let worker = &rig.asked(Role::Work)[0];
    for tool in ["Bash", "Edit", "Write", "Glob", "Grep"] {
        assert!(worker.tools.iter().any(|it| it == tool), "{tool}: {:?}", worker.tools);
    }
    let kept = rig.project.base().join("home/.claude/projects");
    let kept = fs::read_dir(kept).into_iter().flatten();
    let kept = kept.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap());
    let is_transcript = |path: &PathBuf| path.extension().is_some_and(|it| it == "jsonl");
    assert_eq!(kept.map(|it| it.unwrap().path()).filter(is_transcript).count(), 0);
}

#[test]
fn what_the_agent_may_not_do_is_not_done() {
    let rig = Rig::new(|request| match request.turn {
        1 => bash("touch forbidden"),
        _ => say(format!("<task-failed>{}</task-failed>", request.task)),
    });
    let Some(rig) = rig else { return };
    let toml = "max_retries = 0\n[agent]\nallowed_tools = [\"Read\", \"Glob\"]\n";
    fs::write(rig.project.root().join(".ralph.toml"), toml).unwrap();
    let task = rig.project.add(["Do it"]);
    rig.run(&["--no-verify"]).with_code(1);
    assert_eq!(rig.status(&task), "failed");
    assert!(!rig.project.root().join("forbidden").exists());
}
