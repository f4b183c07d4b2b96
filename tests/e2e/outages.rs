//! A network or an API that is out of order, an agent that can't be started, a key that is wrong: the
//! real agent tells of each in its own way, and none of it costs a task anything.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use crate::api::{Answer, Api, Request, bash, hang, page, refuse, say};
use crate::install::{OLDER, PINNED};
use crate::rig::{RUN, Rig};
use crate::run::done;
use crate::shown::finish_command;

/// Something else is in the way of a task six times, and then the network is back.
#[track_caller]
fn check_that_outages_cost_nothing(version: &'static str) {
    let rig = Rig::with_version(version, |request| match request.session {
        1 => page(200),
        2 => page(407),
        3 => page(503),
        4 => hang(),
        5 => say("I begin, and then nothing more comes of what I had to say.").stops_dead(3),
        6 => page(403),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.project.write(".ralph.toml", "[agent]\nsilence_timeout_secs = 8\n");
    let task = rig.project.add(["Do it"]);
    let ended = rig.finish(rig.clocked(&["--no-verify", "--max-retries", "0"])).with_code(0);
    let page = "something else answered in place of the API";
    let reasons = [
        format!("{page}: API returned an empty or malformed response (HTTP 200)"),
        format!("{page}: Wi-Fi login"),
        "the API failed with status 503".to_owned(),
        "the API was asked and did not answer".to_owned(),
        "the API was asked and did not answer".to_owned(),
        format!("{page}: Wi-Fi login"),
    ];
    let waits = ended.events("limit_wait");
    let told: Vec<&str> = waits.iter().map(|it| it["reason"].as_str().unwrap()).collect();
    assert_eq!(told, reasons, "{ended:#?}");
    let history = rig.history(&task);
    for ((outcome, reason), expected) in history.iter().zip(&reasons) {
        assert_eq!((outcome.as_str(), reason), ("limited", expected), "{ended:#?}");
    }
    assert_eq!(history.last().unwrap().0, "done");
    // What cost nothing is no failure: the same model, and a brief that says nothing of it.
    let asked = rig.api.requests();
    assert!(asked.iter().all(|it| it.model == asked[0].model), "{ended:#?}");
    assert!(!asked.last().unwrap().prompt.contains("earlier attempts failed"), "{ended:#?}");
}

#[test]
fn a_login_page_a_proxy_and_an_api_that_falls_silent_are_waited_for() {
    check_that_outages_cost_nothing(PINNED);
}

#[test]
fn an_older_claude_code_tells_of_outages_in_its_own_words() {
    check_that_outages_cost_nothing(OLDER);
}

#[test]
fn a_network_that_is_not_there_is_waited_for() {
    let Some(rig) = Rig::new(done) else { return };
    let task = rig.project.add(["Do it"]);
    let speaks_no_tls = rig.api.address().replace("http://", "https://");
    let nobody_listens = Api::start(done).address();
    for address in [&nobody_listens, "https://nowhere.invalid", &speaks_no_tls] {
        // The time of the run is over before the wait is.
        let mut command = rig.clocked(&["--no-verify", "--max-retries", "0", "--max-time", "29s"]);
        command.env("ANTHROPIC_BASE_URL", address).env("NO_PROXY", "*");
        let ended = rig.finish(command).with_code(3);
        let (outcome, reason) = rig.history(&task).pop().unwrap();
        assert_eq!(outcome, "limited", "{address}: {ended:#?}");
        assert!(reason.starts_with("the API could not be reached: "), "{address}: {reason}");
        assert_eq!(rig.status(&task), "pending", "{address}");
    }
    rig.finish(rig.clocked(&["--no-verify", "--max-retries", "0"])).with_code(0);
    assert_eq!(rig.outcomes(&task), ["limited", "limited", "limited", "done"]);
}

/// A proxy that lets nobody through, and its address.
fn refusing_proxy() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    // It ends with the process of the tests.
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut lines = BufReader::new(&connection).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
            let _ = (&connection).write_all(refusal.as_bytes());
        }
    });
    address
}

#[test]
fn a_proxy_that_wants_a_password_is_waited_for() {
    for version in [PINNED, OLDER] {
        let Some(rig) = Rig::with_version(version, done) else { return };
        let task = rig.project.add(["Do it"]);
        let mut command = rig.clocked(&["--no-verify", "--max-retries", "0", "--max-time", "29s"]);
        command.env("ANTHROPIC_BASE_URL", "https://api.invalid").env("NO_PROXY", "");
        command.env("HTTPS_PROXY", refusing_proxy());
        let ended = rig.finish(command).with_code(3);
        let (outcome, reason) = rig.history(&task).pop().unwrap();
        assert_eq!(outcome, "limited", "{version}: {ended:#?}");
        let is_outage = reason.starts_with("the API could not be reached: ")
            || reason.starts_with("something else answered in place of the API: ");
        assert!(is_outage, "{version}: {reason}");
        assert_eq!(rig.status(&task), "pending", "{version}");
    }
}

#[test]
fn a_wrong_key_stops_the_run_before_claude_code_has_tried_it_ten_times() {
    let Some(rig) = Rig::new(|_| refuse(401, "invalid x-api-key")) else { return };
    let task = rig.project.add(["Do it"]);
    let mut command = rig.ralph(&[&RUN[..], &["--no-verify", "--max-retries", "0"]].concat());
    command.env_remove("CLAUDE_CODE_MAX_RETRIES");
    let ended = rig.finish(command).with_code(1);
    let end = &ended.events("complete")[0];
    assert_eq!(end["message"], "the API key or login was not accepted", "{ended:#?}");
    assert!(rig.api.requests().len() <= 3, "{ended:#?}");
    assert_eq!(
        (rig.status(&task), rig.outcomes(&task)),
        ("pending".into(), vec!["limited".into()])
    );
}

#[test]
fn an_option_that_claude_code_does_not_know_stops_the_run_at_once() {
    let Some(rig) = Rig::new(done) else { return };
    let task = rig.project.add(["Do it"]);
    let ended = rig.run(&["--agent", "claude --no-such-option"]).with_code(1);
    let message = ended.events("complete")[0]["message"].clone();
    let expected =
        "the agent can't be started: exit code 1: error: unknown option '--no-such-option'";
    assert_eq!(message, expected, "{ended:#?}");
    assert_eq!(
        (rig.status(&task), rig.outcomes(&task)),
        ("pending".into(), vec!["crashed".into()])
    );
}

/// Nothing listens there: the set-up of Claude Code, which asks Anthropic whatever address the API has, fails.
const DEAD: &str = "http://127.0.0.1:1";

#[track_caller]
fn check_that_a_first_start_without_network_costs_nothing(version: &'static str) {
    let rig = Rig::with_version(version, |request| match request.session {
        1 => say("I begin, and the line breaks.").breaks_off(4),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    let task = rig.project.add(["Do it"]);
    let mut unreachable = rig.shown(&["--observe", "--max-time", "29s"]);
    unreachable.env("HTTPS_PROXY", DEAD).env("ANTHROPIC_BASE_URL", DEAD).env("NO_PROXY", "*");
    finish_command(&rig, &unreachable, 3);
    let (outcome, reason) = rig.history(&task).pop().unwrap();
    assert_eq!((&*outcome, rig.status(&task)), ("limited", "pending".into()), "{reason}");
    assert!(reason.starts_with("the API could not be reached: "), "{reason}");
    let mut back = rig.shown(&["--observe"]);
    back.env("HTTPS_PROXY", DEAD);
    let screen = finish_command(&rig, &back, 0);
    assert!(screen.contains("going on without a terminal"), "{screen}");
    assert_eq!(rig.outcomes(&task), ["limited", "limited", "done"]);
    assert_eq!(rig.project.show(&task)["retries"], 0);
}

#[test]
fn a_first_start_without_network_is_waited_for_on_a_screen() {
    check_that_a_first_start_without_network_costs_nothing(PINNED);
}

#[test]
fn a_first_start_without_network_is_waited_for_with_an_older_claude_code() {
    check_that_a_first_start_without_network_costs_nothing(OLDER);
}

#[test]
fn a_first_start_without_network_is_waited_for_where_a_person_may_type() {
    let Some(rig) = Rig::new(done) else { return };
    let task = rig.project.add(["Do it"]);
    let mut command = rig.shown(&["--pty", "--max-time", "29s"]);
    command.env("HTTPS_PROXY", DEAD);
    finish_command(&rig, &command, 3);
    let reason =
        "the API could not be reached: Failed to connect to api.anthropic.com: ECONNREFUSED";
    assert_eq!(rig.history(&task), [("limited".to_owned(), reason.to_owned())]);
}

/// Works a little, and then something is in the way, in each session something else.
fn outage_in_the_middle(request: &Request) -> Answer {
    match (request.session, request.turn) {
        (1..=6, 1) => bash("true"),
        (1, _) => page(200),
        (2, _) => page(407),
        (3, _) => page(503),
        (4, _) => page(403),
        (5, _) => refuse(529, "Overloaded"),
        (6, _) => say("I begin, and the line breaks.").breaks_off(4),
        _ => done(request),
    }
}

#[track_caller]
fn check_that_outages_on_a_screen_cost_nothing(version: &'static str) {
    let Some(rig) = Rig::with_version(version, outage_in_the_middle) else { return };
    rig.answer_first_questions(true);
    let task = rig.project.add(["Do it"]);
    let screen = finish_command(&rig, &rig.shown(&["--observe"]), 0);
    let history = rig.history(&task);
    let (last, outages) = history.split_last().unwrap();
    assert_eq!((outages.len(), &*last.0), (6, "done"), "{history:#?}\n{screen}");
    assert!(outages.iter().all(|(outcome, _)| outcome == "limited"), "{history:#?}");
    assert_eq!(rig.project.show(&task)["retries"], 0);
    let asked = rig.api.requests();
    assert!(asked.iter().all(|it| it.model == asked[0].model), "{history:#?}");
}

#[test]
fn an_outage_in_the_middle_of_an_observed_session_is_waited_for() {
    check_that_outages_on_a_screen_cost_nothing(PINNED);
}

#[test]
fn an_older_claude_code_shows_outages_in_its_own_words() {
    check_that_outages_on_a_screen_cost_nothing(OLDER);
}

#[test]
fn an_api_that_hangs_in_an_observed_session_is_waited_for() {
    let rig = Rig::new(|request| match (request.session, request.turn) {
        (1, 1) => hang(),
        (2, 2) => hang(),
        (2, _) => bash("echo begun".to_owned()),
        _ => done(request),
    });
    let Some(rig) = rig else { return };
    rig.answer_first_questions(true);
    rig.project.write(".ralph.toml", "max_retries = 0\n[agent]\nsilence_timeout_secs = 4\n");
    let task = rig.project.add(["Do it"]);
    let command = rig.shown(&["--observe", "--idle-timeout", "0"]);
    let screen = finish_command(&rig, &command, 0);
    assert_eq!(rig.outcomes(&task), ["limited", "limited", "done"], "{screen}");
    let (_, reason) = rig.history(&task).swap_remove(0);
    assert_eq!(reason, "the API was asked and did not answer", "{screen}");
    assert_eq!(rig.project.show(&task)["retries"], 0, "{screen}");
}

#[test]
fn a_wrong_key_stops_an_observed_run_before_claude_code_has_tried_it_ten_times() {
    let Some(rig) = Rig::new(|_| refuse(401, "invalid x-api-key")) else { return };
    rig.answer_first_questions(true);
    let task = rig.project.add(["Do it"]);
    let mut command = rig.shown(&["--observe"]);
    command.env_remove("CLAUDE_CODE_MAX_RETRIES");
    let screen = finish_command(&rig, &command, 1);
    assert!(screen.contains("the API key or login was not accepted"), "{screen}");
    assert!(rig.api.requests().len() <= 5, "{screen}");
    assert_eq!(
        (rig.status(&task), rig.outcomes(&task)),
        ("pending".into(), vec!["limited".into()])
    );
}
