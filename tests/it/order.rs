//! After every session the working tree is in order: on its branch, with its history, without leftovers, and
//! with the person's own uncommitted files as they were. Nine kinds of mess, and every way in which an attempt
//! ends.
#![cfg(target_os = "linux")]

use std::fs;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::harness::{DEADLINE, Output, Project, assert_no_process_left, check_rules, wait_until};

/// What a person has in `mine.txt` and not committed. Git would change the ends of its lines.
const MINE: &str = "a person's\r\nown words\r\n";

/// A kind of mess.
struct Mess {
    name: &'static str,
    /// How an agent makes it, as one step of a shell.
    made_by: &'static str,
    /// What is said of it; nothing if it is only uncommitted.
    told: &'static str,
    /// A file that must be found in what is kept, or a commit whose message says so.
    kept: Kept,
}

enum Kept {
    File(&'static str),
    Commit(&'static str),
    Nothing,
}

const MESSES: [Mess; 10] = [
    Mess {
        name: "another branch",
        made_by: "git checkout -q -b side; echo x > x; git add x; git commit -q -m aside -- x; echo y > y",
        told: "the session ended on branch `side` instead of `main`",
        kept: Kept::Commit("aside"),
    },
    Mess {
        name: "a detached HEAD",
        made_by: "git checkout -q --detach; echo x > x; git add x; git commit -q -m aside -- x; echo y > y",
        told: "the session ended on a detached HEAD instead of `main`",
        kept: Kept::Commit("aside"),
    },
    Mess {
        name: "history thrown away",
        made_by: "git reset -q --soft HEAD~1; git stash -q; echo x > x; git add x; git commit -q -m aside -- x; \
                  git stash drop -q",
        told: "the session removed commits from `main` that it began with",
        kept: Kept::Commit("aside"),
    },
    Mess {
        name: "half a merge",
        made_by: "git stash -q -u; git checkout -q -b side; echo 1 > f; git commit -q -a -m aside; \
                  git checkout -q main; echo 2 > f; git commit -q -a -m here; git merge -q side; \
                  git stash drop -q",
        told: "the session left a merge unfinished",
        kept: Kept::Commit("aside"),
    },
    Mess {
        name: "half a rebase",
        made_by: "git stash -q -u; git checkout -q -b side; echo 1 > f; git commit -q -a -m aside; \
                  git checkout -q main; echo 2 > f; git commit -q -a -m here; git rebase -q side; \
                  git stash drop -q",
        told: "the session left a rebase unfinished",
        kept: Kept::Commit("aside"),
    },
    Mess {
        name: "commits in another worktree",
        made_by: "git worktree add -q .claude/worktrees/side -b side; cd .claude/worktrees/side; echo x > x; \
                  git add x; git commit -q -m aside -- x",
        told: "the session committed to branch `side` and nothing to `main`",
        kept: Kept::Commit("aside"),
    },
    Mess {
        name: "changes that are not committed",
        made_by: "echo changed > f; rm g",
        told: "",
        kept: Kept::File("f"),
    },
    Mess {
        name: "new files",
        made_by: "mkdir -p new/deep; echo x > new/deep/x; echo z > 'an odd: name'; echo x > ignored",
        told: "",
        kept: Kept::File("new/deep/x"),
    },
    Mess {
        name: "the person's file in the stash",
        made_by: "echo x > x; git stash -q -u",
        told: "the session left changes in the stash",
        kept: Kept::Commit("WIP on main"),
    },
    Mess {
        name: "the person's files thrown away",
        made_by: "git reset -q --hard; git clean -q -f -d; rm -f mine-too.txt",
        told: "",
        kept: Kept::Nothing,
    },
];

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Done,
    Failed,
    Blocked,
    Interrupted,
    Crashed,
    Killed,
}

/// A project with three commits, a task, and files of a person that are not committed: one that is tracked, a
/// new one, and a staged one.
fn project() -> (Project, String) {
    let project = Project::new();
    project.write("f", "f\n");
    project.write("g", "g\n");
    project.write("mine.txt", "as committed\n");
    project.write(".gitattributes", "*.txt text\n");
    fs::write(project.root().join(".git-ignored"), "").unwrap();
    let ignores = fs::read_to_string(project.root().join(".gitignore")).unwrap_or_default();
    project.write(".gitignore", format!("{ignores}\nignored\n.git-ignored\n"));
    project.git_init();
    for name in ["second", "third"] {
        project.git(["commit", "-q", "--allow-empty", "-m", name]);
    }
    project.write("mine.txt", MINE);
    project.write("mine-too.txt", "new");
    project.write("staged", "as staged");
    project.git(["add", "staged"]);
    project.write("staged", "and changed again");
    (project, String::new())
}

/// What `git status` says of a tree in which only the person's files are not committed.
const PERSONS: &str = " M mine.txt\nAM staged\n?? mine-too.txt";

#[track_caller]
fn assert_in_order(project: &Project, start: &str, what: &str) {
    assert_eq!(project.git(["symbolic-ref", "--short", "HEAD"]), "main", "{what}");
    project.git(["merge-base", "--is-ancestor", start, "HEAD"]);
    let status = project.git(["status", "--porcelain", "--untracked-files=all"]);
    let status: Vec<&str> = status.lines().filter(|line| !line.contains(".ralph")).collect();
    assert_eq!(status.join("\n"), PERSONS, "{what}");
    let read = |name: &str| fs::read_to_string(project.root().join(name)).unwrap_or_default();
    assert_eq!(read("mine.txt"), MINE, "{what}");
    assert_eq!(read("mine-too.txt"), "new", "{what}");
    assert_eq!(read("staged"), "and changed again", "{what}");
    assert_eq!(project.git(["show", ":staged"]), "as staged", "{what}");
    for name in ["MERGE_HEAD", "rebase-merge", "rebase-apply"] {
        assert!(!project.root().join(".git").join(name).exists(), "{what}: {name}");
    }
    assert_eq!(project.git(["stash", "list"]), "", "{what}");
    let before = project.git(["for-each-ref", "refs/ralph/before"]);
    assert_eq!(before, "", "{what}: nothing is kept of what is there");
    assert!(!project.root().join(".git/ralph-before").exists(), "{what}");
}

#[track_caller]
fn assert_kept(project: &Project, task: &str, mess: &Mess, what: &str) {
    let attempt = project.show(task)["history"][0]["id"].as_str().unwrap().to_owned();
    let kept = format!("refs/ralph/salvage/{attempt}");
    match mess.kept {
        Kept::File(name) => {
            project.git(["show", &format!("{kept}:{name}")]);
        }
        Kept::Commit(message) => {
            let log = project.git(["log", "--format=%s", &kept]);
            assert!(log.contains(message), "{what}: {log}");
        }
        Kept::Nothing => {
            assert_eq!(project.git(["for-each-ref", &kept]), "", "{what}");
            return;
        }
    }
    let files = project.git(["ls-tree", "-r", "--name-only", &kept]);
    assert!(!files.contains("mine-too.txt") && !files.contains("staged"), "{what}: {files}");
    let mine = project.git(["show", &format!("{kept}:mine.txt")]);
    assert_eq!(mine, "as committed", "{what}: that is the person's");
}

/// Has an attempt make a mess and end like this; then another run.
fn check(mess: &Mess, ending: Ending) {
    let what = format!("{}, {ending:?}", mess.name);
    let (project, _) = project();
    let start = project.git(["rev-parse", "HEAD"]);
    let task = project.add(["Do it"]);
    let mess_made = format!("run ( {} ) >/dev/null 2>&1; true", mess.made_by);
    let end = match ending {
        Ending::Done => "done",
        Ending::Failed => "fail no key",
        Ending::Blocked => "block which one?",
        Ending::Interrupted | Ending::Killed => "touch ../made | hang",
        Ending::Crashed => "no-result | exit 1",
    };
    let script = format!("{mess_made} | {end}");
    let arguments = ["run", "--no-verify", "--once", "--allow-dirty", "--format", "jsonl"];
    let mut run = project.start(project.ralph_with(&script, arguments));
    let made = project.base().join("made");
    if matches!(ending, Ending::Interrupted | Ending::Killed) {
        wait_until(Instant::now() + DEADLINE, || made.exists().then_some(())).expect("the mess");
    }
    match ending {
        Ending::Interrupted => {
            let pid = Pid::from_raw(run.id().cast_signed()).unwrap();
            kill_process(pid, Signal::INT).unwrap();
            // A fake agent that hangs takes no hint.
            wait_until(Instant::now() + DEADLINE, || {
                let _ = kill_process(pid, Signal::INT);
                run.ends_within(std::time::Duration::from_millis(50)).then_some(())
            });
        }
        Ending::Killed => run.kill(),
        _ => {}
    }
    let (_, lines, stderr) = run.finish();
    assert_no_process_left(&project);
    let what = format!("{what}\n{}\n{stderr}", lines.join("\n"));
    let mut notes = stderr.clone();
    if ending == Ending::Killed {
        // Another run puts it in order before it does anything else.
        let again = ["run", "--no-verify", "--once", "--allow-dirty"];
        let output = project.run(project.ralph_with("fail no", again), None);
        notes = output.stderr();
    }
    assert_in_order(&project, &start, &format!("{what}\n{notes}"));
    let expected = match (ending, mess.told, &mess.kept) {
        (Ending::Done, "", Kept::Nothing) => "done",
        // A session that had begun to work counts, however it ended.
        (Ending::Done | Ending::Failed | Ending::Crashed, ..) => "failed",
        (Ending::Blocked, ..) => "blocked",
        (Ending::Interrupted, ..) => "interrupted",
        (Ending::Killed, ..) => "crashed",
    };
    let attempt = &project.show(&task)["history"][0];
    assert_eq!(attempt["outcome"], expected, "{what}");
    let reason = attempt["reason"].as_str().unwrap_or_default();
    match ending {
        Ending::Blocked => assert_eq!(reason, "which one?", "{what}"),
        Ending::Killed => assert!(notes.contains(mess.told), "{what}\n{notes}"),
        Ending::Done if mess.told.is_empty() && expected == "failed" => {
            assert!(reason.starts_with("the session said done, but did not commit `"), "{reason}");
        }
        _ => assert!(reason.contains(mess.told), "{what}: {reason}"),
    }
    if !mess.told.is_empty() && ending != Ending::Killed {
        let is_told = |line: &&String| line.contains("\"error\"") && line.contains(mess.told);
        assert!(lines.iter().any(|line| is_told(&line)), "{what}");
    }
    assert_kept(&project, &task, mess, &what);
    check_rules(&project);
}

#[test]
fn a_session_that_says_done_leaves_the_tree_in_order() {
    MESSES.iter().for_each(|mess| check(mess, Ending::Done));
}

#[test]
fn a_session_that_fails_leaves_the_tree_in_order() {
    MESSES.iter().for_each(|mess| check(mess, Ending::Failed));
}

#[test]
fn a_session_that_asks_leaves_the_tree_in_order() {
    MESSES.iter().for_each(|mess| check(mess, Ending::Blocked));
}

#[test]
fn a_session_that_is_interrupted_leaves_the_tree_in_order() {
    MESSES.iter().for_each(|mess| check(mess, Ending::Interrupted));
}

#[test]
fn a_session_that_crashes_leaves_the_tree_in_order() {
    MESSES.iter().for_each(|mess| check(mess, Ending::Crashed));
}

#[test]
fn what_a_killed_run_leaves_is_put_in_order_by_the_next() {
    MESSES.iter().for_each(|mess| check(mess, Ending::Killed));
}

#[test]
fn what_a_person_changed_after_a_run_was_killed_stays_as_it_is() {
    for before in ["as committed", "changed before the run as well"] {
        stays_as_it_is(before);
    }
}

fn stays_as_it_is(before: &str) {
    let (project, task) = committed();
    project.write("mine.txt", before);
    let script = "write left.txt half | touch begun | hang";
    let arguments = ["run", "--no-verify", "--allow-dirty"];
    let mut killed = project.start(project.ralph_with(script, arguments));
    let begun = project.root().join("begun");
    wait_until(Instant::now() + DEADLINE, || begun.exists().then_some(())).unwrap();
    killed.kill();
    killed.finish();
    assert_no_process_left(&project);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    fs::File::open(project.write("mine.txt", "hours later")).unwrap().set_modified(later).unwrap();
    let output = project.run(project.ralph_with("done", arguments), None);
    let said = output.stderr();
    assert!(
        said.contains("was cut off, and the working tree was changed since: it stays"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(project.root().join("mine.txt")).unwrap(), "hours later");
    let attempt = project.show(&task)["history"][0]["id"].as_str().unwrap().to_owned();
    let kept = project.git(["show", &format!("refs/ralph/salvage/{attempt}:left.txt")]);
    assert_eq!(kept, "half");
}

/// A project in which everything is committed, with a task.
fn committed() -> (Project, String) {
    let project = Project::new();
    project.write("mine.txt", "as committed");
    project.git_init();
    let task = project.add(["Do it"]);
    (project, task)
}

fn run(project: &Project, scripts: &[&str], arguments: &[&str]) -> Output {
    let command = project.ralph_playing(scripts, ["run", "--no-verify"].iter().chain(arguments));
    let output = project.run(command, None);
    project.assert_nothing_left();
    output
}

#[test]
fn work_that_is_not_committed_is_handed_back_once_and_then_committed() {
    let (project, task) = committed();
    project.write("mine.txt", "changed");
    let work = "write new.txt work | run mkdir -p a && echo b > a/b | done";
    let output = run(&project, &[work], &["--allow-dirty"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = project.show(&task);
    let history = &shown["history"];
    let reason = "the session said done, but did not commit `a/b` and `new.txt`: \
                  commit all changes before saying done";
    assert_eq!((&history[0]["outcome"], &history[0]["reason"]), (&"failed".into(), &reason.into()));
    assert_eq!(history[1]["outcome"], "done", "{shown}");
    let told = "warning: the session did not commit `a/b` and `new.txt`: ralph has";
    assert!(output.stderr().contains(told), "{output:?}");
    let attempt = history[1]["id"].as_str().unwrap();
    assert_eq!(
        project.git(["log", "-1", "--format=%B"]).trim_end(),
        format!("Do it\n\nRalph-Task: {task}\nRalph-Attempt: {attempt}")
    );
    let files = project.git(["show", "--name-only", "--format=", "HEAD"]);
    assert_eq!(files, "a/b\nnew.txt");
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt", "{output:?}");
}

#[test]
fn work_that_can_not_be_handed_back_is_committed_at_once() {
    let (project, task) = committed();
    let output = run(&project, &["write new.txt work | done"], &["--max-retries", "0"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(project.show(&task)["status"], "done");
    assert_eq!(project.git(["show", "HEAD:new.txt"]), "work");
}

#[test]
fn commits_of_a_failed_attempt_stay_and_what_is_left_does_not_reach_the_next_task() {
    let (project, _) = committed();
    let other = project.add(["Another"]);
    let fails = "run echo one > one; git add one; git commit -q -m one; echo two > two; echo x > mine.txt \
                 | fail no";
    let commits = "run git add -A; git commit -q --allow-empty -m all | done";
    run(&project, &[fails, commits], &["--max-retries", "0"]);
    assert_eq!(project.show(&other)["status"], "done");
    assert_eq!(project.git(["log", "--format=%s"]), "all\none\nbegin");
    assert_eq!(project.git(["show", "--name-only", "--format=", "HEAD"]), "");
}

#[test]
fn a_persons_file_that_a_session_commits_is_kept_and_named() {
    let (project, task) = committed();
    project.write("mine.txt", "a person's");
    let script = "run echo edited >> mine.txt; git add mine.txt; git commit -q -m theirs | done";
    let output = run(&project, &[script], &["--allow-dirty"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let attempt = project.show(&task)["history"][0]["id"].as_str().unwrap().to_owned();
    let kept = format!("refs/ralph/before/{attempt}");
    let told = format!(
        "the session committed `mine.txt`, which had uncommitted changes before; these are kept as {kept}"
    );
    assert!(output.stderr().contains(&told), "{output:?}");
    assert_eq!(project.git(["show", &format!("{kept}:mine.txt")]), "a person's");
    assert_eq!(project.git(["show", "HEAD:mine.txt"]), "a person'sedited");
}

#[test]
fn what_was_ignored_before_a_session_is_never_touched() {
    for end in ["fail no", "done"] {
        let project = Project::new();
        let ignores = fs::read_to_string(project.root().join(".gitignore")).unwrap_or_default();
        project.write(".gitignore", format!("{ignores}\n.env\n"));
        project.git_init();
        project.write(".env", "secret");
        project.add(["Do it"]);
        let script = format!(
            "run sed -i s/.env/build/ .gitignore; git commit -q -a -m ignore; echo x > build | {end}"
        );
        run(&project, &[&script], &["--max-retries", "0"]);
        assert_eq!(fs::read_to_string(project.root().join(".env")).unwrap(), "secret", "{end}");
        let objects = project.git(["log", "--all", "--name-only", "--format="]);
        assert!(!objects.contains(".env"), "{objects}");
    }
}

#[test]
fn what_a_verifier_changes_is_undone() {
    let (project, task) = committed();
    project.write("mine.txt", "a person's");
    let vandal = "run echo x > new.txt; echo y >> mine.txt; git commit -q --allow-empty -m sneaky \
                  | say <verify-pass/>";
    let command =
        project.ralph_playing(&["done", vandal, "say <verify-pass/>"], ["run", "--allow-dirty"]);
    let output = project.run(command, None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        output.stderr().contains("changes made during the verification are undone"),
        "{output:?}"
    );
    assert_eq!(project.show(&task)["status"], "done");
    assert_eq!(project.git(["log", "--format=%s"]), "begin");
    assert_eq!(project.git(["status", "--porcelain"]), " M mine.txt");
    assert_eq!(fs::read_to_string(project.root().join("mine.txt")).unwrap(), "a person's");
}

/// Ctrl+C at a terminal reaches every process of the foreground.
#[test]
fn an_interrupt_while_git_puts_the_tree_in_order_does_not_stop_git() {
    let (project, _) = project();
    let start = project.git(["rev-parse", "HEAD"]);
    project.add(["Do it"]);
    let [seen, bin] = ["seen", "bin"].map(|it| project.base().join(it));
    fs::create_dir(&bin).unwrap();
    // A git that takes its time to keep what the session left, as in a large repository.
    let slow = format!(
        "#!/bin/bash\nexport PATH=${{PATH#*:}}\n\
         case \"$*\" in *commit-tree*) touch {}; sleep 0.5;; esac\nexec git \"$@\"\n",
        seen.display()
    );
    fs::write(bin.join("git"), slow).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bin.join("git"), executable).unwrap();
    let script = "run git checkout -q -b side; echo x > left | fail no key";
    let mut command =
        project.ralph_with(script, ["run", "--no-verify", "--no-sandbox", "--allow-dirty"]);
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let run = project.start(command);
    wait_until(Instant::now() + DEADLINE, || seen.exists().then_some(())).expect("git is called");
    kill_process_group(Pid::from_raw(run.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let (status, lines, stderr) = run.finish();
    assert_eq!(status.code(), Some(130), "{lines:?} {stderr}");
    assert_in_order(&project, &start, &stderr);
}

/// What a person has, as a shell makes it; what a session does to it; and what must hold then.
const HARD: [(&str, &str, &str); 10] = [
    ("echo p > mine.txt; echo p > new", "git add --all", "true"),
    (
        r#"printf 1 > "$(printf 'Icon\r')"; printf 2 > '"q
n'; printf 3 > "$(printf '\377')"; ln -s no 'li
nk'"#,
        "git clean -f -d -q; echo x > x",
        r#"test "$(cat Icon* '"q'* "$(printf '\377')")" = 123; test -L li*"#,
    ),
    (
        "rm -rf .git; git init -q -b main --object-format=sha256; git add --all; git commit -q -m begin; \
         git rm -q --cached mine.txt",
        "git reset -q; echo x > x",
        "true",
    ),
    (
        "echo p > mine.txt",
        "git checkout -q -b side; echo x > x; cd .git; touch index.lock HEAD.lock refs/heads/main.lock",
        "git commit -q --allow-empty -m works",
    ),
    (
        "mkdir in out; echo 1 > in/1; echo 1 > out/1; git add --all; git commit -q -m two; \
         git sparse-checkout set --cone in; echo p > in/1",
        "mkdir -p out; echo x > out/x",
        "test $(cat in/1) = p",
    ),
    ("mkdir empty", "echo x > empty/x; mkdir new; echo x > new/x", "test -d empty; test ! -e new"),
    (
        "echo .env >> .git/info/exclude; mkdir part; echo secret > part/.env",
        "cd part; git init -q; echo x > x",
        "test $(cat part/.env) = secret; test ! -e part/x",
    ),
    (
        "printf '*.txt text\n*.z filter=z\n' > .gitattributes; git add --all; git commit -q -m filters; \
         git config core.safecrlf true; git config filter.z.clean false; \
         git config filter.z.required true; printf 'p\r\n' > p.txt; echo p > p.z",
        "rm p.txt p.z; printf 'x\r\n' > x.txt; echo x > x.z",
        "test $(cat p.z) = p; test $(wc -c < p.txt) = 3",
    ),
    (
        "echo .env >> .gitignore; echo secret > .env",
        "git checkout -q .; echo x > x",
        "test $(cat .env) = secret; ! git log --all --name-only | grep -F .env",
    ),
    (
        "mkdir d ../out; echo 1 > d/1; git add d; git commit -q -m d; echo p > d/1; echo no > d/.gitignore; \
         echo theirs > ../out/.gitignore",
        "rm -r d; ln -s ../out d",
        "test $(cat d/1) = p; test $(cat ../out/.gitignore) = theirs",
    ),
];

#[track_caller]
fn shell(project: &Project, script: &str) -> String {
    let mut command = project.command("sh");
    command.args(["-e", "-c", script]);
    project.run(command, None).ok()
}

#[test]
fn what_a_person_has_stays_as_it_was_whatever_git_makes_of_it() {
    for (has, does, holds) in HARD {
        let (project, _) = committed();
        shell(&project, has);
        let status = || shell(&project, "git status --porcelain -uall | grep -v ralph || true");
        let before = status();
        let script = format!("run ( {does} ) >/dev/null 2>&1; true | fail no");
        let output = run(&project, &[&script], &["--allow-dirty", "--max-retries", "0"]);
        assert!(!output.stderr().contains("error:"), "{does}: {output:?}");
        assert_eq!(status(), before, "{does}: {output:?}");
        shell(&project, holds);
    }
}

#[test]
fn what_a_person_ignores_but_has_not_committed_to_ignore_is_not_committed_by_ralph() {
    let (project, _) = committed();
    shell(&project, "echo .env >> .gitignore; echo secret > .env");
    let script = "run git checkout -q . && echo x > x | done";
    let output = run(&project, &[script], &["--allow-dirty", "--max-retries", "0"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(project.git(["show", "--name-only", "--format=", "HEAD"]), "x");
}

#[test]
fn a_lock_that_a_session_left_does_not_stop_the_next() {
    let (project, _) = committed();
    let other = project.add(["Another"]);
    let locks = "run touch .git/index.lock | done";
    let commits = "run echo x > x; git add x; git commit -q -m x | done";
    run(&project, &[locks, commits], &[]);
    assert_eq!(project.show(&other)["status"], "done");
    assert_eq!(project.git(["log", "-1", "--format=%s"]), "x");
}

#[test]
fn a_session_that_removes_the_repository_stops_the_run_and_nothing_else_is_touched() {
    for again in ["true", "git init -q"] {
        let (project, _) = committed();
        // A repository around it is another one.
        shell(&project, "cd ..; git init -q; echo 1 > around; git add around");
        let script = format!("run rm -rf .git; {again} | fail no");
        let output = run(&project, &[&script], &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr().contains("can't put the working tree in order"), "{output:?}");
        let mine = fs::read_to_string(project.root().join("mine.txt")).unwrap();
        assert_eq!(mine, "as committed");
        assert_eq!(
            shell(&project, "cd ..; git diff --cached --name-only; git for-each-ref"),
            "around"
        );
    }
}

#[test]
fn a_tree_with_a_merge_half_way_is_refused() {
    let (project, task) = committed();
    shell(
        &project,
        "git checkout -q -b side; echo 1 > mine.txt; git commit -q -a -m 1; git checkout -q main; \
         echo 2 > mine.txt; git commit -q -a -m 2; ! git merge -q side >/dev/null",
    );
    let refused = |said: &str| {
        let output = run(&project, &["done"], &["--allow-dirty"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr().contains(said), "{output:?}");
        assert_eq!(project.git(["status", "--porcelain", "mine.txt"]), "UU mine.txt");
        assert_eq!(project.show(&task)["history"].as_array().unwrap().len(), 0);
    };
    refused("error: git is in the middle of a merge\nhint: finish or abort it");
    fs::remove_file(project.root().join(".git/MERGE_HEAD")).unwrap();
    refused("error: files have conflicts that are not resolved");
}

#[test]
fn what_a_person_does_in_the_main_worktree_is_their_own_business() {
    let (project, task) = committed();
    // The project becomes a worktree of another repository.
    shell(
        &project,
        "mv .git ../moved; mkdir ../main; mv ../moved ../main/.git; cd ../main; git reset -q --hard; \
         git worktree add -q --no-checkout ../new -b feature; mv ../new/.git ../project/.git; \
         cd ../project; git -C ../main worktree repair -q \"$PWD\" >/dev/null 2>&1 || true; git reset -q",
    );
    let script =
        "run cd ../main; echo 1 > mine.txt; git stash -q; git commit -q --allow-empty -m x | done";
    let output = run(&project, &[script], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(project.show(&task)["status"], "done");
    assert!(project.git(["stash", "list"]).contains("WIP on main"));
}

/// Has a session of a loop make a mess, and a second one look around.
fn check_loop(mess: &Mess, is_killed: bool) {
    let what = mess.name;
    let (project, _) = project();
    let start = project.git(["rev-parse", "HEAD"]);
    let made = project.base().join("made");
    let mess_made = format!("run ( {} ) >/dev/null 2>&1; echo w > work", mess.made_by);
    let script = match is_killed {
        true => format!("{mess_made} | touch ../made | hang"),
        false => mess_made,
    };
    let goes_on = "run cat work > went-on; git symbolic-ref HEAD >> went-on; rm work";
    let scripts = [script.as_str(), goes_on];
    let arguments = ["loop", "-a", "2", "go on", "--allow-dirty", "--format", "jsonl"];
    let mut run = project.start(loop_of(&project, &scripts, &arguments));
    let mut notes = String::new();
    if is_killed {
        wait_until(Instant::now() + DEADLINE, || made.exists().then_some(())).expect("the mess");
        run.kill();
    }
    let (_, lines, stderr) = run.finish();
    assert_no_process_left(&project);
    notes.push_str(&format!("{}\n{stderr}", lines.join("\n")));
    if is_killed {
        let arguments = ["loop", "-a", "1", "go on", "--allow-dirty"];
        let output = project.run(loop_of(&project, &[goes_on], &arguments), None);
        notes.push_str(&output.stderr());
    }
    assert!(notes.contains(mess.told), "{what}\n{notes}");
    // What a session leaves stays for the next one, which may take it away.
    let went_on = fs::read_to_string(project.root().join("went-on")).unwrap_or_default();
    assert_eq!(went_on, "w\nrefs/heads/main\n", "{what}\n{notes}");
    assert!(!project.root().join("work").exists(), "{what}\n{notes}");
    let kept = project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/salvage"]);
    let has = |kept: &str| match mess.kept {
        Kept::File(name) => {
            let files = project.git(["ls-tree", "-r", "--name-only", kept]);
            files.lines().any(|it| it == name)
        }
        Kept::Commit(message) => project.git(["log", "--format=%s", kept]).contains(message),
        Kept::Nothing => true,
    };
    assert!(kept.lines().any(has), "{what}: {kept}\n{notes}");
    // That is what the sessions left. The rest is the person's.
    for name in ["work", "went-on", "new", "an odd: name", "x", "y", ".claude"] {
        let _ = fs::remove_file(project.root().join(name));
        let _ = fs::remove_dir_all(project.root().join(name));
    }
    if what == "changes that are not committed" {
        assert_eq!(fs::read_to_string(project.root().join("f")).unwrap(), "changed\n");
        project.git(["checkout", "-q", "--", "f", "g"]);
    }
    assert_in_order(&project, &start, &format!("{what}\n{notes}"));
    assert!(!project.root().join(".git/ralph-alive").exists(), "{what}");
}

fn loop_of(project: &Project, scripts: &[&str], arguments: &[&str]) -> std::process::Command {
    let mut command = project.ralph_playing(scripts, arguments);
    command.env("RALPH_LOOP_PAUSE_SECS", "0");
    command
}

#[test]
fn a_session_of_a_loop_leaves_the_tree_in_order_and_its_work_to_the_next() {
    MESSES.iter().for_each(|mess| check_loop(mess, false));
}

#[test]
fn what_a_killed_loop_leaves_is_put_in_order_by_the_next() {
    MESSES.iter().for_each(|mess| check_loop(mess, true));
}

#[test]
fn what_a_killed_loop_leaves_is_put_in_order_by_a_run_and_the_other_way_round() {
    for (first, second) in [("loop", "run"), ("run", "loop")] {
        let (project, _) = committed();
        let arguments = |command| match command {
            "loop" => vec!["loop", "-a", "1", "go on", "--allow-dirty"],
            _ => vec!["run", "--no-verify", "--once", "--allow-dirty"],
        };
        let script = "run git checkout -q -b side; echo x > x | touch ../made | hang";
        let mut killed = project.start(loop_of(&project, &[script], &arguments(first)));
        let made = project.base().join("made");
        wait_until(Instant::now() + DEADLINE, || made.exists().then_some(())).unwrap();
        killed.kill();
        killed.finish();
        assert_no_process_left(&project);
        let output = project.run(loop_of(&project, &["say hello"], &arguments(second)), None);
        let told = "the session ended on branch `side` instead of `main`";
        assert!(output.stderr().contains(told), "{first}: {output:?}");
        assert_eq!(project.git(["symbolic-ref", "--short", "HEAD"]), "main", "{first}");
        let kept = project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/salvage"]);
        assert_eq!(project.git(["show", &format!("{kept}:x")]), "x", "{first}");
    }
}

#[test]
fn a_persons_file_that_a_loop_works_on_stays_changed_and_is_kept_as_it_was() {
    let (project, _) = committed();
    project.write("mine.txt", "a person's");
    project.write("plan.md", "- [ ] one\n- [ ] two\n- [ ] three\n");
    let scripts = [
        "run echo , edited >> mine.txt; sed -i 's/ ] one/x] one/' plan.md",
        "run sed -i 's/ ] two/x] two/' plan.md; git clean -q -f -d; git reset -q --hard",
    ];
    let arguments = ["loop", "-a", "2", "--plan", "plan.md", "-p", "go on", "--allow-dirty"];
    let output = project.run(loop_of(&project, &scripts, &arguments), None);
    project.assert_nothing_left();
    let kept = project.git(["for-each-ref", "--format=%(refname)", "refs/ralph/before"]);
    let told = format!(
        "the session changed `mine.txt`, which had uncommitted changes before; these are kept as {kept}"
    );
    assert_eq!(output.stderr().matches("which had uncommitted").count(), 1, "{output:?}");
    assert!(output.stderr().contains(&told), "{output:?}");
    assert_eq!(project.git(["show", &format!("{kept}:mine.txt")]), "a person's");
    // The second session has thrown away what the first had made of it, and the plan, which is a person's.
    assert_eq!(fs::read_to_string(project.root().join("mine.txt")).unwrap(), "as committed");
    let plan = fs::read_to_string(project.root().join("plan.md")).unwrap();
    assert_eq!(plan, "- [x] one\n- [ ] two\n- [ ] three\n");
}

/// Ways of a session to hide `f` and `x` from git, what is said of it, and what must be kept.
const HIDDEN: [(&str, &str, &str); 4] = [
    (
        "echo hidden > f; git update-index --assume-unchanged f",
        "the session hid `f` from git (`git update-index --assume-unchanged` or `--skip-worktree`)",
        "f",
    ),
    (
        "echo hidden > f; git update-index --skip-worktree f",
        "the session hid `f` from git (`git update-index --assume-unchanged` or `--skip-worktree`)",
        "f",
    ),
    (
        "echo hidden > x; echo x >> .git/info/exclude",
        "the session changed `.git/info/exclude`, which hides files from git",
        "x",
    ),
    (
        "echo hidden > x; rm -f .git/info/exclude",
        "the session changed `.git/info/exclude`, which hides files from git",
        "x",
    ),
];

/// A project with a file that a person has hidden from git, and another that they have excluded.
fn with_hidden_files() -> (Project, String) {
    let project = Project::new();
    for name in ["f", "local"] {
        project.write(name, "as committed\n");
    }
    project.git_init();
    shell(
        &project,
        "echo mine > local; git update-index --assume-unchanged local; echo .env >> .git/info/exclude; \
         echo secret > .env",
    );
    let task = project.add(["Do it"]);
    (project, task)
}

#[track_caller]
fn assert_hidden_files_are_a_persons(project: &Project, what: &str) {
    let has = "git ls-files -v local; cat local .env; tail -1 .git/info/exclude";
    assert_eq!(shell(project, has), "h local\nmine\nsecret\n.env", "{what}");
    let objects = project.git(["log", "--all", "--name-only", "--format="]);
    assert!(!objects.contains(".env"), "{what}: {objects}");
}

#[test]
fn what_a_session_hides_from_git_is_found_and_kept() {
    for (hides, told, file) in HIDDEN {
        let (project, task) = with_hidden_files();
        let script = format!("run {hides} | done");
        let output = run(&project, &[&script], &["--max-retries", "0"]);
        let attempt = &project.show(&task)["history"][0];
        assert_eq!((&attempt["outcome"], &attempt["reason"]), (&"failed".into(), &told.into()));
        let kept = format!("refs/ralph/salvage/{}", attempt["id"].as_str().unwrap());
        assert_eq!(project.git(["show", &format!("{kept}:{file}")]), "hidden", "{output:?}");
        let status = shell(&project, "git ls-files -v f; cat f; git status --porcelain");
        assert_eq!(status, "H f\nas committed", "{hides}");
        assert_hidden_files_are_a_persons(&project, hides);
    }
}

#[test]
fn what_a_session_of_a_loop_hides_from_git_is_in_sight_for_the_next() {
    for (hides, told, file) in HIDDEN {
        let (project, _) = with_hidden_files();
        let script = format!("run {hides}");
        let looks = "run git status --porcelain > ../status";
        let arguments = ["loop", "-a", "2", "go on"];
        let output = project.run(loop_of(&project, &[&script, looks], &arguments), None);
        assert!(output.stderr().contains(told), "{hides}: {output:?}");
        let status = fs::read_to_string(project.base().join("status")).unwrap();
        assert_eq!(&status[3..], format!("{file}\n"), "{hides}");
        assert_hidden_files_are_a_persons(&project, hides);
    }
}

#[test]
fn a_file_that_a_person_has_hidden_stays_as_it_was() {
    for (does, kept) in [
        ("echo changed > local", Some("changed")),
        ("git update-index --no-assume-unchanged local; git checkout -q local", None),
        (
            "git update-index --no-assume-unchanged local; git checkout -q -b side; git commit -q -a -m x",
            None,
        ),
    ] {
        let (project, task) = with_hidden_files();
        let script = format!("run {does} | fail no");
        let output = run(&project, &[&script], &["--max-retries", "0"]);
        assert!(!output.stderr().contains("error:"), "{does}: {output:?}");
        assert_hidden_files_are_a_persons(&project, does);
        let attempt = project.show(&task)["history"][0]["id"].as_str().unwrap().to_owned();
        if let Some(text) = kept {
            let kept = format!("refs/ralph/salvage/{attempt}:local");
            assert_eq!(project.git(["show", &kept]), text);
        }
    }
}

#[test]
fn a_verifier_that_hides_its_change_is_found_out() {
    let (project, task) = with_hidden_files();
    let vandal = "run echo x > f; git update-index --assume-unchanged f | say <verify-pass/>";
    let command = project.ralph_playing(&["done", vandal, "say <verify-pass/>"], ["run"]);
    let output = project.run(command, None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        output.stderr().contains("changes made during the verification are undone"),
        "{output:?}"
    );
    assert_eq!(project.show(&task)["status"], "done");
    assert_eq!(shell(&project, "git ls-files -v f; cat f"), "H f\nas committed");
    assert_hidden_files_are_a_persons(&project, "a verifier");
}

#[test]
fn a_repository_that_an_agent_makes_inside_ours_is_kept_with_its_commits() {
    let (project, task) = committed();
    let script = "run mkdir new; cd new; git init -q -b main; echo 1 > f; git add f; git commit -q -m inner; \
                  git checkout -q -b other; git commit -q --allow-empty -m aside; git checkout -q main \
                  | fail no";
    let output = run(&project, &[script], &["--max-retries", "0"]);
    assert!(!project.root().join("new").exists(), "{output:?}");
    let attempt = project.show(&task)["history"][0]["id"].as_str().unwrap().to_owned();
    let kept = project.git(["log", "--format=%s", &format!("refs/ralph/salvage/{attempt}")]);
    assert!(kept.contains("inner") && kept.contains("aside"), "{kept}");
}

#[test]
fn a_change_in_a_submodule_is_told_and_stays() {
    for (does, is_told) in [
        ("cd sub; echo 2 > f", true),
        ("cd sub; git commit -q --allow-empty -m inner", true),
        ("cd sub; git commit -q --allow-empty -m inner; cd ..; git commit -q -a -m sub", false),
    ] {
        let (project, task) = committed();
        shell(
            &project,
            "git init -q ../lib; cd ../lib; echo 1 > f; git add f; git commit -q -m lib; cd ../project; \
             git -c protocol.file.allow=always submodule --quiet add ../lib sub; git commit -q -a -m sub",
        );
        let script = format!("run {does} | done");
        run(&project, &[&script, "done"], &["--max-retries", "0"]);
        let attempt = &project.show(&task)["history"][0];
        let told = "the session changed `sub` (a submodule) and committed no such change here; it stays as it is";
        let reason = attempt["reason"].as_str().unwrap_or_default();
        assert_eq!(
            (attempt["outcome"] == "failed", reason == told),
            (is_told, is_told),
            "{does}: {attempt}"
        );
        let status = project.git(["status", "--porcelain"]);
        assert_eq!(status.trim_start(), if is_told { "M sub" } else { "" }, "{does}");
    }
}
