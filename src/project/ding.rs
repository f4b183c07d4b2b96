//! The hooks by which Claude asks for the person's attention: they make `.ralph-ding`, for which `ralph loop`
//! rings the bell.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::Made;
use crate::hint::HintExt;

/// Where Claude looks for settings of one person in one project.
pub const SETTINGS: &str = ".claude/settings.local.json";

/// The moments at which Claude waits for the person.
const EVENTS: [&str; 2] = ["Notification", "Stop"];

const COMMAND: &str = "touch \"${CLAUDE_PROJECT_DIR:-.}/.ralph-ding\"";

/// Adds the hooks to what is in the file; nothing else in it changes.
pub(super) fn add_hooks(root: &Path) -> Result<Made> {
    let path = root.join(SETTINGS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("can't read `{SETTINGS}`")),
    };
    let Some(added) = with_hooks(&text)
        .map_err(|error| anyhow!("`{SETTINGS}` is not what Claude would read: {error}"))
        .hint("repair it; nothing was written")?
    else {
        return Ok(Made::Kept);
    };
    write(&path, &added).with_context(|| format!("can't write `{SETTINGS}`"))?;
    Ok(Made::New)
}

/// Half of it would be worse than none, so it takes its place when it is complete.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let path = fs::canonicalize(path).unwrap_or(path.to_owned());
    let draft = path.with_extension("json.ralph-new");
    let written = write_draft(&draft, text, &path).and_then(|()| fs::rename(&draft, &path));
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

/// Writes a new file with the permissions of the one that it is to replace.
fn write_draft(draft: &Path, text: &str, path: &Path) -> std::io::Result<()> {
    // What is there may be a link to a file that is not ours to change.
    let _ = fs::remove_file(draft);
    let mut file = File::create_new(draft)?;
    if let Ok(before) = fs::metadata(path) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(text.as_bytes())
}

/// The settings with the hooks; none if they have them already.
fn with_hooks(text: &str) -> serde_json::Result<Option<String>> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut settings: Object = serde_json::from_str(text)?;
    let mut hooks: Object = match settings.get("hooks") {
        Some(hooks) => serde_json::from_str(hooks.get())?,
        None => Object::default(),
    };
    let mut is_new = false;
    for event in EVENTS {
        let mut entries: Vec<Box<RawValue>> = match hooks.get(event) {
            Some(entries) => serde_json::from_str(entries.get())?,
            None => Vec::new(),
        };
        if entries.iter().any(|entry| entry.get().contains(".ralph-ding")) {
            continue;
        }
        entries.push(to_raw_value(&json!({"hooks": [{"type": "command", "command": COMMAND}]}))?);
        hooks.set(event, to_raw_value(&entries)?);
        is_new = true;
    }
    if !is_new {
        return Ok(None);
    }
    settings.set("hooks", to_raw_value(&hooks)?);
    // What is new was written without line breaks.
    let hooks: Value = serde_json::from_str(settings.get("hooks").map_or("{}", RawValue::get))?;
    let pretty = serde_json::to_string_pretty(&hooks)?.replace('\n', "\n  ");
    settings.set("hooks", RawValue::from_string(pretty)?);
    Ok(Some(format!("{}\n", serde_json::to_string_pretty(&settings)?)))
}

/// A JSON object whose members keep their order, and their values as they are written.
#[derive(Debug, Default)]
struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hooks_are_added_to_what_is_there_and_only_once() {
        let written = with_hooks("").unwrap().unwrap();
        insta::assert_snapshot!(written, @r#"
        {
          "hooks": {
            "Notification": [
              {
                "hooks": [
                  {
                    "command": "touch \"${CLAUDE_PROJECT_DIR:-.}/.ralph-ding\"",
                    "type": "command"
                  }
                ]
              }
            ],
            "Stop": [
              {
                "hooks": [
                  {
                    "command": "touch \"${CLAUDE_PROJECT_DIR:-.}/.ralph-ding\"",
                    "type": "command"
                  }
                ]
              }
            ]
          }
        }
        "#);
        assert_eq!(with_hooks(&written).unwrap(), None);

        let own = r#"{"z": 1.50, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "own"}]}], "PreToolUse": []}, "a": {"y": [1,2],  "x": null}}"#;
        let merged = with_hooks(own).unwrap().unwrap();
        assert!(merged.starts_with("{\n  \"z\": 1.50,\n  \"hooks\": {"), "{merged}");
        assert!(merged.ends_with("\"a\": {\"y\": [1,2],  \"x\": null}\n}\n"), "{merged}");
        let value: Value = serde_json::from_str(&merged).unwrap();
        assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], "own");
        assert_eq!(value["hooks"]["Stop"][1]["hooks"][0]["command"], COMMAND);
        assert_eq!(value["hooks"]["PreToolUse"], json!([]));
        assert_eq!(with_hooks(&merged).unwrap(), None);
    }

    #[test]
    fn what_claude_would_not_read_stays_as_it_is() {
        for text in ["[]", "{", "{\"hooks\": 1}", "{\"hooks\": {\"Stop\": {}}}", "nonsense"] {
            let directory = tempfile::TempDir::new().unwrap();
            let file = directory.path().join(SETTINGS);
            fs::create_dir(directory.path().join(".claude")).unwrap();
            fs::write(&file, text).unwrap();
            let error = format!("{:#}", add_hooks(directory.path()).unwrap_err());
            assert!(error.contains("is not what Claude would read"), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn a_link_where_the_draft_goes_is_not_followed() {
        let directory = tempfile::TempDir::new().unwrap();
        let (root, other) = (directory.path(), directory.path().join("other"));
        fs::write(&other, "mine").unwrap();
        fs::create_dir(root.join(".claude")).unwrap();
        let draft = root.join(".claude/settings.local.json.ralph-new");
        std::os::unix::fs::symlink(&other, &draft).unwrap();
        add_hooks(root).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
        assert!(fs::symlink_metadata(root.join(SETTINGS)).unwrap().is_file());
        assert!(fs::symlink_metadata(&draft).is_err());
    }
}
