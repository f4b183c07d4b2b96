//! For packagers: writes the man pages and the completions of every shell into a directory, as they
//! belong below `/usr/share`. `scripts/share DIR` calls it. It is no part of the program, which would
//! only become larger by it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;

/// Where each shell looks for what completes a command.
const COMPLETIONS: [(Shell, &str); 5] = [
    (Shell::Bash, "bash-completion/completions/ralph"),
    (Shell::Elvish, "elvish/lib/ralph.elv"),
    (Shell::Fish, "fish/vendor_completions.d/ralph.fish"),
    (Shell::PowerShell, "powershell/ralph.ps1"),
    (Shell::Zsh, "zsh/site-functions/_ralph"),
];

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        let _ = writeln!(io::stderr(), "usage: scripts/share DIR");
        return ExitCode::from(2);
    };
    match share(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ =
                writeln!(io::stderr(), "error: can't write to `{}`: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes everything.
fn share(directory: &Path) -> io::Result<()> {
    let pages = directory.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(ralph::cli::command(), &pages)?;
    for (shell, name) in COMPLETIONS {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut ralph::cli::command(), "ralph", &mut script);
        fs::write(path, script)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, ValueEnum};

    use super::*;

    fn made() -> tempfile::TempDir {
        let directory = tempfile::TempDir::new().unwrap();
        share(directory.path()).unwrap();
        directory
    }

    /// Every command, by the words that call it.
    fn commands() -> Vec<(Vec<String>, Command)> {
        let mut root = ralph::cli::command();
        root.build();
        let mut found = Vec::new();
        let mut left = vec![(vec!["ralph".to_owned()], root)];
        while let Some((words, command)) = left.pop() {
            for inner in command.get_subcommands() {
                let words = [&words[..], &[inner.get_name().to_owned()]].concat();
                left.push((words, inner.clone()));
            }
            found.push((words, command));
        }
        found
    }

    fn options(command: &Command) -> Vec<String> {
        let shown = command.get_arguments().filter(|it| !it.is_hide_set());
        shown.filter_map(|it| Some(format!("--{}", it.get_long()?))).collect()
    }

    #[test]
    fn every_command_has_a_page_and_every_page_has_every_option() {
        let directory = made();
        let pages = directory.path().join("man/man1");
        let mut expected = BTreeSet::new();
        for (words, command) in commands() {
            let name = format!("{}.1", words.join("-"));
            let page = fs::read_to_string(pages.join(&name)).expect(&name).replace("\\-", "-");
            assert!(page.contains(".SH DESCRIPTION"), "{name}: {page}");
            for option in options(&command) {
                assert!(page.contains(&option), "{name} lacks {option}: {page}");
            }
            expected.insert(name);
        }
        let found = fs::read_dir(&pages).unwrap();
        let found: BTreeSet<String> =
            found.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert_eq!(found, expected);
        // What is put together only when it is called is here, too.
        assert!(expected.contains("ralph-task-deps-add.1"), "{expected:?}");
        let run = fs::read_to_string(pages.join("ralph-run.1")).unwrap().replace("\\-", "-");
        assert!(run.contains("--max-cost") && run.contains("Stop when this much is spent"));
        let root = fs::read_to_string(pages.join("ralph.1")).unwrap();
        assert!(root.contains("130"), "the exit codes are missing: {root}");
    }

    #[test]
    fn every_shell_completes_every_command_and_option() {
        let directory = made();
        for &shell in Shell::value_variants() {
            let (_, name) =
                COMPLETIONS.iter().find(|(it, _)| *it == shell).expect("it has a place");
            let script = fs::read_to_string(directory.path().join(name)).unwrap();
            for (words, command) in commands() {
                let word = words.last().unwrap();
                assert!(script.contains(word.as_str()), "{shell} does not know {words:?}");
                for option in options(&command) {
                    // Fish writes them without dashes.
                    let option = option.trim_start_matches('-');
                    assert!(script.contains(option), "{shell} does not know {words:?} {option}");
                }
            }
        }
    }
}
