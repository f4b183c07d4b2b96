//! The files that a process was started with besides its stdin and output. Whoever started ralph may
//! have left some open; they are not for the agent, whom no sandbox keeps from using them.

use std::fs;

/// Closes them. Only for a process that has just started and opened nothing itself.
pub(super) fn close_inherited() {
    let list = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let open: Vec<i32> = fs::read_dir(list)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The list itself was open while it was read, and is not any more.
    for descriptor in open.into_iter().filter(|&it| it > 2) {
        let _ = nix::unistd::close(descriptor);
    }
}
