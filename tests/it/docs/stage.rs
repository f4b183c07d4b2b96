//! Where a document is played: a home with a project in it, a shell, and an agent that does what it is
//! asked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{FAKE_CLAUDE, Project, RALPH, assert_no_process_left};
use crate::terminal::Terminal;

/// What a command did.
pub(super) struct Played {
    pub(super) code: i32,
    /// What a person would have seen, with the paths of a usual machine.
    pub(super) seen: String,
}

/// A home with a project in it.
pub(super) struct Stage {
    project: Project,
    agents: Option<PathBuf>,
}

/// What stands before a command: the variables and the directory that the one before left. A
/// directory that is not here is in the home, or is made, with a repository: it is the reader's own project.
const BEFORE: &str = r#"
set -o pipefail
. "$STAGE/state" 2>/dev/null
cd() {
    builtin cd "$@" 2>/dev/null || builtin cd ~/"$1" 2>/dev/null ||
        { git init -q "$1" && builtin cd "$1"; }
}
(exit ${stage_code:-0})
"#;
/// And what stands after it.
const AFTER: &str = r#"
stage_code=$?
unset FAKE_CLAUDE_SCRIPTS
{ declare -p | grep -v '^declare -[^ ]*r'; printf 'builtin cd %q\n' "$PWD"; } >"$STAGE/state"
exit $stage_code
"#;
/// An agent that finds out from its system prompt what it is asked for. Scripts come first, but for who verifies.
const AGENT: &str = r##"#!/bin/bash
arguments=("$@")
while [ $# -gt 0 ] && [ "$1" != --append-system-prompt-file ]; do shift; done
job=$(head -n 1 "${2:-/dev/null}")
name=${job#*\"} name=${name%\"*}
say() { export FAKE_CLAUDE=$1; }
case $job in
    *'check that a task'*)
        unset FAKE_CLAUDE_SCRIPTS
        say 'say It is as it should be. <verify-pass/>' ;;
    '# How this session works') say 'say It works. | done' ;;
    *'the spec of'*) say "write .ralph/features/$name/spec.md # The spec of $name" ;;
    *'into tasks')
        root=$(grep -o 't-[0-9a-z]\{6\}' "$2" | head -n 1)
        say "run first=\$(ralph task add 'Store it' -d x --parent $root); ralph task add 'Show it' -d x --parent $root --after \$first" ;;
    *'the plan of'*) say "write .ralph/features/$name/plan.md # The plan of $name" ;;
    *'one task'*) say "run ralph task add 'What you said' -d x" ;;
    *) say 'touch .ralph-complete | say LOOP_COMPLETE' ;;
esac
exec fake-claude "${arguments[@]}"
"##;

impl Stage {
    /// A project on which nobody has worked yet.
    pub(super) fn new() -> Stage {
        let project = Project::bare();
        let bin = project.base().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(RALPH, bin.join("ralph")).unwrap();
        symlink(FAKE_CLAUDE, bin.join("fake-claude")).unwrap();
        fs::write(bin.join("claude"), AGENT).unwrap();
        fs::set_permissions(bin.join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut stage = Stage { project, agents: None };
        let begin = stage.play(
            "cd my-project && ralph init && echo 'Do it.' >prompt.md && echo '- [ ] it' >plan.md &&
             git add . && git commit -qm begin",
        );
        assert_eq!(begin.code, 0, "{}", begin.seen);
        stage
    }

    /// From now on agents play these scripts; by default if there are none.
    pub(super) fn agents_play(&mut self, scripts: &[String]) {
        let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
        self.agents = (!scripts.is_empty()).then(|| self.project.scripts(&scripts));
    }

    /// Writes a file outside the project.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project.base().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs a command to its end.
    pub(super) fn play(&mut self, command: &str) -> Played {
        let script = format!("exec 2>&1\n{BEFORE}{{\n{command}\n}}{AFTER}");
        let mut shell = self.shell();
        shell.arg(self.write("command", &script));
        let (code, seen) = if wants_terminal(command) {
            let (code, seen) = Terminal::sized(&shell, 60, 120).finish();
            (code.cast_signed(), seen)
        } else {
            let output = self.project.run(shell, None);
            (output.status.code().unwrap_or(-1), output.stdout())
        };
        Played { code, seen: self.as_at_home(&seen) }
    }

    fn shell(&self) -> Command {
        let base = self.project.base();
        let mut shell = self.project.command("bash");
        shell
            .current_dir(base.join("home"))
            .env("STAGE", base)
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", base.join("bin").display()))
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "init.defaultBranch")
            .env("GIT_CONFIG_VALUE_0", "main")
            .env("RALPH_LOOP_PAUSE_SECS", "0");
        // Somebody who reads this has logged in.
        shell.env("ANTHROPIC_API_KEY", "no-key-at-all");
        // What holds a session has tests of its own.
        shell.env("RALPH_SANDBOX_BACKEND", "none");
        if let Some(scripts) = &self.agents {
            shell.env("FAKE_CLAUDE_SCRIPTS", scripts);
        }
        shell
    }

    /// A text with the paths that a reader would see.
    fn as_at_home(&self, text: &str) -> String {
        let base = self.project.base().display().to_string();
        let mut text = text
            .replace(&format!("{base}/home"), "/home/you")
            .replace(&format!("{base}/tmp"), "/tmp")
            .replace(&format!("{base}/bin"), "/usr/bin");
        // The hash of where the project is.
        let name = "/.local/state/ralph/my-project-";
        let places: Vec<usize> = text.match_indices(name).map(|(at, _)| at + name.len()).collect();
        for at in places {
            text.replace_range(at..at + 8, "1c0ffee5");
        }
        text
    }

    /// Asserts that nothing goes on that was begun here.
    pub(super) fn close(self) {
        assert_no_process_left(&self.project);
        assert_eq!(self.project.temporary_files(), [""; 0]);
    }
}

/// Whether a person has to be at a terminal for this.
fn wants_terminal(command: &str) -> bool {
    let interviews = ["feature spec ", "feature plan ", "task create"];
    let is_loop = command.contains("ralph loop")
        && !["-a ", "--afk", "-H", "--headless"].iter().any(|it| command.contains(it));
    is_loop || interviews.iter().any(|it| command.contains(&format!("ralph {it}")))
}
