//! Asks before agents work in a tree with uncommitted changes of a person.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use super::args::ShowArgs;
use super::running::is_watched;
use super::setup::{Refused, Setup};
use crate::engine::{Places, Tree, look_at_tree};
use crate::hint::HintExt;

/// How many files are named.
const NAMED: usize = 10;

/// What a person decides about the working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Go on.
    Granted,
    /// Go on; the tree holds unfinished work of an earlier session.
    Resumed,
    /// Do not.
    Denied,
}

/// Whether agents may work in the tree as it is. `inputs` are files that the command itself reads.
pub(super) fn ask_for_tree(
    places: &Places,
    inputs: &[PathBuf],
    allow_dirty: bool,
    show: &ShowArgs,
    setup: &Setup,
) -> Result<Leave> {
    let files = match look_at_tree(places, inputs)? {
        Tree::Clean => return Ok(Leave::Granted),
        Tree::NoRepository => {
            setup.say("warning: not a git repository: what a failed attempt leaves can't be kept");
            return Ok(Leave::Granted);
        }
        Tree::Left(kept) => {
            let kept = kept.map_or(String::new(), |name| format!(", kept as {name}"));
            setup.say(&format!("note: the working tree is as the last session left it{kept}"));
            return Ok(Leave::Resumed);
        }
        Tree::Dirty(_) if allow_dirty => return Ok(Leave::Granted),
        Tree::Dirty(files) => files,
    };
    if !is_watched(show) {
        let said = describe(&files, ", and there is no terminal to ask on");
        return Err(anyhow!(Refused::Question(said)))
            .hint("commit or stash them, or go on with --allow-dirty (run.allow_dirty)");
    }
    setup.say(&describe(&files, ""));
    let question = "An agent may commit or overwrite them. Go on?";
    Ok(if setup.confirm(question, false)? { Leave::Granted } else { Leave::Denied })
}

/// Names the files with uncommitted changes, below a line that ends with `remark`.
fn describe(files: &[String], remark: &str) -> String {
    let count = match files.len() {
        1 => "1 file has".to_owned(),
        count => format!("{count} files have"),
    };
    let mut text = format!("{count} uncommitted changes{remark}:");
    for file in files.iter().take(NAMED) {
        text.push_str(&format!("\n  {file}"));
    }
    if files.len() > NAMED {
        text.push_str(&format!("\n  and {} more", files.len() - NAMED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_ten_files_are_named() {
        assert_eq!(describe(&["a b".to_owned()], ""), "1 file has uncommitted changes:\n  a b");
        let many: Vec<String> = (1..=12).map(|number| format!("f{number}")).collect();
        let said = describe(&many, ", alas");
        assert!(said.starts_with("12 files have uncommitted changes, alas:\n  f1\n"), "{said}");
        assert!(said.ends_with("\n  f10\n  and 2 more"), "{said}");
    }
}
