//! What every session of a feature is told: how to work, how the work is checked, what holds the session, the
//! spec, the plan and the skills. It is byte for byte the same for all tasks of the feature, and it comes first,
//! so that the vendor's prompt cache serves it after the first session.

use super::room::{Part, fit, tokens};
use super::skills::Skill;

/// The share of the room that these documents may take. It does not depend on the task: what is left of a
/// document must be the same for all of them.
const SHARE: (usize, usize) = (7, 10);

/// What every session of a feature is told.
#[derive(Debug, Default)]
pub struct Common {
    /// How to work and how to end.
    pub instructions: String,
    /// How the work is checked.
    pub checks: Option<Checks>,
    /// What holds the session, and what that means for it.
    pub sandbox: String,
    /// The spec.
    pub spec: Option<Paper>,
    /// The plan.
    pub plan: Option<Paper>,
    /// The skills that were written down.
    pub skills: Vec<Skill>,
}

/// A document and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paper {
    /// Its path in the project.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// How work that is said to be done is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checks {
    /// By these commands.
    pub commands: Vec<String>,
    /// Failures from before the run do not count.
    pub known_red: bool,
    /// Then by a second agent.
    pub agent: bool,
}

impl Common {
    /// All of it, in its share of so many tokens.
    pub fn into_text(self, room: usize) -> String {
        let mut head = vec![self.instructions.trim_end().to_owned()];
        head.extend(self.checks.as_ref().map(Checks::describe));
        if !self.sandbox.is_empty() {
            head.push(format!("# The sandbox\n\n{}", self.sandbox));
        }
        let head = head.join("\n\n");
        let parts: Vec<Part> = [
            document("The spec", self.spec, 4),
            document("The plan", self.plan, 5),
            skills(&self.skills),
        ]
        .into_iter()
        .flatten()
        .collect();
        if parts.is_empty() {
            return format!("{head}\n");
        }
        let room = (room * SHARE.0 / SHARE.1).saturating_sub(tokens(&head));
        format!("{head}\n\n{}\n", fit(&parts, room))
    }
}

impl Checks {
    fn describe(&self) -> String {
        let mut text = "# How the work is checked\n\n".to_owned();
        match self.commands.as_slice() {
            [] => {}
            commands => {
                text.push_str(
                    "When you say that the task is done, ralph runs these commands in the project, in this order. \
                     Each must exit with code 0:\n\n",
                );
                text.extend(commands.iter().map(|command| format!("- {}\n", code(command))));
                if self.known_red {
                    text.push_str("\nA command that failed before the run began may still fail, but not in a new way.\n");
                }
                text.push('\n');
            }
        }
        text.push_str(match (self.agent, self.commands.is_empty()) {
            (true, true) => {
                "A second agent, which has not seen this session, then compares the work with the task."
            }
            (true, false) => {
                "Then a second agent, which has not seen this session, compares the work with the task."
            }
            (false, true) => "Nothing checks the work after you: if you say that the task is done, it counts as done.",
            (false, false) => "No second agent looks at the work.",
        });
        text
    }
}

/// A command as code, whatever is in it.
pub(super) fn code(command: &str) -> String {
    let command = command.trim().replace('\n', " ↵ ");
    if command.contains('`') { format!("`` {command} ``") } else { format!("`{command}`") }
}

fn document(title: &str, paper: Option<Paper>, weight: u8) -> Option<Part> {
    let Paper { path, text } = paper?;
    let source = format!("read the rest in `{path}`");
    Some(Part {
        weight,
        heading: format!("{title} (`{path}`)"),
        text,
        fence: Some("markdown"),
        source,
    })
}

fn skills(skills: &[Skill]) -> Option<Part> {
    let line = |it: &Skill| format!("- `.ralph/skills/{}/SKILL.md`: {}\n", it.name, it.description);
    let text: String = skills.iter().map(line).collect();
    (!text.is_empty()).then(|| Part {
        weight: 1,
        heading: "Skills: read one when it fits what you are doing".to_owned(),
        text,
        fence: None,
        source: "`.ralph/skills` has the rest".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::room::ROOM;
    use super::*;

    fn common() -> Common {
        let paper = |path: &str, text: &str| Some(Paper { path: path.into(), text: text.into() });
        Common {
            instructions: "# How this session works\n\nWell.\n".into(),
            checks: Some(Checks {
                commands: vec!["cargo test".into(), "echo `date`".into()],
                known_red: false,
                agent: true,
            }),
            sandbox: "None.".into(),
            spec: paper("spec.md", "R1\n```\ncode"),
            plan: paper("plan.md", "P1"),
            skills: vec![Skill { name: "test".into(), description: "How to test".into() }],
        }
    }

    #[test]
    fn everything_has_its_place() {
        insta::assert_snapshot!(common().into_text(ROOM), @r"
        # How this session works

        Well.

        # How the work is checked

        When you say that the task is done, ralph runs these commands in the project, in this order. Each must exit with code 0:

        - `cargo test`
        - `` echo `date` ``

        Then a second agent, which has not seen this session, compares the work with the task.

        # The sandbox

        None.

        # The spec (`spec.md`)

        ````markdown
        R1
        ```
        code
        ````

        # The plan (`plan.md`)

        ```markdown
        P1
        ```

        # Skills: read one when it fits what you are doing

        - `.ralph/skills/test/SKILL.md`: How to test
        ");
    }

    #[test]
    fn a_spec_of_any_size_is_cut_to_its_share_and_says_where_the_rest_is() {
        let spec = Some(Paper { path: "spec.md".into(), text: "仕様\n".repeat(100_000) });
        let text = Common { spec, ..common() }.into_text(ROOM);
        assert!(tokens(&text) <= ROOM * 7 / 10, "{}", tokens(&text));
        assert!(text.contains("characters; read the rest in `spec.md`]"));
        assert!(
            text.contains("# The plan (`plan.md`)\n\n```markdown\nP1\n```"),
            "the plan is whole"
        );
    }

    #[test]
    fn checks_are_named_as_they_are() {
        let told = |commands: &[&str], known_red, agent| {
            let commands = commands.iter().map(|&it| it.to_owned()).collect();
            Checks { commands, known_red, agent }.describe()
        };
        assert!(told(&[], false, false).contains("Nothing checks the work after you"));
        assert!(told(&[], false, true).contains("A second agent"));
        assert!(told(&["make"], true, false).contains("may still fail, but not in a new way"));
        assert!(told(&["make"], false, false).ends_with("No second agent looks at the work."));
    }
}
