//! Finds out what works here, by trying it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::super::process::{find_program, own_program};
use super::choose::{Here, Landlock};
use super::landlock::{CONFINE, PROBE};
use super::{bwrap, seatbelt};

impl Here {
    /// Tries everything; `path` is where programs are looked for.
    pub fn look(path: &OsStr) -> Here {
        Here {
            bwrap: bwrap_here(path),
            landlock: landlock_here(),
            seatbelt: seatbelt_here(),
            docker: docker_here(path),
        }
    }
}

fn bwrap_here(path: &OsStr) -> Result<PathBuf, String> {
    let program = found("bwrap", path)?;
    let nothing = found("true", path)?;
    let output = run(Command::new(&program).args(bwrap::BASE).arg("--").arg(nothing))?;
    if output.status.success() { Ok(program) } else { Err(last_words(&output)) }
}

fn landlock_here() -> Result<Landlock, String> {
    if !cfg!(target_os = "linux") {
        return Err("this is not Linux".to_owned());
    }
    let output = run(Command::new(own_program()).args([CONFINE, PROBE]))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = told.lines();
    let version = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let namespaces = match lines.next() {
        Some("ok") => Ok(()),
        Some(why) => Err(why.to_owned()),
        None => Err("it could not be tried".to_owned()),
    };
    if version == 0 {
        Err("this kernel has none".to_owned())
    } else {
        Ok(Landlock { version, namespaces })
    }
}

fn seatbelt_here() -> Result<(), String> {
    if !cfg!(target_os = "macos") {
        return Err("this is not macOS".to_owned());
    }
    match Path::new(seatbelt::PROGRAM).exists() {
        true => Ok(()),
        false => Err(format!("`{}` was not found", seatbelt::PROGRAM)),
    }
}

fn docker_here(path: &OsStr) -> Result<(), String> {
    let program = found("docker", path)?;
    let output = run(Command::new(program).args(["sandbox", "--help"]))?;
    let helps = String::from_utf8_lossy(&output.stdout).contains("docker sandbox");
    if helps { Ok(()) } else { Err("this docker has no sandboxes".to_owned()) }
}

fn found(name: &str, path: &OsStr) -> Result<PathBuf, String> {
    find_program(name.as_ref(), path, Path::new("/"))
        .ok_or_else(|| format!("`{name}` was not found"))
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.stdin(Stdio::null()).output();
    output.map_err(|error| format!("can't start `{}`: {error}", command.get_program().display()))
}

fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().last().unwrap_or("it fails and does not say why").to_owned()
}
