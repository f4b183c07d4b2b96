//! A feature while one process works on it: its row, its files, and the lock that keeps others away.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::dag::{Feature, FeatureStatus};
use crate::hint::HintExt;
use crate::project::Project;
use crate::prompt::document::{DOCUMENT_LIMIT, fenced, has_text, read};
use crate::prompt::room::first;
use crate::store::{FeatureChange, Store};
use crate::time::Timestamp;

/// What a feature has in writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    Spec,
    Plan,
}

impl Document {
    /// What it is called, in messages and commands alike.
    pub(super) fn word(self) -> &'static str {
        match self {
            Document::Spec => "spec",
            Document::Plan => "plan",
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Document::Spec => "spec.md",
            Document::Plan => "plan.md",
        }
    }

    pub(super) fn is_written(self, project: &Project, feature: &str) -> bool {
        has_text(&project.feature(feature).join(self.file_name()))
    }
}

/// A feature that this process alone works on.
pub(super) struct Workplace {
    pub(super) feature: Feature,
    is_new: bool,
    project: Project,
    directory: PathBuf,
    _lock: File,
}

impl Workplace {
    /// Opens a feature, and makes it if there is none of this name.
    pub(super) fn open(store: &mut Store, project: Project, name: &str) -> Result<Workplace> {
        let (feature, is_new) = store.open_feature(name, Timestamp::now())?;
        let directory = project.feature(&feature.name);
        fs::create_dir_all(&directory)
            .with_context(|| format!("can't make `{}`", directory.display()))?;
        let lock = Workplace::lock(&directory, &feature.name)?;
        let mut place = Workplace { feature, is_new, project, directory, _lock: lock };
        // In a fresh clone the files are there and the database is not.
        place.record(store)?;
        Ok(place)
    }

    /// Opens a feature that is there, in the database or at least in writing.
    pub(super) fn open_existing(
        store: &mut Store,
        project: Project,
        name: &str,
    ) -> Result<Workplace> {
        if let Err(unknown) = store.feature(name)
            && !Document::Spec.is_written(&project, name)
        {
            return Err(unknown).hint(format!("begin with `ralph feature spec {name}`"));
        }
        Workplace::open(store, project, name)
    }

    /// Keeps other processes away from a feature for as long as the file is open.
    pub(super) fn lock(directory: &Path, name: &str) -> Result<File> {
        let file = File::open(directory)
            .with_context(|| format!("can't open `{}`", directory.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(anyhow!("another ralph is working on the feature `{name}`"))
                    .hint("wait for it to end, or end it, and try again")
            }
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("can't lock `{}`", directory.display()))
            }
        }
    }

    /// Where a document is.
    pub(super) fn path(&self, document: Document) -> PathBuf {
        self.directory.join(document.file_name())
    }

    /// The same as a person and an agent in the project see it.
    pub(super) fn shown_path(&self, document: Document) -> String {
        let path = self.path(document);
        path.strip_prefix(self.project.root()).unwrap_or(&path).display().to_string()
    }

    /// A document as it stands in a prompt: between fences, and cut to so many tokens.
    pub(super) fn embedded(&self, document: Document, room: usize) -> String {
        let name = self.shown_path(document);
        let text = read(&self.path(document), &name, DOCUMENT_LIMIT);
        match first(&text, room) {
            whole if whole.len() == text.len() => fenced(whole, "markdown"),
            cut => {
                let fenced = fenced(cut, "markdown");
                let (kept, all) = (cut.chars().count(), text.chars().count());
                format!(
                    "{fenced}\n\n[Cut here: {kept} of {all} characters; read the rest in `{name}`]"
                )
            }
        }
    }

    pub(super) fn has(&self, document: Document) -> bool {
        document.is_written(&self.project, &self.feature.name)
    }

    /// An error unless the document is written.
    pub(super) fn require(&self, document: Document) -> Result<()> {
        if self.has(document) {
            return Ok(());
        }
        let (word, name) = (document.word(), &self.feature.name);
        Err(anyhow!("the feature `{name}` has no {word} yet"))
            .hint(format!("write it with `ralph feature {word} {name}`"))
    }

    /// Records which documents are really there. Both of them make a draft a plan.
    pub(super) fn record(&mut self, store: &mut Store) -> Result<()> {
        let path = |document| self.has(document).then(|| self.shown_path(document));
        let (spec_path, plan_path) = (path(Document::Spec), path(Document::Plan));
        let planned = self.feature.status == FeatureStatus::Draft
            && spec_path.is_some()
            && plan_path.is_some();
        let status = planned.then_some(FeatureStatus::Planned);
        let is_news = |new: &Option<String>, old: &Option<String>| new.is_some() && new != old;
        if status.is_none()
            && !is_news(&spec_path, &self.feature.spec_path)
            && !is_news(&plan_path, &self.feature.plan_path)
        {
            return Ok(());
        }
        let change = FeatureChange { status, spec_path, plan_path };
        store.update_feature(self.feature.id, &change, Timestamp::now())?;
        self.feature = store.feature(&self.feature.id.to_string())?;
        Ok(())
    }

    /// Gives up a feature that was made for nothing.
    pub(super) fn abandon(self, store: &mut Store) -> Result<()> {
        if self.is_new {
            store.forget_feature(self.feature.id)?;
            // Unless something is in it.
            let _ = fs::remove_dir(&self.directory);
        }
        Ok(())
    }
}
