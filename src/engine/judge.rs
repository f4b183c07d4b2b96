//! What a session means for its task, from what it said and how it ended.

use crate::agent::{EndedBy, Facts, Trouble};
use crate::dag::{Ask, TaskId};
use crate::prompt::sigils::{Promise, Sigils};

/// What a session means for its task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The agent believes that it is done.
    Done {
        /// Whether it said that it failed as well.
        doubtful: bool,
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
    let sigils = Sigils::read(&facts.answer);
    let mut remarks = Vec::new();
    let id = task.to_string();
    let own = |said: &str, kind: &str, remarks: &mut Vec<String>| {
        let is_own = said == id;
        if !is_own {
            remarks.push(format!("the agent said {kind} of `{said}`, which is not its task"));
        }
        is_own
    };
    let done = sigils.done.is_some_and(|said| own(&said, "done", &mut remarks));
    let failed =
        sigils.failed.filter(|(said, _)| own(said, "failed", &mut remarks)).map(|(_, why)| why);
    let blocked =
        sigils.blocked.filter(|(said, _)| own(said, "blocked", &mut remarks)).map(|(_, why)| why);
    let (done, failed, blocked) = match asked {
        None => (done, failed, blocked),
        Some((Ask::Done, _)) => (true, failed, blocked),
        Some((Ask::Failed, why)) => (done, failed.or(Some(why.unwrap_or_default())), blocked),
        Some((Ask::Blocked, why)) => (done, failed, blocked.or(Some(why.unwrap_or_default()))),
    };
    let verdict = match (done, failed, blocked) {
        (true, failed, blocked) => {
            Verdict::Done { doubtful: failed.is_some() || blocked.is_some() }
        }
        (false, _, Some(question)) => Verdict::Blocked(or(question, "it needs a person")),
        (false, Some(reason), None) => Verdict::Failed(or(reason, "the agent gave no reason")),
        (false, None, None) => Verdict::Silent(why_silent(facts)),
    };
    Judgement { verdict, promise: sigils.promise, hint: sigils.next_model, remarks }
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
        (_, Some(trouble)) => Some(Verdict::Refused(trouble.clone())),
    }
}

fn why_silent(facts: &Facts) -> String {
    if let Some(trouble @ Trouble::Idle(_)) = &facts.trouble {
        return trouble.to_string();
    }
    let mut reason = "the session ended without a verdict".to_owned();
    if facts.answer.trim().is_empty() {
        reason.push_str(" and without an answer");
    }
    match facts.denials {
        0 => {}
        1 => reason.push_str("; it was not allowed to use a tool"),
        count => reason.push_str(&format!("; {count} times it was not allowed to use a tool")),
    }
    reason
}

fn or(text: String, otherwise: &str) -> String {
    if text.trim().is_empty() { otherwise.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::documented::rows;

    const ID: &str = "t-3f9a01";

    fn said(answer: &str) -> Facts {
        Facts { answer: answer.replace("ID", ID), ..Facts::default() }
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

    fn silent() -> Verdict {
        Verdict::Silent("the session ended without a verdict".into())
    }

    #[test]
    fn what_is_said_of_the_own_task_counts() {
        let (sure, doubtful) =
            (Verdict::Done { doubtful: false }, Verdict::Done { doubtful: true });
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
    fn what_is_not_said_to_us_is_no_verdict() {
        check("I am done", None, &silent());
        check("`<task-done>ID</task-done>`", None, &silent());
        check("<promise>COMPLETE</promise>", None, &silent());
        let empty = judged(&said(""), EndedBy::Itself, None).verdict;
        let why = "the session ended without a verdict and without an answer";
        assert_eq!(empty, Verdict::Silent(why.into()));
        let denied = Facts { denials: 2, ..said("hm") };
        let Verdict::Silent(why) = judged(&denied, EndedBy::Itself, None).verdict else { panic!() };
        assert!(why.contains("2 times it was not allowed"), "{why}");
    }

    #[test]
    fn what_is_said_of_another_task_is_only_reported() {
        let other = "<task-done>t-zzzzzz</task-done>";
        let judgement = judged(&said(other), EndedBy::Itself, None);
        assert_eq!(judgement.verdict, silent());
        assert_eq!(judgement.remarks, ["the agent said done of `t-zzzzzz`, which is not its task"]);
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
            (EndedBy::Lingering, None, Verdict::Done { doubtful: false }),
            (EndedBy::Lingering, Some(Trouble::NoResult), Verdict::Done { doubtful: false }),
            (EndedBy::Silence, Some(Trouble::NoResult), Verdict::Done { doubtful: false }),
            (EndedBy::Silence, Some(idle()), Verdict::Done { doubtful: false }),
            (EndedBy::Silence, Some(asks()), Verdict::Refused(asks())),
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
            Verdict::Done { doubtful: false } => "done".to_owned(),
            Verdict::Done { doubtful: true } => "done, with doubt".to_owned(),
            Verdict::Failed(reason) => format!("failed: {reason}"),
            Verdict::Blocked(question) => format!("blocked: {question}"),
            Verdict::Silent(_) => "no verdict".to_owned(),
            other => format!("{other:?}"),
        };
        for remark in &judgement.remarks {
            let remark = remark.replace("the agent said ", "").replace('`', "");
            text.push_str(&format!("; reports {}", remark.replace(", which is not its task", "")));
        }
        if let Some(hint) = &judgement.hint {
            text.push_str(&format!("; next model {hint}"));
        }
        match judgement.promise {
            Some(Promise::Complete) => text.push_str("; says COMPLETE"),
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
    fn hints_and_promises_come_along() {
        let answer = "<next-model>opus</next-model><promise>FAILURE</promise>";
        let judgement = judged(&said(answer), EndedBy::Itself, None);
        assert_eq!(judgement.hint.as_deref(), Some("opus"));
        assert_eq!(judgement.promise, Some(Promise::Failure));
    }
}
