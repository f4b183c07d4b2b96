//! The project of the demo, and what the agent does in each session: all that is made up is here.

/// The feature that is built.
pub const FEATURE: &str = "wordcount";
/// What the interview about it would have written.
pub const SPEC: &str = include_str!("files/spec.md");
/// How it is to be done.
pub const PLAN: &str = include_str!("files/plan.md");
/// What is in the repository before anything is built.
pub const FILES: &[(&str, &str)] = &[("check.sh", include_str!("files/check.sh"))];

/// One thing that the agent does.
pub(super) enum Step {
    /// It says this.
    Say(&'static str),
    /// It writes this file.
    Write(&'static str, &'static str),
    /// It runs this in a shell.
    Run(&'static str),
    /// It adds a task by `ralph task add` with these arguments, and will call it by this name.
    Add(&'static str, &'static str),
}

use Step::{Add, Run, Say, Write};

/// It turns the plan into tasks. `{root}` is the group that stands for the feature, a name in braces
/// a task that was added before.
pub(super) const BUILD: &[Step] = &[
    Say("Three parts: counting, which ranking waits for, and a README at the end."),
    Add("counting", "'Counting' --group --parent {root} -d 'Plan 1: words.sh and count.sh.'"),
    Add(
        "words",
        "'Split a text into words' --parent {counting} --key words \
         -d 'Write words.sh (spec R1). Acceptance criteria: `sh check.sh` says `words.sh: ok`.'",
    ),
    Add(
        "count",
        "'Count each word' --parent {counting} --after {words} --key count \
         -d 'Write count.sh (spec R2). Acceptance criteria: `sh check.sh` says `count.sh: ok`.'",
    ),
    Add(
        "top",
        "'Show the most frequent words' --parent {root} --after {counting} --key top \
         -d 'Write top.sh (spec R3). Acceptance criteria: `sh check.sh` says `top.sh: ok`.'",
    ),
    Add(
        "readme",
        "'Explain how to use it' --parent {root} --after {top} --key readme \
         -d 'Write README.md (spec R4). Acceptance criteria: its example prints what it shows.'",
    ),
    Run("ralph task tree {root}"),
    Say("Four tasks in their order; the first one can start at once."),
];

/// It works on the task with this key. What it was `told` may say why an earlier attempt failed.
pub(super) fn work(key: &str, told: &str) -> &'static [Step] {
    match key {
        "words" => WORDS,
        "count" if told.contains("count.sh: expected") => COUNT_AGAIN,
        "count" => COUNT,
        "top" => TOP,
        "readme" => README,
        _ => UNKNOWN,
    }
}

const WORDS: &[Step] = &[
    Say("Everything that is not a letter separates words."),
    Write("words.sh", include_str!("files/words.sh")),
    Run("sh check.sh"),
    Run("git add words.sh && git commit -qm 'Split a text into words' && git log --oneline -1"),
    Run("ralph task log $RALPH_TASK_ID -m 'words.sh prints no empty lines'"),
    DONE,
];

const COUNT: &[Step] = &[
    Say("sort and uniq do that; nothing to check there."),
    Write("count.sh", include_str!("files/count_wrong.sh")),
    Run("git add count.sh && git commit -qm 'Count each word' && git log --oneline -1"),
    DONE,
];

const COUNT_AGAIN: &[Step] = &[
    Say("There were blanks before the numbers. This time I check before I say so."),
    Write("count.sh", include_str!("files/count.sh")),
    Run("sh check.sh"),
    Run("git commit -qam 'Count without blanks before the numbers' && git log --oneline -1"),
    DONE,
];

const TOP: &[Step] = &[
    Say("By number, then by word, so that the order is always the same."),
    Write("top.sh", include_str!("files/top.sh")),
    Run("sh check.sh"),
    Run("git add top.sh && git commit -qm 'Show the most frequent words' && git log --oneline -1"),
    DONE,
];

const README: &[Step] = &[
    Run("echo 'The cat saw the dog. The end!' | sh top.sh 2"),
    Write("README.md", include_str!("files/usage.md")),
    Run("git add README.md && git commit -qm 'Explain how to use it' && git log --oneline -1"),
    DONE,
];

const DONE: Step = Say("<task-done>{task}</task-done>");

const UNKNOWN: &[Step] =
    &[Say("I am a script and know nothing but the demo. With `agent.command = \"claude\"` in \
         .ralph.toml Claude does this task.\n<task-failed>{task}</task-failed>")];

/// It checks what another session says it did.
pub(super) const VERIFY: &[Step] =
    &[Run("git show --stat --format=%s"), Run("sh check.sh"), Say("<verify-pass/>")];
