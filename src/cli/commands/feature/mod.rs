//! `ralph feature`

mod build;
mod delete;
mod interview;
mod list;
mod workplace;

use std::io::Write;

use anyhow::Result;

use crate::cli::args::FeatureCommand;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::prompt::context::FeatureLine;
use crate::store::Store;
use workplace::Document;

pub(super) fn run(command: FeatureCommand, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    match command {
        FeatureCommand::Spec { name, model } => {
            interview::run(Document::Spec, &name, model.model, setup)
        }
        FeatureCommand::Plan { name, model } => {
            interview::run(Document::Plan, &name, model.model, setup)
        }
        FeatureCommand::Build { name, existing, model } => {
            build::run(&name, existing, model.model, setup, out)
        }
        FeatureCommand::List(json) => list::run(json.json, setup, out),
        FeatureCommand::Show { name, json } => list::show(&name, json.json, setup, out),
        FeatureCommand::Delete { name, keep_files, yes } => {
            delete::run(&name, keep_files, yes.yes, setup)
        }
    }
}

/// The features, as an agent is told of them.
pub(super) fn lines(store: &Store, setup: &Setup) -> Result<Vec<FeatureLine>> {
    let project = setup.project()?;
    let line = |feature: crate::dag::Feature| FeatureLine {
        has_spec: Document::Spec.is_written(&project, &feature.name),
        has_plan: Document::Plan.is_written(&project, &feature.name),
        name: feature.name,
        status: feature.status,
    };
    Ok(store.features()?.into_iter().map(line).collect())
}
