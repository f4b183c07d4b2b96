//! Where a project is and where it keeps things.

mod ding;

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::hint::HintExt;

pub use ding::SETTINGS as CLAUDE_SETTINGS;

/// The file with the settings.
pub const CONFIG: &str = ".ralph.toml";
/// The directory with everything else.
pub const DIRECTORY: &str = ".ralph";

/// What belongs to one machine and not into a repository; `init` lists it in `.gitignore`.
pub const IGNORED: &[&str] = &[
    ".ralph/progress.db*",
    ".ralph/run.json",
    ".ralph-pause",
    ".ralph-complete",
    ".ralph-done",
    ".ralph-ding",
];

/// A directory that `ralph init` was called in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    root: PathBuf,
}

/// Whether `init` made something or found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It was not there before.
    New,
    /// It was there and stays as it was.
    Kept,
}

impl Project {
    /// The project that contains this directory.
    pub fn find(directory: &Path) -> Result<Project> {
        directory
            .ancestors()
            .find(|place| place.join(DIRECTORY).is_dir() || place.join(CONFIG).is_file())
            .map(|root| Project { root: root.to_owned() })
            .ok_or_else(|| {
                anyhow!("there is no ralph project in `{}` or above it", directory.display())
            })
            .hint("run `ralph init` in the directory of your project")
    }

    /// Makes this directory a project: whatever is missing is added, nothing is overwritten.
    pub fn init(root: &Path) -> Result<(Project, Vec<(&'static str, Made)>)> {
        let made = vec![
            (CONFIG, write_new(&root.join(CONFIG), &commented_example())?),
            (DIRECTORY, make_directory(&root.join(DIRECTORY))?),
            (".gitignore", add_lines(&root.join(".gitignore"), IGNORED)?),
        ];
        Ok((Project { root: root.to_owned() }, made))
    }

    /// Adds to Claude's settings for this person and project what rings the bell of `ralph loop`.
    pub fn add_hooks(&self) -> Result<(&'static str, Made)> {
        Ok((ding::SETTINGS, ding::add_hooks(&self.root)?))
    }

    /// A directory that is none, to be treated like one.
    pub fn at(root: &Path) -> Project {
        Project { root: root.to_owned() }
    }

    /// The top of it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The settings, if there is a file with some.
    pub fn config(&self) -> Option<PathBuf> {
        Some(self.root.join(CONFIG)).filter(|path| path.is_file())
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.root.join(DIRECTORY).join("progress.db")
    }

    /// Where a feature has its spec and plan.
    pub fn feature(&self, name: &str) -> PathBuf {
        self.root.join(DIRECTORY).join("features").join(name)
    }

    /// Where the user's own prompts are.
    pub fn prompts(&self) -> PathBuf {
        self.root.join(DIRECTORY).join("prompts")
    }

    /// Where skills are.
    pub fn skills(&self) -> PathBuf {
        self.root.join(DIRECTORY).join("skills")
    }

    /// While this file is there, runs pause.
    pub fn pause(&self) -> PathBuf {
        self.root.join(".ralph-pause")
    }

    /// What should not go into a repository and is not listed in `.gitignore`.
    pub fn missing_ignores(&self) -> Vec<&'static str> {
        let text = fs::read_to_string(self.root.join(".gitignore")).unwrap_or_default();
        missing_lines(&text, IGNORED)
    }
}

/// The example of all settings, with each of them commented out.
fn commented_example() -> String {
    let example = include_str!("../.ralph.toml.example");
    let comment = |line: &str| match line {
        "" => "\n".to_owned(),
        line if line.starts_with('#') => format!("{line}\n"),
        line => format!("#{line}\n"),
    };
    example.lines().map(comment).collect()
}

fn write_new(path: &Path, text: &str) -> Result<Made> {
    let file = fs::OpenOptions::new().write(true).create_new(true).open(path);
    // Half of it would be taken for all of it the next time.
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path)))
    });
    match written {
        Ok(()) => Ok(Made::New),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(Made::Kept),
        Err(error) => Err(error).with_context(|| format!("can't write `{}`", path.display())),
    }
}

fn make_directory(path: &Path) -> Result<Made> {
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => Ok(Made::New),
        Err(_) if path.is_dir() => Ok(Made::Kept),
        Err(error) => Err(error).with_context(|| format!("can't make `{}`", path.display())),
    }
}

fn add_lines(path: &Path, lines: &[&'static str]) -> Result<Made> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("can't read `{}`", path.display()));
        }
    };
    let missing = missing_lines(&text, lines);
    if missing.is_empty() {
        return Ok(Made::Kept);
    }
    let mut addition = String::new();
    if !text.is_empty() && !text.ends_with('\n') {
        addition.push('\n');
    }
    for line in missing {
        addition.push_str(line);
        addition.push('\n');
    }
    // Appending can't damage what is there, and half a line is taken off again.
    let length = text.len() as u64;
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| {
            file.write_all(addition.as_bytes()).inspect_err(|_| drop(file.set_len(length)))
        })
        .with_context(|| format!("can't write `{}`", path.display()))?;
    Ok(Made::New)
}

fn missing_lines(text: &str, wanted: &[&'static str]) -> Vec<&'static str> {
    let is_there =
        |wanted: &str| text.lines().any(|line| line.trim().trim_start_matches('/') == wanted);
    wanted.iter().copied().filter(|wanted| !is_there(wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_project_is_found_from_anywhere_inside_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let deep = directory.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert!(Project::find(&deep).is_err());
        let (project, made) = Project::init(directory.path()).unwrap();
        assert!(made.iter().all(|&(_, made)| made == Made::New));
        assert_eq!(Project::find(&deep).unwrap(), project);
    }

    #[test]
    fn init_again_changes_nothing() {
        let directory = tempfile::TempDir::new().unwrap();
        let ignore = directory.path().join(".gitignore");
        fs::write(&ignore, "target\n/.ralph-pause").unwrap();
        Project::init(directory.path()).unwrap();
        let first = fs::read_to_string(&ignore).unwrap();
        assert!(
            first.starts_with("target\n/.ralph-pause\n.ralph/progress.db*\n.ralph/run.json\n"),
            "{first}"
        );
        let (project, made) = Project::init(directory.path()).unwrap();
        assert!(made.iter().all(|&(_, made)| made == Made::Kept));
        assert_eq!(fs::read_to_string(&ignore).unwrap(), first);
        assert!(project.missing_ignores().is_empty());
    }

    #[test]
    fn a_new_settings_file_sets_nothing() {
        let text = commented_example();
        assert!(toml::from_str::<toml::Table>(&text).unwrap().is_empty(), "{text}");
    }
}
