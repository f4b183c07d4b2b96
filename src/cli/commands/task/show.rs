//! `ralph task show`

use std::io::Write;

use anyhow::{Result, anyhow};

use crate::cli::args::OneTask;
use crate::cli::commands::feature_names;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::time::Timestamp;
use crate::ui::json::{self, TaskView};
use crate::ui::show::{self, Detail};

pub(super) fn run(one: &OneTask, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let store = setup.store()?;
    let now = Timestamp::now();
    let (snapshot, index) = store.snapshot_around(&one.id, now)?;
    let id = snapshot.tasks[index].id;
    let task = store.task(id)?.ok_or_else(|| anyhow!("`{id}` was deleted just now"))?;
    let (attempts, log) = (store.attempts(id)?, store.task_log(id)?);
    let features = feature_names(&store)?;
    if one.json.json {
        let view = TaskView::new(&task, &snapshot, index, &features);
        json::write(out, &TaskView { history: Some(&attempts), log: Some(&log), ..view })?;
    } else {
        let feature = task.feature.and_then(|id| features.get(&id)).map(String::as_str);
        let (attempts, log) = (attempts.as_slice(), log.as_slice());
        let detail =
            Detail { task: &task, snapshot: &snapshot, index, feature, attempts, log, now };
        show::task(out, &detail, setup.terminal())?;
    }
    Ok(Exit::Done)
}
