//! Sessions with a child that does what it should not: whatever happens, the session ends in time, says
//! why, and nothing that the child started is left. What is left can be seen where there is a `/proc`.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{DEADLINE, FAKE_CLAUDE, wait_until};

const SESSION: &str = env!("CARGO_BIN_EXE_ralph-session");

/// How long after the end of a session something of it may be left.
const AFTERMATH: Duration = Duration::from_secs(1);
/// By this variable the processes of a test are known.
const MARKER: &str = "RALPH_TEST_MARKER";

/// What an agent can leave behind.
const ORPHANS: [&str; 6] = [
    "orphan",
    "orphan-ignore-term",
    "orphan-setsid",
    "orphan-holds-stdout",
    "orphan-double-fork",
    "orphan-setsid-double-fork-ignore-term-holds-stdout",
];

// However a session ends, whatever the agent has left behind.

#[test]
fn nothing_survives_a_normal_end() {
    for_every_orphan(|orphan| {
        let go = Go::new();
        let session = start(&format!("{orphan} | say ready | wait-file {go} | say bye"), &[]);
        session.ready();
        go.now();
        let facts = session.finish();
        assert_eq!(facts["trouble"], Value::Null, "{facts}");
        check(&facts, "Itself", "Code(0)");
    });
}

#[test]
fn nothing_survives_an_error() {
    for_every_orphan(|orphan| {
        let go = Go::new();
        let session = start(&format!("{orphan} | say ready | wait-file {go} | exit 3"), &[]);
        session.ready();
        go.now();
        let facts = session.finish();
        assert_eq!(facts["trouble"], "NoResult", "{facts}");
        check(&facts, "Itself", "Code(3)");
    });
}

#[test]
fn nothing_survives_a_crash_of_the_agent() {
    for_every_orphan(|orphan| {
        let go = Go::new();
        let script = format!("{orphan} | say ready | wait-file {go} | kill SIGKILL");
        let session = start(&script, &[]);
        session.ready();
        go.now();
        let facts = session.finish();
        assert_eq!(facts["trouble"], "NoResult", "{facts}");
        check(&facts, "Itself", "Signal(9)");
    });
}

#[test]
fn nothing_survives_an_interrupt() {
    for_every_orphan(|orphan| {
        let session = start(&format!("{orphan} | say ready | hang"), &[]);
        session.ready();
        session.signal(Signal::INT);
        let facts = session.finish();
        assert_eq!(facts["trouble"], "Aborted", "{facts}");
        check(&facts, "Request", "Code(0)");
    });
}

#[test]
fn nothing_survives_a_second_interrupt() {
    for_every_orphan(|orphan| {
        let session = start(&format!("ignore SIGINT | {orphan} | say ready | hang"), &[]);
        session.ready();
        session.signal(Signal::INT);
        session.wait_for("asked Interrupt");
        session.signal(Signal::INT);
        let facts = session.finish_within(Duration::from_secs(4));
        assert_eq!(facts["trouble"], "NoResult", "{facts}");
        check(&facts, "Request", "Signal(9)");
    });
}

#[test]
fn nothing_survives_a_termination() {
    for_every_orphan(|orphan| {
        let script = format!("ignore SIGINT | ignore SIGTERM | {orphan} | say ready | hang");
        let session = start(&script, &[]);
        session.ready();
        session.signal(Signal::TERM);
        let facts = session.finish_within(Duration::from_secs(4));
        assert_eq!(facts["trouble"], "NoResult", "{facts}");
        check(&facts, "Request", "Signal(9)");
    });
}

#[test]
fn nothing_survives_silence() {
    for_every_orphan(|orphan| {
        let script = format!("{orphan} | say ready | hang");
        let session = start(&script, &["--silence-ms", "1500"]);
        session.ready();
        check(&session.finish(), "Silence", "Code(143)");
    });
}

#[test]
fn nothing_survives_the_deadline() {
    for_every_orphan(|orphan| {
        let script = format!("{orphan} | say ready | hang");
        let session = start(&script, &["--deadline-ms", "2500"]);
        session.ready();
        check(&session.finish(), "Deadline", "Code(143)");
    });
}

#[test]
fn nothing_survives_a_panic() {
    for_every_orphan(|orphan| {
        let go = Go::new();
        let script = format!("{orphan} | say ready | wait-file {go} | say BOOM | hang");
        let session = start(&script, &["--panic-after", "BOOM"]);
        session.ready();
        go.now();
        let (status, _, stderr) = session.end();
        assert_eq!(status.code(), Some(101), "{stderr}");
    });
}

#[test]
fn nothing_survives_when_we_are_killed() {
    for_every_orphan(|orphan| {
        let session = start(&format!("ignore SIGTERM | {orphan} | say ready | hang"), &[]);
        session.ready();
        session.signal(Signal::KILL);
        session.end();
    });
}

#[test]
fn nothing_survives_when_the_supervisor_is_killed() {
    for_every_orphan(|orphan| {
        let session = start(&format!("{orphan} | say ready | hang"), &[]);
        session.ready();
        send(session.supervisor(), Signal::KILL);
        let facts = session.finish();
        assert_eq!(facts["trouble"], "NoResult", "{facts}");
        check(&facts, "Itself", "Signal(9)");
    });
}

#[test]
fn what_survives_when_both_are_killed_can_be_ended_by_its_marker() {
    for_every_orphan(|orphan| {
        let mut session = start(&format!("{orphan} | say ready | hang"), &[]);
        session.ready();
        let supervisor = session.supervisor();
        // A stopped one can't notice that the other is gone.
        session.signal(Signal::STOP);
        send(supervisor, Signal::KILL);
        session.signal(Signal::KILL);
        session.child.wait().unwrap();
        assert!(alive(&session.marker).iter().any(|(_, name)| name == "sleep"));
        let ended = ralph::agent::end_marked(MARKER, std::slice::from_ref(&session.marker));
        assert!(ended >= 2, "the agent and its orphan: {ended}");
        assert_nothing_left(&session.marker);
    });
}

#[test]
fn what_hides_from_the_marker_does_not_hide_from_the_supervisor() {
    for kill in [false, true] {
        let script =
            "orphan-hides-setsid-double-fork-ignore-term-holds-stdout 61 | say ready | hang";
        let session = start(script, &[]);
        session.wait_for("text ready");
        let supervisor = session.supervisor();
        let orphan = || children_of(supervisor).into_iter().find(|&pid| name_of(pid) == "sleep");
        let orphan = within(DEADLINE, orphan).expect("the supervisor has adopted it");
        session.signal(if kill { Signal::KILL } else { Signal::TERM });
        session.end();
        within(AFTERMATH, || (!is_alive(orphan)).then_some(())).expect("it has gone");
    }
}

// A supervisor that does not do what it should.

#[test]
fn a_stopped_supervisor_does_not_keep_a_session_from_ending() {
    let session = start("orphan-setsid | say ready | hang", &[]);
    session.ready();
    send(session.supervisor(), Signal::STOP);
    session.signal(Signal::TERM);
    let facts = session.finish_within(Duration::from_secs(12));
    check(&facts, "Request", "Signal(9)");
}

#[test]
fn orders_that_come_together_are_all_followed() {
    let session = start("ignore SIGINT | ignore SIGTERM | say ready | hang", &[]);
    session.wait_for("text ready");
    let supervisor = session.supervisor();
    send(supervisor, Signal::STOP);
    for _ in 0..2 {
        session.signal(Signal::INT);
        session.wait_for("asked Interrupt");
    }
    send(supervisor, Signal::CONT);
    let facts = session.finish_within(Duration::from_secs(3));
    check(&facts, "Request", "Signal(9)");
}

#[test]
fn nothing_survives_when_the_supervisor_is_killed_and_the_agent_ends() {
    let go = Go::new();
    let session = start(&format!("orphan-setsid | say ready | wait-file {go}"), &[]);
    session.ready();
    send(session.supervisor(), Signal::KILL);
    go.now();
    session.finish();
}

#[test]
fn what_an_earlier_session_left_open_does_not_disturb_the_next() {
    let scripts = Go::new();
    scripts.write("1", "orphan-hides-setsid-double-fork-holds-stdout 3 | say ready | hang");
    scripts.write("2", "say second | sleep 4000 | say bye");
    let session = start_with(|command| {
        command.env("FAKE_CLAUDE_SCRIPTS", &scripts.place);
        command.args(["--sessions", "2", "--grace-ms", "500"]);
    });
    session.wait_for("text ready");
    send(session.supervisor(), Signal::KILL);
    let first = session.wait_for("\"ended_by\"");
    assert!(first.contains("Signal(9)") && first.contains("\"threads_left\":0"), "{first}");
    let facts = session.finish();
    assert_eq!(facts["answer"], "second\n\nbye");
    check(&facts, "Itself", "Code(0)");
}

// Children that hang.

#[test]
fn a_result_that_never_comes_is_not_waited_for_for_ever() {
    let session = start("say working | hang", &["--silence-ms", "500"]);
    let facts = session.finish_within(Duration::from_secs(5));
    assert_eq!(facts["trouble"], "NoResult", "{facts}");
    check(&facts, "Silence", "Code(143)");
}

#[test]
fn an_agent_that_ignores_every_signal_is_ended_all_the_same() {
    let script = "ignore SIGINT | ignore SIGTERM | say working | hang";
    let session = start(script, &["--silence-ms", "500"]);
    let facts = session.finish_within(Duration::from_secs(9));
    check(&facts, "Silence", "Signal(9)");
}

#[test]
fn tools_at_work_are_a_sign_of_life() {
    let step = "tool Bash {\"command\":\"make\"} | sleep 400 | ";
    let session = start(&step.repeat(8), &["--silence-ms", "1500"]);
    let facts = session.finish();
    assert_eq!(facts["trouble"], Value::Null, "{facts}");
    check(&facts, "Itself", "Code(0)");
}

#[test]
fn a_process_that_stays_after_its_result_is_ended_and_its_result_counts() {
    let session = start("say all is well | cost 0.25 | linger", &["--grace-ms", "1000"]);
    let facts = session.finish_within(Duration::from_secs(5));
    assert_eq!(facts["trouble"], Value::Null, "{facts}");
    assert_eq!((&facts["answer"], &facts["cost"]), (&"all is well".into(), &0.25.into()));
    check(&facts, "Lingering", "Code(143)");
}

#[test]
fn a_process_that_closes_its_output_and_stays_is_ended() {
    for script in ["say hm | close-stdout | hang", "result | close-stdout | hang"] {
        let session = start(script, &["--grace-ms", "1000"]);
        let facts = session.finish_within(Duration::from_secs(5));
        check(&facts, "Lingering", "Code(143)");
    }
}

#[test]
fn a_flood_on_stderr_takes_neither_memory_nor_the_session() {
    let done = Go::new();
    let session = start(&format!("say watch | flood-stderr 1024 | touch {done} | hang"), &[]);
    session.wait_for("text watch");
    within(DEADLINE, || done.file().exists().then_some(())).expect("all of it was read");
    session.signal(Signal::TERM);
    let facts = session.finish_within(Duration::from_secs(5));
    let tail = facts["stderr"].as_str().unwrap();
    assert!(tail.contains("all is lost\nall is lost\n") && tail.len() == 16 << 10, "{tail}");
    assert_peak_below(&facts, 30);
    check(&facts, "Request", "Signal(9)");
}

#[test]
fn a_flood_on_stderr_is_no_sign_of_life() {
    let session = start("say watch | flood-stderr", &["--silence-ms", "700"]);
    let facts = session.finish_within(Duration::from_secs(5));
    assert_peak_below(&facts, 30);
    check(&facts, "Silence", "Code(143)");
}

#[test]
fn a_flood_of_events_does_not_keep_the_deadline_from_coming() {
    // Whoever listens is slower than the agent, so there is always something to read.
    let flags = ["--deadline-ms", "1000", "--listen-slowly-ms", "5"];
    let session = start("flood-stdout", &flags);
    let facts = session.finish_within(Duration::from_secs(10));
    assert_peak_below(&facts, 30);
    check(&facts, "Deadline", "Code(143)");
}

// What a child reads and writes.

#[test]
fn a_line_of_100_megabytes_is_logged_and_passed_over() {
    let place = Go::new();
    let log = place.place.join("log");
    let session =
        start("say before | long-line 100 | say after", &["--log", log.to_str().unwrap()]);
    let facts = session.finish();
    assert_eq!(facts["answer"], "before\n\nafter");
    assert_eq!((&facts["long_lines"], &facts["logged"]), (&1.into(), &true.into()));
    assert_eq!(facts["trouble"], Value::Null, "{facts}");
    assert_peak_below(&facts, 64);
    let longest = BufReader::new(fs::File::open(&log).unwrap())
        .split(b'\n')
        .map(|line| line.unwrap())
        .max_by_key(Vec::len)
        .unwrap();
    let text: Value = serde_json::from_slice(&longest).unwrap();
    let text = text["message"]["content"][0]["text"].as_str().unwrap();
    assert!(text.len() == 100 << 20 && text.bytes().all(|byte| byte == b'x'));
}

#[test]
fn a_line_that_is_just_not_too_long_is_read() {
    let facts = start("long-line 15 | say after", &[]).finish();
    assert_eq!(facts["long_lines"], 0);
    assert_peak_below(&facts, 64);
}

#[test]
fn the_end_of_a_long_answer_is_what_counts() {
    let facts = start("say early | long-line 3 | done", &[]).finish();
    let answer = facts["answer"].as_str().unwrap();
    assert!(!answer.contains("early"), "{answer}");
}

#[test]
fn output_without_a_line_end_is_still_read() {
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#;
    let facts = start(&format!("half-line {result}"), &[]).finish();
    assert_eq!(facts["trouble"], Value::Null, "{facts}");
    let facts = start("say hm | half-line {\"type\":\"resu", &[]).finish();
    assert_eq!(facts["trouble"], "NoResult", "{facts}");
}

#[test]
fn nonsense_in_the_output_is_passed_over() {
    let script = "raw not json | raw {\"type\": | raw {} | raw [] | say fine | raw";
    let facts = start(script, &[]).finish();
    assert_eq!((&facts["answer"], &facts["trouble"]), (&"fine".into(), &Value::Null));
}

#[test]
fn a_prompt_of_5_megabytes_arrives_whole() {
    let place = Go::new();
    let prompt: String = (0..500_000).map(|number| format!("{number:09}\n")).collect();
    place.write("prompt", &prompt);
    let (prompt_file, copy) = (place.place.join("prompt"), place.place.join("copy"));
    let script = format!("save-stdin {} | say read", copy.display());
    let facts = start(&script, &["--prompt", prompt_file.to_str().unwrap()]).finish();
    assert_eq!(facts["trouble"], Value::Null, "{facts}");
    assert!(fs::read_to_string(copy).unwrap() == prompt, "it is the same");
}

#[test]
fn an_interrupted_agent_that_exits_with_0_and_says_nothing_was_not_successful() {
    let session = start("on-sigint exit0 | say ready | hang", &[]);
    session.wait_for("text ready");
    session.signal(Signal::INT);
    let facts = session.finish();
    assert_eq!(facts["trouble"], "NoResult", "{facts}");
    check(&facts, "Request", "Code(0)");
}

#[test]
fn the_environment_is_that_of_a_session_and_ralph_is_this_ralph() {
    let place = Go::new();
    place.write("ralph", "#!/bin/sh\necho this one\n");
    fs::set_permissions(place.place.join("ralph"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "expect-no-env CLAUDECODE | expect-no-env CLAUDE_CODE_ENTRYPOINT
        expect-env RALPH_TASK_ID t-000001
        expect-env RALPH_ATTEMPT_ID a-000001
        expect-env RALPH_ITERATION 1
        expect-env RALPH_MODEL opus
        expect-env RALPH_SOCKET /nowhere/ralph
        expect-env CLAUDE_CODE_DISABLE_BACKGROUND_TASKS 1
        expect-env KEPT yes
        expect-arg --output-format stream-json
        run ralph >\"$OUT\"";
    let out = place.place.join("out");
    let facts = start_with(|command| {
        command
            .env("FAKE_CLAUDE", script)
            .env("OUT", &out)
            .env("KEPT", "yes")
            .env("CLAUDECODE", "1")
            .env("CLAUDE_CODE_ENTRYPOINT", "cli")
            .arg("--ralph")
            .arg(&place.place);
    })
    .finish();
    assert_eq!((&facts["trouble"], &facts["stderr"]), (&Value::Null, &"".into()), "{facts}");
    assert_eq!(fs::read_to_string(out).unwrap(), "this one\n");
}

#[test]
fn text_is_told_soon_after_it_was_written() {
    let session = start(&"stamp | sleep 20 | ".repeat(25), &[]);
    let mut delays = Vec::new();
    while delays.len() < 25 {
        let line = session.wait_for("text stamp ");
        let written = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        delays.push(now - Duration::from_nanos(written));
    }
    delays.sort();
    let (median, worst) = (delays[12], delays[24]);
    assert!(median < Duration::from_millis(50), "median {median:?}, worst {worst:?}");
    session.finish();
}

// Programs that can't be started.

#[test]
fn a_program_that_is_not_there_is_named_with_a_way_to_get_it() {
    let session = start_program("no-such-program", "");
    let (status, lines, stderr) = session.end();
    assert_eq!((status.code(), lines.len()), (Some(1), 0));
    insta::assert_snapshot!(stderr, @"
    error: the agent `no-such-program` was not found
    hint: install Claude Code with `npm install -g @anthropic-ai/claude-code`, or name another program with --agent, RALPH_AGENT_COMMAND or agent.command
    ");
}

#[test]
fn a_program_that_can_t_be_run_says_why() {
    let place = Go::new();
    place.write("broken", "#!/no/such/interpreter\n");
    let broken = place.place.join("broken");
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let facts = start_program(broken.to_str().unwrap(), "").finish();
    assert_eq!(facts["trouble"], "NoResult", "{facts}");
    check(&facts, "Itself", "Code(127)");
    let said = facts["stderr"].as_str().unwrap().replace(broken.to_str().unwrap(), "[BROKEN]");
    insta::assert_snapshot!(said, @"can't start `[BROKEN]`: No such file or directory (os error 2)");
}

#[test]
fn a_prompt_that_is_not_there_is_named() {
    let facts = start("say hm", &["--prompt", "/no/such/prompt"]).finish();
    check(&facts, "Itself", "Code(127)");
    insta::assert_snapshot!(
        facts["stderr"].as_str().unwrap(),
        @"can't read `/no/such/prompt`: No such file or directory (os error 2)"
    );
}

#[test]
fn an_agent_that_dies_by_a_signal_is_said_to() {
    for (name, exit) in
        [("SIGSEGV", "Signal(11)"), ("SIGPIPE", "Signal(13)"), ("SIGHUP", "Signal(1)")]
    {
        let facts = start(&format!("say hm | kill {name}"), &[]).finish();
        check(&facts, "Itself", exit);
    }
}

// The stand-in itself.

#[test]
fn a_capture_is_replayed_as_it_was() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stream/b.ndjson");
    let place = Go::new();
    let log = place.place.join("log");
    let script = format!("replay {} timing", capture.display());
    let began = Instant::now();
    let facts = start(&script, &["--log", log.to_str().unwrap()]).finish();
    assert!(began.elapsed() > Duration::from_millis(400), "its pauses are kept");
    assert!(facts["answer"].as_str().unwrap().ends_with("<task-done>t-abc</task-done>"));
    assert_eq!((&facts["trouble"], &facts["cost"]), (&Value::Null, &0.00852.into()));
    assert!(fs::read(log).unwrap() == fs::read(capture).unwrap(), "it is logged as it is");
}

#[test]
fn scripts_are_taken_in_order_each_by_one_and_the_last_by_all_others() {
    let scripts = Go::new();
    for number in 1..=5 {
        scripts.write(&number.to_string(), format!("say script {number}"));
    }
    let play = || {
        let output = Command::new(FAKE_CLAUDE)
            .env_clear()
            .env("FAKE_CLAUDE_SCRIPTS", &scripts.place)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut said: Vec<String> = thread::scope(|scope| {
        let players: Vec<_> = (0..8).map(|_| scope.spawn(play)).collect();
        players.into_iter().map(|player| player.join().unwrap()).collect()
    });
    said.sort();
    let expected = [1, 2, 3, 4, 5, 5, 5, 5].map(|number| format!("script {number}\n"));
    assert_eq!(said, expected);
}

#[test]
fn a_script_that_makes_no_sense_is_refused() {
    for (script, complaint) in [
        ("say hm | dance", "fake-claude: `dance` is not a step\n"),
        ("tool Bash {", "fake-claude: `tool Bash {` is not a step\n"),
        ("orphan-twice", "fake-claude: `orphan-twice` is not a step\n"),
    ] {
        let mut command = Command::new(FAKE_CLAUDE);
        let command = command.env_clear().env("FAKE_CLAUDE", script).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(96));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), complaint);
    }
}

#[test]
fn the_stand_in_says_what_the_real_one_says() {
    let script = "think hm | say hello | tool Read {\"file_path\":\"a\"} | tool-error gone
        subagent mine | retry 529 2 | limit five_hour 1794798343 allowed_warning
        error 529 overloaded Too busy";
    let session = start(script, &[]);
    let (_, lines, _) = session.end();
    let told: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| *line != "alive").collect();
    let (facts, events) = told.split_last().unwrap();
    insta::assert_snapshot!(events.join("\n"), @r#"
    started opus
    thinking+ hm
    thinking hm
    text+ hello
    text hello
    tool Read {"file_path":"a"}
    tool error gone
    tool Agent {"description":"sub","prompt":"look","subagent_type":"general-purpose"}
    subagent text mine
    tool ended
    Retrying { attempt: 2, max: 10, delay: 560ms, status: Some(529) }
    RateLimit(RateLimit { status: Warning, window: Some("five_hour"), resets_at: Some(1794798343) })
    Refused { kind: "overloaded", detail: "", status: Some(529) }
    text Too busy
    finished success
    "#);
    assert!(facts.contains("\"trouble\":\"Overloaded\""), "{facts}");
}

// The tools of these tests.

/// A running session, ended with all that belongs to it when the test is over.
struct Running {
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    marker: String,
    _place: TempDir,
}

/// Starts a session with a script.
fn start(script: &str, flags: &[&str]) -> Running {
    start_with(|command| {
        command.env("FAKE_CLAUDE", script).args(flags);
    })
}

fn start_with(prepare: impl FnOnce(&mut Command)) -> Running {
    launch(FAKE_CLAUDE, prepare)
}

fn start_program(program: &str, script: &str) -> Running {
    launch(program, |command| {
        command.env("FAKE_CLAUDE", script);
    })
}

fn launch(program: &str, prepare: impl FnOnce(&mut Command)) -> Running {
    let place = TempDir::with_prefix("ralph-session-").unwrap();
    let marker = place.path().display().to_string();
    let mut command = Command::new(SESSION);
    command
        .current_dir(place.path())
        .env_clear()
        .env("HOME", place.path())
        .env("TMPDIR", place.path())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env(MARKER, &marker)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.arg(program).spawn().unwrap();
    let (tell, lines) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut err = child.stderr.take().unwrap();
    thread::spawn(move || {
        for line in out.lines() {
            if tell.send(line.unwrap()).is_err() {
                break;
            }
        }
    });
    let stderr = thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    Running { child, lines, stderr: Some(stderr), marker, _place: place }
}

impl Running {
    /// Waits until the agent is ready and its orphan is there.
    #[track_caller]
    fn ready(&self) {
        self.wait_for("text ready");
        let orphan = || alive(&self.marker).into_iter().find(|(_, name)| name == "sleep");
        within(DEADLINE, orphan).expect("there is an orphan");
    }

    /// The next line that contains this.
    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        let mut seen = Vec::new();
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.lines.recv_timeout(left(deadline)) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no {text:?} in {seen:#?}"),
            }
        }
    }

    fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    #[track_caller]
    fn supervisor(&self) -> i32 {
        let children = children_of(self.pid());
        assert_eq!(children.len(), 1, "{children:?}");
        children[0]
    }

    /// Waits for the end, asserts that nothing is left, and returns what came of the session.
    #[track_caller]
    fn finish(self) -> Value {
        self.finish_within(DEADLINE)
    }

    #[track_caller]
    fn finish_within(self, time: Duration) -> Value {
        let began = Instant::now();
        let (status, lines, stderr) = self.end();
        let took = began.elapsed();
        assert!(status.success(), "{status} {stderr}");
        assert!(took < time, "it took {took:?}: {lines:#?}");
        let facts: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        assert_eq!(
            (&facts["threads_left"], &facts["children_left"]),
            (&0.into(), &0.into()),
            "{facts}"
        );
        facts
    }

    /// Waits for the end, and asserts that nothing is left.
    #[track_caller]
    fn end(mut self) -> (ExitStatus, Vec<String>, String) {
        let deadline = Instant::now() + DEADLINE;
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(left(deadline)) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {lines:#?}"),
            }
        }
        let status = within(left(deadline), || self.child.try_wait().unwrap());
        let status = status.expect("it closed its output and does not end");
        assert_nothing_left(&self.marker);
        let stderr = self.stderr.take().unwrap().join().unwrap();
        (status, lines, stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        ralph::agent::end_marked(MARKER, std::slice::from_ref(&self.marker));
    }
}

/// A directory, and a file in it that a script waits for.
struct Go {
    place: PathBuf,
    _directory: TempDir,
}

impl Go {
    fn new() -> Go {
        let directory = TempDir::with_prefix("ralph-go-").unwrap();
        Go { place: directory.path().to_owned(), _directory: directory }
    }

    fn file(&self) -> PathBuf {
        self.place.join("go")
    }

    fn now(&self) {
        fs::write(self.file(), "").unwrap();
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.place.join(name), content).unwrap();
    }
}

impl std::fmt::Display for Go {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file().display())
    }
}

/// Checks this with every kind of orphan, at the same time.
fn for_every_orphan(check: impl Fn(&str) + Sync) {
    thread::scope(|scope| {
        for orphan in ORPHANS {
            let check = &check;
            let name = orphan.to_owned();
            thread::Builder::new().name(name).spawn_scoped(scope, move || check(orphan)).unwrap();
        }
    });
}

#[track_caller]
fn check(facts: &Value, ended_by: &str, exit: &str) {
    assert_eq!((&facts["ended_by"], &facts["exit"]), (&ended_by.into(), &exit.into()), "{facts}");
}

#[track_caller]
fn assert_peak_below(facts: &Value, megabytes: u64) {
    let peak = facts["peak_kb"].as_u64().unwrap();
    assert!(peak > 0 && peak < megabytes << 10, "{peak} kB");
}

/// Asserts that soon no process has this marker.
#[track_caller]
fn assert_nothing_left(marker: &str) {
    // Twice, because a process has no environment in the moment in which it becomes another program.
    let nothing = || (alive(marker).is_empty() && alive(marker).is_empty()).then_some(());
    within(AFTERMATH, nothing).unwrap_or_else(|| panic!("left: {:?}", alive(marker)));
}

/// The living processes with this marker, and their names.
fn alive(marker: &str) -> Vec<(i32, String)> {
    let entry = format!("{MARKER}={marker}").into_bytes();
    let is_marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|it| it == entry)
    };
    pids().filter(is_marked).map(|pid| (pid, name_of(pid))).collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn children_of(parent: i32) -> Vec<i32> {
    pids().filter(|&pid| stat(pid).is_some_and(|(_, of)| of == parent)).collect()
}

/// The state and the parent of a process.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn name_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[track_caller]
fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn within<T>(time: Duration, ask: impl FnMut() -> Option<T>) -> Option<T> {
    wait_until(Instant::now() + time, ask)
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
