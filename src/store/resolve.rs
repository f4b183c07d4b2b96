//! From what a person typed to the task or feature they meant.

use anyhow::{Result, anyhow, bail};
use rusqlite::{OptionalExtension, Transaction};

use super::rows::Place;
use crate::dag::{FeatureId, TaskId};
use crate::hint::HintExt;

/// How many candidates an error names.
const SHOWN: usize = 5;

/// The task with this id, or with the one id that begins like this.
pub(super) fn task(tx: &Transaction<'_>, text: &str) -> Result<Place> {
    if !TaskId::is_prefix(text) {
        return Err(anyhow!("`{}` is not a task id", shorten(text)))
            .hint("ids look like `t-3f9a01`; `ralph task list` shows them");
    }
    let mut query = tx.prepare_cached(
        "select seq, id
         from tasks
         where id >= ?1 and id < ?1 || '~'
         order by id
         limit 6",
    )?;
    let found: Vec<(i64, String)> =
        query.query_map([text], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    match found.as_slice() {
        // What all ids begin with says nothing, even where there is only one.
        [(_, id)] if text == "t-" => Err(anyhow!("`{text}` is the beginning of every id"))
            .hint(format!("type more of it: {id}")),
        [(seq, _)] => Ok(Place::load(tx, *seq)?),
        [] => no_such_task(tx, text),
        several => {
            let ids: Vec<&str> = several.iter().take(SHOWN).map(|(_, id)| id.as_str()).collect();
            let more = if several.len() > SHOWN { ", …" } else { "" };
            Err(anyhow!("`{text}` is the beginning of more than one id"))
                .hint(format!("type more of it: {}{more}", ids.join(", ")))
        }
    }
}

fn no_such_task<T>(tx: &Transaction<'_>, text: &str) -> Result<T> {
    let error = Err(anyhow!("there is no task `{text}`"));
    let mut query = tx.prepare("select id, title from tasks")?;
    let mut rows = query.query([])?;
    let mut nearest: Vec<(usize, String, String)> = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let distance = strsim::levenshtein(&id[..id.len().min(text.len().max(3))], text);
        if nearest.len() < 3 || distance < nearest[nearest.len() - 1].0 {
            nearest.push((distance, id, row.get(1)?));
            nearest.sort();
            nearest.truncate(3);
        }
    }
    if nearest.is_empty() {
        return error.hint("there are no tasks yet; add one with `ralph task add TITLE`");
    }
    let names: Vec<String> =
        nearest.iter().map(|(_, id, title)| format!("{id} \"{}\"", shorten(title))).collect();
    error.hint(format!("the nearest ids are {}", names.join(", ")))
}

/// The feature with this name or id, or with the one id that begins like this.
pub(super) fn feature(tx: &Transaction<'_>, text: &str) -> Result<(FeatureId, String)> {
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let by_name = tx
        .prepare_cached("select id, name from features where name = ?")?
        .query_row([text], pair)
        .optional()?;
    if let Some(found) = by_name {
        return Ok(found);
    }
    if FeatureId::is_prefix(text) {
        let mut query = tx.prepare_cached(
            "select id, name from features where id >= ?1 and id < ?1 || '~' order by id limit 2",
        )?;
        let mut found: Vec<(FeatureId, String)> =
            query.query_map([text], pair)?.collect::<Result<_, _>>()?;
        match found.len() {
            1 => return Ok(found.remove(0)),
            0 => {}
            _ => bail!("`{text}` is the beginning of more than one id"),
        }
    }
    no_such_feature(tx, text)
}

fn no_such_feature<T>(tx: &Transaction<'_>, text: &str) -> Result<T> {
    let error = Err(anyhow!("there is no feature `{}`", shorten(text)));
    let mut query = tx.prepare("select name from features order by name")?;
    let names: Vec<String> = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // No name is longer, and the time that this takes grows with both.
    let start: String = text.chars().take(100).collect();
    match names.iter().min_by_key(|name| strsim::levenshtein(name, &start)) {
        Some(nearest) => {
            error.hint(format!("the nearest is `{nearest}`; `ralph feature list` shows all"))
        }
        None => error.hint("there are no features yet"),
    }
}

/// The beginning of a text that goes into a message.
pub(super) fn shorten(text: &str) -> String {
    let mut start: String = text.chars().take(60).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}
