//! Text that people and agents write: answers, settings, prompts, plans, names, and all that is shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use ralph::agent::{Lines, Observer, Parser};
use ralph::dag::{AttemptId, FeatureId, RunId, TaskId, check_feature_name};
use ralph::engine::ticked_off;
use ralph::prompt::document;
use ralph::prompt::sigils::{Sigils, promised_at_the_end};
use ralph::prompt::{Prompt, Values};
use ralph::settings::{Environment, Settings};
use ralph::time::{Timestamp, parse_duration};
use ralph::ui::{text, tool};
use tempfile::TempDir;

use super::mutate::Corpus;
use super::{Reader, Target, cut, memory, promise};
use crate::random::Random;

pub(super) const SIGILS: Target = Target {
    name: "sigils",
    promise: "a sigil is found however the answer is cut, quoted ones never count, the last of several \
              does, and a plain answer means what a simpler reader finds in it",
    inputs: 1_500_000,
    readings: 1,
    corpus: || Corpus::new(answers(), TAGS).together(4),
    reader: || Box::new(sigils),
};

pub(super) const CONFIG: Target = Target {
    name: "settings",
    promise: "what is refused is refused in one line, and what is accepted means the same when it is \
              written down again",
    inputs: 400_000,
    readings: 1,
    corpus: || Corpus::new(config_seeds(), CONFIG_WORDS).together(3),
    reader: config,
};

pub(super) const TEMPLATE: Target = Target {
    name: "prompts and documents",
    promise: "a text without placeholders stays as it is, and a document has as many characters as it \
              may have",
    inputs: 600_000,
    readings: 1,
    corpus: || {
        Corpus::new(
            template_seeds(),
            ["{{", "}}", "{{name}}", "{{ context }}", "{", "}", "{{x-y_z}}"],
        )
    },
    reader: template,
};

pub(super) const CHECKLIST: Target = Target {
    name: "checklists",
    promise: "no more is done than there is",
    inputs: 1_000_000,
    readings: 1,
    corpus: || {
        let plan =
            "# Plan\n- [ ] one\n  - [x] inner\n* [X] two\n```\n- [ ] quoted\n```\n+ [x] three\n";
        Corpus::new(
            vec![plan.into(), "- [ ] a\n".into()],
            ["- [", "* [x]", "```", "~~~", "ü]", "\r\n"],
        )
        .together(5)
    },
    reader: || {
        Box::new(|bytes, _| {
            let (done, total) = ticked_off(&String::from_utf8_lossy(bytes));
            promise(done <= total, || format!("{done} of {total}"))
        })
    },
};

pub(super) const NAMES: Target = Target {
    name: "ids, times, durations, names",
    promise: "what is read is written as it was",
    inputs: 1_300_000,
    readings: 1,
    corpus: || {
        let seeds = [
            "t-3f9a01",
            "f-000001",
            "a-zzzzzz",
            "r-abcdef",
            "2026-11-16T02:24:16.123Z",
            "2h30m",
            "1d 12h",
            "login",
        ];
        Corpus::new(seeds.iter().map(|it| it.as_bytes().to_vec()).collect(), seeds)
    },
    reader: || Box::new(names),
};

pub(super) const SHOWN: Target = Target {
    name: "shown text",
    promise: "nothing acts on the terminal, what is cut or wrapped fits, and wrapping loses nothing",
    inputs: 650_000,
    readings: 1,
    corpus: || {
        let seeds = [
            "plain words that are wrapped somewhere",
            "größer 東京 e\u{301}\u{302}",
            "👩‍👩‍👧‍👦 🇩🇪🇫🇷 👍🏽 🏳️‍🌈",
            "\x1b[31mred\x07\u{9b}",
            "txt.\u{202e}exe",
            "ad\u{200b}min\u{ad}\u{feff}",
            "  - one\n\ttwo\r\nthree",
            "{\"command\": \"git status\", \"file_path\": \"/project/src/main.rs\", \"offset\": 430}",
        ];
        Corpus::new(
            seeds.iter().map(|it| it.as_bytes().to_vec()).collect(),
            ["\u{200d}", "\u{fe0f}", "\u{301}", "🇩", "\t", "\u{e0041}"],
        )
        .together(6)
    },
    reader: || Box::new(shown),
};

const TAGS: &[&str] = &[
    "<task-done>",
    "</task-done>",
    "<task-failed>",
    "</task-failed>",
    "<task-blocked>",
    "</task-blocked>",
    "<next-model>opus</next-model>",
    "<promise>COMPLETE</promise>",
    "<promise>FAILURE</promise>",
    "<verify-pass/>",
    "<verify-pass />",
    "<verify-fail>no</verify-fail>",
    "`",
    "``",
    "```\n",
    "\n```",
    "~~~\n",
    "\n\n",
    "    ",
    ":",
    "t-3f9a01",
];

fn answers() -> Vec<Vec<u8>> {
    [
        "I did it.\n\n<task-done>t-3f9a01</task-done>\n",
        "I tried.\nThe key is missing.\n<task-failed>t-3f9a01</task-failed>",
        "<task-blocked>t-3f9a01: Red: or blue?</task-blocked>",
        "I will say `<task-done>t-1</task-done>` when I am done\n",
        "```xml\n<task-done>t-1</task-done>\n```\nthat is how\n",
        "<next-model> opus </next-model><promise>COMPLETE</promise>",
        "ok <verify-pass/>\n",
        "<verify-fail> no test </verify-fail>",
        "größe 東京 🎉\n\n",
        "plain words. ",
    ]
    .map(|answer| answer.as_bytes().to_vec())
    .to_vec()
}

fn sigils(bytes: &[u8], random: &mut Random) -> Result<(), String> {
    let answer = &*String::from_utf8_lossy(bytes);
    let read = Sigils::read(answer);
    promised_at_the_end(answer, "LOOP_COMPLETE");

    let heard = said(answer, random);
    promise(heard == answer, || format!("heard {heard:?}"))?;

    // Without any sign of a quotation a simple reader finds the same.
    if !answer.contains(['`', '~']) {
        promise(read.done.as_deref() == last_done(answer), || format!("{read:?}"))?;
        let quoted = format!("{answer}\n\n```\n<task-done>quoted</task-done>\n```\n");
        let with_quoted = Sigils::read(&quoted);
        promise(with_quoted.done == read.done, || format!("{with_quoted:?}"))?;
        let later = format!("{answer}\n<task-done>later</task-done>");
        let with_later = Sigils::read(&later).done;
        promise(with_later.as_deref() == Some("later"), || format!("{with_later:?}"))?;
    }
    Ok(())
}

/// The answer as it is heard from a session that says it in one block, however that is cut.
fn said(answer: &str, random: &mut Random) -> String {
    let line = serde_json::json!({
        "type": "assistant", "message": { "content": [{ "type": "text", "text": answer }] }
    });
    let line = format!("{line}\n");
    let (mut lines, mut parser, mut observer) = (Lines::default(), Parser::new(), Observer::new());
    for piece in cut(line.as_bytes(), random) {
        lines.push(piece, &mut |line| {
            parser.parse(line, &mut |event| observer.observe(&event));
        });
    }
    observer.into_facts(None).answer
}

/// What the last pair of tags encloses.
fn last_done(answer: &str) -> Option<&str> {
    let pieces: Vec<&str> = answer.split("<task-done>").skip(1).collect();
    pieces.iter().rev().find_map(|piece| piece.split_once("</task-done>")).map(|(id, _)| id.trim())
}

const CONFIG_WORDS: &[&str] = &[
    "[agent]\n",
    "[run]\n",
    "[verify]\n",
    "[sandbox]\n",
    "verify = false\n",
    "max_cost = 5.00\n",
    "a.b.c = 1\n",
    "= [\"a\", \"b\"]\n",
    "\"\"\"",
    "'''",
    "#",
    "\u{feff}",
    "[[run]]\n",
    "{ a = 1 }",
    "0x7fffffffffffffff",
    "1_000",
    "inf",
    "nan",
    "1979-05-27T07:32:00Z",
    "\\u0000",
    "\\UFFFFFFFF",
];

fn config_seeds() -> Vec<Vec<u8>> {
    let example =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ralph.toml.example"))
            .unwrap();
    let set: String = example
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let sections = set.split("\n[").skip(1).map(|section| format!("[{section}\n").into_bytes());
    let sections: Vec<Vec<u8>> = sections.collect();
    [set.clone().into_bytes(), example.into_bytes()].into_iter().chain(sections).collect()
}

fn config() -> Reader {
    let place = TempDir::new_in(memory()).unwrap();
    let defaults = Settings::load(None, &nothing(), &[]).unwrap();
    let variables: Vec<String> = defaults
        .entries()
        .iter()
        .map(|entry| format!("RALPH_{}", entry.key.replace('.', "_").to_ascii_uppercase()))
        .collect();
    Box::new(move |bytes, random| {
        let file = place.path().join(".ralph.toml");
        fs::write(&file, bytes).unwrap();
        let loaded = match Settings::load(Some(&file), &nothing(), &[]) {
            Ok(loaded) => loaded,
            Err(error) => {
                civil(&error)?;
                let error = format!("{error:#}");
                return promise(error.contains(&*file.to_string_lossy()), || error);
            }
        };
        // Every variable may hold a line of it.
        let mut lines = bytes.split(|&byte| byte == b'\n');
        let some = (0..random.below(4)).map_while(|_| lines.next()).map(|line| {
            let name = &variables[random.below(variables.len() as u64) as usize];
            let value = line.splitn(2, |&byte| byte == b'=').last().unwrap().trim_ascii();
            (name.clone(), OsString::from_vec(value.to_vec()))
        });
        let environment: Environment = some.collect();
        if let Err(error) = Settings::load(Some(&file), &environment, &[]) {
            civil(&error)?;
        }
        let mut sections: BTreeMap<&str, String> = BTreeMap::new();
        for entry in loaded.entries() {
            let (section, key) = entry.key.split_once('.').unwrap_or(("", entry.key));
            if let Some(value) = &entry.value {
                *sections.entry(section).or_default() += &format!("{key} = {value}\n");
            }
        }
        let written: String = sections
            .iter()
            .map(
                |(name, keys)| {
                    if name.is_empty() { keys.clone() } else { format!("[{name}]\n{keys}") }
                },
            )
            .collect();
        fs::write(&file, &written).unwrap();
        let again = Settings::load(Some(&file), &nothing(), &[]).map_err(|it| format!("{it:#}"))?;
        promise(again.settings == loaded.settings, || format!("not the same: {written}"))
    })
}

fn nothing() -> Environment {
    Environment::from_iter([("", ""); 0])
}

/// An error is for people: it says something, is not long, and is one line.
pub(super) fn civil(error: &anyhow::Error) -> Result<(), String> {
    let text = format!("{error:#}");
    let short: String = text.chars().take(300).collect();
    promise(!text.is_empty() && text.len() < 4_000, || format!("{} bytes: {short}", text.len()))?;
    promise(!text::printable_lines(&text).contains(|c: char| c.is_control() && c != '\n'), || short)
}

fn template_seeds() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("prompts");
    let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let mut seeds: Vec<Vec<u8>> = files
        .iter()
        .map(|file| fs::read(file).unwrap())
        .map(|text| text[..text.len().min(2_000)].to_vec())
        .collect();
    seeds.extend(
        [&b"\xff\xfeh\0i\0"[..], b"\xfe\xff\0h\0i", b"\xef\xbb\xbfbom\r\nline", b"{{name}}"]
            .map(<[u8]>::to_vec),
    );
    seeds
}

fn template() -> Reader {
    const LIMIT: usize = 500;
    let place = TempDir::new_in(memory()).unwrap();
    let file = place.path().join(Prompt::Work.file_name());
    let values = Values::from([("name", "login"), ("context", "{{name}}")]);
    Box::new(move |bytes, _| {
        fs::write(&file, bytes).unwrap();
        let rendered = Prompt::Work.render(place.path(), &values);
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.trim().is_empty());
        match (rendered, text) {
            (Err(error), _) => {
                civil(&error)?;
            }
            (Ok(_), None) => return Err("what is no text was taken for a prompt".into()),
            (Ok(rendered), Some(text)) => {
                let changed = text.contains("{{") && text.contains("}}");
                promise(changed || rendered == text, || format!("became {rendered:?}"))?;
            }
        }
        let read = document::read(&file, "spec.md", LIMIT);
        let kept = read.split("\n[Cut here: ").next().unwrap_or_default();
        promise(kept.chars().count() <= LIMIT, || format!("{} characters", kept.chars().count()))?;
        let fenced = document::fenced(&read, "md");
        let fence = fenced.split("md\n").next().unwrap_or_default();
        promise(fenced.ends_with(fence) && !read.contains(fence), || format!("fenced by {fence}"))
    })
}

fn names(bytes: &[u8], _: &mut Random) -> Result<(), String> {
    let text = &*String::from_utf8_lossy(bytes);
    let same = |read: Option<String>| {
        promise(read.as_deref().is_none_or(|it| it == text), || format!("read as {read:?}"))
    };
    same(text.parse::<TaskId>().ok().map(|it| it.to_string()))?;
    same(text.parse::<FeatureId>().ok().map(|it| it.to_string()))?;
    same(text.parse::<AttemptId>().ok().map(|it| it.to_string()))?;
    same(text.parse::<RunId>().ok().map(|it| it.to_string()))?;
    same(text.parse::<Timestamp>().ok().map(|it| it.to_string()))?;
    if let Ok(duration) = parse_duration(text) {
        let seconds = duration.as_secs();
        promise((1..=u64::from(u32::MAX)).contains(&seconds), || format!("{seconds} s"))?;
        Timestamp::now().plus(duration).since(Timestamp::now());
    }
    match check_feature_name(text) {
        Ok(()) => {
            promise(!text.contains(['/', '\0']) && !text.starts_with('.'), || "a path".into())
        }
        Err(error) => civil(&error),
    }
}

fn shown(bytes: &[u8], random: &mut Random) -> Result<(), String> {
    let raw = String::from_utf8_lossy(bytes);
    let once = text::printable(&raw);
    promise(!once.contains(char::is_control), || format!("{once:?}"))?;
    promise(text::printable(&once) == once, || format!("{once:?} is not printable"))?;
    let lines = text::printable_lines(&raw);
    promise(!lines.contains(|c: char| c.is_control() && c != '\n'), || format!("{lines:?}"))?;
    let columns = 4 + random.below(100) as usize;
    let cut = text::cut(&once, columns);
    promise(text::width(&cut) <= columns, || format!("{cut:?} is wider than {columns}"))?;
    let wrapped = text::wrap(&once, columns);
    let wide = wrapped.iter().find(|line| text::width(line) > columns);
    promise(wide.is_none(), || format!("{wide:?} is wider than {columns}"))?;
    let kept = wrapped.concat().replace(' ', "");
    promise(kept == once.trim_end().replace(' ', ""), || format!("wrapped to {wrapped:?}"))?;
    let tools = ["Read", "Edit", "Bash", "Glob", "TodoWrite", "Task", "Else"];
    let name = tools[random.below(7) as usize];
    let argument = tool::argument(name, &raw, Path::new("/project"));
    promise(argument.len() <= raw.len() + 100, || format!("{name}({argument})"))
}
