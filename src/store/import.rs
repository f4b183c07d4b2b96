//! Reads what `export` writes and merges it by id: what the file says wins, what it does not mention
//! stays. Everything is checked before anything is kept.

use std::collections::HashMap;
use std::io::BufRead;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rusqlite::{OptionalExtension, Transaction, params};

use super::Store;
use super::check::{STRANGE_FAMILIES, rebuild, rebuild_claims};
use super::export::{Dependency, Log, Record, Run, VERSION};
use super::resolve::shorten;
use super::sessions;
use super::validate::{check_description, check_key, check_text, check_title};
use crate::dag::{Attempt, Feature, Kind, Status, Task, TaskId, check_feature_name};
use crate::jsonl;

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Features in the file.
    pub features: usize,
    /// Tasks in the file.
    pub tasks: usize,
    /// Those of them that were not there before.
    pub new_tasks: usize,
    /// Dependencies in the file.
    pub dependencies: usize,
}

impl Store {
    /// Merges an export into the database: all of it, or nothing.
    pub fn import(&mut self, lines: impl BufRead) -> Result<Imported> {
        let records: Vec<Numbered> = jsonl::read(lines)?;
        for (number, record) in &records {
            validate(record).with_context(|| format!("line {number}"))?;
        }
        self.write_durably(|tx| Import::new(tx, &records)?.run())
    }
}

/// A record and the line it came from.
type Numbered = (usize, Record);

/// What can be said about a record by itself.
fn validate(record: &Record) -> Result<()> {
    match record {
        Record::Export(header) => ensure!(
            header.version == VERSION,
            "this is version {} of the format; this ralph reads version {VERSION}",
            header.version
        ),
        Record::Feature(feature) => check_feature_name(&feature.name)?,
        Record::Run(run) => {
            ensure!(
                matches!(run.kind.as_str(), "run" | "loop"),
                "`{}` is no kind of run",
                shorten(&run.kind)
            );
        }
        Record::Task(task) => validate_task(task)?,
        Record::Dependency(dependency) => ensure!(
            dependency.blocker != dependency.blocked,
            "`{}` can't wait for itself",
            dependency.blocked
        ),
        Record::Attempt(attempt) => ensure!(
            attempt.ended_at.is_some() && attempt.outcome.is_some(),
            "attempt `{}` has not ended",
            attempt.id
        ),
        Record::Session(session) => ensure!(
            session.cost_usd.is_finite() && session.cost_usd >= 0.0,
            "session `{}` can't have cost {}",
            session.id,
            session.cost_usd
        ),
        Record::Log(log) => check_text("the message", &log.message)?,
    }
    Ok(())
}

fn validate_task(task: &Task) -> Result<()> {
    check_title(&task.title)?;
    check_description(&task.description)?;
    task.key.as_deref().map_or(Ok(()), check_key)?;
    match (task.kind, task.status) {
        (Kind::Work, Some(_)) | (Kind::Group, None | Some(Status::Blocked)) => {}
        (Kind::Work, None) => bail!("the work task `{}` has no status", task.id),
        (Kind::Group, Some(status)) => {
            bail!("`{}` is a group and can't be {status} by itself", task.id)
        }
    }
    let stopped = matches!(task.status, Some(Status::Blocked | Status::Failed));
    ensure!(task.reason.is_none() || stopped, "`{}` has a reason but is not stopped", task.id);
    ensure!(task.parent != Some(task.id), "`{}` can't be its own parent", task.id);
    Ok(())
}

struct Import<'a> {
    tx: &'a Transaction<'a>,
    records: &'a [Numbered],
    /// The line of each task in the file.
    lines: HashMap<TaskId, usize>,
    /// Whether the file has the sessions of its attempts; older exports do not.
    has_sessions: bool,
    imported: Imported,
}

impl<'a> Import<'a> {
    fn new(tx: &'a Transaction<'a>, records: &'a [Numbered]) -> Result<Import<'a>> {
        let mut lines = HashMap::new();
        for (line, record) in records {
            if let Record::Task(task) = record
                && let Some(first) = lines.insert(task.id, *line)
            {
                bail!("line {line}: `{}` stands on line {first} already", task.id);
            }
        }
        let has_sessions = records.iter().any(|(_, record)| matches!(record, Record::Session(_)));
        Ok(Import { tx, records, lines, has_sessions, imported: Imported::default() })
    }

    /// Each round relies on what the one before it has written.
    fn run(mut self) -> Result<Imported> {
        rebuild_claims(self.tx)?;
        self.each(|import, record| match record {
            Record::Feature(feature) => import.feature(feature),
            Record::Run(run) => import.run_record(run),
            _ => Ok(()),
        })?;
        self.each(|import, record| match record {
            Record::Task(task) => import.task(task),
            _ => Ok(()),
        })?;
        self.each(|import, record| match record {
            Record::Task(task) => import.parent(task),
            Record::Dependency(dependency) => import.dependency(dependency),
            Record::Attempt(attempt) => import.attempt(attempt),
            Record::Session(session) => sessions::insert(import.tx, session).map(|_| ()),
            Record::Log(log) => import.log(log),
            Record::Export(_) | Record::Feature(_) | Record::Run(_) => Ok(()),
        })?;
        self.check_families()?;
        rebuild(self.tx)?;
        Ok(self.imported)
    }

    fn each(&mut self, step: impl Fn(&mut Self, &Record) -> Result<()>) -> Result<()> {
        for (line, record) in self.records {
            step(self, record).map_err(|error| {
                match error
                    .downcast_ref::<rusqlite::Error>()
                    .and_then(rusqlite::Error::sqlite_error_code)
                {
                    Some(rusqlite::ErrorCode::ConstraintViolation) => {
                        anyhow!("line {line}: it contradicts itself or what is there")
                    }
                    _ if error.is::<rusqlite::Error>() => error,
                    _ => error.context(format!("line {line}")),
                }
            })?;
        }
        Ok(())
    }

    fn feature(&mut self, feature: &Feature) -> Result<()> {
        self.imported.features += 1;
        let same_name: Option<String> = self
            .tx
            .query_row(
                "select id from features where name = ?1 and id <> ?2",
                (&feature.name, feature.id),
                |row| row.get(0),
            )
            .optional()?;
        if let Some(other) = same_name {
            bail!("the name `{}` belongs to another feature, `{other}`", feature.name);
        }
        self.tx
            .prepare_cached(
                "insert into features (id, name, status, spec_path, plan_path, created_at, updated_at)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 on conflict (id) do update set
                     name = excluded.name, status = excluded.status,
                     spec_path = excluded.spec_path, plan_path = excluded.plan_path,
                     created_at = excluded.created_at, updated_at = excluded.updated_at",
            )?
            .execute(params![
                feature.id,
                feature.name,
                feature.status,
                feature.spec_path,
                feature.plan_path,
                feature.created_at,
                feature.updated_at,
            ])?;
        Ok(())
    }

    fn run_record(&mut self, run: &Run) -> Result<()> {
        self.tx
            .prepare_cached(
                "insert into runs (
                     id, kind, started_at, ended_at, outcome, max_iterations, max_seconds, max_cost,
                     iterations, cost_usd
                 )
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 on conflict (id) do nothing",
            )?
            .execute(params![
                run.id,
                run.kind,
                run.started_at,
                run.ended_at,
                run.outcome,
                run.max_iterations,
                run.max_seconds,
                run.max_cost,
                run.iterations,
                run.cost_usd,
            ])?;
        Ok(())
    }

    fn task(&mut self, task: &Task) -> Result<()> {
        self.imported.tasks += 1;
        let claimed: Option<bool> = self
            .tx
            .prepare_cached("select claimed from tasks where id = ?")?
            .query_row([task.id], |row| row.get(0))
            .optional()?;
        self.imported.new_tasks += usize::from(claimed.is_none());
        if claimed == Some(true) && task.status.is_some_and(|status| status != Status::Pending) {
            bail!("`{}` is in progress here; stop its run first", task.id);
        }
        if let Some(key) = &task.key
            && let Some(other) = self.task_with_key(key)?.filter(|&other| other != task.id)
        {
            bail!("the key `{key}` belongs to another task, `{other}`");
        }
        if let Some(feature) = task.feature {
            let known =
                self.tx.prepare_cached("select 1 from features where id = ?")?.exists([feature])?;
            ensure!(known, "there is no feature `{feature}`");
        }
        self.tx
            .prepare_cached(
                "insert into tasks (
                     id, key, kind, feature, title, description, priority, status, reason, retries,
                     max_retries, not_before, created_by, created_at, updated_at, starts, ends
                 )
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 0, 1)
                 on conflict (id) do update set
                     key = excluded.key, kind = excluded.kind, feature = excluded.feature,
                     title = excluded.title, description = excluded.description,
                     priority = excluded.priority, status = excluded.status,
                     reason = excluded.reason, retries = excluded.retries,
                     max_retries = excluded.max_retries, not_before = excluded.not_before,
                     created_by = excluded.created_by, created_at = excluded.created_at,
                     updated_at = excluded.updated_at",
            )?
            .execute(params![
                task.id,
                task.key,
                task.kind,
                task.feature,
                task.title.trim(),
                task.description,
                task.priority,
                task.status,
                task.reason,
                task.retries,
                task.max_retries,
                task.not_before,
                task.created_by,
                task.created_at,
                task.updated_at,
            ])?;
        Ok(())
    }

    fn task_with_key(&self, key: &str) -> Result<Option<TaskId>> {
        Ok(self
            .tx
            .prepare_cached("select id from tasks where key = ?")?
            .query_row([key], |row| row.get(0))
            .optional()?)
    }

    fn parent(&mut self, task: &Task) -> Result<()> {
        let parent = task.parent.map(|parent| self.seq(parent)).transpose()?;
        self.tx
            .prepare_cached("update tasks set parent = ?2 where id = ?1")?
            .execute((task.id, parent))?;
        Ok(())
    }

    fn dependency(&mut self, dependency: &Dependency) -> Result<()> {
        self.imported.dependencies += 1;
        let (blocker, blocked) = (self.seq(dependency.blocker)?, self.seq(dependency.blocked)?);
        self.tx
            .prepare_cached(
                "insert into dependencies (blocker, blocked) values (?1, ?2) on conflict do nothing",
            )?
            .execute((blocker, blocked))?;
        Ok(())
    }

    fn attempt(&mut self, attempt: &Attempt) -> Result<()> {
        let task = self.seq(attempt.task)?;
        if let Some(run) = attempt.run {
            let known = self.tx.prepare_cached("select 1 from runs where id = ?")?.exists([run])?;
            ensure!(known, "there is no run `{run}`");
        }
        self.tx
            .prepare_cached(
                "insert into attempts (
                     id, task, number, run, model, started_at, ended_at, outcome, reason, exit_code,
                     cost_usd, input_tokens, output_tokens, turns, log_path, session_id, head_before,
                     head_after, verification_status, verify_log_path, cache_read_tokens,
                     cache_write_tokens, billing
                 )
                 values (
                     ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                     ?21, ?22, ?23
                 )
                 on conflict (id) do nothing",
            )?
            .execute(params![
                attempt.id,
                task,
                attempt.number,
                attempt.run,
                attempt.model,
                attempt.started_at,
                attempt.ended_at,
                attempt.outcome,
                attempt.reason,
                attempt.exit_code,
                attempt.cost_usd,
                attempt.input_tokens,
                attempt.output_tokens,
                attempt.turns,
                attempt.log_path,
                attempt.session_id,
                attempt.head_before,
                attempt.head_after,
                attempt.verification_status,
                attempt.verify_log_path,
                attempt.cache_read_tokens,
                attempt.cache_write_tokens,
                attempt.billing,
            ])?;
        if !self.has_sessions
            && let Some(session) = sessions::of_attempt(attempt)
        {
            sessions::insert(self.tx, &session)?;
        }
        Ok(())
    }

    fn log(&mut self, log: &Log) -> Result<()> {
        let task = self.seq(log.task)?;
        self.tx
            .prepare_cached(
                "insert into task_logs (task, at, event, author, message)
                 values (?1, ?2, ?3, ?4, ?5)
                 on conflict do nothing",
            )?
            .execute((task, log.at, log.event, log.author, &log.message))?;
        Ok(())
    }

    fn seq(&self, id: TaskId) -> Result<i64> {
        self.tx
            .prepare_cached("select seq from tasks where id = ?")?
            .query_row([id], |row| row.get(0))
            .optional()?
            .ok_or_else(|| anyhow!("there is no task `{id}`"))
    }

    /// Parents must be groups of the same feature.
    fn check_families(&self) -> Result<()> {
        let wrong: Option<(TaskId, TaskId, Kind)> = self
            .tx
            .query_row(
                &format!(
                    "select child.id, parent.id, parent.kind {STRANGE_FAMILIES}
                     order by child.seq
                     limit 1"
                ),
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let Some((child, parent, kind)) = wrong else { return Ok(()) };
        let line = self.lines.get(&child).or_else(|| self.lines.get(&parent));
        let place = line.map_or(String::new(), |line| format!("line {line}: "));
        match kind {
            Kind::Work => bail!("{place}the parent of `{child}`, `{parent}`, is not a group"),
            Kind::Group => {
                bail!("{place}`{child}` and its parent `{parent}` belong to different features")
            }
        }
    }
}
