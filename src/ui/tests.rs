//! What holds for every listing, whatever the tasks are called and however they hang together.

use std::collections::HashMap;

use proptest::prelude::*;

use super::features::{self, FeatureRow};
use super::show::{self, Detail};
use super::status::{self, Overview, Running};
use super::testing::{
    PIPE, all, build, columns, facts, feature, now, roots, summary, work, written,
};
use super::text::width;
use super::{Terminal, graph, list, tree};
use crate::dag::{
    Attempt, Feature, FeatureStatus, Graph, Kind, LogEntry, LogEvent, Node, Outcome, Snapshot,
    Status,
};

/// Every listing of this snapshot, with `words` wherever a text is not a task's own.
fn listings(snapshot: &Snapshot, words: &str, terminal: Terminal) -> Vec<String> {
    let (all, roots) = (all(snapshot), roots(snapshot));
    let last = all.len() - 1;
    let names = HashMap::from([(feature(0), words.to_owned())]);
    let mut task = facts(snapshot, last);
    task.description = words.to_owned();
    task.key = Some(words.to_owned());
    let attempts = [attempt(words)];
    let log =
        [LogEntry { at: now(), event: LogEvent::Note, author: None, message: words.to_owned() }];
    let detail = Detail {
        task: &task,
        snapshot,
        index: last,
        feature: Some(words),
        attempts: &attempts,
        log: &log,
        now: now(),
    };
    let running = [Running { task: last, attempt: 2, since: now() }];
    let overview = Overview {
        snapshot,
        features: &names,
        running: &running,
        costs: &crate::dag::Costs { charged: 1.0, ..Default::default() },
        last_run: None,
        last_activity: Some(now()),
        now: now(),
    };
    let named = named(words);
    let row =
        FeatureRow { feature: &named, done: 1, total: all.len(), has_spec: true, has_plan: false };
    vec![
        written(|out| tree::write(out, snapshot, &roots, terminal)),
        written(|out| list::write(out, snapshot, &all, &names, terminal)),
        written(|out| status::write(out, &overview, terminal)),
        written(|out| graph::text(out, snapshot, &all, terminal)),
        written(|out| show::task(out, &detail, terminal)),
        written(|out| show::log(out, &log, terminal)),
        written(|out| features::list(out, std::slice::from_ref(&row), terminal)),
        written(|out| features::show(out, &row, snapshot, &roots, terminal)),
    ]
}

fn pictures(snapshot: &Snapshot) -> [String; 2] {
    let all = all(snapshot);
    [
        written(|out| graph::dot(out, snapshot, &all)),
        written(|out| graph::mermaid(out, snapshot, &all)),
    ]
}

fn attempt(words: &str) -> Attempt {
    Attempt {
        id: "a-000001".parse().unwrap(),
        task: "t-000000".parse().unwrap(),
        number: 1,
        run: None,
        model: Some(words.to_owned()),
        started_at: now(),
        ended_at: Some(now()),
        outcome: Some(Outcome::Failed),
        reason: Some(words.to_owned()),
        exit_code: None,
        cost_usd: Some(0.1),
        input_tokens: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        output_tokens: None,
        billing: None,
        turns: None,
        log_path: None,
        session_id: None,
        head_before: None,
        head_after: None,
        verification_status: None,
        verify_log_path: None,
    }
}

fn named(words: &str) -> Feature {
    Feature {
        id: feature(0),
        name: words.to_owned(),
        status: FeatureStatus::Ready,
        spec_path: Some(words.to_owned()),
        plan_path: None,
        created_at: now(),
        updated_at: now(),
    }
}

fn awkward() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,9} ?",
        any::<char>().prop_map(String::from),
        "\\PC{1,4}",
        prop::sample::select(vec![
            "\x1b[2J",
            "\x1b]0;x\x07",
            "\u{9b}1m",
            "\r\n",
            "\t",
            "\u{202e}",
            "\u{2066}",
            "\u{200d}",
            "👩\u{200d}👩\u{200d}👧",
            "🇩🇪",
            "🇩",
            "e\u{301}",
            "東京",
            "👍🏽",
            "\u{fe0f}",
            "\"",
            "\\",
            "#",
            "`",
            "    ",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let task = (
        awkward(),
        prop::option::of(awkward()),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        0..8u8,
        any::<(bool, bool, bool)>(),
        -1..2i32,
    );
    prop::collection::vec(task, 1..14).prop_map(|raw| {
        let (mut tasks, mut nodes, mut dependencies) = (Vec::new(), Vec::<Node>::new(), Vec::new());
        for (index, (title, reason, (parent, blocker), status, flags, priority)) in
            raw.into_iter().enumerate()
        {
            let mut task = summary(index, &title);
            (task.reason, task.priority) = (reason.map(Into::into), priority);
            task.feature = flags.0.then(|| feature(0));
            tasks.push(task);
            let mut node = work(None);
            if index > 0 {
                let parent = parent.index(index);
                node.parent = Some(parent).filter(|&parent| nodes[parent].kind == Kind::Group);
                if flags.1 {
                    dependencies.push((blocker.index(index), index));
                }
            }
            match status {
                0 | 1 => node.kind = Kind::Group,
                2 => node.status = Status::Done,
                3 => node.status = Status::Failed,
                4 => node.status = Status::Blocked,
                5 => node.claimed = true,
                _ => node.deferred = flags.2,
            }
            nodes.push(node);
        }
        if Graph::new(nodes.clone(), &dependencies).derive().is_err() {
            dependencies.clear();
        }
        build(tasks, nodes, &dependencies)
    })
}

/// Whether a terminal could be led astray by this character.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').unwrap().1)
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal_or_acts_on_it(
        snapshot in any_snapshot(),
        words in awkward(),
        wide in 24usize..130,
    ) {
        for text in listings(&snapshot, &words, columns(wide)) {
            for line in text.lines() {
                prop_assert!(width(line) <= wide, "{wide}: {line:?}");
                prop_assert!(!line.contains(acts), "{line:?}");
            }
        }
    }

    #[test]
    fn nothing_in_a_pipe_or_a_picture_acts(snapshot in any_snapshot(), words in awkward()) {
        for text in listings(&snapshot, &words, PIPE).iter().chain(&pictures(&snapshot)) {
            prop_assert!(!text.replace('\n', "").contains(acts), "{text:?}");
        }
    }

    #[test]
    fn colours_change_nothing_but_colours(
        snapshot in any_snapshot(),
        words in awkward(),
        wide in 24usize..130,
    ) {
        let plain = columns(wide);
        let coloured = listings(&snapshot, &words, Terminal { colour: true, ..plain });
        for (coloured, plain) in coloured.iter().zip(listings(&snapshot, &words, plain)) {
            prop_assert_eq!(without_colours(coloured), plain);
        }
    }
}

/// What is written for each task stays the same however many there are.
fn check_size(snapshot: &Snapshot, terminal: Terminal) {
    let listings = listings(snapshot, "words", terminal);
    for text in listings.iter().chain(&pictures(snapshot)) {
        assert!(text.len() < 400 * snapshot.tasks.len());
    }
}

#[test]
fn groups_a_hundred_thousand_deep_are_no_problem() {
    let count: usize = 100_000;
    let nodes = (0..count).map(|task| {
        let kind = if task + 1 < count { Kind::Group } else { Kind::Work };
        // The outermost group is held, so that all of them wait.
        let status = if task == 0 { Status::Blocked } else { Status::Pending };
        Node { kind, status, ..work(task.checked_sub(1)) }
    });
    let tasks = (0..count).map(|task| summary(task, "A task like all others"));
    check_size(&build(tasks.collect(), nodes.collect(), &[]), PIPE);
}

#[test]
fn ten_thousand_tasks_that_all_wait_are_no_problem() {
    let count = 10_000;
    let nodes = (0..count).map(|task| match task % 10 {
        0 => Node { kind: Kind::Group, ..work(None) },
        1 => Node { status: Status::Failed, ..work(Some(task - 1)) },
        place => work(Some(task - place)),
    });
    let tasks = (0..count).map(|task| summary(task, "A task like all others"));
    let chain: Vec<(usize, usize)> = (1..count / 10).map(|i| (10 * (i - 1), 10 * i)).collect();
    check_size(&build(tasks.collect(), nodes.collect(), &chain), columns(60));
}
