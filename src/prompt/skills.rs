//! The skills that agents have written down: what each is called and when it is of use.

use std::fs;
use std::path::Path;

use super::document::read;

/// How much of a skill is looked at: its front matter is at the beginning.
const BEGINNING: usize = 8_000;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The directory it is in.
    pub name: String,
    /// When it is of use.
    pub description: String,
}

/// The skills in this directory, by name. One without a description is of no use to anybody.
pub fn find(directory: &Path) -> Vec<Skill> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut skills: Vec<Skill> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let description = description(&read(&path.join("SKILL.md"), "SKILL.md", BEGINNING))?;
            Some(Skill { name: path.file_name()?.to_string_lossy().into_owned(), description })
        })
        .collect();
    skills.sort_by(|one, other| one.name.cmp(&other.name));
    skills
}

/// The description in a front matter; lines that are indented go on with the one before.
fn description(text: &str) -> Option<String> {
    let matter = text.strip_prefix("---\n")?.split("\n---").next()?;
    let mut lines = matter.lines().skip_while(|line| !line.starts_with("description:"));
    let first = lines.next()?.trim_start_matches("description:").trim();
    // YAML has signs for a text of several lines.
    let first = if matches!(first, ">" | "|" | ">-" | "|-") { "" } else { first };
    let more = lines.take_while(|line| line.starts_with([' ', '\t'])).map(str::trim);
    let words: Vec<&str> = std::iter::once(first).chain(more).filter(|it| !it.is_empty()).collect();
    let joined = words.join(" ");
    let plain = joined.trim_matches(['"', '\'']);
    (!plain.is_empty()).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_found_in_the_front_matter_alone() {
        for (text, expected) in [
            ("---\nname: x\ndescription: How to test\n---\nbody", Some("How to test")),
            ("---\ndescription: \"Quoted: so\"\n---", Some("Quoted: so")),
            ("---\ndescription: >\n  Two\n  lines\nname: x\n---", Some("Two lines")),
            ("---\nname: x\n---\ndescription: not here", None),
            ("description: nor here", None),
            ("---\ndescription:\n---", None),
            ("", None),
        ] {
            assert_eq!(description(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn skills_are_found_by_directory() {
        let directory = tempfile::TempDir::new().unwrap();
        for (name, text) in [("b", "---\ndescription: B\n---"), ("a", "---\ndescription: A\n---")] {
            fs::create_dir(directory.path().join(name)).unwrap();
            fs::write(directory.path().join(name).join("SKILL.md"), text).unwrap();
        }
        fs::create_dir(directory.path().join("empty")).unwrap();
        let found: Vec<String> = find(directory.path()).into_iter().map(|it| it.name).collect();
        assert_eq!(found, ["a", "b"]);
        assert_eq!(find(Path::new("/nowhere")), []);
    }
}
