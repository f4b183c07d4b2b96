//! Finds out what a policy means at a place: which directories there are, and which of the paths that
//! must stay as they are exist.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::placeholders::is_placeholder;
use super::policy::{Hidden, Policy, Protected, Standin, State};
use super::{git, rules};
use crate::agent::log;
use crate::hint::HintExt;
use crate::settings::SandboxSettings;

/// Where a session is going to work.
#[derive(Debug, Clone)]
pub struct Places<'a> {
    /// The project.
    pub project: &'a Path,
    /// The home of the user.
    pub home: &'a Path,
    /// Directories for temporary files; those that do not exist are left out.
    pub temporary: Vec<PathBuf>,
    /// Where the programs of the user's login have their sockets (`XDG_RUNTIME_DIR`).
    pub runtime: Option<PathBuf>,
    /// The database that `ralph` inside the session works on.
    pub database: &'a Path,
    /// Where session logs go, which sessions leave alone.
    pub logs: &'a Path,
}

/// What agents and tools keep in the home and have to write.
pub(super) const STATE: [&str; 5] =
    [".claude", ".claude.json", ".config/claude", ".cache", ".local/state"];

/// What in a project steers agents, editors and ralph later.
pub(super) const STEERING: [&str; 7] = [
    ".claude",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".ralph.toml",
    ".ralph/prompts",
    ".ralph/features",
];

/// What in a project agents may write only when they are asked to learn.
pub(super) const LEARNED: &str = ".ralph/skills";

/// What in the home steers agents later, and what stands for it where it does not exist.
const HOME_STEERING: [(&str, Standin); 7] = [
    (".claude/settings.json", Standin::File("{}\n")),
    (".claude/CLAUDE.md", Standin::File("")),
    (".claude/hooks", Standin::Directory),
    (".claude/commands", Standin::Directory),
    (".claude/agents", Standin::Directory),
    (".claude/skills", Standin::Directory),
    (".claude/plugins", Standin::Directory),
];

/// Sockets of programs that start other programs for whoever asks.
const DOORS: [&str; 7] = [
    "/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/screen",
    "/tmp/.X11-unix",
];

/// What only keeps keys may be asked from inside: commits are signed and pushed with it.
const KEEPERS: [&str; 4] = ["gnupg", "keyring", "openssh_agent", "ssh-agent.socket"];

impl Policy {
    /// What the settings mean for a session at these places. `learn` lets it write skills. What an
    /// agent would make in the home for itself, where it may not make anything, is made here.
    pub fn new(places: &Places<'_>, settings: &SandboxSettings, learn: bool) -> Result<Policy> {
        let project = real(places.project)?;
        let home = real(places.home)?;
        make_state(&home)?;
        let git = git::directories(&project);
        let allowed = settings.allow.iter().map(|rule| rules::allowed(rule, &project, &home));
        let mut policy = Policy {
            project_read_only: false,
            temporary: existing(places.temporary.iter().cloned()),
            state: existing(STATE.iter().map(|name| home.join(name))),
            own: existing(places.database.parent().map(Path::to_owned)),
            allowed: allowed.collect::<Result<_>>()?,
            protected: protected(&project, &home, learn),
            hidden: Vec::new(),
            network: settings.network,
            terminal: false,
            as_root: rustix::process::geteuid().is_root(),
            git: git.writable,
            project,
            home,
        };
        policy.protected.extend(git.protected);
        policy.protected.extend(logs(places, &policy));
        let denied = settings.deny_read.iter();
        let denied = denied.filter_map(|it| rules::denied(it, &policy.project, &policy.home));
        let hidden: Vec<PathBuf> = denied.chain(doors(places)).collect();
        policy.hidden =
            hidden.into_iter().map(|path| hide(path, &policy)).collect::<Result<_>>()?;
        Ok(policy)
    }
}

fn make_state(home: &Path) -> Result<()> {
    for name in [".claude", ".cache"] {
        let path = home.join(name);
        fs::create_dir_all(&path).with_context(|| format!("can't make `{}`", path.display()))?;
    }
    let settings = home.join(".claude.json");
    if !settings.exists() {
        fs::write(&settings, "{}\n")
            .with_context(|| format!("can't make `{}`", settings.display()))?;
    }
    Ok(())
}

fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("can't find `{}`", path.display()))
}

fn existing(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().filter_map(|path| path.canonicalize().ok()).collect()
}

fn protected(project: &Path, home: &Path, learn: bool) -> Vec<Protected> {
    let learned = Some(LEARNED).filter(|_| !learn);
    let steering = STEERING.into_iter().chain(learned);
    let in_project = steering.map(|name| look(&project.join(name), Some(Standin::Directory)));
    let in_home =
        HOME_STEERING.iter().map(|&(name, standin)| look(&home.join(name), Some(standin)));
    in_project.chain(in_home).flatten().collect()
}

/// The logs of this project and, where they usually are, those of all others. A directory that also holds
/// what a session has to write can't be protected.
fn logs(places: &Places<'_>, policy: &Policy) -> Vec<Protected> {
    let usual = policy.home.join(".local/state").join(log::STATE);
    let logs = [usual.as_path(), places.logs].into_iter();
    let logs = logs.filter_map(|path| look(path, Some(Standin::Directory)));
    logs.filter(|it| !policy.writable().any(|needed| needed.starts_with(&it.path))).collect()
}

/// How a path is to be protected; not at all, if it does not exist and nothing may stand for it.
pub(super) fn look(path: &Path, standin: Option<Standin>) -> Option<Protected> {
    // The way to it may lead through links; whether it is one itself is another question.
    let parent = path.parent()?.canonicalize().ok()?;
    let path = parent.join(path.file_name()?);
    let state = match fs::symlink_metadata(&path) {
        Ok(found) if found.is_symlink() => State::Link,
        Ok(found) if is_placeholder(&found) => State::Absent(standin?),
        Ok(_) => State::Present,
        Err(_) => State::Absent(standin?),
    };
    Some(Protected { path, state })
}

/// What a session could ask to start something outside.
fn doors(places: &Places<'_>) -> Vec<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let terminals = PathBuf::from(format!("/tmp/tmux-{uid}"));
    let known = DOORS.iter().map(PathBuf::from).chain([terminals]);
    let runtime = places.runtime.iter().flat_map(fs::read_dir).flatten().flatten();
    let is_keeper = |name: &Path| KEEPERS.iter().any(|it| Path::new(it) == name);
    let login = runtime.filter(|it| !is_keeper(Path::new(&it.file_name()))).map(|it| it.path());
    existing(known.chain(login))
}

fn hide(path: PathBuf, policy: &Policy) -> Result<Hidden> {
    let needed = policy.writable().find(|needed| needed.starts_with(&path));
    if let Some(needed) = needed {
        let (path, needed) = (path.display(), needed.display());
        return Err(anyhow!("`{path}` can't be hidden: a session has to write `{needed}`"))
            .hint("name something smaller in `sandbox.deny_read`");
    }
    Ok(Hidden { directory: path.is_dir(), path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    struct Place {
        base: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            let place = Place { base: tempfile::TempDir::new().unwrap() };
            for name in ["home/.claude", "home/.ssh", "project/.ralph", "run/gnupg", "run/bus"] {
                fs::create_dir_all(place.path(name)).unwrap();
            }
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.base.path().canonicalize().unwrap().join(name)
        }

        fn policy(&self, settings: &SandboxSettings, learn: bool) -> Result<Policy> {
            let places = Places {
                project: &self.path("project"),
                home: &self.path("home"),
                temporary: vec![self.path("nowhere")],
                runtime: Some(self.path("run")),
                database: &self.path("project/.ralph/progress.db"),
                logs: &self.path("logs"),
            };
            Policy::new(&places, settings, learn)
        }
    }

    fn settings() -> SandboxSettings {
        Settings::default().sandbox
    }

    fn state(policy: &Policy, end: &str) -> Option<State> {
        policy.protected.iter().find(|it| it.path.ends_with(end)).map(|it| it.state)
    }

    #[test]
    fn what_does_not_exist_yet_is_protected_as_well() {
        let place = Place::new();
        fs::create_dir(place.path("project/.vscode")).unwrap();
        let policy = place.policy(&settings(), false).unwrap();
        assert_eq!(state(&policy, "project/.vscode"), Some(State::Present));
        let absent = Some(State::Absent(Standin::Directory));
        assert_eq!(state(&policy, "project/.claude"), absent);
        assert_eq!(state(&policy, "project/.mcp.json"), absent);
        assert_eq!(state(&policy, "project/.ralph/skills"), absent);
        assert!(policy.temporary.is_empty(), "it does not exist");
        assert_eq!(policy.own, [place.path("project/.ralph")]);
        let state = [".claude", ".claude.json", ".cache"].map(|it| place.path("home").join(it));
        assert_eq!(policy.state, state);
    }

    #[test]
    fn logs_stay_as_they_are_unless_a_session_has_to_write_where_they_are() {
        let place = Place::new();
        fs::create_dir_all(place.path("home/.local/state")).unwrap();
        fs::create_dir_all(place.path("logs")).unwrap();
        let policy = place.policy(&settings(), false).unwrap();
        let absent = Some(State::Absent(Standin::Directory));
        assert_eq!(state(&policy, "home/.local/state/ralph"), absent);
        assert_eq!(state(&policy, "logs"), Some(State::Present));
        let project = place.path("project");
        let places = Places {
            project: &project,
            home: &place.path("home"),
            temporary: Vec::new(),
            runtime: None,
            database: &project.join(".ralph/progress.db"),
            logs: &project,
        };
        let policy = Policy::new(&places, &settings(), false).unwrap();
        assert!(policy.protected.iter().all(|it| it.path != project));
    }

    #[test]
    fn who_is_to_learn_may_write_skills() {
        let policy = Place::new().policy(&settings(), true).unwrap();
        assert_eq!(state(&policy, ".ralph/skills"), None);
    }

    #[test]
    fn a_link_is_told_from_what_it_leads_to() {
        let place = Place::new();
        std::os::unix::fs::symlink("/etc", place.path("project/.idea")).unwrap();
        let policy = place.policy(&settings(), false).unwrap();
        assert_eq!(policy.links().collect::<Vec<_>>(), [place.path("project/.idea")]);
    }

    #[test]
    fn what_opens_the_login_is_hidden_and_what_keeps_keys_is_not() {
        let place = Place::new();
        let policy = place.policy(&settings(), false).unwrap();
        let hidden = |name: &str| policy.hidden.iter().any(|it| it.path == place.path(name));
        assert!(hidden("run/bus"));
        assert!(!hidden("run/gnupg"));
    }

    #[test]
    fn what_a_session_needs_can_not_be_hidden() {
        let place = Place::new();
        let with = |path: &str| SandboxSettings { deny_read: vec![path.into()], ..settings() };
        assert!(place.policy(&with("~/.ssh"), false).is_ok());
        assert!(place.policy(&with("~/no-such-thing"), false).is_ok());
        let error = place.policy(&with("~"), false).unwrap_err().to_string();
        assert!(error.contains("can't be hidden: a session has to write"), "{error}");
    }

    #[test]
    fn an_agent_finds_what_it_would_have_made() {
        let place = Place::new();
        place.policy(&settings(), false).unwrap();
        fs::write(place.path("home/.claude.json"), "mine").unwrap();
        place.policy(&settings(), false).unwrap();
        assert!(place.path("home/.cache").is_dir());
        assert_eq!(fs::read_to_string(place.path("home/.claude.json")).unwrap(), "mine");
    }
}
