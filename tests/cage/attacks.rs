//! What an agent must not be able to do, each tried for real. An attempt that succeeds is a hole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

/// Where the attempts are made.
struct Ground {
    base: PathBuf,
    project: PathBuf,
    /// A process that is not ours: the ralph that has started us.
    ralph: i32,
    /// The terminal of that ralph.
    terminal: PathBuf,
    /// A file that it has open for writing, and that we might have inherited.
    descriptor: i32,
}

type Attempt = fn(&Ground) -> io::Result<()>;

/// Tries everything and prints a line for each attempt: its name, a tab, and `HOLE` or the error.
pub(crate) fn all(mut arguments: impl Iterator<Item = OsString>) {
    let mut next = || arguments.next().unwrap_or_default();
    let number = |text: OsString| text.to_str().and_then(|it| it.parse().ok()).unwrap_or(-1);
    let base = PathBuf::from(next());
    let ground = Ground {
        project: base.join("project"),
        ralph: number(next()),
        terminal: next().into(),
        descriptor: number(next()),
        base,
    };
    // Whoever starts this by hand, outside a sandbox, would be hurt.
    let is_prepared = ground.outside("victim").exists()
        && std::env::current_dir().is_ok_and(|here| here == ground.project);
    for (name, attempt) in ATTEMPTS.iter().filter(|_| is_prepared) {
        let outcome = match attempt(&ground) {
            Ok(()) => "HOLE".to_owned(),
            Err(error) => match error.raw_os_error() {
                Some(code) => rustix::io::Errno::from_raw_os_error(code).to_string(),
                None => error.to_string(),
            },
        };
        let _ = writeln!(io::stdout(), "{name}\t{outcome}");
    }
}

impl Ground {
    fn outside(&self, name: &str) -> PathBuf {
        self.base.join("outside").join(name)
    }

    fn home(&self, name: &str) -> PathBuf {
        self.base.join("home").join(name)
    }

    fn inside(&self, name: &str) -> PathBuf {
        self.project.join(name)
    }

    /// The other process. That there is none is a refusal, too.
    fn other(&self) -> io::Result<Pid> {
        Pid::from_raw(self.ralph).ok_or_else(|| io::Error::other("no such process"))
    }
}

const ATTEMPTS: &[(&str, Attempt)] = &[
    // Out of the project.
    ("make a file outside", |on| write(on.outside("new"))),
    ("change a file outside", |on| append(on.outside("victim"))),
    ("cut a file outside short", |on| cut(on.outside("victim"))),
    ("remove a file outside", |on| fs::remove_file(on.outside("victim"))),
    ("make a directory outside", |on| fs::create_dir(on.outside("new"))),
    ("make a link outside", |on| symlink("/", on.outside("new"))),
    ("change a mode outside", |on| chmod(on.outside("victim"))),
    ("climb out with ..", |on| append(on.inside("../outside/victim"))),
    ("climb out from here", |_| append("../outside/victim")),
    ("leave through a symbolic link", |on| {
        symlink(on.outside("victim"), on.inside("door"))?;
        append(on.inside("door"))
    }),
    ("leave through a linked directory", |on| {
        symlink(on.outside(""), on.inside("gate"))?;
        write(on.inside("gate/new"))
    }),
    ("leave through a hard link", |on| {
        fs::hard_link(on.outside("victim"), on.inside("twin"))?;
        append(on.inside("twin"))
    }),
    ("move a file out", |on| {
        write(on.inside("parcel"))?;
        fs::rename(on.inside("parcel"), on.outside("parcel"))
    }),
    ("replace a file outside", |on| {
        write(on.inside("parcel"))?;
        fs::rename(on.inside("parcel"), on.outside("victim"))
    }),
    ("move a file in", |on| fs::rename(on.outside("victim"), on.inside("loot"))),
    ("leave through /proc/self/root", |on| append(rooted("self", &on.outside("victim")))),
    ("leave through /proc/self/cwd", |_| append("/proc/self/cwd/../outside/victim")),
    ("leave through the root of ralph", |on| {
        append(rooted(&on.ralph.to_string(), &on.outside("victim")))
    }),
    ("write to an inherited file", |on| shell(&format!("echo attacked >&{}", on.descriptor))),
    // Into the home.
    ("add a key to ~/.ssh", |on| append(on.home(".ssh/authorized_keys"))),
    ("make a file in ~/.ssh", |on| write(on.home(".ssh/config"))),
    ("change ~/.bashrc", |on| append(on.home(".bashrc"))),
    ("make ~/.gitconfig", |on| write(on.home(".gitconfig"))),
    ("change ~/.claude/settings.json", |on| write(on.home(".claude/settings.json"))),
    ("replace ~/.claude/settings.json", |on| replace(on.home(".claude/settings.json"))),
    ("add a hook to ~/.claude", |on| write(on.home(".claude/hooks/stop"))),
    ("add a plugin to ~/.claude", |on| write(on.home(".claude/plugins/p/plugin.json"))),
    ("add an agent to ~/.claude", |on| write(on.home(".claude/agents/a.md"))),
    ("add a command to ~/.claude", |on| write(on.home(".claude/commands/c.md"))),
    // What ralph has recorded.
    ("read the database", |on| read(on.inside(".ralph/progress.db"))),
    ("change the database", |on| append(on.inside(".ralph/progress.db"))),
    ("replace the database", |on| replace(on.inside(".ralph/progress.db"))),
    ("read what was last written to the database", |on| read(on.inside(".ralph/progress.db-wal"))),
    ("plant something beside the database", |on| write(on.inside(".ralph/progress.db-journal"))),
    ("read who holds the working tree", |on| read(on.inside(".ralph/run.json"))),
    ("decide about a task without the broker", |_| {
        shell("id=$(ralph task add Mine) && env -u RALPH_SOCKET ralph task done $id")
    }),
    ("decide about a task with the broker", |_| {
        shell("id=$(ralph task add Mine) && ralph task done $id")
    }),
    ("read a log of ralph", |on| read(on.home(".local/state/ralph/project-1/logs/1.log"))),
    ("change a log of ralph", |on| append(on.home(".local/state/ralph/project-1/logs/1.log"))),
    ("remove a log of ralph", |on| {
        fs::remove_file(on.home(".local/state/ralph/project-1/logs/1.log"))
    }),
    ("add a log to those of ralph", |on| write(on.home(".local/state/ralph/project-1/logs/2.log"))),
    ("add a project to those of ralph", |on| {
        fs::create_dir(on.home(".local/state/ralph/project-2"))
    }),
    ("move the logs of ralph away", |on| {
        fs::rename(on.home(".local/state/ralph"), on.home(".local/state/moved"))
    }),
    // What git runs.
    ("add a git hook", |on| write(on.inside(".git/hooks/pre-commit"))),
    ("add a git hook from here", |_| write(".git/hooks/pre-commit")),
    ("change .git/config", |on| append(on.inside(".git/config"))),
    ("change .git/config from here", |_| append(".git/config")),
    ("replace .git/config", |on| replace(on.inside(".git/config"))),
    ("remove .git/config", |on| fs::remove_file(on.inside(".git/config"))),
    ("change .git/config by its twin", |on| {
        fs::hard_link(on.inside(".git/config"), on.inside("config"))?;
        append(on.inside("config"))
    }),
    ("have git look elsewhere", |on| {
        fs::remove_file(on.inside(".git/commondir")).or_else(not_there)?;
        write(on.inside(".git/commondir"))
    }),
    ("make a .git/config.worktree", |on| append(on.inside(".git/config.worktree"))),
    ("move .git away", |on| fs::rename(on.inside(".git"), on.inside("git"))),
    ("move .git/hooks away", |on| fs::rename(on.inside(".git/hooks"), on.inside("hooks"))),
    // What steers agents, editors and ralph.
    ("make .claude/settings.json", |on| write(on.inside(".claude/settings.json"))),
    ("make .claude/settings.local.json", |_| write(".claude/settings.local.json")),
    ("add a hook to .claude", |on| write(on.inside(".claude/hooks/stop"))),
    ("add a command to .claude", |on| write(on.inside(".claude/commands/c.md"))),
    ("add an agent to .claude", |on| write(on.inside(".claude/agents/a.md"))),
    ("make another .claude", |on| another(&on.inside(".claude"))),
    ("make .mcp.json", |on| replace(on.inside(".mcp.json"))),
    ("make another .mcp.json", |on| another(&on.inside(".mcp.json"))),
    ("make .vscode/tasks.json", |on| write(on.inside(".vscode/tasks.json"))),
    ("link .vscode elsewhere", |on| {
        fs::remove_dir(on.inside(".vscode")).or_else(not_there)?;
        symlink(on.inside("src"), on.inside(".vscode"))
    }),
    ("make .idea/workspace.xml", |on| write(on.inside(".idea/workspace.xml"))),
    ("change .ralph.toml", |on| append(on.inside(".ralph.toml"))),
    ("replace .ralph.toml", |on| replace(on.inside(".ralph.toml"))),
    ("make a prompt for ralph", |on| write(on.inside(".ralph/prompts/work.md"))),
    ("make a skill for ralph", |on| write(on.inside(".ralph/skills/s/SKILL.md"))),
    ("make a plan for ralph", |on| write(on.inside(".ralph/features/f/plan.md"))),
    ("move .ralph away", |on| fs::rename(on.inside(".ralph"), on.inside("ralph"))),
    // What may not be read.
    ("read what is hidden", |on| read(on.home("secret"))),
    ("read what is hidden through a link", |on| {
        symlink(on.home("secret"), on.inside("peephole"))?;
        read(on.inside("peephole"))
    }),
    ("read what is hidden through /proc", |on| read(rooted("self", &on.home("secret")))),
    ("read what is hidden by its twin", |on| {
        fs::hard_link(on.home("secret"), on.inside("copy"))?;
        read(on.inside("copy"))
    }),
    ("list what is hidden", |on| fs::read_dir(on.home(".aws")).map(drop)),
    ("read in what is hidden", |on| read(on.home(".aws/credentials"))),
    // What runs outside.
    ("signal ralph", |on| Ok(kill_process(on.other()?, Signal::CONT)?)),
    ("trace ralph", |on| {
        let number = if cfg!(target_arch = "x86_64") { 101 } else { 117 };
        perl(&format!("syscall({number}, 16, {}, 0, 0) == 0", on.ralph))
    }),
    ("write into the memory of ralph", |on| open_to_write(format!("/proc/{}/mem", on.ralph))),
    ("read the environment of ralph", |on| read(format!("/proc/{}/environ", on.ralph))),
    ("take a file from ralph", |on| {
        let handle = pidfd_open(on.other()?, PidfdFlags::empty())?;
        Ok(pidfd_getfd(handle, on.descriptor, PidfdGetfdFlags::empty()).map(drop)?)
    }),
    ("write to the terminal of ralph", |on| append(&on.terminal)),
    ("type into the terminal of ralph", |on| {
        let no_terminal = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or_default();
        OpenOptions::new().read(true).custom_flags(no_terminal).open(&on.terminal)?;
        let terminal = on.terminal.display();
        perl(&format!("open(T, '<', '{terminal}') && ioctl(T, 0x5412, $c = 'x')"))
    }),
    ("open the terminal we are at", |_| append("/dev/tty")),
    ("knock at the session bus", |on| UnixStream::connect(on.base.join("run/bus")).map(drop)),
    // The sandbox itself.
    ("make .git/hooks writable", |on| {
        Ok(mount_remount(on.inside(".git/hooks"), MountFlags::BIND, "")?)
    }),
    ("unmount what protects .git/hooks", |on| {
        Ok(unmount(on.inside(".git/hooks"), UnmountFlags::DETACH)?)
    }),
    ("change how the kernel treats crashes", |_| open_to_write("/proc/sys/kernel/core_pattern")),
    ("restart the machine", |_| open_to_write("/proc/sysrq-trigger")),
    ("change how the kernel finds drivers", |_| open_to_write("/sys/kernel/uevent_helper")),
    ("read a disk", |_| {
        let disks = fs::read_dir("/sys/block")?.flatten();
        let disk = disks.map(|disk| Path::new("/dev").join(disk.file_name()));
        let nothing = Err(io::ErrorKind::NotFound.into());
        disk.fold(nothing, |found, disk| found.or_else(|_| File::open(disk))).map(drop)
    }),
    ("make a device in the project", |on| {
        let disk = rustix::fs::makedev(7, 0);
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(mknodat(CWD, on.inside("disk"), FileType::BlockDevice, mode, disk)?)
    }),
    // The last one, because it changes who we are.
    ("unmount it as somebody else", |on| {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        unmount(on.inside(".git/hooks"), UnmountFlags::DETACH)?;
        write(on.inside(".git/hooks/pre-commit"))
    }),
];

fn write(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    // The directory may be what is missing.
    if let Some(parent) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, "attacked\n")
}

fn append(path: impl AsRef<Path>) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(path)?.write_all(b"attacked\n")
}

/// That it can be opened is enough to know.
fn open_to_write(path: impl AsRef<Path>) -> io::Result<()> {
    OpenOptions::new().write(true).open(path).map(drop)
}

fn cut(path: impl AsRef<Path>) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path).map(drop)
}

fn read(path: impl AsRef<Path>) -> io::Result<()> {
    let content = fs::read(path)?;
    if content.is_empty() { Err(io::Error::other("nothing in it")) } else { Ok(()) }
}

fn chmod(path: impl AsRef<Path>) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o777))
}

/// Writes it anew beside it, and puts that in its place.
fn replace(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let fresh = path.with_extension("fresh");
    write(&fresh)?;
    fs::rename(&fresh, path).inspect_err(|_| {
        let _ = fs::remove_file(&fresh);
    })
}

/// Moves what is there out of the way and makes another.
fn another(path: &Path) -> io::Result<()> {
    fs::rename(path, path.with_extension("old")).or_else(not_there)?;
    File::create_new(path).map(drop)
}

/// What is not there need not be removed.
fn not_there(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn rooted(process: &str, path: &Path) -> PathBuf {
    Path::new("/proc").join(process).join("root").join(path.strip_prefix("/").unwrap_or(path))
}

fn shell(script: &str) -> io::Result<()> {
    let status = Command::new("sh").args(["-c", &format!("({script}) 2>/dev/null")]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("refused by the shell")) }
}

/// A system call that only a language without types makes for us: true, or else the error.
fn perl(call: &str) -> io::Result<()> {
    let status =
        Command::new("perl").args(["-e", &format!("exit(({call}) ? 0 : $!+0)")]).status()?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code)),
        None => Err(io::Error::other("perl was killed")),
    }
}
