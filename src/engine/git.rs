//! The repository that a run works in: what an iteration did to it, and how nothing of it is lost. A
//! project need not be in one; then there is nothing to say.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::dag::AttemptId;
use crate::event::Diff;

/// Where the state that an attempt left behind is kept.
const SALVAGE: &str = "refs/ralph/salvage";
/// What must not be kept: it changes all the time, and belongs to ralph.
const DATABASE: &str = ":(top).ralph/progress.db*";
const BUT_THE_DATABASE: &str = ":(exclude,top).ralph/progress.db*";

/// The repository around a project.
#[derive(Debug)]
pub(super) struct Git {
    root: PathBuf,
}

impl Git {
    /// The repository that this directory is in, if there is one and `git` is there.
    pub(super) fn find(root: &Path) -> Option<Git> {
        let git = Git { root: root.to_owned() };
        (git.output(["rev-parse", "--is-inside-work-tree"])? == "true").then_some(git)
    }

    /// The commit that is checked out; none before the first one.
    pub(super) fn head(&self) -> Option<String> {
        self.output(["rev-parse", "--verify", "--quiet", "HEAD"])
    }

    /// What was committed between two heads.
    pub(super) fn diff(&self, before: Option<&str>, after: Option<&str>) -> Diff {
        let Some(after) = after.filter(|_| before != after) else { return Diff::default() };
        let range = before.map_or(after.to_owned(), |before| format!("{before}..{after}"));
        let commits = self.output(["rev-list", "--count", &range]);
        // What an empty repository has: the tree of nothing.
        let nothing = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let from = before.unwrap_or(nothing);
        let changes = self.output(["diff", "--shortstat", from, after]).unwrap_or_default();
        let (files, insertions, deletions) = short_stat(&changes);
        let commits = commits.and_then(|count| count.parse().ok()).unwrap_or(0);
        Diff { commits, files, insertions, deletions }
    }

    /// The state of the working tree as one name: what is not committed included, what is ignored not.
    /// What is in the files of `without` does not matter.
    pub(super) fn tree(&self, scratch: &Path, without: &[PathBuf]) -> Option<String> {
        let index = scratch.join("index");
        let own = self.output(["rev-parse", "--path-format=absolute", "--git-path", "index"])?;
        // With the real index as a start git knows which files have not changed.
        let _ = fs::copy(own, &index);
        let with_index = |arguments: &[&str]| {
            let mut command = self.command(arguments);
            command.env("GIT_INDEX_FILE", &index);
            run(command)
        };
        // Not by leaving it out at once: git refuses to leave out what is ignored.
        with_index(&["add", "--all", "--", ":/"])?;
        let top = PathBuf::from(self.output(["rev-parse", "--show-toplevel"])?);
        let without = without.iter().filter_map(|path| path.strip_prefix(&top).ok());
        let without: Vec<String> =
            without.map(|path| format!(":(top,literal){}", path.display())).collect();
        let mut remove =
            vec!["rm", "-r", "--cached", "--quiet", "--ignore-unmatch", "--", DATABASE];
        remove.extend(without.iter().map(String::as_str));
        with_index(&remove)?;
        let tree = with_index(&["write-tree"]);
        let _ = fs::remove_file(&index);
        tree
    }

    /// Keeps what an attempt has not committed, and says where; none if there is nothing.
    pub(super) fn salvage(&self, attempt: AttemptId, scratch: &Path) -> Option<String> {
        let changes =
            ["status", "--porcelain", "--untracked-files=normal", "--", ":/", BUT_THE_DATABASE];
        if self.output(changes)?.is_empty() {
            return None;
        }
        let tree = self.tree(scratch, &[])?;
        let head = self.head();
        let message = format!("what attempt {attempt} left behind");
        let mut arguments = vec!["commit-tree", &tree, "-m", &message];
        if let Some(head) = &head {
            arguments.extend(["-p", head]);
        }
        let mut command = self.command(&arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "ralph");
            command.env(format!("GIT_{who}_EMAIL"), "ralph@localhost");
        }
        let commit = run(command)?;
        let reference = salvage_reference(attempt);
        self.output(["update-ref", &reference, &commit])?;
        Some(reference)
    }

    /// Where the state that this attempt left behind is kept, if it is.
    pub(super) fn salvaged(&self, attempt: AttemptId) -> Option<String> {
        let reference = salvage_reference(attempt);
        self.output(["rev-parse", "--verify", "--quiet", &reference]).map(|_| reference)
    }

    fn output<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Option<String> {
        run(self.command(arguments))
    }

    fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.root).args(arguments).stdin(Stdio::null());
        // Whoever calls us from a hook means another repository by these.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command
    }
}

fn salvage_reference(attempt: AttemptId) -> String {
    format!("{SALVAGE}/{attempt}")
}

/// What a command prints, if it succeeds.
fn run(mut command: Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    output.status.success().then_some(text)
}

/// The numbers in ` 3 files changed, 12 insertions(+), 1 deletion(-)`.
fn short_stat(text: &str) -> (u32, u32, u32) {
    let number = |word: &str| {
        let part = text.split(',').find(|part| part.contains(word))?;
        part.split_whitespace().next()?.parse().ok()
    };
    let count = |word| number(word).unwrap_or(0);
    (count("file"), count("insertion"), count("deletion"))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn repository() -> (TempDir, Git) {
        let directory = TempDir::new().unwrap();
        let root = directory.path().to_owned();
        let git = Git { root };
        git.output(["init", "-q"]).unwrap();
        git.output(["config", "user.name", "Test"]).unwrap();
        git.output(["config", "user.email", "test@localhost"]).unwrap();
        (directory, git)
    }

    fn commit(git: &Git, name: &str, text: &str) {
        fs::write(git.root.join(name), text).unwrap();
        git.output(["add", "--all"]).unwrap();
        git.output(["commit", "-q", "-m", name]).unwrap();
    }

    #[test]
    fn statistics_are_read_however_little_there_is() {
        let all = " 3 files changed, 12 insertions(+), 1 deletion(-)";
        assert_eq!(short_stat(all), (3, 12, 1));
        assert_eq!(short_stat(" 1 file changed, 2 deletions(-)"), (1, 0, 2));
        assert_eq!(short_stat(""), (0, 0, 0));
    }

    #[test]
    fn what_was_committed_is_counted_from_the_very_first() {
        let (_directory, git) = repository();
        assert_eq!(git.head(), None);
        commit(&git, "a", "one\n");
        let first = git.head();
        let counted = git.diff(None, first.as_deref());
        assert_eq!(counted, Diff { commits: 1, files: 1, insertions: 1, deletions: 0 });
        commit(&git, "a", "two\n");
        commit(&git, "b", "three\n");
        let counted = git.diff(first.as_deref(), git.head().as_deref());
        assert_eq!(counted, Diff { commits: 2, files: 2, insertions: 2, deletions: 1 });
        assert_eq!(git.diff(first.as_deref(), first.as_deref()), Diff::default());
    }

    #[test]
    fn what_is_not_committed_is_kept_and_the_tree_stays_as_it_is() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        let attempt = "a-3f9a01".parse().unwrap();
        fs::create_dir(directory.path().join(".ralph")).unwrap();
        fs::write(directory.path().join(".ralph/progress.db"), "x").unwrap();
        assert_eq!(git.salvage(attempt, scratch.path()), None, "nothing but ours");
        fs::write(directory.path().join(".gitignore"), "ignored\n").unwrap();
        commit(&git, "a", "one\n");
        fs::write(directory.path().join("a"), "changed\n").unwrap();
        fs::write(directory.path().join("new file"), "new\n").unwrap();
        fs::write(directory.path().join("ignored"), "ignored\n").unwrap();
        let before = git.output(["status", "--porcelain"]).unwrap();
        let kept = git.salvage(attempt, scratch.path()).unwrap();
        assert_eq!(git.salvaged(attempt), Some(kept.clone()));
        assert_eq!(git.output(["status", "--porcelain"]).unwrap(), before);
        assert_eq!(git.output(["show", &format!("{kept}:a")]).unwrap(), "changed");
        assert_eq!(git.output(["show", &format!("{kept}:new file")]).unwrap(), "new");
        assert_eq!(git.output(["show", &format!("{kept}:ignored")]), None);
        assert_eq!(git.output(["rev-parse", &format!("{kept}^")]), git.head());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        fs::write(directory.path().join(".gitignore"), ".ralph/progress.db*\n").unwrap();
        assert!(git.salvage(attempt, scratch.path()).is_some(), "an ignored one is left out, too");
    }

    #[test]
    fn any_change_gives_the_tree_another_name() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        let tree = || git.tree(scratch.path(), &[directory.path().join("log")]).unwrap();
        commit(&git, "a", "one\n");
        let clean = tree();
        assert_eq!(tree(), clean);
        fs::write(directory.path().join("log"), "of no importance").unwrap();
        assert_eq!(tree(), clean);
        fs::write(directory.path().join("new"), "one").unwrap();
        let with_new = tree();
        assert_ne!(with_new, clean);
        fs::write(directory.path().join("new"), "two").unwrap();
        assert_ne!(tree(), with_new);
        fs::remove_file(directory.path().join("new")).unwrap();
        assert_eq!(tree(), clean);
    }

    #[test]
    fn a_directory_without_repository_has_none() {
        let directory = TempDir::new().unwrap();
        assert!(Git::find(directory.path()).is_none());
        assert!(Git::find(Path::new("/nowhere")).is_none());
    }
}
