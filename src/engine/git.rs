//! The repository that a run works in: what an iteration did to it, and how nothing of it is lost. A
//! project need not be in one; then there is nothing to say.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow};

use crate::dag::AttemptId;
use crate::event::Diff;
use crate::time::Timestamp;

/// Where the state that an attempt left behind is kept.
pub(super) const SALVAGE: &str = "refs/ralph/salvage";
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

    /// Whether the repository has this working tree and no other.
    pub(super) fn is_the_only_tree(&self) -> bool {
        let trees = self.output(["worktree", "list", "--porcelain"]).unwrap_or_default();
        trees.lines().filter(|line| line.starts_with("worktree ")).count() == 1
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
        let from = before.map(str::to_owned).or_else(|| self.empty_tree());
        let changes = from.and_then(|from| self.output(["diff", "--shortstat", &from, after]));
        let (files, insertions, deletions) = short_stat(&changes.unwrap_or_default());
        let commits = commits.and_then(|count| count.parse().ok()).unwrap_or(0);
        Diff { commits, files, insertions, deletions }
    }

    /// The state of the working tree as one name: what is not committed included, what is ignored not.
    /// What is in the files of `without` does not matter. The repository gets no objects of it.
    pub(super) fn state(&self, scratch: &Path, without: &[PathBuf]) -> Result<String> {
        let mut shot = Shot::new(self, scratch)?;
        shot.objects = Some(scratch.join("objects"));
        fs::create_dir_all(scratch.join("objects"))?;
        shot.add_everything()?;
        shot.leave_out(without)?;
        shot.write()
    }

    /// Keeps what an attempt has not committed, and says where; none if there is nothing.
    pub(super) fn salvage(&self, attempt: AttemptId, scratch: &Path) -> Result<Option<Salvage>> {
        let changes =
            ["status", "--porcelain", "--untracked-files=normal", "--", ":/", BUT_THE_DATABASE];
        if self.text(changes)?.is_empty() {
            return Ok(None);
        }
        let shot = Shot::new(self, scratch)?;
        let missing = shot.add_everything()?;
        shot.leave_out(&[])?;
        let tree = shot.write()?;
        let message = format!("what attempt {attempt} left behind");
        let mut arguments = vec!["commit-tree", &tree, "-m", &message];
        let head = self.head();
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
        self.text(["update-ref", &reference, &commit])?;
        Ok(Some(Salvage { reference, missing }))
    }

    /// Where the state that this attempt left behind is kept, if it is.
    pub(super) fn salvaged(&self, attempt: AttemptId) -> Option<String> {
        let reference = salvage_reference(attempt);
        self.output(["rev-parse", "--verify", "--quiet", &reference]).map(|_| reference)
    }

    /// What is kept of all attempts.
    pub(super) fn salvages(&self) -> Result<Vec<KeptSalvage>> {
        let format = "--format=%(objectname) %(committerdate:unix) %(refname)";
        let listed = run(self.command(["for-each-ref", format, SALVAGE]))?;
        Ok(listed.lines().filter_map(kept_salvage).collect())
    }

    /// Forgets what is kept there, all or nothing. What was changed meanwhile is an error.
    pub(super) fn forget(&self, salvages: &[KeptSalvage]) -> Result<()> {
        let lines = salvages.iter().map(|it| format!("delete {} {}\n", it.reference, it.commit));
        let mut command = self.command(["update-ref", "--stdin"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("can't start git")?;
        let input = child.stdin.take().context("git has no stdin")?;
        let written = { input }.write_all(lines.collect::<String>().as_bytes());
        succeeded(&child.wait_with_output().context("can't wait for git")?)?;
        written.context("can't write to git")
    }

    /// Where the repository keeps this; the directory of all of it has no name.
    pub(super) fn path_of(&self, name: &str) -> Result<PathBuf> {
        let mut arguments = vec!["rev-parse", "--path-format=absolute"];
        match name {
            "" => arguments.push("--git-dir"),
            name => arguments.extend(["--git-path", name]),
        }
        self.text(arguments).map(PathBuf::from)
    }

    /// The tree of nothing, whose name depends on the hash that the repository uses.
    fn empty_tree(&self) -> Option<String> {
        self.output(["hash-object", "-t", "tree", "/dev/null"])
    }

    /// What git prints, if it succeeds.
    pub(super) fn output<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Option<String> {
        self.text(arguments).ok()
    }

    /// What git prints.
    pub(super) fn text<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Result<String> {
        run(self.command(arguments))
    }

    fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        self.command_in(&self.root, arguments)
    }

    fn command_in<I: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = I>,
    ) -> Command {
        let mut command = Command::new("git");
        // What the repository says to run on such occasions is for its user, not for us.
        command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
        command.arg("-C").arg(directory).args(arguments).stdin(Stdio::null());
        // Inside a hook of git these may mean another repository.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command
    }
}

/// What was kept of what an attempt has not committed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Salvage {
    /// Where.
    pub(super) reference: String,
    /// Why some of it could not be kept.
    pub(super) missing: Option<String>,
}

/// What is kept of an attempt, as the repository lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptSalvage {
    /// Where.
    pub(super) reference: String,
    /// The attempt.
    pub(super) attempt: AttemptId,
    commit: String,
    /// When it was kept.
    pub(super) at: Timestamp,
}

/// A picture of the working tree as it is now, made in an index of its own.
struct Shot<'a> {
    git: &'a Git,
    top: PathBuf,
    scratch: &'a Path,
    index: PathBuf,
    /// Where its objects go, if not into the repository.
    objects: Option<PathBuf>,
}

impl<'a> Shot<'a> {
    fn new(git: &'a Git, scratch: &'a Path) -> Result<Shot<'a>> {
        let top = PathBuf::from(git.text(["rev-parse", "--show-toplevel"])?);
        let index = scratch.join("index");
        // With the real index as a start git knows which files have not changed. No index exists before
        // the first commit.
        let _ = fs::copy(git.path_of("index")?, &index);
        Ok(Shot { git, top, scratch, index, objects: None })
    }

    /// Adds all that is not ignored; returns why some of it could not be added.
    fn add_everything(&self) -> Result<Option<String>> {
        // Git takes a repository inside ours for one thing, of which it keeps the name of a commit; and
        // refuses to add anything while that repository has no commit. So its files are added one by one.
        let nested = self.nested_in(&self.top, &self.index)?;
        let (_, nested) = split(nested);
        let mut add: Vec<OsString> =
            ["add", "--all", "--ignore-errors", "--", ":/"].map(OsString::from).into();
        for repository in &nested {
            let path = repository.strip_suffix(b"/").unwrap_or(repository);
            add.push(OsString::from_vec([b":(exclude,top,literal)", path].concat()));
        }
        let added = run(self.command(&add)?);
        let others = self.add_nested(nested);
        Ok(added.and(others).err().map(|error| error.to_string()))
    }

    /// Adds the files of the repositories inside ours.
    fn add_nested(&self, mut repositories: Vec<Vec<u8>>) -> Result<String> {
        let none = self.scratch.join("no-index");
        let mut files = Vec::new();
        while let Some(repository) = repositories.pop() {
            let place = self.top.join(OsStr::from_bytes(&repository));
            let inside = self.nested_in(&place, &none)?;
            let inside = inside.into_iter().map(|name| [&repository[..], &name].concat());
            let (found, deeper) = split(inside);
            files.extend(found);
            repositories.extend(deeper);
        }
        if files.is_empty() {
            return Ok(String::new());
        }
        let list = self.scratch.join("list");
        let reading = |arguments: &[&str], files: &[Vec<u8>]| {
            fs::write(&list, files.join(&0))?;
            let mut command = self.command(arguments)?;
            command.stdin(File::open(&list)?);
            Ok::<_, anyhow::Error>(command)
        };
        // It ends with 1 if it finds none.
        let ignored = reading(&["check-ignore", "-z", "--stdin", "--no-index"], &files)?;
        let ignored = run_for_bytes(ignored).unwrap_or_default();
        let ignored: HashSet<&[u8]> = parts(&ignored).collect();
        files.retain(|file| !ignored.contains(&file[..]));
        let added = run(reading(&["update-index", "--add", "-z", "--stdin"], &files)?);
        fs::remove_file(&list)?;
        added
    }

    /// The files in a directory that are neither in the index nor ignored, and the repositories below it,
    /// which end with a slash. The configuration of a repository in that directory is not read.
    fn nested_in(&self, place: &Path, index: &Path) -> Result<Vec<Vec<u8>>> {
        let list = ["ls-files", "-z", "--others", "--exclude-standard"];
        let mut command = self.git.command_in(place, list);
        command.env("GIT_DIR", self.git.path_of("")?).env("GIT_WORK_TREE", place);
        command.env("GIT_INDEX_FILE", index);
        Ok(parts(&run_for_bytes(command)?).map(<[u8]>::to_vec).collect())
    }

    /// Takes the database out again, and these files. Not by leaving them out at once: git refuses to
    /// leave out what is ignored.
    fn leave_out(&self, files: &[PathBuf]) -> Result<()> {
        let files = files.iter().filter_map(|path| path.strip_prefix(&self.top).ok());
        let files = files.map(|path| format!(":(top,literal){}", path.display()));
        let mut remove = ["rm", "-r", "--cached", "--quiet", "--ignore-unmatch", "--", DATABASE]
            .map(str::to_owned)
            .to_vec();
        remove.extend(files);
        run(self.command(&remove)?).map(|_| ())
    }

    /// The name of the tree; what it was made with is removed.
    fn write(self) -> Result<String> {
        let tree = run(self.command(["write-tree"])?);
        let _ = fs::remove_file(&self.index);
        if let Some(objects) = &self.objects {
            let _ = fs::remove_dir_all(objects);
        }
        tree
    }

    fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Result<Command> {
        let mut command = self.git.command_in(&self.top, arguments);
        command.env("GIT_INDEX_FILE", &self.index);
        if let Some(objects) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects);
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.git.path_of("objects")?));
        }
        Ok(command)
    }
}

/// Files, and directories, which end with a slash.
fn split(names: impl IntoIterator<Item = Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    names.into_iter().partition(|name| !name.ends_with(b"/"))
}

/// A path as it may stand in a list of paths between colons.
fn quoted(path: &Path) -> OsString {
    let mut text = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// What is kept there, in a line that `salvages` asks for.
fn kept_salvage(line: &str) -> Option<KeptSalvage> {
    let mut parts = line.splitn(3, ' ');
    let (commit, at, reference) = (parts.next()?, parts.next()?, parts.next()?);
    let attempt = reference.strip_prefix(SALVAGE)?.strip_prefix('/')?.parse().ok()?;
    let at = Timestamp::from_epoch(at.parse().ok()?)?;
    Some(KeptSalvage { reference: reference.to_owned(), attempt, commit: commit.to_owned(), at })
}

fn salvage_reference(attempt: AttemptId) -> String {
    format!("{SALVAGE}/{attempt}")
}

/// The text that a git command prints.
fn run(command: Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&run_for_bytes(command)?).trim_end().to_owned())
}

/// What a git command prints; the error is the last thing that git said.
fn run_for_bytes(mut command: Command) -> Result<Vec<u8>> {
    let output = command.output().context("can't start git")?;
    succeeded(&output)?;
    Ok(output.stdout)
}

fn succeeded(output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(anyhow!("git: {}", last.map_or_else(|| output.status.to_string(), str::to_owned)))
}

/// The parts of a list in which each part ends with NUL.
fn parts(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == 0).filter(|part| !part.is_empty())
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
        repository_with("sha1")
    }

    fn repository_with(hash: &str) -> (TempDir, Git) {
        let directory = TempDir::new().unwrap();
        let root = directory.path().to_owned();
        let git = Git { root };
        git.output(["init", "-q", &format!("--object-format={hash}")]).unwrap();
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
        for hash in ["sha1", "sha256"] {
            count_from_the_first(&repository_with(hash).1);
        }
    }

    fn count_from_the_first(git: &Git) {
        assert_eq!(git.head(), None);
        commit(git, "a", "one\n");
        let first = git.head();
        let counted = git.diff(None, first.as_deref());
        assert_eq!(counted, Diff { commits: 1, files: 1, insertions: 1, deletions: 0 });
        commit(git, "a", "two\n");
        commit(git, "b", "three\n");
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
        assert!(git.salvage(attempt, scratch.path()).unwrap().is_none(), "nothing but ours");
        fs::write(directory.path().join(".gitignore"), "ignored\n").unwrap();
        commit(&git, "a", "one\n");
        fs::write(directory.path().join("a"), "changed\n").unwrap();
        fs::write(directory.path().join("new file"), "new\n").unwrap();
        fs::write(directory.path().join("ignored"), "ignored\n").unwrap();
        let before = git.output(["status", "--porcelain"]).unwrap();
        let kept = git.salvage(attempt, scratch.path()).unwrap().unwrap();
        assert_eq!(kept.missing, None);
        let kept = kept.reference;
        assert_eq!(git.salvaged(attempt), Some(kept.clone()));
        assert_eq!(git.output(["status", "--porcelain"]).unwrap(), before);
        assert_eq!(git.output(["show", &format!("{kept}:a")]).unwrap(), "changed");
        assert_eq!(git.output(["show", &format!("{kept}:new file")]).unwrap(), "new");
        assert_eq!(git.output(["show", &format!("{kept}:ignored")]), None);
        assert_eq!(git.output(["rev-parse", &format!("{kept}^")]), git.head());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        fs::write(directory.path().join(".gitignore"), ".ralph/progress.db*\n").unwrap();
        let again = git.salvage(attempt, scratch.path()).unwrap();
        assert!(again.is_some(), "an ignored one is left out, too");
    }

    #[test]
    fn repositories_inside_are_kept_with_their_files() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        let attempt = "a-3f9a01".parse().unwrap();
        fs::write(directory.path().join(".gitignore"), "target/\n*.log\n").unwrap();
        commit(&git, "a", "one\n");
        fs::write(directory.path().join("a"), "changed\n").unwrap();
        let nested = |path: &str| {
            let root = directory.path().join(path);
            fs::create_dir_all(root.join("target")).unwrap();
            let git = Git { root };
            git.output(["init", "-q"]).unwrap();
            for name in ["file", ".gitignore", "private", "x.log", "target/big"] {
                fs::write(git.root.join(name), "private\n").unwrap();
            }
            git
        };
        nested("unborn");
        nested("unborn/deeper");
        nested("odd \"näme\"");
        let born = nested("born");
        born.output(["-c", "user.name=x", "-c", "user.email=x", "add", "file"]).unwrap();
        born.output(["-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-m", "x"])
            .unwrap();
        let before = git.output(["status", "--porcelain"]).unwrap();
        let kept = git.salvage(attempt, scratch.path()).unwrap().unwrap();
        assert_eq!(kept.missing, None);
        assert_eq!(git.output(["status", "--porcelain"]).unwrap(), before);
        let names = ["ls-tree", "-r", "-z", "--name-only", &kept.reference];
        let names = git.output(names).unwrap();
        let names: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
        assert_eq!(
            names,
            [
                ".gitignore",
                "a",
                "born/.gitignore",
                "born/file",
                "odd \"näme\"/.gitignore",
                "odd \"näme\"/file",
                "unborn/.gitignore",
                "unborn/deeper/.gitignore",
                "unborn/deeper/file",
                "unborn/file"
            ]
        );
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_git_does_not_take_is_said_and_the_rest_is_kept() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        commit(&git, "a", "one\n");
        // A name that means `.git` elsewhere.
        fs::write(directory.path().join("git~1"), "x").unwrap();
        fs::write(directory.path().join("open"), "y").unwrap();
        let kept = git.salvage("a-3f9a01".parse().unwrap(), scratch.path()).unwrap().unwrap();
        assert!(kept.missing.unwrap().contains("git~1"));
        assert_eq!(git.output(["show", &format!("{}:open", kept.reference)]).unwrap(), "y");
    }

    #[test]
    fn a_salvage_that_fails_says_why() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        fs::write(directory.path().join("new"), "new").unwrap();
        fs::remove_dir_all(directory.path().join(".git")).unwrap();
        let error = git.salvage("a-3f9a01".parse().unwrap(), scratch.path()).unwrap_err();
        assert!(error.to_string().contains("not a git repository"), "{error}");
    }

    #[test]
    fn looking_at_the_state_leaves_no_objects_in_the_repository() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        commit(&git, "a", "one\n");
        fs::write(directory.path().join("new"), "new").unwrap();
        let count = || git.output(["count-objects"]).unwrap();
        let before = count();
        git.state(scratch.path(), &[]).unwrap();
        assert_eq!(count(), before);
    }

    #[test]
    fn any_change_gives_the_tree_another_name() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        let tree = || git.state(scratch.path(), &[directory.path().join("log")]).unwrap();
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
