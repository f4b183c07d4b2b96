//! What a session may do to the machine, as data: the same for every back end. How it looks at a place
//! is found out elsewhere, and nothing here touches a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::settings::Network;

/// What a session may write, and what it may not even there. Whatever it may not read is named, too.
///
/// All paths are absolute and free of symbolic links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The project.
    pub project: PathBuf,
    /// It is only to be looked at, as a verifier does.
    pub project_read_only: bool,
    /// The home of the user.
    pub home: PathBuf,
    /// The git directories of the project: its own and, of a linked worktree, the common one.
    pub git: Vec<PathBuf>,
    /// Directories for temporary files.
    pub temporary: Vec<PathBuf>,
    /// What agents and tools keep in the home.
    pub state: Vec<PathBuf>,
    /// What the user allows besides.
    pub allowed: Vec<PathBuf>,
    /// What stays as it is although it lies inside something writable: it runs or steers programs
    /// outside the sandbox later.
    pub protected: Vec<Protected>,
    /// What may not be read.
    pub hidden: Vec<Hidden>,
    /// Directories of which a session sees only a part.
    pub veiled: Vec<Veiled>,
    /// What may be reached.
    pub network: Network,
    /// The session has a terminal of its own, which it is to keep.
    pub terminal: bool,
    /// The user is root.
    pub as_root: bool,
}

/// A path that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protected {
    /// Where it is.
    pub path: PathBuf,
    /// What is there.
    pub state: State,
}

/// What is at a protected path before the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A file or a directory.
    Present,
    /// Nothing. While the session lasts, this takes the place.
    Absent(Standin),
    /// A symbolic link: nothing can be mounted on it, so it can be replaced.
    Link,
}

/// What stands for something that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standin {
    /// An empty directory, which git does not see, whatever it is called.
    Directory,
    /// A file whose content changes nothing for those who read it.
    File(&'static str),
}

/// A path that may not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// Where it is.
    pub path: PathBuf,
    /// It is a directory.
    pub directory: bool,
}

/// A directory of which a session sees only a part, and into which it can put nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Veiled {
    /// Where it is.
    pub path: PathBuf,
    /// What of it can be read.
    pub shown: Vec<PathBuf>,
    /// What of it can be written.
    pub writable: Vec<PathBuf>,
}

/// What a session may do at and below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    Write,
    /// Read.
    Read,
    /// Nothing, with this file.
    HiddenFile,
    /// Nothing, in this directory.
    HiddenDirectory,
    /// Nothing, in this directory, but with what is named inside it.
    Veiled,
}

impl Policy {
    /// The same, for a session that is only to look at the project.
    pub fn looking_only(&self) -> Policy {
        Policy { project_read_only: true, ..self.clone() }
    }

    /// Everything that may be written, with all that is in it.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        let project = Some(&self.project).filter(|_| !self.project_read_only);
        let git = self.git.iter().filter(|_| !self.project_read_only);
        let rest = [&self.temporary, &self.state, &self.allowed].into_iter().flatten();
        let learned = self.veiled.iter().filter(|_| !self.project_read_only);
        let learned = learned.flat_map(|it| &it.writable);
        project.into_iter().chain(git).chain(rest).chain(learned).map(PathBuf::as_path)
    }

    /// Whether a path can't be read in the session.
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(&hidden.path))
    }

    /// What can't be protected, because it is a symbolic link.
    pub fn links(&self) -> impl Iterator<Item = &Path> {
        let links = self.protected.iter().filter(|it| it.state == State::Link);
        links.map(|it| it.path.as_path())
    }

    /// The access to each path that differs from what it lies in; outer ones come first. Everything
    /// else may be read.
    pub fn accesses(&self) -> Vec<(PathBuf, Access)> {
        let mut accesses: BTreeMap<PathBuf, Access> =
            self.writable().map(|path| (path.to_owned(), Access::Write)).collect();
        if self.project_read_only {
            accesses.insert(self.project.clone(), Access::Read);
        }
        let protected = self.protected.iter().filter(|it| it.state != State::Link);
        accesses.extend(protected.map(|it| (it.path.clone(), Access::Read)));
        for veiled in &self.veiled {
            accesses.insert(veiled.path.clone(), Access::Veiled);
            for path in veiled.shown.iter().chain(&veiled.writable) {
                accesses.entry(path.clone()).or_insert(Access::Read);
            }
        }
        for hidden in &self.hidden {
            let access =
                if hidden.directory { Access::HiddenDirectory } else { Access::HiddenFile };
            accesses.insert(hidden.path.clone(), access);
        }
        pin(&mut accesses);
        let matters = |path: &Path, access: Access| {
            let around = path.parent().and_then(|above| access_in(&accesses, above));
            match around {
                Some(Access::HiddenDirectory) => false,
                Some(Access::Write | Access::Veiled) => true,
                Some(Access::Read | Access::HiddenFile) | None => access != Access::Read,
            }
        };
        let named = accesses.iter().map(|(path, access)| (path.clone(), *access));
        named.filter(|(path, access)| matters(path, *access)).collect()
    }
}

/// Gives every directory on the way to a path of its own its own access, too. What has one can't be
/// renamed, so nobody can move the way out of the way and build another.
fn pin(accesses: &mut BTreeMap<PathBuf, Access>) {
    let named: Vec<PathBuf> = accesses.keys().cloned().collect();
    for path in named {
        let on_the_way: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .filter(|it| {
                it.parent().and_then(|above| access_in(accesses, above)) == Some(Access::Write)
            })
            .collect();
        for directory in on_the_way {
            accesses.entry(directory.to_owned()).or_insert(Access::Write);
        }
    }
}

/// What may be done at a path, which follows from the nearest above it that has an access of its own.
fn access_in(accesses: &BTreeMap<PathBuf, Access>, path: &Path) -> Option<Access> {
    path.ancestors().find_map(|it| accesses.get(it).copied())
}

#[cfg(test)]
mod tests {
    use super::super::testing::policy;
    use super::*;

    fn shown(policy: &Policy) -> String {
        let line = |(path, access): &(PathBuf, Access)| format!("{access:?} {}", path.display());
        policy.accesses().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_protected_is_read_only_and_the_way_to_it_can_not_be_moved() {
        insta::assert_snapshot!(shown(&policy()), @"
        Write /home/u/.cache
        Write /home/u/.claude
        Read /home/u/.claude/settings.json
        HiddenDirectory /home/u/.ssh
        Write /home/u/project
        HiddenFile /home/u/project/.env
        Write /home/u/project/.git
        Read /home/u/project/.git/config
        Read /home/u/project/.git/hooks
        Read /home/u/project/.mcp.json
        Veiled /home/u/project/.ralph
        Read /home/u/project/.ralph/features
        Write /home/u/project/.ralph/skills
        Write /tmp
        ");
    }

    #[test]
    fn a_verifier_only_looks_at_the_project() {
        insta::assert_snapshot!(shown(&policy().looking_only()), @"
        Write /home/u/.cache
        Write /home/u/.claude
        Read /home/u/.claude/settings.json
        HiddenDirectory /home/u/.ssh
        HiddenFile /home/u/project/.env
        Veiled /home/u/project/.ralph
        Read /home/u/project/.ralph/features
        Read /home/u/project/.ralph/skills
        Write /tmp
        ");
    }

    #[test]
    fn a_verifier_only_looks_at_a_project_in_a_writable_place() {
        let policy = Policy { project: "/tmp/project".into(), ..policy().looking_only() };
        assert!(policy.accesses().contains(&("/tmp/project".into(), Access::Read)));
    }

    #[test]
    fn the_way_to_a_project_in_a_writable_place_can_not_be_moved() {
        let policy = Policy {
            project: "/tmp/a/b/project".into(),
            git: Vec::new(),
            state: Vec::new(),
            protected: Vec::new(),
            hidden: Vec::new(),
            veiled: Vec::new(),
            ..policy()
        };
        insta::assert_snapshot!(shown(&policy), @"
        Write /tmp
        Write /tmp/a
        Write /tmp/a/b
        Write /tmp/a/b/project
        ");
    }

    #[test]
    fn nothing_is_mounted_below_what_is_hidden() {
        let hidden = Hidden { path: "/home/u/project/.git".into(), directory: true };
        let policy = Policy { hidden: vec![hidden], ..policy() };
        assert!(!shown(&policy).contains(".git/config"));
    }

    #[test]
    fn a_link_can_not_be_protected_and_is_told() {
        let link = Protected { path: "/home/u/project/.vscode".into(), state: State::Link };
        let policy = Policy { protected: vec![link], ..policy() };
        assert!(!shown(&policy).contains(".vscode"));
        assert_eq!(policy.links().collect::<Vec<_>>(), [Path::new("/home/u/project/.vscode")]);
    }
}
