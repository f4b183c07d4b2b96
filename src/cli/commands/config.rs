//! `ralph config`

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use crate::cli::args::ConfigCommand;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::settings::Entry;
use crate::ui::json;
use crate::ui::text::printable;

#[derive(Serialize)]
struct EntryView<'a> {
    key: &'a str,
    value: Option<&'a toml::Value>,
    origin: String,
}

pub(super) fn run(command: &ConfigCommand, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let ConfigCommand::Show(json) = command;
    let loaded = setup.settings()?;
    if json.json {
        let mut array = json::Array::begin(out)?;
        for Entry { key, value, origin } in loaded.entries() {
            array.push(&EntryView { key, value: value.as_ref(), origin: origin.to_string() })?;
        }
        array.end()?;
        return Ok(Exit::Done);
    }
    let lines: Vec<(String, String)> = loaded.entries().iter().map(describe).collect();
    let width = lines.iter().map(|(setting, _)| setting.chars().count()).filter(|&w| w <= 44).max();
    for (setting, origin) in &lines {
        writeln!(
            out,
            "{:width$}  # {}",
            printable(setting),
            printable(origin),
            width = width.unwrap_or(0)
        )?;
    }
    Ok(Exit::Done)
}

/// A setting as a line of TOML, and where it came from.
fn describe(entry: &Entry) -> (String, String) {
    let value = entry.value.as_ref().map_or("unset".to_owned(), ToString::to_string);
    (format!("{} = {value}", entry.key), entry.origin.to_string())
}
