//! What Claude Code tells apart from its screen: at certain moments it calls a hidden command of ralph,
//! which passes the event on through a socket in the directory of the session.

use std::borrow::Cow;
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::process::own_file;
use super::scratch::Scratch;
use super::settings;
use super::wire::Ignored;
use crate::hint::quoted;
use crate::lenient::{List, Text};
use crate::socket;

/// The first argument that makes a ralph pass an event on.
pub(super) const HOOK: &str = "__hook";
/// The moments at which Claude Code is to call us.
const MOMENTS: [&str; 9] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "Stop",
    "StopFailure",
];
/// How many seconds Claude Code waits for a call.
const TIMEOUT: u32 = 10;
/// How long we wait for an event that is on its way.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest event that is read.
const LONGEST: u64 = 16 << 20;
const SOCKET: &str = "hooks";

/// The place where a session tells what happens in it.
#[derive(Debug)]
pub struct Hooks {
    directory: PathBuf,
    listener: UnixListener,
}

impl Hooks {
    /// Makes one in the directory of a session, with which it goes.
    pub fn new(scratch: &Scratch) -> Result<Hooks> {
        let directory = scratch.path().to_owned();
        let listener = socket::bind(&directory.join(SOCKET))
            .with_context(|| format!("can't listen in `{}`", directory.display()))?;
        Ok(Hooks { directory, listener })
    }

    /// The settings that make Claude Code call us, besides whatever the user has set. After a compaction it
    /// reads `reminder`.
    pub fn settings(&self, reminder: Option<&Path>) -> String {
        let command = format!(
            "{} {HOOK} {}",
            quoted(own_file().unwrap_or_else(|| "ralph".into())),
            quoted(&self.directory)
        );
        let call = json!([{ "hooks": [
            { "type": "command", "command": command, "timeout": TIMEOUT }
        ] }]);
        let mut hooks = MOMENTS.map(|moment| (moment.to_owned(), call.clone()));
        for (moment, calls) in &mut hooks {
            if moment == "SessionStart"
                && let (Some(file), Some(calls)) = (reminder, calls.as_array_mut())
            {
                calls.push(settings::reminder(file));
            }
        }
        json!({
            "hooks": Value::Object(hooks.into_iter().collect()),
            // Only asked where permissions are skipped, which is what the sandbox is for. The answer
            // would be stored in the user's home, which a sandboxed session can't write.
            "skipDangerousModePermissionPrompt": true,
        })
        .to_string()
    }

    pub(super) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// Hands every event that comes to `each`, until the other end of `stop` is closed.
pub(super) fn listen(listener: &UnixListener, stop: &PipeReader, mut each: impl FnMut(Vec<u8>)) {
    socket::accept(listener, stop, |call| {
        if let Ok(event) = receive(call) {
            each(event);
        }
    });
}

fn receive(call: UnixStream) -> io::Result<Vec<u8>> {
    call.set_read_timeout(Some(PATIENCE))?;
    let mut event = Vec::new();
    call.take(LONGEST).read_to_end(&mut event)?;
    Ok(event)
}

/// Passes on the event on stdin. Claude Code is never told of a failure: it would tell the agent.
pub(super) fn pass_on(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let sent = arguments.next().map(PathBuf::from).map(|directory| -> io::Result<()> {
        let mut event = Vec::new();
        io::stdin().lock().take(LONGEST).read_to_end(&mut event)?;
        socket::connect(&directory.join(SOCKET))?.write_all(&event)
    });
    // Whoever listened is gone, and so will be the session.
    drop(sent);
    ExitCode::SUCCESS
}

/// What happened in a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HookEvent<'a> {
    Started {
        session: Cow<'a, str>,
        model: Cow<'a, str>,
    },
    /// A turn begins.
    Prompted,
    ToolBegins {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, str>,
    },
    ToolEnds {
        id: Cow<'a, str>,
        error: Option<Cow<'a, str>>,
    },
    /// The agent may not use a tool unless somebody agrees.
    AsksPermission {
        tool: Cow<'a, str>,
    },
    /// The agent has been waiting for somebody.
    Waits {
        message: Cow<'a, str>,
    },
    /// A turn is over.
    TurnOver {
        last_words: Cow<'a, str>,
        error: Option<Cow<'a, str>>,
    },
    /// A turn is over, but something goes on in the background and will begin another.
    Continues,
}

/// Every field of every event that we use.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    hook_event_name: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    transcript_path: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    tool_name: Text<'a>,
    #[serde(borrow)]
    tool_use_id: Text<'a>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow)]
    notification_type: Text<'a>,
    #[serde(borrow)]
    last_assistant_message: Text<'a>,
    background_tasks: List<Ignored>,
}

/// Reads an event, and where the session is written down; none if it is nothing that we know.
pub(super) fn parse(event: &str) -> Option<(HookEvent<'_>, PathBuf)> {
    let line: Line<'_> = serde_json::from_str(event).ok()?;
    let transcript = PathBuf::from(line.transcript_path.as_str());
    let event = match line.hook_event_name.as_str() {
        "SessionStart" => {
            HookEvent::Started { session: line.session_id.or_empty(), model: line.model.or_empty() }
        }
        "UserPromptSubmit" => HookEvent::Prompted,
        "PreToolUse" => HookEvent::ToolBegins {
            id: line.tool_use_id.or_empty(),
            name: line.tool_name.or_empty(),
            input: line.tool_input.map_or("{}", RawValue::get).into(),
        },
        "PostToolUse" => HookEvent::ToolEnds { id: line.tool_use_id.or_empty(), error: None },
        "PostToolUseFailure" => HookEvent::ToolEnds {
            id: line.tool_use_id.or_empty(),
            error: Some(line.error.or_empty()),
        },
        "PermissionRequest" => HookEvent::AsksPermission { tool: line.tool_name.or_empty() },
        "Notification" if waits_for_a_person(line.notification_type.as_str()) => {
            HookEvent::Waits { message: line.message.or_empty() }
        }
        "Stop" if !line.background_tasks.0.is_empty() => HookEvent::Continues,
        "Stop" => {
            let last_words = line.last_assistant_message.or_empty();
            HookEvent::TurnOver { last_words, error: None }
        }
        "StopFailure" => HookEvent::TurnOver {
            last_words: line.last_assistant_message.or_empty(),
            error: Some(line.error.or_empty()),
        },
        _ => return None,
    };
    Some((event, transcript))
}

/// Whether a notification of this type means that nothing goes on until a person does something. Other
/// notifications tell that something has happened.
fn waits_for_a_person(notification_type: &str) -> bool {
    match notification_type {
        "permission_prompt"
        | "worker_permission_prompt"
        | "idle_prompt"
        | "agent_needs_input"
        | "elicitation_dialog" => true,
        // Versions that tell no type have no other notifications.
        other => other.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, expected: &str) {
        let event = event.replace('\'', "\"");
        assert_eq!(format!("{:?}", parse(&event).map(|(event, _)| event)), expected, "{event}");
    }

    #[test]
    fn events_are_what_they_say() {
        check(
            "{'hook_event_name':'SessionStart','session_id':'s','source':'startup','model':'opus'}",
            r#"Some(Started { session: "s", model: "opus" })"#,
        );
        check(
            "{'tool_input':{'command':'ls'},'hook_event_name':'PreToolUse','tool_name':'Bash','tool_use_id':'t'}",
            r#"Some(ToolBegins { id: "t", name: "Bash", input: "{\"command\":\"ls\"}" })"#,
        );
        check(
            "{'hook_event_name':'PostToolUseFailure','tool_use_id':'t','error':'Exit code 1'}",
            r#"Some(ToolEnds { id: "t", error: Some("Exit code 1") })"#,
        );
        check(
            "{'hook_event_name':'Stop','last_assistant_message':'Bye.','background_tasks':[]}",
            r#"Some(TurnOver { last_words: "Bye.", error: None })"#,
        );
        check(
            "{'hook_event_name':'Stop','last_assistant_message':'Bye.','background_tasks':[{'id':1}]}",
            "Some(Continues)",
        );
        check(
            "{'hook_event_name':'Notification','message':'m','notification_type':'permission_prompt'}",
            r#"Some(Waits { message: "m" })"#,
        );
        check("{'hook_event_name':'Notification'}", r#"Some(Waits { message: "" })"#);
        check("{'hook_event_name':'Notification','notification_type':'auth_success'}", "None");
        check(
            "{'hook_event_name':'StopFailure','error':'rate_limit','last_assistant_message':'429'}",
            r#"Some(TurnOver { last_words: "429", error: Some("rate_limit") })"#,
        );
    }

    #[test]
    fn what_is_no_event_is_nothing() {
        for text in ["", "{", "[]", "{}", "{'hook_event_name':'SubagentStop'}", "\0"] {
            check(text, "None");
        }
        check(
            "{'hook_event_name':'Stop','last_assistant_message':7}",
            r#"Some(TurnOver { last_words: "", error: None })"#,
        );
    }

    #[test]
    fn an_event_gets_through_whatever_its_length() {
        let temporary = tempfile::TempDir::new().unwrap();
        let scratch = Scratch::new(temporary.path()).unwrap();
        let hooks = Hooks::new(&scratch).unwrap();
        let (stopped, stop) = io::pipe().unwrap();
        let listener = hooks.listener().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            listen(&listener, &stopped, |event| tell.send(event).unwrap());
        });
        let long = "x".repeat(1 << 20);
        for event in ["one", &long, "two"] {
            let mut call = socket::connect(&scratch.path().join(SOCKET)).unwrap();
            call.write_all(event.as_bytes()).unwrap();
            drop(call);
            assert_eq!(told.recv_timeout(Duration::from_secs(60)).unwrap(), event.as_bytes());
        }
        drop(stop);
        thread.join().unwrap();
    }

    #[test]
    fn the_settings_name_every_moment_and_quote_what_a_shell_would_not_read() {
        let temporary = tempfile::TempDir::with_prefix("it's ").unwrap();
        let scratch = Scratch::new(temporary.path()).unwrap();
        let settings: Value =
            serde_json::from_str(&Hooks::new(&scratch).unwrap().settings(None)).unwrap();
        for moment in MOMENTS {
            let command = settings["hooks"][moment][0]["hooks"][0]["command"].as_str().unwrap();
            assert!(command.contains(" __hook '") && command.contains(r"it'\''s "), "{command}");
        }
        assert_eq!(settings["skipDangerousModePermissionPrompt"], true);
    }
}
