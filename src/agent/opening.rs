//! Prepares a session that is shown in a terminal: its prompt, which may be too long to be said in one
//! message, and the hooks by which it tells what happens.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::claude::{Invocation, Permission, Session};
use super::expand::is_expanded;
use super::hook::Hooks;
use super::scratch::Scratch;

/// The longest prompt that is an opening message. Linux takes 128 KiB in one argument.
const LONGEST: usize = 64 << 10;
/// What opens a session whose prompt stands in its system prompt.
const SHORT: &str = "Do what your system prompt says under \"Your task now\".";

/// What to start for a session that is shown in a terminal, and where it tells what happens.
pub fn open_in_pty(
    session: &Session,
    prompt: &str,
    permission: &Permission,
    attended: bool,
    scratch: &Scratch,
) -> Result<(Invocation, Hooks)> {
    let hooks = Hooks::new(scratch)?;
    let settings = hooks.settings(session.reminder.as_deref());
    let settings = scratch.write("settings.json", &settings)?;
    let (session, opening) = open_with(session, prompt, scratch)?;
    Ok((session.show(&opening, &settings, permission, attended), hooks))
}

/// The session for a prompt, and the message that opens it: the prompt itself, unless that can't be
/// said in a message.
pub fn open_with(session: &Session, prompt: &str, scratch: &Scratch) -> Result<(Session, String)> {
    if can_be_said(prompt) {
        return Ok((session.clone(), prompt.to_owned()));
    }
    in_system_prompt(session, prompt, scratch)
}

/// The same for a session that reads its message from stdin, where it may be of any length.
pub fn open_piped(session: &Session, prompt: &str, scratch: &Scratch) -> Result<(Session, String)> {
    if is_expanded(prompt) {
        return in_system_prompt(session, prompt, scratch);
    }
    Ok((session.clone(), prompt.to_owned()))
}

/// Whether a prompt can be the opening message: one in which the program would see a command to itself, or the
/// name of a file to pull in, is not what the model would read.
fn can_be_said(prompt: &str) -> bool {
    let is_sound = !prompt.trim().is_empty() && !prompt.contains('\0');
    is_sound && prompt.len() <= LONGEST && !is_expanded(prompt)
}

fn in_system_prompt(
    session: &Session,
    prompt: &str,
    scratch: &Scratch,
) -> Result<(Session, String)> {
    let mut session = session.clone();
    session.system_prompt = Some(with_task(session.system_prompt.as_deref(), prompt, scratch)?);
    Ok((session, SHORT.to_owned()))
}

fn with_task(system: Option<&Path>, prompt: &str, scratch: &Scratch) -> Result<PathBuf> {
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("can't read `{}`", path.display()))
    };
    let told = system.map(read).transpose()?.map_or(String::new(), |told| format!("{told}\n\n"));
    scratch.write("system-and-task.md", &format!("{told}# Your task now\n\n{prompt}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(prompt: &str) -> (Vec<String>, Option<String>) {
        let temporary = tempfile::TempDir::new().unwrap();
        let scratch = Scratch::new(temporary.path()).unwrap();
        let session = Session {
            program: "claude".into(),
            directory: "/project".into(),
            system_prompt: Some(scratch.write("system.md", "You are a worker.").unwrap()),
            reminder: None,
            scratch: Some(scratch.path().to_owned()),
            model: Some("opus".into()),
            path: "/usr/bin".into(),
            socket: Some("/scratch/ralph".into()),
            attempt: None,
            iteration: None,
            background_tasks: false,
            budget_usd: None,
            servers: Default::default(),
        };
        let (invocation, _) =
            open_in_pty(&session, prompt, &Permission::Everything, true, &scratch).unwrap();
        let arguments: Vec<String> =
            invocation.arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        let system = fs::read_to_string(&arguments[1]).ok();
        let own = scratch.path().display().to_string();
        (arguments.iter().map(|it| it.replace(&own, "SCRATCH")).collect(), system)
    }

    #[test]
    fn a_short_prompt_is_the_opening_message() {
        let (arguments, system) = opened("Write a parser.");
        assert_eq!(
            arguments,
            [
                "--append-system-prompt-file",
                "SCRATCH/system.md",
                "--model",
                "opus",
                "--settings",
                "SCRATCH/settings.json",
                "--exclude-dynamic-system-prompt-sections",
                "--strict-mcp-config",
                "--dangerously-skip-permissions",
                "--disallowed-tools",
                "EnterWorktree,ExitWorktree,CronCreate,CronDelete,CronList,ScheduleWakeup",
                "--",
                "Write a parser."
            ]
        );
        assert_eq!(system.as_deref(), Some("You are a worker."));
    }

    #[test]
    fn a_prompt_that_can_not_be_said_stands_in_the_system_prompt() {
        for prompt in
            [&"word ".repeat(100_000), "/init", " /init", "@file", "see @file", "", "a\0b"]
        {
            let (arguments, system) = opened(prompt);
            assert_eq!(arguments.last().unwrap(), SHORT);
            assert_eq!(arguments[1], "SCRATCH/system-and-task.md");
            let expected = format!("You are a worker.\n\n# Your task now\n\n{prompt}\n");
            assert!(system.unwrap() == expected, "{}", &prompt[..prompt.len().min(20)]);
        }
    }
}
