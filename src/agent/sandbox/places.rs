//! Finds out what a policy means at a place: which directories there are, and which of the paths that
//! must stay as they are exist.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::placeholders::is_placeholder;
use super::policy::{Hidden, Policy, Protected, Standin, State, Veiled};
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
pub(super) const STEERING: [&str; 5] = [".claude", ".mcp.json", ".vscode", ".idea", ".ralph.toml"];

/// Where ralph keeps what it has of a project. Sessions see of it what belongs to the repository, such as specs
/// and plans, and not what belongs to ralph alone.
pub(super) const OWN: &str = ".ralph";

/// What in there agents may write when they are asked to learn.
pub(super) const LEARNED: &str = "skills";

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
            allowed: allowed.collect::<Result<_>>()?,
            protected: protected(&project, &home),
            hidden: Vec::new(),
            veiled: Vec::new(),
            network: settings.network,
            terminal: false,
            as_root: rustix::process::geteuid().is_root(),
            git: git.writable,
            project,
            home,
        };
        policy.protected.extend(git.protected);
        match look(&policy.project.join(OWN), Some(Standin::Directory)) {
            Some(Protected { path, state: State::Present }) => {
                policy.veiled.push(veiled(path, learn)?);
            }
            protected => policy.protected.extend(protected),
        }
        let (present, absent): (Vec<_>, Vec<_>) =
            logs(places, &policy).into_iter().partition(|it| it.state == State::Present);
        policy.protected.extend(absent);
        let denied = settings.deny_read.iter();
        let denied = denied.filter_map(|it| rules::denied(it, &policy.project, &policy.home));
        let logs = present.into_iter().map(|it| it.path);
        let hidden: Vec<PathBuf> =
            denied.chain(doors(places)).chain(logs).chain(database(places, &policy)).collect();
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

/// What a session sees of the directory that ralph keeps in the project.
fn veiled(path: PathBuf, learn: bool) -> Result<Veiled> {
    let learned = path.join(LEARNED);
    if learn {
        fs::create_dir_all(&learned)
            .with_context(|| format!("can't make `{}`", learned.display()))?;
    }
    let entries =
        fs::read_dir(&path).with_context(|| format!("can't read `{}`", path.display()))?;
    let entries = entries.flatten().filter(|it| !is_internal(&it.file_name().to_string_lossy()));
    // A link would be followed when it is mounted.
    let entries = entries.filter(|it| it.file_type().is_ok_and(|it| !it.is_symlink()));
    let (writable, shown) = entries.map(|it| it.path()).partition(|it| learn && *it == learned);
    Ok(Veiled { path, shown, writable })
}

/// Whether something in that directory is the business of ralph alone.
fn is_internal(name: &str) -> bool {
    name.starts_with("progress.db") || name == "run.json"
}

/// The files of a database that is not where databases usually are.
fn database(places: &Places<'_>, policy: &Policy) -> Vec<PathBuf> {
    let name = |end: &str| {
        let mut name = places.database.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let mut files = existing(["", "-wal", "-shm"].map(name));
    files.retain(|file| !policy.veiled.iter().any(|it| file.starts_with(&it.path)));
    files
}

fn protected(project: &Path, home: &Path) -> Vec<Protected> {
    let steering = STEERING.into_iter();
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
        assert!(policy.temporary.is_empty(), "it does not exist");
        let state = [".claude", ".claude.json", ".cache"].map(|it| place.path("home").join(it));
        assert_eq!(policy.state, state);
    }

    #[test]
    fn logs_are_hidden_unless_a_session_has_to_write_where_they_are() {
        let place = Place::new();
        fs::create_dir_all(place.path("home/.local/state")).unwrap();
        fs::create_dir_all(place.path("logs")).unwrap();
        let policy = place.policy(&settings(), false).unwrap();
        let absent = Some(State::Absent(Standin::Directory));
        assert_eq!(state(&policy, "home/.local/state/ralph"), absent);
        assert!(policy.hides(&place.path("logs")));
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
    fn of_its_own_directory_ralph_shows_what_belongs_to_the_repository() {
        let place = Place::new();
        let own = |name: &str| place.path("project/.ralph").join(name);
        for name in ["features", "skills", "prompts"] {
            fs::create_dir(own(name)).unwrap();
        }
        for name in ["progress.db", "progress.db-wal", "run.json"] {
            fs::write(own(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc", own("link")).unwrap();
        for learn in [false, true] {
            let policy = place.policy(&settings(), learn).unwrap();
            let [Veiled { path, mut shown, writable }] = <[_; 1]>::try_from(policy.veiled).unwrap();
            shown.sort();
            assert_eq!(path, place.path("project/.ralph"));
            let names = ["features", "prompts", "skills"].map(own);
            assert_eq!(shown, names[..if learn { 2 } else { 3 }]);
            assert_eq!(writable, names[if learn { 2 } else { 3 }..]);
        }
    }

    #[test]
    fn a_directory_of_ralph_that_is_not_there_is_not_made_by_a_session() {
        let place = Place::new();
        fs::remove_dir(place.path("project/.ralph")).unwrap();
        let policy = place.policy(&settings(), false).unwrap();
        assert_eq!(state(&policy, "project/.ralph"), Some(State::Absent(Standin::Directory)));
        assert!(policy.veiled.is_empty());
    }

    #[test]
    fn who_is_to_learn_has_a_place_for_skills() {
        let place = Place::new();
        place.policy(&settings(), true).unwrap();
        assert!(place.path("project/.ralph/skills").is_dir());
    }

    #[test]
    fn a_database_elsewhere_is_hidden_with_the_files_beside_it() {
        let place = Place::new();
        for name in ["else.db", "else.db-wal"] {
            fs::write(place.path(name), "").unwrap();
        }
        let places = Places {
            project: &place.path("project"),
            home: &place.path("home"),
            temporary: Vec::new(),
            runtime: None,
            database: &place.path("else.db"),
            logs: &place.path("logs"),
        };
        let policy = Policy::new(&places, &settings(), false).unwrap();
        for name in ["else.db", "else.db-wal"] {
            assert!(policy.hides(&place.path(name)), "{name}");
        }
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
