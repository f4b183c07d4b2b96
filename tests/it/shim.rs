//! A library that is loaded into ralph before the system's own (`failing.c`), and lets calls of the
//! system fail or the clock jump.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The library, ready to be loaded.
pub(crate) struct Shim {
    library: PathBuf,
    report: PathBuf,
}

/// Kinds of calls of the system.
pub(crate) const KINDS: &[&str] = &["open", "entry", "write", "sync", "read"];

/// Which call fails, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) kind: &'static str,
    /// Which one of that kind, from 1.
    pub(crate) at: usize,
    pub(crate) errno: i32,
    /// Whether all after it fail, too.
    pub(crate) ever: bool,
}

/// What ralph asked the system for.
#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: Vec<usize>,
    /// The file that the call that failed was about; -1 for one that has none.
    pub(crate) failed: Option<i32>,
}

impl Report {
    /// How many calls there were of a kind.
    pub(crate) fn count(&self, kind: &str) -> usize {
        let place = KINDS.iter().position(|it| *it == kind);
        place.and_then(|place| self.counts.get(place)).copied().unwrap_or(0)
    }
}

impl Shim {
    /// Compiles it into this directory; none where that can't be done.
    pub(crate) fn compile(directory: &Path) -> Result<Option<Shim>> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/failing.c");
        let library = directory.join("failing.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        let Ok(output) = compiler.output() else { return Ok(None) };
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "cc: {said}");
        Ok(Some(Shim { library, report: directory.join("report") }))
    }

    /// Has the command load it, and a call fail.
    pub(crate) fn fail(&self, command: &mut Command, failure: Failure) {
        self.load(command);
        command
            .env("FAILING_KIND", failure.kind)
            .env("FAILING_AT", failure.at.to_string())
            .env("FAILING_ERRNO", failure.errno.to_string())
            .env("FAILING_EVER", i32::from(failure.ever).to_string());
    }

    /// Has the command load it, and only count.
    pub(crate) fn load(&self, command: &mut Command) {
        let _ = fs::remove_file(&self.report);
        command.env("LD_PRELOAD", &self.library).env("FAILING_REPORT", &self.report);
    }

    /// Has the command load it, and its clock jump by so many seconds forth and back after so many
    /// looks at it; with none, be wrong by so much all the time.
    pub(crate) fn jump(&self, command: &mut Command, seconds: i64, looks: usize) {
        self.load(command);
        command.env("FAILING_CLOCK", seconds.to_string());
        command.env("FAILING_LOOKS", looks.to_string());
    }

    /// What the last command asked the system for; nothing if it did not come to an end.
    pub(crate) fn report(&self) -> Result<Report> {
        let Ok(text) = fs::read_to_string(&self.report) else { return Ok(Report::default()) };
        let numbers: Vec<i64> =
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let (&fd, counts) = numbers.split_last().context("an empty report")?;
        let counts = counts.iter().map(|&it| it as usize).collect();
        Ok(Report { counts, failed: (fd != -2).then_some(fd as i32) })
    }
}
