//! Stops a run that gets nowhere: sessions in which the model does not say a word, and a check that
//! fails in the same way whatever the task is.

use std::fmt;

use super::normal::normalised;
use crate::agent::{EndedBy, Exit, Facts, Report, Trouble};
use crate::dag::{AttemptId, TaskId};

/// So many sessions in a row without a word from the model stop a run.
const EMPTY: usize = 3;

/// What the failures have in common that stopped a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Common {
    /// The agent ended with an error before it had begun.
    NotStarted {
        /// How it ended, and its last words.
        how: String,
    },
    /// The model did not say a word.
    Empty {
        /// How the last session ended.
        how: String,
    },
    /// The working tree changed whenever the work on this task was verified.
    Void {
        /// The task.
        task: TaskId,
    },
    /// No session that was to verify the work on this task came to a verdict.
    Unverified {
        /// The task.
        task: TaskId,
        /// How the last one ended.
        why: String,
    },
    /// The same check failed in the same way.
    Check {
        /// The command.
        command: String,
        /// Two tasks whose work it did not pass.
        tasks: [TaskId; 2],
        /// The last line it printed.
        last_line: String,
    },
}

impl fmt::Display for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Common::NotStarted { how } => write!(f, "the agent can't be started: {how}"),
            Common::Empty { how } => {
                write!(f, "three sessions in a row ended without a word from the model: {how}")
            }
            Common::Void { task } => {
                write!(f, "the working tree changed whenever the work on {task} was verified")
            }
            Common::Unverified { task, why } => {
                write!(f, "the work on {task} could not be verified: {why}")
            }
            Common::Check { command, tasks: [one, other], last_line } => {
                write!(f, "`{command}` fails in the same way for {one} and {other}: {last_line}")
            }
        }
    }
}

/// What a run remembers of failures that are not those of a task.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Sessions in a row without a word from the model.
    empty: usize,
    /// The last task whose work could not be verified because the working tree changed.
    void: Option<TaskId>,
    /// Checks that failed since they last passed.
    failed: Vec<FailedCheck>,
}

#[derive(Debug)]
struct FailedCheck {
    command: String,
    /// How it ended and what it printed, normalised.
    output: String,
    task: TaskId,
    attempt: AttemptId,
}

impl Breaker {
    /// A session has ended in which the model said something.
    pub(super) fn spoke(&mut self) {
        self.empty = 0;
    }

    /// A session has ended without a word from the model; tells whether that stops the run.
    pub(super) fn said_nothing(&mut self, report: &Report) -> Option<Common> {
        self.empty += 1;
        (self.empty >= EMPTY).then(|| Common::Empty { how: how_it_ended(report) })
    }

    /// The work on a task could not be verified because the working tree changed; that stops the run
    /// the second time.
    pub(super) fn void(&mut self, task: TaskId) -> Option<Common> {
        (self.void.replace(task) == Some(task)).then_some(Common::Void { task })
    }

    /// A check has passed: whatever was wrong with it is mended.
    pub(super) fn passed(&mut self, command: &str) {
        self.failed.retain(|it| it.command != command);
    }

    /// A check has not passed the work of an attempt. If the work of another task failed it in the same
    /// way, that stops the run, and these attempts are not to blame.
    pub(super) fn failed(
        &mut self,
        command: &str,
        output: &str,
        task: TaskId,
        attempt: AttemptId,
    ) -> Option<(Common, Vec<AttemptId>)> {
        let normal = normalised(output);
        let alike = |it: &&FailedCheck| it.command == command && it.output == normal;
        let other = self.failed.iter().filter(alike).find(|it| it.task != task).map(|it| it.task);
        let attempts = self.failed.iter().filter(alike).map(|it| it.attempt).collect();
        let last_line = output.lines().rev().find(|it| !it.trim().is_empty());
        let common = other.map(|other| Common::Check {
            command: command.to_owned(),
            tasks: [other, task],
            last_line: last_line.unwrap_or_default().trim().to_owned(),
        });
        self.failed.push(FailedCheck {
            command: command.to_owned(),
            output: normal,
            task,
            attempt,
        });
        common.map(|common| (common, attempts))
    }
}

/// Whether the agent ended with an error before it said anything that an agent says: it does not know an
/// option, or lacks something that it needs. It would do so again.
pub(super) fn not_started(report: &Report) -> Option<Common> {
    let facts = &report.facts;
    let is_error = matches!(facts.exit, Some(Exit::Code(code)) if code != 0);
    let is_silent = !facts.began && !facts.on_screen;
    let ended_itself = report.ended_by == EndedBy::Itself;
    (ended_itself && is_error && is_silent).then(|| {
        let exit = exit_of(report);
        let words = report.last_words().map_or(String::new(), |words| format!(": {words}"));
        Common::NotStarted { how: exit + &words }
    })
}

/// Whether a session ended without a sign of the model, and neither a person, a limit nor the API
/// ended it.
pub(super) fn is_empty(facts: &Facts, ended_by: EndedBy) -> bool {
    match ended_by {
        EndedBy::Request | EndedBy::Deadline | EndedBy::Rejected => false,
        EndedBy::Itself | EndedBy::Silence | EndedBy::Lingering => {
            let refused = match facts.trouble {
                None
                // A request that is refused for an unknown reason may be so for every task.
                | Some(
                    Trouble::NoResult
                    | Trouble::Aborted
                    | Trouble::Error(_)
                    | Trouble::Idle(_)
                    | Trouble::InvalidRequest(_),
                ) => false,
                Some(_) => true,
            };
            !refused && !facts.model_seen
        }
    }
}

/// How a session ended in which the model said nothing, in a line.
fn how_it_ended(report: &Report) -> String {
    let exit = exit_of(report);
    let last_words = report.last_words();
    let words = match (&report.facts.trouble, &last_words) {
        (Some(Trouble::Error(words) | Trouble::InvalidRequest(words)), _) => words.lines().last(),
        (_, words) => words.as_deref().and_then(|words| words.lines().last()),
    };
    words.map_or(exit.clone(), |words| format!("{exit}: {}", words.trim()))
}

fn exit_of(report: &Report) -> String {
    match (report.ended_by, report.facts.exit) {
        (EndedBy::Silence, _) => "no sign of life".to_owned(),
        (_, Some(Exit::Code(code))) => format!("exit code {code}"),
        (_, Some(Exit::Signal(signal))) => format!("signal {signal}"),
        (_, None) => "it could not be ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report(exit: Exit, trouble: Option<Trouble>, stderr: &str) -> Report {
        Report {
            facts: Facts { exit: Some(exit), trouble, ..Facts::default() },
            ended_by: EndedBy::Itself,
            stderr: stderr.to_owned(),
            long_lines: 0,
            logged: true,
        }
    }

    #[test]
    fn three_sessions_in_a_row_without_a_word_are_enough() {
        let mut breaker = Breaker::default();
        let dead = report(Exit::Code(1), Some(Trouble::NoResult), "at line 1\nno such flag\n");
        assert_eq!(breaker.said_nothing(&dead), None);
        assert_eq!(breaker.said_nothing(&dead), None);
        breaker.spoke();
        assert_eq!(breaker.said_nothing(&dead), None);
        assert_eq!(breaker.said_nothing(&dead), None);
        let common = breaker.said_nothing(&dead).unwrap();
        assert_eq!(
            common.to_string(),
            "three sessions in a row ended without a word from the model: exit code 1: no such flag"
        );
    }

    #[test]
    fn an_agent_that_fails_before_it_has_begun_is_certain_to_fail_again() {
        let words = "error: unknown option '--odd'\n";
        let none = Some(Trouble::NoResult);
        let dead = report(Exit::Code(1), none.clone(), words);
        let common = not_started(&dead).unwrap();
        assert_eq!(
            common.to_string(),
            "the agent can't be started: exit code 1: error: unknown option '--odd'"
        );
        // Whatever killed it may be gone, and a program that says that all is well has begun.
        assert_eq!(not_started(&report(Exit::Signal(9), none.clone(), words)), None);
        assert_eq!(not_started(&report(Exit::Code(0), none.clone(), words)), None);
        let mut begun = report(Exit::Code(1), none.clone(), words);
        begun.facts.began = true;
        assert_eq!(not_started(&begun), None);
        let mut ended = report(Exit::Code(1), none, words);
        ended.ended_by = EndedBy::Silence;
        assert_eq!(not_started(&ended), None);
    }

    #[test]
    fn how_a_session_ended_is_told_in_a_line() {
        let told = |exit, trouble, stderr| how_it_ended(&report(exit, trouble, stderr));
        assert_eq!(told(Exit::Code(1), Some(Trouble::NoResult), ""), "exit code 1");
        assert_eq!(told(Exit::Signal(9), None, "\n"), "signal 9");
        let error = Some(Trouble::Error("it asks something".into()));
        assert_eq!(told(Exit::Code(0), error, "x"), "exit code 0: it asks something");
    }

    #[test]
    fn only_a_session_that_nothing_else_ended_is_empty() {
        let check = |trouble: Option<Trouble>, model_seen, ended_by, expected: bool| {
            let facts = Facts { trouble: trouble.clone(), model_seen, ..Facts::default() };
            assert_eq!(is_empty(&facts, ended_by), expected, "{trouble:?} {ended_by:?}");
        };
        use EndedBy::{Deadline, Itself, Lingering, Request, Silence};
        for ended_by in [Itself, Silence, Lingering] {
            check(Some(Trouble::NoResult), false, ended_by, true);
            check(Some(Trouble::NoResult), true, ended_by, false);
        }
        // A program may say that all went well and still not have asked the model.
        check(None, false, Itself, true);
        check(None, true, Itself, false);
        check(Some(Trouble::Error("x".into())), false, Itself, true);
        check(Some(Trouble::Idle(Duration::from_secs(30))), false, Silence, true);
        check(Some(Trouble::InvalidRequest("x".into())), false, Itself, true);
        check(Some(Trouble::InvalidRequest("x".into())), true, Itself, false);
        check(Some(Trouble::NoResult), false, Request, false);
        check(Some(Trouble::NoResult), false, Deadline, false);
        for refused in [
            Trouble::UsageLimit { window: None, resets_at: None },
            Trouble::Overloaded,
            Trouble::Authentication,
            Trouble::Connection("x".into()),
            Trouble::PromptTooLong("x".into()),
            Trouble::MaxTurns,
            Trouble::Budget,
        ] {
            check(Some(refused), false, Itself, false);
        }
    }

    #[test]
    fn the_same_failure_of_two_tasks_is_that_of_neither() {
        let (a, b) = ("t-aaaaaa".parse().unwrap(), "t-bbbbbb".parse().unwrap());
        let attempt = |number: u32| AttemptId::from_bits(number);
        let mut breaker = Breaker::default();
        assert_eq!(breaker.failed("make", "code 1\nin 3 s: no x\n", a, attempt(1)), None);
        assert_eq!(breaker.failed("make", "code 1\nin 5 s: no x\n", a, attempt(2)), None);
        assert_eq!(breaker.failed("make", "code 1\nno y\n", b, attempt(3)), None);
        assert_eq!(breaker.failed("test", "code 1\nin 5 s: no x\n", b, attempt(4)), None);
        let (common, alike) =
            breaker.failed("make", "code 1\nin 9 s: no x\n\n", b, attempt(5)).unwrap();
        assert_eq!(alike, [attempt(1), attempt(2)]);
        assert_eq!(
            common.to_string(),
            "`make` fails in the same way for t-aaaaaa and t-bbbbbb: in 9 s: no x"
        );
    }

    #[test]
    fn a_check_that_has_passed_since_is_not_broken() {
        let (a, b) = ("t-aaaaaa".parse().unwrap(), "t-bbbbbb".parse().unwrap());
        let mut breaker = Breaker::default();
        assert_eq!(breaker.failed("make", "no x", a, AttemptId::from_bits(1)), None);
        breaker.passed("make");
        assert_eq!(breaker.failed("make", "no x", b, AttemptId::from_bits(2)), None);
    }
}
