//! `ralph feature`

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cli::args::FeatureCommand;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Feature, Kind, Snapshot, State};
use crate::project::Project;
use crate::time::Timestamp;
use crate::ui::features::{self, FeatureRow};
use crate::ui::json::{self, Array};

#[derive(Serialize)]
struct FeatureView<'a> {
    #[serde(flatten)]
    feature: &'a Feature,
    has_spec: bool,
    has_plan: bool,
    done: usize,
    total: usize,
}

pub(super) fn run(command: FeatureCommand, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    match command {
        FeatureCommand::List(json) => list(json.json, setup, out),
        FeatureCommand::Show { name, json } => show(&name, json.json, setup, out),
        FeatureCommand::Delete { name, keep_files, yes } => {
            delete(&name, keep_files, yes.yes, setup)
        }
    }
}

fn list(json: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let project = setup.project()?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let all = store.features()?;
    let rows: Vec<FeatureRow<'_>> = all.iter().map(|it| row(it, &snapshot, &project)).collect();
    if json {
        let mut array = Array::begin(out)?;
        rows.iter().try_for_each(|row| array.push(&view(row)))?;
        array.end()?;
    } else {
        features::list(out, &rows, setup.terminal())?;
    }
    Ok(Exit::Done)
}

fn show(name: &str, json: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let feature = store.feature(name)?;
    let snapshot = store.snapshot(Timestamp::now())?;
    let project = setup.project()?;
    let row = row(&feature, &snapshot, &project);
    if json {
        json::write(out, &view(&row))?;
    } else {
        let mut roots = snapshot.roots();
        roots.retain(|&task| snapshot.tasks[task].feature == Some(feature.id));
        features::show(out, &row, &snapshot, &roots, setup.terminal())?;
    }
    Ok(Exit::Done)
}

fn row<'a>(feature: &'a Feature, snapshot: &Snapshot, project: &Project) -> FeatureRow<'a> {
    let is_its_work = |&task: &usize| {
        snapshot.tasks[task].feature == Some(feature.id) && snapshot.kind(task) == Kind::Work
    };
    let work: Vec<usize> = (0..snapshot.tasks.len()).filter(is_its_work).collect();
    let done = work.iter().filter(|&&task| snapshot.state(task) == State::Done).count();
    let directory = project.feature(&feature.name);
    FeatureRow {
        feature,
        done,
        total: work.len(),
        has_spec: has_text(&directory.join("spec.md")),
        has_plan: has_text(&directory.join("plan.md")),
    }
}

fn has_text(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0)
}

fn view<'a>(row: &FeatureRow<'a>) -> FeatureView<'a> {
    let &FeatureRow { feature, done, total, has_spec, has_plan } = row;
    FeatureView { feature, has_spec, has_plan, done, total }
}

fn delete(name: &str, keep_files: bool, yes: bool, setup: &Setup) -> Result<Exit> {
    let mut store = setup.store()?;
    let project = setup.project()?;
    let feature = store.feature(name)?;
    let name = &feature.name;
    let tasks = store.snapshot(Timestamp::now())?;
    let tasks = tasks.tasks.iter().filter(|task| task.feature == Some(feature.id)).count();
    let directory = Some(project.feature(name)).filter(|it| !keep_files && it.exists());
    let files = if directory.is_some() { " and its files" } else { "" };
    let what = format!("feature `{name}` with {tasks} tasks{files}");
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
