//! `ralph doctor --clean`

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::cli::exit::Exit;
use crate::cli::running::places;
use crate::cli::setup::Setup;
use crate::engine::{Leftovers, Pile};
use crate::store::Store;
use crate::time::Timestamp;
use crate::ui::text::{counted, printable, size};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What is worth a word: so many things, or so many bytes.
const MANY: usize = 500;
const LARGE: u64 = 500_000_000;

/// What is old and of no more use.
pub(super) struct Found {
    leftovers: Leftovers,
    keep_days: u32,
}

/// What was removed.
#[derive(Serialize)]
struct Removed<'a> {
    keep_days: u32,
    logs: PileView,
    salvage: Vec<&'a str>,
    directories: PileView,
    failures: Vec<String>,
}

#[derive(Serialize)]
struct PileView {
    count: usize,
    bytes: u64,
}

pub(super) fn run(yes: bool, json: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let found = Found::look(setup)?;
    let is_empty = found.leftovers.count() == 0;
    if is_empty && !json {
        setup.say(&format!("nothing to remove is older than {}", found.days()));
        return Ok(Exit::Done);
    }
    if !is_empty {
        if !json {
            found.list(out)?;
            out.flush()?;
        }
        let question = format!("Remove this, all of it older than {}?", found.days());
        if !setup.confirm(&question, yes)? {
            setup.say("nothing was removed");
            return Ok(Exit::Error);
        }
    }
    let failures: Vec<String> =
        found.leftovers.remove().iter().map(|error| format!("{error:#}")).collect();
    let exit = if failures.is_empty() { Exit::Done } else { Exit::Error };
    if json {
        serde_json::to_writer(&mut *out, &found.removed(failures))?;
        writeln!(out)?;
        return Ok(exit);
    }
    match failures.is_empty() {
        true => setup.say(&format!("removed {}", found.summary())),
        false => setup.say(&format!("not all of it was removed:\n{}", failures.join("\n"))),
    }
    Ok(exit)
}

impl Found {
    pub(super) fn look(setup: &Setup) -> Result<Found> {
        let settings = setup.settings()?.settings;
        let places = places(&setup.project()?, &settings, setup)?;
        let keep_days = settings.clean.keep_days;
        let before = Timestamp::now().minus(DAY.saturating_mul(keep_days));
        let path = setup.database_path()?;
        let store = path.exists().then(|| Store::open(&path)).transpose()?;
        let is_own = setup.environment.db().is_none();
        let leftovers = Leftovers::find(store.as_ref(), is_own, &places, before)?;
        Ok(Found { leftovers, keep_days })
    }

    pub(super) fn is_a_lot(&self) -> bool {
        self.leftovers.count() >= MANY || self.leftovers.bytes() >= LARGE
    }

    /// All of it in one line.
    pub(super) fn summary(&self) -> String {
        let parts: Vec<String> = self.parts().into_iter().map(|(what, _)| what).collect();
        parts.join(", ")
    }

    fn list(&self, out: &mut dyn Write) -> Result<()> {
        for (what, place) in self.parts() {
            writeln!(out, "{what} in {}", printable(&place))?;
        }
        Ok(())
    }

    /// Each kind of which there is any: what it is, and where.
    fn parts(&self) -> Vec<(String, String)> {
        let mut parts = Vec::new();
        let Leftovers { logs, directories, .. } = &self.leftovers;
        parts.extend(of_pile(logs, "session log", "session logs"));
        for (place, one, several) in [
            ("refs/ralph/salvage", "salvaged attempt", "salvaged attempts"),
            ("refs/ralph/before", "copy of your files", "copies of your files"),
        ] {
            match self.leftovers.salvages().filter(|it| it.starts_with(place)).count() {
                0 => {}
                count => parts.push((counted(count, one, several), place.to_owned())),
            }
        }
        parts.extend(of_pile(directories, "session directory", "session directories"));
        parts
    }

    /// How old all of it is, at least.
    pub(super) fn days(&self) -> String {
        counted(self.keep_days as usize, "day", "days")
    }

    fn removed(&self, failures: Vec<String>) -> Removed<'_> {
        let view = |pile: &Pile| PileView { count: pile.paths.len(), bytes: pile.bytes };
        Removed {
            keep_days: self.keep_days,
            logs: view(&self.leftovers.logs),
            salvage: self.leftovers.salvages().collect(),
            directories: view(&self.leftovers.directories),
            failures,
        }
    }
}

fn of_pile(pile: &Pile, one: &str, many: &str) -> Option<(String, String)> {
    let place = pile.paths.first()?.parent()?;
    let what = format!("{} ({})", counted(pile.paths.len(), one, many), size(pile.bytes));
    Some((what, place.display().to_string()))
}
