//! An API that refuses, fails, breaks off or is silent, as the real agent tells it.

use crate::api::{Answer, hang, refuse, say};
use crate::rig::{Ended, Rig};
use crate::run::done;

/// Works on one task, with an API that answers like this to the first session; the second is fine.
fn first_refused(answer: Answer) -> Option<(Rig, String, Ended)> {
    let rig = Rig::new(move |request| match request.session {
        1 => answer.clone(),
        _ => done(request),
    })?;
    let task = rig.project.add(["Do it"]);
    let ended = rig.finish(rig.clocked(&["--no-verify", "--max-retries", "0"]));
    Some((rig, task, ended))
}

#[test]
fn what_will_pass_is_waited_for_and_costs_no_retry() {
    let cases = [
        (refuse(529, "Overloaded"), "the API is overloaded"),
        (refuse(500, "Oops"), "the API failed with status 500"),
        (refuse(429, "Slow down").header("retry-after", "3600"), "too many requests at a time"),
        (say("I begin, and the line breaks.").breaks_off(4), "the API could not be reached"),
    ];
    for (answer, reason) in cases {
        let Some((rig, task, ended)) = first_refused(answer) else { return };
        let waits = ended.events("limit_wait");
        assert_eq!(waits.len(), 1, "{reason}: {ended:#?}");
        assert_eq!(waits[0]["reason"], reason);
        assert_eq!(rig.outcomes(&task), ["limited", "done"], "{reason}");
        ended.with_code(0);
    }
}

#[test]
fn what_claude_code_mends_itself_is_no_trouble() {
    let rig = Rig::new(|request| match (request.turn, request.attempt) {
        (1, 1) => refuse(529, "Overloaded"),
        (1, _) => say("Now it works.").bash("true"),
        (2, 1) => say("The line breaks in the middle of this.").breaks_off(4),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify"]).with_code(0);
    assert_eq!(rig.history(&task).len(), 1, "{ended:#?}");
    assert!(ended.events("limit_wait").is_empty(), "{ended:#?}");
}

#[test]
fn what_will_not_pass_stops_the_run() {
    let cases = [
        (refuse(401, "invalid x-api-key"), "the API key or login was not accepted"),
        (
            refuse(400, "Your credit balance is too low to access the Anthropic API."),
            "there is no credit left",
        ),
    ];
    for (answer, reason) in cases {
        let Some((rig, task, ended)) = first_refused(answer) else { return };
        let ended = ended.with_code(1);
        assert_eq!(ended.events("complete")[0]["message"], reason, "{ended:#?}");
        assert_eq!(rig.status(&task), "pending", "{reason}");
    }
}

#[test]
fn a_request_that_the_api_does_not_accept_costs_no_retry() {
    let Some((rig, task, ended)) = first_refused(refuse(400, "messages: too odd")) else {
        return;
    };
    ended.with_code(0);
    assert_eq!(rig.outcomes(&task), ["crashed", "done"]);
    assert!(rig.history(&task)[0].1.starts_with("the API did not accept the request"));
}

#[test]
fn a_session_that_hears_nothing_is_ended() {
    let rig = Rig::new(|request| match request.session {
        1 => hang(),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.project.write(".ralph.toml", "[agent]\nsilence_timeout_secs = 5\n");
    let task = rig.project.add(["Do it"]);
    let ended = rig.finish(rig.clocked(&["--no-verify"])).with_code(0);
    let history = rig.history(&task);
    assert_eq!(history[0].0, "crashed", "{ended:#?}");
    assert!(history[0].1.starts_with("the session showed no sign of life and was ended"));
    assert_eq!(rig.status(&task), "done", "{ended:#?}");
}
