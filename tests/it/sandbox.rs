//! Sandboxes, attacked for real by a child that tries what it must not be able to do, and used for what
//! it must. Where a back end can't be had, its tests say so and prove nothing.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::harness::{Output, Project, assert_no_process_left, is_task_id, working_sandboxes};

const CAGE: &str = env!("CARGO_BIN_EXE_ralph-cage");
const BACKENDS: [&str; 2] = ["bwrap", "landlock"];

/// Every file at and below some paths, with its mode and what is in it.
type Fingerprint = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// What is to stay as it is, from the project's point of view.
const PROTECTED: [&str; 12] = [
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".claude",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".ralph.toml",
    ".ralph/prompts",
    ".ralph/skills",
    ".ralph/features",
];

/// What Landlock can't refuse where there are no namespaces, beyond what lies in the project and in
/// `~/.claude`.
const OPEN_TO_LANDLOCK_ALONE: &str = "change a mode outside";

#[test]
fn no_attack_succeeds_where_nothing_is_yet() {
    for backend in BACKENDS {
        let ground = Ground::new();
        attack(&ground, backend);
    }
}

#[test]
fn no_attack_succeeds_where_everything_is() {
    for backend in BACKENDS {
        let ground = Ground::new();
        for directory in [".claude/hooks", ".vscode", ".idea", ".ralph/prompts", ".ralph/features"]
        {
            fs::create_dir_all(ground.project.root().join(directory)).unwrap();
        }
        fs::create_dir_all(ground.path("home/.claude/hooks")).unwrap();
        for file in [".claude/settings.json", ".mcp.json"] {
            ground.project.write(file, "{}");
        }
        fs::write(ground.path("home/.claude/settings.json"), "{}").unwrap();
        attack(&ground, backend);
    }
}

#[test]
fn landlock_alone_keeps_a_session_out_of_the_rest_of_the_machine() {
    let ground = Ground::new();
    let outside = ground.fingerprint(&["outside", "home/.ssh", "home/.bashrc"]);
    let Some(outcomes) = ground.attempts("landlock-alone", &[]) else { return };
    let holes = outcomes.iter().filter(|(_, outcome)| *outcome == "HOLE").map(|(name, _)| name);
    for hole in holes {
        let is_told = [
            "git",
            "claude",
            "mcp",
            "vscode",
            "idea",
            "ralph",
            "database",
            "without the broker",
            "hidden",
            "bus",
        ];
        let is_told = is_told.iter().any(|it| hole.contains(it)) || hole == OPEN_TO_LANDLOCK_ALONE;
        assert!(is_told, "{hole}");
    }
    for refused in ["signal ralph", "trace ralph", "read the environment of ralph"] {
        assert_ne!(outcomes[refused], "HOLE", "{refused}");
    }
    fs::set_permissions(ground.path("outside/victim"), ground.mode.clone()).unwrap();
    assert_eq!(ground.fingerprint(&["outside", "home/.ssh", "home/.bashrc"]), outside);
}

#[test]
fn honest_work_goes_on() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let script = r#"
            set -e
            echo 'fn main() {}' >main.rs && echo changed >>README
            mkdir -p deep/er && mv main.rs deep/er && rm -r deep
            git checkout -q -b topic && git add -A && git commit -q -m work
            test -z "$(git status --porcelain)"
            git gc -q && git stash list && git log --oneline | wc -l
            printf '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n' >Cargo.toml
            mkdir src && echo 'fn main() { println!("built") }' >src/main.rs
            cargo build -q --offline && ./target/debug/tiny
            mktemp -d >/dev/null && echo x >"$HOME/.cache/x" && echo x >"$HOME/.claude/x"
            echo x >"$HOME/.claude.json" && echo x >/dev/null && echo x >/dev/shm/$$ && rm /dev/shm/$$
            ralph task add 'Found on the way'
        "#;
        let Some(output) = ground.hold(backend, &[], &["sh", "-c", script]) else { continue };
        let said = output.ok();
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        let [commits, built, task] = lines[..] else { panic!("{backend}: {output:?}") };
        assert_eq!((commits, built), ("2", "built"), "{backend}");
        assert!(is_task_id(task), "{backend}: {task}");
        assert_eq!(ground.project.show(task)["title"], "Found on the way", "{backend}");
        ground.check_nothing_left(backend);
    }
}

#[test]
fn a_ralph_inside_leaves_the_claims_of_those_outside_alone() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let task = ground.project.add(["Held outside"]);
        let holder = ground.project.start(ground.project.worker("hold"));
        assert!(holder.next_line().is_some());
        let inside = ["ralph", "task", "add", "Found inside"];
        let Some(output) = ground.hold(backend, &[], &inside) else { continue };
        output.ok();
        assert_eq!(ground.project.show(&task)["status"], "in_progress", "{backend}");
    }
}

#[test]
fn work_in_a_linked_worktree_goes_on() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let main = ground.path("main");
        fs::rename(ground.project.root(), &main).unwrap();
        let root = ground.project.root().to_str().unwrap();
        ground.git(&main, &["worktree", "add", "-q", root]);
        fs::rename(main.join(".ralph"), ground.project.root().join(".ralph")).unwrap();
        let script = "echo changed >>README && git commit -qam work && git log --oneline | wc -l
            echo x >>.git; echo x >>../main/.git/config; echo x >../main/.git/hooks/h
            echo x >../main/.git/worktrees/project/commondir; echo x >../main/README";
        let before = ground.fingerprint(&["main/.git/config", "main/.git/hooks", "main/README"]);
        let Some(output) = ground.hold(backend, &[], &["sh", "-c", script]) else { continue };
        assert_eq!(output.stdout().trim(), "2", "{backend}: {output:?}");
        assert_eq!(output.stderr().lines().count(), 5, "{backend}: {output:?}");
        let after = ground.fingerprint(&["main/.git/config", "main/.git/hooks", "main/README"]);
        assert_eq!(after, before, "{backend}");
        assert!(!main.join(".git/commondir").exists(), "{backend}");
    }
}

#[test]
fn a_verifier_can_not_change_the_project() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let before = ground.fingerprint(&["project/README", "project/.git"]);
        let script = "echo x >>README; echo x >new; git commit -q --allow-empty -m x; git status -s
            echo x >$TMPDIR/x && ralph task list >/dev/null && ! ralph task add Remark && echo done";
        let output = ground.hold(backend, &["--read-only"], &["sh", "-c", script]);
        let Some(output) = output else { continue };
        assert_eq!(output.stdout(), "done\n", "{backend}: {output:?}");
        assert_eq!(ground.fingerprint(&["project/README", "project/.git"]), before, "{backend}");
        assert!(!ground.path("project/new").exists(), "{backend}");
    }
}

#[test]
fn a_closed_network_is_closed() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let call = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
        let call = ["bash", "-c", &call];
        let Some(open) = ground.hold(backend, &[], &call) else { continue };
        assert_eq!(open.stdout(), "reached\n", "{backend}: {open:?}");
        let closed = ground.hold(backend, &["--no-network"], &call).unwrap();
        assert_eq!(closed.stdout(), "", "{backend}: {closed:?}");
        assert!(!closed.status.success(), "{backend}: {closed:?}");
    }
}

#[test]
fn what_holds_an_agent_passes_an_interrupt_on() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done";
        let Some(()) = ground.available(backend) else { continue };
        let session = ground.project.start(ground.command(backend, &[], &["sh", "-c", script]));
        assert_eq!(session.next_line().as_deref(), Some("ready"), "{backend}");
        let id = i32::try_from(session.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
        let (status, lines, stderr) = session.finish();
        assert_eq!(lines, ["caught"], "{backend}: {stderr}");
        assert_eq!(status.code(), Some(7), "{backend}: {stderr}");
        ground.check_nothing_left(backend);
    }
}

#[test]
fn nothing_outlives_a_session() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let script = "setsid sleep 600 & (setsid sleep 600 &) & echo started";
        let Some(output) = ground.hold(backend, &[], &["bash", "-c", script]) else { continue };
        assert_eq!(output.ok(), "started", "{backend}");
        assert_no_process_left(&ground.project);
    }
}

#[test]
fn what_a_killed_ralph_leaves_is_gone_after_the_next_session() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let Some(()) = ground.available(backend) else { continue };
        let hang = ["sh", "-c", "echo ready; sleep 600"];
        let mut session = ground.project.start(ground.command(backend, &[], &hang));
        assert_eq!(session.next_line().as_deref(), Some("ready"), "{backend}");
        session.kill();
        session.finish();
        assert_no_process_left(&ground.project);
        assert!(ground.path("project/.mcp.json").exists(), "{backend}");
        ground.hold(backend, &[], &["true"]).unwrap().ok();
        ground.check_nothing_left(backend);
    }
}

#[test]
fn an_agent_that_is_not_there_is_an_error() {
    for backend in BACKENDS {
        let ground = Ground::new();
        let Some(output) = ground.hold(backend, &[], &["no-such-agent"]) else { continue };
        assert!(!output.status.success(), "{backend}");
        assert!(output.stderr().contains("no-such-agent"), "{backend}: {output:?}");
        ground.check_nothing_left(backend);
    }
}

#[test]
fn docker_is_started_as_it_wants_to_be() {
    let ground = Ground::new();
    let docker = ground.project.base().join("bin/docker");
    fs::create_dir(docker.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\n[ \"$2\" = --help ] && exec echo docker sandbox\nprintf '%s ' \"$@\"";
    fs::write(&docker, script).unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = ground.command("docker", &[], &["claude", "--print", "a b"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", docker.parent().unwrap().display()));
    let said = ground.project.run(command, None).ok();
    let said = said.replace(" --env IS_SANDBOX=1", "");
    insta::assert_snapshot!(ground.project.masked(&said), @"sandbox run --credentials host --template ralph-sandbox:latest --workspace [ROOT] --volume [BASE]/tmp:[BASE]/tmp claude --print a b");
}

#[test]
fn doctor_tells_what_works_here_and_what_is_taken() {
    let ground = Ground::new();
    let check = |path: &str, backend: &str| {
        let mut command = ground.project.ralph_command(["doctor", "--json"]);
        command.env("PATH", path).env("RALPH_SANDBOX_BACKEND", backend);
        let checks: Value =
            serde_json::from_slice(&ground.project.run(command, None).stdout).unwrap();
        let checks = checks.as_array().unwrap();
        checks.iter().find(|check| check["name"] == "sandbox").unwrap().clone()
    };
    let none = check("/nowhere", "bwrap");
    assert_eq!(none["result"], "error");
    let detail = none["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("the sandbox `bwrap` is not available: `bwrap` was not found; "),
        "{detail}"
    );
    assert_eq!(check("/usr/bin:/bin", "none")["result"], "warning");
    if ground.available("bwrap").is_some() {
        let detail = check("/usr/bin:/bin", "auto")["detail"].clone();
        assert!(detail.as_str().unwrap().starts_with("bwrap; works here: bwrap"), "{detail}");
    }
}

/// A project and what is around it, with something to protect everywhere.
struct Ground {
    project: Project,
    terminal: OwnedFd,
    mode: fs::Permissions,
    _bus: UnixListener,
}

impl Ground {
    fn new() -> Ground {
        let project = Project::new();
        let path = |name: &str| project.base().join(name);
        for directory in
            ["outside", "logs", "run", "home/.ssh", "home/.aws", "home/.claude", "home/.cache"]
        {
            fs::create_dir(path(directory)).unwrap();
        }
        let logs = path("home/.local/state/ralph/project-1/logs");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("1.log"), "as it was\n").unwrap();
        for file in
            ["outside/victim", "home/.ssh/authorized_keys", "home/.bashrc", "home/.aws/credentials"]
        {
            fs::write(path(file), "as it was\n").unwrap();
        }
        fs::write(path("home/.claude.json"), "{}\n").unwrap();
        fs::write(path("home/secret"), "secret\n").unwrap();
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let bus = UnixListener::bind(path("run/bus")).unwrap();
        let mode = fs::metadata(path("outside/victim")).unwrap().permissions();
        project.store();
        let ground = Ground { project, terminal, mode, _bus: bus };
        let root = ground.project.root();
        ground.project.write("README", "read me\n");
        ground.git(root, &["init", "-q", "-b", "main"]);
        ground.git(root, &["add", "README", ".gitignore", ".ralph.toml"]);
        ground.git(root, &["commit", "-q", "-m", "first"]);
        ground
    }

    fn git(&self, directory: &Path, arguments: &[&str]) {
        let mut command = self.project.command("git");
        command.current_dir(directory).args(arguments);
        self.project.run(command, None).ok();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.project.base().join(name)
    }

    /// A program in a sandbox, not started yet.
    fn command(&self, backend: &str, flags: &[&str], program: &[&str]) -> Command {
        let own = Path::new(CAGE).parent().unwrap();
        let cargo = Path::new(env!("CARGO")).parent().unwrap();
        let path = format!("{}:{}:/usr/local/bin:/usr/bin:/bin", own.display(), cargo.display());
        let mut command = self.project.command("sh");
        command
            .env("PATH", path)
            .env("CARGO_HOME", self.path("tmp/cargo"))
            .env("VICTIM", self.path("outside/victim"))
            // As whoever has started ralph may have left a file open.
            .args(["-c", r#"exec 9>>"$VICTIM"; RALPH_PID=$$ exec "$0" "$@""#, CAGE, backend])
            .arg(self.project.base())
            .args(flags)
            .args(program);
        command
    }

    /// Runs a program in a sandbox; none if that can't be had here.
    fn hold(&self, backend: &str, flags: &[&str], program: &[&str]) -> Option<Output> {
        self.available(backend)?;
        Some(self.project.run(self.command(backend, flags, program), None))
    }

    /// Says so if a back end can't be had here.
    fn available(&self, backend: &str) -> Option<()> {
        let output = self.project.run(self.command(backend, &[], &["true"]), None);
        if output.status.success() {
            return Some(());
        }
        let said = output.stderr();
        assert!(said.contains("is not available"), "{output:?}");
        // Not by a macro: those are only heard when a test fails.
        let _ = writeln!(std::io::stderr(), "SKIPPED: nothing was tried under {backend}: {said}");
        None
    }

    /// The outcome of each attempt.
    fn attempts(&self, backend: &str, flags: &[&str]) -> Option<BTreeMap<String, String>> {
        let base = self.project.base().to_str().unwrap();
        let terminal = ptsname(&self.terminal, Vec::new()).unwrap().into_string().unwrap();
        let program = format!("exec {CAGE} attack {base} $RALPH_PID {terminal} 9");
        let said = self.hold(backend, flags, &["sh", "-c", &program])?.ok();
        let line = |line: &str| line.split_once('\t').map(|(a, b)| (a.to_owned(), b.to_owned()));
        Some(said.lines().map(|it| line(it).unwrap_or_else(|| panic!("{it:?}"))).collect())
    }

    fn fingerprint(&self, names: &[&str]) -> Fingerprint {
        let mut found = BTreeMap::new();
        for name in names {
            collect(&self.path(name), &mut found);
        }
        found
    }

    fn protected(&self) -> Fingerprint {
        let mut names: Vec<String> = PROTECTED.iter().map(|it| format!("project/{it}")).collect();
        names.extend(["outside", "home", "run"].map(str::to_owned));
        self.fingerprint(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn check_nothing_left(&self, backend: &str) {
        for name in PROTECTED
            .iter()
            .filter(|it| !matches!(**it, ".git/hooks" | ".git/config" | ".ralph.toml"))
        {
            assert!(!self.project.root().join(name).exists(), "{backend} left {name}");
        }
        assert_no_process_left(&self.project);
    }
}

/// Makes every attempt, asserts that each is refused, that nothing has changed and nothing is left, and
/// tells which layer refused what.
#[expect(clippy::print_stdout, reason = "the table is the output of the test")]
fn attack(ground: &Ground, backend: &str) {
    let before = ground.protected();
    let Some(outcomes) = ground.attempts(backend, &["--hide", "~/secret", "--hide", "~/.aws"])
    else {
        return;
    };
    assert!(outcomes.len() >= 30, "{outcomes:?}");
    let holes: Vec<_> = outcomes.iter().filter(|(_, outcome)| *outcome == "HOLE").collect();
    assert!(holes.is_empty(), "{backend}: {holes:?}");
    for (name, outcome) in &outcomes {
        println!("{backend:9} {name:36} {:32} {outcome}", layer(backend, outcome));
    }
    assert_eq!(changed(&before, &ground.protected()), [""; 0], "{backend}");
    assert_no_process_left(&ground.project);
}

/// Which layer refuses like that.
fn layer(backend: &str, outcome: &str) -> &'static str {
    const LAYERS: &[(&str, &str, &str)] = &[
        ("", "Read-only file system", "read-only mount"),
        ("", "Device or resource busy", "mount point"),
        ("", "Invalid cross-device link", "boundary between mounts"),
        ("", "refused by the shell", "supervisor: closed"),
        ("", "No such device or address", "supervisor: no terminal"),
        ("", "No such process", "namespace: not there"),
        ("", "No such file or directory", "namespace: not there"),
        ("", "Connection refused", "mask over it"),
        ("", "Is a directory", "placeholder"),
        ("", "Invalid argument", "locked mount"),
        ("bwrap", "Permission denied", "mask over it, or its mode"),
        ("bwrap", "Operation not permitted", "no capabilities"),
        ("landlock", "Permission denied", "landlock, or a mask"),
        ("landlock", "Operation not permitted", "landlock, or no capabilities"),
    ];
    let fits = |it: &&(&str, &str, &str)| backend.starts_with(it.0) && outcome.starts_with(it.1);
    LAYERS.iter().find(fits).unwrap_or_else(|| panic!("{outcome}: who refuses like that?")).2
}

/// The paths that are not what they were.
fn changed(before: &Fingerprint, after: &Fingerprint) -> Vec<String> {
    let paths = before.keys().chain(after.keys());
    let changed = paths.filter(|path| before.get(*path) != after.get(*path));
    changed.map(|path| path.display().to_string()).collect()
}

fn collect(path: &Path, found: &mut Fingerprint) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let content = if metadata.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    found.insert(path.to_owned(), (metadata.mode(), content));
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    }
}

// Runs whose sessions are held.

fn run_held(project: &Project, backend: &str, scripts: &[&str], flags: &[&str]) -> Output {
    let arguments = ["run", "--sandbox", backend];
    let command = project.ralph_playing(scripts, arguments.iter().chain(flags));
    let output = project.run(command, None);
    project.assert_nothing_left();
    output
}

#[test]
fn a_run_holds_its_sessions_and_honest_work_goes_on() {
    for backend in working_sandboxes() {
        let project = Project::new();
        project.git_init();
        project.add(["Do it"]);
        let outside = PathBuf::from(format!("/usr/local/ralph-test-{}", std::process::id()));
        let script = format!(
            "expect-arg --dangerously-skip-permissions | run echo x > {}; echo x > .git/hooks/pre-commit; \
             echo x > .mcp.json | run echo work > file && git add file && git commit -q -m work \
             | run ralph task add Extra -d x && ralph task log $RALPH_TASK_ID -m noted | done",
            outside.display()
        );
        let output = run_held(&project, backend, &[&script, "done"], &["--no-verify"]);
        assert_eq!(output.status.code(), Some(0), "{backend}: {output:?}");
        assert!(output.stdout().contains(&format!("sandbox  {backend}")), "{output:?}");
        assert!(!outside.exists(), "{backend}");
        assert!(!project.root().join(".git/hooks/pre-commit").exists(), "{backend}");
        assert!(!project.root().join(".mcp.json").exists(), "{backend}");
        assert_eq!(project.git(["log", "--oneline"]).lines().count(), 2, "{backend}");
        assert_eq!(project.git(["status", "--porcelain"]), "", "{backend}");
        assert_eq!(project.ralph(["status", "--json"]).json()["done"], 2, "{backend}");
    }
}

#[test]
fn a_verifier_that_is_held_can_not_change_the_project() {
    for backend in working_sandboxes() {
        let project = Project::new();
        project.git_init();
        project.add(["Do it"]);
        let verifier = "run echo x > changed | say <verify-pass/>";
        let output = run_held(&project, backend, &["done", verifier], &[]);
        assert_eq!(output.status.code(), Some(0), "{backend}: {output:?}");
        assert!(!project.root().join("changed").exists(), "{backend}");
    }
}

#[test]
fn a_sandbox_that_is_not_available_or_an_unknown_rule_is_an_error_before_anything_begins() {
    let project = Project::new();
    project.add(["Do it"]);
    let said = run_held(&project, "seatbelt", &["done"], &[]).fails(1);
    assert!(said.contains("the sandbox `seatbelt` is not available"), "{said}");
    let said = run_held(&project, "nonsense", &["done"], &[]).fails(2);
    assert!(said.contains("flag `--sandbox`: `sandbox.backend` must be one of"), "{said}");
    for backend in working_sandboxes() {
        let said = run_held(&project, backend, &["done"], &["--allow", "gcp"]).fails(1);
        assert!(said.contains("gcp"), "{said}");
    }
    assert_eq!(project.ralph(["status", "--json"]).json()["done"], 0);
}

#[test]
fn a_missing_agent_is_still_said_to_be_missing() {
    for backend in working_sandboxes() {
        let project = Project::new();
        project.add(["Do it"]);
        let mut command = project.ralph_command(["run", "--sandbox", backend]);
        command.env("RALPH_AGENT_COMMAND", "no-such-claude");
        let said = project.run(command, None).fails(1);
        assert!(said.contains("the agent `no-such-claude` was not found"), "{said}");
    }
}

#[test]
fn docker_has_a_terminal_of_nobodys_and_the_prompt_by_name() {
    let project = Project::new();
    let task = project.add(["Do it"]);
    let bin = project.base().join("bin");
    fs::create_dir(&bin).unwrap();
    let prompt = project.base().join("prompt");
    let script = format!(
        "#!/bin/sh\n[ \"$2\" = --help ] && exec echo docker sandbox\n[ -t 0 ] || exit 9\n\
         for last; do :; done\ncp \"$(echo \"$last\" | cut -d'`' -f2)\" {}\n\
         while [ \"$1\" != claude ]; do shift; done; shift\nexec {} \"$@\"\n",
        prompt.display(),
        env!("CARGO_BIN_EXE_fake-claude")
    );
    let docker = bin.join("docker");
    fs::write(&docker, script).unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = project.ralph_playing(
        &["expect-arg --dangerously-skip-permissions | done"],
        ["run", "--no-verify", "--sandbox", "docker"],
    );
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    // The one in the image is used: this machine needs none.
    command.env("RALPH_AGENT_COMMAND", "no-such-claude");
    let output = project.run(command, None);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout().contains("sandbox  docker"), "{output:?}");
    assert!(fs::read_to_string(prompt).unwrap().contains(&task));
    project.assert_nothing_left();
}
