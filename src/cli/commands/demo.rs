//! `ralph demo`: a small project goes from plan to done before your eyes, with a script in place of Claude.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::agent::{self, Invocation, Stdin};
use crate::cli::exit::Exit;
use crate::cli::setup::Setup;
use crate::demo::{AGENT, FEATURE, FILES, PLAN, SPEC};
use crate::hint::HintExt;
use crate::project::Project;
use crate::ui::{Terminal, chapter};

pub(super) fn run(keep: bool, setup: &Setup, out: &mut dyn Write) -> Result<Exit> {
    let stage = Stage::new(setup)?;
    let terminal = setup.terminal();
    let (title, exit) = match (Show { stage: &stage, terminal, out }).play() {
        Ok(()) => ("That was it", Exit::Done),
        Err(error) if error.is::<Interrupted>() => ("Interrupted", Exit::Interrupted),
        Err(error) => return Err(error),
    };
    chapter::title(out, title, terminal)?;
    if keep {
        let root = stage.keep();
        let (root, all) = (root.display(), root.parent().unwrap_or(&root).display());
        let text = format!("The project is in {root}.\n{KEPT}\nTo remove it: rm -r {all}");
        chapter::words(out, &text, terminal)?;
    } else {
        chapter::words(out, GONE, terminal)?;
    }
    chapter::words(out, YOURS, terminal)?;
    Ok(exit)
}

const KEPT: &str = "Look around there with ralph status, ralph logs, ralph task show and git show.";
const GONE: &str = "The project is gone now; `ralph demo --keep` leaves it to you.";
const YOURS: &str = "For your own: cd YOUR-PROJECT && ralph init && ralph feature spec NAME";

/// How long a person has for the words before a command.
const PAUSE: Duration = Duration::from_millis(800);

/// The person who watches has seen enough.
#[derive(Debug)]
struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Where the demo happens: a directory of its own, with the repository and the agent in it.
struct Stage {
    directory: Option<PathBuf>,
    root: PathBuf,
    path: OsString,
    /// What children must not know: it would lead them to another project or repository.
    removed: Vec<OsString>,
}

impl Stage {
    fn new(setup: &Setup) -> Result<Stage> {
        let number = getrandom::u32().unwrap_or_default();
        let directory = setup.temporary().join(format!("ralph-demo-{number:08x}"));
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .with_context(|| format!("can't make `{}`", directory.display()))?;
        // The names of things are shown as they are, not by way of links.
        let directory = directory.canonicalize()?;
        let root = directory.join(FEATURE);
        let removed = std::env::vars_os().map(|(name, _)| name).filter(is_about_elsewhere);
        let stage = Stage {
            directory: Some(directory.clone()),
            root: root.clone(),
            path: setup.session_path()?,
            removed: removed.collect(),
        };
        fs::create_dir(&root)?;
        for (name, text) in FILES {
            fs::write(root.join(name), text)?;
        }
        let agent = directory.join(AGENT);
        symlink(std::env::current_exe()?, &agent)?;
        fs::write(root.join(".ralph.toml"), settings(&agent, &directory.join("logs")))?;
        stage.git(&["init", "--quiet"])?;
        // Neither the user's name nor their hooks have anything to do with this.
        for (name, value) in [
            ("user.name", "ralph demo"),
            ("user.email", "demo@example.com"),
            ("commit.gpgSign", "false"),
            ("core.hooksPath", "/dev/null"),
        ] {
            stage.git(&["config", name, value])?;
        }
        Ok(stage)
    }

    fn git(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.root);
        for name in &self.removed {
            command.env_remove(name);
        }
        let output = command
            .output()
            .context("can't run `git`")
            .hint("the demo works in a git repository: install git")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git {} failed: {complaint}", arguments.join(" "));
        Ok(())
    }

    /// Leaves everything where it is.
    fn keep(mut self) -> PathBuf {
        self.directory = None;
        std::mem::take(&mut self.root)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // What can't be removed is in a directory for temporary files.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn is_about_elsewhere(variable: &OsString) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("RALPH_") || name.starts_with("GIT_")
}

/// The settings of the project of the demo.
fn settings(agent: &Path, logs: &Path) -> String {
    let quoted = |path: &Path| toml::Value::from(path.to_string_lossy().as_ref()).to_string();
    format!(
        "log_dir = {}\n\n[agent]\ncommand = {}\n\n[run]\nmodel = \"script\"\n\n\
         [verify]\ncommands = [\"sh check.sh\"]\n",
        quoted(logs),
        quoted(agent)
    )
}

/// What a person sees.
struct Show<'a> {
    stage: &'a Stage,
    terminal: Terminal,
    out: &'a mut dyn Write,
}

impl Show<'_> {
    fn play(&mut self) -> Result<()> {
        self.chapter(
            "A small project goes from plan to done",
            "Everything here is real: the repository, the commands, the processes, the \
             checks, the commits. Only the agent is not Claude but a script that plays \
             its part. It takes some 15 seconds.",
        )?;
        self.chapter(
            "1/5  A project",
            "Any git repository will do. Its settings name the agent, and `sh check.sh` as \
             what must succeed before a task counts as done.",
        )?;
        self.call("ralph init && cat .ralph.toml && git add . && git commit -qm Begin")?;
        self.chapter(
            "2/5  A spec and a plan",
            &format!(
                "With Claude, `ralph feature spec {FEATURE}` and `ralph feature plan {FEATURE}` \
                 interview you and write them. Here they are given:"
            ),
        )?;
        let place = Project::at(&self.stage.root).feature(FEATURE);
        fs::create_dir_all(&place)?;
        for (name, text) in [("spec.md", SPEC), ("plan.md", PLAN)] {
            fs::write(place.join(name), text)?;
            chapter::quotation(self.out, text, self.terminal)?;
        }
        self.chapter("3/5  Tasks", "The agent turns the plan into tasks: it calls ralph itself.")?;
        self.call(&format!("ralph feature build {FEATURE}"))?;
        self.chapter(
            "4/5  The work",
            "Each task gets a session of its own. What it says is done is checked: first \
             by `sh check.sh`, then by a second agent. One session says so too early.",
        )?;
        self.call(&format!("git add . && git commit -qm Plan && ralph run {FEATURE}"))?;
        self.chapter("5/5  What there is now", "Tasks, commits, and a program that works.")?;
        for command in [
            "ralph task tree",
            "git log --oneline",
            "echo 'To be, or not to be, that is the question' | sh top.sh 3",
        ] {
            self.call(command)?;
        }
        Ok(())
    }

    /// Tells what comes next, and leaves time to read it where somebody may be reading.
    fn chapter(&mut self, title: &str, words: &str) -> Result<()> {
        chapter::title(self.out, title, self.terminal)?;
        chapter::words(self.out, words, self.terminal)?;
        self.out.flush()?;
        if io::stdout().is_terminal() {
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Shows a command and calls it, with the terminal all to itself.
    fn call(&mut self, command: &str) -> Result<()> {
        chapter::command(self.out, command, self.terminal)?;
        self.out.flush()?;
        let back = agent::hand_over(&Invocation {
            program: "sh".into(),
            arguments: vec!["-c".into(), command.into()],
            // A pager would wait for a key.
            variables: vec![("PATH", self.stage.path.clone()), ("GIT_PAGER", "cat".into())],
            removed: self.stage.removed.clone(),
            stdin: Stdin::Nothing,
            scratch: None,
            directory: self.stage.root.clone(),
        })?;
        match back.exit {
            _ if back.told_to_end || back.interrupted => Err(Interrupted.into()),
            agent::Exit::Code(0) => Ok(()),
            // The reader of the demo's output is gone, as `head` is after a few lines.
            agent::Exit::Code(130 | 141) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            agent::Exit::Code(code) => bail!("`{command}` ended with code {code}"),
            agent::Exit::Signal(signal) => bail!("`{command}` was ended by signal {signal}"),
        }
    }
}
