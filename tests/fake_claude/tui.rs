//! What the stand-in does in a terminal besides showing text: it calls hooks and writes a transcript, both
//! as the real program does.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use serde_json::{Value, json};

use crate::stream;

/// A session in a terminal.
#[derive(Debug, Clone)]
pub(crate) struct Tui {
    /// The commands to call, by event.
    hooks: Value,
    session: String,
    transcript: PathBuf,
    prompt: String,
}

impl Tui {
    /// None if the arguments ask for something else.
    pub(crate) fn new(arguments: &[String]) -> Option<Tui> {
        let at = arguments.iter().position(|it| it == "--settings")?;
        let settings = fs::read_to_string(arguments.get(at + 1)?).ok()?;
        let settings: Value = serde_json::from_str(&settings).ok()?;
        let session = format!("{:032x}", getrandom::u64().unwrap_or_default());
        let home = PathBuf::from(env::var_os("HOME")?);
        Some(Tui {
            hooks: settings["hooks"].clone(),
            transcript: home.join(".claude/projects").join(&session).with_extension("jsonl"),
            session,
            prompt: arguments.last().cloned().unwrap_or_default(),
        })
    }

    pub(crate) fn forget_hooks(&mut self) {
        self.hooks = Value::Null;
    }

    pub(crate) fn begin(&self, model: &str) {
        self.call("SessionStart", &json!({ "source": "startup", "model": model }));
        self.call("UserPromptSubmit", &json!({ "prompt": self.prompt }));
        self.write_down(&json!({
            "type": "user", "message": { "role": "user", "content": self.prompt },
        }));
    }

    /// Calls the hooks of this event, and waits for them.
    pub(crate) fn call(&self, event: &str, fields: &Value) {
        let mut input = json!({
            "session_id": self.session, "transcript_path": self.transcript,
            "hook_event_name": event,
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            input[name] = value.clone();
        }
        let groups = self.hooks[event].as_array().into_iter().flatten();
        for hook in groups.flat_map(|group| group["hooks"].as_array().into_iter().flatten()) {
            let command = hook["command"].as_str().expect("a hook is a command");
            let mut shell = Command::new("sh")
                .args(["-c", command])
                .stdin(Stdio::piped())
                .spawn()
                .expect("there is a shell");
            let mut stdin = shell.stdin.take().expect("it is piped");
            // It may read nothing.
            let _ = stdin.write_all(input.to_string().as_bytes());
            drop(stdin);
            let _ = shell.wait();
        }
    }

    /// Adds a line to the transcript.
    pub(crate) fn write_down(&self, line: &Value) {
        let mut line = line.clone();
        line["isSidechain"] = json!(false);
        let directory = self.transcript.parent().expect("it is in a directory");
        fs::create_dir_all(directory).expect("home can be written");
        let mut file = OpenOptions::new().create(true).append(true).open(&self.transcript);
        let file = file.as_mut().expect("home can be written");
        writeln!(file, "{line}").expect("home can be written");
    }

    /// The API has refused for good.
    pub(crate) fn refuse(&self, said: &Value, status: u16, text: &str) {
        let mut line = said.clone();
        line["apiErrorStatus"] = json!(status);
        self.write_down(&line);
        stream::raw(text.as_bytes());
        let failure = json!({ "error": said["error"], "last_assistant_message": text });
        self.call("StopFailure", &failure);
    }
}

/// Something that turns, as long as it is looked at.
pub(crate) fn spin(count: u32) {
    for (_, picture) in
        (0..count).zip(['\u{280b}', '\u{2819}', '\u{2839}', '\u{2838}'].iter().cycle())
    {
        stream::write(format!("\r\x1b[2K\x1b[35m{picture}\x1b[0m working").as_bytes());
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn show_size() {
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdin()) {
        stream::write(format!("size {}x{}\r\n", size.ws_row, size.ws_col).as_bytes());
    }
}
