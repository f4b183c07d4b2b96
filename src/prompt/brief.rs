//! What an agent is told of its task: complete, and never longer than a model can read. When it would
//! be, the least important gives way first, and one can see that it did.

use super::document::fenced;
use super::skills::Skill;
use crate::dag::{Attempt, LogEntry, LogEvent, Outcome, Task, TaskId};

/// How many characters a brief may have: well within what any model reads, with room to work.
const ROOM: usize = 400_000;
/// What is left of a part that gives way.
const STUB: usize = 500;
/// How many earlier attempts are told of.
const TOLD_ATTEMPTS: usize = 5;
/// How many questions and notes are told of.
const TOLD_NOTES: usize = 20;

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
    /// The how-manieth attempt this is, and how many there will be at the most.
    pub attempt: (u32, u32),
    /// Where the state that the last attempt left behind is kept.
    pub salvage: Option<String>,
    /// The spec and where it is.
    pub spec: Option<(String, String)>,
    /// The plan and where it is.
    pub plan: Option<(String, String)>,
    /// The skills that were written down.
    pub skills: Vec<Skill>,
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

/// A part of a brief. The higher its weight, the later it gives way.
struct Part {
    weight: u8,
    text: String,
}

impl Brief<'_> {
    /// All of it, as a message.
    pub fn into_text(self) -> String {
        let parts = [
            Some(Part { weight: 9, text: self.task() }),
            self.notes(),
            self.parents(),
            self.blockers(),
            self.history(),
            document("The spec", self.spec.as_ref(), 4),
            document("The plan", self.plan.as_ref(), 5),
            self.skills(),
        ];
        fit(parts.into_iter().flatten().collect(), ROOM)
    }

    fn task(&self) -> String {
        let Task { id, title, description, .. } = self.task;
        format!("# Your task: {title}\n\nId: `{id}`\n\n{description}").trim_end().to_owned()
    }

    /// The questions of earlier attempts, and the answers and notes of anybody.
    fn notes(&self) -> Option<Part> {
        let line = |entry: &LogEntry| {
            let verb = match entry.event {
                LogEvent::Note => "noted",
                LogEvent::Blocked => "asked",
                LogEvent::Done | LogEvent::Failed | LogEvent::Reset | LogEvent::Crashed => {
                    return None;
                }
            };
            let attempt = entry.author.and_then(|id| self.attempts.iter().find(|it| it.id == id));
            let who = match (entry.author, attempt) {
                (None, _) => "a person".to_owned(),
                (Some(_), Some(attempt)) => format!("attempt {}", attempt.number),
                (Some(_), None) => "another agent".to_owned(),
            };
            Some(format!("- {who} {verb}: {}", entry.message.trim().replace('\n', "\n  ")))
        };
        let lines: Vec<String> = self.log.iter().filter_map(line).collect();
        let told = &lines[lines.len().saturating_sub(TOLD_NOTES)..];
        part(8, "What was asked and noted", &[told.join("\n")])
    }

    fn parents(&self) -> Option<Part> {
        let lines: Vec<String> = self
            .parents
            .iter()
            .map(|parent| {
                section(&format!("{} (`{}`)", parent.title, parent.id), &parent.description)
            })
            .collect();
        part(7, "What it is a part of, from the inside out", &lines)
    }

    fn blockers(&self) -> Option<Part> {
        let lines: Vec<String> = self
            .blockers
            .iter()
            .map(|it| section(&format!("{} (`{}`)", it.title, it.id), it.summary))
            .collect();
        part(3, "What was done before it, and what was noted", &lines)
    }

    fn history(&self) -> Option<Part> {
        let (number, most) = self.attempt;
        let is_told = |attempt: &&Attempt| {
            matches!(attempt.outcome, Some(Outcome::Failed | Outcome::Silent | Outcome::Crashed))
        };
        let told: Vec<&Attempt> = self.attempts.iter().filter(is_told).collect();
        let mut lines: Vec<String> = told[told.len().saturating_sub(TOLD_ATTEMPTS)..]
            .iter()
            .map(|attempt| {
                let outcome = attempt.outcome.map_or("", Outcome::name);
                let reason = attempt.reason.as_deref().unwrap_or_default();
                section(&format!("Attempt {} ({outcome})", attempt.number), reason)
            })
            .collect();
        if let Some(reference) = &self.salvage {
            lines.push(format!(
                "## What it left behind\n\nUncommitted changes of an earlier attempt are kept as \
                 `{reference}`; `git diff HEAD {reference}` shows them. Use them if they are good."
            ));
        }
        let title = format!("Why earlier attempts failed; this is attempt {number} of {most}");
        part(8, &title, &lines)
    }

    fn skills(&self) -> Option<Part> {
        let line = |skill: &Skill| {
            format!("- `.ralph/skills/{}/SKILL.md`: {}", skill.name, skill.description)
        };
        let lines: Vec<String> = self.skills.iter().map(line).collect();
        part(1, "Skills that were written down; read one when it fits", &[lines.join("\n")])
    }
}

/// A heading, and below it the text if there is any.
fn section(heading: &str, text: &str) -> String {
    format!("## {heading}\n\n{}", text.trim_end()).trim_end().to_owned()
}

fn part(weight: u8, title: &str, sections: &[String]) -> Option<Part> {
    let text = sections.join("\n\n");
    (!text.is_empty()).then(|| Part { weight, text: format!("# {title}\n\n{text}") })
}

fn document(title: &str, document: Option<&(String, String)>, weight: u8) -> Option<Part> {
    let (path, text) = document?;
    Some(Part { weight, text: format!("# {title} (`{path}`)\n\n{}", fenced(text, "markdown")) })
}

/// Joins the parts; the lightest are cut until everything fits.
fn fit(mut parts: Vec<Part>, room: usize) -> String {
    let length = |parts: &[Part]| parts.iter().map(|it| it.text.chars().count() + 2).sum::<usize>();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&index| parts[index].weight);
    for index in order {
        let excess = length(&parts).saturating_sub(room);
        if excess == 0 {
            break;
        }
        let text = &mut parts[index].text;
        let characters = text.chars().count();
        // The remark needs some room, too.
        let keep = characters.saturating_sub(excess + 100).max(STUB.min(characters));
        if keep < characters {
            let end = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
            text.truncate(end);
            text.push_str(&format!("\n[Cut here: {keep} of {characters} characters]"));
        }
    }
    parts.iter().map(|it| it.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dag::{Kind, Status};
    use crate::time::Timestamp;

    fn task(title: &str, description: &str) -> Task {
        let now = Timestamp::from_epoch(1_794_798_343).unwrap();
        Task {
            id: "t-3f9a01".parse().unwrap(),
            key: None,
            kind: Kind::Work,
            parent: None,
            feature: None,
            title: title.into(),
            description: description.into(),
            priority: 0,
            status: Some(Status::Pending),
            reason: None,
            retries: 0,
            max_retries: None,
            not_before: None,
            created_by: None,
            created_at: now,
            updated_at: now,
        }
    }

    fn failed(number: u32, reason: &str) -> Attempt {
        let now = Timestamp::from_epoch(1_794_798_343).unwrap();
        Attempt {
            id: "a-3f9a01".parse().unwrap(),
            task: "t-3f9a01".parse().unwrap(),
            number,
            run: None,
            model: None,
            started_at: now,
            ended_at: Some(now),
            outcome: Some(Outcome::Failed),
            reason: Some(reason.into()),
            exit_code: None,
            cost_usd: None,
            input_tokens: None,
            output_tokens: None,
            turns: None,
            log_path: None,
            session_id: None,
            head_before: None,
            head_after: None,
            verification_status: None,
            verify_log_path: None,
        }
    }

    fn brief<'a>(task: &'a Task, parents: &'a [Task], attempts: &'a [Attempt]) -> Brief<'a> {
        Brief {
            task,
            parents,
            blockers: vec![],
            attempts,
            log: &[],
            attempt: (1, 4),
            salvage: None,
            spec: None,
            plan: None,
            skills: vec![],
        }
    }

    #[test]
    fn a_brief_has_only_what_there_is_to_say() {
        let task = task("Log in", "");
        insta::assert_snapshot!(brief(&task, &[], &[]).into_text(), @r"
        # Your task: Log in

        Id: `t-3f9a01`
        ");
    }

    #[test]
    fn everything_has_its_place() {
        let (own, parent) = (task("Log in", "By password.\n"), task("API", "HTTP"));
        let (parents, attempts) = ([parent], [failed(1, "no test")]);
        let brief = Brief {
            blockers: vec![Blocker {
                id: "t-000001".parse().unwrap(),
                title: "Schema",
                summary: "users has an index",
            }],
            salvage: Some("refs/ralph/salvage/a-3f9a01".into()),
            spec: Some(("spec.md".into(), "R1".into())),
            plan: Some(("plan.md".into(), "P1".into())),
            skills: vec![Skill { name: "test".into(), description: "How to test".into() }],
            attempt: (2, 4),
            ..brief(&own, &parents, &attempts)
        };
        insta::assert_snapshot!(brief.into_text(), @r"
        # Your task: Log in

        Id: `t-3f9a01`

        By password.

        # What it is a part of, from the inside out

        ## API (`t-3f9a01`)

        HTTP

        # What was done before it, and what was noted

        ## Schema (`t-000001`)

        users has an index

        # Why earlier attempts failed; this is attempt 2 of 4

        ## Attempt 1 (failed)

        no test

        ## What it left behind

        Uncommitted changes of an earlier attempt are kept as `refs/ralph/salvage/a-3f9a01`; `git diff HEAD refs/ralph/salvage/a-3f9a01` shows them. Use them if they are good.

        # The spec (`spec.md`)

        ```markdown
        R1
        ```

        # The plan (`plan.md`)

        ```markdown
        P1
        ```

        # Skills that were written down; read one when it fits

        - `.ralph/skills/test/SKILL.md`: How to test
        ");
    }

    #[test]
    fn the_least_important_gives_way_first_and_visibly() {
        let part = |weight, size| Part { weight, text: "ü".repeat(size) };
        let text = fit(vec![part(9, 5_000), part(1, 5_000), part(4, 5_000)], 11_000);
        assert!(text.chars().count() <= 11_000, "{}", text.chars().count());
        assert_eq!(text.matches("[Cut here:").count(), 1);
        assert!(text.contains(&"ü".repeat(5_000)));
        let text = fit(vec![part(9, 5_000), part(1, 5_000), part(4, 5_000)], 5_200);
        assert_eq!(text.matches("[Cut here:").count(), 3);
        let whole = fit(vec![part(9, 100), part(1, 100)], 1_000);
        assert!(!whole.contains("Cut here"));
    }
}
