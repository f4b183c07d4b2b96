//! What the real program has printed, as a person sees it.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ralph::agent::Parser;
use ralph::event::{AgentEvent, Speaker};
use ralph::ui::Terminal;
use ralph::ui::session::SessionView;

fn fixture(name: &str) -> Vec<u8> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stream");
    std::fs::read(directory.join(format!("{name}.ndjson"))).unwrap()
}

fn shown(name: &str, terminal: Terminal) -> String {
    let (mut out, mut parser) = (Vec::new(), Parser::new());
    let mut view = SessionView::new(terminal, Path::new("/home/dev/my-project"));
    for line in fixture(name).split(|&byte| byte == b'\n') {
        parser.parse(line, &mut |event| view.show(&mut out, &event).unwrap());
    }
    view.close(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const PIPE: Terminal = Terminal { width: None, colour: false };
const NARROW: Terminal = Terminal { width: Some(60), colour: false };

#[test]
fn a_session_reads_like_a_story_and_nothing_is_told_twice() {
    insta::assert_snapshot!(shown("b", PIPE), @"
    claude-opus-5-5
    │ The user wants Y. I will run a command and write a file.
    I'll start by running a command.
    -> Bash(echo hello-from-bash; pwd)
    Now I write a file.
    -> Write(out.txt)
    -> Read(out.txt)
    All done.

    <task-done>t-abc</task-done>
    ✓ 1.0 s  $0.0085  4 turns
    ");
}

#[test]
fn with_and_without_partial_messages_a_session_looks_the_same() {
    let without_figures = |name| {
        let shown = shown(name, PIPE);
        shown.lines().filter(|line| !line.starts_with('✓')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_figures("a"), without_figures("b"));
}

#[test]
fn colours_follow_the_table() {
    insta::assert_snapshot!(shown("b", Terminal { width: Some(80), colour: true }).escape_debug().to_string().replace("\\n", "\n"), @r"
    \u{1b}[35mclaude-opus-5-5\u{1b}[0m
    \u{1b}[2m│ \u{1b}[0m\u{1b}[2mThe user wants Y. I\u{1b}[0m\u{1b}[2m will run a command and\u{1b}[0m\u{1b}[2m write a\u{1b}[0m\u{1b}[2m file.\u{1b}[0m
    I\'ll start by running a command.
    \u{1b}[36m-> \u{1b}[0m\u{1b}[36mBash\u{1b}[0m(\u{1b}[2mecho hello-from-bash; pwd\u{1b}[0m)
    Now I write a file.
    \u{1b}[36m-> \u{1b}[0m\u{1b}[36mWrite\u{1b}[0m(\u{1b}[2mout.txt\u{1b}[0m)
    \u{1b}[36m-> \u{1b}[0m\u{1b}[36mRead\u{1b}[0m(\u{1b}[2mout.txt\u{1b}[0m)
    All done.

    <task-done>t-abc</task-done>
    \u{1b}[32m✓\u{1b}[0m\u{1b}[2m 1.0 s  $0.0085  4 turns\u{1b}[0m
    ");
}

#[test]
fn no_colour_is_that_of_a_light_or_a_dark_background() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stream");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        let shown = shown(&name, Terminal { width: Some(80), colour: true });
        for colour in ["30", "37", "90", "97"] {
            assert!(!shown.contains(&format!("\x1b[{colour}m")), "{name}: {shown:?}");
        }
    }
}

#[test]
fn the_text_of_a_result_that_nothing_else_said_is_shown() {
    let shown = |said: &str| {
        let (mut out, mut parser) = (Vec::new(), Parser::new());
        let mut view = SessionView::new(PIPE, Path::new("/"));
        for line in [said, r#"{"type":"result","result":"final output text"}"#] {
            parser.parse(line.as_bytes(), &mut |event| view.show(&mut out, &event).unwrap());
        }
        String::from_utf8(out).unwrap()
    };
    let expected = "final output text\n✓ 0.0 s  $0.0000  0 turns\n";
    assert_eq!(shown(""), expected);
    let block = r#"{"type":"assistant","message":{"content":"final output text"}}"#;
    assert_eq!(shown(block), expected);
}

#[test]
fn errors_of_tools_are_shown_in_part_and_without_tags() {
    insta::assert_snapshot!(shown("c_tool_errors", NARROW), @"
    claude-opus-5-5
    -> Bash(echo out; echo err >&2; exit 3)
       Exit code 3
       out
       err
    -> Read(/nonexistent/file)
       File does not exist. Note: your current working director…
    -> NoSuchTool()
       Error: No such tool available: NoSuchTool
    -> Write()
       InputValidationError: Write failed due to the following…
       The required parameter `content` is missing
       The parameter `file_path` type is expected as `string` b…
    -> Bash(echo p1)
    -> Bash(echo p2)
    after errors
    ✓ 1.1 s  $0.0048  7 turns
    ");
}

#[test]
fn a_subagent_stands_behind_a_bar_of_its_own() {
    insta::assert_snapshot!(shown("subagent_fwd", PIPE), @"
    claude-opus-5-5
    -> Agent(sub)
    ┆ -> Bash(echo from-subagent)
    ┆ subagent says <task-done>t-sub</task-done>
    main done <task-done>t-main</task-done>
    ✓ 0.4 s  $0.0032  2 turns
    ");
}

#[test]
fn a_usage_limit_says_until_when() {
    let resets = ralph::time::Timestamp::from_epoch(1_794_798_343).unwrap().to_the_second();
    let shown = shown("limit_rejected_5h", NARROW).replace(&resets, "2026-11-16 03:05:43");
    insta::assert_snapshot!(shown, @"
    claude-sonnet-5-5
    ! the usage limit is reached until 2026-11-16 03:05:43 (fiv…
    You've hit your 5-hour limit · resets 3:05am (UTC)
    ✗ API error 429  0.2 s  ≈ $0.0000 at API prices  1 turn
    ");
}

#[test]
fn retries_and_refusals_are_told() {
    insta::assert_snapshot!(shown("err_529_retries1", NARROW), @"
    claude-opus-5-5
    ! API error 529, trying again in 0.6 s (1 of 1)
    API Error: 529 Overloaded. This is a server-side issue,
    usually temporary — try again in a moment. If it persists,
    check your inference gateway (127.0.0.1:41143).
    ✗ API error 529  2.1 s  $0.0000  1 turn
    ");
    insta::assert_snapshot!(shown("c_denied", NARROW), @"
    claude-opus-5-5
    -> Bash(touch /home/dev/tmp-dir-1/denied)
    ! not allowed: Bash
       touch in '/home/dev/tmp-dir-1/denied' needs approval. Th…
    -> Write(a.txt)
    ! not allowed: Write
       Claude requested permissions to write to /home/dev/tmp-d…
    after denial
    ✓ 0.6 s  $0.0024  3 turns
    ");
    insta::assert_snapshot!(shown("c_max_turns", NARROW), @"
    claude-opus-5-5
    -> Bash(echo 1)
    -> Bash(echo 2)
    ✗ the limit on turns was reached  0.8 s  $0.0016  3 turns
    ");
    insta::assert_snapshot!(shown("f_sigint_streaming", NARROW), @"
    claude-opus-5-5
    word word word word word word word word word word word word
    word word word word word word word word word word word word
    word word word word word word word word word word word word
    ✗ it was interrupted  2.3 s  $0.0000  2 turns
    ");
}

#[test]
fn a_tool_error_of_nothing_but_tags_takes_no_time() {
    // Were each tag to look at all the others, this would take hours.
    let error = "<a".repeat(1_000_000);
    let (mut out, mut view) = (Vec::new(), SessionView::new(NARROW, Path::new("/")));
    let error = Some(error.as_str().into());
    let event = AgentEvent::ToolResult { from: Speaker::Agent, id: "".into(), error };
    let began = std::time::Instant::now();
    view.show(&mut out, &event).unwrap();
    assert!(began.elapsed() < crate::harness::DEADLINE, "{:?}", began.elapsed());
}

proptest! {
    #[test]
    fn nothing_an_agent_says_reaches_the_terminal_raw(texts in prop::collection::vec(".{0,20}|[\u{0}-\u{1f}\u{7f}-\u{9f}a]{0,8}", 1..8)) {
        let mut out = Vec::new();
        let mut view = SessionView::new(NARROW, Path::new("/"));
        for text in &texts {
            let from = Speaker::Agent;
            let text = || text.as_str().into();
            for event in [
                AgentEvent::TextDelta { from, text: text() },
                AgentEvent::ThinkingDelta { from: Speaker::Subagent, text: text() },
                AgentEvent::Text { from, text: text(), seen: 0, model: text() },
                AgentEvent::ToolCall { from, id: text(), name: text(), input: format!("{{\"x\": {:?}}}", text()).into() },
                AgentEvent::ToolResult { from, id: text(), error: Some(text()) },
                AgentEvent::Notice { text: text() },
                AgentEvent::Denied { tool: text() },
            ] {
                view.show(&mut out, &event).unwrap();
            }
        }
        view.close(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        prop_assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
        prop_assert!(out.ends_with('\n') || out.is_empty());
    }
}
