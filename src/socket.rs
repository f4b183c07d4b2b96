//! Unix sockets by path, however long the path is: the address of a socket holds about a hundred bytes.

use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};

/// Listens on a new socket at this path.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    with_short_path(path, |path| UnixListener::bind(path))
}

/// Connects to the socket at this path.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |path| UnixStream::connect(path))
}

/// Hands every call that comes to `each`, until the other end of `stopped` is closed.
pub(crate) fn accept(
    listener: &UnixListener,
    stopped: &PipeReader,
    mut each: impl FnMut(UnixStream),
) {
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let _ = poll(&mut fds, None);
        if !fds[1].revents().is_empty() {
            return;
        }
        // A signal ends the wait, too: then nobody calls, and `accept` would wait for ever.
        if !fds[0].revents().is_empty()
            && let Ok((call, _)) = listener.accept()
        {
            each(call);
        }
    }
}

/// Linux names the directory of a path in a few bytes while it is open.
fn with_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name), true) =
        (path.parent(), path.file_name(), cfg!(target_os = "linux"))
    else {
        return act(path);
    };
    let directory = File::open(directory)?;
    act(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn a_path_may_be_longer_than_an_address() {
        let temporary = tempfile::TempDir::new().unwrap();
        let deep = temporary.path().join("d".repeat(100)).join("it's deep");
        std::fs::create_dir_all(&deep).unwrap();
        let listener = bind(&deep.join("socket")).unwrap();
        connect(&deep.join("socket")).unwrap().write_all(b"hello").unwrap();
        let mut heard = String::new();
        listener.accept().unwrap().0.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello");
    }
}
