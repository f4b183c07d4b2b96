//! Which MCP servers a session has. They are chosen once, before the first session of a run: what an agent
//! writes into the project changes nothing for the sessions after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};

use super::scratch::Scratch;
use crate::hint::HintExt;

/// The servers that sessions have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Servers {
    /// None.
    #[default]
    None,
    /// Whatever the agent finds by itself.
    All,
    /// These, with their configuration as the agent reads it.
    These {
        /// What they are called.
        names: Vec<String>,
        /// Their configuration.
        config: String,
    },
}

/// What a session is told of its servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServerFlags {
    /// It has none.
    #[default]
    None,
    /// It has whatever it finds by itself.
    All,
    /// It has those in this file.
    File(PathBuf),
}

/// The file in the scratch directory of a session.
const FILE: &str = "mcp.json";
/// The person's settings for this project, which belong to no repository.
const LOCAL: &str = ".claude/settings.local.json";

impl Servers {
    /// What `agent.mcp` means in a project, for a person who keeps the agent's settings in `home`.
    pub fn choose(setting: &str, root: &Path, home: &ClaudeHome) -> Result<Servers> {
        match setting {
            "none" => Ok(Servers::None),
            "all" => Ok(Servers::All),
            "project" => Ok(Servers::of_project(root, home)),
            file => Servers::of_file(&root.join(file)),
        }
    }

    /// Those of the project's `.mcp.json` that the person has approved.
    fn of_project(root: &Path, home: &ClaudeHome) -> Servers {
        let Some(servers) = read(&root.join(".mcp.json")).and_then(|it| servers_in(&it)) else {
            return Servers::None;
        };
        let project = root.to_string_lossy().into_owned();
        let own = read(&home.state).and_then(|it| it.get("projects")?.get(&project).cloned());
        // A checked-in file can refuse a server. It can't approve one: its author need not be this person.
        let mut approving: Vec<Value> = [own, read(&home.settings)].into_iter().flatten().collect();
        let mut shared: Vec<Value> =
            read(&root.join(".claude/settings.json")).into_iter().collect();
        if let Some(local) = read(&root.join(LOCAL)) {
            let settings = if is_tracked(root, LOCAL) { &mut shared } else { &mut approving };
            settings.push(local);
        }
        Servers::these(&approved(servers, &approving, &shared))
    }

    fn of_file(path: &Path) -> Result<Servers> {
        let shown = path.display();
        let text = fs::read(path)
            .with_context(|| format!("can't read `agent.mcp`, `{shown}`"))
            .hint("it is none, project, all, or a file as the agent takes it with --mcp-config")?;
        let servers = serde_json::from_slice(&text).ok().and_then(|it| servers_in(&it));
        let servers = servers
            .ok_or_else(|| anyhow!("`{shown}` (agent.mcp) has no object `mcpServers`"))
            .hint("write it as a `.mcp.json` is written")?;
        Ok(Servers::these(&servers))
    }

    fn these(servers: &Map<String, Value>) -> Servers {
        if servers.is_empty() {
            return Servers::None;
        }
        let names = servers.keys().cloned().collect();
        Servers::These { names, config: json!({ "mcpServers": servers }).to_string() }
    }

    /// Puts the configuration where a session can read it.
    pub fn write(&self, scratch: &Scratch) -> Result<ServerFlags> {
        match self {
            Servers::These { config, .. } => Ok(ServerFlags::File(scratch.write(FILE, config)?)),
            Servers::None | Servers::All => Ok(self.flags(scratch.path())),
        }
    }

    /// What a session in this scratch directory would be told.
    pub fn flags(&self, scratch: &Path) -> ServerFlags {
        match self {
            Servers::None => ServerFlags::None,
            Servers::All => ServerFlags::All,
            Servers::These { .. } => ServerFlags::File(scratch.join(FILE)),
        }
    }

    /// Which they are, in a few words.
    pub fn describe(&self) -> String {
        match self {
            Servers::None => "none".to_owned(),
            Servers::All => "all that Claude finds".to_owned(),
            Servers::These { names, .. } => names.join(", "),
        }
    }
}

/// Where the agent keeps what a person has set and approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaudeHome {
    /// The person's settings.
    pub settings: PathBuf,
    /// What it remembers of each project.
    pub state: PathBuf,
}

impl ClaudeHome {
    /// In a home, unless `CLAUDE_CONFIG_DIR` names another place.
    pub fn new(home: &Path, config: Option<&Path>) -> ClaudeHome {
        match config {
            Some(config) => ClaudeHome {
                settings: config.join("settings.json"),
                state: config.join(".claude.json"),
            },
            None => ClaudeHome {
                settings: home.join(".claude/settings.json"),
                state: home.join(".claude.json"),
            },
        }
    }
}

impl ClaudeHome {
    /// The directory that it keeps most of that in.
    pub fn directory(&self) -> PathBuf {
        self.settings.parent().map_or(PathBuf::new(), Path::to_owned)
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn servers_in(config: &Value) -> Option<Map<String, Value>> {
    config.get("mcpServers")?.as_object().cloned()
}

/// Whether a file of a project is checked in.
fn is_tracked(root: &Path, file: &str) -> bool {
    let mut git = Command::new("git");
    git.args(["-c", "core.fsmonitor=false", "-C"]).arg(root);
    git.args(["ls-files", "--error-unmatch", "--", file]);
    // Inside a hook of git these may mean another repository.
    git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    git.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

/// The servers that one of `settings` approves, and neither they nor the `shared` settings refuse.
fn approved(
    servers: Map<String, Value>,
    settings: &[Value],
    shared: &[Value],
) -> Map<String, Value> {
    let names = |it: &Value, key: &str, name: &str| {
        it.get(key).and_then(Value::as_array).is_some_and(|names| names.iter().any(|it| it == name))
    };
    let approves = |it: &Value, name: &str| {
        it.get("enableAllProjectMcpServers") == Some(&Value::Bool(true))
            || names(it, "enabledMcpjsonServers", name)
    };
    let is_approved = |name: &str| {
        settings.iter().any(|it| approves(it, name))
            && !settings.iter().chain(shared).any(|it| names(it, "disabledMcpjsonServers", name))
    };
    servers.into_iter().filter(|(name, _)| is_approved(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        directory: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            let directory = tempfile::TempDir::new().unwrap();
            for place in ["project/.claude", "home/.claude"] {
                fs::create_dir_all(directory.path().join(place)).unwrap();
            }
            let place = Place { directory };
            place.write(
                "project/.mcp.json",
                &json!({"mcpServers": {"a": {"command": "x"}, "b": {}}}),
            );
            place
        }

        fn write(&self, name: &str, value: &Value) {
            fs::write(self.directory.path().join(name), value.to_string()).unwrap();
        }

        fn root(&self) -> PathBuf {
            self.directory.path().join("project")
        }

        fn choose(&self, setting: &str) -> Result<Servers> {
            let home = ClaudeHome::new(&self.directory.path().join("home"), None);
            Servers::choose(setting, &self.root(), &home)
        }

        fn of_project(&self) -> String {
            self.choose("project").unwrap().describe()
        }
    }

    #[test]
    fn servers_of_the_project_count_once_the_person_has_approved_them() {
        let all = json!({"enableAllProjectMcpServers": true});
        let place = Place::new();
        assert_eq!(place.of_project(), "none");
        place.write("project/.claude/settings.json", &all);
        assert_eq!(place.of_project(), "none", "a checked-in file approves nothing");
        place
            .write("project/.claude/settings.local.json", &json!({"enabledMcpjsonServers": ["b"]}));
        assert_eq!(place.of_project(), "b");
        place.write("home/.claude/settings.json", &all);
        assert_eq!(place.of_project(), "a, b");
        place.write("project/.claude/settings.json", &json!({"disabledMcpjsonServers": ["b"]}));
        assert_eq!(place.of_project(), "a");
        let Ok(Servers::These { config, .. }) = place.choose("project") else { panic!() };
        assert_eq!(config, r#"{"mcpServers":{"a":{"command":"x"}}}"#);

        let place = Place::new();
        let mut projects = Map::new();
        projects.insert(
            place.root().to_string_lossy().into_owned(),
            json!({"enabledMcpjsonServers": ["a"]}),
        );
        place.write("home/.claude.json", &json!({ "projects": projects }));
        assert_eq!(place.of_project(), "a");
        fs::write(place.root().join(".mcp.json"), "no JSON").unwrap();
        assert_eq!(place.of_project(), "none");
    }

    #[test]
    fn a_persons_own_settings_approve_nothing_once_they_are_checked_in() {
        let place = Place::new();
        let approves = json!({"enableAllProjectMcpServers": true, "disabledMcpjsonServers": ["b"]});
        place.write("project/.claude/settings.local.json", &approves);
        let git = |arguments: &[&str]| {
            let status = Command::new("git").arg("-C").arg(place.root()).args(arguments).status();
            assert!(status.unwrap().success());
        };
        git(&["init", "--quiet"]);
        assert_eq!(place.of_project(), "a");
        git(&["add", "--force", LOCAL]);
        assert_eq!(place.of_project(), "none");
        place.write("home/.claude/settings.json", &json!({"enableAllProjectMcpServers": true}));
        assert_eq!(place.of_project(), "a", "what they refuse is refused");
    }

    #[test]
    fn a_file_names_the_servers_itself() {
        let place = Place::new();
        assert_eq!(place.choose(".mcp.json").unwrap().describe(), "a, b");
        assert_eq!(place.choose("none").unwrap(), Servers::None);
        assert_eq!(place.choose("all").unwrap(), Servers::All);
        let error = format!("{:#}", place.choose("projct").unwrap_err());
        assert!(error.contains("can't read `agent.mcp`"), "{error}");
        place.write("project/odd.json", &json!({"servers": {}}));
        let error = format!("{:#}", place.choose("odd.json").unwrap_err());
        assert!(error.contains("has no object `mcpServers`"), "{error}");
    }
}
