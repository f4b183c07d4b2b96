//! The repository that a run works in: what an iteration did to it, and how nothing of it is lost. A
//! project need not be in one; then there is nothing to say.

mod look;
mod person;
mod put_back;

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, anyhow};

use super::order::Change;
use super::owner::Owner;
use super::plan::Places;
use crate::event::Diff;
use crate::hint::HintExt;
use crate::time::Timestamp;

use person::BEFORE;
pub(super) use person::{Kept, decode, encode};

/// Where the state that a session left behind is kept.
pub(super) const SALVAGE: &str = "refs/ralph/salvage";
/// What must not be kept: it changes all the time, and belongs to ralph.
const DATABASE: &str = ":(top).ralph/progress.db*";

/// The repository around a project.
#[derive(Debug, Default)]
pub(super) struct Git {
    root: PathBuf,
    /// The top of the working tree.
    pub(super) top: PathBuf,
    /// The way from there to the project; it ends with a slash unless it is empty.
    pub(super) prefix: String,
    /// What git keeps for this worktree.
    directory: PathBuf,
    /// What git keeps for all worktrees.
    common: PathBuf,
    /// Files and directories that are ralph's own.
    pub(super) own: Vec<PathBuf>,
    /// The lines of `.gitignore` that ralph adds.
    pub(super) ignored: &'static [&'static str],
    told: RefCell<Told>,
}

/// What git printed about one commit, by what it was asked.
#[derive(Debug, Default)]
struct Told {
    commit: String,
    answers: HashMap<String, String>,
}

impl Git {
    /// The repository that this directory is in, if there is one and `git` is there. One that git can't read
    /// is an error: without it, nothing that a session leaves could be kept.
    pub(super) fn find(root: &Path) -> Result<Option<Git>> {
        let found = look::directories(root).context("can't look at the repository");
        let Some(found) = found.hint("`git status` says what is wrong")? else { return Ok(None) };
        let [top, prefix, directory, common] =
            found.map(|path| PathBuf::from(OsString::from_vec(path)));
        let prefix = prefix.to_string_lossy().into_owned();
        Ok(Some(Git { top, prefix, directory, common, ..Git::bare(root) }))
    }

    /// The repository that a project is in, and what in it is ralph's own.
    pub(super) fn of(places: &Places) -> Result<Option<Git>> {
        let mut own = places.own.clone();
        own.extend([places.logs.directory().to_owned(), places.database.clone()]);
        let found = Git::find(&places.root)?;
        Ok(found.map(|git| Git { own, ignored: places.ignored, ..git }))
    }

    fn bare(root: &Path) -> Git {
        Git { root: root.to_owned(), ..Git::default() }
    }

    /// Whether the repository has this working tree and no other.
    pub(super) fn is_the_only_tree(&self) -> bool {
        let trees = self.output(["worktree", "list", "--porcelain"]).unwrap_or_default();
        trees.lines().filter(|line| line.starts_with("worktree ")).count() == 1
    }

    /// The commit that is checked out; none before the first one.
    pub(super) fn head(&self) -> Option<String> {
        self.commit_at("HEAD")
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

    /// Keeps what a session left behind: these changes, on top of what is kept of it already or of HEAD, and
    /// these commits.
    pub(super) fn salvage(
        &self,
        owner: Owner,
        changes: &[Change],
        commits: &[String],
        scratch: &Path,
    ) -> Result<Salvage> {
        let reference = salvage_reference(owner);
        let (head, earlier) = (self.head(), self.commit_at(&reference));
        let shot = Shot::at(self, earlier.as_deref().or(head.as_deref()), scratch)?;
        let missing = match shot.add(changes)? {
            Some(missing) => {
                let is_added = shot.add_as_they_are(changes).unwrap_or(false);
                (!is_added).then_some(missing)
            }
            None => None,
        };
        let tree = shot.write()?;
        let mut parents: Vec<String> = head.into_iter().chain(earlier).collect();
        parents.extend(commits.iter().cloned());
        parents.extend(self.fetch_inner(changes)?);
        let mut seen = HashSet::new();
        parents.retain(|commit| seen.insert(commit.clone()));
        let message = format!("what {owner} left behind");
        let commit = self.commit_tree(&tree, &message, &parents, scratch)?;
        self.text(["update-ref", &reference, &commit])?;
        Ok(Salvage { reference, missing })
    }

    /// Takes over the commits of repositories that are among these changes; returns those that lead to all of them.
    fn fetch_inner(&self, changes: &[Change]) -> Result<Vec<String>> {
        let mut commits = Vec::new();
        let inner = changes.iter().filter(|it| it.path.as_os_str().as_bytes().ends_with(b"/"));
        let places = inner.map(|it| self.top.join(&it.path));
        // A worktree of ours has a file there, and its commits are here already.
        for place in places.filter(|it| it.join(".git").is_dir()) {
            let listed = ["for-each-ref", "--format=%(objecttype) %(objectname)"];
            let listed = run(self.command_in(&place, listed))?;
            let mut found: Vec<String> = listed
                .lines()
                .filter_map(|line| line.strip_prefix("commit "))
                .map(str::to_owned)
                .collect();
            let head = ["rev-parse", "--verify", "--quiet", "HEAD"];
            found.extend(run(self.command_in(&place, head)).ok());
            if found.is_empty() {
                continue;
            }
            let fetch = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"];
            let mut fetch = self.command(fetch);
            fetch.arg(&place).args(&found);
            run(fetch).with_context(|| format!("the commits in `{}`", place.display()))?;
            commits.extend(found);
        }
        Ok(commits)
    }

    /// Commits these changes and nothing else, whatever is staged.
    pub(super) fn commit(&self, changes: &[Change], message: &str, scratch: &Path) -> Result<()> {
        let head = self.head();
        let shot = Shot::at(self, head.as_deref(), scratch)?;
        if let Some(missing) = shot.add(changes)? {
            return Err(anyhow!("{missing}"));
        }
        let tree = shot.write()?;
        let mut command = self.command(["commit-tree", &tree, "-m", message]);
        command.args(head.iter().flat_map(|head| ["-p", head]));
        if self.output(["var", "GIT_AUTHOR_IDENT"]).is_none() {
            sign_as_ralph(&mut command);
        }
        let commit = run(command)?;
        let before = head.unwrap_or_default();
        let title = message.lines().next().unwrap_or_default();
        let reason = format!("commit (ralph): {title}");
        self.text(["update-ref", "-m", &reason, "HEAD", &commit, &before])?;
        let paths: Vec<&[u8]> = changes.iter().map(|it| it.path.as_os_str().as_bytes()).collect();
        let reset = ["reset", "-q", "--pathspec-from-file=-", "--pathspec-file-nul"];
        let mut reset = self.command_in(&self.top, reset);
        reset.env("GIT_LITERAL_PATHSPECS", "1");
        self.feed(reset, &paths.join(&0), scratch).map(drop)
    }

    /// A commit of ralph's own. Its message may be longer than an argument can be.
    fn commit_tree(
        &self,
        tree: &str,
        message: &str,
        parents: &[String],
        scratch: &Path,
    ) -> Result<String> {
        let mut command = self.command(["commit-tree", tree]);
        command.args(parents.iter().flat_map(|parent| ["-p", parent]));
        sign_as_ralph(&mut command);
        let commit = self.feed(command, message.as_bytes(), scratch)?;
        Ok(String::from_utf8_lossy(&commit).trim_end().to_owned())
    }

    /// Where the state that this attempt left behind is kept, if it is.
    pub(super) fn salvaged(&self, owner: Owner) -> Option<String> {
        let reference = salvage_reference(owner);
        self.commit_at(&reference).map(|_| reference)
    }

    fn commit_at(&self, reference: &str) -> Option<String> {
        self.output(["rev-parse", "--verify", "--quiet", reference])
    }

    /// What is kept of all sessions, and what was kept before them.
    pub(super) fn salvages(&self) -> Result<Vec<KeptSalvage>> {
        let format = "--format=%(objectname) %(committerdate:unix) %(refname)";
        let listed = run(self.command(["for-each-ref", format, SALVAGE, BEFORE]))?;
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

    /// Where ralph keeps something for this worktree.
    pub(super) fn private_file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
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

    /// What git prints about a commit. That never changes: git is asked once for as long as the questions are
    /// about the same commit.
    pub(super) fn told_of(&self, commit: &str, arguments: &[&str]) -> Result<String> {
        let mut told = self.told.borrow_mut();
        if told.commit != commit {
            *told = Told { commit: commit.to_owned(), answers: HashMap::new() };
        }
        match told.answers.entry(arguments.join("\0")) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(unknown) => Ok(unknown.insert(self.text(arguments)?).clone()),
        }
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
        // A warning is no reason not to keep a file.
        command.args(["-c", "core.safecrlf=false"]);
        command.arg("-C").arg(directory).args(arguments).stdin(Stdio::null());
        // Ctrl+C at the terminal is for ralph, which needs git to put the tree in order then.
        command.process_group(0);
        // Inside a hook of git these may mean another repository.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        // If a session removed the repository, one around it is not ours.
        if let Some(above) = self.top.parent() {
            command.env("GIT_CEILING_DIRECTORIES", above);
        }
        command
    }
}

/// What was kept of what a session has not committed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Salvage {
    /// Where.
    pub(super) reference: String,
    /// Why some of it could not be kept.
    pub(super) missing: Option<String>,
}

/// What is kept of a session, as the repository lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptSalvage {
    /// Where.
    pub(super) reference: String,
    /// Whose it is.
    pub(super) owner: Owner,
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
        let top = git.top.clone();
        let index = scratch.join("index");
        // With the real index as a start git knows which files have not changed. No index exists before
        // the first commit.
        let _ = fs::copy(git.path_of("index")?, &index);
        Ok(Shot { git, top, scratch, index, objects: None })
    }

    /// One of a commit, or of nothing.
    fn at(git: &'a Git, commit: Option<&str>, scratch: &'a Path) -> Result<Shot<'a>> {
        let (top, index) = (git.top.clone(), scratch.join("index"));
        let shot = Shot { git, top, scratch, index, objects: None };
        run(shot.command(["read-tree", commit.unwrap_or("--empty")])?)?;
        Ok(shot)
    }

    /// Adds these changes; returns why some of them could not be added.
    fn add(&self, changes: &[Change]) -> Result<Option<String>> {
        let is_there = |path: &Path| self.top.join(path).symlink_metadata().is_ok();
        let mut lists: [Vec<&[u8]>; 3] = Default::default();
        for change in changes {
            let path = change.path.as_os_str().as_bytes();
            let list = match path.ends_with(b"/") {
                true => 2,
                false => usize::from(is_there(&change.path)),
            };
            lists[list].push(path);
        }
        let [gone, there, inner] = lists;
        let remove = self.command(["update-index", "--force-remove", "-z", "--stdin"])?;
        self.git.feed(remove, &gone.join(&0), self.scratch)?;
        let add = ["add", "--all", "--force", "--sparse", "--ignore-errors"];
        let listed = ["--pathspec-from-file=-", "--pathspec-file-nul"];
        let mut add = self.command(add.into_iter().chain(listed))?;
        add.env("GIT_LITERAL_PATHSPECS", "1");
        let added = match there.is_empty() {
            true => Ok(Vec::new()),
            false => self.git.feed(add, &there.join(&0), self.scratch),
        };
        let others = self.add_nested(inner.into_iter().map(<[u8]>::to_vec).collect());
        Ok(added.map(drop).and(others.map(drop)).err().map(|error| error.to_string()))
    }

    /// Adds these changes byte for byte, where git can't convert them; returns whether all are added. Names
    /// that git refuses it leaves out without an error.
    fn add_as_they_are(&self, changes: &[Change]) -> Result<bool> {
        let is_inner = |it: &&Change| it.path.as_os_str().as_bytes().ends_with(b"/");
        let (inner, files): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(is_inner);
        let files: Vec<&Path> = files.into_iter().map(|it| it.path.as_path()).collect();
        let command = self.command(["update-index", "-z", "--index-info"])?;
        self.git.add_contents(command, &files, self.scratch)?;
        let listed = run_for_bytes(self.command(["ls-files", "-z"])?)?;
        let listed: HashSet<&[u8]> = parts(&listed).collect();
        let is_there =
            |path: &Path| self.top.join(path).symlink_metadata().is_ok_and(|it| !it.is_dir());
        let is_added =
            |path: &&Path| !is_there(path) || listed.contains(path.as_os_str().as_bytes());
        let inner = inner.into_iter().map(|it| it.path.as_os_str().as_bytes().to_vec());
        self.add_nested(inner.collect())?;
        Ok(files.iter().all(is_added))
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

/// Makes ralph the author of a commit.
fn sign_as_ralph(command: &mut Command) {
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "ralph");
        command.env(format!("GIT_{who}_EMAIL"), "ralph@localhost");
    }
}

/// What is kept there, in a line that `salvages` asks for.
fn kept_salvage(line: &str) -> Option<KeptSalvage> {
    let mut parts = line.splitn(3, ' ');
    let (commit, at, reference) = (parts.next()?, parts.next()?, parts.next()?);
    let name = reference.strip_prefix(SALVAGE).or_else(|| reference.strip_prefix(BEFORE))?;
    let owner = name.strip_prefix('/')?.parse().ok()?;
    let at = Timestamp::from_epoch(at.parse().ok()?)?;
    Some(KeptSalvage { reference: reference.to_owned(), owner, commit: commit.to_owned(), at })
}

fn salvage_reference(owner: Owner) -> String {
    format!("{SALVAGE}/{}", owner.name())
}

/// The text that a git command prints.
fn run(command: Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&run_for_bytes(command)?).trim_end().to_owned())
}

/// What a git command prints; the error is what git called fatal, or the last thing it said.
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
    // Advice may follow on what was fatal.
    let fatal = said.lines().find(|line| line.starts_with("fatal: "));
    let last = fatal.or_else(|| said.lines().rev().find(|line| !line.trim().is_empty()));
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
        let init = ["init", "-q", &format!("--object-format={hash}")];
        Git::bare(directory.path()).output(init).unwrap();
        let git = Git::find(directory.path()).unwrap().unwrap();
        git.output(["config", "user.name", "Test"]).unwrap();
        git.output(["config", "user.email", "test@localhost"]).unwrap();
        (directory, git)
    }

    /// Keeps all that is not committed.
    fn salvage(git: &Git, owner: Owner, scratch: &TempDir) -> Result<Option<Salvage>> {
        let changes = git.look()?.changes;
        if changes.is_empty() {
            return Ok(None);
        }
        git.salvage(owner, &changes, &[], scratch.path()).map(Some)
    }

    fn commit(git: &Git, name: &str, text: &str) {
        fs::write(git.root.join(name), text).unwrap();
        git.output(["add", "--all"]).unwrap();
        git.output(["commit", "-q", "-m", name]).unwrap();
    }

    #[test]
    fn a_persons_files_are_kept_however_many_there_are() {
        let (directory, git) = repository();
        let (scratch, attempt) = (TempDir::new().unwrap(), "a-3f9a01".parse().unwrap());
        for number in 0..1_000 {
            fs::write(directory.path().join(format!("{number}{}", "x".repeat(200))), "x").unwrap();
        }
        let kept = git.keep(&git.look().unwrap(), scratch.path()).unwrap();
        git.refer_to(&kept, attempt, scratch.path()).unwrap();
        assert_eq!(git.kept(attempt).unwrap(), kept);
    }

    #[test]
    fn a_staged_deletion_is_staged_again_whatever_hash_the_repository_uses() {
        for hash in ["sha1", "sha256"] {
            let (_directory, git) = repository_with(hash);
            let scratch = TempDir::new().unwrap();
            commit(&git, "a", "one\n");
            git.output(["rm", "-q", "a"]).unwrap();
            let kept = git.keep(&git.look().unwrap(), scratch.path()).unwrap();
            git.reset_index().unwrap();
            git.stage_again(&kept, scratch.path()).unwrap();
            assert_eq!(git.output(["status", "--porcelain"]).unwrap(), "D  a");
        }
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
        assert!(salvage(&git, attempt, &scratch).unwrap().is_none(), "nothing but ours");
        fs::write(directory.path().join(".gitignore"), "ignored\n").unwrap();
        commit(&git, "a", "one\n");
        fs::write(directory.path().join("a"), "changed\n").unwrap();
        fs::write(directory.path().join("new file"), "new\n").unwrap();
        fs::write(directory.path().join("ignored"), "ignored\n").unwrap();
        let before = git.output(["status", "--porcelain"]).unwrap();
        let kept = salvage(&git, attempt, &scratch).unwrap().unwrap();
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
        let again = salvage(&git, attempt, &scratch).unwrap();
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
            let git = Git::bare(&root);
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
        let kept = salvage(&git, attempt, &scratch).unwrap().unwrap();
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
        let kept = salvage(&git, "a-3f9a01".parse().unwrap(), &scratch).unwrap().unwrap();
        assert!(kept.missing.unwrap().contains("git~1"));
        assert_eq!(git.output(["show", &format!("{}:open", kept.reference)]).unwrap(), "y");
    }

    #[test]
    fn a_salvage_that_fails_says_why() {
        let (directory, git) = repository();
        let scratch = TempDir::new().unwrap();
        fs::write(directory.path().join("new"), "new").unwrap();
        fs::remove_dir_all(directory.path().join(".git")).unwrap();
        let error = salvage(&git, "a-3f9a01".parse().unwrap(), &scratch).unwrap_err();
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
    fn a_repository_that_git_cannot_read_is_an_error() {
        let (directory, _) = repository();
        fs::write(directory.path().join(".git/config"), "[core").unwrap();
        let error = Git::find(directory.path()).unwrap_err();
        assert!(format!("{error:#}").contains("bad config"), "{error:#}");
    }

    #[test]
    fn a_bare_repository_has_no_working_tree() {
        let directory = TempDir::new().unwrap();
        Git::bare(directory.path()).output(["init", "-q", "--bare"]).unwrap();
        assert!(Git::find(directory.path()).unwrap().is_none());
    }

    #[test]
    fn what_git_said_of_a_commit_is_not_taken_for_what_it_says_of_another() {
        let (_directory, git) = repository();
        let commit = |subject: &str| {
            git.output(["commit", "-q", "--allow-empty", "-m", subject]).unwrap();
            git.head().unwrap()
        };
        let subject =
            |commit: &str| git.told_of(commit, &["log", "-1", "--format=%s", commit]).ok();
        let (one, two) = (commit("one"), commit("two"));
        for _ in 0..2 {
            assert_eq!(subject(&one).as_deref(), Some("one"));
            assert_eq!(subject(&two).as_deref(), Some("two"));
        }
        assert_eq!(subject("nothing"), None);
    }

    #[test]
    fn a_directory_without_repository_has_none() {
        let directory = TempDir::new().unwrap();
        assert!(Git::find(directory.path()).unwrap().is_none());
        assert!(Git::find(Path::new("/nowhere")).unwrap().is_none());
    }
}
