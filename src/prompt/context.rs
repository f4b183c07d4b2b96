//! What an agent is told of the project before a conversation: its settings, its features and, where they
//! matter, its tasks. Claude Code adds `CLAUDE.md` by itself.

use std::path::Path;

use super::document::{NOT_FOUND, fenced, read};
use crate::dag::{FeatureStatus, State, TaskId};

/// How much of a file goes into the context.
pub const FILE_LIMIT: usize = 10_000;
/// The settings of a project.
const SETTINGS: &str = ".ralph.toml";
/// How many tasks are listed.
const TASK_LIMIT: usize = 200;

/// A feature, as the context lists it.
#[derive(Debug, Clone)]
pub struct FeatureLine {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub status: FeatureStatus,
    /// Whether its spec is written.
    pub has_spec: bool,
    /// Whether its plan is written.
    pub has_plan: bool,
}

/// A task, as the context lists it.
#[derive(Debug, Clone)]
pub struct TaskLine {
    /// Its id.
    pub id: TaskId,
    /// Its state.
    pub state: State,
    /// Its title.
    pub title: String,
}

/// Collects what an agent is told of the project.
#[derive(Debug)]
pub struct Context {
    text: String,
}

impl Context {
    /// What is always told: settings and features of the project at `root`.
    pub fn new(root: &Path, features: &[FeatureLine]) -> Context {
        let mut context = Context { text: "## Project context\n".to_owned() };
        let settings = read(&root.join(SETTINGS), SETTINGS, FILE_LIMIT);
        if says_something(&settings) {
            context.section(SETTINGS, &quoted(&settings, "toml"));
        }
        context.section("Features", &feature_table(features));
        context
    }

    /// Adds the tasks that belong to no feature.
    pub fn standalone_tasks(mut self, tasks: &[TaskLine]) -> Context {
        self.section("Standalone tasks", &task_list(tasks));
        self
    }

    /// Adds what an earlier conversation left behind.
    pub fn draft(mut self, name: &str, path: &Path) -> Context {
        let title = format!("The current draft of `{name}`");
        self.section(&title, &quoted(&read(path, name, FILE_LIMIT), "markdown"));
        self
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.text
    }

    fn section(&mut self, title: &str, text: &str) {
        self.text.push_str(&format!("\n### {title}\n\n{text}\n"));
    }
}

/// Whether there is more in settings than comments.
fn says_something(settings: &str) -> bool {
    let mut lines = settings.lines().map(str::trim);
    settings != NOT_FOUND && lines.any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A file as it is, or the remark that stands in its place.
fn quoted(text: &str, language: &str) -> String {
    match text {
        "" => "[Empty]".to_owned(),
        remark if remark.starts_with("[Not found]") || remark.starts_with("[Can't be read") => {
            remark.to_owned()
        }
        text => fenced(text, language),
    }
}

fn feature_table(features: &[FeatureLine]) -> String {
    if features.is_empty() {
        return "[None yet]".to_owned();
    }
    let mut table = "| Name | Status | Has spec | Has plan |\n|---|---|---|---|".to_owned();
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    for FeatureLine { name, status, has_spec, has_plan } in features {
        let (spec, plan) = (yes_or_no(*has_spec), yes_or_no(*has_plan));
        table.push_str(&format!("\n| {} | {status} | {spec} | {plan} |", name.replace('|', "\\|")));
    }
    table
}

fn task_list(tasks: &[TaskLine]) -> String {
    if tasks.is_empty() {
        return "[None yet]".to_owned();
    }
    let line = |task: &TaskLine| format!("- {} ({}): {}", task.id, task.state, task.title);
    let mut lines: Vec<String> = tasks.iter().take(TASK_LIMIT).map(line).collect();
    if tasks.len() > TASK_LIMIT {
        let more = tasks.len() - TASK_LIMIT;
        lines.push(format!("[Cut here: {more} more; `ralph task list` shows them]"));
    }
    lines.join("\n")
}
