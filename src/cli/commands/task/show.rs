//! `ralph task show`

use std::io::Write;

use anyhow::Result;

use crate::cli::args::OneTask;
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::ops::{ShowTask, Shown};
use crate::time::Timestamp;
use crate::ui::json::{self, TaskView};
use crate::ui::show::{self, Detail};

pub(super) fn run(one: &OneTask, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let Shown { task, snapshot, index, features, attempts, log } =
        setup.dag()?.perform(ShowTask { id: one.id.clone() })?;
    if one.json.json {
        let view = TaskView::new(&task, &snapshot, index, &features);
        json::write(out, &TaskView { history: Some(&attempts), log: Some(&log), ..view })?;
    } else {
        let feature = task.feature.and_then(|id| features.get(&id)).map(String::as_str);
        let (attempts, log) = (attempts.as_slice(), log.as_slice());
        let (task, snapshot, now) = (&task, &snapshot, Timestamp::now());
        let detail = Detail { task, snapshot, index, feature, attempts, log, now };
        show::task(out, &detail, setup.terminal())?;
    }
    Ok(Exit::Done)
}
