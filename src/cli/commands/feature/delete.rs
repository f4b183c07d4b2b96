//! `ralph feature delete`

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::workplace::Workplace;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::time::Timestamp;

pub(super) fn run(name: &str, keep_files: bool, yes: bool, setup: &Setup) -> Result<Exit> {
    let mut store = setup.store()?;
    let project = setup.project()?;
    let feature = store.feature(name)?;
    let name = &feature.name;
    let tasks = store.snapshot(Timestamp::now())?;
    let tasks = tasks.tasks.iter().filter(|task| task.feature == Some(feature.id)).count();
    let directory = Some(project.feature(name)).filter(|it| it.exists());
    let _lock = directory.as_deref().map(|it| Workplace::lock(it, name)).transpose()?;
    let directory = directory.filter(|_| !keep_files);
    let files = if directory.is_some() { " and its files" } else { "" };
    let plural = if tasks == 1 { "" } else { "s" };
    let what = format!("feature `{name}` with {tasks} task{plural}{files}");
    if !setup.confirm(&format!("Delete {what}?"), yes)? {
        setup.say("nothing was deleted");
        return Ok(Exit::Error);
    }
    let trash = directory.map(Trash::new);
    store
        .delete_feature(feature.id, || trash.as_ref().map_or(Ok(()), Trash::put))
        .inspect_err(|_| trash.iter().for_each(Trash::restore))?;
    if let Some(trash) = trash {
        trash.empty()?;
    }
    setup.say(&format!("deleted {what}"));
    Ok(Exit::Done)
}

/// A directory that is put aside in one step while the deletion can still fail, and removed after.
struct Trash {
    directory: PathBuf,
    aside: PathBuf,
}

impl Trash {
    fn new(directory: PathBuf) -> Trash {
        let mut aside = directory.clone().into_os_string();
        aside.push(format!(".deleted-{}", std::process::id()));
        Trash { directory, aside: aside.into() }
    }

    fn put(&self) -> Result<()> {
        fs::rename(&self.directory, &self.aside)
            .with_context(|| format!("can't remove `{}`", self.directory.display()))
    }

    fn restore(&self) {
        // It is not there when it was never put aside.
        let _ = fs::rename(&self.aside, &self.directory);
    }

    fn empty(self) -> Result<()> {
        fs::remove_dir_all(&self.aside).with_context(|| {
            format!("the feature is gone, but not its files in `{}`", self.aside.display())
        })
    }
}
