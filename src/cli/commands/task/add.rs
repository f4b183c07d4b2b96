//! `ralph task add`

use std::io::{self, Write};

use anyhow::Result;

use crate::cli::args::AddArgs;
use crate::cli::exit::Exit;
use crate::cli::setup::{Setup, text_argument};
use crate::jsonl;
use crate::ops::AddTasks;
use crate::store::NewTask;

pub(super) fn run(args: AddArgs, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let tasks = if args.stdin {
        let numbered = |(line, task)| NewTask { line: Some(line), ..task };
        jsonl::read(io::stdin().lock())?.into_iter().map(numbered).collect()
    } else {
        vec![from_args(args)?]
    };
    for id in setup.dag()?.perform(AddTasks::new(tasks))? {
        writeln!(out, "{id}")?;
    }
    Ok(Exit::Done)
}

fn from_args(args: AddArgs) -> Result<NewTask> {
    Ok(NewTask {
        title: args.title.unwrap_or_default(),
        description: args
            .description
            .as_deref()
            .map(text_argument)
            .transpose()?
            .unwrap_or_default(),
        group: args.group,
        parent: args.parent,
        feature: args.feature,
        after: args.after,
        priority: args.priority,
        max_retries: args.max_retries,
        not_before: args.not_before.and_then(|it| it.0),
        key: args.key,
        line: None,
    })
}
