//! What to start for each use, as data. Prompts travel in files: one argument holds only 128 KiB.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::mcp::ServerFlags;
use super::program::Program;
use super::settings;
use crate::dag::Billing;
use crate::settings::Environment;

/// The variables by which Claude Code knows that it runs inside itself, and as whose child.
const NESTING: [&str; 9] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PID",
];

/// Without this every MCP server that the user or the project names is started, for a verifier too, whose
/// tools it would add to; in a terminal it may be asked whether to, where nobody answers.
const NO_OTHER_SERVERS: &str = "--strict-mcp-config";

/// Tools of Claude Code with which a session would leave the working tree it was given, or put off its work to
/// a time when it no longer runs.
const LEAVING: [&str; 6] =
    ["EnterWorktree", "ExitWorktree", "CronCreate", "CronDelete", "CronList", "ScheduleWakeup"];

/// Tools that wait for a person's answer.
const ASKING: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// What differs from session to session (the state of the repository, for one) is told in the first message and
/// not in the system prompt, so that the vendor's prompt cache serves the system prompt of an earlier session.
const STEADY_SYSTEM_PROMPT: &str = "--exclude-dynamic-system-prompt-sections";

/// Claude Code would offer a memory of its own, which later sessions outside the run are told, too.
const NO_MEMORY: &str = "CLAUDE_CODE_DISABLE_AUTO_MEMORY";

/// By this variable the processes of an attempt are known.
pub const ATTEMPT_VARIABLE: &str = "RALPH_ATTEMPT_ID";

/// By this variable `ralph` in a session finds the run that answers it.
const SOCKET: &str = "RALPH_SOCKET";
/// By this variable a person names another database, which is none of a session's business.
const DATABASE: &str = "RALPH_DB";

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program, by name or path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What its environment has besides ours.
    pub variables: Vec<(&'static str, OsString)>,
    /// What its environment lacks of ours.
    pub removed: Vec<OsString>,
    /// What it reads.
    pub stdin: Stdin,
    /// A directory that is of no use once it has ended, and is removed then.
    pub scratch: Option<PathBuf>,
    /// Where it runs.
    pub directory: PathBuf,
}

/// What a program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Nothing,
    /// This file.
    File(PathBuf),
    /// A terminal on which nobody types: some programs insist on one, and would put the user's into
    /// raw mode.
    Terminal,
}

/// What every session needs.
#[derive(Debug, Clone)]
pub struct Session {
    /// The program.
    pub program: Program,
    /// Where it runs.
    pub directory: PathBuf,
    /// A file with what the agent is told about its work besides the prompt.
    pub system_prompt: Option<PathBuf>,
    /// A file that it is told when a long conversation was summarised and the prompt is gone.
    pub reminder: Option<PathBuf>,
    /// The directory with the files of this session, which is removed with it.
    pub scratch: Option<PathBuf>,
    /// The model, if not the agent's own choice.
    pub model: Option<String>,
    /// Its `PATH`, with the directory of this ralph first.
    pub path: OsString,
    /// The socket through which a `ralph` inside the session reaches its run, where there is a database.
    pub socket: Option<PathBuf>,
    /// Which attempt this is, where it is one.
    pub attempt: Option<AttemptContext>,
    /// The iteration of the run, where it is one.
    pub iteration: Option<u32>,
    /// Whether it may go on in the background after its answer.
    pub background_tasks: bool,
    /// What it may cost, in USD.
    pub budget_usd: Option<f64>,
    /// The MCP servers it has where it works alone.
    pub servers: ServerFlags,
}

/// What a session on a task knows of itself.
#[derive(Debug, Clone)]
pub struct AttemptContext {
    /// The task.
    pub task: String,
    /// The attempt.
    pub attempt: String,
}

/// What an unattended agent may do without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// Anything: for a session that something else holds.
    Everything,
    /// These tools.
    Tools(Vec<String>),
}

impl Permission {
    fn grant(&self, invocation: &mut Invocation) {
        match self {
            Permission::Everything => {
                invocation.arguments.push("--dangerously-skip-permissions".into());
            }
            Permission::Tools(tools) => {
                invocation.arguments.extend(["--allowed-tools".into(), tools.join(",").into()]);
            }
        }
    }
}

/// Takes away the tools that lead out of the session and, unless a person is there to answer, those that ask.
/// Names that a version of Claude Code does not know are ignored by it.
fn deny_tools(attended: bool, invocation: &mut Invocation) {
    let asking = if attended { &[][..] } else { &ASKING };
    let denied = [&LEAVING, asking].concat().join(",");
    invocation.arguments.extend(["--disallowed-tools".into(), denied.into()]);
}

/// The `PATH` of a session: the directory of this ralph comes first, so that `ralph` inside it is this
/// ralph.
pub fn session_path(own_directory: &Path, path: &OsStr) -> OsString {
    let own = std::iter::once(own_directory.to_owned());
    let rest = std::env::split_paths(path).filter(|place| place != own_directory);
    // A directory with a colon in its name can't be in a `PATH`.
    std::env::join_paths(own.chain(rest)).unwrap_or_else(|_| path.to_owned())
}

/// How sessions are paid for that do not say so: by what the environment has for it, or by a subscription.
pub fn usual_billing() -> Billing {
    match Environment::process().paid_by() {
        Some(_) => Billing::Api,
        None => Billing::Subscription,
    }
}

impl Session {
    /// A conversation with the person at the terminal, opened by the agent, which asks before it does
    /// something. Its transcript is called like `id`, a UUID.
    pub fn interview(&self, opening: &str, id: &str) -> Invocation {
        let mut invocation = self.invocation();
        invocation.arguments.extend(["--session-id".into(), id.into()]);
        // A message that looks like an option would be one.
        invocation.arguments.extend(["--".into(), opening.into()]);
        invocation
    }

    /// Work that the person at the terminal can talk about with the agent, which calls the session `id`.
    pub fn conversation(&self, opening: &str, permission: &Permission, id: &str) -> Invocation {
        let mut invocation = self.invocation();
        invocation.arguments.extend(["--session-id".into(), id.into()]);
        invocation.arguments.push("--verbose".into());
        permission.grant(&mut invocation);
        invocation.arguments.extend(["--".into(), opening.into()]);
        invocation
    }

    /// Work that is shown in a terminal as Claude Code itself shows it. It begins with `opening`, and
    /// tells what happens by hooks in `settings`, a file.
    /// What is not allowed is asked of whoever is `attended` by, and denied otherwise: left to itself,
    /// the program would have another check, and stop at a question if that can't be had.
    pub fn show(
        &self,
        opening: &str,
        settings: &Path,
        permission: &Permission,
        attended: bool,
    ) -> Invocation {
        let mut invocation = self.invocation();
        invocation.arguments.extend(["--settings".into(), settings.into()]);
        if let Permission::Tools(_) = permission {
            // Newer versions call it `manual`, and know this name, too.
            let mode = if attended { "default" } else { "dontAsk" };
            invocation.arguments.extend(["--permission-mode".into(), mode.into()]);
        }
        forget(&mut invocation);
        self.name_servers(&mut invocation);
        permission.grant(&mut invocation);
        if *permission == Permission::Everything {
            // It does not ask whether the directory can be trusted, then: the sandbox holds it, as it
            // holds a session without a terminal, which never asks.
            invocation.variables.push(("CLAUDE_CODE_SANDBOXED", "1".into()));
        }
        deny_tools(attended, &mut invocation);
        self.keep_in_front(&mut invocation);
        invocation.arguments.extend(["--".into(), opening.into()]);
        invocation
    }

    /// Unattended work that the person has agreed to, such as building a plan into tasks.
    pub fn build(&self, prompt: PathBuf, permission: &Permission) -> Invocation {
        self.unattended(prompt, permission)
    }

    /// Unattended work on a task.
    pub fn work(&self, prompt: PathBuf, permission: &Permission) -> Invocation {
        let mut invocation = self.unattended(prompt, permission);
        if let Some(reminder) = &self.reminder {
            let settings = settings::reminding(reminder);
            invocation.arguments.extend(["--settings".into(), settings.into()]);
        }
        invocation.arguments.push("--no-session-persistence".into());
        invocation
    }

    /// A second look at work that is said to be done. It has no tool that edits, and may not skip
    /// permissions whatever holds it. No hook interferes, and it goes by the rules of the project, not by those
    /// that the person has in `own_rules` for all projects.
    pub fn verify(&self, prompt: PathBuf, own_rules: &Path) -> Invocation {
        const TOOLS: &str = "Bash,Read,Glob,Grep";
        let allowed = TOOLS.split(',').map(str::to_owned).collect();
        let alone = Session { servers: ServerFlags::None, ..self.clone() };
        let mut invocation = alone.unattended(prompt, &Permission::Tools(allowed));
        // To allow is only to approve beforehand: what may not be used must not exist.
        invocation.arguments.extend(["--tools".into(), TOOLS.into()]);
        let settings = settings::of_a_verifier(own_rules);
        invocation.arguments.extend(["--settings".into(), settings.into()]);
        invocation.arguments.push("--no-session-persistence".into());
        invocation
    }

    fn unattended(&self, prompt: PathBuf, permission: &Permission) -> Invocation {
        let mut invocation = self.invocation();
        invocation.arguments.extend(
            [
                "--print",
                "--verbose",
                "--output-format",
                "stream-json",
                "--include-partial-messages",
            ]
            .map(OsString::from),
        );
        forget(&mut invocation);
        self.name_servers(&mut invocation);
        permission.grant(&mut invocation);
        deny_tools(false, &mut invocation);
        if let Some(budget) = self.budget_usd {
            invocation.arguments.extend(["--max-budget-usd".into(), format!("{budget:.4}").into()]);
        }
        self.keep_in_front(&mut invocation);
        invocation.stdin = Stdin::File(prompt);
        invocation
    }

    fn name_servers(&self, invocation: &mut Invocation) {
        if let ServerFlags::File(file) = &self.servers {
            // It takes all that follows, up to the next option.
            invocation.arguments.extend(["--mcp-config".into(), file.into()]);
        }
        if self.servers != ServerFlags::All {
            invocation.arguments.push(NO_OTHER_SERVERS.into());
        }
    }

    /// Nobody would wait for what goes on in the background.
    fn keep_in_front(&self, invocation: &mut Invocation) {
        if !self.background_tasks {
            invocation.variables.push(("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1".into()));
        }
    }

    fn invocation(&self) -> Invocation {
        let mut invocation = self.bare();
        if let Some(file) = &self.system_prompt {
            invocation.arguments.extend(["--append-system-prompt-file".into(), file.into()]);
        }
        if let Some(model) = &self.model {
            invocation.arguments.extend(["--model".into(), model.into()]);
        }
        invocation
    }

    /// A program that takes no arguments of ours: it reads its prompt from stdin, or at a terminal from the
    /// file that `RALPH_PROMPT_FILE` names.
    pub fn plain(&self, prompt: PathBuf) -> Invocation {
        let mut invocation = self.bare();
        invocation.variables.push(("RALPH_PROMPT_FILE", prompt.clone().into()));
        invocation.stdin = Stdin::File(prompt);
        invocation
    }

    fn bare(&self) -> Invocation {
        let mut variables = vec![("PATH", self.path.clone())];
        variables.extend(self.socket.iter().map(|it| (SOCKET, it.clone().into_os_string())));
        variables.extend(self.model.iter().map(|it| ("RALPH_MODEL", it.into())));
        if let Some(context) = &self.attempt {
            variables.push(("RALPH_TASK_ID", context.task.clone().into()));
            variables.push((ATTEMPT_VARIABLE, context.attempt.clone().into()));
        }
        if let Some(iteration) = self.iteration {
            variables.push(("RALPH_ITERATION", iteration.to_string().into()));
        }
        Invocation {
            program: self.program.name.clone(),
            arguments: self.program.arguments.clone(),
            variables,
            removed: NESTING.into_iter().chain([DATABASE]).map(OsString::from).collect(),
            stdin: Stdin::Nothing,
            scratch: self.scratch.clone(),
            directory: self.directory.clone(),
        }
    }
}

/// A session of a run knows nothing of others, and has its system prompt in common with them.
fn forget(invocation: &mut Invocation) {
    invocation.arguments.push(STEADY_SYSTEM_PROMPT.into());
    invocation.variables.push((NO_MEMORY, "1".into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            program: "claude".into(),
            directory: "/project".into(),
            system_prompt: Some("/tmp/system.md".into()),
            reminder: None,
            scratch: None,
            model: Some("opus".into()),
            path: "/opt/ralph:/usr/bin".into(),
            socket: Some("/scratch/ralph".into()),
            attempt: Some(AttemptContext { task: "t-000001".into(), attempt: "a-000001".into() }),
            iteration: Some(3),
            background_tasks: false,
            budget_usd: None,
            servers: ServerFlags::None,
        }
    }

    fn shown(invocation: &Invocation) -> String {
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        let mut lines = vec![format!(
            "{} {}",
            text(&invocation.program),
            invocation.arguments.iter().map(text).collect::<Vec<_>>().join(" ")
        )];
        lines.extend(
            invocation.variables.iter().map(|(name, value)| format!("{name}={}", text(value))),
        );
        lines.extend(invocation.removed.iter().map(|name| format!("unset {}", name.display())));
        lines.push(format!("in {}", invocation.directory.display()));
        if let Stdin::File(file) = &invocation.stdin {
            lines.push(format!("< {}", file.display()));
        }
        lines.join("\n")
    }

    #[test]
    fn the_ralph_of_a_session_is_this_one() {
        let path = |own: &str, path: &str| session_path(Path::new(own), OsStr::new(path));
        assert_eq!(path("/opt/ralph", "/usr/bin:/bin"), "/opt/ralph:/usr/bin:/bin");
        assert_eq!(path("/opt/ralph", "/bin:/opt/ralph"), "/opt/ralph:/bin");
        assert_eq!(path("/odd:place", "/bin"), "/bin");
    }

    #[test]
    fn an_interview_leaves_everything_to_the_person_and_opens_with_a_message() {
        let session = Session { model: None, attempt: None, iteration: None, ..session() };
        insta::assert_snapshot!(shown(&session.interview("-- start", "2d4b1365-e7e8-439c-aef4-36c518e6f127")), @"
        claude --append-system-prompt-file /tmp/system.md --session-id 2d4b1365-e7e8-439c-aef4-36c518e6f127 -- -- start
        PATH=/opt/ralph:/usr/bin
        RALPH_SOCKET=/scratch/ralph
        unset CLAUDECODE
        unset CLAUDE_CODE_ENTRYPOINT
        unset CLAUDE_CODE_SSE_PORT
        unset CLAUDE_CODE_CHILD_SESSION
        unset CLAUDE_CODE_MESSAGING_SOCKET
        unset CLAUDE_CODE_MESSAGING_TOKEN
        unset CLAUDE_CODE_SESSION_ATTENDED
        unset CLAUDE_CODE_SESSION_ID
        unset CLAUDE_PID
        unset RALPH_DB
        in /project
        ");
    }

    #[test]
    fn a_command_line_comes_before_the_arguments_and_a_plain_program_gets_none() {
        let arguments = ["X=1".into(), "claude".into()].to_vec();
        let session = Session { program: Program { name: "env".into(), arguments }, ..session() };
        let work = shown(&session.work("/tmp/prompt.md".into(), &Permission::Everything));
        assert!(work.starts_with("env X=1 claude --append-system-prompt-file"), "{work}");
        let plain = shown(&session.plain("/tmp/prompt.md".into()));
        assert!(plain.starts_with("env X=1 claude\nPATH="), "{plain}");
        assert!(plain.contains("\nRALPH_PROMPT_FILE=/tmp/prompt.md\n"), "{plain}");
        assert!(plain.ends_with("\n< /tmp/prompt.md"), "{plain}");
    }

    #[test]
    fn a_build_may_do_everything() {
        let session = Session { attempt: None, iteration: None, ..session() };
        insta::assert_snapshot!(shown(&session.build("/tmp/prompt.md".into(), &Permission::Everything)), @r"
        claude --append-system-prompt-file /tmp/system.md --model opus --print --verbose --output-format stream-json --include-partial-messages --exclude-dynamic-system-prompt-sections --strict-mcp-config --dangerously-skip-permissions --disallowed-tools EnterWorktree,ExitWorktree,CronCreate,CronDelete,CronList,ScheduleWakeup,AskUserQuestion,EnterPlanMode,ExitPlanMode
        PATH=/opt/ralph:/usr/bin
        RALPH_SOCKET=/scratch/ralph
        RALPH_MODEL=opus
        CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
        CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
        unset CLAUDECODE
        unset CLAUDE_CODE_ENTRYPOINT
        unset CLAUDE_CODE_SSE_PORT
        unset CLAUDE_CODE_CHILD_SESSION
        unset CLAUDE_CODE_MESSAGING_SOCKET
        unset CLAUDE_CODE_MESSAGING_TOKEN
        unset CLAUDE_CODE_SESSION_ATTENDED
        unset CLAUDE_CODE_SESSION_ID
        unset CLAUDE_PID
        unset RALPH_DB
        in /project
        < /tmp/prompt.md
        ");
    }

    #[test]
    fn work_outside_a_sandbox_may_use_the_named_tools() {
        let permission = Permission::Tools(vec!["Bash".into(), "Read".into()]);
        insta::assert_snapshot!(shown(&session().work("/tmp/prompt.md".into(), &permission)), @r"
        claude --append-system-prompt-file /tmp/system.md --model opus --print --verbose --output-format stream-json --include-partial-messages --exclude-dynamic-system-prompt-sections --strict-mcp-config --allowed-tools Bash,Read --disallowed-tools EnterWorktree,ExitWorktree,CronCreate,CronDelete,CronList,ScheduleWakeup,AskUserQuestion,EnterPlanMode,ExitPlanMode --no-session-persistence
        PATH=/opt/ralph:/usr/bin
        RALPH_SOCKET=/scratch/ralph
        RALPH_MODEL=opus
        RALPH_TASK_ID=t-000001
        RALPH_ATTEMPT_ID=a-000001
        RALPH_ITERATION=3
        CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
        CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
        unset CLAUDECODE
        unset CLAUDE_CODE_ENTRYPOINT
        unset CLAUDE_CODE_SSE_PORT
        unset CLAUDE_CODE_CHILD_SESSION
        unset CLAUDE_CODE_MESSAGING_SOCKET
        unset CLAUDE_CODE_MESSAGING_TOKEN
        unset CLAUDE_CODE_SESSION_ATTENDED
        unset CLAUDE_CODE_SESSION_ID
        unset CLAUDE_PID
        unset RALPH_DB
        in /project
        < /tmp/prompt.md
        ");
    }

    #[test]
    fn a_verifier_has_no_tool_that_edits_and_never_skips_permissions() {
        let invocation = session().verify("/tmp/prompt.md".into(), Path::new("/home/x/.claude"));
        let arguments: Vec<_> =
            invocation.arguments.iter().map(|it| it.to_string_lossy()).collect();
        let arguments = arguments.join(" ");
        for named in ["--allowed-tools Bash,Read,Glob,Grep ", "--tools Bash,Read,Glob,Grep "] {
            assert!(arguments.contains(named), "{arguments}");
        }
        assert!(!arguments.contains("skip-permissions"));
    }

    #[test]
    fn work_has_the_servers_it_is_given_a_verifier_none_and_an_interview_leaves_that_to_the_person()
    {
        let arguments = |invocation: Invocation| {
            let words = invocation.arguments.iter().map(|it| it.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let (prompt, everything) = (PathBuf::from("/tmp/prompt.md"), Permission::Everything);
        let work = |servers: ServerFlags| {
            let session = Session { servers, ..session() };
            let shown = session.show("x", Path::new("/x.json"), &everything, false);
            [arguments(session.work(prompt.clone(), &everything)), arguments(shown)]
        };
        let given = ServerFlags::File("/tmp/mcp.json".into());
        for words in work(ServerFlags::None) {
            assert!(words.contains("--strict-mcp-config") && !words.contains("--mcp-config"));
        }
        for words in work(given.clone()) {
            assert!(words.contains("--mcp-config /tmp/mcp.json --strict-mcp-config --"), "{words}");
        }
        for words in work(ServerFlags::All) {
            assert!(!words.contains("mcp-config"), "{words}");
        }
        for servers in [ServerFlags::All, given] {
            let session = Session { servers, ..session() };
            let words = arguments(session.verify(prompt.clone(), Path::new("/h")));
            assert!(words.contains("--strict-mcp-config") && !words.contains("--mcp-config"));
            assert!(!arguments(session.interview("x", "id")).contains("mcp-config"));
        }
    }

    #[test]
    fn what_is_left_of_the_budget_bounds_a_session() {
        let session = Session { budget_usd: Some(1.25), ..session() };
        let invocation = session.work("/tmp/prompt.md".into(), &Permission::Everything);
        assert!(shown(&invocation).contains("--max-budget-usd 1.2500"));
    }

    #[test]
    fn on_a_screen_what_is_not_allowed_is_asked_of_a_person_or_denied() {
        let tools = Permission::Tools(vec!["Bash".into()]);
        for (permission, attended, mode) in [
            (&tools, true, Some("--permission-mode default")),
            (&tools, false, Some("--permission-mode dontAsk")),
            (&Permission::Everything, false, None),
        ] {
            let invocation = session().show("x", Path::new("/x.json"), permission, attended);
            let shown = shown(&invocation);
            assert!(mode.is_none_or(|mode| shown.contains(mode)), "{shown}");
            assert_eq!(shown.contains("--permission-mode"), mode.is_some(), "{shown}");
            assert_eq!(shown.contains("CLAUDE_CODE_SANDBOXED=1"), mode.is_none(), "{shown}");
        }
    }

    #[test]
    fn a_session_without_a_person_can_neither_leave_its_tree_nor_ask() {
        let (prompt, everything) = (PathBuf::from("/tmp/prompt.md"), Permission::Everything);
        let on_screen =
            |attended| shown(&session().show("x", Path::new("/x.json"), &everything, attended));
        let work = shown(&session().work(prompt.clone(), &everything));
        let build = shown(&session().build(prompt.clone(), &everything));
        let verify = shown(&session().verify(prompt, Path::new("/h")));
        for (shown, leaves, asks) in [
            (work, false, false),
            (build, false, false),
            (verify, false, false),
            (on_screen(false), false, false),
            (on_screen(true), false, true),
            (shown(&session().interview("x", "x")), true, true),
            (shown(&session().conversation("x", &everything, "id")), true, true),
        ] {
            assert_eq!(shown.contains("EnterWorktree"), !leaves, "{shown}");
            assert_eq!(shown.contains("AskUserQuestion"), !asks, "{shown}");
        }
    }

    #[test]
    fn background_tasks_are_off_unless_asked_for() {
        let session = Session { background_tasks: true, ..session() };
        let invocation = session.work("/tmp/prompt.md".into(), &Permission::Everything);
        assert!(!invocation.variables.iter().any(|(name, _)| name.contains("BACKGROUND")));
    }
}
