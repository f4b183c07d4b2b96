//! `ralph logs`

use std::fs::File;
use std::io::{self, Read, Write};

use anyhow::{Context, Result, anyhow};

use crate::agent::{Lines, Parser};
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::dag::{Attempt, AttemptId};
use crate::hint::HintExt;
use crate::store::Store;
use crate::time::Timestamp;
use crate::ui::json::Array;
use crate::ui::session::SessionView;
use crate::ui::sessions;

/// How many sessions are listed when no task is named.
const LATEST: u32 = 20;

/// Which sessions are wanted.
pub(super) struct Selection {
    pub(super) id: Option<String>,
    pub(super) number: Option<u32>,
    pub(super) raw: bool,
}

pub(super) fn run(
    selection: &Selection,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let store = setup.store()?;
    let found = selection.find(&store)?;
    match found {
        Found::One(attempt) if selection.raw => copy_raw(&attempt, out)?,
        Found::One(attempt) if !json => replay(&attempt, setup, out)?,
        Found::One(attempt) => write_json(&[*attempt], out)?,
        Found::Several(attempts) if json => write_json(&attempts, out)?,
        Found::Several(attempts) => {
            sessions::list(out, &attempts, Timestamp::now(), setup.terminal())?;
        }
    }
    Ok(Exit::Done)
}

enum Found {
    One(Box<Attempt>),
    Several(Vec<Attempt>),
}

impl Selection {
    fn find(&self, store: &Store) -> Result<Found> {
        let Some(id) = &self.id else {
            return Ok(Found::Several(store.latest_attempts(LATEST)?));
        };
        if AttemptId::is_prefix(id) {
            return Ok(Found::One(Box::new(store.attempt(id)?)));
        }
        let task = store.find_task(id)?;
        let mut attempts = store.attempts(task)?;
        if let Some(number) = self.number {
            attempts.retain(|attempt| attempt.number == number);
        }
        match attempts.pop() {
            Some(last) if self.raw || self.number.is_some() => Ok(Found::One(Box::new(last))),
            Some(last) => {
                attempts.push(last);
                Ok(Found::Several(attempts))
            }
            None if self.number.is_some() => {
                Err(anyhow!("`{task}` has no attempt {}", self.number.unwrap_or_default()))
                    .hint(format!("`ralph logs {task}` shows those it has"))
            }
            None if self.raw => Err(anyhow!("nobody has worked on `{task}` yet")),
            None => Ok(Found::Several(attempts)),
        }
    }
}

fn write_json(attempts: &[Attempt], out: &mut dyn Write) -> Result<()> {
    let mut array = Array::begin(out)?;
    attempts.iter().try_for_each(|attempt| array.push(attempt))?;
    Ok(array.end()?)
}

fn open(attempt: &Attempt) -> Result<File> {
    let path = attempt
        .log_path
        .as_deref()
        .ok_or_else(|| anyhow!("attempt `{}` has no log", attempt.id))?;
    File::open(path)
        .with_context(|| format!("can't open the log `{path}` of attempt `{}`", attempt.id))
        .hint("logs are in the temporary directory unless log_dir in .ralph.toml says otherwise")
}

fn copy_raw(attempt: &Attempt, out: &mut dyn Write) -> Result<()> {
    io::copy(&mut open(attempt)?, out)?;
    Ok(())
}

/// Shows a session again, through the same view as when it happened.
fn replay(attempt: &Attempt, setup: &Setup, out: &mut dyn Write) -> Result<()> {
    let mut log = open(attempt)?;
    let root = setup.project().map_or(setup.directory()?, |project| project.root().to_owned());
    let (mut parser, mut lines) = (Parser::new(), Lines::default());
    let mut view = SessionView::new(setup.terminal(), &root);
    let mut buffer = vec![0; 64 << 10];
    let mut shown = Ok(());
    loop {
        let count = log.read(&mut buffer)?;
        let mut show = |line: &[u8]| {
            parser.parse(line, &mut |event| {
                if shown.is_ok() {
                    shown = view.show(out, &event);
                }
            });
        };
        if count == 0 {
            lines.finish(&mut show);
            shown?;
            return Ok(view.close(out)?);
        }
        lines.push(&buffer[..count], &mut show);
        if shown.is_err() {
            return Ok(shown?);
        }
    }
}
