//! The program under the tests: versions of Claude Code from npm, kept below the target directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::harness::wait_until;

/// The version that the tests are written for.
pub(crate) const PINNED: &str = "2.1.325";
/// The version that `npm install` chooses on Node 20.
pub(crate) const OLDER: &str = "2.1.197";

const PACKAGE: &str = "@anthropic-ai/claude-code";
/// Longer than a slow line takes for a hundred megabytes.
const PATIENCE: Duration = Duration::from_secs(300);
/// How much of what npm says is passed on: the rest is about npm itself.
const SHOWN_LINES: usize = 5;

/// The newest version that npm has; none unless `RALPH_E2E_LATEST=1` asks for it.
pub(crate) fn latest() -> Option<&'static str> {
    static LATEST: OnceLock<Option<String>> = OnceLock::new();
    let ask = || {
        std::env::var_os("RALPH_E2E_LATEST").filter(|asked| asked == "1")?;
        let answer = Command::new("npm").args(["view", PACKAGE, "version"]).output();
        let version = answer.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
        let version = version.ok().filter(|version| !version.is_empty());
        if version.is_none() {
            say_aloud(
                "nothing was tried with the newest Claude Code: npm does not tell its version.",
            );
        }
        version
    };
    LATEST.get_or_init(ask).as_deref()
}

/// Not by a macro: those are only heard when a test fails.
fn say_aloud(what: &str) {
    let line = "=".repeat(72);
    let _ = writeln!(io::stderr(), "\n{line}\nSKIPPED: {what}\n{line}");
}

/// The program; none where it can't be had, which is said once, and aloud.
pub(crate) fn claude(version: &'static str) -> Option<PathBuf> {
    static FOUND: Mutex<BTreeMap<&str, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap();
    let program = found.entry(version).or_insert_with(|| match find_or_install(version) {
        Ok(program) => Some(program),
        Err(reason) => {
            say_aloud(&format!("nothing was tried with the real Claude Code {version}.\n{reason}"));
            None
        }
    });
    program.clone()
}

fn find_or_install(version: &str) -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let installed = cache.join(format!("claude-code-{version}"));
    let program = installed.join("node_modules").join(platform_package()?).join("claude");
    let told = |error: io::Error| format!("the directory for it can't be used: {error}");
    fs::create_dir_all(cache).map_err(told)?;
    // Another test process waits here, and then finds what this one has installed.
    let lock = File::create(cache.join("claude-code.lock")).map_err(told)?;
    lock.lock().map_err(told)?;
    if !program.is_file() {
        let unfinished = cache.join("claude-code.new");
        for leftover in [&unfinished, &installed] {
            if leftover.exists() {
                fs::remove_dir_all(leftover).map_err(told)?;
            }
        }
        fs::create_dir(&unfinished).map_err(told)?;
        install(version, &unfinished).inspect_err(|_| drop(fs::remove_dir_all(&unfinished)))?;
        fs::rename(unfinished, installed).map_err(told)?;
    }
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("`{PACKAGE}` {version} has no program for this machine")),
    }
}

/// The package with the program itself, which `PACKAGE` names as optional.
fn platform_package() -> Result<String, String> {
    match std::env::consts::ARCH {
        "x86_64" => Ok(format!("{PACKAGE}-linux-x64")),
        "aarch64" => Ok(format!("{PACKAGE}-linux-arm64")),
        other => Err(format!("there is no `{PACKAGE}` for {other}")),
    }
}

fn install(version: &str, directory: &Path) -> Result<(), String> {
    let log = directory.join("npm.log");
    let output = File::create(&log).map_err(|error| error.to_string())?;
    let mut npm = Command::new("npm")
        .args(["install", "--save-exact", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(["--no-update-notifier", "--loglevel=error", "--fetch-retries=1"])
        .args(["--fetch-retry-mintimeout=1000", "--prefix"])
        .arg(directory)
        .arg(format!("{PACKAGE}@{version}"))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .map_err(|error| format!("`npm` can't be started: {error}"))?;
    let status = wait_until(Instant::now() + PATIENCE, || npm.try_wait().ok().flatten());
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let _ = npm.kill();
    let _ = npm.wait();
    let said = fs::read_to_string(log).unwrap_or_default();
    let said: Vec<&str> = said.lines().take(SHOWN_LINES).collect();
    Err(format!("`npm install {PACKAGE}@{version}` failed:\n{}", said.join("\n")))
}
