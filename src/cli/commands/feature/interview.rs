//! `ralph feature spec` and `plan`: Claude interviews a person, and a document comes of it.

use std::fs;

use anyhow::Result;

use super::lines;
use super::workplace::{Document, Workplace};
use crate::cli::exit::Exit;
use crate::cli::session::{Conversation, Ending};
use crate::cli::setup::Setup;
use crate::ops::Role;
use crate::prompt::context::Context;
use crate::prompt::room::ROOM;
use crate::prompt::{Prompt, Values};
use crate::store::Store;

pub(super) fn run(
    document: Document,
    name: &str,
    model: Option<String>,
    setup: &Setup,
) -> Result<Exit> {
    setup.require_terminal()?;
    let mut store = setup.store()?;
    let project = setup.project()?;
    let mut place = match document {
        Document::Spec => Workplace::open(&mut store, project, name)?,
        Document::Plan => Workplace::open_existing(&mut store, project, name)?,
    };
    let conversed = match document {
        Document::Spec => Ok(()),
        Document::Plan => place.require(Document::Spec),
    }
    .and_then(|()| {
        let features = lines(&store, setup)?;
        converse(document, &place, &features, model, &mut store, setup)
    });
    place.record(&mut store)?;
    let (ending, change) = match conversed {
        Ok(conversed) => conversed,
        Err(error) => {
            place.abandon(&mut store)?;
            return Err(error);
        }
    };
    let (path, name) = (place.shown_path(document), place.feature.name.clone());
    match change {
        Change::None => {
            setup.say(&format!("no {} was written; `{path}` is missing or empty", document.word()));
            place.abandon(&mut store)?;
            return Ok(ending.with_nothing_made());
        }
        Change::Same => setup.say(&format!("`{path}` is unchanged")),
        Change::New => setup.say(&format!("wrote `{path}`")),
        Change::Changed => setup.say(&format!("changed `{path}`")),
    }
    if ending.exit == Exit::Done {
        let next = match document {
            Document::Spec => "plan",
            Document::Plan => "build",
        };
        let next = setup.command(&format!("feature {next} {name}"));
        let this = setup.this_command();
        setup.say(&format!("Next: {next}   (or {this} to go on with this one)"));
    }
    Ok(ending.exit)
}

/// What a conversation did to the document.
enum Change {
    None,
    Same,
    New,
    Changed,
}

fn converse(
    document: Document,
    place: &Workplace,
    features: &[crate::prompt::context::FeatureLine],
    model: Option<String>,
    store: &mut Store,
    setup: &Setup,
) -> Result<(Ending, Change)> {
    let path = place.path(document);
    let resumes = place.has(document);
    let mut context = Context::new(setup.project()?.root(), features);
    if resumes {
        context = context.draft(&place.shown_path(document), &path);
    }
    let (spec_path, plan_path) =
        (place.shown_path(Document::Spec), place.shown_path(Document::Plan));
    let spec = place.embedded(Document::Spec, ROOM * 4 / 5);
    let context = context.into_text();
    let mut values = Values::from([
        ("name", place.feature.name.as_str()),
        ("spec_path", &spec_path),
        ("context", &context),
    ]);
    let prompt = match document {
        Document::Spec => Prompt::FeatureSpec,
        Document::Plan => {
            values.extend([("plan_path", plan_path.as_str()), ("spec", &spec)]);
            Prompt::FeaturePlan
        }
    };
    let system = prompt.render(&setup.project()?.prompts(), &values)?;
    let before = fs::read(&path).ok();
    let conversation = Conversation::new(setup, &system, model, Role::Guest)?;
    let opening = opening(document, &place.feature.name, resumes);
    let ending = conversation.hold(&opening, Some(place.feature.id), store, setup)?;
    let change = match (place.has(document), resumes) {
        (false, _) => Change::None,
        (true, false) => Change::New,
        (true, true) if fs::read(&path).ok() == before => Change::Same,
        (true, true) => Change::Changed,
    };
    Ok((ending, change))
}

/// The first message: it makes Claude speak first.
fn opening(document: Document, name: &str, resumes: bool) -> String {
    let word = document.word();
    if resumes {
        format!(
            "Resume the {word} interview for the feature \"{name}\": the current draft is in the \
             system prompt. Say briefly where we are, then continue with what is still open."
        )
    } else {
        format!("Start the {word} interview for the feature \"{name}\".")
    }
}
