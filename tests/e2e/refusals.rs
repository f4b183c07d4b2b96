//! An API or a model that refuses, fails or breaks off, as the real agent tells it.

use crate::api::{Answer, Role, bash, nothing, refuse, say, think};
use crate::rig::{Ended, RUN, Rig};
use crate::run::{done, usage_limit};

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
        let told = waits[0]["reason"].as_str().unwrap();
        assert!(told == reason || told.starts_with(&format!("{reason}: ")), "{told}");
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
    for (status, words) in [(400, "messages: too odd"), (413, "Request too large")] {
        let Some((rig, task, ended)) = first_refused(refuse(status, words)) else { return };
        ended.with_code(0);
        assert_eq!(rig.outcomes(&task), ["crashed", "done"], "{status}");
        let reason = rig.history(&task)[0].1.clone();
        let expected = format!("the API did not accept the request: {words}");
        assert!(reason.starts_with(&expected), "{reason}");
    }
}

#[test]
fn what_the_model_does_not_do_is_named() {
    let rig = Rig::new(|request| match request.title.as_str() {
        "Refuse" => say("I will not do this.").stopping("refusal"),
        "Stop" => nothing().stopping("refusal"),
        "Write" => say("It goes on and on").stopping("max_tokens"),
        "Think" => think("Hm."),
        _ => nothing(),
    });
    let Some(rig) = rig else { return };
    let titles = ["Refuse", "Stop", "Write", "Think", "Nothing"];
    let tasks = titles.map(|title| rig.project.add([title]));
    let ended = rig.run(&["--no-verify", "--max-retries", "0"]).with_code(1);
    let safeguards = "safeguards flagged this message";
    let without = "the session ended without a verdict and without an answer";
    for (task, (outcome, beginning, more)) in tasks.iter().zip([
        ("failed", "the model refused: I will not do this.\n", safeguards),
        ("failed", "the model refused: ", safeguards),
        ("failed", "the answer was cut off: ", "longer than the model can write"),
        ("silent", without, ": the model only thought"),
        ("silent", without, ""),
    ]) {
        let (found, reason) = rig.history(task).pop().unwrap();
        assert_eq!(found, outcome, "{reason}: {ended:#?}");
        assert!(reason.starts_with(beginning) && reason.contains(more), "{reason}");
    }
}

#[test]
fn a_model_that_does_not_exist_is_named_and_stops_the_run() {
    let Some(rig) = Rig::new(|_| refuse(404, "model: claude-nope")) else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--no-verify", "--model", "claude-nope"]).with_code(1);
    let expected = "there is no model `claude-nope` for this account";
    assert_eq!(ended.events("complete")[0]["message"], expected, "{ended:#?}");
    assert_eq!(rig.status(&task), "pending");
}

#[test]
fn a_prompt_that_is_too_long_is_cut_then_read_by_another_model_then_given_up() {
    let rig = Rig::new(|request| match (request.title.as_str(), request.session) {
        ("Cut", 1) | ("Never", _) => refuse(400, "prompt is too long: 250000 tokens > 200000"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let cut = rig.project.add(["Cut", "-d", &"It is long. ".repeat(4_000)]);
    let never = rig.project.add(["Never"]);
    let ended = rig.run(&["--no-verify"]).with_code(1);
    assert_eq!(rig.outcomes(&cut), ["limited", "done"], "{ended:#?}");
    let lengths: Vec<usize> =
        rig.asked(Role::Work).iter().take(2).map(|it| it.prompt.len()).collect();
    assert!(lengths[1] < lengths[0], "{lengths:?}");
    assert_eq!(rig.outcomes(&never), ["limited", "limited", "failed"], "{ended:#?}");
    let reason = rig.history(&never).pop().unwrap().1;
    assert!(reason.starts_with("the prompt is too long for the model: "), "{reason}");
    assert!(reason.contains("nothing else is left to try"), "{reason}");
}

#[test]
fn a_verifier_that_comes_to_nothing_is_asked_again_and_the_work_is_not_redone() {
    let rig = Rig::new(|request| match (request.role, request.title.as_str(), request.session) {
        (Role::Work, ..) => done(request),
        (_, "Odd", 1) => say("I will not look at this.").stopping("refusal"),
        (_, "Odd", 2) => say("It goes on and on").stopping("max_tokens"),
        (_, "Vague", 1) => say("It looks fine."),
        (_, "Odd" | "Vague", _) => say("<verify-pass/>"),
        _ => say("I will not look at this.").stopping("refusal"),
    });
    let Some(rig) = rig else { return };
    let [odd, vague, never] = ["Odd", "Vague", "Never"].map(|title| rig.project.add([title]));
    let ended = rig.run(&["--max-retries", "0"]).with_code(1);
    for task in [&odd, &vague] {
        assert_eq!(rig.outcomes(task), ["done"], "{ended:#?}");
    }
    let (outcome, reason) = rig.history(&never).pop().unwrap();
    let expected =
        format!("not counted: the work on {never} could not be verified: the model refused");
    assert_eq!(outcome, "interrupted", "{ended:#?}");
    assert!(reason.starts_with(&expected), "{reason}");
    assert_eq!((rig.status(&never), rig.asked(Role::Work).len()), ("pending".into(), 3));
}

#[test]
fn a_cap_on_the_model_of_the_verifier_has_another_one_verify() {
    let rig = Rig::new(|request| match (request.role, request.session) {
        (Role::Work, _) => done(request),
        (_, 1) => usage_limit(4 * 24 * 3600, "seven_day_sonnet"),
        _ => say("<verify-pass/>"),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let mut command = rig.ralph(&RUN);
    command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "no-token-at-all");
    let ended = rig.finish(command).with_code(0);
    assert_eq!(rig.outcomes(&task), ["done"], "{ended:#?}");
    assert!(ended.events("limit_wait").is_empty(), "{ended:#?}");
    let models: Vec<String> = rig.asked(Role::Verify).into_iter().map(|it| it.model).collect();
    assert!(models[0].contains("sonnet") && models[1].contains("opus"), "{models:?}");
}

#[test]
fn a_limit_in_the_middle_of_the_work_is_no_failure_of_it() {
    let rig = Rig::new(|request| match (request.session, request.turn) {
        (1, 1) => bash("echo half > half"),
        (1, _) => usage_limit(600, "five_hour"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let mut command = rig.clocked(&["--no-verify", "--max-retries", "0"]);
    command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "no-token-at-all");
    let ended = rig.finish(command).with_code(0);
    assert_eq!(rig.outcomes(&task), ["limited", "done"], "{ended:#?}");
    assert_eq!(rig.history(&task)[0].1, "the usage limit is reached");
    let asked = rig.asked(Role::Work);
    let (first, last) = (&asked[0], &asked[asked.len() - 1]);
    assert_eq!(first.model, last.model, "{ended:#?}");
    assert!(!last.prompt.contains("attempts failed"), "{}", last.prompt);
}

#[test]
fn a_verifier_that_spends_the_money_of_the_run_has_reached_the_limit_on_cost() {
    let rig = Rig::new(|request| match (request.role, request.turn) {
        (Role::Verify, 1) => bash("true").costing(1_000_000),
        (Role::Verify, _) => say("<verify-pass/>"),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--max-cost", "0.5"]).with_code(3);
    assert_eq!(ended.events("complete")[0]["message"], "the limit on cost was reached");
    let expected = ("limited".to_owned(), "the run's cost limit was reached".to_owned());
    assert_eq!(rig.history(&task), [expected], "{ended:#?}");
    assert_eq!(rig.status(&task), "pending");
}
