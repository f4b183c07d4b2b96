//! The tags in an agent's answer that ralph acts on. What stands in a code span or a fence is quoted
//! speech and no verdict, unless it is all of the last line; of several of a kind the last one counts. A
//! promise counts only at the end.

use std::collections::HashMap;
use std::ops::Range;

/// What an agent said to us in its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sigils {
    /// The task that it believes is complete.
    pub done: Option<String>,
    /// The task that it can't complete, and what it said before.
    pub failed: Option<(String, String)>,
    /// The task that needs a person, and the question.
    pub blocked: Option<(String, String)>,
    /// The model it would like next.
    pub next_model: Option<String>,
    /// What it says of the whole run at its end.
    pub promise: Option<Promise>,
    /// What a verifier found.
    pub verdict: Option<Verdict>,
}

/// What is said of the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// It is finished.
    Complete,
    /// The words of a loop that say the same.
    Words,
    /// It must stop.
    Failure,
}

/// What a verifier found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The work is what it should be.
    Pass,
    /// It is not, and why.
    Fail(String),
    /// It said both.
    Both,
}

/// The names that a hint can have.
const MODELS: [&str; 3] = ["opus", "sonnet", "haiku"];
/// How much of what was said is kept as the reason of a failure.
const REASON: usize = 2_000;
/// The sigils that say what became of a task.
pub(super) const VERDICTS: [&str; 3] = ["task-done", "task-failed", "task-blocked"];
/// The sigils that may stand beside a promise.
const BESIDE_A_PROMISE: [&str; 4] = ["task-done", "task-failed", "task-blocked", "next-model"];

impl Sigils {
    /// Reads an answer.
    pub fn read(answer: &str) -> Sigils {
        let mut quoted = quotations(answer);
        let alone = verdict_alone_at_the_end(answer);
        if let Some(at) = alone {
            quoted.retain(|range| !range.contains(&at));
        }
        let last = |name: &str| last_tag(answer, name, &quoted);
        let text = |name: &str| last(name).map(|tag| answer[tag.inner].trim().to_owned());
        let id = |text: &str, start: usize| match alone == Some(start) {
            true => without_code_marks(text).to_owned(),
            false => text.trim().to_owned(),
        };
        Sigils {
            done: last("task-done").map(|tag| id(&answer[tag.inner], tag.start)),
            failed: last("task-failed").map(|tag| {
                let marks = if alone == Some(tag.start) { "`" } else { "" };
                let before = answer[..tag.start].trim_end_matches(|it| marks.contains(it));
                (id(&answer[tag.inner], tag.start), last_words(before))
            }),
            blocked: last("task-blocked").map(|tag| {
                let text = &answer[tag.inner];
                let (name, question) = text.split_once(':').unwrap_or((text, ""));
                (id(name, tag.start), question.trim().to_owned())
            }),
            next_model: text("next-model").filter(|name| MODELS.contains(&name.as_str())),
            promise: promised_at_the_end(answer, ""),
            verdict: verdict(answer, &quoted),
        }
    }
}

/// What the last lines of a message promise: each is a promise or these words, and nothing else. A failure
/// among them counts before anything else.
pub fn promised_at_the_end(message: &str, words: &str) -> Option<Promise> {
    let last: Vec<Promise> = promises_from_the_end(message, words).map_while(|it| it).collect();
    let failure = last.iter().find(|&&it| it == Promise::Failure);
    failure.or(last.first()).copied()
}

/// What a screen promises, on which nothing marks the end of a message: the last line that is a promise or
/// these words, and nothing else.
pub fn promised_on_screen(screen: &str, words: &str) -> Option<Promise> {
    promises_from_the_end(screen, words).find_map(|it| it)
}

/// What each line promises, from the last to the first. Blank lines are left out, and other sigils are as
/// good as blanks.
fn promises_from_the_end(text: &str, words: &str) -> impl Iterator<Item = Option<Promise>> {
    // Most texts promise nothing, and need not be taken apart to see that.
    let may_promise = text.contains("<promise>") || (!words.is_empty() && text.contains(words));
    let lines = if may_promise { promises_of_lines(text, words) } else { Vec::new() };
    lines.into_iter().rev()
}

fn promises_of_lines(text: &str, words: &str) -> Vec<Option<Promise>> {
    let quoted = quotations(text);
    let text = promises_on_lines(text, &quoted);
    let mut lines = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.trim().is_empty() {
            lines.push(promise_of(line, words, |place| is_quoted(at + place, &quoted)));
        }
        at += line.len();
    }
    lines
}

/// The text with blanks in place of the sigils that may stand beside a promise, and of the line ends inside
/// a promise. Every place is where it was.
fn promises_on_lines(text: &str, quoted: &[Range<usize>]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for name in BESIDE_A_PROMISE {
        for range in closed_tags(text, name).filter(|range| !is_quoted(range.start, quoted)) {
            bytes[range].fill(b' ');
        }
    }
    for range in closed_tags(text, "promise") {
        bytes[range].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Every `<name>…</name>`, from the first to the last.
fn closed_tags(text: &str, name: &str) -> impl Iterator<Item = Range<usize>> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let end = from + text[from..].find(&close)?;
            let start = text[from..end].rfind(&open).map(|at| from + at);
            from = end + close.len();
            if let Some(start) = start {
                return Some(start..from);
            }
        }
    })
}

/// What a line promises that holds nothing else but punctuation and markup.
fn promise_of(line: &str, words: &str, is_quoted: impl Fn(usize) -> bool) -> Option<Promise> {
    let (open, close) = ("<promise>", "</promise>");
    let tag = line.find(open).and_then(|start| {
        let inner = start + open.len();
        let length = line[inner..].find(close)?;
        let promise = match line[inner..inner + length].trim() {
            "COMPLETE" => Promise::Complete,
            "FAILURE" => Promise::Failure,
            _ => return None,
        };
        Some((start, inner + length + close.len(), promise))
    });
    let words = Some(words).filter(|words| !words.is_empty()).and_then(|words| {
        let start = line.find(words)?;
        Some((start, start + words.len(), Promise::Words))
    });
    let is_alone = |&(start, end, _): &(usize, usize, Promise)| {
        !is_quoted(start) && is_markup(&line[..start]) && is_markup(&line[end..])
    };
    tag.into_iter().chain(words).find(is_alone).map(|(.., promise)| promise)
}

/// Whether a text has no words, and asks nothing.
fn is_markup(text: &str) -> bool {
    !text.contains(|c: char| c.is_alphanumeric() || c == '?')
}

fn verdict(answer: &str, quoted: &[Range<usize>]) -> Option<Verdict> {
    let passes = [
        last_alone(answer, "<verify-pass/>", quoted),
        last_alone(answer, "<verify-pass />", quoted),
        last_tag(answer, "verify-pass", quoted).map(|tag| tag.start),
    ];
    let fail = last_tag(answer, "verify-fail", quoted);
    match (passes.iter().any(Option::is_some), fail) {
        (true, Some(_)) => Some(Verdict::Both),
        (true, None) => Some(Verdict::Pass),
        (false, Some(tag)) => Some(Verdict::Fail(answer[tag.inner].trim().to_owned())),
        (false, None) => None,
    }
}

struct Tag {
    start: usize,
    inner: Range<usize>,
}

/// The last `<name>…</name>` that is not quoted.
fn last_tag(answer: &str, name: &str, quoted: &[Range<usize>]) -> Option<Tag> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut end = answer.len();
    while let Some(start) = answer[..end].rfind(&open) {
        let inner = start + open.len();
        // Up to the next one: what is never closed is not looked through again and again.
        let length = answer[inner..end].find(&close);
        if let Some(length) = length.filter(|_| !is_quoted(start, quoted)) {
            return Some(Tag { start, inner: inner..inner + length });
        }
        end = start;
    }
    None
}

/// Where a verdict begins that is all there is on the last line, but for code marks around it: that is meant
/// and not quoted.
fn verdict_alone_at_the_end(answer: &str) -> Option<usize> {
    let answer = answer.trim_end();
    let line = &answer[answer.rfind('\n').map_or(0, |at| at + 1)..];
    let verdict = without_code_marks(line);
    let is_verdict = VERDICTS.iter().any(|name| {
        let inner = verdict.strip_prefix(&format!("<{name}>"));
        let inner = inner.and_then(|it| it.strip_suffix(&format!("</{name}>")));
        inner.is_some_and(|inner| !inner.contains('<'))
    });
    is_verdict.then(|| answer.len() - line.len() + line.find('<').unwrap_or(0))
}

/// A text without the backticks around it, if there are as many before it as behind.
pub(super) fn without_code_marks(text: &str) -> &str {
    let text = text.trim();
    let inner = text.trim_start_matches('`');
    let marks = &text[..text.len() - inner.len()];
    match inner.strip_suffix(marks) {
        Some(inner) if !inner.ends_with('`') => inner.trim(),
        _ => text,
    }
}

fn last_alone(answer: &str, tag: &str, quoted: &[Range<usize>]) -> Option<usize> {
    answer.rmatch_indices(tag).map(|(at, _)| at).find(|&at| !is_quoted(at, quoted))
}

/// Whether a place is in one of these, which are in order.
fn is_quoted(at: usize, quoted: &[Range<usize>]) -> bool {
    let after = quoted.partition_point(|range| range.start <= at);
    after > 0 && quoted[after - 1].contains(&at)
}

/// Whether a place in a text is in code, where it is quoted speech.
pub(super) fn is_in_code(text: &str, at: usize) -> bool {
    is_quoted(at, &quotations(text))
}

/// The end of a text, as much of it as is kept as a reason.
pub fn last_words(text: &str) -> String {
    let text = text.trim();
    let start = text.char_indices().rev().nth(REASON - 1).map_or(0, |(at, _)| at);
    text[start..].trim().to_owned()
}

/// The places in a text that are code: fenced blocks and spans. What is opened and never closed
/// quotes nothing, so that a slip of the pen does not swallow a verdict.
fn quotations(text: &str) -> Vec<Range<usize>> {
    let mut quoted = Vec::new();
    let mut plain_from = 0;
    let mut fence: Option<(usize, char, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mark = fence_mark(line);
        match (fence, mark) {
            (None, Some((character, length, _))) => fence = Some((at, character, length)),
            (Some((start, character, length)), Some((closing, count, bare)))
                if closing == character && count >= length && bare =>
            {
                spans(text, plain_from..start, &mut quoted);
                quoted.push(start..at + line.len());
                plain_from = at + line.len();
                fence = None;
            }
            _ => {}
        }
        at += line.len();
    }
    spans(text, plain_from..text.len(), &mut quoted);
    quoted
}

/// The character and length of a fence that a line consists of or begins with, and whether nothing
/// follows it.
fn fence_mark(line: &str) -> Option<(char, usize, bool)> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let line = line.trim();
    let character = line.chars().next().filter(|&c| indent <= 3 && (c == '`' || c == '~'))?;
    let length = line.chars().take_while(|&c| c == character).count();
    let rest = &line[length..];
    // A line such as ```` ```x``` ```` is a span.
    let opens = length >= 3 && !(character == '`' && rest.contains('`'));
    opens.then_some((character, length, rest.is_empty()))
}

/// Code spans: from a run of backticks to the next run of the same length, within a paragraph.
fn spans(text: &str, within: Range<usize>, quoted: &mut Vec<Range<usize>>) {
    let mut at = within.start;
    for paragraph in text[within].split_inclusive("\n\n") {
        let runs = backtick_runs(paragraph);
        let last: HashMap<usize, usize> =
            runs.iter().enumerate().map(|(index, &(_, length))| (length, index)).collect();
        let mut next = 0;
        while let Some(&(start, length)) = runs.get(next) {
            let is_closed = last[&length] > next;
            let mut following = runs[next + 1..].iter();
            match is_closed.then(|| following.position(|&(_, other)| other == length)).flatten() {
                Some(distance) => {
                    let (end, _) = runs[next + 1 + distance];
                    quoted.push(at + start..at + end + length);
                    next += distance + 2;
                }
                None => next += 1,
            }
        }
        at += paragraph.len();
    }
}

fn backtick_runs(text: &str) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in text.match_indices('`') {
        match runs.last_mut() {
            Some((start, length)) if *start + *length == at => *length += 1,
            _ => runs.push((at, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn done(answer: &str) -> Option<String> {
        Sigils::read(answer).done
    }

    #[test]
    fn a_sigil_is_found_wherever_it_stands_and_the_last_one_counts() {
        for (answer, expected) in [
            ("", None),
            ("all done", None),
            ("<task-done>t-1</task-done>", Some("t-1")),
            ("I did it.\n\n<task-done> t-1\n</task-done>\nbye", Some("t-1")),
            ("<task-done>t-1</task-done> no: <task-done>t-2</task-done>", Some("t-2")),
            ("<task-done>t-1", None),
            ("</task-done><task-done>", None),
            ("<task-done></task-done>", Some("")),
            ("<TASK-DONE>t-1</TASK-DONE>", None),
        ] {
            assert_eq!(done(answer).as_deref(), expected, "{answer:?}");
        }
    }

    #[test]
    fn quoted_speech_is_no_verdict() {
        for answer in [
            "I will say `<task-done>t-1</task-done>` when I am done",
            "``a ` <task-done>t-1</task-done>``",
            "```\n<task-done>t-1</task-done>\n```",
            "```xml\n<task-done>t-1</task-done>\n```\nthat is how",
            "~~~\n<task-done>t-1</task-done>\n~~~",
            "   ````\n```\n<task-done>t-1</task-done>\n````",
        ] {
            assert_eq!(done(answer), None, "{answer:?}");
        }
    }

    #[test]
    fn code_marks_around_all_of_the_last_line_or_around_its_id_do_not_matter() {
        for answer in [
            "`<task-done>t-1</task-done>`",
            "All done.\n\n``<task-done>t-1</task-done>``\n",
            "```<task-done>t-1</task-done>```",
            "<task-done>`t-1`</task-done>",
            "All done.\n  `<task-done> `t-1` </task-done>`  \n\n",
            "`code` before\n`<task-done>t-1</task-done>`",
        ] {
            assert_eq!(done(answer).as_deref(), Some("t-1"), "{answer:?}");
        }
        for (answer, expected) in [
            ("`<task-done>t-1</task-done>`\nor so", None),
            ("- `<task-done>t-1</task-done>`", None),
            ("`a\n<task-done>t-1</task-done>`", None),
            ("`<task-done>t-1</task-done>", Some("t-1")),
            ("`<task-done>t-1</task-done><task-done>t-2</task-done>`", None),
            ("I say <task-done>`t-1`</task-done>", Some("`t-1`")),
            ("<task-done>`t-1</task-done>", Some("`t-1")),
        ] {
            assert_eq!(done(answer).as_deref(), expected, "{answer:?}");
        }
        let read = Sigils::read("No key.\n`<task-failed>t-1</task-failed>`");
        assert_eq!(read.failed, Some(("t-1".into(), "No key.".into())));
        let read = Sigils::read("<task-blocked>`t-1`: `red` or blue?</task-blocked>");
        assert_eq!(read.blocked, Some(("t-1".into(), "`red` or blue?".into())));
    }

    #[test]
    fn what_only_looks_like_a_quotation_is_a_verdict() {
        for answer in [
            "```\ncode\n```\n<task-done>t-1</task-done>",
            "a ` and <task-done>t-1</task-done>",
            "it's `a`<task-done>t-1</task-done>`b`",
            "```\nnever closed\n<task-done>t-1</task-done>",
            "one `\n\n<task-done>t-1</task-done>\n\n` two",
            "```x``` <task-done>t-1</task-done>",
            "`quoted <task-done>t-9</task-done>` <task-done>t-1</task-done>",
            "<task-done>t-1</task-done> as in `<task-done>t-9</task-done>`",
        ] {
            assert_eq!(done(answer).as_deref(), Some("t-1"), "{answer:?}");
        }
    }

    #[test]
    fn a_failure_keeps_what_was_said_before_it() {
        let sigils = Sigils::read("I tried.\nThe key is missing.\n<task-failed>t-1</task-failed>");
        assert_eq!(sigils.failed, Some(("t-1".into(), "I tried.\nThe key is missing.".into())));
        let long = format!("{}<task-failed>t-1</task-failed>", "ü".repeat(5_000));
        let (_, reason) = Sigils::read(&long).failed.unwrap();
        assert_eq!(reason.chars().count(), REASON);
    }

    #[test]
    fn a_question_has_an_id_and_words() {
        let blocked = |text: &str| Sigils::read(text).blocked.unwrap();
        let both = ("t-1".to_owned(), "Red: or blue?".to_owned());
        assert_eq!(blocked("<task-blocked>t-1: Red: or blue?</task-blocked>"), both);
        assert_eq!(blocked("<task-blocked>t-1</task-blocked>"), ("t-1".into(), String::new()));
    }

    #[test]
    fn hints_and_promises_are_known_words_only() {
        let read = Sigils::read("<next-model> opus </next-model><promise> COMPLETE\n</promise>");
        assert_eq!(read.next_model.as_deref(), Some("opus"));
        assert_eq!(read.promise, Some(Promise::Complete));
        let read = Sigils::read("<next-model>gpt</next-model><promise>maybe</promise>");
        assert_eq!((read.next_model, read.promise), (None, None));
    }

    const WORDS: &str = "LOOP_COMPLETE";

    #[test]
    fn a_promise_stands_on_lines_of_its_own_at_the_end() {
        use Promise::{Complete, Failure, Words};
        for (message, expected) in [
            ("LOOP_COMPLETE", Some(Words)),
            ("All is done.\n\nLOOP_COMPLETE\n\n  \n", Some(Words)),
            ("All is done.\n**LOOP_COMPLETE**.", Some(Words)),
            ("# LOOP_COMPLETE", Some(Words)),
            ("> _LOOP_COMPLETE_!", Some(Words)),
            ("✅ LOOP_COMPLETE ✅", Some(Words)),
            ("a `b` c\nLOOP_COMPLETE", Some(Words)),
            ("```\ncode\n```\nLOOP_COMPLETE", Some(Words)),
            ("All is done. LOOP_COMPLETE", None),
            ("so I do not say LOOP_COMPLETE yet", None),
            ("LOOP_COMPLETE\nBut first, the tests.", None),
            ("LOOP_COMPLETE comes later", None),
            ("LOOP_COMPLETE?", None),
            ("NOT_LOOP_COMPLETE", None),
            ("- [x] LOOP_COMPLETE", None),
            ("`LOOP_COMPLETE`", None),
            ("```\nLOOP_COMPLETE\n```", None),
            ("```\nLOOP_COMPLETE\n```\n", None),
            ("loop_complete", None),
            ("", None),
            ("<promise>COMPLETE</promise>", Some(Complete)),
            ("Bye.\n**<promise>COMPLETE</promise>**", Some(Complete)),
            ("<promise>\nCOMPLETE\n</promise>", Some(Complete)),
            ("Bye. <promise>COMPLETE</promise>", None),
            ("I will not say <promise>FAILURE</promise>.", None),
            ("`<promise>COMPLETE</promise>`", None),
            ("<promise>maybe</promise>", None),
            ("<promise>COMPLETE", None),
            ("LOOP_COMPLETE\n<promise>FAILURE</promise>", Some(Failure)),
            ("<promise>FAILURE</promise>\n\nLOOP_COMPLETE", Some(Failure)),
            ("<promise>FAILURE</promise>\nNo.\nLOOP_COMPLETE", Some(Words)),
            ("LOOP_COMPLETE <promise>FAILURE</promise>", None),
            ("<task-done>t-1</task-done> <promise>COMPLETE</promise>", Some(Complete)),
            ("<promise>FAILURE</promise>\n<task-failed>t-1</task-failed>", Some(Failure)),
            ("LOOP_COMPLETE\n<next-model>opus</next-model>", Some(Words)),
        ] {
            assert_eq!(promised_at_the_end(message, WORDS), expected, "{message:?}");
        }
        assert_eq!(promised_at_the_end("anything", ""), None);
        assert_eq!(promised_at_the_end("*** DONE! ***", "DONE!"), Some(Words));
    }

    #[test]
    fn a_promise_on_a_screen_stands_on_any_line_of_its_own() {
        use Promise::{Complete, Failure, Words};
        for (screen, expected) in [
            ("● LOOP_COMPLETE\n\n> \n  ? for shortcuts", Some(Words)),
            ("│ <promise>COMPLETE</promise> │\n$ ready", Some(Complete)),
            ("LOOP_COMPLETE\nno\n<promise>FAILURE</promise>\n$", Some(Failure)),
            ("<promise>FAILURE</promise>\nall is well again\nLOOP_COMPLETE\n$", Some(Words)),
            ("say LOOP_COMPLETE when it is done\n$", None),
        ] {
            assert_eq!(promised_on_screen(screen, WORDS), expected, "{screen:?}");
        }
    }

    #[test]
    fn a_verifier_says_one_thing() {
        let verdict = |text: &str| Sigils::read(text).verdict;
        for pass in ["<verify-pass/>", "ok <verify-pass />", "<verify-pass></verify-pass>"] {
            assert_eq!(verdict(pass), Some(Verdict::Pass), "{pass}");
        }
        let fail = verdict("<verify-fail> no test </verify-fail>");
        assert_eq!(fail, Some(Verdict::Fail("no test".into())));
        let both = verdict("<verify-pass/><verify-fail>x</verify-fail>");
        assert_eq!(both, Some(Verdict::Both));
        assert_eq!(verdict("`<verify-pass/>`"), None);
        assert_eq!(verdict("looks fine"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[`~<>/a-c\n ü-]{0,80}") {
            Sigils::read(&text);
        }

        #[test]
        fn a_sentence_around_a_promise_never_completes(
            before in "[a-z ,.*]{0,20}", word in "[a-zü]{1,8}", after in "[a-z ,.*!]{0,20}",
            in_front: bool, tag: bool,
        ) {
            let promise = if tag { "<promise>COMPLETE</promise>" } else { WORDS };
            let sentence = if in_front {
                format!("{before}{word} {promise}{after}")
            } else {
                format!("{before}{promise} {word}{after}")
            };
            prop_assert_eq!(promised_at_the_end(&sentence, WORDS), None);
            prop_assert_eq!(promised_on_screen(&sentence, WORDS), None);
            let later = format!("{promise}\n{sentence}");
            prop_assert_eq!(promised_at_the_end(&later, WORDS), None);
            let ended = format!("{sentence}\n{promise}\n");
            prop_assert!(promised_at_the_end(&ended, WORDS).is_some());
        }

        #[test]
        fn a_verdict_after_any_closed_text_is_found(text in "[a-c\n ü]{0,80}") {
            let answer = format!("{text}\n<task-done>t-1</task-done>");
            prop_assert_eq!(Sigils::read(&answer).done, Some("t-1".to_owned()));
        }
    }
}
