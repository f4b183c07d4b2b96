//! What a repository and its working tree are like, as cheaply as that can be told: one `git status`, and a
//! look at some files of git's own.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::{Git, decode, encode, parts, run, run_for_bytes, succeeded};
use crate::engine::order::{
    Change, Compared, Facts, Flag, Hiding, Operation, Stash, Worktree, moved_elsewhere,
};

impl Git {
    /// What the repository and the working tree are like now.
    pub(in crate::engine) fn look(&self) -> Result<Facts> {
        let status = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=none",
        ];
        let mut facts = read_status(&run_for_bytes(self.command(status))?);
        for (path, state) in &mut facts.submodules {
            let place = self.top.join(decode(path));
            let head = run(self.command_in(&place, ["rev-parse", "HEAD"])).unwrap_or_default();
            state.push_str(&format!(" {head}"));
        }
        self.leave_out_own(&mut facts);
        facts.operation = self.operation();
        facts.stashes = self.stashes();
        facts.branches = self.branches()?;
        facts.worktrees = self.worktrees();
        facts.hiding = self.hiding()?;
        // What is in such a file may be a person's, whatever git makes of it.
        for file in facts.hiding.flags.keys().map(|file| decode(file)) {
            if self.top.join(&file).symlink_metadata().is_ok()
                && !facts.changes.iter().any(|it| it.path == file)
            {
                facts.changes.push(Change { path: file, tracked: true, staged: false });
            }
        }
        Ok(facts)
    }

    /// What keeps changes out of what git says.
    pub(in crate::engine) fn hiding(&self) -> Result<Hiding> {
        let listed = run_for_bytes(self.command_in(&self.top, ["ls-files", "-v", "-z"]))?;
        let mut flags = BTreeMap::new();
        for (tag, path) in parts(&listed).filter_map(|line| Some((line.first()?, line.get(2..)?))) {
            let flag = match tag {
                b's' => Flag::Both,
                b'S' => Flag::SkipWorktree,
                tag if tag.is_ascii_lowercase() => Flag::AssumeUnchanged,
                _ => continue,
            };
            flags.insert(encode(Path::new(OsStr::from_bytes(path))), flag);
        }
        // In a sparse checkout git itself sets and clears this flag.
        let has_skipped = flags.values().any(|flag| *flag == Flag::SkipWorktree);
        if has_skipped
            && self.output(["config", "--type=bool", "core.sparseCheckout"]).as_deref()
                == Some("true")
        {
            flags.retain(|_, flag| *flag != Flag::SkipWorktree);
        }
        Ok(Hiding { flags, exclude: fs::read(self.exclude_file()).ok() })
    }

    pub(super) fn exclude_file(&self) -> PathBuf {
        self.common.join("info/exclude")
    }

    /// What can only be told of a state with the one before it in hand.
    pub(in crate::engine) fn compare(&self, before: &Facts, after: &Facts) -> Result<Compared> {
        let tip = self.tip(before, after);
        let keeps_history = match (&before.head, tip) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(start), Some(tip)) => *start == tip || self.is_ancestor(start, &tip),
        };
        self.check_start(before, after, keeps_history)?;
        let mut elsewhere = Vec::new();
        for (place, commit) in moved_elsewhere(before, after, &self.top) {
            if self.has_new_commits(&commit, before, after)? {
                elsewhere.push(place);
            }
        }
        Ok(Compared { keeps_history, elsewhere })
    }

    /// Fails if the repository no longer has the commit that a session began with.
    fn check_start(&self, before: &Facts, after: &Facts, keeps_history: bool) -> Result<()> {
        let Some(start) = before.head.as_ref().filter(|_| before.head != after.head) else {
            return Ok(());
        };
        // Git has found it in the history of another commit.
        if keeps_history && self.tip(before, after).as_ref() != Some(start) {
            return Ok(());
        }
        self.text(["cat-file", "-e", start]).map(drop).map_err(|_| {
            anyhow!("the repository no longer has {start}, the commit that the session began with")
        })
    }

    /// The commit that the branch has on which a session began; the one that is checked out, if that was none.
    pub(super) fn tip(&self, before: &Facts, after: &Facts) -> Option<String> {
        match (&before.branch, &after.branch) {
            (Some(was), is) if is.as_ref() != Some(was) => after.branches.get(was).cloned(),
            (None, Some(_)) => before.head.clone(),
            _ => after.head.clone(),
        }
    }

    pub(super) fn is_ancestor(&self, commit: &str, of: &str) -> bool {
        self.output(["merge-base", "--is-ancestor", commit, of]).is_some()
    }

    /// Whether a commit leads to some that nothing led to before, and HEAD does not.
    fn has_new_commits(&self, commit: &str, before: &Facts, after: &Facts) -> Result<bool> {
        let mut known: HashSet<&str> = before.branches.values().map(String::as_str).collect();
        known.extend(before.head.as_deref());
        known.extend(after.head.as_deref());
        let mut arguments = vec!["rev-list", "-n", "1", commit, "--not"];
        arguments.extend(known);
        Ok(!run(self.command(arguments))?.is_empty())
    }

    /// What git is in the middle of.
    pub(in crate::engine) fn operation(&self) -> Option<Operation> {
        let has = |name: &str| self.directory.join(name).exists();
        match () {
            () if has("rebase-apply/applying") => Some(Operation::Am),
            () if has("rebase-merge") || has("rebase-apply") => Some(Operation::Rebase),
            () if has("MERGE_HEAD") => Some(Operation::Merge),
            () if has("CHERRY_PICK_HEAD") => Some(Operation::CherryPick),
            () if has("REVERT_HEAD") => Some(Operation::Revert),
            () if has("BISECT_LOG") => Some(Operation::Bisect),
            () => None,
        }
    }

    /// The entries of the stash, latest first.
    fn stashes(&self) -> Vec<Stash> {
        if self.has_reftable() {
            let listed = self.output(["stash", "list", "--format=%H %gs"]).unwrap_or_default();
            let entry = |line: &str| {
                let (commit, message) = line.split_once(' ')?;
                Some(Stash { commit: commit.to_owned(), message: message.to_owned() })
            };
            return listed.lines().filter_map(entry).collect();
        }
        let log = fs::read(self.common.join("logs/refs/stash")).unwrap_or_default();
        let entry = |line: &str| {
            let (facts, message) = line.split_once('\t')?;
            let commit = facts.split(' ').nth(1)?.to_owned();
            Some(Stash { commit, message: message.to_owned() })
        };
        String::from_utf8_lossy(&log).lines().rev().filter_map(entry).collect()
    }

    /// The commits of all local branches.
    fn branches(&self) -> Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        let mut add = |line: &str| {
            let Some((commit, name)) = line.split_once(" refs/heads/") else { return };
            found.insert(name.to_owned(), commit.to_owned());
        };
        if self.has_reftable() {
            let listed = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"];
            self.text(listed)?.lines().for_each(add);
            return Ok(found);
        }
        let packed = fs::read(self.common.join("packed-refs")).unwrap_or_default();
        String::from_utf8_lossy(&packed).lines().for_each(&mut add);
        loose_refs(&self.common.join("refs/heads"), "", &mut found);
        Ok(found)
    }

    /// The worktrees of the repository but this one.
    fn worktrees(&self) -> BTreeMap<String, Worktree> {
        let entries = fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        let others = entries.filter(|entry| entry.path() != self.directory);
        let worktree = |entry: fs::DirEntry| {
            let read = |name: &str| fs::read(entry.path().join(name)).ok();
            let link = read("gitdir")?;
            let path = Path::new(OsStr::from_bytes(link.trim_ascii_end())).parent()?.to_owned();
            let head = String::from_utf8_lossy(&read("HEAD")?).trim_end().to_owned();
            Some((entry.file_name().to_string_lossy().into_owned(), Worktree { path, head }))
        };
        let mut found: BTreeMap<String, Worktree> = others.filter_map(worktree).collect();
        // Nothing lists the main one; no other has a name with a slash.
        if self.directory != self.common
            && let Ok(head) = fs::read_to_string(self.common.join("HEAD"))
            && let Some(path) = self.common.parent().filter(|_| self.common.ends_with(".git"))
        {
            let main = Worktree { path: path.to_owned(), head: head.trim_end().to_owned() };
            found.insert("/".to_owned(), main);
        }
        found
    }

    fn has_reftable(&self) -> bool {
        self.common.join("reftable").is_dir()
    }

    /// The commits that git's own files in the middle of an operation name.
    pub(super) fn commits_of_operation(&self) -> Vec<String> {
        const FILES: [&str; 6] = [
            "MERGE_HEAD",
            "CHERRY_PICK_HEAD",
            "rebase-merge/orig-head",
            "rebase-merge/autostash",
            "rebase-apply/orig-head",
            "rebase-apply/autostash",
        ];
        let read = |name: &&str| fs::read_to_string(self.directory.join(name)).ok();
        let lines = FILES.iter().filter_map(read);
        lines.flat_map(|it| it.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}

/// The branches that have a file of their own, which counts before a line in `packed-refs`.
fn loose_refs(directory: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            loose_refs(&entry.path(), &format!("{name}/"), found);
        } else if let Ok(text) = fs::read_to_string(entry.path())
            && text.trim_end().bytes().all(|byte| byte.is_ascii_hexdigit())
            && !text.trim_end().is_empty()
        {
            found.insert(name, text.trim_end().to_owned());
        }
    }
}

/// What `git status --porcelain=v2 --branch -z` says.
fn read_status(status: &[u8]) -> Facts {
    let mut facts = Facts::default();
    for entry in parts(status) {
        let text = String::from_utf8_lossy(entry);
        if let Some(commit) = text.strip_prefix("# branch.oid ") {
            facts.head = Some(commit.to_owned()).filter(|it| it != "(initial)");
        } else if let Some(branch) = text.strip_prefix("# branch.head ") {
            facts.branch = Some(branch.to_owned()).filter(|it| it != "(detached)");
        } else {
            match read_change(entry) {
                Some((change, None)) => facts.changes.push(change),
                Some((change, Some(state))) => {
                    facts.submodules.insert(encode(&change.path), state);
                }
                None => {}
            }
        }
    }
    facts
}

/// A line of the status about a file; of a submodule, how it is. Submodules are repositories of their own: they
/// are left alone.
fn read_change(entry: &[u8]) -> Option<(Change, Option<String>)> {
    let fields = match entry.first()? {
        b'1' => 8,
        b'u' => 10,
        b'?' => 1,
        _ => return None,
    };
    let path = entry.splitn(fields + 1, |&byte| byte == b' ').nth(fields)?;
    let mut words = entry.split(|&byte| byte == b' ').skip(1);
    let (tracked, staged) = match fields {
        1 => (false, false),
        _ => (true, words.next()?.first() != Some(&b'.')),
    };
    let submodule = words.next().filter(|it| tracked && it.starts_with(b"S"));
    let submodule = submodule.map(|state| String::from_utf8_lossy(state).into_owned());
    Some((Change { path: OsStr::from_bytes(path).into(), tracked, staged }, submodule))
}

/// The directories of a repository: its top, the way from there to `root`, what git keeps for this
/// worktree, and for all; none if there is no working tree, or no git.
pub(super) fn directories(root: &Path) -> Result<Option<[Vec<u8>; 4]>> {
    let probe = Git::bare(root);
    let asked = [
        "rev-parse",
        "--path-format=absolute",
        "--is-inside-work-tree",
        "--show-toplevel",
        "--show-prefix",
        "--git-dir",
        "--git-common-dir",
    ];
    let mut command = probe.command(asked);
    // Why it fails can only be told from its words.
    command.env("LC_ALL", "C").env_remove("LANGUAGE");
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        output => output.context("can't start git")?,
    };
    if !output.status.success() && has_no_working_tree(&output.stderr) {
        return Ok(None);
    }
    succeeded(&output)?;
    let mut lines = output.stdout.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
    if lines.next().as_deref() != Some(b"true") {
        return Ok(None);
    }
    let mut next = || lines.next().context("git: rev-parse says too little");
    Ok(Some([next()?, next()?, next()?, next()?]))
}

/// Whether git said that a directory is not in a working tree.
fn has_no_working_tree(said: &[u8]) -> bool {
    const WORDS: [&str; 4] = [
        "not a git repository",
        "must be run in a work tree",
        "cannot use bare repository",
        // The directory itself is not there.
        "cannot change to",
    ];
    let said = String::from_utf8_lossy(said);
    WORDS.iter().any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whatever_the_names_are() {
        let status = b"# branch.oid abc\0# branch.head main\0# branch.upstream o/main\0\
            1 .M N... 100644 100644 100644 a b with space\0\
            1 A. N... 000000 100644 100644 a b new\0\
            1 .M S.M. 160000 160000 160000 a b sub\0\
            u UU N... 100644 100644 100644 100644 a b c half \0\
            ? odd\nname\0? inner/\0";
        let facts = read_status(status);
        assert_eq!(facts.head.as_deref(), Some("abc"));
        assert_eq!(facts.branch.as_deref(), Some("main"));
        let change = |path: &str, tracked, staged| Change { path: path.into(), tracked, staged };
        assert_eq!(
            facts.changes,
            [
                change("with space", true, false),
                change("new", true, true),
                change("half ", true, true),
                change("odd\nname", false, false),
                change("inner/", false, false),
            ]
        );
        let submodules = BTreeMap::from([("sub".to_owned(), "S.M.".to_owned())]);
        assert_eq!(facts.submodules, submodules);
        let facts = read_status(b"# branch.oid (initial)\0# branch.head (detached)\0");
        assert_eq!((facts.head, facts.branch), (None, None));
    }
}
