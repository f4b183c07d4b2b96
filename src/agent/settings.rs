//! What Claude Code is told by `--settings`, besides what the person and the project have set.

use std::path::Path;

use serde_json::{Value, json};

use crate::hint::quoted;

/// A hook that prints this file after a compaction: what it prints is told to the model.
pub(super) fn reminder(file: &Path) -> Value {
    let command = format!("cat {}", quoted(file));
    json!({ "matcher": "compact", "hooks": [{ "type": "command", "command": command }] })
}

/// The settings of a session that is reminded of its task after a compaction.
pub(super) fn reminding(file: &Path) -> String {
    json!({ "hooks": { "SessionStart": [reminder(file)] } }).to_string()
}

/// The settings of a verifier: no hooks at all, and no rules but the project's. `own_rules` is where the
/// person keeps those for all projects.
pub(super) fn of_a_verifier(own_rules: &Path) -> String {
    let excluded = format!("{}/**", own_rules.display());
    json!({ "disableAllHooks": true, "claudeMdExcludes": [excluded] }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_json_that_names_the_file_as_a_shell_reads_it() {
        assert_eq!(
            reminding(Path::new("/tmp/it's/reminder.md")),
            r#"{"hooks":{"SessionStart":[{"hooks":[{"command":"cat '/tmp/it'\\''s/reminder.md'","type":"command"}],"matcher":"compact"}]}}"#
        );
        assert_eq!(
            of_a_verifier(Path::new("/home/x/.claude")),
            r#"{"claudeMdExcludes":["/home/x/.claude/**"],"disableAllHooks":true}"#
        );
    }
}
