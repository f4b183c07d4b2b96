//! Reads a `.ralph.toml`: known keys with their values and lines. Whether a key takes its value is
//! for the caller to say.

use std::{fs::File, io::Read, path::Path};

use anyhow::{Result, anyhow, ensure};
use serde::Deserialize;
use strsim::normalized_damerau_levenshtein;
use toml::{
    Spanned, Value,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{
    Origin,
    keys::{KEYS, Key},
    one_line,
};
use crate::hint::HintExt;

/// Settings that are longer can't be meant, and reading them takes fifty times the memory.
const MOST: u64 = 1 << 20;

pub(super) type Given = (&'static Key, Value, Origin);

pub(super) fn read(path: &Path) -> Result<Vec<Given>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes))
        .map_err(|error| anyhow!("can't read `{}`: {error}", path.display()))?;
    ensure!(bytes.len() as u64 <= MOST, "`{}` has more than {MOST} bytes", path.display());
    parse(path, &bytes)
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Given>> {
    let document = Document { path, bytes };
    let text = str::from_utf8(bytes)
        .map_err(|error| anyhow!("{}: not UTF-8 text", document.at(error.valid_up_to()).place()))?;
    let table = DeTable::parse(text).map_err(|error| document.invalid(&error))?;

    let mut given = Vec::new();
    for (name, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) if is_section(name.get_ref()) => {
                for (leaf, value) in section {
                    let name = format!("{}.{}", name.get_ref(), leaf.get_ref());
                    given.push(document.given(&name, leaf.span().start, value)?);
                }
            }
            _ => given.push(document.given(name.get_ref(), name.span().start, value)?),
        }
    }
    Ok(given)
}

struct Document<'a> {
    path: &'a Path,
    bytes: &'a [u8],
}

impl Document<'_> {
    fn at(&self, offset: usize) -> Origin {
        let line = self.bytes.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1;
        Origin::File { path: self.path.into(), line }
    }

    fn invalid(&self, error: &toml::de::Error) -> anyhow::Error {
        let place = self.at(error.span().map_or(0, |span| span.start)).place();
        anyhow!("{place}: not valid TOML: {}", one_line(error.message()))
    }

    fn given(&self, name: &str, offset: usize, value: &Spanned<DeValue<'_>>) -> Result<Given> {
        let origin = self.at(offset);
        let refuse = |name, expected: &str| {
            let written = self.bytes.get(value.span()).unwrap_or_default();
            Err(origin.refuses(name, expected, &String::from_utf8_lossy(written)))
        };
        // `verify = false` is short for `verify.agent = false`.
        let name = if name == "verify" { "verify.agent" } else { name };
        match Key::named(name) {
            Some(key) => match Value::deserialize(ValueDeserializer::from(value.clone())) {
                Ok(value) => Ok((key, value, origin)),
                // TOML has numbers that `Value` can't hold.
                Err(_) => refuse(name, &key.kind.expected()),
            },
            None if is_section(name) => refuse(name, &format!("a section, `[{name}]`")),
            None => {
                let name = one_line(name);
                Err(anyhow!("{}: unknown key `{name}`", origin.place())).hint(known_keys(&name))
            }
        }
    }
}

fn section_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(section, _)| section)
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| section_of(key.name) == Some(name))
}

/// The known name that a wrong one most likely means, or else all that could stand in its place.
fn known_keys(wrong: &str) -> String {
    let sections = KEYS.iter().filter_map(|key| section_of(key.name));
    let mut known: Vec<_> = KEYS.iter().map(|key| key.name).chain(sections).collect();
    known.dedup();
    if let Some(near) = nearest(wrong, &known) {
        return format!("did you mean `{near}`?");
    }
    let section = section_of(wrong).filter(|section| is_section(section));
    known.retain(|name| section_of(name) == section);
    format!("the keys here are `{}`", known.join("`, `"))
}

fn leaf(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, leaf)| leaf)
}

/// A name counts as near by its whole path and by its last part, so that a key in the wrong section
/// is found as well.
fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |name: &str| {
        normalized_damerau_levenshtein(wrong, name)
            + normalized_damerau_levenshtein(leaf(wrong), leaf(name))
    };
    known
        .iter()
        .map(|name| (likeness(name), *name))
        .filter(|(likeness, _)| *likeness > 1.2)
        .min_by(|(a, _), (b, _)| b.total_cmp(a))
        .map(|(_, name)| name)
}
