//! What an agent can decide about its tasks, and what it can reach of what ralph has recorded: in a real run, in each
//! sandbox that works here.
#![cfg(target_os = "linux")]

use std::fs;

use serde_json::Value;

use crate::harness::{Project, working_sandboxes};

/// Has one session in each sandbox run a shell script, whose output is then looked at.
fn in_every_sandbox(script: &str, check: impl Fn(&Project, &str, &str)) {
    for backend in working_sandboxes() {
        let project = Project::new();
        project.git_init();
        project.write_feature("login", "# Spec\n", "# Plan\n");
        fs::create_dir(project.root().join(".ralph/prompts")).unwrap();
        project.write(".ralph/prompts/learn.md", "Learn.\n");
        project.git(["add", "-A"]);
        project.git(["commit", "-q", "-m", "ralph"]);
        let own = project.add(["Own"]);
        let other = project.add(["Other", "--priority", "9"]);
        let script = format!("exec >$TMPDIR/said 2>&1\nOWN={own}\nOTHER={other}\n{script}\ntrue\n");
        let file = project.base().join("script");
        fs::write(&file, script).unwrap();
        let script = format!("run sh {} | done", file.display());
        let arguments = ["run", "--no-verify", "--once", "--sandbox", backend];
        let output = project.run(project.ralph_playing(&[&script], arguments), None);
        let said = said(&project);
        check(&project, &said, &format!("{backend}: {said}\n{output:?}"));
        assert_eq!(project.show(&other)["status"], "pending", "{backend}: {said}");
        project.assert_nothing_left();
    }
}

/// What a session has written down, which is then removed.
fn said(project: &Project) -> String {
    let file = project.base().join("tmp/said");
    let said = fs::read_to_string(&file).unwrap_or_default();
    let _ = fs::remove_file(file);
    said
}

#[test]
fn the_environment_decides_nothing() {
    let script = "for without in RALPH_ATTEMPT_ID RALPH_TASK_ID RALPH_SOCKET; do \
                  for verb in done 'fail -r x' 'block -r x' reset 'delete --yes'; do \
                  env -u $without ralph task $verb $OTHER; done; done";
    in_every_sandbox(script, |_, said, context| {
        let count = |text: &str| said.matches(text).count();
        assert_eq!(count("this session is about"), 6, "{context}");
        assert_eq!(count("an agent can't reset"), 2, "{context}");
        assert_eq!(count("this session has not added"), 2, "{context}");
        assert_eq!(count("error: the database is out of reach"), 5, "{context}");
    });
}

#[test]
fn the_database_and_the_logs_are_out_of_sight() {
    let script = "ls -A .ralph; cat .ralph/progress.db .ralph/progress.db-wal .ralph/run.json; \
                  echo x >.ralph/progress.db; mkdir .ralph/new; mv .ralph elsewhere; rm -rf .ralph; \
                  ls \"${XDG_STATE_HOME:-$HOME/.local/state}/ralph\"; \
                  cat .ralph/features/login/spec.md; git status --porcelain";
    in_every_sandbox(script, |project, said, context| {
        let listed: Vec<&str> = said.lines().take(2).collect();
        assert_eq!(listed, ["features", "prompts"], "{context}");
        assert!(said.contains("# Spec"), "{context}");
        assert!(!said.contains("SQLite"), "{context}");
        assert!(!said.contains("logs"), "{context}");
        assert!(!said.contains(" D .ralph"), "what is hidden is not deleted: {context}");
        assert!(project.root().join(".ralph/progress.db").exists(), "{context}");
        assert!(project.root().join(".ralph/features/login/spec.md").exists(), "{context}");
    });
}

#[test]
fn an_agent_adds_notes_and_looks_through_its_run() {
    let script = "new=$(ralph task add New -d why --after $OTHER) && ralph task log $OWN -m 'a note' \
                  && ralph task update $new --title Newer && ralph task show $new \
                  && ralph task list --json && ralph task tree && ralph task next \
                  && ralph task deps list $new";
    in_every_sandbox(script, |project, said, context| {
        let all = project.ralph(["task", "list", "--json"]).json();
        assert_eq!(all[2]["title"], "Newer", "{context}");
        let history = project.show(all[0]["id"].as_str().unwrap());
        assert_eq!(all[2]["created_by"], history["history"][0]["id"], "{context}");
        assert!(history["log"].to_string().contains("a note"), "{context}");
        assert!(said.contains("waits for"), "{context}");
        let listed = said.lines().skip_while(|line| *line != "[").take_while(|line| *line != "]");
        let listed: Value =
            serde_json::from_str(&format!("{}]", listed.collect::<String>())).expect(context);
        assert_eq!(listed[0]["status"], "in_progress", "{context}");
    });
}

#[test]
fn what_steers_runs_is_not_for_agents() {
    let script = "for command in pause resume status export 'run --once' 'loop 1 x' 'feature list' init doctor \
                  'task create' logs; do ralph $command; done; echo '{}' | ralph import";
    in_every_sandbox(script, |project, said, context| {
        let refused = "error: this command is not for the agent of a session";
        assert_eq!(said.matches(refused).count(), 12, "{context}");
        assert!(!project.root().join(".ralph-pause").exists(), "{context}");
    });
}

#[test]
fn a_verifier_reads_and_writes_nothing() {
    for backend in working_sandboxes() {
        let project = Project::new();
        project.git_init();
        let task = project.add(["Own"]);
        let verify = "run (ralph task show $RALPH_TASK_ID && ralph task add No; ralph task done $RALPH_TASK_ID; \
                      echo x >.ralph/progress.db) >$TMPDIR/said 2>&1; true | say <verify-pass/>";
        let arguments = ["run", "--once", "--sandbox", backend];
        let output = project.run(project.ralph_playing(&["done", verify], arguments), None);
        let said = said(&project);
        let context = format!("{backend}: {said}\n{output:?}");
        assert!(said.contains("Own"), "{context}");
        assert!(said.contains("a session that verifies can't change anything"), "{context}");
        assert!(said.contains("this session has no task of its own"), "{context}");
        let all = project.ralph(["task", "list", "--json"]).json();
        assert_eq!(all.as_array().unwrap().len(), 1, "{context}");
        assert_eq!(project.show(&task)["status"], "done", "{context}");
    }
}
