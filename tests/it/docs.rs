//! Every command in README.md and docs/ is run, in the order in which it stands there, in one project for
//! each document, with a scripted agent; and what is shown of its output is what it prints.
//!
//! | block | what is done with it |
//! |---|---|
//! | `sh` | each command must succeed |
//! | `console` | the same for lines that begin with `$ `; the lines after one are what it prints |
//! | `yaml` | a workflow: what stands after `run:` is run like `sh` |
//! | `toml` | must be accepted as settings |
//! | `mermaid` | must be what `ralph graph --format mermaid` prints at that place |
//! | none, `text`, `json` | nothing |
//!
//! Ids, times, costs and commits may be others; an id stands for the same one throughout a document, also
//! in commands. A line that is only `…` stands for any number of lines. A command that is shown to
//! print a line that begins with `error: ` must fail; one before `echo $?` may. The home is `/home/you`, the
//! project `/home/you/my-project`, on which `ralph init` was called, with a `prompt.md` and a `plan.md`.
//!
//! | comment before a block | meaning |
//! |---|---|
//! | `<!-- test: new project -->` | the story begins anew |
//! | `<!-- test: first COMMAND -->` | it is run before |
//! | `<!-- test: agent SCRIPT -->` | agents play this in the next block; several are played one after the other |
//! | `<!-- test: skip because … -->` | the next block is not run |
#![cfg(target_os = "linux")]

mod document;
mod shown;
mod stage;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

use crate::harness::{Project, working_sandboxes};
use crate::tidy::sources;
use document::{Step, What, steps};
use shown::{Names, matches};
use stage::Stage;

/// The beginnings of commands that are not run here, and why not.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo install", "it compiles everything once more, for minutes"),
    ("cargo uninstall", "nothing of that kind is installed"),
    ("cargo run", "CI runs it as it stands, in a clean clone"),
    ("cargo test", "the same"),
    ("cargo bench", "it takes minutes; CI does it"),
    ("npm install", "it needs a network"),
    ("sudo ", "it changes the machine"),
    ("apt-get ", "it changes the machine"),
    ("brew ", "it changes the machine"),
];

/// Programs that a reader may not have; without one, what calls it is not run, and that is said aloud.
const OPTIONAL: &[&str] = &["jq", "sqlite3", "dot", "man"];

#[test]
fn every_command_in_the_documents_does_what_is_shown() {
    let failures: Vec<String> = thread::scope(|scope| {
        let documents: Vec<_> = documents()
            .into_iter()
            .map(|(name, text)| scope.spawn(move || play(&name, &text)))
            .collect();
        documents
            .into_iter()
            .filter_map(|it| it.join().expect("a document is played").err())
            .collect()
    });
    assert!(failures.is_empty(), "\n\n{}\n", failures.join("\n\n"));
}

/// Plays a document; says where it is wrong, if it is.
fn play(name: &str, text: &str) -> Result<(), String> {
    let steps = steps(text).map_err(|unclear| format!("{name}:{unclear}"))?;
    let (mut stage, mut names) = (Stage::new(), Names::default());
    for (at, step) in steps.iter().enumerate() {
        let next = steps.get(at + 1);
        let _place = Place(format!("{name}:{}", step.line));
        take(step, next, &mut stage, &mut names)
            .map_err(|why| format!("{name}:{}: {why}", step.line))?;
    }
    stage.close();
    Ok(())
}

/// Says where a document was played when something panics.
struct Place(String);

impl Drop for Place {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{}: it panicked here", self.0);
        }
    }
}

fn take(
    step: &Step,
    next: Option<&Step>,
    stage: &mut Stage,
    names: &mut Names,
) -> Result<(), String> {
    match &step.what {
        What::NewProject => {
            std::mem::replace(stage, Stage::new()).close();
            *names = Names::default();
        }
        What::Agent(scripts) => stage.agents_play(scripts),
        What::Settings(text) => {
            let file = stage.write("settings.toml", text);
            let played = stage.play(&format!("ralph --config {} config show", file.display()));
            if played.code != 0 {
                return Err(format!("these settings are refused:\n{}", played.seen));
            }
        }
        What::Picture(lines) => {
            let played = stage.play("ralph graph --format mermaid");
            if !matches(lines, &played.seen, names) {
                return Err(format!("the picture is this here:\n{}", played.seen));
            }
        }
        What::Run { command, shown } => {
            let command = names.translate(command);
            if is_not_run(&command) {
                return Ok(());
            }
            let is_asked = next.is_some_and(|next| {
                matches!(&next.what, What::Run { command, .. } if command.trim() == "echo $?")
            });
            run(&command, shown.as_deref(), is_asked, stage, names)?;
        }
    }
    Ok(())
}

fn run(
    command: &str,
    shown: Option<&[String]>,
    is_asked: bool,
    stage: &mut Stage,
    names: &mut Names,
) -> Result<(), String> {
    let played = stage.play(command);
    let seen = format!("it ended with code {} and printed:\n{}", played.code, played.seen);
    let is_error = shown.is_some_and(|lines| lines.iter().any(|line| line.starts_with("error: ")));
    match played.code {
        127 => return Err(format!("nobody knows how to run `{command}`:\n{}", played.seen)),
        0 if is_error => return Err(format!("`{command}` must fail; {seen}")),
        0 => {}
        _ if is_error || is_asked => {}
        _ => {
            let hint = "what can't be run here has to be in NOT_RUN";
            return Err(format!("`{command}` fails; {seen}\n({hint})"));
        }
    }
    match shown {
        Some(lines) if !matches(lines, &played.seen, names) => {
            Err(format!("`{command}` does not print what is shown; {seen}"))
        }
        _ => Ok(()),
    }
}

fn is_not_run(command: &str) -> bool {
    if NOT_RUN.iter().any(|(beginning, _)| command.starts_with(beginning)) {
        return true;
    }
    let words: BTreeSet<&str> = command.split_whitespace().collect();
    let missing = OPTIONAL.iter().find(|it| words.contains(*it) && !is_installed(it));
    let sandboxes = ["bwrap", "landlock"];
    let sandbox = sandboxes.iter().find(|it| words.contains(*it));
    let sandbox = sandbox.filter(|it| !working_sandboxes().contains(it));
    let Some(missing) = missing.or(sandbox) else { return false };
    // Not by a macro: those are only heard when a test fails.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {missing} is not here: {command}");
    true
}

fn is_installed(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"].iter().any(|it| Path::new(it).join(program).exists())
}

/// README.md and what is in docs/, by name.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<PathBuf> = vec![root.join("README.md")];
    let entries = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    paths.extend(entries.filter(|path| path.extension().is_some_and(|it| it == "md")));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        (name, fs::read_to_string(&path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_command_that_is_mentioned_exists_with_its_options() {
    let project = Project::bare();
    let mut mentioned = 0;
    for (name, text) in documents() {
        for (line, words) in mentions(&text) {
            mentioned += 1;
            for words in alternatives(&words) {
                let (path, options) = take_apart(&words);
                let help = project.ralph(path.iter().copied().chain(["--help"]));
                let place = format!("{name}:{line}: `{}`", words.join(" "));
                assert!(help.status.success(), "{place} is no command: {}", help.stderr());
                let help = help.stdout();
                let usage = format!("Usage: {}", [&["ralph"], path.as_slice()].concat().join(" "));
                assert!(help.contains(&usage), "{place} is no command");
                for option in options {
                    assert!(has_option(&help, option), "{place} has no option `{option}`");
                }
            }
        }
    }
    assert!(mentioned > 20, "only {mentioned} were found");
}

/// The commands that are named in the text of a document, each with its line.
fn mentions(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut mentions = Vec::new();
    let mut is_block = false;
    for (at, line) in text.lines().enumerate() {
        is_block ^= line.trim_start().starts_with("```");
        if is_block {
            continue;
        }
        let spans = line.split('`').skip(1).step_by(2);
        for span in spans.filter_map(|span| span.strip_prefix("ralph ")) {
            let words = span.replace("\\|", "|");
            mentions.push((at + 1, words.split_whitespace().map(str::to_owned).collect()));
        }
    }
    mentions
}

/// The commands that `done|fail ID` stands for.
fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for word in words {
        let choices: Vec<&str> = match word.starts_with(|c: char| c.is_ascii_lowercase()) {
            true => word.split('|').collect(),
            false => vec![word],
        };
        all = all
            .into_iter()
            .flat_map(|words| {
                choices.iter().map(move |it| [&words[..], &[(*it).to_owned()]].concat())
            })
            .collect();
    }
    all
}

/// The words that name a command, and the options it is given.
fn take_apart(words: &[String]) -> (Vec<&str>, Vec<&str>) {
    let ends = |word: &&str| ["|", ">", "<", "…", "&&", "||", ";"].contains(word);
    let words: Vec<&str> = words.iter().map(String::as_str).take_while(|it| !ends(it)).collect();
    let is_name = |word: &&&str| word.bytes().all(|b| b.is_ascii_lowercase()) && word.len() > 1;
    // Groups of commands have one more word.
    let most = match words.first() {
        Some(&("task" | "feature" | "config")) if words.get(1) == Some(&"deps") => 3,
        Some(&("task" | "feature" | "config")) => 2,
        _ => 1,
    };
    let path = words.iter().take(most).take_while(is_name).copied().collect();
    let bare = |word: &&str| word.trim_matches(['[', ']']).split(['=', '|']).next().unwrap().len();
    let options = words.iter().map(|word| word.trim_matches(['[', ']']));
    let options = options.filter(|word| word.starts_with('-') && word.len() > 1);
    let options = options.map(|word| &word[..bare(&word)]).collect();
    (path, options)
}

/// Whether a help text lists an option.
fn has_option(help: &str, option: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    help.lines().map(str::trim_start).filter(|line| line.starts_with('-')).any(|line| {
        line.match_indices(option).any(|(at, _)| {
            is_end(&line[at + option.len()..])
                && !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-')
        })
    })
}

#[test]
fn cargo_knows_which_program_the_readme_means() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest: toml::Table =
        fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    assert!(manifest["bin"].as_array().unwrap().len() > 1);
    assert_eq!(manifest["package"]["default-run"].as_str(), Some("ralph"));
}

#[test]
fn a_mention_is_taken_apart() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        alternatives(&words("task done|fail ID")),
        [words("task done ID"), words("task fail ID")]
    );
    let given = words("task deps add A [--json] -x=1 - | jq");
    assert_eq!(take_apart(&given), (vec!["task", "deps", "add"], vec!["--json", "-x"]));
    assert_eq!(take_apart(&words("run login --once")), (vec!["run"], vec!["--once"]));
    assert!(has_option("  -y, --yes  Do not ask", "--yes") && has_option("  -y, --yes", "-y"));
    assert!(!has_option("  --yes-man\n  see --no", "--yes") && !has_option("see --no", "--no"));
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, text) in documents() {
        let directory = root.join(&name).parent().unwrap().to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            if target.contains("://") {
                continue;
            }
            let path = if file.is_empty() { root.join(&name) } else { directory.join(file) };
            assert!(path.exists(), "{name}: there is no `{target}`");
            if !heading.is_empty() {
                let there = fs::read_to_string(&path).unwrap();
                assert!(anchors(&there).contains(heading), "{name}: there is no `{target}`");
            }
        }
    }
}

#[test]
fn every_message_that_operations_explains_is_one_of_the_program() {
    let (_, text) =
        documents().into_iter().find(|(name, _)| name.ends_with("operations.md")).unwrap();
    let (_, table) = text.split_once("| doctor, or any command, says |").unwrap();
    let program: String = sources().into_iter().map(|(_, text)| text).collect();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|it| it.starts_with('|')).collect();
    assert!(rows.len() > 5, "{rows:?}");
    for row in rows {
        let cell = row.split(" | ").next().unwrap();
        for message in cell.split('`').skip(1).step_by(2) {
            for part in message.split('…').map(str::trim) {
                assert!(program.contains(part), "nothing says `{part}`");
            }
        }
    }
}

/// The headings of a document, as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    headings
        .map(|heading| {
            let kept = heading.to_lowercase().replace(' ', "-");
            kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect()
        })
        .collect()
}
