//! The working tree after sessions of the real agent: what it leaves behind is put in order, and the tools that
//! would lead it elsewhere are not there.

use std::fs;

use serde_json::json;

use crate::api::{Answer, LOOP, Request, Role, bash, say, tool};
use crate::install::{OLDER, PINNED};
use crate::rig::Rig;
use crate::run::done;

/// Nine kinds of mess, by the titles of the tasks whose sessions make them: what a shell does, and what the
/// attempt is told to have done wrong. The person's own file is `mine.txt`.
const MESSES: [(&str, &str, &str); 9] = [
    (
        "Branch",
        "git checkout -q -b side && echo x > x && git add x && git commit -q -m aside -- x",
        "the session ended on branch `side` instead of `main`",
    ),
    (
        "Detached",
        "git checkout -q --detach && echo y > x && git add x && git commit -q -m aside -- x",
        "the session ended on a detached HEAD instead of `main`",
    ),
    (
        "History",
        "git reset -q --hard HEAD~1",
        "the session removed commits from `main` that it began with",
    ),
    (
        "Merge",
        "git checkout -q -b one && echo 1 > f && git commit -q -m one -- f && git checkout -q main && \
         echo 2 > f && git commit -q -m two -- f && git checkout -q -f HEAD -- mine.txt; git merge -q one",
        "the session left a merge unfinished",
    ),
    (
        "Rebase",
        "git checkout -q -- mine.txt; git checkout -q -b two HEAD~1 && echo 3 > f && \
         git commit -q -m three -- f && git checkout -q main && git rebase -q two",
        "the session left a rebase unfinished",
    ),
    (
        "Worktree",
        "git worktree add -q .claude/worktrees/other -b other && cd .claude/worktrees/other && echo x > x && \
         git add x && git commit -q -m aside",
        "the session committed to branch `other` and nothing to `main`",
    ),
    ("Uncommitted", "echo changed > g", "the session said done, but did not commit `g`"),
    ("Untracked", "echo new > new", "the session said done, but did not commit `new`"),
    ("Stash", "git stash -q", "the session left changes in the stash"),
];

fn mess_of(request: &Request) -> Answer {
    let mess = MESSES.iter().find(|(title, ..)| *title == request.title);
    match (request.role, request.session, request.turn) {
        (Role::Work, 1, 1) => bash(format!("{{ {}; }} 2>&1", mess.unwrap().1)),
        _ => done(request),
    }
}

#[test]
fn every_mess_is_told_put_in_order_and_kept() {
    let Some(rig) = Rig::new(mess_of) else { return };
    for name in ["f", "g", "mine.txt"] {
        rig.project.write(name, "as committed\n");
    }
    rig.project.git(["add", "--all"]);
    rig.project.git(["commit", "-q", "-m", "files"]);
    rig.project.git(["commit", "-q", "--allow-empty", "-m", "more"]);
    rig.project.write("mine.txt", "a person's\r\n");
    let tasks: Vec<String> = MESSES.iter().map(|(title, ..)| rig.project.add([*title])).collect();
    let start = rig.project.git(["rev-parse", "HEAD"]);
    let mut command = rig.ralph(&["run", "--format", "jsonl", "--limit", "30", "--no-verify"]);
    command.arg("--allow-dirty");
    let ended = rig.finish(command).with_code(0);
    for (task, (title, _, told)) in tasks.iter().zip(MESSES) {
        let history = rig.history(task);
        assert_eq!(rig.outcomes(task), ["failed", "done"], "{title}: {ended:#?}");
        assert!(history[0].1.starts_with(told), "{title}: {history:?}");
    }
    assert_eq!(rig.project.git(["symbolic-ref", "--short", "HEAD"]), "main");
    rig.project.git(["merge-base", "--is-ancestor", &start, "HEAD"]);
    assert_eq!(rig.project.git(["status", "--porcelain"]), " M mine.txt");
    assert_eq!(rig.project.git(["stash", "list"]), "");
    let mine = fs::read_to_string(rig.project.root().join("mine.txt")).unwrap();
    assert_eq!(mine, "a person's\r\n");
    let kept = rig.project.git(["log", "--format=%s", "--glob=refs/ralph/salvage"]);
    assert_eq!(kept.lines().filter(|line| *line == "aside").count(), 3, "{kept}");
    let files = rig.project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/salvage"]);
    let has = |name: &str, text: &str| {
        let shown = |kept: &str| rig.project.git(["ls-tree", "-r", "--name-only", kept]);
        files.lines().any(|kept| {
            shown(kept).lines().any(|it| it == name)
                && rig.project.git(["show", &format!("{kept}:{name}")]) == text
        })
    };
    assert!(has("g", "changed") && has("new", "new"), "{files}");
}

#[test]
fn the_tools_that_lead_elsewhere_or_ask_are_not_there() {
    for version in [PINNED, OLDER] {
        let rig = Rig::with_version(version, |request| match (request.role, request.turn) {
            (Role::Verify, _) => say("<verify-pass/>"),
            (_, 1) => tool("EnterWorktree", json!({ "name": "side" })),
            _ => done(request),
        });
        let Some(rig) = rig else { return };
        let task = rig.project.add(["Do it"]);
        rig.run(&[]).with_code(0);
        assert_eq!(rig.status(&task), "done");
        assert_eq!(rig.project.git(["worktree", "list"]).lines().count(), 1);
        for role in [Role::Work, Role::Verify] {
            let asked = &rig.asked(role)[0];
            assert!(asked.tools.iter().any(|it| it == "Bash"), "{:?}", asked.tools);
            for name in ["EnterWorktree", "AskUserQuestion", "EnterPlanMode", "CronCreate"] {
                assert!(!asked.tools.iter().any(|it| it == name), "{version}: {:?}", asked.tools);
            }
        }
    }
}

#[test]
fn a_loop_goes_on_in_order_with_what_its_sessions_left() {
    let rig = Rig::new(|request| match (request.role, request.session, request.turn) {
        (Role::Loop, session, 1) => match MESSES.get(session - 1) {
            Some((title, mess, _)) => {
                bash(format!("( {mess} ) >/dev/null 2>&1; echo {title} >> work; cat work"))
            }
            None => bash("git symbolic-ref HEAD; cat work".to_owned()),
        },
        _ => say("One more thing is done."),
    });
    let Some(rig) = rig else { return };
    for name in ["f", "g", "mine.txt"] {
        rig.project.write(name, "as committed\n");
    }
    rig.project.git(["add", "--all"]);
    rig.project.git(["commit", "-q", "-m", "files"]);
    rig.project.git(["commit", "-q", "--allow-empty", "-m", "more"]);
    rig.project.write("mine.txt", "a person's\r\n");
    let start = rig.project.git(["rev-parse", "HEAD"]);
    let sessions = (MESSES.len() + 1).to_string();
    let mut command = rig.ralph(&["loop", "-a", &sessions, LOOP, "--allow-dirty"]);
    command.env("RALPH_LOOP_PAUSE_SECS", "0");
    let ended = rig.finish(command).with_code(3);
    let asked = rig.asked(Role::Loop);
    let printed = asked.iter().map(|it| it.printed.as_str()).rfind(|it| !it.is_empty()).unwrap();
    let titles: Vec<&str> = MESSES.iter().map(|(title, ..)| *title).collect();
    assert_eq!(printed.trim_end(), format!("refs/heads/main\n{}", titles.join("\n")), "{ended:#?}");
    for (title, _, told) in MESSES {
        let is_told = ended.stderr.contains(told);
        assert_eq!(is_told, !told.contains("did not commit"), "{title}: {ended:#?}");
    }
    rig.project.git(["merge-base", "--is-ancestor", &start, "HEAD"]);
    let status = rig.project.git(["status", "--porcelain", "--untracked-files=all"]);
    let expected = [" M g", " M mine.txt", "?? .claude/worktrees/other/", "?? new", "?? work"];
    assert_eq!(status.lines().collect::<Vec<_>>(), expected, "{ended:#?}");
    assert_eq!(rig.project.git(["stash", "list"]), "");
    let mine = fs::read_to_string(rig.project.root().join("mine.txt")).unwrap();
    assert_eq!(mine, "a person's\r\n");
    let kept = rig.project.git(["log", "--format=%s", "--glob=refs/ralph/salvage"]);
    assert_eq!(kept.lines().filter(|line| *line == "aside").count(), 3, "{kept}");
}

#[test]
fn what_a_verifier_changes_is_undone_and_its_verdict_does_not_count() {
    let rig = Rig::new(|request| match (request.role, request.session, request.turn) {
        (Role::Verify, 1, 1) => bash("echo vandal > f; echo new > left"),
        (Role::Verify, ..) => say("<verify-pass/>"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.project.write("f", "as committed\n");
    rig.project.git(["add", "--all"]);
    rig.project.git(["commit", "-q", "-m", "files"]);
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&[]).with_code(0);
    let warnings = ended.events("error");
    let is_undone = |it: &serde_json::Value| it["message"].to_string().contains("are undone");
    assert!(warnings.iter().any(is_undone), "{ended:#?}");
    assert_eq!(rig.status(&task), "done");
    assert_eq!(rig.asked(Role::Verify).iter().map(|it| it.session).max(), Some(2), "{ended:#?}");
    assert_eq!(rig.project.git(["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(rig.project.root().join("f")).unwrap(), "as committed\n");
}
