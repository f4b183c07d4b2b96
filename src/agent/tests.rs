//! The parser and the facts on what the real program has printed, and on nonsense.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::dag::{Bill, Billing, Tokens};
use crate::event::{AgentEvent, Speaker};

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stream");
    fs::read(path.join(format!("{name}.ndjson"))).unwrap()
}

fn fixtures() -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stream");
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn facts(name: &str) -> Facts {
    let (mut parser, mut observer) = (Parser::new(), Observer::new());
    for line in fixture(name).split(|&byte| byte == b'\n') {
        parser.parse(line, &mut |event| observer.observe(&event));
    }
    observer.into_facts(Some(Exit::Code(0)))
}

#[test]
fn how_a_process_ended_is_told_only_if_it_ended_by_itself() {
    let why = |ended_by, trouble| {
        let facts =
            Facts { exit: Some(Exit::Code(143)), trouble: Some(trouble), ..Facts::default() };
        let stderr = String::new();
        Report { facts, ended_by, stderr, long_lines: 0, logged: true }.why_failed()
    };
    assert_eq!(why(EndedBy::Itself, Trouble::NoResult), " (exit code 143)");
    assert_eq!(why(EndedBy::Itself, Trouble::MaxTokens), "", "the API has said why");
    for ended_by in [EndedBy::Silence, EndedBy::Rejected, EndedBy::Lingering] {
        assert_eq!(why(ended_by, Trouble::Error("it asked".into())), "", "{ended_by:?}");
    }
}

/// A line for each event that a person would be shown.
fn story(name: &str) -> String {
    story_of(&fixture(name))
}

fn story_of(stream: &[u8]) -> String {
    let mut parser = Parser::new();
    let mut story = String::new();
    for line in stream.split(|&byte| byte == b'\n') {
        parser.parse(line, &mut |event| {
            let who = |from: Speaker| if from == Speaker::Subagent { "sub " } else { "" };
            let _ = match event {
                AgentEvent::Started(started) => writeln!(story, "started {}", started.model),
                AgentEvent::TextDelta { from, text } => {
                    writeln!(story, "{}text+ {text:?}", who(from))
                }
                AgentEvent::Text { from, text, seen, .. } => {
                    writeln!(story, "{}text {text:?} seen {seen}", who(from))
                }
                AgentEvent::ThinkingDelta { from, text } => {
                    writeln!(story, "{}thinking+ {text:?}", who(from))
                }
                AgentEvent::Thinking { from, text, seen } => {
                    writeln!(story, "{}thinking {text:?} seen {seen}", who(from))
                }
                AgentEvent::ToolCall { from, name, input, .. } => {
                    writeln!(story, "{}tool {name} {input}", who(from))
                }
                AgentEvent::ToolResult { from, error, .. } => {
                    writeln!(story, "{}tool ended, error {error:?}", who(from))
                }
                AgentEvent::Finished(finished) => {
                    let new = finished.unsaid().map_or("", |_| " not said before");
                    writeln!(story, "finished {} {:?}{new}", finished.subtype, finished.text)
                }
                AgentEvent::Used(_)
                | AgentEvent::Alive
                | AgentEvent::Asking
                | AgentEvent::Answered => Ok(()),
                AgentEvent::Declined { why } => writeln!(story, "declined {why:?}"),
                other => writeln!(story, "{other:?}"),
            };
        });
    }
    story
}

#[test]
fn every_event_the_real_program_prints_is_known() {
    for name in fixtures() {
        let mut parser = Parser::new();
        for line in fixture(&name).split(|&byte| byte == b'\n') {
            let mut unknown = None;
            let parsed = parser.parse(line, &mut |event| {
                if let AgentEvent::Unknown { kind } = event {
                    unknown = Some(kind.into_owned());
                }
            });
            assert_eq!(unknown, None, "{name}");
            assert_eq!(parsed, line.starts_with(b"{"), "{name}: {}", String::from_utf8_lossy(line));
        }
    }
}

#[test]
fn a_session_with_partial_messages_is_told_once() {
    insta::assert_snapshot!(story("b"), @r#"
    started claude-opus-5-5
    thinking+ "The user wants Y. I will"
    thinking+ " run a command and write"
    thinking+ " a file."
    thinking "The user wants Y. I will run a command and write a file." seen 56
    text+ "I'll start by running a "
    text+ "command."
    text "I'll start by running a command." seen 32
    tool Bash {"command":"echo hello-from-bash; pwd","description":"Say hello"}
    tool ended, error None
    text+ "Now I write a file."
    text "Now I write a file." seen 19
    tool Write {"file_path":"/home/dev/my-project/out.txt","content":"line one\nline two\n"}
    tool ended, error None
    tool Read {"file_path":"/home/dev/my-project/out.txt"}
    tool ended, error None
    text+ "All done.\n\n<task-done>t-"
    text+ "abc</task-done>"
    text "All done.\n\n<task-done>t-abc</task-done>" seen 39
    finished success Some("All done.\n\n<task-done>t-abc</task-done>")
    "#);
}

#[test]
fn a_version_that_names_a_message_only_at_its_start_is_told_once() {
    let stream = String::from_utf8(fixture("b")).unwrap();
    let older = stream.replace("api_message_id", "since_2_1_300");
    assert_ne!(older, stream);
    assert_eq!(story_of(older.as_bytes()), story("b"));
}

#[test]
fn pieces_and_blocks_are_matched_by_whatever_names_their_message() {
    const BLOCK: &str =
        r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"half"}]}}"#;
    let start = |id: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"message_start","message":{{{id}}}}}}}"#
        )
    };
    let piece = |name: &str| {
        format!(
            r#"{{"type":"stream_event"{name},"event":{{"delta":{{"type":"text_delta","text":"half"}}}}}}"#
        )
    };
    for (lines, seen) in [
        (vec![piece(r#","api_message_id":"m1""#)], 4),
        (vec![piece(r#","api_message_id":"m0""#)], 0),
        (vec![start(r#""id":"m1""#), piece("")], 4),
        (vec![start(r#""id":"m0""#), piece("")], 0),
        (vec![start(r#""id":"m0""#), piece(""), start(r#""id":"m1""#), piece("")], 4),
        (vec![start(r#""id":"m0""#), piece(""), start(r#""id":"m1""#)], 0),
        (vec![start(""), piece("")], 4),
        (vec![piece("")], 4),
        (vec![], 0),
    ] {
        let stream = format!("{}\n{BLOCK}", lines.join("\n"));
        let story = story_of(stream.as_bytes());
        assert!(story.ends_with(&format!("text \"half\" seen {seen}\n")), "{stream}\n{story}");
    }
}

#[test]
fn a_result_without_a_subtype_is_a_success_unless_it_is_an_error() {
    for (line, trouble) in [
        (r#"{"type":"result","result":"final"}"#, None),
        (r#"{"type":"result","result":"final","is_error":false}"#, None),
        (
            r#"{"type":"result","result":"final","is_error":true}"#,
            Some(Trouble::Error("final".into())),
        ),
        (
            r#"{"type":"result","result":"final","subtype":"error_during_execution"}"#,
            Some(Trouble::Error("final".into())),
        ),
    ] {
        let mut observer = Observer::new();
        assert!(Parser::new().parse(line.as_bytes(), &mut |event| observer.observe(&event)));
        let facts = observer.into_facts(None);
        assert_eq!(facts.trouble, trouble, "{line}");
        assert_eq!(facts.result.as_deref(), Some("final"), "{line}");
        // What is said in an error counts for nothing.
        let said = if facts.trouble.is_none() { "final" } else { "" };
        assert_eq!((&*facts.answer, &*facts.last_message), (said, said), "{line}");
    }
}

#[test]
fn a_result_tells_whether_its_text_was_said_before() {
    const SAID: &str =
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"final\n"}]}}"#;
    const SUBAGENT: &str = r#"{"type":"assistant","parent_tool_use_id":"t","message":{"content":[{"type":"text","text":"final"}]}}"#;
    const PIECE: &str =
        r#"{"type":"stream_event","event":{"delta":{"type":"text_delta","text":"final"}}}"#;
    let result = |more: &str| format!(r#"{{"type":"result","result":"final"{more}}}"#);
    for (before, more, is_new) in [
        ("", "", true),
        (SAID, "", false),
        (PIECE, "", false),
        (SUBAGENT, "", true),
        (&SAID.replace("final", "other"), "", true),
        ("", r#","is_error":true"#, false),
        ("", r#","subtype":"error_max_turns""#, false),
    ] {
        let stream = format!("{before}\n{}", result(more));
        let story = story_of(stream.as_bytes());
        assert_eq!(story.ends_with(" not said before\n"), is_new, "{stream}\n{story}");
    }
}

#[test]
fn a_subagent_is_marked_and_its_words_are_not_the_answer() {
    insta::assert_snapshot!(story("subagent_fwd"), @r#"
    started claude-opus-5-5
    tool Agent {"description":"sub","prompt":"SUBPROMPT do it","subagent_type":"general-purpose","run_in_background":false}
    sub tool Bash {"command":"echo from-subagent","description":"run"}
    sub tool ended, error None
    sub text "subagent says <task-done>t-sub</task-done>" seen 0
    tool ended, error None
    text "main done <task-done>t-main</task-done>" seen 0
    finished success Some("main done <task-done>t-main</task-done>")
    "#);
    for name in ["subagent", "subagent_fwd"] {
        assert_eq!(facts(name).answer, "main done <task-done>t-main</task-done>");
    }
}

#[test]
fn every_kind_of_trouble_is_recognised() {
    let limit = |window: &str, resets_at| Trouble::UsageLimit {
        window: Some(window.to_owned()),
        resets_at: Some(resets_at),
    };
    for (name, expected) in [
        ("a", None),
        ("b", None),
        ("c_max_turns", Some(Trouble::MaxTurns)),
        ("c_max_budget", Some(Trouble::Budget)),
        ("err_400_credit", Some(Trouble::NoCredit)),
        ("err_401", Some(Trouble::NoResult)),
        ("err_403", Some(Trouble::Authentication)),
        ("err_404", Some(Trouble::ModelNotFound("claude-opus-5-5".into()))),
        ("err_429", Some(Trouble::RateLimited)),
        ("err_429_retry_after_3600", Some(Trouble::RateLimited)),
        ("err_429_retry_after_5", None),
        ("err_500", Some(Trouble::Server(500))),
        ("err_529", Some(Trouble::Overloaded)),
        ("err_529_then_ok", None),
        ("err_hang", Some(Trouble::NoResult)),
        ("f_sigint_api_hang", Some(Trouble::Aborted)),
        ("f_sigint_tool", Some(Trouble::NoResult)),
        ("limit_allowed", None),
        ("limit_warning", None),
        ("limit_rejected_5h", Some(limit("five_hour", 1_794_798_343))),
        ("limit_rejected_7d", Some(limit("seven_day", 1_795_131_909))),
        ("limit_rejected_midrun", Some(limit("five_hour", 1_794_798_343))),
        ("limit_rejected_5h_apikey", Some(Trouble::RateLimited)),
    ] {
        assert_eq!(facts(name).trouble, expected, "{name}");
    }
}

#[test]
fn trouble_that_others_have_words_for_keeps_them() {
    for (name, expected) in [
        ("c_refusal", "the model refused: no\nOpus 5.5's safeguards flagged this message (https"),
        (
            "err_400",
            "the prompt is too long for the model: Prompt is too long · the request is ~25",
        ),
        (
            "err_413",
            "the API did not accept the request: Request too large (max 32MB). Accumulated",
        ),
        ("err_drop_retries1", "the API could not be reached: Connection dropped (ECONNRESET)"),
        ("err_hang_timeout4s_retries1", "the API could not be reached: Request timed out"),
        ("err_refused", "the API could not be reached: Connection refused — a firewall or proxy"),
    ] {
        let told = facts(name).trouble.unwrap().to_string();
        assert!(told.starts_with(expected), "{name}: {told}");
    }
}

/// What is known of a session that ends like this after these lines of a capture.
fn ended_after(name: &str, lines: usize, ended_by: EndedBy) -> Option<Trouble> {
    let (mut parser, mut observer) = (Parser::new(), Observer::new());
    for line in fixture(name).split(|&byte| byte == b'\n').take(lines) {
        parser.parse(line, &mut |event| observer.observe(&event));
    }
    observer.end(ended_by);
    observer.into_facts(None).trouble
}

#[test]
fn silence_is_that_of_the_api_while_it_is_asked_or_answers() {
    // The first answer of this session goes from line 2 to line 26; then a tool runs.
    let during = [2, 3, 4, 12, 13, 17, 25];
    for lines in 1..=27 {
        let trouble = ended_after("b", lines, EndedBy::Silence);
        let expected = match lines {
            1 | 26 | 27 => Trouble::NoResult,
            _ => Trouble::Unanswered,
        };
        assert_eq!(trouble, Some(expected), "{lines}");
    }
    for lines in during {
        let trouble = ended_after("b", lines, EndedBy::Itself);
        assert_eq!(trouble, Some(Trouble::NoResult), "{lines}");
    }
    assert_eq!(ended_after("err_hang", usize::MAX, EndedBy::Silence), Some(Trouble::Unanswered));
}

#[test]
fn a_key_that_is_not_accepted_is_known_before_the_program_gives_up() {
    for ended_by in [EndedBy::Rejected, EndedBy::Itself] {
        let trouble = ended_after("err_401", usize::MAX, ended_by);
        assert_eq!(trouble, Some(Trouble::Authentication), "{ended_by:?}");
    }
    let retries = |source: &str, retries: usize| {
        let (mut parser, mut observer) = (Parser::new(), Observer::new());
        let init = format!(r#"{{"type":"system","subtype":"init","apiKeySource":"{source}"}}"#);
        let retry = r#"{"type":"system","subtype":"api_retry","error_status":401}"#.to_owned();
        for line in [init].into_iter().chain(vec![retry; retries]) {
            parser.parse(line.as_bytes(), &mut |event| observer.observe(&event));
        }
        observer.is_rejected()
    };
    assert_eq!([0, 1, 2].map(|it| retries("ANTHROPIC_API_KEY", it)), [false, true, true]);
    // A login is renewed where it has expired.
    assert_eq!([0, 1, 2].map(|it| retries("none", it)), [false, false, true]);
}

#[test]
fn the_facts_of_a_session_are_those_of_its_result() {
    let facts = facts("a");
    assert_eq!(facts.session.as_deref(), Some("2d4b1365-e7e8-439c-aef4-36c518e6f127"));
    assert_eq!(facts.model.as_deref(), Some("claude-opus-5-5"));
    assert_eq!((facts.turns, facts.denials), (4, 0));
    let tokens = Tokens { input: 1500, cache_read: 900, cache_write: 0, output: 117 };
    let expected = Bill { cost_usd: 0.00852, tokens, billing: Some(Billing::Api) };
    assert_eq!(facts.bill, expected);
    assert_eq!(self::facts("c_denied").denials, 2);
}

#[test]
fn a_sigil_in_an_earlier_block_is_in_the_answer_though_not_in_the_result() {
    let facts = facts("c_sigil_mid");
    assert!(facts.answer.contains("<task-done>"), "{}", facts.answer);
    assert_eq!(facts.result.as_deref(), Some("Closing remark only."));
    assert_eq!(facts.last_message, "Closing remark only.");
}

#[test]
fn the_second_result_of_a_session_counts_and_its_cost_is_not_added_twice() {
    let facts = facts("bg_8s");
    assert_eq!(facts.result.as_deref(), Some("final answer 2"));
    assert_eq!(
        facts.last_message, "final answer 2",
        "what came after the first result is a turn of its own"
    );
    assert_eq!(facts.turns, 3);
    let tokens = Tokens { input: 300, output: 60, ..Tokens::default() };
    assert_eq!((facts.bill.cost_usd, facts.bill.tokens), (0.0024, tokens));
}

#[test]
fn what_subagents_use_is_counted() {
    for name in ["subagent", "subagent_fwd"] {
        let bill = facts(name).bill;
        let tokens = Tokens { input: 400, output: 80, ..Tokens::default() };
        assert_eq!((bill.cost_usd, bill.tokens), (0.0032, tokens), "{name}");
    }
}

#[test]
fn a_session_without_a_result_has_used_what_the_stream_said() {
    for (name, cost_usd, input, output) in [
        ("f_sigterm_tool", 0.00042, 100, 1),
        ("f_sigint_tool", 0.00042, 100, 1),
        // Its result leaves out the message that was cut off.
        ("f_sigint_streaming", 0.00042, 100, 1),
        ("err_hang_mid", 0.00168, 400, 4),
    ] {
        let bill = facts(name).bill;
        let tokens = Tokens { input, output, ..Tokens::default() };
        assert_eq!((bill.cost_usd, bill.tokens), (cost_usd, tokens), "{name}");
    }
    // With all its pieces, but without its result.
    let (mut parser, mut observer) = (Parser::new(), Observer::new());
    for line in fixture("b").split(|&byte| byte == b'\n') {
        if !String::from_utf8_lossy(line).contains("total_cost_usd") {
            parser.parse(line, &mut |event| observer.observe(&event));
        }
    }
    assert_eq!(observer.into_facts(None).bill, facts("b").bill);
}

#[test]
fn a_login_is_told_from_a_key() {
    assert_eq!(facts("limit_allowed").bill.billing, Some(Billing::Subscription));
    assert_eq!(facts("a").bill.billing, Some(Billing::Api));
}

#[test]
fn what_is_no_json_object_is_nothing() {
    let mut parser = Parser::new();
    for line in
        ["", " ", "Warning: no stdin", "[1]", "{", "{\"type\":", "null", "{\"a\":1}}", "\0{}"]
    {
        let mut events = 0;
        assert!(!parser.parse(line.as_bytes(), &mut |_| events += 1), "{line:?}");
        assert_eq!(events, 0);
    }
}

#[test]
fn json_that_is_nested_without_end_is_nothing_and_takes_no_stack() {
    let mut parser = Parser::new();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let inner = format!("{}1{}", open.repeat(1_000_000), close.repeat(1_000_000));
        for line in [
            format!("{{\"type\":\"x\",\"y\":{inner}}}"),
            format!("{{\"type\":\"assistant\",\"message\":{{\"content\":{inner}}}}}"),
            format!(
                "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"tool_use\",\"input\":{inner}}}]}}}}"
            ),
        ] {
            parser.parse(line.as_bytes(), &mut |_| ());
        }
    }
}

#[test]
fn a_broken_character_does_not_cost_the_line() {
    let mut text = String::new();
    let line = b"{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\xffb\"}]}}";
    let parsed = Parser::new().parse(line, &mut |event| {
        if let AgentEvent::Text { text: said, .. } = event {
            text = said.into_owned();
        }
    });
    assert!(parsed);
    assert_eq!(text, "a\u{fffd}b");
}

#[test]
fn half_of_an_emoji_does_not_cost_the_line() {
    for (json, expected) in [
        (r"done \ud83d", "done \u{fffd}"),
        (r"\ude00 \ud83d\ude00", "\u{fffd} 😀"),
        (r"\ud83d\ud83d\ude00 \\ud83d é", "\u{fffd}😀 \\ud83d é"),
        (r"\n\ud83dé", "\n\u{fffd}é"),
    ] {
        let line = format!("{{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"{json}\"}}");
        let (mut parser, mut observer) = (Parser::new(), Observer::new());
        assert!(parser.parse(line.as_bytes(), &mut |event| observer.observe(&event)), "{json}");
        let facts = observer.into_facts(None);
        assert_eq!((facts.result.as_deref(), facts.trouble), (Some(expected), None));
    }
}

#[test]
fn a_number_that_nothing_can_hold_does_not_cost_the_line() {
    let line = r#"{"type":"result","subtype":"success","duration_ms":1e999,"num_turns":-1e999,
        "usage":{"input_tokens":1e400},"model":1e999,"total_cost_usd":0.5,"result":"1e999 \" 1e999"}"#;
    let mut observer = Observer::new();
    assert!(Parser::new().parse(line.as_bytes(), &mut |event| observer.observe(&event)));
    let facts = observer.into_facts(None);
    assert_eq!((facts.trouble, facts.bill.cost_usd, facts.turns), (None, 0.5, 0));
    assert_eq!(facts.result.as_deref(), Some("1e999 \" 1e999"));
}

#[test]
fn an_odd_block_does_not_cost_its_neighbours() {
    for odd in ["null", "1", "\"text\"", "[]", "{\"type\": 7}"] {
        let line = format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{odd},{{\"type\":\"text\",\"text\":\"said\"}}]}}}}"
        );
        let (mut parser, mut observer) = (Parser::new(), Observer::new());
        parser.parse(line.as_bytes(), &mut |event| observer.observe(&event));
        assert_eq!(observer.into_facts(None).answer, "said", "{odd}");
    }
}

#[test]
fn an_answer_without_end_is_kept_from_its_end() {
    let mut observer = Observer::new();
    let text = "é".repeat(100_000);
    for _ in 0..50 {
        observer.observe(&AgentEvent::Text {
            from: Speaker::Agent,
            text: text.as_str().into(),
            seen: 0,
            model: "".into(),
        });
    }
    let last = AgentEvent::Text {
        from: Speaker::Agent,
        text: "<task-done>t-1</task-done>".into(),
        seen: 0,
        model: "".into(),
    };
    observer.observe(&last);
    let facts = observer.into_facts(None);
    assert!(facts.answer.len() < 3 << 20);
    assert!(facts.answer.ends_with("<task-done>t-1</task-done>"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..8)) {
        let (mut parser, mut observer) = (Parser::new(), Observer::new());
        for line in lines {
            parser.parse(&line, &mut |event| observer.observe(&event));
        }
    }

    #[test]
    fn a_real_line_that_is_damaged_does_not_make_it_panic(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let stream = fixture("b");
        let lines: Vec<&[u8]> = stream.split(|&byte| byte == b'\n').collect();
        let mut line = which.get(&lines).to_vec();
        if !line.is_empty() {
            let at = at.index(line.len());
            line[at] = byte;
            if cut {
                line.truncate(at);
            }
        }
        let (mut parser, mut observer) = (Parser::new(), Observer::new());
        parser.parse(&line, &mut |event| observer.observe(&event));
    }
}

#[test]
fn the_last_message_is_what_the_agent_itself_says_after_its_last_tool_call() {
    for (name, expected) in [
        ("c_sigil_mid", "Closing remark only."),
        ("c_two_text_blocks", "Block one <task-done>t-1</task-done>\n\nBlock two"),
        ("bg_8s", "final answer 2"),
        ("subagent_fwd", "main done <task-done>t-main</task-done>"),
    ] {
        assert_eq!(facts(name).last_message, expected, "{name}");
    }
}
