//! What a session means for its task, from what it said and how it ended.

use crate::agent::{EndedBy, Facts, Trouble};
use crate::dag::{Ask, TaskId};
use crate::prompt::near_miss::near_miss;
use crate::prompt::sigils::{Promise, Sigils, last_words, promised_on_screen};

/// What a session means for its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The agent believes that it is done.
    Done {
        /// Why that alone is not enough, and something must verify it.
        doubt: Option<String>,
    },
    /// The agent can't do it.
    Failed(String),
    /// A person must answer this.
    Blocked(String),
    /// Nothing was said, for this reason.
    Silent(String),
    /// A person ended it.
    Interrupted,
    /// The time of the run was over.
    OutOfTime,
    /// The money of the run was spent.
    OutOfMoney,
    /// The API ended it.
    Refused(Trouble),
}

/// A verdict, and what else was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judgement {
    /// What it means for the task.
    pub(super) verdict: Verdict,
    /// What is said of the whole run.
    pub(super) promise: Option<Promise>,
    /// The model to take next.
    pub(super) hint: Option<String>,
    /// What a person should know.
    pub(super) remarks: Vec<String>,
}

/// Judges a session on `task`, whose agent may have asked for something by calling ralph.
pub(super) fn judge(
    task: TaskId,
    facts: &Facts,
    ended_by: EndedBy,
    asked: Option<(Ask, Option<String>)>,
) -> Judgement {
    if let Some(verdict) = ended_for_a_reason(facts, ended_by) {
        return Judgement { verdict, promise: None, hint: None, remarks: Vec::new() };
    }
    let (whole, message) = (Sigils::read(&facts.answer), Sigils::read(facts.final_message()));
    let promise =
        if facts.on_screen { promised_on_screen(&facts.answer, "") } else { message.promise };
    let (hint, mut remarks) = (whole.next_model.clone(), Vec::new());
    let ever = Said::of(task, whole, &mut remarks);
    // What is said of other tasks has been remarked.
    let mut last = Said::of(task, message, &mut Vec::new());
    match asked {
        None => {}
        Some((Ask::Done, _)) => last.done = true,
        Some((Ask::Failed, why)) => last.failed = last.failed.or(why).or(Some(String::new())),
        Some((Ask::Blocked, why)) => last.blocked = last.blocked.or(why).or(Some(String::new())),
    }
    Judgement { verdict: weigh(task, last, ever, facts), promise, hint, remarks }
}

/// What an agent says of its own task.
struct Said {
    done: bool,
    failed: Option<String>,
    blocked: Option<String>,
}

impl Said {
    fn of(task: TaskId, sigils: Sigils, remarks: &mut Vec<String>) -> Said {
        let id = task.to_string();
        let mut is_own = |said: &str, kind: &str| {
            if said != id {
                remarks.push(format!("ignored `<task-{kind}>{said}`: not this session's task"));
            }
            said == id
        };
        Said {
            done: sigils.done.is_some_and(|said| is_own(&said, "done")),
            failed: sigils.failed.filter(|(said, _)| is_own(said, "failed")).map(|(_, why)| why),
            blocked: sigils.blocked.filter(|(said, _)| is_own(said, "blocked")).map(|(_, why)| why),
        }
    }
}

/// The verdict of an agent that said this last, and this ever. What it said last counts; a done that stands
/// only earlier is doubtful, and a failure or a question that stands only earlier is no verdict: nothing
/// could verify it.
fn weigh(task: TaskId, last: Said, ever: Said, facts: &Facts) -> Verdict {
    let early = |what: &str| {
        let said = format!("the agent said {what} before its last message and not in it");
        Some(with_last_message(said, facts))
    };
    let is_contradicted = last.failed.is_some()
        || last.blocked.is_some()
        || ever.failed.is_some()
        || ever.blocked.is_some();
    match (last.done, last.failed, last.blocked) {
        (true, ..) => Verdict::Done {
            doubt: is_contradicted
                .then(|| "the agent said both that it is done and that it is not".to_owned()),
        },
        (false, _, Some(question)) => Verdict::Blocked(or(question, "it needs a person")),
        (false, Some(reason), None) => {
            // Without a word beside the tag, the reason was given before.
            let before = ever.failed.as_deref().and_then(|it| it.rsplit("\n\n").next());
            let reason = or(reason, before.unwrap_or_default());
            Verdict::Failed(or(reason, "the agent gave no reason"))
        }
        (false, None, None) if ever.done => Verdict::Done { doubt: early("done") },
        (false, None, None) => Verdict::Silent(
            match (ever.failed, ever.blocked) {
                (_, Some(question)) => early(&format!("blocked (\"{question}\")")),
                (Some(_), None) => early("failed"),
                (None, None) => None,
            }
            .unwrap_or_else(|| why_silent(task, facts)),
        ),
    }
}

/// What a session means that did not end well, whatever it said.
fn ended_for_a_reason(facts: &Facts, ended_by: EndedBy) -> Option<Verdict> {
    match (ended_by, &facts.trouble) {
        (EndedBy::Request, _) => Some(Verdict::Interrupted),
        (EndedBy::Deadline, _) => Some(Verdict::OutOfTime),
        (_, None) => None,
        // It was ended by us after it had had its say: what it said counts.
        (EndedBy::Silence | EndedBy::Lingering, Some(Trouble::NoResult | Trouble::Idle(_)))
            if !facts.answer.is_empty() =>
        {
            None
        }
        (_, Some(trouble @ Trouble::Idle(_))) => Some(Verdict::Silent(trouble.to_string())),
        (EndedBy::Silence, Some(Trouble::NoResult)) => {
            Some(Verdict::Silent("the session showed no sign of life and was ended".to_owned()))
        }
        (_, Some(Trouble::Budget)) => Some(Verdict::OutOfMoney),
        (_, Some(Trouble::Question(question))) => Some(Verdict::Blocked(question.clone())),
        (_, Some(trouble)) => Some(Verdict::Refused(trouble.clone())),
    }
}

fn why_silent(task: TaskId, facts: &Facts) -> String {
    if let Some(trouble @ Trouble::Idle(_)) = &facts.trouble {
        return trouble.to_string();
    }
    let mut reason = "the session ended without a verdict".to_owned();
    if facts.answer.trim().is_empty() {
        reason.push_str(match facts.thought {
            true => " and without an answer: the model only thought",
            false => " and without an answer",
        });
    } else if facts.final_message().trim().is_empty() {
        reason.push_str("; the last answer of the model was empty");
    }
    match facts.denials {
        0 => {}
        1 => reason.push_str("; it was not allowed to use a tool"),
        count => reason.push_str(&format!("; {count} times it was not allowed to use a tool")),
    }
    if let Some(miss) = near_miss(facts.final_message(), task) {
        reason.push_str(&format!(": {miss}"));
    }
    with_last_message(reason, facts)
}

/// A reason with the end of what the agent said last.
fn with_last_message(reason: String, facts: &Facts) -> String {
    let last = last_words(facts.final_message());
    if last.is_empty() { reason } else { format!("{reason}; its last message:\n{last}") }
}

fn or(text: String, otherwise: &str) -> String {
    if text.trim().is_empty() { otherwise.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::documented::rows;

    const ID: &str = "t-3f9a01";

    /// What is said, block by block; before each `|` a tool is called.
    fn said(answer: &str) -> Facts {
        let answer = answer.replace("ID", ID);
        let last_message = answer.rsplit('|').next().unwrap_or_default().to_owned();
        Facts { answer: answer.replace('|', "\n\n"), last_message, ..Facts::default() }
    }

    fn judged(facts: &Facts, ended_by: EndedBy, asked: Option<Ask>) -> Judgement {
        let asked = asked.map(|ask| (ask, Some("asked".to_owned())));
        judge(ID.parse().unwrap(), facts, ended_by, asked)
    }

    #[track_caller]
    fn check(answer: &str, asked: Option<Ask>, expected: &Verdict) {
        assert_eq!(&judged(&said(answer), EndedBy::Itself, asked).verdict, expected, "{answer}");
    }

    fn asks() -> Trouble {
        Trouble::Error("it asks whether the project is trusted".into())
    }

    fn idle() -> Trouble {
        Trouble::Idle(std::time::Duration::from_secs(30))
    }

    #[track_caller]
    fn check_silent(answer: &str, expected: &str) {
        let Verdict::Silent(why) = judged(&said(answer), EndedBy::Itself, None).verdict else {
            panic!("{answer} is a verdict")
        };
        assert_eq!(why, expected.replace("ID", ID), "{answer}");
    }

    #[test]
    fn what_is_said_of_the_own_task_counts() {
        let both = "the agent said both that it is done and that it is not";
        let (sure, doubtful) =
            (Verdict::Done { doubt: None }, Verdict::Done { doubt: Some(both.into()) });
        let failed = |why: &str| Verdict::Failed(why.into());
        let blocked = |why: &str| Verdict::Blocked(why.into());
        check("ok <task-done>ID</task-done>", None, &sure);
        check("<task-done> ID </task-done>", None, &sure);
        check("no key <task-failed>ID</task-failed>", None, &failed("no key"));
        check("<task-failed>ID</task-failed>", None, &failed("the agent gave no reason"));
        check("<task-blocked>ID: red?</task-blocked>", None, &blocked("red?"));
        check("<task-blocked>ID</task-blocked>", None, &blocked("it needs a person"));
        check("<task-done>ID</task-done><task-failed>ID</task-failed>", None, &doubtful);
        check("x<task-failed>ID</task-failed><task-done>ID</task-done>", None, &doubtful);
        check("<task-done>t-zzzzzz</task-done><task-done>ID</task-done>", None, &sure);
        check("fine", Some(Ask::Done), &sure);
        check("fine", Some(Ask::Failed), &failed("asked"));
        check("fine", Some(Ask::Blocked), &blocked("asked"));
        check("x <task-failed>ID</task-failed>", Some(Ask::Done), &doubtful);
        check("<task-done>ID</task-done>", Some(Ask::Failed), &doubtful);
    }

    #[test]
    fn what_is_said_last_counts_before_what_is_said_earlier() {
        let (done, failed) = ("<task-done>ID</task-done>", "<task-failed>ID</task-failed>");
        let blocked = "<task-blocked>ID: red?</task-blocked>";
        let early = |what: &str, last: &str| {
            format!(
                "the agent said {what} before its last message and not in it; its last message:\n{last}"
            )
        };
        let doubt = |why: String| Verdict::Done { doubt: Some(why) };
        let both = doubt("the agent said both that it is done and that it is not".into());
        let sure = Verdict::Done { doubt: None };
        let plan = format!("I will end with {done} when the tests pass|I did not finish");
        check(&plan, None, &doubt(early("done", "I did not finish")));
        check(&format!("{done}|{done}"), None, &sure);
        check(&format!("{done}|no key {failed}"), None, &Verdict::Failed("no key".into()));
        check(&format!("{done}|{blocked}"), None, &Verdict::Blocked("red?".into()));
        check(&format!("{failed}|{done}"), None, &both);
        check(&format!("{blocked}|{done}"), None, &both);
        check(&format!("{done}|hm"), Some(Ask::Done), &sure);
        check(&format!("{done}|hm"), Some(Ask::Failed), &Verdict::Failed("asked".into()));
        check(&format!("first|the key is missing|{failed}"), None, &{
            Verdict::Failed("the key is missing".into())
        });
        check(&format!("I'll start|No key.\n\nSorry. {failed}"), None, &{
            Verdict::Failed("No key.\n\nSorry.".into())
        });
        check_silent(&format!("{failed}|hm"), &early("failed", "hm"));
        check_silent(&format!("{blocked}|hm"), &early("blocked (\"red?\")", "hm"));
        check_silent(&format!("{failed} {blocked}|hm"), &early("blocked (\"red?\")", "hm"));
    }

    #[test]
    fn a_promise_counts_in_the_last_message_alone() {
        let promise = |facts: &Facts| judged(facts, EndedBy::Itself, None).promise;
        let failure = "<promise>FAILURE</promise>";
        assert_eq!(promise(&said(&format!("it is bad\n{failure}"))), Some(Promise::Failure));
        assert_eq!(promise(&said(&format!("{failure}|no, it is well"))), None);
        assert_eq!(promise(&said(&format!("I won't say {failure} yet"))), None);
        let screen = format!("{failure}\n$ ready");
        let shown = Facts { answer: screen, on_screen: true, ..Facts::default() };
        assert_eq!(promise(&shown), Some(Promise::Failure));
    }

    #[test]
    fn a_screen_is_all_that_a_program_says_that_has_no_hooks() {
        let answer = format!("<task-done>{ID}</task-done>\n$ ready");
        let shown = Facts { answer, on_screen: true, ..Facts::default() };
        let verdict = judged(&shown, EndedBy::Lingering, None).verdict;
        assert_eq!(verdict, Verdict::Done { doubt: None });
    }

    #[test]
    fn a_reason_keeps_the_end_of_the_last_message() {
        let long =
            format!("I'll start by reading|{} PAY_KEY is missing", "so ".repeat(5_000).trim_end());
        let Verdict::Silent(why) = judged(&said(&long), EndedBy::Itself, None).verdict else {
            panic!()
        };
        assert!(why.ends_with("so PAY_KEY is missing") && !why.contains("start"), "{why}");
        assert!(why.len() < 2_100, "{}", why.len());
    }

    #[test]
    fn what_is_not_said_to_us_is_no_verdict() {
        let silent = |answer: &str| {
            let why = "the session ended without a verdict; its last message:";
            check_silent(answer, &format!("{why}\n{answer}"));
        };
        silent("I am done");
        silent("<promise>COMPLETE</promise>");
        let empty = judged(&said(""), EndedBy::Itself, None).verdict;
        let why = "the session ended without a verdict and without an answer";
        assert_eq!(empty, Verdict::Silent(why.into()));
        let thought = Facts { thought: true, ..said("") };
        let Verdict::Silent(why) = judged(&thought, EndedBy::Itself, None).verdict else {
            panic!()
        };
        assert!(why.ends_with("without an answer: the model only thought"), "{why}");
        let expected =
            "the session ended without a verdict; the last answer of the model was empty";
        check_silent("I look|", expected);
        let denied = Facts { denials: 2, ..said("hm") };
        let Verdict::Silent(why) = judged(&denied, EndedBy::Itself, None).verdict else { panic!() };
        assert!(why.contains("2 times it was not allowed"), "{why}");
    }

    #[test]
    fn what_is_said_of_another_task_is_only_reported() {
        let other = "<task-done>t-zzzzzz</task-done>";
        let judgement = judged(&said(other), EndedBy::Itself, None);
        assert!(matches!(judgement.verdict, Verdict::Silent(_)), "{judgement:?}");
        let remark = "ignored `<task-done>t-zzzzzz`: not this session's task";
        assert_eq!(judgement.remarks, [remark]);
    }

    #[test]
    fn how_a_session_ended_comes_before_what_it_said() {
        let answer = "<task-done>ID</task-done><promise>COMPLETE</promise>";
        for (ended_by, trouble, expected) in [
            (EndedBy::Request, None, Verdict::Interrupted),
            (EndedBy::Request, Some(Trouble::Aborted), Verdict::Interrupted),
            (EndedBy::Deadline, Some(Trouble::NoResult), Verdict::OutOfTime),
            (EndedBy::Itself, Some(Trouble::Budget), Verdict::OutOfMoney),
            (EndedBy::Itself, Some(Trouble::Aborted), Verdict::Refused(Trouble::Aborted)),
            (EndedBy::Itself, Some(Trouble::NoResult), Verdict::Refused(Trouble::NoResult)),
            (EndedBy::Itself, Some(Trouble::Overloaded), Verdict::Refused(Trouble::Overloaded)),
            (EndedBy::Lingering, Some(Trouble::MaxTurns), Verdict::Refused(Trouble::MaxTurns)),
            (EndedBy::Lingering, None, Verdict::Done { doubt: None }),
            (EndedBy::Lingering, Some(Trouble::NoResult), Verdict::Done { doubt: None }),
            (EndedBy::Silence, Some(Trouble::NoResult), Verdict::Done { doubt: None }),
            (EndedBy::Silence, Some(idle()), Verdict::Done { doubt: None }),
            (EndedBy::Silence, Some(asks()), Verdict::Refused(asks())),
            (
                EndedBy::Silence,
                Some(Trouble::Question("red?".into())),
                Verdict::Blocked("red?".into()),
            ),
        ] {
            let facts = Facts { trouble: trouble.clone(), ..said(answer) };
            let judgement = judged(&facts, ended_by, Some(Ask::Done));
            assert_eq!(judgement.verdict, expected, "{ended_by:?} {trouble:?}");
        }
        let dumb = Facts { trouble: Some(Trouble::NoResult), ..said("") };
        let verdict = judged(&dumb, EndedBy::Silence, None).verdict;
        assert!(matches!(verdict, Verdict::Silent(_)), "{verdict:?}");
    }

    #[test]
    fn an_idle_session_without_a_verdict_is_told_as_such() {
        let why = Verdict::Silent("no activity for 30 s (--idle-timeout): session ended".into());
        for answer in ["", "hm"] {
            let facts = Facts { trouble: Some(idle()), ..said(answer) };
            assert_eq!(judged(&facts, EndedBy::Silence, None).verdict, why, "{answer}");
        }
    }

    /// A judgement in the words of docs/sigils.md.
    fn described(judgement: &Judgement) -> String {
        let mut text = match &judgement.verdict {
            Verdict::Done { doubt: None } => "done".to_owned(),
            Verdict::Done { doubt: Some(_) } => "done, with doubt".to_owned(),
            Verdict::Failed(reason) => format!("failed: {reason}"),
            Verdict::Blocked(question) => format!("blocked: {question}"),
            Verdict::Silent(_) => "no verdict".to_owned(),
            other => format!("{other:?}"),
        };
        for remark in &judgement.remarks {
            let ignored = remark.strip_prefix("ignored `<task-").unwrap();
            let (kind, said) = ignored.split_once('>').unwrap();
            let said = said.strip_suffix("`: not this session's task").unwrap();
            text.push_str(&format!("; reports {kind} of {said}"));
        }
        if let Some(hint) = &judgement.hint {
            text.push_str(&format!("; next model {hint}"));
        }
        match judgement.promise {
            Some(Promise::Complete | Promise::Words) => text.push_str("; says COMPLETE"),
            Some(Promise::Failure) => text.push_str("; says FAILURE"),
            None => {}
        }
        text
    }

    #[test]
    fn what_is_documented_is_what_is_taken_from_an_answer() {
        for (answer, taken) in rows("What a session says of its task") {
            let judgement = judged(&said(&answer), EndedBy::Itself, None);
            assert_eq!(described(&judgement), taken, "{answer}");
        }
    }

    #[test]
    fn what_is_documented_is_what_the_next_attempt_is_told_of_a_near_miss() {
        for (answer, told) in rows("Nearly a verdict") {
            let facts = said(&answer);
            let Verdict::Silent(why) = judged(&facts, EndedBy::Itself, None).verdict else {
                panic!("{answer} is a verdict")
            };
            assert!(why.contains(&told), "{answer}: {why}");
            let right = "</task-done>, without code marks, as the last line of the last message; ";
            assert!(why.contains(&format!("<task-done>{ID}{right}")), "{answer}: {why}");
        }
    }

    #[test]
    fn hints_and_promises_come_along() {
        let answer = "<next-model>opus</next-model><promise>FAILURE</promise>";
        let judgement = judged(&said(answer), EndedBy::Itself, None);
        assert_eq!(judgement.hint.as_deref(), Some("opus"));
        assert_eq!(judgement.promise, Some(Promise::Failure));
    }
}
