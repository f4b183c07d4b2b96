//! A person's own uncommitted files: kept before a session, byte for byte, and given back after it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::{Git, parts, run, run_for_bytes};
use crate::engine::order::{Change, Facts};
use crate::engine::owner::Owner;

/// Where what a person had not committed is kept while a session lasts.
pub(super) const BEFORE: &str = "refs/ralph/before";

/// What was not committed before a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::engine) struct Kept {
    /// The files, and what was in them; none if they were deleted.
    files: BTreeMap<PathBuf, Option<Content>>,
    /// What was staged: mode and object; none for a file that the index did not have any more.
    staged: BTreeMap<PathBuf, Option<(String, String)>>,
    /// Repositories inside ours. They are left alone, and not kept.
    inner: BTreeSet<PathBuf>,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    is_link: bool,
    permissions: u32,
    object: String,
}

/// How the files of a person are after a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Touched {
    /// Those that are not as they were.
    pub(in crate::engine) changed: Vec<PathBuf>,
    /// Those of them with changes that are neither the person's nor committed.
    pub(in crate::engine) edited: Vec<PathBuf>,
}

impl Kept {
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.staged.is_empty() && self.inner.is_empty()
    }

    /// The changes that are not the person's.
    pub(in crate::engine) fn others(&self, changes: &[Change]) -> Vec<Change> {
        let is_kept = |path: &PathBuf| self.files.contains_key(path) || self.inner.contains(path);
        changes.iter().filter(|change| !is_kept(&change.path)).cloned().collect()
    }

    /// Without these files, which are no longer uncommitted.
    pub(in crate::engine) fn without(&self, committed: &[PathBuf]) -> Kept {
        let mut kept = self.clone();
        for path in committed {
            kept.files.remove(path);
            kept.staged.remove(path);
        }
        kept
    }

    /// With others, which count where both have a file.
    pub(in crate::engine) fn with(mut self, others: Kept) -> Kept {
        self.staged.retain(|path, _| !others.files.contains_key(path));
        self.files.extend(others.files);
        self.staged.extend(others.staged);
        self.inner.extend(others.inner);
        self
    }

    /// The ignore files among them, and what was in them.
    pub(super) fn ignores(&self) -> impl Iterator<Item = (&Path, Option<&str>)> {
        let ignores = self.files.iter().filter(|(path, _)| path.ends_with(".gitignore"));
        ignores.map(|(path, content)| (path.as_path(), content.as_ref().map(|it| &it.object[..])))
    }

    fn message(&self, owner: Owner) -> String {
        let mut lines = format!("what was not committed before {owner}\n\n");
        let mut add = |word: &str, path: &Path| {
            lines.push_str(&format!("{word}{}\n", encode(path)));
        };
        for (path, content) in &self.files {
            match content {
                Some(content) => add(&format!("{:o} ", content.permissions), path),
                None => add("deleted ", path),
            }
        }
        for (path, entry) in &self.staged {
            match entry {
                Some((mode, object)) => add(&format!("staged:{mode}:{object} "), path),
                None => add("staged:deleted ", path),
            }
        }
        self.inner.iter().for_each(|path| add("repository ", path));
        lines
    }
}

impl Content {
    /// The mode that git has for it.
    fn mode(&self) -> &'static str {
        match (self.is_link, self.permissions & 0o100) {
            (true, _) => "120000",
            (false, 0) => "100644",
            (false, _) => "100755",
        }
    }
}

impl Git {
    /// Makes objects of what is not committed.
    pub(in crate::engine) fn keep(&self, facts: &Facts, scratch: &Path) -> Result<Kept> {
        let mut kept = Kept::default();
        if facts.changes.is_empty() {
            return Ok(kept);
        }
        let is_inner = |change: &&Change| change.path.as_os_str().as_bytes().ends_with(b"/");
        let (inner, files): (Vec<_>, Vec<_>) = facts.changes.iter().partition(is_inner);
        kept.inner = inner.into_iter().map(|change| change.path.clone()).collect();
        let paths: Vec<&Path> = files.iter().map(|change| change.path.as_path()).collect();
        kept.files = self.contents(&paths, true, scratch)?;
        if files.iter().any(|change| change.staged) {
            kept.staged = self.staged(facts)?;
            kept.staged.retain(|path, _| kept.files.contains_key(path));
        }
        Ok(kept)
    }

    /// Keeps it under a reference of its own, until `forget_before`.
    pub(in crate::engine) fn refer_to(
        &self,
        kept: &Kept,
        owner: Owner,
        scratch: &Path,
    ) -> Result<()> {
        let entries = kept.files.iter().filter_map(|(path, content)| {
            let content = content.as_ref()?;
            Some((path.as_path(), content.mode(), content.object.as_str()))
        });
        let tree = self.tree_of(entries, scratch)?;
        let staged = kept.staged.iter().filter_map(|(path, entry)| {
            let (mode, object) = entry.as_ref()?;
            Some((path.as_path(), mode.as_str(), object.as_str()))
        });
        let mut parents = Vec::new();
        if !kept.staged.is_empty() {
            // Its only use is that git does not forget the objects.
            let tree = self.tree_of(staged, scratch)?;
            parents.push(self.commit_tree(&tree, "what of it was staged", &[], scratch)?);
        }
        let commit = self.commit_tree(&tree, &kept.message(owner), &parents, scratch)?;
        self.text(["update-ref", &before_reference(owner), &commit]).map(drop)
    }

    /// What was kept before a session.
    pub(in crate::engine) fn kept(&self, owner: Owner) -> Result<Kept> {
        let mut kept = Kept::default();
        let reference = before_reference(owner);
        if self.output(["rev-parse", "--verify", "--quiet", &reference]).is_none() {
            return Ok(kept);
        }
        let mut objects = BTreeMap::new();
        let listed =
            run_for_bytes(self.command(["ls-tree", "-r", "-z", "--full-tree", &reference]))?;
        for entry in parts(&listed) {
            let split = entry.iter().position(|&byte| byte == b'\t').context("odd tree")?;
            let facts = String::from_utf8_lossy(&entry[..split]).into_owned();
            let mut facts = facts.split(' ');
            let (mode, object) =
                (facts.next().context("no mode")?, facts.nth(1).context("no object")?);
            let path = PathBuf::from(OsStr::from_bytes(&entry[split + 1..]));
            objects.insert(path, (mode == "120000", object.to_owned()));
        }
        let message = self.text(["log", "-1", "--format=%B", &reference])?;
        for line in message.lines().skip(2) {
            let Some((word, path)) = line.split_once(' ') else { continue };
            let path = decode(path);
            match word.strip_prefix("staged:") {
                Some("deleted") => drop(kept.staged.insert(path, None)),
                Some(entry) => {
                    let entry = entry.split_once(':').context("odd entry")?;
                    let entry = (entry.0.to_owned(), entry.1.to_owned());
                    kept.staged.insert(path, Some(entry));
                }
                None if word == "repository" => drop(kept.inner.insert(path)),
                None if word == "deleted" => drop(kept.files.insert(path, None)),
                None => {
                    let (is_link, object) = objects.remove(&path).context("a file is missing")?;
                    let permissions = u32::from_str_radix(word, 8).context("odd permissions")?;
                    kept.files.insert(path, Some(Content { is_link, permissions, object }));
                }
            }
        }
        Ok(kept)
    }

    /// Where what a person had not committed before a session is kept.
    pub(in crate::engine) fn before_reference(&self, owner: Owner) -> String {
        before_reference(owner)
    }

    /// Removes what was kept before a session.
    pub(in crate::engine) fn forget_before(&self, owner: Owner) -> Result<()> {
        self.text(["update-ref", "-d", &before_reference(owner)]).map(drop)
    }

    /// Which of the kept files were committed between two commits.
    pub(in crate::engine) fn committed(
        &self,
        kept: &Kept,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<Vec<PathBuf>> {
        let Some(after) = after.filter(|_| before != after && !kept.files.is_empty()) else {
            return Ok(Vec::new());
        };
        let listed = match before {
            Some(before) => run_for_bytes(self.command([
                "diff",
                "--name-only",
                "-z",
                "--no-renames",
                before,
                after,
            ])),
            None => run_for_bytes(self.command([
                "ls-tree",
                "-r",
                "-z",
                "--name-only",
                "--full-tree",
                after,
            ])),
        }?;
        let paths = parts(&listed).map(|path| PathBuf::from(OsStr::from_bytes(path)));
        Ok(paths.filter(|path| kept.files.contains_key(path)).collect())
    }

    /// Which of the kept files a session has changed.
    pub(in crate::engine) fn touched(
        &self,
        kept: &Kept,
        after: &Facts,
        scratch: &Path,
    ) -> Result<Touched> {
        let mut touched = Touched::default();
        let paths: Vec<&Path> = kept.files.keys().map(PathBuf::as_path).collect();
        let now = self.contents(&paths, false, scratch)?;
        let changes: BTreeSet<&Path> = after.changes.iter().map(|it| it.path.as_path()).collect();
        for (path, content) in now {
            if kept.files.get(&path) == Some(&content) {
                continue;
            }
            if content.is_some() && changes.contains(path.as_path()) {
                touched.edited.push(path.clone());
            }
            touched.changed.push(path);
        }
        Ok(touched)
    }

    /// Gives these files of a person back as they were.
    pub(in crate::engine) fn give_back(&self, kept: &Kept, files: &[PathBuf]) -> Result<()> {
        for path in files {
            let Some(content) = kept.files.get(path) else { continue };
            self.give_back_one(path, content.as_ref())
                .with_context(|| format!("can't give back `{}`", path.display()))?;
        }
        Ok(())
    }

    fn give_back_one(&self, path: &Path, content: Option<&Content>) -> Result<()> {
        let place = self.top.join(path);
        if content.is_some() {
            self.make_parents(path)?;
        } else if self.is_below_link(path) {
            return Ok(());
        }
        let now = place.symlink_metadata();
        if now.as_ref().is_ok_and(fs::Metadata::is_dir) {
            if content.is_none() {
                return Ok(());
            }
            fs::remove_dir_all(&place)?;
        } else if now.is_ok() {
            fs::remove_file(&place)?;
        }
        let Some(content) = content else { return Ok(()) };
        let bytes = run_for_bytes(self.command(["cat-file", "blob", &content.object]))?;
        if content.is_link {
            symlink(OsStr::from_bytes(&bytes), &place)?;
        } else {
            fs::write(&place, bytes)?;
            fs::set_permissions(&place, Permissions::from_mode(content.permissions))?;
        }
        Ok(())
    }

    /// Whether the way to a file leads through a link, perhaps out of the working tree.
    fn is_below_link(&self, path: &Path) -> bool {
        let above = path.ancestors().skip(1).filter(|it| !it.as_os_str().is_empty());
        above.map(|it| self.top.join(it)).any(|it| it.is_symlink())
    }

    /// Makes the directories above a file. A link in their place would lead out of the working tree.
    fn make_parents(&self, path: &Path) -> Result<()> {
        let mut place = self.top.clone();
        for part in path.parent().into_iter().flat_map(Path::components) {
            place.push(part);
            match place.symlink_metadata() {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => fs::remove_file(&place)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            fs::create_dir(&place)?;
        }
        Ok(())
    }

    /// Stages again what was staged.
    pub(in crate::engine) fn stage_again(&self, kept: &Kept, scratch: &Path) -> Result<()> {
        if kept.staged.is_empty() {
            return Ok(());
        }
        // Any object will do for a file that is to go, if its name is as long as this repository's are.
        let none = self.empty_tree().context("no empty tree")?;
        let entries = kept.staged.iter().map(|(path, entry)| match entry {
            Some((mode, object)) => (path.as_path(), mode.as_str(), object.as_str()),
            None => (path.as_path(), "0", none.as_str()),
        });
        let command = self.command(["update-index", "-z", "--index-info"]);
        self.feed_entries(command, entries, scratch).map(drop)
    }

    /// Has a command that reads entries of the index add these files byte for byte, and remove those that
    /// are not there.
    pub(super) fn add_contents(
        &self,
        command: std::process::Command,
        paths: &[&Path],
        scratch: &Path,
    ) -> Result<()> {
        let none = self.empty_tree().context("no empty tree")?;
        let contents = self.contents(paths, true, scratch)?;
        let entries = contents.iter().map(|(path, content)| match content {
            Some(content) => (path.as_path(), content.mode(), content.object.as_str()),
            None => (path.as_path(), "0", none.as_str()),
        });
        self.feed_entries(command, entries, scratch).map(drop)
    }

    /// What is in these files now; none for those that are not there.
    fn contents(
        &self,
        paths: &[&Path],
        keep: bool,
        scratch: &Path,
    ) -> Result<BTreeMap<PathBuf, Option<Content>>> {
        let mut contents = BTreeMap::new();
        let mut plain: Vec<(&Path, u32)> = Vec::new();
        for &path in paths {
            let place = self.top.join(path);
            let Ok(metadata) = place.symlink_metadata() else {
                contents.insert(path.to_owned(), None);
                continue;
            };
            let permissions = metadata.permissions().mode() & 0o7777;
            let bytes = path.as_os_str().as_bytes();
            if metadata.is_symlink() {
                let target = fs::read_link(&place)?.into_os_string().into_vec();
                let object = self.hash(&target, keep, scratch)?;
                let content = Content { is_link: true, permissions: 0o777, object };
                contents.insert(path.to_owned(), Some(content));
            } else if !metadata.is_file() {
                contents.insert(path.to_owned(), None);
            } else if bytes.contains(&b'\n') || bytes.ends_with(b"\r") || bytes.starts_with(b"\"") {
                // Git would read such a name differently in a list.
                let object = self.hash(&fs::read(&place)?, keep, scratch)?;
                contents
                    .insert(path.to_owned(), Some(Content { is_link: false, permissions, object }));
            } else {
                plain.push((path, permissions));
            }
        }
        if plain.is_empty() {
            return Ok(contents);
        }
        let mut arguments = vec!["hash-object", "--no-filters", "--stdin-paths"];
        arguments.extend(keep.then_some("-w"));
        let lines: Vec<&[u8]> = plain.iter().map(|(path, _)| path.as_os_str().as_bytes()).collect();
        let said =
            self.feed(self.command_in(&self.top, arguments), &lines.join(&b'\n'), scratch)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let objects: Vec<&str> = said.lines().collect();
        if objects.len() != plain.len() {
            return Err(anyhow!(
                "git: hash-object named {} of {} files",
                objects.len(),
                plain.len()
            ));
        }
        for ((path, permissions), object) in plain.into_iter().zip(objects) {
            let content = Content { is_link: false, permissions, object: object.to_owned() };
            contents.insert(path.to_owned(), Some(content));
        }
        Ok(contents)
    }

    /// The object with these bytes.
    fn hash(&self, bytes: &[u8], keep: bool, scratch: &Path) -> Result<String> {
        let mut arguments = vec!["hash-object", "--stdin"];
        arguments.extend(keep.then_some("-w"));
        let said = self.feed(self.command(arguments), bytes, scratch)?;
        Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    /// What the index has other than HEAD.
    fn staged(&self, facts: &Facts) -> Result<BTreeMap<PathBuf, Option<(String, String)>>> {
        let against = match &facts.head {
            Some(head) => head.clone(),
            None => self.empty_tree().context("no empty tree")?,
        };
        let arguments = ["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev"];
        let said = run_for_bytes(self.command(arguments.into_iter().chain([against.as_str()])))?;
        let mut staged = BTreeMap::new();
        let mut entries = parts(&said);
        while let (Some(facts), Some(path)) = (entries.next(), entries.next()) {
            let facts = String::from_utf8_lossy(facts).into_owned();
            let words: Vec<&str> = facts.trim_start_matches(':').split(' ').collect();
            let &[_, mode, _, object, status] = &words[..] else { continue };
            let entry = match status {
                "U" => continue,
                "D" => None,
                _ => Some((mode.to_owned(), object.to_owned())),
            };
            staged.insert(OsStr::from_bytes(path).into(), entry);
        }
        Ok(staged)
    }

    /// A tree with these files: paths, modes and objects.
    fn tree_of<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Path, &'a str, &'a str)>,
        scratch: &Path,
    ) -> Result<String> {
        let index = scratch.join("entries");
        let mut command = self.command(["update-index", "-z", "--index-info"]);
        command.env("GIT_INDEX_FILE", &index);
        self.feed_entries(command, entries, scratch)?;
        let mut command = self.command(["write-tree"]);
        command.env("GIT_INDEX_FILE", &index);
        let tree = run(command);
        let _ = fs::remove_file(&index);
        tree
    }

    fn feed_entries<'a>(
        &self,
        command: std::process::Command,
        entries: impl Iterator<Item = (&'a Path, &'a str, &'a str)>,
        scratch: &Path,
    ) -> Result<Vec<u8>> {
        let mut lines = Vec::new();
        for (path, mode, object) in entries {
            lines.extend_from_slice(format!("{mode} {object}\t").as_bytes());
            lines.extend_from_slice(path.as_os_str().as_bytes());
            lines.push(0);
        }
        self.feed(command, &lines, scratch)
    }

    /// What a git command prints that reads this. By way of a file: it may print before it has read all.
    pub(super) fn feed(
        &self,
        mut command: std::process::Command,
        input: &[u8],
        scratch: &Path,
    ) -> Result<Vec<u8>> {
        let file = scratch.join("input");
        fs::write(&file, input)?;
        command.stdin(File::open(&file)?);
        let said = run_for_bytes(command);
        fs::remove_file(&file)?;
        said
    }
}

fn before_reference(owner: Owner) -> String {
    format!("{BEFORE}/{}", owner.name())
}

/// A path as one word of ASCII.
pub(in crate::engine) fn encode(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => text.push_str("%25"),
            byte if byte.is_ascii_graphic() => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The path that `encode` made this of.
pub(in crate::engine) fn decode(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        match hex.filter(|_| first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(first);
                rest = others;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
