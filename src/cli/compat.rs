//! Command lines as other programs of this name take them, and commands that were named in part.

use std::ffi::OsString;

use clap::Subcommand;

use super::args::{Command, TaskCommand};
use super::setup::WrongUsage;
use crate::hint::{Hinted, quoted};

/// The flags of the plain loop that others take without a command.
const LOOP_FLAGS: [&str; 7] =
    ["-a", "--afk", "--loop-id", "--template", "--auto-push", "--max-iterations", "--command"];

/// The arguments with `--auto-push true` as one. A value that may be left out needs its `=`: otherwise the
/// flag would take the word after it, whatever that is.
pub(super) fn joined(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut options_end = false;
    for argument in arguments {
        let is_value = argument == "true" || argument == "false";
        match joined.last_mut() {
            Some(last) if !options_end && is_value && last.as_os_str() == "--auto-push" => {
                last.push("=");
                last.push(argument);
            }
            _ => {
                options_end |= argument == "--";
                joined.push(argument);
            }
        }
    }
    joined
}

/// What to say to a command line that was meant for the plain loop, such as `ralph 10` or `ralph -a 5`.
pub(super) fn plain_loop(arguments: &[OsString]) -> Option<anyhow::Error> {
    let rest = arguments.get(1..)?;
    let first = rest.first()?.to_str()?;
    let flag = first.split_once('=').map_or(first, |(flag, _)| flag);
    let is_count = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    if !is_count && !LOOP_FLAGS.contains(&flag) {
        return None;
    }
    let words: Vec<String> = rest.iter().map(quoted).collect();
    let message = if is_count {
        format!("`{first}` is not a command")
    } else {
        format!("`{flag}` is a flag of `ralph loop`")
    };
    let hint = format!("the plain loop is a command of its own: ralph loop {}", words.join(" "));
    Some(Hinted { source: WrongUsage(message).into(), hint }.into())
}

/// What to say to a command of `ralph task` that was given without `task`, such as `ralph tree`.
pub(super) fn task_command(arguments: &[OsString]) -> Option<anyhow::Error> {
    let rest = arguments.get(1..)?;
    let first = rest.first()?.to_str()?;
    if Command::has_subcommand(first) || !TaskCommand::has_subcommand(first) {
        return None;
    }
    let words: Vec<String> = rest.iter().map(quoted).collect();
    let message = format!("`{first}` is a command of `ralph task`");
    let hint = format!("did you mean: ralph task {}", words.join(" "));
    Some(Hinted { source: WrongUsage(message).into(), hint }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::hint_of;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn only_true_and_false_belong_to_auto_push() {
        for (given, expected) in [
            ("ralph loop --auto-push false 5 x", "ralph loop --auto-push=false 5 x"),
            ("ralph loop --auto-push true", "ralph loop --auto-push=true"),
            ("ralph loop --auto-push 5 true", "ralph loop --auto-push 5 true"),
            ("ralph loop --auto-push fix", "ralph loop --auto-push fix"),
            ("ralph loop --auto-push=false true", "ralph loop --auto-push=false true"),
            ("ralph loop -- --auto-push true", "ralph loop -- --auto-push true"),
            ("ralph loop --auto-push", "ralph loop --auto-push"),
        ] {
            assert_eq!(joined(words(given)), words(expected), "{given}");
        }
    }

    #[test]
    fn a_command_of_tasks_is_named_in_full() {
        for (given, meant) in [
            ("ralph tree", Some("did you mean: ralph task tree")),
            ("ralph next --json", Some("did you mean: ralph task next --json")),
            ("ralph show t-3f9a01", Some("did you mean: ralph task show t-3f9a01")),
            ("ralph status --nope", None),
            ("ralph rnu", None),
            ("ralph", None),
        ] {
            let error = task_command(&words(given));
            assert_eq!(error.as_ref().and_then(|error| hint_of(error)), meant, "{given}");
        }
    }

    #[test]
    fn what_was_meant_for_the_plain_loop_is_told() {
        for (given, meant) in [
            ("ralph 10", Some("ralph loop 10")),
            ("ralph -a 5", Some("ralph loop -a 5")),
            ("ralph --auto-push=false 5 it's", Some("ralph loop --auto-push=false 5 'it'\\''s'")),
            ("ralph rnu", None),
            ("ralph run 10 20", None),
            ("ralph -x", None),
            ("ralph", None),
        ] {
            let error = plain_loop(&words(given));
            let hint = error.as_ref().and_then(|error| hint_of(error));
            let told = hint.and_then(|hint| hint.split_once(": ")).map(|(_, told)| told);
            assert_eq!(told, meant, "{given}");
        }
    }
}
