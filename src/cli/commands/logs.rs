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

/// How many sessions are listed for a person who names no task and no number.
const LATEST: u32 = 20;

/// Which sessions are wanted.
pub(super) struct Selection {
    pub(super) id: Option<String>,
    pub(super) number: Option<u32>,
    pub(super) limit: Option<u32>,
    pub(super) all: bool,
    pub(super) raw: bool,
    /// The sessions that verified them instead.
    pub(super) verify: bool,
}

pub(super) fn run(
    selection: &Selection,
    json: bool,
    setup: &Setup,
    out: &mut dyn Write,
) -> Result<Exit> {
    let store = setup.store()?;
    let found = selection.find(&store, json)?;
    match found {
        Found::One(attempt) if json => write_json(&[*attempt], out)?,
        Found::One(attempt) => {
            let log = if selection.verify { open_verifier(&attempt)? } else { open(&attempt)? };
            if selection.raw {
                copy_raw(log, out)?;
                return Ok(Exit::Done);
            }
            replay(log, setup, out)?;
            if !selection.verify {
                sessions::tell_of_verifiers(out, &[*attempt], setup.terminal())?;
            }
        }
        Found::Several { attempts, .. } if json => write_json(&attempts, out)?,
        Found::Several { attempts, more } => {
            sessions::list(out, &attempts, more, Timestamp::now(), setup.terminal())?;
            if selection.id.is_some() {
                sessions::tell_of_verifiers(out, &attempts, setup.terminal())?;
            }
        }
    }
    Ok(Exit::Done)
}

enum Found {
    One(Box<Attempt>),
    /// These, and so many more that are not asked for.
    Several {
        attempts: Vec<Attempt>,
        more: usize,
    },
}

impl Selection {
    fn find(&self, store: &Store, json: bool) -> Result<Found> {
        let Some(id) = &self.id else {
            let usual = if json || self.all { u32::MAX } else { LATEST };
            let attempts = store.latest_attempts(self.limit.unwrap_or(usual))?;
            let more = store.count_attempts()?.saturating_sub(attempts.len());
            return Ok(Found::Several { attempts, more });
        };
        if AttemptId::is_prefix(id) {
            if self.limit.is_some() || self.all {
                return Err(anyhow!("`{id}` is one session: there is no list to limit"))
                    .hint("name a task, or nothing, to list sessions");
            }
            return Ok(Found::One(Box::new(store.attempt(id)?)));
        }
        let task = store.find_task(id)?;
        let mut attempts = store.attempts(task)?;
        if let Some(number) = self.number {
            attempts.retain(|attempt| attempt.number == number);
        }
        match attempts.pop() {
            Some(last) if self.raw || self.verify || self.number.is_some() => {
                Ok(Found::One(Box::new(last)))
            }
            Some(last) => {
                attempts.push(last);
                let limit = self.limit.map_or(usize::MAX, |limit| limit as usize);
                let more = attempts.len().saturating_sub(limit);
                attempts.drain(..more);
                Ok(Found::Several { attempts, more })
            }
            None if self.number.is_some() => {
                Err(anyhow!("`{task}` has no attempt {}", self.number.unwrap_or_default()))
                    .hint(format!("`ralph logs {task}` shows those it has"))
            }
            None if self.raw || self.verify => Err(anyhow!("`{task}` has no sessions yet")),
            None => Ok(Found::Several { attempts, more: 0 }),
        }
    }
}

fn write_json(attempts: &[Attempt], out: &mut dyn Write) -> Result<()> {
    let mut array = Array::begin(out)?;
    attempts.iter().try_for_each(|attempt| array.push(attempt))?;
    Ok(array.end()?)
}

fn open(attempt: &Attempt) -> Result<File> {
    let missing = || anyhow!("attempt `{}` has no log", attempt.id);
    open_at(attempt.log_path.as_deref().ok_or_else(missing)?, attempt)
}

fn open_verifier(attempt: &Attempt) -> Result<File> {
    let missing = || anyhow!("no agent has verified attempt `{}`", attempt.id);
    open_at(attempt.verify_log_path.as_deref().ok_or_else(missing)?, attempt)
}

fn open_at(path: &str, attempt: &Attempt) -> Result<File> {
    let opened = File::open(path);
    if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let gone = anyhow!("the log of attempt `{}` was removed: `{path}`", attempt.id);
        let hint = "`ralph doctor --clean` removes old logs, and an export takes none along";
        return Err(gone).hint(hint);
    }
    opened
        .with_context(|| format!("can't open the log `{path}` of attempt `{}`", attempt.id))
        .hint("new logs go to ~/.local/state/ralph unless log_dir in .ralph.toml says otherwise")
}

fn copy_raw(mut log: File, out: &mut dyn Write) -> Result<()> {
    io::copy(&mut log, out)?;
    Ok(())
}

/// Shows a session again, through the same view as when it happened.
fn replay(mut log: File, setup: &Setup, out: &mut dyn Write) -> Result<()> {
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
