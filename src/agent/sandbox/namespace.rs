//! A view of the machine that only this process and its children have: what is mounted, what can be
//! reached, what they are entitled to.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, FileType, Mode, OFlags, StatVfsMountFlags, fstat, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_bind_recursive,
    mount_change, mount_remount, move_mount, open_tree,
};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::policy::Access;
use crate::settings::Network;

/// All that is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";
/// What is of no use when it is read-only, and costs time where nothing can be written in any case.
const LEFT_ALONE: [&str; 3] = ["/dev/shm", "/proc", "/sys/fs"];

/// Leaves the namespaces of our parent.
pub(super) fn enter(network: Network) -> Result<()> {
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    if network == Network::None {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if unshare(flags).is_err() {
        // Who is not entitled to it is entitled to be a user apart who is.
        unshare(flags | CloneFlags::CLONE_NEWUSER).context("can't make namespaces")?;
        stay(user, group).context("can't be the same user in a namespace")?;
    }
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", propagation).context("can't have mounts apart")
}

/// In the new namespace we are who we were.
fn stay(user: u32, group: u32) -> std::io::Result<()> {
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    // Without this the next is refused.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Mounts each path as it may be used, outer ones first, and makes the rest read-only.
pub(super) fn mount(accesses: &[(PathBuf, Access)]) -> Result<()> {
    let here = std::env::current_dir().context("can't tell the current directory")?;
    let mounts = fs::read_to_string(MOUNTS).with_context(|| format!("can't read `{MOUNTS}`"))?;
    let paths = accesses.iter().map(|(path, _)| path);
    let can_be_written: HashSet<&PathBuf> =
        paths.filter(|path| is_read_only(path).is_ok_and(|it| !it)).collect();
    let windows = Windows::open(accesses)?;
    for (path, access) in accesses {
        let mounted = match access {
            Access::Write if can_be_written.contains(path) => {
                windows.mount(path).and_then(|()| writable(path))
            }
            Access::Write => windows.mount(path),
            Access::Read => windows.mount(path).and_then(|()| read_only(path)),
            Access::HiddenFile => {
                mount_bind_recursive("/dev/null", path).and_then(|()| closed(path))
            }
            Access::HiddenDirectory => rustix::mount::mount(
                "none",
                path,
                "tmpfs",
                MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV,
                c"mode=0000",
            ),
            Access::Veiled => rustix::mount::mount(
                "none",
                path,
                "tmpfs",
                MountFlags::NOSUID | MountFlags::NODEV,
                c"mode=0755",
            ),
        };
        mounted.with_context(|| format!("can't protect `{}`", path.display()))?;
    }
    for (path, _) in accesses.iter().filter(|(_, access)| *access == Access::Veiled) {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount_remount(path, flags, "")
            .with_context(|| format!("can't protect `{}`", path.display()))?;
    }
    for path in mount_points(&mounts) {
        let is_apart = accesses.iter().any(|(named, _)| path.starts_with(named))
            || LEFT_ALONE.iter().any(|it| path.starts_with(it));
        if !is_apart {
            // Landlock does not know of modes and times, which this keeps. What can't be mounted
            // anew keeps at least its content.
            let _ = read_only(&path);
        }
    }
    // Where we are is still what lies under the mounts: relative paths would lead past them.
    std::env::set_current_dir(&here).with_context(|| format!("can't go to `{}`", here.display()))
}

/// What is to be seen of directories that are veiled, opened before the veil covers it.
struct Windows<'a>(HashMap<&'a Path, OwnedFd>);

impl<'a> Windows<'a> {
    fn open(accesses: &'a [(PathBuf, Access)]) -> Result<Windows<'a>> {
        let veiled: Vec<&Path> = accesses
            .iter()
            .filter(|(_, access)| *access == Access::Veiled)
            .map(|(path, _)| path.as_path())
            .collect();
        let mut windows = HashMap::new();
        for (path, _) in accesses {
            if veiled.iter().any(|veil| path != veil && path.starts_with(veil)) {
                let flags = OpenTreeFlags::OPEN_TREE_CLONE
                    | OpenTreeFlags::OPEN_TREE_CLOEXEC
                    | OpenTreeFlags::AT_RECURSIVE;
                let tree = open_tree(CWD, path, flags)
                    .with_context(|| format!("can't open `{}`", path.display()))?;
                windows.insert(path.as_path(), tree);
            }
        }
        Ok(Windows(windows))
    }

    /// Makes a path a mount of its own, which shows what was there before.
    fn mount(&self, path: &Path) -> rustix::io::Result<()> {
        let Some(tree) = self.0.get(path) else { return mount_bind_recursive(path, path) };
        let is_directory = FileType::from_raw_mode(fstat(tree)?.st_mode) == FileType::Directory;
        match is_directory {
            true => rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))?,
            false => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                drop(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?);
            }
        }
        move_mount(tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    }
}

/// Where something is mounted.
fn mount_points(mounts: &str) -> impl Iterator<Item = PathBuf> {
    mounts.lines().filter_map(|line| Some(unescaped(line.split(' ').nth(4)?)))
}

/// In that list a blank is `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let digits = others.get(..3).and_then(|it| str::from_utf8(it).ok());
        let escaped =
            digits.filter(|_| first == b'\\').and_then(|it| u8::from_str_radix(it, 8).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &others[3..] } else { others };
    }
    OsString::from_vec(bytes).into()
}

fn read_only(path: &Path) -> rustix::io::Result<()> {
    mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | kept_flags(path)?, "")
}

/// What lies in something that we have made read-only is so, too, until it is told otherwise.
fn writable(path: &Path) -> rustix::io::Result<()> {
    match is_read_only(path)? {
        true => mount_remount(path, MountFlags::BIND | kept_flags(path)?, ""),
        false => Ok(()),
    }
}

fn is_read_only(path: &Path) -> rustix::io::Result<bool> {
    Ok(statvfs(path)?.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// A device that can't be opened.
fn closed(path: &Path) -> rustix::io::Result<()> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV;
    mount_remount(path, flags | kept_flags(path)?, "")
}

/// The restrictions that a mount has already, and that a user apart may not lift.
fn kept_flags(path: &Path) -> rustix::io::Result<MountFlags> {
    let present = statvfs(path)?.f_flag;
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| present.contains(*flag)).map(|(_, kept)| kept);
    Ok(kept.fold(MountFlags::empty(), |all, flag| all | flag))
}

/// Gives up everything that root or the owner of a namespace is entitled to, for good.
pub(super) fn drop_capabilities() -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        if capability_is_in_bounding_set(capability).unwrap_or(false) {
            // Who may not do this has nothing that could be given back, either.
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Whether all of this works here.
pub(super) fn try_out() -> Result<()> {
    enter(Network::None)?;
    let place = Path::new("/");
    mount(&[(place.join("tmp"), Access::Read), (place.join("proc"), Access::HiddenDirectory)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_whatever_they_are_called() {
        let list = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    22 21 0:5 / /mnt/a\\040b\\134c rw,nosuid shared:1 - tmpfs none rw\nodd";
        let found: Vec<PathBuf> = mount_points(list).collect();
        assert_eq!(found, [Path::new("/"), Path::new(r"/mnt/a b\c")]);
    }
}
