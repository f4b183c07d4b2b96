//! Where what we print ends up: files that grow while we work, whatever anybody else does.

use std::path::PathBuf;

/// The files that our output goes into: by itself, or by way of who reads it, such as `tee`.
#[cfg(target_os = "linux")]
pub(super) fn own() -> Vec<PathBuf> {
    let ours = linux::files("self").filter(|file| matches!(file.number, 1 | 2));
    ours.flat_map(
        |file| if file.is_pipe() { linux::written_by_readers(&file) } else { vec![file.path] },
    )
    .collect()
}

/// The files that our output goes into by itself: who reads it otherwise can't be told.
#[cfg(target_os = "macos")]
pub(super) fn own() -> Vec<PathBuf> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let paths = [rustix::fs::getpath(std::io::stdout()), rustix::fs::getpath(std::io::stderr())];
    let path = |path: std::ffi::CString| OsString::from_vec(path.into_bytes()).into();
    paths.into_iter().flatten().map(path).collect()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::path::PathBuf;

    /// Something that a process has open.
    pub(super) struct Open {
        pub(super) number: u32,
        pub(super) path: PathBuf,
    }

    impl Open {
        pub(super) fn is_pipe(&self) -> bool {
            self.path.to_string_lossy().starts_with("pipe:[")
        }
    }

    /// What a process has open, as far as we may know.
    pub(super) fn files(process: &str) -> impl Iterator<Item = Open> + use<> {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        entries.filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some(Open { number, path: fs::read_link(entry.path()).ok()? })
        })
    }

    /// What those write who read from a pipe.
    pub(super) fn written_by_readers(pipe: &Open) -> Vec<PathBuf> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let readers = processes.filter(|process| {
            files(process).any(|file| file.path == pipe.path && !writes(process, &file))
        });
        let written = readers.flat_map(|process| {
            files(&process).filter(|file| writes(&process, file)).collect::<Vec<_>>()
        });
        written.map(|file| file.path).filter(|path| path.is_file()).collect()
    }

    /// Whether a process may write what it has open.
    fn writes(process: &str, file: &Open) -> bool {
        let info = format!("/proc/{process}/fdinfo/{}", file.number);
        let info = fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        flags
            .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
            .is_some_and(|it| it & 3 != 0)
    }
}
