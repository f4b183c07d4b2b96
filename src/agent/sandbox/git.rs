//! The git directories of a project, and what in them makes git run programs.

use std::fs;
use std::path::{Path, PathBuf};

use super::places::look;
use super::policy::{Protected, Standin};

/// What git needs to write, and what of that must stay as it is.
#[derive(Debug, Default)]
pub(super) struct Directories {
    pub(super) writable: Vec<PathBuf>,
    pub(super) protected: Vec<Protected>,
}

/// The git directories that work in a project writes to; none outside a repository.
pub(super) fn directories(project: &Path) -> Directories {
    let dot_git = project.ancestors().map(|it| it.join(".git")).find(|it| it.exists());
    let Some((dot_git, own)) = dot_git.and_then(|it| Some((it.clone(), git_directory(&it)?)))
    else {
        return Directories::default();
    };
    let common = common_directory(&own);
    let is_linked = own != common;
    let mut protected = vec![
        // Of a linked worktree or a submodule it says which directory is meant.
        look(&dot_git, None).filter(|_| !is_plain_directory(&dot_git)),
        look(&common.join("hooks"), Some(Standin::Directory)),
        look(&common.join("config"), Some(Standin::File(""))),
        look(&common.join("config.worktree"), Some(Standin::File(""))),
        // With a file of this name the hooks and settings are looked for elsewhere.
        look(&common.join("commondir"), Some(Standin::File(".\n"))),
        // The same for each worktree.
        look(&common.join("worktrees"), None),
    ];
    if is_linked {
        protected.push(look(&own.join("commondir"), None));
        protected.push(look(&own.join("config.worktree"), Some(Standin::File(""))));
    }
    let writable = if is_linked { vec![common, own] } else { vec![own] };
    Directories { writable, protected: protected.into_iter().flatten().collect() }
}

fn is_plain_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|it| it.is_dir())
}

/// The directory that a `.git` is or names.
fn git_directory(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return dot_git.canonicalize().ok();
    }
    let text = fs::read_to_string(dot_git).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    dot_git.parent()?.join(named).canonicalize().ok()
}

/// The directory that a linked worktree shares with the others.
fn common_directory(own: &Path) -> PathBuf {
    let named = fs::read_to_string(own.join("commondir")).ok();
    let common = named.and_then(|named| own.join(named.trim()).canonicalize().ok());
    common.unwrap_or_else(|| own.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().canonicalize().unwrap();
        (place, path)
    }

    fn shown(found: &Directories, base: &Path) -> String {
        let name = |path: &Path| path.strip_prefix(base).unwrap().display().to_string();
        let writable = found.writable.iter().map(|path| format!("write {}", name(path)));
        let protected = found.protected.iter();
        let protected = protected.map(|it| format!("{:?} {}", it.state, name(&it.path)));
        writable.chain(protected).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_repository_has_one_directory() {
        let (_place, base) = place();
        fs::create_dir_all(base.join(".git/hooks")).unwrap();
        fs::write(base.join(".git/config"), "").unwrap();
        fs::create_dir(base.join("inside")).unwrap();
        let found = shown(&directories(&base), &base);
        insta::assert_snapshot!(found, @r#"
        write .git
        Present .git/hooks
        Present .git/config
        Absent(File("")) .git/config.worktree
        Absent(File(".\n")) .git/commondir
        "#);
        assert_eq!(shown(&directories(&base.join("inside")), &base), found);
    }

    #[test]
    fn a_linked_worktree_has_its_own_and_the_common_one() {
        let (_place, base) = place();
        fs::create_dir_all(base.join("main/.git/worktrees/tree")).unwrap();
        fs::write(base.join("main/.git/worktrees/tree/commondir"), "../..\n").unwrap();
        fs::create_dir(base.join("tree")).unwrap();
        fs::write(base.join("tree/.git"), "gitdir: ../main/.git/worktrees/tree\n").unwrap();
        insta::assert_snapshot!(shown(&directories(&base.join("tree")), &base), @r#"
        write main/.git
        write main/.git/worktrees/tree
        Present tree/.git
        Absent(Directory) main/.git/hooks
        Absent(File("")) main/.git/config
        Absent(File("")) main/.git/config.worktree
        Absent(File(".\n")) main/.git/commondir
        Present main/.git/worktrees
        Present main/.git/worktrees/tree/commondir
        Absent(File("")) main/.git/worktrees/tree/config.worktree
        "#);
    }

    #[test]
    fn outside_a_repository_there_is_nothing_to_do() {
        let (_place, base) = place();
        fs::write(base.join(".git"), "not git's").unwrap();
        assert!(directories(&base).writable.is_empty());
    }
}
