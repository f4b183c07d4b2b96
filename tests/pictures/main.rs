//! The pictures of the README, drawn from what the program really shows: `scripts/pictures`.
//!
//! `pictures DIRECTORY` plays the demo on an emulated terminal, and in the middle of its run draws
//! that screen and the tree of its tasks as SVG, each as a dark and as a light terminal shows it.
#![expect(clippy::unwrap_used, reason = "what can't be unwrapped is a failure")]

#[path = "../it/harness.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod harness;
mod svg;
#[path = "../it/terminal.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use harness::Project;
use terminal::Terminal;

/// The size of the terminal: what fits a page.
const ROWS: u16 = 50;
const COLUMNS: u16 = 96;

fn main() {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("usage: pictures DIRECTORY"));
    let place = Project::bare();
    let draw = |name: &str, terminal: &Terminal| {
        for (suffix, theme) in [("", svg::DARK), ("-light", svg::LIGHT)] {
            let picture = terminal.look(|screen| svg::picture(screen, &theme));
            fs::write(directory.join(format!("{name}{suffix}.svg")), picture).unwrap();
        }
    };
    let mut demo = Terminal::sized(&place.ralph_command(["demo", "--keep"]), ROWS, COLUMNS);
    // One task is done, one was tried twice, one is being worked on, one waits.
    demo.wait_for("━━ 4 ").wait_for("-> Write(top.sh)").wait_for("  2/4 · ");
    draw("run", &demo);
    let mut tree = place.ralph_command(["task", "tree"]);
    tree.current_dir(project_of_the_demo(&place));
    let mut tree = Terminal::sized(&tree, ROWS, COLUMNS);
    tree.finish();
    draw("tree", &tree);
    demo.finish();
}

fn project_of_the_demo(place: &Project) -> PathBuf {
    let mut kept = fs::read_dir(place.base().join("tmp")).unwrap().map(|it| it.unwrap().path());
    let demo = kept.find(|path| is_demo(path)).unwrap();
    demo.join("wordcount")
}

fn is_demo(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with("ralph-demo-")
}
