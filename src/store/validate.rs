//! What a text must be to be stored.

use anyhow::{Result, anyhow, ensure};

use super::resolve::shorten;
use crate::dag::TaskId;
use crate::hint::HintExt;

/// The longest title, in characters.
const MAX_TITLE: usize = 500;
/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 16 << 20;
const MAX_KEY: usize = 200;

pub(super) fn check_title(title: &str) -> Result<()> {
    ensure!(!title.trim().is_empty(), "the title is empty");
    check_text("the title", title)?;
    let length = title.trim().chars().count();
    if length > MAX_TITLE {
        return Err(anyhow!("the title has {length} characters, more than {MAX_TITLE}"))
            .hint("keep the title to a line and put the rest into the description (-d)");
    }
    if title.trim().contains(['\n', '\r']) {
        return Err(anyhow!(
            "the title `{}` has more than one line",
            shorten(title.trim()).escape_debug()
        ))
        .hint("put the rest into the description (-d)");
    }
    Ok(())
}

pub(super) fn check_description(description: &str) -> Result<()> {
    check_text("the description", description)?;
    ensure!(
        description.len() <= MAX_DESCRIPTION,
        "the description has {} bytes, more than {MAX_DESCRIPTION}",
        description.len()
    );
    Ok(())
}

pub(super) fn check_key(key: &str) -> Result<()> {
    ensure!(!key.trim().is_empty(), "the key is empty");
    check_text("the key", key)?;
    ensure!(key.chars().count() <= MAX_KEY, "the key has more than {MAX_KEY} characters");
    ensure!(!TaskId::is_prefix(key), "the key `{key}` looks like a task id");
    Ok(())
}

pub(super) fn check_text(what: &str, text: &str) -> Result<()> {
    ensure!(!text.contains('\0'), "{what} contains a NUL character");
    Ok(())
}
