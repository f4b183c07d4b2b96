//! A project of its own, the real Claude Code in it, and a stand-in for its API.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::api::{Answer, Api, Request, Role};
use crate::bill::assert_adds_up;
use crate::harness::{Background, Project, assert_no_process_left, check_rules};
use crate::install::{PINNED, claude};

/// A run that a machine reads, and that a wrong scenario does not keep going for ever.
pub(crate) const RUN: [&str; 5] = ["run", "--format", "jsonl", "--limit", "12"];

/// A key that nobody else would take.
const KEY: &str = "no-key-at-all";

/// A project whose agent is the real one.
pub(crate) struct Rig {
    pub(crate) project: Project,
    pub(crate) api: Api,
    path: String,
}

impl Rig {
    /// A project in a repository, with an API that plays a scenario; none where there is no Claude Code.
    pub(crate) fn new(
        scenario: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Option<Rig> {
        Rig::with_version(PINNED, scenario)
    }

    /// The same with another version of Claude Code.
    pub(crate) fn with_version(
        version: &'static str,
        scenario: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Option<Rig> {
        let claude = claude(version)?;
        let project = Project::new();
        project.git_init();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", claude.parent().unwrap().display());
        Some(Rig { project, api: Api::start(scenario), path })
    }

    /// `ralph` with these arguments, not started yet.
    pub(crate) fn ralph(&self, arguments: &[&str]) -> Command {
        self.with_claude(self.project.ralph_command(arguments))
    }

    /// `ralph run` in a time in which every wait is over at once.
    pub(crate) fn clocked(&self, arguments: &[&str]) -> Command {
        self.clocked_ralph(&[&RUN, arguments].concat())
    }

    /// The same on a screen that shows the agent, without a retry.
    pub(crate) fn shown(&self, arguments: &[&str]) -> Command {
        let run = ["run", "--no-verify", "--max-retries", "0", "--limit", "12", "--max-cost", "9"];
        self.clocked_ralph(&[&run, arguments].concat())
    }

    fn clocked_ralph(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(env!("CARGO_BIN_EXE_ralph-clocked"));
        command.args(arguments);
        self.with_claude(command)
    }

    /// `ralph run` with these arguments, to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.finish(self.ralph(&[&RUN, arguments].concat()))
    }

    pub(crate) fn start(&self, command: Command) -> Background {
        self.project.start(command)
    }

    /// Runs a command to its end.
    pub(crate) fn finish(&self, command: Command) -> Ended {
        self.ended(self.start(command))
    }

    /// Waits for the end of a command, and asserts that it has left nothing and called nobody else.
    pub(crate) fn ended(&self, running: Background) -> Ended {
        let (status, lines, stderr) = running.finish();
        let ended = Ended { code: status.code(), lines, stderr };
        self.assert_nothing_left(&ended);
        ended
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self, ended: &Ended) {
        assert_no_process_left(&self.project);
        let is_own = |name: &String| !name.starts_with("claude-") && name != "cc-socks";
        let files: Vec<String> =
            self.project.temporary_files().into_iter().filter(is_own).collect();
        assert_eq!(files, [""; 0], "{ended:?}");
        assert!(!self.project.root().join(".ralph/run.json").exists(), "{ended:?}");
        assert_eq!(self.api.strays(), [""; 0], "{ended:?}");
        check_rules(&self.project);
        assert_adds_up(self);
    }

    /// Answers the questions that Claude Code asks whoever starts it in a terminal for the first time;
    /// whether the project is trusted is one of them.
    pub(crate) fn answer_first_questions(&self, trusted: bool) {
        let root = self.project.root().to_string_lossy().into_owned();
        let state = json!({
            "hasCompletedOnboarding": true,
            "projects": { root: { "hasTrustDialogAccepted": trusted } },
            "customApiKeyResponses": { "approved": [KEY], "rejected": [] },
        });
        fs::write(self.project.base().join("home/.claude.json"), state.to_string()).unwrap();
    }

    /// What the sessions of a role have asked.
    pub(crate) fn asked(&self, role: Role) -> Vec<Request> {
        self.api.requests().into_iter().filter(|it| it.role == role).collect()
    }

    pub(crate) fn status(&self, task: &str) -> Value {
        self.project.show(task)["status"].clone()
    }

    /// The outcomes of the attempts on a task, with their reasons.
    pub(crate) fn history(&self, task: &str) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let task = self.project.show(task);
        let attempts = task["history"].as_array().unwrap();
        attempts.iter().map(|it| (text(&it["outcome"]), text(&it["reason"]))).collect()
    }

    pub(crate) fn outcomes(&self, task: &str) -> Vec<String> {
        self.history(task).into_iter().map(|(outcome, _)| outcome).collect()
    }

    /// Only what is on loopback can be reached: whoever calls elsewhere is heard by the stand-in.
    fn with_claude(&self, mut command: Command) -> Command {
        let address = self.api.address();
        command
            .env("PATH", &self.path)
            .env("ANTHROPIC_BASE_URL", &address)
            .env("ANTHROPIC_API_KEY", KEY)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("CLAUDE_CODE_MAX_RETRIES", "1")
            // On a screen it would look for news of itself and of its plugins.
            .env("DISABLE_AUTOUPDATER", "1")
            .env("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1")
            .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, &address)))
            .env("NO_PROXY", "127.0.0.1")
            // Unless the arguments say otherwise.
            .env("RALPH_SANDBOX_BACKEND", "none");
        command
    }
}

/// How a command ended and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<String>,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn with_code(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The events of a kind.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let events = self.lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["type"] == kind).collect()
    }
}
