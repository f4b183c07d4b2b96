//! Whether a session left the working tree in order, decided from what git said before it and after it. The
//! facts are collected by `git::look`; what is to be put back is put back by `git::put_back`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::git::decode;
use crate::dag::{Attempt, Outcome};

/// How many files a reason names.
const NAMED: usize = 10;
/// How the reason begins that hands work back because it is not committed.
const UNCOMMITTED: &str = "the session said done, but did not commit";

/// What a repository and its working tree are like at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// The branch that is checked out; none if HEAD is detached.
    pub(super) branch: Option<String>,
    /// The commit that is checked out; none before the first one.
    pub(super) head: Option<String>,
    /// What git is in the middle of.
    pub(super) operation: Option<Operation>,
    /// The stash, latest first.
    pub(super) stashes: Vec<Stash>,
    /// The commits of all local branches.
    pub(super) branches: BTreeMap<String, String>,
    /// The other worktrees of the repository, by the names that git gave them.
    pub(super) worktrees: BTreeMap<String, Worktree>,
    /// What keeps changes out of what git says.
    #[serde(default)]
    pub(super) hiding: Hiding,
    /// The submodules that are not as HEAD has them, and how they are.
    #[serde(default)]
    pub(super) submodules: BTreeMap<String, String>,
    /// What is not committed, without ralph's own files.
    #[serde(skip)]
    pub(super) changes: Vec<Change>,
}

/// What keeps changes out of what `git status` says, beside ignore files in the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hiding {
    /// The files with a flag that makes git not look at them.
    pub(super) flags: BTreeMap<String, Flag>,
    /// What is in `info/exclude`; none if there is no such file.
    pub(super) exclude: Option<Vec<u8>>,
}

/// A flag of a file in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Flag {
    AssumeUnchanged,
    SkipWorktree,
    Both,
}

/// Something that git does in several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Operation {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Am,
    Bisect,
}

/// An entry of the stash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stash {
    pub(super) commit: String,
    pub(super) message: String,
}

/// Another worktree of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worktree {
    /// Where its files are.
    pub(super) path: PathBuf,
    /// What its HEAD says: `ref: refs/heads/NAME`, or a commit.
    pub(super) head: String,
}

/// A file that is not as HEAD has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// Its path from the top of the working tree; that of a repository inside ours ends with a slash.
    pub(super) path: PathBuf,
    /// Whether the index knows it.
    pub(super) tracked: bool,
    /// Whether the index differs from HEAD.
    pub(super) staged: bool,
}

/// What a session has done to a repository, beyond what is not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disorder {
    /// Another branch is checked out, or none.
    Branch { was: Option<String>, is: Option<String> },
    /// The branch no longer has the commit that it began with.
    History { branch: Option<String> },
    /// Git is in the middle of something.
    Unfinished(Operation),
    /// There are changes in the stash that were not there.
    Stashed,
    /// These files have a flag that makes git not look at them.
    Flagged(Vec<PathBuf>),
    /// `info/exclude` is not as it was, and may hide files.
    Excluded,
    /// These submodules have commits or changes that no commit of ours has.
    Submodules(Vec<PathBuf>),
    /// Nothing arrived on the branch, and commits were made here.
    Elsewhere { branch: Option<String>, places: Vec<String> },
}

/// What of the state after a session git has to find out with the state before it in hand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// Whether the branch that the session began on still has the commit it began with.
    pub(super) keeps_history: bool,
    /// The branches and worktrees with commits that were not there before, where they count.
    pub(super) elsewhere: Vec<String>,
}

/// What a session did to a repository that it should not have done.
pub(super) fn disorder(before: &Facts, after: &Facts, compared: &Compared) -> Vec<Disorder> {
    let mut found = Vec::new();
    let unfinished = after.operation.filter(|_| after.operation != before.operation);
    // A rebase or a bisection detaches HEAD: that is no second fault.
    let explains = matches!(unfinished, Some(Operation::Rebase | Operation::Bisect));
    if after.branch != before.branch && !(explains && after.branch.is_none()) {
        found.push(Disorder::Branch { was: before.branch.clone(), is: after.branch.clone() });
    }
    if !compared.keeps_history {
        found.push(Disorder::History { branch: before.branch.clone() });
    }
    found.extend(unfinished.map(Disorder::Unfinished));
    if new_stashes(before, after).next().is_some() {
        found.push(Disorder::Stashed);
    }
    let is_changed =
        |(path, state): &(&String, &String)| before.submodules.get(*path) != Some(*state);
    let submodules = after.submodules.iter().filter(is_changed).map(|(path, _)| decode(path));
    let submodules: Vec<PathBuf> = submodules.collect();
    if !submodules.is_empty() {
        found.push(Disorder::Submodules(submodules));
    }
    if found.is_empty() && after.head == before.head && !compared.elsewhere.is_empty() {
        let (branch, places) = (before.branch.clone(), compared.elsewhere.clone());
        found.push(Disorder::Elsewhere { branch, places });
    }
    found
}

/// What a session did to hide changes from git. Flags from before it stay, and one that it took away is only put
/// back.
pub(super) fn hidden(before: &Hiding, after: &Hiding) -> Vec<Disorder> {
    let is_new = |(file, flag): &(&String, &Flag)| before.flags.get(*file) != Some(*flag);
    let files = after.flags.iter().filter(is_new).map(|(file, _)| decode(file));
    let files: Vec<PathBuf> = files.collect();
    let flagged = (!files.is_empty()).then_some(Disorder::Flagged(files));
    let excluded = (before.exclude != after.exclude).then_some(Disorder::Excluded);
    flagged.into_iter().chain(excluded).collect()
}

/// The entries that a session added to the stash. All worktrees share one stash; an entry names the branch
/// that it was made on, and no two worktrees have the same branch.
pub(super) fn new_stashes<'a>(
    before: &'a Facts,
    after: &'a Facts,
) -> impl Iterator<Item = (usize, &'a Stash)> {
    let is_elsewhere = |stash: &Stash| {
        let said = stash.message.strip_prefix("WIP on ").or(stash.message.strip_prefix("On "));
        let branch = said.and_then(|said| said.split_once(": ")).map(|(branch, _)| branch);
        let held = |branch: &str| {
            let head = format!("ref: refs/heads/{branch}");
            before.worktrees.values().any(|it| it.head == head)
        };
        branch.is_some_and(held)
    };
    let is_old = |stash: &Stash| before.stashes.iter().any(|old| old.commit == stash.commit);
    let entries = after.stashes.iter().enumerate();
    entries.filter(move |(_, stash)| !is_old(stash) && !is_elsewhere(stash))
}

/// Branches and worktrees that changed, with their commits: places in which a session may have committed. A
/// branch that another worktree had checked out belongs to the work done there, unless that
/// worktree is inside ours.
pub(super) fn moved_elsewhere(before: &Facts, after: &Facts, top: &Path) -> Vec<(String, String)> {
    let is_inside = |worktree: &Worktree| worktree.path.starts_with(top);
    let is_theirs = |branch: &str| {
        let head = format!("ref: refs/heads/{branch}");
        before.worktrees.values().any(|it| it.head == head && !is_inside(it))
    };
    let is_ours =
        |name: &String| Some(name) == before.branch.as_ref() || Some(name) == after.branch.as_ref();
    let branches = after.branches.iter().filter(|(name, commit)| {
        before.branches.get(*name) != Some(commit) && !is_ours(name) && !is_theirs(name)
    });
    let mut moved: Vec<(String, String)> =
        branches.map(|(name, commit)| (format!("branch `{name}`"), commit.clone())).collect();
    for (name, worktree) in &after.worktrees {
        let counts = is_inside(worktree) || !before.worktrees.contains_key(name);
        let is_new = before.worktrees.get(name).is_none_or(|old| old.head != worktree.head);
        if counts && is_new && !worktree.head.starts_with("ref: ") {
            moved.push((format!("worktree `{name}`"), worktree.head.clone()));
        }
    }
    moved
}

/// What comes after a session, which decides what becomes of work that it has not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// Another attempt or another task, which must not find it in the tree.
    Task,
    /// Another session of a loop, which goes on with it. These files are a person's, from before the loop.
    Iteration(&'a BTreeSet<PathBuf>),
}

impl Next<'_> {
    /// Whether a file that was not committed before the session is a person's. In a loop it may be what an
    /// earlier session left, which this one may take back.
    pub(super) fn is_persons(self, path: &Path) -> bool {
        match self {
            Next::Task => true,
            Next::Iteration(persons) => persons.contains(path),
        }
    }
}

/// Whether a change that a session has not committed stays in the tree. `moved` are the files in which the
/// commit that is checked out differs from the one that is put back: such a change is one to another
/// version of its file.
pub(super) fn stays(
    next: Next<'_>,
    change: &Change,
    disorder: &[Disorder],
    moved: &BTreeSet<PathBuf>,
) -> bool {
    // What git is in the middle of is in the index, conflicts included.
    let is_unfinished =
        change.staged && disorder.iter().any(|it| matches!(it, Disorder::Unfinished(_)));
    match next {
        Next::Task => false,
        Next::Iteration(_) => !is_unfinished && !moved.contains(&change.path),
    }
}

/// Whether a file is given back that was not committed before the session, and that the session has thrown
/// away.
pub(super) fn comes_back(next: Next<'_>, path: &Path, disorder: &[Disorder]) -> bool {
    next.is_persons(path) || !disorder.is_empty()
}

/// What to do with work that is said to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// It may be verified.
    GoOn,
    /// The attempt has failed, because the repository is not in order.
    Fail,
    /// The attempt has failed, because its changes are not committed.
    HandBack,
    /// Ralph commits what the session did not.
    Commit,
}

/// What to do with work that is said to be done. Changes that are not committed are handed back once, where
/// there is another attempt to hand them to.
pub(super) fn course(
    disorder: &[Disorder],
    has_leftovers: bool,
    was_handed_back: bool,
    is_last_attempt: bool,
) -> Course {
    match (disorder, has_leftovers) {
        ([_, ..], _) => Course::Fail,
        ([], false) => Course::GoOn,
        ([], true) if was_handed_back || is_last_attempt => Course::Commit,
        ([], true) => Course::HandBack,
    }
}

/// Whether the last attempt failed because its changes were not committed.
pub(super) fn was_handed_back(attempts: &[Attempt]) -> bool {
    let counts = |outcome: Outcome| match outcome {
        Outcome::Done | Outcome::Failed | Outcome::Blocked | Outcome::Silent => true,
        Outcome::Interrupted | Outcome::Crashed | Outcome::Limited | Outcome::Overruled => false,
    };
    let last = attempts.iter().rev().find(|it| it.outcome.is_some_and(counts));
    let reason = last.and_then(|last| last.reason.as_deref());
    reason.is_some_and(|reason| reason.starts_with(UNCOMMITTED))
}

/// Why an attempt is handed back that did not commit these files.
pub(super) fn not_committed(files: &[PathBuf]) -> String {
    format!("{UNCOMMITTED} {}: commit all changes before saying done", names(files))
}

/// The names of files, if they are not too many.
pub(super) fn names(files: &[PathBuf]) -> String {
    let mut named: Vec<String> =
        files.iter().take(NAMED).map(|file| format!("`{}`", file.display())).collect();
    if files.len() > NAMED {
        named.push(format!("{} more files", files.len() - NAMED));
    }
    match named.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "nothing".to_owned(),
    }
}

/// What is wrong with the repository, in words; none if nothing is.
pub(super) fn in_words(disorder: &[Disorder]) -> Option<String> {
    let words: Vec<String> = disorder.iter().map(Disorder::to_string).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |branch: &Option<String>| match branch {
            Some(name) => format!("`{name}`"),
            None => "a detached HEAD".to_owned(),
        };
        match self {
            Disorder::Branch { was, is: Some(is) } => {
                write!(f, "the session ended on branch `{is}` instead of {}", place(was))
            }
            Disorder::Branch { was, is: None } => {
                write!(f, "the session ended on a detached HEAD instead of {}", place(was))
            }
            Disorder::History { branch: Some(name) } => {
                write!(f, "the session removed commits from `{name}` that it began with")
            }
            Disorder::History { branch: None } => {
                f.write_str("the session ended on a commit without the one that it began with")
            }
            Disorder::Unfinished(operation) => {
                write!(f, "the session left {operation} unfinished")
            }
            Disorder::Stashed => f.write_str("the session left changes in the stash"),
            Disorder::Flagged(files) => write!(
                f,
                "the session hid {} from git (`git update-index --assume-unchanged` or `--skip-worktree`)",
                names(files)
            ),
            Disorder::Submodules(paths) => write!(
                f,
                "the session changed {} (a submodule) and committed no such change here; it stays as it is",
                names(paths)
            ),
            Disorder::Excluded => {
                f.write_str("the session changed `.git/info/exclude`, which hides files from git")
            }
            Disorder::Elsewhere { branch, places } => {
                let places = places.join(" and ");
                write!(f, "the session committed to {places} and nothing to {}", place(branch))
            }
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Merge => "a merge",
            Operation::Rebase => "a rebase",
            Operation::CherryPick => "a cherry-pick",
            Operation::Revert => "a revert",
            Operation::Am => "`git am`",
            Operation::Bisect => "a bisection",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(branch: &str, head: &str) -> Facts {
        let name = Some(branch.to_owned()).filter(|it| !it.is_empty());
        let branches = [("main", "1"), ("side", "1")];
        let branches = branches.map(|(name, commit)| (name.to_owned(), commit.to_owned()));
        let mut branches = BTreeMap::from(branches);
        branches.extend(name.iter().map(|name| (name.clone(), head.to_owned())));
        Facts { branch: name, head: Some(head.to_owned()), branches, ..Facts::default() }
    }

    fn told(before: &Facts, after: &Facts, keeps_history: bool, elsewhere: &[&str]) -> String {
        let elsewhere = elsewhere.iter().map(|&it| it.to_owned()).collect();
        let found = disorder(before, after, &Compared { keeps_history, elsewhere });
        in_words(&found).unwrap_or_default()
    }

    #[test]
    fn a_tree_is_in_order_on_its_branch_with_its_history_and_nothing_half_way() {
        let main = on("main", "1");
        let merging = Facts { operation: Some(Operation::Merge), ..main.clone() };
        let rebasing = Facts { operation: Some(Operation::Rebase), ..on("", "1") };
        let stash = Stash { commit: "5".into(), message: "WIP on main: x".into() };
        let stashed = Facts { stashes: vec![stash], ..main.clone() };
        let side = ["branch `side`"];
        for (before, after, keeps_history, elsewhere, expected) in [
            (&main, &main, true, &[][..], ""),
            (&main, &on("main", "2"), true, &[], ""),
            (&main, &on("main", "2"), true, &side, ""),
            (
                &main,
                &on("side", "2"),
                true,
                &[],
                "the session ended on branch `side` instead of `main`",
            ),
            (
                &main,
                &on("", "1"),
                true,
                &[],
                "the session ended on a detached HEAD instead of `main`",
            ),
            (&on("", "1"), &on("", "2"), true, &[], ""),
            (
                &on("", "1"),
                &main,
                true,
                &[],
                "the session ended on branch `main` instead of a detached HEAD",
            ),
            (
                &main,
                &on("main", "0"),
                false,
                &[],
                "the session removed commits from `main` that it began with",
            ),
            (
                &on("", "1"),
                &on("", "0"),
                false,
                &[],
                "the session ended on a commit without the one that it began with",
            ),
            (&main, &merging, true, &[], "the session left a merge unfinished"),
            (&merging, &merging, true, &[], ""),
            (&merging, &main, true, &[], ""),
            (&main, &rebasing, true, &[], "the session left a rebase unfinished"),
            (&main, &stashed, true, &[], "the session left changes in the stash"),
            (&stashed, &stashed, true, &[], ""),
            (&stashed, &main, true, &[], ""),
            (
                &main,
                &main,
                true,
                &side,
                "the session committed to branch `side` and nothing to `main`",
            ),
            (
                &main,
                &Facts { operation: Some(Operation::Merge), ..on("side", "0") },
                false,
                &side,
                "the session ended on branch `side` instead of `main`; the session removed commits from \
                 `main` that it began with; the session left a merge unfinished",
            ),
        ] {
            assert_eq!(told(before, after, keeps_history, elsewhere), expected);
        }
    }

    #[test]
    fn what_is_not_committed_stays_for_a_loop_where_it_can() {
        let persons = BTreeSet::from([PathBuf::from("mine")]);
        let moved = BTreeSet::from([PathBuf::from("f")]);
        let iteration = Next::Iteration(&persons);
        let change = |path: &str, staged| Change { path: path.into(), tracked: true, staged };
        let branch = [Disorder::Branch { was: Some("main".into()), is: None }];
        let merge = [Disorder::Unfinished(Operation::Merge)];
        for (next, path, staged, disorder, expected) in [
            (Next::Task, "g", false, &[][..], false),
            (iteration, "g", false, &[], true),
            (iteration, "g", true, &[], true),
            (iteration, "g", true, &branch, true),
            (iteration, "f", false, &branch, false),
            (iteration, "g", false, &merge, true),
            (iteration, "g", true, &merge, false),
        ] {
            let is = stays(next, &change(path, staged), disorder, &moved);
            assert_eq!(is, expected, "{next:?}, {path}, {staged}, {disorder:?}");
        }
        for (next, path, disorder, expected) in [
            (Next::Task, "left", &[][..], true),
            (iteration, "mine", &[], true),
            (iteration, "left", &[], false),
            (iteration, "left", &branch, true),
        ] {
            assert_eq!(comes_back(next, Path::new(path), disorder), expected, "{next:?}, {path}");
        }
    }

    #[test]
    fn what_hides_changes_is_noticed_unless_it_was_there_before() {
        let flags = |files: &[(&str, Flag)]| Hiding {
            flags: files.iter().map(|(file, flag)| ((*file).to_owned(), *flag)).collect(),
            exclude: Some(b"x".to_vec()),
        };
        let mine = flags(&[("mine", Flag::AssumeUnchanged)]);
        let both = flags(&[("mine", Flag::AssumeUnchanged), ("f", Flag::SkipWorktree)]);
        let other = flags(&[("mine", Flag::Both)]);
        let excluded = Hiding { exclude: None, ..mine.clone() };
        let flagged = |name: &str| Disorder::Flagged(vec![name.into()]);
        for (after, expected) in [
            (&mine, vec![]),
            (&flags(&[]), vec![]),
            (&both, vec![flagged("f")]),
            (&other, vec![flagged("mine")]),
            (&excluded, vec![Disorder::Excluded]),
        ] {
            assert_eq!(hidden(&mine, after), expected);
        }
    }

    #[test]
    fn what_other_worktrees_do_is_their_own_business() {
        let worktree = |path: &str, head: &str| Worktree { path: path.into(), head: head.into() };
        let other = ("other".to_owned(), worktree("/other", "ref: refs/heads/theirs"));
        let before = Facts { worktrees: BTreeMap::from([other]), ..on("main", "1") };
        let moved = |change: &dyn Fn(&mut Facts)| {
            let mut after = before.clone();
            change(&mut after);
            moved_elsewhere(&before, &after, Path::new("/project"))
        };
        let branch = |name: &'static str| {
            move |after: &mut Facts| drop(after.branches.insert(name.into(), "2".into()))
        };
        assert_eq!(moved(&branch("main")), []);
        assert_eq!(moved(&branch("theirs")), []);
        assert_eq!(moved(&branch("side")), [("branch `side`".into(), "2".into())]);
        assert_eq!(moved(&branch("new")), [("branch `new`".into(), "2".into())]);
        let inside = |after: &mut Facts| {
            after.worktrees.insert("in".into(), worktree("/project/in", "2"));
        };
        assert_eq!(moved(&inside), [("worktree `in`".into(), "2".into())]);
        let theirs = Stash { commit: "7".into(), message: "On theirs: x".into() };
        let after = Facts { stashes: vec![theirs], ..before.clone() };
        assert_eq!(new_stashes(&before, &after).count(), 0);
    }

    #[test]
    fn what_is_not_committed_is_handed_back_once_and_then_committed() {
        let disorder = [Disorder::Stashed];
        for (disorder, leftovers, before, last, expected) in [
            (&[][..], false, false, false, Course::GoOn),
            (&[], false, true, true, Course::GoOn),
            (&[], true, false, false, Course::HandBack),
            (&[], true, true, false, Course::Commit),
            (&[], true, false, true, Course::Commit),
            (&disorder, false, true, true, Course::Fail),
            (&disorder, true, true, true, Course::Fail),
        ] {
            assert_eq!(course(disorder, leftovers, before, last), expected);
        }
    }

    #[test]
    fn a_reason_names_the_files_and_is_known_again() {
        let files: Vec<PathBuf> = (1..=12).map(|it| format!("f{it}").into()).collect();
        assert_eq!(names(&files[..1]), "`f1`");
        assert_eq!(names(&files[..3]), "`f1`, `f2` and `f3`");
        assert!(names(&files).ends_with(", `f10` and 2 more files"), "{}", names(&files));
        assert!(not_committed(&files).starts_with(UNCOMMITTED));
    }
}
