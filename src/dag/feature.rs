//! What a feature is, and what it may be called.

use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::id::{FeatureId, TaskId};
use super::task::names;
use crate::hint::HintExt;
use crate::time::Timestamp;

const MAX_NAME: usize = 64;

/// A feature. The names of its fields are those of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Its id.
    pub id: FeatureId,
    /// Its name, which no other feature has.
    pub name: String,
    /// Where it stands.
    pub status: FeatureStatus,
    /// Where its spec is, relative to the project.
    pub spec_path: Option<String>,
    /// Where its plan is, relative to the project.
    pub plan_path: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Where a feature stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureStatus {
    /// It has a name, and perhaps a spec.
    Draft,
    /// It has a spec and a plan.
    Planned,
    /// Its tasks exist.
    Ready,
    /// A run works on it.
    Running,
    /// All of it is done.
    Done,
    /// Some of it failed for good, and no run works on it.
    Failed,
}

names!(FeatureStatus {
    Draft => "draft",
    Planned => "planned",
    Ready => "ready",
    Running => "running",
    Done => "done",
    Failed => "failed",
});

/// Refuses a name that could be taken for an id or a path.
pub fn check_feature_name(name: &str) -> Result<()> {
    let shown = name.chars().take(MAX_NAME).collect::<String>().escape_debug().to_string();
    let reason = if name.is_empty() {
        bail!("the name of a feature is empty")
    } else if name.chars().count() > MAX_NAME {
        "it is longer than 64 characters"
    } else if name.starts_with(['.', '-']) {
        "it starts with a dot or a dash"
    } else if name.contains(['/', '\\']) {
        "it contains a path separator"
    } else if name.chars().any(char::is_control) || name.trim() != name {
        "it contains control characters, or blanks at an end"
    } else if TaskId::is_prefix(name) || FeatureId::is_prefix(name) {
        "it looks like an id"
    } else {
        return Ok(());
    };
    Err(anyhow!("`{shown}` can't be the name of a feature: {reason}"))
        .hint("use a short name such as `login` or `pdf-export`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_name_is_neither_a_path_nor_an_id() {
        for good in ["login", "pdf-export", "v2.0", "t-shirt", "größe", "a b", &"x".repeat(64)] {
            assert!(check_feature_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".git",
            "-x",
            "a/b",
            "a\\b",
            "t-3f9a01",
            "f-3f9a01",
            "t-3f",
            "f-",
            "a\nb",
            " a",
            "a\0",
            &"x".repeat(65),
        ] {
            assert!(check_feature_name(bad).is_err(), "{bad:?}");
        }
    }
}
