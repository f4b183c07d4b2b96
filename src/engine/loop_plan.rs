//! What a loop is to do, and the prompt that it says each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::plan::{AgentPlan, Places};
use super::stop::Bounds;
use crate::event::Mode;
use crate::hint::HintExt;
use crate::prompt::{Prompt, Values};

/// What a loop is to do.
pub struct LoopPlan {
    /// What it says each time.
    pub prompt: LoopPrompt,
    /// What it is called, to tell several apart.
    pub loop_id: Option<String>,
    /// The words in a final answer that complete it.
    pub completion_promise: String,
    /// A file whose items, all ticked off, complete it; absolute.
    pub checklist: Option<PathBuf>,
    /// Whether the agent has the terminal, and a person talks to it.
    pub passthrough: bool,
    /// The model, if not the agent's own choice.
    pub model: Option<String>,
    /// Whether new commits are pushed after each iteration.
    pub auto_push: bool,
    /// The pause between two iterations.
    pub pause: Duration,
    /// What it may use up.
    pub bounds: Bounds,
    /// How agents are started.
    pub agent: AgentPlan,
    /// Where things are.
    pub places: Places,
    /// What is done when the agent asks for the person's attention.
    pub ring: fn(),
}

impl LoopPlan {
    /// How its sessions are shown, in a word.
    pub(super) fn mode(&self) -> Mode {
        if self.passthrough { Mode::Terminal } else { self.agent.mode() }
    }
}

/// What a loop says each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopPrompt {
    /// What is in this file, read anew each time.
    File(PathBuf),
    /// This.
    Text(String),
    /// The built-in prompt for a plan, or what the project has in its place.
    Plan,
}

impl LoopPrompt {
    /// Where it comes from, in a few words; a file in the project by its name there.
    pub(super) fn source(&self, root: &Path) -> String {
        match self {
            LoopPrompt::File(path) => path.strip_prefix(root).unwrap_or(path).display().to_string(),
            LoopPrompt::Text(text) => {
                let first = text.lines().next().unwrap_or_default();
                let short: String = first.chars().take(60).collect();
                if short.len() < text.len() { format!("{short}…") } else { short }
            }
            LoopPrompt::Plan => "one item of the plan".to_owned(),
        }
    }

    /// What it is now, with `{plan}` as it is written; `overrides` has the project's own prompts.
    /// A file with nothing in it is an error: a session would cost money for nothing.
    pub fn read(&self, overrides: &Path) -> Result<String> {
        match self {
            LoopPrompt::Text(text) => Ok(text.clone()),
            LoopPrompt::File(path) => {
                let text = fs::read(path)
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                    .with_context(|| format!("can't read the prompt `{}`", path.display()))?;
                if text.trim().is_empty() {
                    return Err(anyhow!("the prompt `{}` is empty", path.display()))
                        .hint("write what the agent is to do each time");
                }
                Ok(text)
            }
            LoopPrompt::Plan => Prompt::LoopPlan.render(overrides, &Values::from([("plan", PLAN)])),
        }
    }
}

/// In a prompt it becomes the path of the plan.
pub const PLAN: &str = "{plan}";
