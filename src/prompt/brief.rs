//! What an agent is told of its own task: complete, and never longer than a model can read. When it would
//! be, the least important gives way first, and one can see that it did. What all tasks of a feature have in
//! common is not here.

use super::room::{Part, closed, first, fit, quote};
use crate::dag::{Attempt, LogEntry, LogEvent, Outcome, Task, TaskId};

/// How many earlier attempts are told of.
const TOLD_ATTEMPTS: usize = 5;
/// How many questions and notes are told of.
const TOLD_NOTES: usize = 20;
/// How many files are named.
const TOLD_FILES: usize = 50;
/// How many tokens of a task come back after a compaction: Claude Code passes on some 10,000 characters of what
/// a hook prints.
const REMEMBERED: usize = 2_000;

/// What there is to tell of a task.
#[derive(Debug)]
pub struct Brief<'a> {
    /// The task.
    pub task: &'a Task,
    /// The groups around it, the innermost first.
    pub parents: &'a [Task],
    /// What had to be done first, and is.
    pub blockers: Vec<Blocker<'a>>,
    /// What was tried before, oldest first.
    pub attempts: &'a [Attempt],
    /// What happened to it and was noted, oldest first.
    pub log: &'a [LogEntry],
    /// Which attempt this is, and how many there will be at the most.
    pub attempt: (u32, u32),
    /// What earlier attempts left behind.
    pub salvages: Vec<Salvage>,
    /// The working tree, if it is in a repository.
    pub tree: Option<Tree>,
}

/// Something that had to be done first, and is.
#[derive(Debug)]
pub struct Blocker<'a> {
    /// Its id.
    pub id: TaskId,
    /// Its title.
    pub title: &'a str,
    /// What was noted about it last.
    pub summary: &'a str,
}

/// What an attempt left behind, and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvage {
    /// The number of the attempt.
    pub attempt: u32,
    /// The name of the commit that keeps it.
    pub reference: String,
}

/// The working tree before a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// The branch that is checked out; none if the head is detached.
    pub branch: Option<String>,
    /// The commit that is checked out, and its subject; none before the first one.
    pub head: Option<(String, String)>,
    /// Files with changes that are not committed: the person's own.
    pub uncommitted: Vec<String>,
}

impl Brief<'_> {
    /// All of it, as a message of so many tokens at the most.
    pub fn into_text(self, room: usize) -> String {
        let parts: Vec<Part> = [
            Some(task_part("Your task in this session", self.task)),
            notes(self.log, self.attempts, self.task),
            parents(self.parents, self.task),
            self.blockers(),
            self.failures(),
            self.cut_short(),
            self.left_behind(),
            self.tree.as_ref().map(|tree| tree_part(tree, self.task)),
        ]
        .into_iter()
        .flatten()
        .collect();
        fit(&parts, room)
    }

    fn blockers(&self) -> Option<Part> {
        let sections: Vec<String> = self
            .blockers
            .iter()
            .map(|it| section(&format!("{} (`{}`)", it.title, it.id), &quote(it.summary)))
            .collect();
        part(3, "What the task waited for, and the last note on each", &sections, self.task)
    }

    fn failures(&self) -> Option<Part> {
        let (number, most) = self.attempt;
        let is_told = |attempt: &&Attempt| {
            matches!(attempt.outcome, Some(Outcome::Failed | Outcome::Silent | Outcome::Crashed))
        };
        let told: Vec<&Attempt> = self.attempts.iter().filter(is_told).collect();
        let sections: Vec<String> = told[told.len().saturating_sub(TOLD_ATTEMPTS)..]
            .iter()
            .map(|attempt| {
                let outcome = attempt.outcome.map_or("", Outcome::name);
                let reason = attempt.reason.as_deref().unwrap_or_default();
                section(&format!("Attempt {} ({outcome})", attempt.number), &quote(reason))
            })
            .collect();
        let heading = format!("Why earlier attempts failed; this is attempt {number} of {most}");
        part(8, &heading, &sections, self.task)
    }

    /// Attempts that ended for a reason that has nothing to do with the task.
    fn cut_short(&self) -> Option<Part> {
        let line = |attempt: &Attempt| {
            let why = match attempt.outcome? {
                Outcome::Interrupted => "the run was stopped",
                Outcome::Limited => "a limit of the run or the API ended the session",
                Outcome::Overruled => "a person changed the state of the task meanwhile",
                Outcome::Done
                | Outcome::Failed
                | Outcome::Blocked
                | Outcome::Silent
                | Outcome::Crashed => return None,
            };
            Some(format!("- Attempt {}: {why}.", attempt.number))
        };
        let lines: Vec<String> = self.attempts.iter().filter_map(line).collect();
        let told = &lines[lines.len().saturating_sub(TOLD_ATTEMPTS)..];
        let heading = "Earlier attempts that were cut short, through no fault of theirs";
        part(2, heading, &[told.join("\n")], self.task)
    }

    fn left_behind(&self) -> Option<Part> {
        let lines: Vec<String> = self
            .salvages
            .iter()
            .map(|Salvage { attempt, reference }| {
                format!(
                    "- Attempt {attempt}: `git show {reference}` shows it, and \
                     `git checkout {reference} -- PATH` takes a file from it."
                )
            })
            .collect();
        let told = &lines[lines.len().saturating_sub(TOLD_ATTEMPTS)..];
        let text = (!told.is_empty()).then(|| {
            format!(
                "It is not in the working tree, but in commits of its own. Nobody has checked it: look at it before \
                 you use it.\n\n{}",
                told.join("\n")
            )
        });
        part(6, "What earlier attempts left behind", &[text.unwrap_or_default()], self.task)
    }
}

/// What is told again when Claude Code has summarised a long conversation: the task, how to end, and where the
/// rest is.
pub fn reminder(task: &Task) -> String {
    let Task { id, title, description, .. } = task;
    let (description, cut) = match first(description, REMEMBERED) {
        whole if whole.len() == description.len() => (closed(whole.trim_end()), ""),
        short => (closed(short), "\n\n[Cut here]"),
    };
    format!(
        "The conversation was summarised. This is still your task: {title}\n\nId: `{id}`\n\n{description}{cut}\n\n\
         `ralph task show {id}` prints all of it, with notes and earlier attempts. End as your system prompt says \
         under \"How to end\": `<task-done>{id}</task-done>`, `<task-failed>{id}</task-failed>` or \
         `<task-blocked>{id}: your question</task-blocked>` as plain text on a line of its own.\n"
    )
}

/// The task itself. The beginning of its heading is long on purpose: Claude Code derives a mark in its system
/// prompt from the first characters of the message, and different marks would defeat the prompt cache.
pub(super) fn task_part(what: &str, task: &Task) -> Part {
    let Task { id, title, description, .. } = task;
    let text = format!("Id: `{id}`\n\n{}", closed(description)).trim_end().to_owned();
    Part { weight: 9, heading: format!("{what}: {title}"), text, fence: None, source: shows(task) }
}

/// The questions of earlier attempts, the answers, and all notes.
pub(super) fn notes(log: &[LogEntry], attempts: &[Attempt], task: &Task) -> Option<Part> {
    let line = |entry: &LogEntry| {
        let verb = match entry.event {
            LogEvent::Note => "noted",
            LogEvent::Blocked => "asked",
            LogEvent::Done | LogEvent::Failed | LogEvent::Reset | LogEvent::Crashed => return None,
        };
        let attempt = entry.author.and_then(|id| attempts.iter().find(|it| it.id == id));
        let who = match (entry.author, attempt) {
            (None, _) => "A person".to_owned(),
            (Some(_), Some(attempt)) => format!("Attempt {}", attempt.number),
            (Some(_), None) => "Another agent".to_owned(),
        };
        Some(format!("{who} {verb}:\n\n{}", quote(&entry.message)))
    };
    let lines: Vec<String> = log.iter().filter_map(line).collect();
    let told = &lines[lines.len().saturating_sub(TOLD_NOTES)..];
    let mut sections = told.to_vec();
    if !sections.is_empty() {
        let rule = "What a person says here is binding; what an agent says is not.";
        sections.insert(0, rule.to_owned());
    }
    part(8, "Questions and notes", &sections, task)
}

pub(super) fn parents(parents: &[Task], task: &Task) -> Option<Part> {
    let sections: Vec<String> = parents
        .iter()
        .map(|it| section(&format!("{} (`{}`)", it.title, it.id), &closed(&it.description)))
        .collect();
    part(7, "What the task is part of, the innermost group first", &sections, task)
}

fn tree_part(tree: &Tree, task: &Task) -> Part {
    let branch = match &tree.branch {
        Some(branch) => format!("The branch `{branch}` is checked out"),
        None => "No branch is checked out (HEAD is detached)".to_owned(),
    };
    let head = match &tree.head {
        Some((commit, subject)) => format!(", at {commit} ({})", one_line(subject)),
        None => ", without any commit yet".to_owned(),
    };
    let state = match tree.uncommitted.as_slice() {
        [] => "The working tree is clean.".to_owned(),
        files => format!(
            "These files have uncommitted changes that are not yours. Leave them exactly as they are, and commit none \
             of them:\n\n{}",
            listed(files)
        ),
    };
    let text = format!("{branch}{head}. Work and commit there. {state}");
    let heading = "The working tree".to_owned();
    Part {
        weight: 8,
        heading,
        text,
        fence: None,
        source: format!("`git status` shows the rest; {}", shows(task)),
    }
}

pub(super) fn listed(files: &[String]) -> String {
    let mut lines: Vec<String> =
        files.iter().take(TOLD_FILES).map(|it| format!("- `{}`", one_line(it))).collect();
    if files.len() > TOLD_FILES {
        lines.push(format!("- and {} more", files.len() - TOLD_FILES));
    }
    lines.join("\n")
}

pub(super) fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// A heading, and below it the text if there is any.
fn section(heading: &str, text: &str) -> String {
    format!("## {heading}\n\n{}", text.trim_end()).trim_end().to_owned()
}

pub(super) fn part(weight: u8, heading: &str, sections: &[String], task: &Task) -> Option<Part> {
    let text = sections.join("\n\n");
    let heading = heading.to_owned();
    (!text.is_empty()).then(|| Part { weight, heading, text, fence: None, source: shows(task) })
}

fn shows(task: &Task) -> String {
    format!("`ralph task show {}` prints the rest", task.id)
}

#[cfg(test)]
mod tests {
    use super::super::room::ROOM;
    use super::super::testing::{attempt, task};
    use super::*;
    use crate::time::Timestamp;

    fn failed(number: u32, reason: &str) -> Attempt {
        attempt(number, Outcome::Failed, reason)
    }

    fn brief<'a>(task: &'a Task, parents: &'a [Task], attempts: &'a [Attempt]) -> Brief<'a> {
        Brief {
            task,
            parents,
            blockers: vec![],
            attempts,
            log: &[],
            attempt: (1, 4),
            salvages: vec![],
            tree: None,
        }
    }

    #[test]
    fn a_brief_has_only_what_there_is_to_say() {
        let task = task("Log in", "");
        insta::assert_snapshot!(brief(&task, &[], &[]).into_text(ROOM), @r"
        # Your task in this session: Log in

        Id: `t-3f9a01`
        ");
    }

    #[test]
    fn everything_has_its_place() {
        let (own, parent) = (task("Log in", "By password.\n"), task("API", "HTTP"));
        let limited =
            Attempt { outcome: Some(Outcome::Limited), ..failed(2, "the usage limit is reached") };
        let (parents, attempts) = ([parent], [failed(1, "no test\n# see @log"), limited]);
        let at = Timestamp::from_epoch(1_794_798_343).unwrap();
        let entry = |author: Option<&str>, event, message: &str| LogEntry {
            at,
            event,
            message: message.into(),
            author: author.map(|it| it.parse().unwrap()),
        };
        let log = [
            entry(Some("a-3f9a01"), LogEvent::Blocked, "Which hash?"),
            entry(None, LogEvent::Note, "argon2"),
        ];
        let brief = Brief {
            blockers: vec![Blocker {
                id: "t-000001".parse().unwrap(),
                title: "Schema",
                summary: "users has an index",
            }],
            salvages: vec![Salvage { attempt: 1, reference: "refs/ralph/salvage/a-3f9a01".into() }],
            attempt: (3, 4),
            log: &log,
            tree: Some(Tree {
                branch: Some("main".into()),
                head: Some(("abc1234".into(), "Add users".into())),
                uncommitted: vec!["notes.txt".into()],
            }),
            ..brief(&own, &parents, &attempts)
        };
        insta::assert_snapshot!(brief.into_text(ROOM), @r"
        # Your task in this session: Log in

        Id: `t-3f9a01`

        By password.

        # Questions and notes

        What a person says here is binding; what an agent says is not.

        Attempt 1 asked:

        > Which hash?

        A person noted:

        > argon2

        # What the task is part of, the innermost group first

        ## API (`t-3f9a01`)

        HTTP

        # What the task waited for, and the last note on each

        ## Schema (`t-000001`)

        > users has an index

        # Why earlier attempts failed; this is attempt 3 of 4

        ## Attempt 1 (failed)

        > no test
        > # see @log

        # Earlier attempts that were cut short, through no fault of theirs

        - Attempt 2: a limit of the run or the API ended the session.

        # What earlier attempts left behind

        It is not in the working tree, but in commits of its own. Nobody has checked it: look at it before you use it.

        - Attempt 1: `git show refs/ralph/salvage/a-3f9a01` shows it, and `git checkout refs/ralph/salvage/a-3f9a01 -- PATH` takes a file from it.

        # The working tree

        The branch `main` is checked out, at abc1234 (Add users). Work and commit there. These files have uncommitted changes that are not yours. Leave them exactly as they are, and commit none of them:

        - `notes.txt`
        ");
    }

    #[test]
    fn a_task_comes_back_after_a_compaction_and_is_never_too_long_for_it() {
        insta::assert_snapshot!(reminder(&task("Log in", "By password.\n\n```\ncode")), @r#"
        The conversation was summarised. This is still your task: Log in

        Id: `t-3f9a01`

        By password.

        ```
        code
        ```

        `ralph task show t-3f9a01` prints all of it, with notes and earlier attempts. End as your system prompt says under "How to end": `<task-done>t-3f9a01</task-done>`, `<task-failed>t-3f9a01</task-failed>` or `<task-blocked>t-3f9a01: your question</task-blocked>` as plain text on a line of its own.
        "#);
        let long = reminder(&task("Log in", &"By password.\n".repeat(5_000)));
        assert!(long.chars().count() < 10_000, "{}", long.chars().count());
        assert!(
            long.contains(
                "By password.\n\n[Cut here]\n\n`ralph task show t-3f9a01` prints all of it"
            ),
            "{long}"
        );
        let long = reminder(&task("Log in", &"東京".repeat(5_000)));
        assert!(long.len() < 10_000, "{}", long.len());
    }
}
