//! Whether Claude Code has something to log in with. Only whether it is there: no secret is read.

use super::Check;
use crate::cli::running::claude_home;
use crate::cli::setup::Setup;

/// The variables that Claude Code takes a key or a token from, or another place to ask.
const VARIABLES: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
];
/// Where Claude Code keeps a login.
const CREDENTIALS: &str = ".credentials.json";

pub(super) fn check(setup: &Setup) -> Check {
    if let Some(name) = VARIABLES.iter().find(|name| setup.environment.var(name).is_some()) {
        return Check::ok("login", format!("{name} is set"));
    }
    let file = claude_home(setup).directory().join(CREDENTIALS);
    if file.is_file() {
        Check::ok("login", format!("{} is there", file.display()))
    } else if cfg!(target_os = "macos") {
        Check::ok("login", "not looked for: on macOS it is in the keychain")
    } else {
        let detail = format!("no key in the environment, and no `{}`", file.display());
        Check::warning("login", detail, "start `claude` once and log in, or set ANTHROPIC_API_KEY")
    }
}
