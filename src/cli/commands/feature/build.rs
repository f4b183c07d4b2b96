//! `ralph feature build`: Claude decomposes the plan into tasks by calling ralph itself.

use std::io::Write;

use anyhow::Result;

use super::list::{roots, work};
use super::workplace::{Document, Workplace};
use crate::agent::Report;
use crate::cli::args::Existing;
use crate::cli::exit::Exit;
use crate::cli::session::{Conversation, was_interrupted};
use crate::cli::setup::Setup;
use crate::dag::{Feature, Snapshot, State, TaskId};
use crate::ops::Role;
use crate::prompt::room::{ROOM, tokens};
use crate::prompt::{Prompt, Values};
use crate::store::Store;
use crate::time::Timestamp;
use crate::ui::{Terminal, remarks, tree};

/// What Claude is told to begin with.
const MESSAGE: &str = "Read the spec and plan, then create the task DAG. When done, stop.";
/// The same when there are tasks already.
const GO_ON: &str = "Read the spec, the plan and the tasks that exist already, then add what is \
     missing to the task DAG. When done, stop.";

pub(super) fn run(
    name: &str,
    existing: Existing,
    model: Option<String>,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut store = setup.store()?;
    let place = Workplace::open_existing(&mut store, setup.project()?, name)?;
    place.require(Document::Spec)?;
    place.require(Document::Plan)?;
    let feature = &place.feature;
    let before = store.snapshot(Timestamp::now())?;
    let tasks = work(feature, &before);
    let done = tasks.iter().filter(|&&task| before.state(task) == State::Done).count();
    match decide(feature, tasks.len(), done, existing, setup)? {
        Decision::Leave => {
            setup.say("nothing was changed");
            return Ok(Exit::Error);
        }
        Decision::Replace => {
            let removed = store.remove_unfinished(feature.id, Timestamp::now())?;
            setup.say(&format!("removed {}; what is done stays", counted(removed)));
        }
        Decision::GoOn => {}
    }
    let root = store.begin_build(feature, Timestamp::now())?;
    let session = work_out(&place, root, &mut store, model, setup, out);
    let finished = session.as_ref().is_ok_and(ended_well);
    let ready = store.end_build(feature.id, finished, Timestamp::now())?;
    conclude(feature, &session?, ready, &store, setup, out)
}

enum Decision {
    GoOn,
    Replace,
    Leave,
}

/// What is to become of tasks that are there already.
fn decide(
    feature: &Feature,
    total: usize,
    done: usize,
    existing: Existing,
    setup: &Setup,
) -> Result<Decision> {
    if total == 0 || existing.go_on {
        return Ok(Decision::GoOn);
    }
    if existing.replace {
        return Ok(Decision::Replace);
    }
    let question = format!(
        "The feature `{}` has {}, {done} of them done.\n\
         [c]ontinue and add what is missing, [r]eplace what is not done, or [q]uit?",
        feature.name,
        counted(total)
    );
    Ok(match setup.ask(&question, "repeat it with --continue or --replace")?.as_str() {
        "c" | "C" | "continue" => Decision::GoOn,
        "r" | "R" | "replace" => Decision::Replace,
        _ => Decision::Leave,
    })
}

fn work_out(
    place: &Workplace,
    root: TaskId,
    store: &mut Store,
    model: Option<String>,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Report> {
    let snapshot = store.snapshot(Timestamp::now())?;
    let is_new = work(&place.feature, &snapshot).is_empty();
    let tasks = if is_new {
        "[None yet]".to_owned()
    } else {
        drawn(&snapshot, &roots(&place.feature, &snapshot))?
    };
    let (feature, root_id) = (place.feature.id.to_string(), root.to_string());
    let (spec_path, plan_path) =
        (place.shown_path(Document::Spec), place.shown_path(Document::Plan));
    let plan = place.embedded(Document::Plan, ROOM * 2 / 5);
    let spec = place.embedded(Document::Spec, ROOM * 4 / 5 - tokens(&plan).min(ROOM * 2 / 5));
    let values = Values::from([
        ("name", place.feature.name.as_str()),
        ("root", &root_id),
        ("feature", &feature),
        ("tasks", &tasks),
        ("spec_path", &spec_path),
        ("spec", &spec),
        ("plan_path", &plan_path),
        ("plan", &plan),
    ]);
    let system = Prompt::FeatureBuild.render(&setup.project()?.prompts(), &values)?;
    let conversation = Conversation::new(setup, &system, model, Role::Builder { root })?;
    let message = if is_new { MESSAGE } else { GO_ON };
    conversation.build(message, &place.feature, store, setup, out)
}

fn drawn(snapshot: &Snapshot, roots: &[usize]) -> Result<String> {
    let mut text = Vec::new();
    tree::write(&mut text, snapshot, roots, Terminal::PLAIN)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn ended_well(report: &Report) -> bool {
    report.facts.trouble.is_none() && !was_interrupted(report)
}

/// Shows what was made and says what to do next.
fn conclude(
    feature: &Feature,
    report: &Report,
    ready: bool,
    store: &Store,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let snapshot = store.snapshot(Timestamp::now())?;
    let (roots, work) = (roots(feature, &snapshot), work(feature, &snapshot));
    if !roots.is_empty() {
        writeln!(out)?;
        tree::write(out, &snapshot, &roots, setup.terminal())?;
        out.flush()?;
    }
    let name = &feature.name;
    if ready {
        let inside: Vec<usize> = snapshot.walk(&roots).into_iter().map(|(task, _)| task).collect();
        let ids: Vec<_> = inside.iter().map(|&task| snapshot.tasks[task].id).collect();
        let described: Vec<bool> = store
            .tasks(&ids)?
            .iter()
            .map(|task| task.as_ref().is_none_or(|task| !task.description.trim().is_empty()))
            .collect();
        let described = inside.iter().copied().zip(described);
        for remark in remarks::remarks(&snapshot, described) {
            setup.say(&format!("remark: {remark}"));
        }
        let next = setup.command(&format!("run {name}"));
        setup.say(&format!("{} in `{name}`\nNext: {next}", counted(work.len())));
        return Ok(Exit::Done);
    }
    let kept = match work.len() {
        0 => "no task was created".to_owned(),
        count => format!(
            "{} kept, but not worked on; `ralph feature build {name}` goes on or replaces what is there",
            counted(count)
        ),
    };
    if was_interrupted(report) {
        setup.say(&format!("interrupted: {kept}"));
        return Ok(Exit::Interrupted);
    }
    match &report.facts.trouble {
        Some(trouble) => setup.say(&format!("the build failed: {trouble}; {kept}")),
        None => setup.say(&format!("the build came to nothing: {kept}")),
    }
    if let Some(words) = report.last_words() {
        setup.say(&words);
    }
    Ok(Exit::Error)
}

fn counted(tasks: usize) -> String {
    if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks") }
}
