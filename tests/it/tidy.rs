//! The shape of the source: which part may use which, and that each file says what it is for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each part may use besides itself; `cli` and the crate's root may use everything.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "agent",
        &[
            "dag", "event", "hash", "hint", "lenient", "money", "process", "settings", "socket",
            "time",
        ],
    ),
    ("broker", &["hint", "ops", "socket", "store", "time"]),
    ("dag", &["hint", "money", "time"]),
    ("demo", &[]),
    (
        "engine",
        &[
            "agent", "broker", "dag", "event", "hint", "money", "ops", "process", "prompt",
            "store", "time",
        ],
    ),
    ("event", &["dag", "time"]),
    ("hint", &[]),
    ("jsonl", &[]),
    ("hash", &[]),
    ("lenient", &[]),
    ("money", &[]),
    ("ops", &["dag", "hint", "store", "time"]),
    ("process", &[]),
    ("project", &["hint"]),
    ("prompt", &["dag", "hint", "time"]),
    ("settings", &["hint", "time"]),
    ("socket", &[]),
    ("store", &["dag", "hint", "jsonl", "money", "process", "time"]),
    ("time", &[]),
    ("ui", &["dag", "event", "lenient", "settings", "time"]),
];

#[test]
fn arrows_point_down_only() {
    for (file, text) in sources() {
        let part = part_of(&file);
        if matches!(part.as_str(), "cli" | "lib" | "main") {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == part) else {
            panic!("{}: say in ARROWS what `{part}` may use", file.display());
        };
        for used in uses(&text) {
            let fine = used == part || allowed.contains(&used.as_str());
            assert!(fine, "{}: `{part}` must not use `{used}`", file.display());
        }
    }
}

#[test]
fn every_file_begins_with_what_it_is_for() {
    for (file, text) in sources() {
        let sentence: String =
            text.lines().map_while(|line| line.strip_prefix("//!")).collect::<Vec<_>>().join(" ");
        assert!(!sentence.trim().is_empty(), "{} has no `//!` sentence", file.display());
    }
}

/// Every source file, by its path below `src`.
pub(crate) fn sources() -> Vec<(PathBuf, String)> {
    fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 20);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    files.into_iter().map(read).collect()
}

/// The part that a file belongs to: the folder or file right below `src`.
fn part_of(file: &Path) -> String {
    let first = file.components().next().unwrap();
    Path::new(first.as_os_str()).file_stem().unwrap().to_string_lossy().into_owned()
}

/// The parts that a text names after `crate::`, also in braces, as in `use crate::{dag, time::Now}`.
fn uses(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut used = BTreeSet::new();
    for (at, path) in code.match_indices("crate::") {
        let after = &code[at + path.len()..];
        match after.strip_prefix('{') {
            Some(list) => used.extend(heads(list)),
            None => used.extend(name(after)),
        }
    }
    used
}

/// The first name of each entry in a list that ends with its closing brace.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut start, mut heads) = (0, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                heads.extend(name(&list[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.extend(name(&list[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads
}

/// The name that a text begins with; none for what is not a module, such as a macro of ours.
fn name(text: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let text = text.trim_start();
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let name = &text[..end];
    let is_module = !name.is_empty() && !text[end..].starts_with('!') && name != "self";
    is_module.then(|| name.to_owned())
}

#[test]
fn the_modules_in_a_use_line_are_found() {
    let text = "use crate::dag::Task;\nuse crate::{hint, store::{Store, Claim}, time::Timestamp};\n\
                // crate::cli\nfn f() -> crate::ui::Terminal { crate::jsonl::read() }";
    let used: Vec<String> = uses(text).into_iter().collect();
    assert_eq!(used, ["dag", "hint", "jsonl", "store", "time", "ui"]);
}
