//! `ralph feature spec`, `plan` and `task create`, in a real terminal.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use crate::harness::{DEADLINE, Project, assert_no_process_left, wait_until};
use crate::terminal::Terminal;

const SPEC: &str = ".ralph/features/login/spec.md";
const PLAN: &str = ".ralph/features/login/plan.md";

/// Runs a command in a terminal to its end, and asserts that nothing of it is left.
fn finish(project: &Project, command: &Command) -> (u32, String) {
    let mut terminal = Terminal::start(command);
    let (code, screen) = terminal.finish();
    assert!(terminal.is_sane(), "{screen}");
    assert_nothing_left(project);
    (code, screen)
}

#[track_caller]
fn assert_nothing_left(project: &Project) {
    assert_no_process_left(project);
    assert_eq!(project.temporary_files(), [""; 0]);
}

fn spec(project: &Project, script: &str) -> Command {
    project.ralph_with(script, ["feature", "spec", "login"])
}

fn saved(project: &Project, name: &str) -> PathBuf {
    project.base().join(name)
}

fn status(project: &Project) -> String {
    project.ralph(["feature", "show", "login", "--json"]).json()["status"].to_string()
}

#[track_caller]
fn wait_for_file(path: &PathBuf) -> String {
    let deadline = Instant::now() + DEADLINE;
    let text = wait_until(deadline, || fs::read_to_string(path).ok());
    text.unwrap_or_else(|| panic!("{} never came", path.display()))
}

#[test]
fn an_interview_ends_with_a_spec_and_says_what_comes_next() {
    let project = Project::new();
    let (system, arguments, line) =
        (saved(&project, "system"), saved(&project, "arguments"), saved(&project, "line"));
    let script = format!(
        "expect-terminal | expect-no-env RALPH_DB | expect-no-env CLAUDECODE \
         | save-system {} | save-args {} | say What shall it do? | read-line {} \
         | write {SPEC} # Spec\\nR1",
        system.display(),
        arguments.display(),
        line.display()
    );
    let mut command = spec(&project, &script);
    command.args(["--model", "opus"]).env("CLAUDECODE", "1");
    let mut terminal = Terminal::start(&command);
    terminal.wait_for("What shall it do?").press("let me in\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains(&format!("wrote `{SPEC}`")), "{screen}");
    assert!(screen.contains("Next: ralph feature plan login"), "{screen}");
    assert_nothing_left(&project);

    assert_eq!(fs::read_to_string(line).unwrap(), "let me in\n");
    let arguments = fs::read_to_string(arguments).unwrap();
    let arguments: Vec<&str> = arguments.lines().collect();
    assert_eq!(arguments[0], "--append-system-prompt-file");
    let opening = "Start the spec interview for the feature \"login\".";
    assert_eq!(arguments[2..5], ["--model", "opus", "--session-id"]);
    assert_eq!(arguments[5].len(), 36, "it names its transcript: {arguments:?}");
    assert_eq!(arguments[6..], ["--", opening]);
    let system = fs::read_to_string(system).unwrap();
    for part in [SPEC, "## Project context", "### Features\n\n", "Requirements"] {
        assert!(system.contains(part), "{part}: {system}");
    }
    assert!(!system.contains("{{"), "{system}");
    let feature = project.ralph(["feature", "show", "login", "--json"]).json();
    assert_eq!(feature["status"], "draft");
    assert_eq!(feature["spec_path"], SPEC);
    assert_eq!(feature["has_spec"], true);
}

#[test]
fn an_interview_that_was_left_goes_on_from_the_draft() {
    let project = Project::new();
    let draft = format!("write {SPEC} # Half a spec: größe 東京");
    assert_eq!(finish(&project, &spec(&project, &draft)).0, 0);
    let (system, arguments) = (saved(&project, "system"), saved(&project, "arguments"));
    let script = format!("save-system {} | save-args {}", system.display(), arguments.display());
    let (code, screen) = finish(&project, &spec(&project, &script));
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains(&format!("`{SPEC}` is unchanged")), "{screen}");
    let system = fs::read_to_string(system).unwrap();
    assert!(system.contains("### The current draft of"), "{system}");
    assert!(system.contains("# Half a spec: größe 東京"), "{system}");
    let arguments = fs::read_to_string(arguments).unwrap();
    assert!(arguments.contains("Resume the spec interview"), "{arguments}");
    let more = format!("write {SPEC} # A whole spec");
    let (_, screen) = finish(&project, &spec(&project, &more));
    assert!(screen.contains(&format!("changed `{SPEC}`")), "{screen}");
}

#[test]
fn a_session_that_wrote_nothing_leaves_nothing() {
    let project = Project::new();
    for script in ["say bye", &format!("write {SPEC} \\n \\n"), "say oh | exit 3"] {
        let (code, screen) = finish(&project, &spec(&project, script));
        assert_eq!(code, 1, "{script}: {screen}");
        assert!(screen.contains("no spec was written"), "{screen}");
        assert_eq!(screen.contains("ended with code 3"), script.contains("exit 3"), "{screen}");
        assert_eq!(project.ralph(["feature", "list", "--json"]).json().to_string(), "[]");
    }
}

#[test]
fn a_spec_of_an_agent_that_failed_is_still_a_spec() {
    let project = Project::new();
    let (code, screen) = finish(&project, &spec(&project, &format!("write {SPEC} # S | exit 3")));
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("wrote `"), "{screen}");
    assert_eq!(status(&project), "\"draft\"");
}

#[test]
fn a_plan_needs_a_spec_and_makes_the_feature_planned() {
    let project = Project::new();
    let plan = |script: &str| project.ralph_with(script, ["feature", "plan", "login"]);
    let (code, screen) = finish(&project, &plan("say never"));
    assert_eq!(code, 1);
    assert!(screen.contains("error: there is no feature `login`"), "{screen}");
    assert!(screen.contains("hint: begin with `ralph feature spec login`"), "{screen}");

    project.feature("login");
    let (code, screen) = finish(&project, &plan("say never"));
    assert_eq!(code, 1);
    assert!(screen.contains("error: the feature `login` has no spec yet"), "{screen}");
    assert!(!screen.contains("never"), "{screen}");

    let words = "x".repeat(300_000);
    project.write_feature("login", &format!("# Spec {words} R42"), "");
    let system = saved(&project, "system");
    let (code, screen) = finish(&project, &plan(&format!("save-system {}", system.display())));
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("no plan was written"), "{screen}");
    assert_eq!(status(&project), "\"draft\"");
    let told = fs::read_to_string(system).unwrap();
    assert!(told.contains(&format!("{words} R42")), "the spec is there, whole");

    let (code, screen) = finish(&project, &plan(&format!("write {PLAN} # Plan")));
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Next: ralph feature build login"), "{screen}");
    assert_eq!(status(&project), "\"planned\"");
}

#[test]
fn in_a_fresh_clone_the_files_are_enough() {
    let project = Project::new();
    project.write_feature("login", "# Spec", "");
    let plan = project.ralph_with(&format!("write {PLAN} # Plan"), ["feature", "plan", "login"]);
    assert_eq!(finish(&project, &plan).0, 0);
    assert_eq!(status(&project), "\"planned\"");
}

#[test]
fn an_interview_needs_a_terminal() {
    let project = Project::new();
    for arguments in [&["feature", "spec", "x"][..], &["feature", "plan", "x"], &["task", "create"]]
    {
        let said = project.ralph(arguments).fails(2);
        insta::allow_duplicates!(insta::assert_snapshot!(said, @r"
        error: an interview needs a terminal for both input and output
        hint: run it in a terminal, without pipes
        "));
    }
    assert_eq!(project.ralph(["feature", "list", "--json"]).json().to_string(), "[]");
}

#[test]
fn a_name_that_can_not_be_one_is_refused() {
    let project = Project::new();
    for name in ["a/b", "..", ".x", "t-3f9a01", "f-3f9a01", &"x".repeat(65)] {
        let command = project.ralph_with("say never", ["feature", "spec", name]);
        let (code, screen) = finish(&project, &command);
        assert_eq!(code, 1, "{screen}");
        assert!(screen.contains("error: "), "{screen}");
        assert!(!screen.contains("never"), "{screen}");
    }
    assert!(!project.root().join(".ralph/features").exists());
}

#[test]
fn a_missing_agent_is_said_and_leaves_nothing() {
    let project = Project::new();
    let mut command = spec(&project, "");
    command.env("RALPH_AGENT_COMMAND", "no-such-claude");
    let (code, screen) = finish(&project, &command);
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("error: the agent `no-such-claude` was not found"), "{screen}");
    assert!(screen.contains("hint: install Claude Code"), "{screen}");
    assert_eq!(project.ralph(["feature", "list", "--json"]).json().to_string(), "[]");
}

#[test]
fn two_sessions_on_one_feature_are_one_too_many() {
    let project = Project::new();
    let go = saved(&project, "go");
    let script = format!("say ready | wait-file {} | write {SPEC} # S", go.display());
    let mut first = Terminal::start(&spec(&project, &script));
    first.wait_for("ready");
    let (code, screen) = Terminal::start(&spec(&project, "say never")).finish();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("another ralph is working on the feature `login`"), "{screen}");
    let refused = project.ralph(["feature", "delete", "login", "--yes"]).fails(1);
    assert!(refused.contains("another ralph"), "{refused}");
    fs::write(go, "").unwrap();
    assert_eq!(first.finish().0, 0);
    assert_nothing_left(&project);
}

#[test]
fn prompts_can_be_replaced_and_a_wrong_placeholder_is_named() {
    let project = Project::new();
    fs::create_dir(project.root().join(".ralph/prompts")).unwrap();
    project.write(".ralph/prompts/feature_spec.md", "Ask about {{name}}.\n");
    let system = saved(&project, "system");
    finish(&project, &spec(&project, &format!("save-system {}", system.display())));
    assert_eq!(fs::read_to_string(system).unwrap(), "Ask about login.\n");
    project.write(".ralph/prompts/feature_spec.md", "Ask about\n{{nmae}}.\n");
    let (code, screen) = finish(&project, &spec(&project, "say never"));
    assert_eq!(code, 1, "{screen}");
    let screen = screen.replace('\n', " ");
    assert!(
        screen.contains("feature_spec.md`: line 2: there is no placeholder `{{nmae}}`"),
        "{screen}"
    );
    assert!(screen.contains("it may use {{context}}, {{name}}, {{spec_path}}"), "{screen}");
    assert!(!screen.contains("never"), "{screen}");
}

#[test]
fn the_context_survives_files_of_any_size_and_encoding() {
    let project = Project::new();
    let mut file = "größe 東京 ".repeat(5_000).into_bytes();
    file.extend(b"\xff\xfe\0\x1b[31m");
    project.write_feature("login", "", "");
    project.write(SPEC, &file);
    project.write(".ralph.toml", "learn = true\n");
    project.feature("other");
    let system = saved(&project, "system");
    let script = format!("save-system {}", system.display());
    finish(&project, &spec(&project, &script));
    let system = fs::read_to_string(system).unwrap();
    assert!(system.contains("größe 東京 größe"), "{system}");
    assert!(system.contains("[Cut here: the first 10000 characters of "), "{system}");
    assert!(
        system.contains(" bytes; read the rest in `.ralph/features/login/spec.md`]\n```"),
        "{system}"
    );
    assert!(system.contains("| other | draft | no | no |"), "{system}");
    assert!(system.contains("### .ralph.toml\n\n```toml\nlearn = true\n"), "{system}");
    project.add(["A standalone task"]);
    let (code, _) = finish(&project, &project.ralph_with(&script, ["task", "create"]));
    assert_eq!(code, 1);
    let system = fs::read_to_string(saved(&project, "system")).unwrap();
    assert!(system.contains("(ready): A standalone task"), "{system}");
}

#[test]
fn what_says_nothing_or_is_told_by_claude_itself_is_left_out() {
    let project = Project::new();
    project.write("CLAUDE.md", "Be kind.");
    project.write(".ralph.toml", "# learn = true\n\n# Nothing else.\n");
    project.write_feature("login", "", "");
    project.write(SPEC, format!("# Draft\n{}", "größe ".repeat(4_000)));
    let system = saved(&project, "system");
    let (code, screen) =
        finish(&project, &spec(&project, &format!("save-system {}", system.display())));
    assert_eq!(code, 0, "{screen}");
    let system = fs::read_to_string(system).unwrap();
    assert!(!system.contains("Be kind.") && !system.contains(".ralph.toml"), "{system}");
    let cut = format!("bytes; read the rest in `{SPEC}`]\n```");
    assert!(system.contains(&cut), "{system}");
}

#[test]
fn task_create_says_which_task_appeared() {
    let project = Project::new();
    let create = |script: &str| project.ralph_with(script, ["task", "create"]);
    let (code, screen) = finish(&project, &create("say never mind"));
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("no task was created"), "{screen}");
    let (code, screen) =
        finish(&project, &create("run printf 'Do it well' \\| ralph task add 'Do it' -d -"));
    assert_eq!(code, 0, "{screen}");
    let tasks = project.ralph(["task", "list", "--json"]).json();
    let id = tasks[0]["id"].as_str().unwrap();
    assert_eq!(tasks[0]["description"], "Do it well");
    assert!(screen.contains(&format!("created {id}  Do it")), "{screen}");
    assert!(screen.contains(&format!("Next: ralph run {id}")), "{screen}");
}

#[test]
fn ctrl_c_belongs_to_claude() {
    let project = Project::new();
    let line = saved(&project, "line");
    let deaf =
        format!("ignore SIGINT | say deaf | read-line {} | write {SPEC} # S", line.display());
    let mut terminal = Terminal::start(&spec(&project, &deaf));
    terminal.wait_for("deaf").press("\x03");
    terminal.press("still here\n");
    assert_eq!(wait_for_file(&line), "still here\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");

    // The real one ends with code 0.
    let project = Project::new();
    let mut terminal =
        Terminal::start(&spec(&project, &format!("write {SPEC} # S | say go | hang")));
    terminal.wait_for("go").press("\x03");
    let (code, screen) = terminal.finish();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("wrote `"), "{screen}");
    assert_nothing_left(&project);
}

#[test]
fn ctrl_c_before_the_interview_has_begun_is_an_interrupt() {
    for script in ["say go | hang", "on-sigint exit0 | say go | hang"] {
        for arguments in [&["feature", "spec", "login"][..], &["task", "create"]] {
            let project = Project::new();
            let mut terminal = Terminal::start(&project.ralph_with(script, arguments));
            terminal.wait_for("go").press("\x03");
            let (code, screen) = terminal.finish();
            assert_eq!(code, 130, "{script}: {screen}");
            assert!(!screen.contains("was ended by signal"), "{screen}");
            assert_nothing_left(&project);
        }
    }
    // A program that has not come so far as to listen to signals.
    let project = Project::new();
    let early = project.write("early", "#!/bin/sh\necho go; exec sleep 600\n");
    std::process::Command::new("chmod").arg("+x").arg(&early).status().unwrap();
    let agent = early.to_str().unwrap();
    let spec = project.ralph_command(["--agent", agent, "feature", "spec", "login"]);
    let mut terminal = Terminal::start(&spec);
    terminal.wait_for("go").press("\x03");
    assert_eq!(terminal.finish().0, 130);
    assert_nothing_left(&project);
}

#[test]
fn ctrl_z_suspends_the_whole_job_and_fg_wakes_it() {
    let project = Project::new();
    let line = saved(&project, "line");
    // By the key, as the terminal does it; and by itself, as a program does that reads keys.
    for (script, key) in [("say ready", "\x1a"), ("say ready | stop", "")] {
        let script = format!("{script} | read-line {} | write {SPEC} # S", line.display());
        let command = spec(&project, &script);
        let mut terminal = Terminal::shell(&command);
        terminal.press(&format!("{} feature spec login\n", crate::harness::RALPH));
        terminal.wait_for("ready").press(key);
        terminal.wait_for("Stopped").wait_for_times("shell> ", 2);
        terminal.press("jobs\n");
        terminal.wait_for_times("shell> ", 3);
        assert!(!line.exists());
        terminal.press("fg\n");
        terminal.press("back again\n");
        assert_eq!(wait_for_file(&line), "back again\n");
        terminal.wait_for("Next: ralph feature plan login").wait_for_times("shell> ", 4);
        terminal.press("exit\n");
        terminal.finish();
        assert_nothing_left(&project);
        fs::remove_file(&line).unwrap();
    }
}

#[test]
fn whoever_ends_ralph_ends_claude() {
    let project = Project::new();
    for signal in [Signal::TERM, Signal::HUP] {
        let script = format!("write {SPEC} # S | orphan-setsid | raw-mode | say ready | hang");
        let mut terminal = Terminal::start(&spec(&project, &script));
        terminal.wait_for("ready").signal(signal);
        let (code, screen) = terminal.finish();
        assert_eq!(code, 130, "{screen}");
        assert!(terminal.is_sane(), "{screen}");
        assert_nothing_left(&project);
    }
}

#[test]
fn an_agent_that_will_not_end_is_killed_in_the_end() {
    let project = Project::new();
    let mut terminal = Terminal::start(&spec(&project, "ignore SIGTERM | say ready | hang"));
    terminal.wait_for("ready").signal(Signal::TERM);
    assert_eq!(terminal.finish().0, 130);
    assert_nothing_left(&project);
}

#[test]
fn nothing_survives_when_ralph_is_killed_or_its_terminal_is_gone() {
    let project = Project::new();
    let script = "ignore SIGTERM | orphan-setsid-double-fork | say ready | hang";
    let mut terminal = Terminal::start(&spec(&project, script));
    terminal.wait_for("ready").signal(Signal::KILL);
    terminal.finish();
    assert_nothing_left(&project);
    // When a shell is gone, so is its terminal.
    let mut terminal = Terminal::shell(&spec(&project, "orphan-setsid | say ready | hang"));
    terminal.press(&format!("{} feature spec login\n", crate::harness::RALPH));
    terminal.wait_for("ready").signal(Signal::KILL);
    terminal.finish();
    assert_nothing_left(&project);
}

#[test]
fn the_terminal_is_as_before_however_claude_ends() {
    let project = Project::new();
    for ending in ["kill SIGKILL", "kill SIGSEGV", "exit 1"] {
        let script = format!("raw-mode | {ending}");
        let command = spec(&project, &script);
        let mut terminal = Terminal::shell(&command);
        let (before, after) = (saved(&project, "before"), saved(&project, "after"));
        terminal.press(&format!(
            "stty -a > {}; {} feature spec login; stty -a > {}\n",
            before.display(),
            crate::harness::RALPH,
            after.display()
        ));
        terminal.wait_for("no spec was written").wait_for_times("shell> ", 2);
        let after_text = wait_for_file(&after);
        assert_eq!(wait_for_file(&before), after_text, "{ending}");
        assert!(terminal.is_sane(), "{ending}: {}", terminal.screen());
        terminal.press("exit\n");
        terminal.finish();
        fs::remove_file(after).unwrap();
        assert_nothing_left(&project);
    }
}
