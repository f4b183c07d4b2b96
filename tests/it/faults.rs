//! The world misbehaves: a clear error each, and the database is as good as before.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;

use crate::harness::{
    DEADLINE, FAKE_CLAUDE, Output, Project, RALPH, assert_civil, assert_no_process_left,
    check_rules, wait_until,
};
use crate::shim::{Failure, Shim};

/// A user for whom permissions count, as they do not for root.
const NOBODY: u32 = 65_534;

/// A project whose files belong to somebody who is not root, and the program where they can run it.
struct Unprivileged {
    project: Project,
    program: PathBuf,
}

impl Unprivileged {
    fn new(project: Project) -> Unprivileged {
        let program = project.base().join("ralph");
        // Copied by another process: as long as we had it open for writing, nobody could run it.
        let mut copy = project.command("cp");
        copy.arg(RALPH).arg(&program);
        project.run(copy, None).ok();
        if rustix::process::geteuid().is_root() {
            give_away(project.base());
        }
        Unprivileged { project, program }
    }

    fn ralph(&self, arguments: &[&str]) -> Output {
        let mut command = self.project.command(&self.program);
        command.args(arguments);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        self.project.run(command, None)
    }

    /// What is said while a file has these permissions; it has the old ones afterwards.
    fn says(&self, path: &Path, mode: u32, arguments: &[&str]) -> String {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let output = self.ralph(arguments);
        fs::set_permissions(path, before).unwrap();
        self.project.masked(&output.fails(1))
    }
}

fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

/// Moves everything into the one file of the database, and removes those beside it.
fn settle(project: &Project) {
    let connection = Connection::open(project.database()).unwrap();
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    drop(connection);
    assert!(!project.database().with_extension("db-wal").exists());
}

#[test]
fn a_read_only_file_can_be_looked_at_and_not_written() {
    let project = Project::new();
    let task = project.add(["Stays"]);
    settle(&project);
    let user = Unprivileged::new(project);
    let database = user.project.database();
    let before = user.ralph(&["export"]).ok();
    insta::assert_snapshot!(user.says(&database, 0o400, &["task", "add", "x"]), @"
    error: can't write `[ROOT]/.ralph/progress.db`: it is read-only
    hint: make it, the files beside it (-wal, -shm) and their directory writable
    ");
    insta::assert_snapshot!(user.says(&database, 0o400, &["task", "done", &task]), @"
    error: can't write `[ROOT]/.ralph/progress.db`: it is read-only
    hint: make it, the files beside it (-wal, -shm) and their directory writable
    ");
    fs::set_permissions(&database, Permissions::from_mode(0o400)).unwrap();
    assert_eq!(user.ralph(&["export"]).ok(), before);
    // What was made beside it in the meantime has its permissions.
    for name in ["db", "db-wal", "db-shm"] {
        let path = database.with_extension(name);
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }
    user.ralph(&["task", "done", &task]).ok();
    check_rules(&user.project);
}

#[test]
fn a_file_that_may_not_be_read_is_told_so() {
    let project = Project::new();
    project.add(["Stays"]);
    settle(&project);
    let user = Unprivileged::new(project);
    let database = user.project.database();
    for command in [&["task", "list"][..], &["task", "add", "x"], &["export"]] {
        let said = user.says(&database, 0, command);
        insta::allow_duplicates! { insta::assert_snapshot!(said, @r"
        error: can't open `[ROOT]/.ralph/progress.db`
        hint: the file and its directory must be readable and writable
        ") }
    }
    user.ralph(&["task", "add", "x"]).ok();
    check_rules(&user.project);
}

#[test]
fn a_read_only_directory_is_told_so() {
    let project = Project::new();
    project.add(["Stays"]);
    settle(&project);
    let user = Unprivileged::new(project);
    let directory = user.project.root().join(".ralph");
    let before = user.ralph(&["export"]).ok();
    settle(&user.project);
    insta::assert_snapshot!(user.says(&directory, 0o500, &["task", "add", "x"]), @"
    error: can't write `[ROOT]/.ralph/progress.db`: it is read-only
    hint: make it, the files beside it (-wal, -shm) and their directory writable
    ");
    assert_eq!(user.ralph(&["export"]).ok(), before);
    check_rules(&user.project);
}

#[test]
fn a_database_that_cannot_be_made_is_told_so() {
    let user = Unprivileged::new(Project::new());
    let directory = user.project.root().join(".ralph");
    insta::assert_snapshot!(user.says(&directory, 0o500, &["task", "add", "x"]), @"error: can't create `[ROOT]/.ralph/progress.db`: Permission denied (os error 13)");
    insta::assert_snapshot!(user.says(&directory, 0, &["task", "add", "x"]), @"error: can't create `[ROOT]/.ralph/progress.db`: Permission denied (os error 13)");
    fs::remove_dir(&directory).unwrap();
    let root = user.project.root();
    insta::assert_snapshot!(user.says(root, 0o500, &["task", "add", "x"]), @"error: can't make `[ROOT]/.ralph`: Permission denied (os error 13)");
    insta::assert_snapshot!(user.says(root, 0o500, &["init"]), @"error: can't make `[ROOT]/.ralph`: Permission denied (os error 13)");
    user.ralph(&["task", "add", "x"]).ok();
}

#[test]
fn a_full_disk_is_told_so_and_work_goes_on_when_there_is_space() {
    let project = Project::new();
    let mount = project.base().join("mount");
    fs::create_dir(&mount).unwrap();
    project.write("story", "x".repeat(3_000));
    let script = r#"
        mount -t tmpfs -o size=1m tmpfs "$1" || exit 77
        out=$PWD; cd "$1" || exit 78
        ralph() { "$out/ralph" "$@"; }
        ralph init >"$out/init" || exit 79
        ralph task add "Fill it" >"$out/ids" || exit 84
        ralph run --no-verify --agent "$2" >"$out/run" 2>"$out/run.error"; echo $? >"$out/run.code"
        rm rest
        head -c 400000 /dev/zero >ballast
        code=0 count=0
        while [ $code = 0 ] && [ $count -lt 1000 ]; do
            ralph task add "Task $count" -d "@$out/story" >>"$out/ids" 2>"$out/full"; code=$?
            count=$((count + 1))
        done
        echo $code >"$out/code"
        ralph task list --json >"$out/list" 2>"$out/list.error"; echo $? >"$out/list.code"
        cat /dev/zero >rest
        id=$(head -1 "$out/ids") code=0 count=0
        while [ $code = 0 ] && [ $count -lt 1000 ]; do
            ralph task fail "$id" -r "No $count" 2>"$out/fail"; code=$?
            count=$((count + 1))
        done
        echo $code >"$out/fail.code"
        rm ballast rest
        ralph task add "After" >>"$out/ids" || exit 80
        ralph task done "$id" || exit 81
        ralph export >"$out/export" || exit 82
        ralph doctor --json >"$out/doctor" || exit 83
    "#;
    std::os::unix::fs::symlink(RALPH, project.root().join("ralph")).unwrap();
    let unshare = |flags: &str| {
        let mut command = project.command("unshare");
        command.args([flags, "sh", "-c", script, "sh"]).arg(&mount).arg(FAKE_CLAUDE);
        command.env("FAKE_CLAUDE", "run cat /dev/zero >rest | done");
        command.env("RALPH_SANDBOX_BACKEND", "none");
        project.run(command, None)
    };
    let mounted = || project.root().join("init").exists();
    let mut output = unshare("-m");
    if !mounted() {
        output = unshare("-rm");
    }
    if !mounted() {
        eprintln!("SKIPPED: no small file system can be mounted here: {output:?}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(project.root().join(name)).unwrap();
    assert_eq!((read("run.code"), read("code")), ("1\n".into(), "1\n".into()));
    let mount = mount.display().to_string();
    let told = "   no space left to write `[DISK]/.ralph/progress.db`\n";
    assert!(read("run").replace(&mount, "[DISK]").contains(told), "{}", read("run"));
    assert_civil(&read("run"));
    assert!(read("run.error").contains("error: no space left"), "{}", read("run.error"));
    insta::assert_snapshot!(read("full").replace(&mount, "[DISK]"), @r"
    error: no space left to write `[DISK]/.ralph/progress.db`
    hint: free some space; nothing was changed
    ");
    insta::assert_snapshot!(read("fail").replace(&mount, "[DISK]"), @r"
    error: no space left to write `[DISK]/.ralph/progress.db`
    hint: free some space; nothing was changed
    ");
    assert_eq!((read("fail.code"), read("list.code")), ("1\n".into(), "0\n".into()));
    let (ids, export) = (read("ids"), read("export"));
    assert!(ids.lines().count() > 5, "{ids}");
    assert!(ids.lines().all(|id| export.contains(id)), "{ids}\n{export}");
    let tasks = export.lines().filter(|line| line.starts_with("{\"type\":\"task\"")).count();
    assert_eq!(tasks, ids.lines().count());
    assert!(!read("doctor").contains("\"error\""), "{}", read("doctor"));
}

#[test]
fn a_file_size_limit_is_told_so_and_nothing_is_damaged() {
    let project = Project::new();
    project.write("story", "x".repeat(10_000));
    // Units of 512 bytes: what lies beside the database hits it soon.
    let script = r#"ulimit -f 400; exec "$0" "$@""#;
    let mut added = 0;
    let output = loop {
        let mut command = project.command("sh");
        command.args(["-c", script, RALPH, "task", "add", "x", "-d", "@story"]);
        let output = project.run(command, None);
        if !output.status.success() {
            break output;
        }
        added += 1;
        assert!(added < 1_000, "the limit does nothing");
    };
    insta::assert_snapshot!(project.masked(&output.fails(1)), @r"
    error: reading or writing `[ROOT]/.ralph/progress.db` failed
    hint: check the disk, its free space and the file-size limit (`ulimit -f`)
    ");
    let tasks = project.ralph(["task", "list", "--json"]).json();
    assert_eq!(tasks.as_array().unwrap().len(), added);
    project.add(["Goes on"]);
    check_rules(&project);
}

#[test]
fn an_init_that_is_cut_short_leaves_nothing_half_written() {
    let project = Project::bare();
    let limited = || {
        let mut command = project.command("sh");
        command.args(["-c", r#"ulimit -f 1; exec "$0" init"#, RALPH]);
        project.masked(&project.run(command, None).fails(1))
    };
    insta::assert_snapshot!(limited(), @"error: can't write `[ROOT]/.ralph.toml`: File too large (os error 27)");
    assert!(!project.root().join(".ralph.toml").exists());
    project.write(".ralph.toml", "");
    let ignored = "x\n".repeat(250);
    project.write(".gitignore", &ignored);
    insta::assert_snapshot!(limited(), @"error: can't write `[ROOT]/.gitignore`: File too large (os error 27)");
    assert_eq!(fs::read_to_string(project.root().join(".gitignore")).unwrap(), ignored);
    project.ralph(["init"]).ok();
    check_rules_of_a_project_without_database(&project);
}

fn check_rules_of_a_project_without_database(project: &Project) {
    let doctor = project.ralph(["doctor"]).ok();
    assert!(doctor.contains("none yet") && !doctor.contains(".gitignore"), "{doctor}");
}

#[test]
fn a_spec_that_cannot_be_read_is_written_all_the_same() {
    let project = Project::new();
    project.write_feature("login", "# Spec", "");
    project.feature("login");
    let user = Unprivileged::new(project);
    let spec = user.project.root().join(".ralph/features/login/spec.md");
    fs::set_permissions(spec, Permissions::from_mode(0o000)).unwrap();
    let features = user.ralph(&["feature", "list", "--json"]).json();
    assert_eq!((&features[0]["has_spec"], &features[0]["has_plan"]), (&true.into(), &false.into()));
}

#[test]
fn output_that_cannot_be_written_is_told_so() {
    let project = Project::new();
    project.add_lines("{\"title\": \"x\"}\n".repeat(100));
    for device in [r#"exec "$0" "$@" >/dev/full"#, r#"ulimit -f 1; exec "$0" "$@" >out"#] {
        for arguments in [&["export"][..], &["task", "list", "--json"], &["task", "tree", "--json"]]
        {
            let mut command = project.command("sh");
            command.args(["-c", device, RALPH]).args(arguments);
            let said = project.run(command, None).fails(1);
            // A file-size limit is about the files beside the database, too.
            let about_printing = said.starts_with("error: can't print: ");
            assert!(about_printing || device.contains("ulimit"), "{said}");
        }
    }
    let mut help = project.command("sh");
    help.args(["-c", r#"exec "$0" --help >/dev/full"#, RALPH]);
    insta::assert_snapshot!(project.run(help, None).fails(1), @"error: can't print: No space left on device (os error 28)");
    check_rules(&project);
}

#[test]
fn a_run_that_cannot_print_does_not_pass_for_one_that_is_done() {
    let project = Project::new();
    let task = project.add(["Not done by this"]);
    for arguments in [
        &["run", "--headless", "--no-verify"][..],
        &["run", "--headless", "--no-verify", "--format", "jsonl"],
        &["loop", "1", "--afk", "-p", "hello"],
    ] {
        let mut shell = project.command("sh");
        shell.args(["-c", r#"exec "$0" "$@" >/dev/full"#, RALPH]).args(arguments);
        shell.env("RALPH_AGENT_COMMAND", FAKE_CLAUDE).env("FAKE_CLAUDE", "done");
        shell.env("RALPH_SANDBOX_BACKEND", "none");
        insta::allow_duplicates! {
            insta::assert_snapshot!(project.run(shell, None).fails(1), @"error: can't print: No space left on device (os error 28)");
        }
        assert_eq!(project.show(&task)["status"], "pending");
    }
    assert_no_process_left(&project);
    check_rules(&project);
}

#[test]
fn what_could_not_be_brought_to_the_disk_did_not_happen() {
    let project = Project::new();
    let Some(shim) = Shim::compile(project.base()).unwrap() else {
        eprintln!("SKIPPED: there is no C compiler here");
        return;
    };
    project.write_feature("login", "# Spec", "");
    project.feature("login");
    project.add(["Inside", "--feature", "login"]);
    let (export, spec) = (project.export(), project.root().join(".ralph/features/login/spec.md"));
    let mut failed = 0;
    loop {
        let mut command = project.ralph_command(["feature", "delete", "login", "--yes"]);
        shim.fail(&mut command, Failure { kind: "sync", at: failed + 1, errno: 5, ever: true });
        let output = project.run(command, None);
        if output.status.success() {
            break;
        }
        failed += 1;
        insta::allow_duplicates! { insta::assert_snapshot!(project.masked(&output.fails(1)), @r"
        error: reading or writing `[ROOT]/.ralph/progress.db` failed
        hint: check the disk, its free space and the file-size limit (`ulimit -f`)
        ") }
        assert_eq!(project.export(), export);
        assert!(spec.exists());
        check_rules(&project);
    }
    assert!(failed > 0, "nothing is synced");
    assert!(!spec.exists() && !project.export().contains("login"));
}

#[test]
fn a_clock_that_jumps_does_not_take_a_task_from_a_run_that_is_alive() {
    let project = Project::new();
    let Some(shim) = Shim::compile(project.base()).unwrap() else {
        eprintln!("SKIPPED: there is no C compiler here");
        return;
    };
    let task = project.add(["Done once"]);
    // For the agent, and the ralph that it calls, it is an hour later.
    let mut command =
        project.ralph_with("run ralph task next | done", ["run", "--headless", "--no-verify"]);
    shim.jump(&mut command, -3_600, 0);
    let printed = project.run(command, None).ok();
    assert!(!printed.contains("taken back"), "{printed}");
    let attempts = project.show(&task)["history"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1, "{attempts}");
    check_rules(&project);
}

#[test]
fn a_run_that_cannot_tell_who_it_is_keeps_its_tasks() {
    let project = Project::new();
    let Some(shim) = Shim::compile(project.base()).unwrap() else {
        eprintln!("SKIPPED: there is no C compiler here");
        return;
    };
    for at in 1..24 {
        let task = project.add(["Done once"]);
        let arguments = ["run", &task, "--headless", "--no-verify", "--limit", "2"];
        let mut command = project.ralph_with("run ralph task next | done", arguments);
        shim.fail(&mut command, Failure { kind: "open", at, errno: 5, ever: false });
        let printed = project.run(command, None).stdout();
        assert!(!printed.contains("taken back"), "open {at}: {printed}");
    }
    check_rules(&project);
}

#[test]
fn a_git_that_cannot_be_started_is_not_taken_for_no_repository() {
    let project = Project::new();
    project.git_init();
    project.add(["Shown"]);
    let Some(shim) = Shim::compile(project.base()).unwrap() else {
        eprintln!("SKIPPED: there is no C compiler here");
        return;
    };
    for at in 1..24 {
        let mut command = project.ralph_with("done", ["run", "--dry-run"]);
        shim.fail(&mut command, Failure { kind: "open", at, errno: 28, ever: false });
        let output = project.run(command, None);
        if output.status.success() {
            assert!(output.stdout().contains("# The working tree"), "open {at}: {output:?}");
        } else {
            assert!(output.stderr().starts_with("error: "), "open {at}: {output:?}");
        }
    }
}

#[test]
fn a_database_that_is_removed_under_a_run_is_told_so() {
    for removes in
        ["rm -r .ralph", "git clean -fdxq", "cp .ralph/progress.db x; mv x .ralph/progress.db"]
    {
        let project = Project::new();
        project.git_init();
        project.add(["Recorded nowhere"]);
        let script = format!("run {removes} | done");
        let command = project.ralph_with(&script, ["run", "--headless", "--no-verify"]);
        let said = project.masked(&project.run(command, None).fails(1));
        insta::allow_duplicates! { insta::assert_snapshot!(said, @"
        error: `[ROOT]/.ralph/progress.db` was removed or replaced while it was in use
        hint: what was to be recorded since then is lost; restore the file from a backup or import an export
        ") }
        assert_no_process_left(&project);
    }
}

#[test]
fn a_writer_waits_while_another_program_has_the_database() {
    let project = Project::new();
    project.add(["First"]);
    let connection = Connection::open(project.database()).unwrap();
    connection.execute_batch("begin exclusive").unwrap();
    let adder = project.start(project.ralph_command(["task", "add", "Second"]));
    // It has come as far as the lock when it has mapped what lies beside the database.
    let waits = wait_until(Instant::now() + DEADLINE, || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", adder.id())).ok()?;
        maps.contains("progress.db-shm").then_some(())
    });
    assert!(waits.is_some());
    connection.execute_batch("commit").unwrap();
    let (status, lines, said) = adder.finish();
    assert!(status.success() && said.is_empty(), "{said}");
    assert_eq!(lines.len(), 1);
    check_rules(&project);
    assert_no_process_left(&project);
}

#[test]
fn who_makes_the_database_waits_for_those_who_look_at_it() {
    let project = Project::new();
    fs::write(project.database(), "").unwrap();
    let connection = Connection::open(project.database()).unwrap();
    connection.execute_batch("begin; select * from sqlite_schema").unwrap();
    let mut adder = project.start(project.ralph_command(["task", "add", "x"]));
    // It must not give up, however long we look; this is long enough to see that it would.
    let gave_up = adder.ends_within(Duration::from_millis(300));
    connection.execute_batch("commit").unwrap();
    let (status, _, said) = adder.finish();
    assert!(!gave_up && status.success() && said.is_empty(), "{said}");
    check_rules_but_mode(&project);
    assert_no_process_left(&project);
}

/// Every command that opens the database fails like this, and leaves the file as it was.
#[track_caller]
fn refused_by_all(project: &Project) -> String {
    let before = fs::read(project.database()).ok();
    let commands: &[&[&str]] = &[
        &["task", "add", "x"],
        &["task", "list"],
        &["task", "next", "--json"],
        &["status"],
        &["export"],
        &["import", "/dev/null"],
    ];
    let mut said: Vec<String> =
        commands.iter().map(|command| project.masked(&project.ralph(*command).fails(1))).collect();
    let doctor = project.ralph(["doctor"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    assert_civil(&doctor.stdout().replace(&*project.base().to_string_lossy(), ""));
    assert_eq!(fs::read(project.database()).ok(), before, "the file was changed");
    said.dedup();
    said.join("\n")
}

#[test]
fn garbage_is_no_database() {
    let project = Project::new();
    fs::write(project.database(), "This is no database. ".repeat(1_000)).unwrap();
    insta::assert_snapshot!(refused_by_all(&project), @r"
    error: `[ROOT]/.ralph/progress.db` is not a database
    hint: restore it from a backup or move it away, then `ralph import` an export
    ");
    fs::write(project.database(), "xx").unwrap();
    insta::assert_snapshot!(refused_by_all(&project), @r"
    error: `[ROOT]/.ralph/progress.db` is not a database
    hint: restore it from a backup or move it away, then `ralph import` an export
    ");
}

#[test]
fn a_directory_is_no_database() {
    let project = Project::new();
    fs::create_dir(project.database()).unwrap();
    insta::assert_snapshot!(refused_by_all(&project), @r"
    error: can't open `[ROOT]/.ralph/progress.db`
    hint: the file and its directory must be readable and writable
    ");
    fs::remove_dir(project.database()).unwrap();
    project.add(["Works"]);
}

#[test]
fn an_empty_file_is_a_new_database() {
    let project = Project::new();
    fs::write(project.database(), "").unwrap();
    let task = project.add(["Works"]);
    assert_eq!(project.show(&task)["title"], "Works");
    check_rules_but_mode(&project);
}

/// The file was made by the test, so that its permissions are not what they should be.
fn check_rules_but_mode(project: &Project) {
    fs::set_permissions(project.database(), Permissions::from_mode(0o600)).unwrap();
    check_rules(project);
}

#[test]
fn a_database_of_a_newer_ralph_is_left_alone() {
    let project = Project::new();
    project.add(["From the future"]);
    let connection = Connection::open(project.database()).unwrap();
    connection.execute_batch("pragma user_version = 99").unwrap();
    drop(connection);
    settle(&project);
    insta::assert_snapshot!(refused_by_all(&project), @r"
    error: `[ROOT]/.ralph/progress.db` was made by a newer ralph (schema 99; this one knows 6)
    hint: upgrade ralph; nothing was changed
    ");
}

#[test]
fn a_database_of_an_older_ralph_is_upgraded_with_all_that_is_in_it() {
    let project = Project::new();
    let connection = Connection::open(project.database()).unwrap();
    connection.execute_batch(include_str!("../../migrations/0001_tasks.sql")).unwrap();
    connection
        .execute_batch(
            "pragma application_id = 0x524c5048;
             pragma user_version = 1;
             insert into tasks (id, kind, title, status, created_at, updated_at, starts, ends)
             values ('t-3f9a01', 'work', 'Old', 'done', '2026-01-01T00:00:00.000Z',
                 '2026-01-01T00:00:00.000Z', 1000, 2000);
             insert into attempts (id, task, number, started_at, ended_at, outcome)
             values ('a-3f9a01', 1, 1, '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', 'done')",
        )
        .unwrap();
    drop(connection);
    let task = project.show("t-3f9a01");
    assert_eq!((&task["title"], &task["status"]), (&"Old".into(), &"done".into()));
    assert_eq!(task["history"][0]["verification_status"], serde_json::Value::Null);
    let export = project.export();
    let copy = Project::new();
    copy.ralph_reading(&export, ["import"]).ok();
    assert_eq!(copy.export(), export);
    check_rules(&copy);
}

#[test]
#[cfg(target_os = "linux")]
fn what_an_older_ralph_had_begun_and_paid_for_is_in_the_bill_of_this_one() {
    let project = Project::new();
    let log = project.write("old.log", r#"{"type":"result","total_cost_usd":0.5,"result":""}"#);
    let connection = Connection::open(project.database()).unwrap();
    for migration in [
        include_str!("../../migrations/0001_tasks.sql"),
        include_str!("../../migrations/0002_verdicts.sql"),
        include_str!("../../migrations/0003_working_trees.sql"),
        include_str!("../../migrations/0004_sessions.sql"),
    ] {
        connection.execute_batch(migration).unwrap();
    }
    // The host is that of this process, and the process is gone.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let host = format!("{} {}", boot.trim(), namespace.display());
    connection
        .execute_batch(&format!(
            "pragma application_id = 0x524c5048;
             pragma user_version = 4;
             insert into tasks (id, kind, title, status, created_at, updated_at, starts, ends)
             values ('t-3f9a01', 'work', 'Old', 'pending', '2026-01-01T00:00:00.000Z',
                 '2026-01-01T00:00:00.000Z', 1000, 2000);
             insert into runs (id, kind, started_at, host, pid, pid_started)
             values ('r-3f9a01', 'run', '2026-01-01T00:00:00.000Z', '{host}', 1, 1);
             insert into attempts (id, task, number, run, started_at, log_path)
             values ('a-3f9a01', 1, 1, 'r-3f9a01', '2026-01-01T00:00:00.000Z', '{}');
             insert into sessions (id, kind, started_at, ended_at, cost_usd)
             values ('s-000001', 'build', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', 0.25)",
            log.display()
        ))
        .unwrap();
    drop(connection);
    let status = project.ralph(["status", "--json"]).json();
    assert_eq!((&status["costs"]["work"], &status["costs"]["build"]), (&0.5.into(), &0.25.into()));
    assert_eq!(project.show("t-3f9a01")["history"][0]["cost_usd"], 0.5);
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let project = Project::new();
    let connection = Connection::open(project.database()).unwrap();
    connection
        .execute_batch("create table bookmarks (url text); insert into bookmarks values ('x')")
        .unwrap();
    drop(connection);
    insta::assert_snapshot!(refused_by_all(&project), @r"
    error: `[ROOT]/.ralph/progress.db` is a database of another program
    hint: move that file away, or name another with RALPH_DB
    ");
    assert!(!project.database().with_extension("db-wal").exists());
}

/// A database with something in every table, and its bytes.
fn sample() -> (Project, Vec<u8>) {
    let project = Project::new();
    let mut lines = Vec::new();
    for group in 0..10 {
        lines.push(
            json!({ "title": "Group", "key": format!("g{group}"), "group": true }).to_string(),
        );
        for task in 0..15 {
            let after = if task == 0 { vec![] } else { vec![format!("{group} {}", task - 1)] };
            lines.push(
                json!({
                    "title": "Task", "key": format!("{group} {task}"), "after": after,
                    "parent": format!("g{group}"), "description": "x".repeat(300),
                })
                .to_string(),
            );
        }
    }
    let ids = project.add_lines(lines.join("\n"));
    for id in &ids[1..6] {
        project.ralph(["task", "log", id, "-m", "A note"]).ok();
        project.ralph(["task", "done", id]).ok();
    }
    let (status, ..) = project.start(project.worker("claim")).finish();
    assert!(status.success());
    project.ralph(["status"]).ok();
    settle(&project);
    let bytes = fs::read(project.database()).unwrap();
    (project, bytes)
}

/// Replaces the database by these bytes.
fn replace(project: &Project, bytes: &[u8]) {
    for name in ["db-wal", "db-shm"] {
        let _ = fs::remove_file(project.database().with_extension(name));
    }
    fs::write(project.database(), bytes).unwrap();
}

/// Whatever the file holds: it works, or it says in words why it does not.
fn survives(project: &Project, what: &str) {
    let commands: &[&[&str]] = &[
        &["task", "list", "--json"],
        &["export"],
        &["status"],
        &["task", "add", "x"],
        &["task", "done", "t-0"],
    ];
    for command in commands {
        let output = project.ralph(*command);
        match output.status.code() {
            Some(0) => {}
            Some(1) => drop(output.fails(1)),
            _ => panic!("{what}: {output:?}"),
        }
    }
}

#[test]
fn a_damaged_page_is_told_or_does_not_matter() {
    const PAGE: usize = 4_096;
    let (project, bytes) = sample();
    assert!(bytes.len() > 20 * PAGE, "{} bytes", bytes.len());
    for page in 1..bytes.len() / PAGE {
        let mut damaged = bytes.clone();
        damaged[page * PAGE..page * PAGE + 16].fill(0xff);
        replace(&project, &damaged);
        let doctor = project.ralph(["doctor"]);
        assert_eq!(doctor.status.code(), Some(1), "page {page}: {doctor:?}");
        assert_civil(&doctor.stdout());
        survives(&project, &format!("page {page}"));
    }
    // The page of an index: what SQLite calls it is nothing for people.
    let mut damaged = bytes.clone();
    let index = damaged.windows(8).rposition(|window| window.starts_with(b"t-")).unwrap();
    damaged[index + 2] ^= 1;
    replace(&project, &damaged);
    let doctor = project.ralph(["doctor", "--json"]);
    insta::assert_snapshot!(database_check(&doctor), @r#""the file is damaged in one place" ("restore it from a backup or move it away, then `ralph import` an export")"#);
    replace(&project, &bytes);
    check_rules(&project);
}

/// What doctor says of the database.
fn database_check(doctor: &Output) -> String {
    assert_civil(&doctor.stdout());
    let checks: serde_json::Value = serde_json::from_str(&doctor.stdout()).unwrap();
    let about = checks.as_array().unwrap().iter().filter(|check| check["name"] == "database");
    about
        .map(|check| format!("{} ({})", check["detail"], check["hint"]))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_database_that_was_cut_short_is_told_so() {
    let (project, bytes) = sample();
    for length in [100, 512, 4_096, bytes.len() / 2, bytes.len() - 1] {
        replace(&project, &bytes[..length]);
        let doctor = project.ralph(["doctor"]);
        assert_eq!(doctor.status.code(), Some(1), "{length} bytes: {doctor:?}");
        survives(&project, &format!("{length} bytes"));
    }
    replace(&project, &bytes[..4_096]);
    insta::assert_snapshot!(refused_by_all(&project), @r"
    error: `[ROOT]/.ralph/progress.db` is damaged
    hint: restore it from a backup or move it away, then `ralph import` an export
    ");
    replace(&project, &bytes);
    check_rules(&project);
}

#[test]
fn garbage_beside_the_database_does_no_harm() {
    let (project, bytes) = sample();
    let export = project.export();
    for name in ["db-wal", "db-shm"] {
        for garbage in [&b""[..], b"garbage", &bytes[..40_000]] {
            replace(&project, &bytes);
            fs::write(project.database().with_extension(name), garbage).unwrap();
            assert_eq!(project.export(), export, "{name}");
            check_rules(&project);
        }
    }
}

#[test]
fn without_a_project_the_first_step_is_told() {
    let project = Project::bare();
    for command in [
        &["task", "list"][..],
        &["task", "add", "x"],
        &["status"],
        &["export"],
        &["feature", "list"],
    ] {
        let said = project.masked(&project.ralph(command).fails(1));
        insta::allow_duplicates! { insta::assert_snapshot!(said, @r"
        error: there is no ralph project in `[ROOT]` or above it
        hint: run `ralph init` in the directory of your project
        ") }
    }
    assert_eq!(project.ralph(["doctor"]).status.code(), Some(1));
    assert_eq!(fs::read_dir(project.root()).unwrap().count(), 0, "something was made");
}

#[test]
fn a_project_with_nothing_but_settings_works() {
    let project = Project::bare();
    project.write(".ralph.toml", "");
    assert_eq!(project.ralph(["task", "list", "--json"]).json(), json!([]));
    project.add(["Works"]);
    check_rules(&project);
}

#[test]
fn a_file_in_place_of_the_directory_is_told_so() {
    let project = Project::bare();
    project.write(".ralph", "");
    project.write(".ralph.toml", "");
    insta::assert_snapshot!(project.masked(&project.ralph(["task", "add", "x"]).fails(1)), @"error: can't create `[ROOT]/.ralph/progress.db`: Not a directory (os error 20)");
    insta::assert_snapshot!(project.masked(&project.ralph(["init"]).fails(1)), @"error: can't make `[ROOT]/.ralph`: File exists (os error 17)");
    assert_eq!(fs::read(project.root().join(".ralph")).unwrap(), b"");
}

#[test]
fn a_current_directory_that_is_gone_is_told_so() {
    let project = Project::new();
    for arguments in [&["task", "add", "x"][..], &["task", "list"], &["init"], &["status"]] {
        let mut command = project.command("sh");
        let script = r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@""#;
        command.args(["-c", script, RALPH]).args(arguments);
        let said = project.masked(&project.run(command, None).fails(1));
        insta::allow_duplicates! { insta::assert_snapshot!(said, @"error: can't tell the current directory: No such file or directory (os error 2)") }
    }
}

#[test]
fn a_database_that_the_environment_names_and_that_cannot_be_is_told_so() {
    let project = Project::new();
    let mut command = project.ralph_command(["task", "add", "x"]);
    command.env("RALPH_DB", project.base().join("nowhere/progress.db"));
    insta::assert_snapshot!(project.masked(&project.run(command, None).fails(1)), @"
    error: RALPH_DB names `[BASE]/nowhere/progress.db`, which does not exist
    hint: unset RALPH_DB to work on the project you are in
    ");
    assert!(!project.base().join("nowhere").exists());
}

/// Changes the database behind the program's back.
fn meddle(project: &Project, sql: &str) {
    let connection = Connection::open(project.database()).unwrap();
    let relaxed = "pragma foreign_keys = off; pragma ignore_check_constraints = on;";
    connection.execute_batch(&format!("{relaxed} {sql}")).unwrap();
}

#[test]
fn what_is_derived_wrongly_is_found_and_mended_as_the_hint_says() {
    let (project, bytes) = sample();
    for wrong in [
        "update tasks set waits = waits + 1 where seq = 3",
        "update tasks set children_done = 0",
        "update tasks set children = children + 1 where kind = 'group'",
        "update tasks set starts = -starts, ends = -starts + 1",
        "update tasks set claimed = 1 where seq = 2",
        "update tasks set claimed = 1 where seq = 20",
    ] {
        replace(&project, &bytes);
        meddle(&project, wrong);
        let checks = project.ralph(["doctor", "--json"]);
        assert_eq!(checks.status.code(), Some(1), "{wrong}: {checks:?}");
        assert!(checks.stdout().contains("`ralph export | ralph import` derives everything anew"));
        project.ralph_reading(project.export(), ["import"]).ok();
        fs::set_permissions(project.database(), Permissions::from_mode(0o600)).unwrap();
        let checks = project.ralph(["doctor", "--json"]);
        assert_eq!(checks.status.code(), Some(0), "{wrong} is not mended: {checks:?}");
    }
}

#[test]
fn facts_that_contradict_each_other_are_told_in_words() {
    let (project, bytes) = sample();
    let task =
        project.ralph(["task", "list", "--json"]).json()[3]["id"].as_str().unwrap().to_owned();
    let group =
        project.ralph(["task", "list", "--json"]).json()[0]["id"].as_str().unwrap().to_owned();
    for wrong in [
        "insert into dependencies values (9999, 3)",
        "insert into dependencies values (3, 9999)",
        "update tasks set parent = 9999 where seq = 3",
        "update tasks set parent = 3 where seq = 1; update tasks set parent = 1 where seq = 3",
        "update tasks set parent = 1 where seq = 1",
        "insert into dependencies values (5, 3)",
        "update tasks set id = 'nonsense' where seq = 3",
        "update tasks set kind = 'epic' where seq = 3",
        "update tasks set status = 'sleeping' where seq = 3",
        "update tasks set created_at = 'yesterday' where seq = 3",
        "update tasks set feature = 'f-000000' where seq = 3",
        "update attempts set task = 9999",
        "update task_logs set task = 9999 where task = 2 and event = 'note'",
        "delete from tasks where seq = 1",
        "drop table task_logs",
        "drop table tasks",
        "drop index ready_tasks",
        "pragma writable_schema = on;
         update sqlite_schema set sql = replace(sql, 'retries integer not null default 0',
             'retries integer not null default 7')",
    ] {
        replace(&project, &bytes);
        meddle(&project, wrong);
        settle(&project);
        let contradictory = fs::read(project.database()).unwrap();
        for command in [
            &["task", "list", "--json"][..],
            &["task", "tree", "--json"],
            &["task", "show", &task, "--json"],
            &["export"],
            &["status", "--json"],
            &["task", "next", "--json"],
            &["doctor"],
            &["task", "add", "x", "--parent", &task],
            &["task", "reset", &group],
            &["task", "done", &task],
            &["task", "delete", &group, "--yes"],
        ] {
            replace(&project, &contradictory);
            let output = project.ralph(command);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 1)), "{wrong}: {output:?}");
            assert_civil(&output.stderr());
            if command == ["doctor"] {
                assert_eq!(code, Some(1), "{wrong}: {output:?}");
            }
        }
    }
}

#[test]
fn a_database_of_another_program_is_known_by_more_than_its_version() {
    let project = Project::new();
    let connection = Connection::open(project.database()).unwrap();
    connection.execute_batch("create table tasks (id text); pragma user_version = 1").unwrap();
    drop(connection);
    let said = refused_by_all(&project);
    assert!(said.contains("is a database of another program"), "{said}");
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let project = Project::new();
    for arguments in [&["import"][..], &["task", "add", "--stdin"]] {
        let mut command = project.command("sh");
        command
            .args(["-c", r#"ulimit -v 1000000; exec "$0" "$@" </dev/zero"#, RALPH])
            .args(arguments);
        let said = project.run(command, None).fails(1);
        assert!(said.contains("line 1"), "{said}");
    }
}
