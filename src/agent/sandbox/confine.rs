//! What a process does to itself before it becomes the agent. Nothing of it can be undone from inside.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use landlock::{
    ABI, Access as _, AccessFs, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, make_bitflags, path_beneath_rules,
};

use super::landlock::{Confinement, PROBE};
use super::namespace;
use super::policy::Access;

/// The exit code when the agent could not be started, as in a shell.
const NOT_STARTED: u8 = 127;

/// Everything that this version of Landlock knows is restricted; an older kernel restricts what it can.
const KNOWN: ABI = ABI::V6;

/// Devices that do nothing but take and give bytes. With others root could read a disk without its
/// files, and anybody the terminal that ralph was started at.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Shared memory: files that are nobody else's.
const MEMORY: &str = "/dev/shm";

/// Restricts this process as the arguments say and makes it the program they name.
pub(in crate::agent) fn confine(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == PROBE).is_some() {
        return tell();
    }
    let Some(confinement) = Confinement::from_arguments(arguments) else {
        return ExitCode::from(NOT_STARTED);
    };
    let Err(error) = become_agent(&confinement);
    // Ralph reads it as the last words of the agent.
    let _ = write!(io::stderr(), "{error:#}");
    ExitCode::from(NOT_STARTED)
}

fn become_agent(confinement: &Confinement) -> Result<Infallible> {
    if confinement.namespaces {
        namespace::enter(confinement.network)?;
        namespace::mount(&confinement.accesses)?;
    }
    let writable = confinement.accesses.iter().filter(|(_, access)| *access == Access::Write);
    let status = restrict(writable.map(|(path, _)| path.as_path()))?;
    if let LandlockStatus::NotEnabled | LandlockStatus::NotImplemented = status.landlock {
        bail!("this kernel has no Landlock");
    }
    namespace::drop_capabilities().context("can't give up privileges")?;
    let error = Command::new(&confinement.program).args(&confinement.arguments).exec();
    Err(anyhow!(error).context(format!("can't start `{}`", confinement.program.display())))
}

/// From here on everything may be read and only this be written, and nothing outside be signalled.
fn restrict<'a>(writable: impl Iterator<Item = &'a Path>) -> Result<RestrictionStatus> {
    let everything = AccessFs::from_all(KNOWN);
    // Who can make a device has the disk.
    let all_but_devices = everything & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
    let bytes = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});
    let restricted = Ruleset::default()
        .handle_access(everything)?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(all_but_dev()?, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(writable, all_but_devices))?
        .add_rules(path_beneath_rules([MEMORY], all_but_devices))?
        .add_rules(path_beneath_rules(DEVICES, bytes))?
        .restrict_self();
    restricted.context("can't restrict the session with Landlock")
}

fn all_but_dev() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir("/").context("can't read `/`")?;
    Ok(entries.flatten().map(|it| it.path()).filter(|it| it != Path::new("/dev")).collect())
}

/// Tells in a line for each what works here: the version of Landlock, and whether there are namespaces.
fn tell() -> ExitCode {
    let namespaces = match namespace::try_out() {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    let version = match restrict(std::iter::empty()).map(|it| it.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_) => 0,
    };
    let _ = write!(io::stdout(), "{version}\n{namespaces}\n");
    ExitCode::SUCCESS
}
