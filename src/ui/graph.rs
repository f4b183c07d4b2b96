//! The graph as text, for Graphviz and for Mermaid.

use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::mark::mark;
use super::terminal::Terminal;
use super::text::{cut, printable, width};
use super::tree::names;
use crate::dag::{Kind, Moment, Snapshot, State, TaskId};

/// What a title keeps before the blockers take it.
const TITLE: usize = 20;
/// Deeper nesting is not indented further.
const INDENTED: usize = 12;

/// Writes a line for each of `members`, each after all that it waits for.
pub fn text(
    out: &mut dyn Write,
    snapshot: &Snapshot,
    members: &[usize],
    terminal: Terminal,
) -> io::Result<()> {
    if members.is_empty() {
        return Line::new(terminal).plain("no tasks here yet").write(out);
    }
    let picture = Picture::new(snapshot, members);
    let order = snapshot.graph.order().expect("a snapshot is derived, so its graph has an order");
    for moment in order {
        match moment {
            Moment::Start(task) if picture.is_member[task] => {
                let blockers: Vec<usize> = picture.blockers(task).collect();
                row(snapshot, task, &blockers, terminal).write(out)?;
            }
            Moment::Start(_) | Moment::End(_) => {}
        }
    }
    Ok(())
}

fn row(snapshot: &Snapshot, task: usize, blockers: &[usize], terminal: Terminal) -> Line {
    let (summary, mark) = (&snapshot.tasks[task], mark(snapshot.state(task)));
    let title = printable(&summary.title);
    let style = match snapshot.kind(task) {
        Kind::Group => Style::new().bold(),
        Kind::Work => Style::new(),
    };
    let mut line = Line::new(terminal);
    line.push(mark.symbol, mark.style).skip(1);
    line.push(&summary.id.to_string(), Style::new().dimmed()).skip(2);
    let most = line.room().saturating_sub(width(&title).min(TITLE) + "  <- ".len());
    let names = names(snapshot, blockers, usize::MAX, most);
    if names.is_empty() {
        line.push(&title, style);
    } else {
        let arrow = format!("<- {names}");
        line.push(&cut(&title, line.room() - arrow.len() - 2), style).skip(2);
        line.push(&arrow, Style::new().dimmed());
    }
    line
}

/// Writes a graph for Graphviz.
pub fn dot(out: &mut dyn Write, snapshot: &Snapshot, members: &[usize]) -> io::Result<()> {
    let picture = Picture::new(snapshot, members);
    writeln!(out, "digraph ralph {{")?;
    writeln!(out, "  compound=true;")?;
    writeln!(out, "  graph [fontname=\"Helvetica\"];")?;
    writeln!(out, "  node [fontname=\"Helvetica\", shape=box, style=\"rounded,filled\"];")?;
    writeln!(out, "  edge [color=\"#888888\"];")?;
    for (depth, step) in picture.steps() {
        let indent = "  ".repeat(depth.min(INDENTED) + 1);
        match step {
            Step::Open(task) => {
                let (title, colours) = (dot_text(snapshot, task), Colours::of(snapshot, task));
                writeln!(out, "{indent}subgraph {} {{", cluster(snapshot, task))?;
                writeln!(out, "{indent}  label=\"{title}\";")?;
                writeln!(out, "{indent}  style=rounded;")?;
                writeln!(out, "{indent}  color=\"{}\";", colours.stroke)?;
            }
            Step::Node(task) => {
                let (id, title) = (snapshot.tasks[task].id, dot_text(snapshot, task));
                let Colours { fill, stroke } = Colours::of(snapshot, task);
                write!(out, "{indent}\"{id}\" [label=\"{title}\\n{id}\", ")?;
                writeln!(out, "fillcolor=\"{fill}\", color=\"{stroke}\"];")?;
            }
            Step::Close => writeln!(out, "{indent}}}")?,
        }
    }
    let inner = picture.representatives();
    for (blocker, blocked) in picture.edges() {
        let (tail, head) = (snapshot.tasks[inner[blocker]].id, snapshot.tasks[inner[blocked]].id);
        let ends = [("ltail", blocker), ("lhead", blocked)];
        let ends = ends.into_iter().filter(|&(_, task)| picture.is_cluster(task));
        let ends: Vec<String> =
            ends.map(|(end, task)| format!("{end}={}", cluster(snapshot, task))).collect();
        let ends = if ends.is_empty() { String::new() } else { format!(" [{}]", ends.join(", ")) };
        writeln!(out, "  \"{tail}\" -> \"{head}\"{ends};")?;
    }
    writeln!(out, "}}")
}

/// Writes a flowchart for Mermaid.
pub fn mermaid(out: &mut dyn Write, snapshot: &Snapshot, members: &[usize]) -> io::Result<()> {
    let picture = Picture::new(snapshot, members);
    writeln!(out, "flowchart TD")?;
    for (depth, step) in picture.steps() {
        let indent = "  ".repeat(depth.min(INDENTED) + 1);
        match step {
            Step::Open(task) => {
                let (id, title) = (safe(snapshot.tasks[task].id), mermaid_text(snapshot, task));
                writeln!(out, "{indent}subgraph {id}[\"{title}\"]")?;
            }
            Step::Node(task) => {
                let (id, title) = (safe(snapshot.tasks[task].id), mermaid_text(snapshot, task));
                writeln!(out, "{indent}{id}[\"{title}\"]")?;
            }
            Step::Close => writeln!(out, "{indent}end")?,
        }
    }
    for (blocker, blocked) in picture.edges() {
        let (from, to) = (snapshot.tasks[blocker].id, snapshot.tasks[blocked].id);
        writeln!(out, "  {} --> {}", safe(from), safe(to))?;
    }
    for &state in State::ALL {
        let in_state = members.iter().filter(|&&task| snapshot.state(task) == state);
        let ids: Vec<String> = in_state.map(|&task| safe(snapshot.tasks[task].id)).collect();
        if !ids.is_empty() {
            let Colours { fill, stroke } = Colours::new(state);
            writeln!(out, "  classDef {state} fill:{fill},stroke:{stroke},color:#222222")?;
            writeln!(out, "  class {} {state}", ids.join(","))?;
        }
    }
    Ok(())
}

/// The members of a graph and how they nest.
struct Picture<'a> {
    snapshot: &'a Snapshot,
    members: &'a [usize],
    is_member: Vec<bool>,
}

/// A step of drawing groups around their members.
#[derive(Clone, Copy)]
enum Step {
    Open(usize),
    Node(usize),
    Close,
}

impl<'a> Picture<'a> {
    fn new(snapshot: &'a Snapshot, members: &'a [usize]) -> Picture<'a> {
        let mut is_member = vec![false; snapshot.tasks.len()];
        for &task in members {
            is_member[task] = true;
        }
        Picture { snapshot, members, is_member }
    }

    fn blockers(&self, task: usize) -> impl Iterator<Item = usize> {
        self.snapshot.graph.blockers(task).filter(|&blocker| self.is_member[blocker])
    }

    fn children(&self, task: usize) -> impl Iterator<Item = usize> {
        self.snapshot.graph.children(task).filter(|&child| self.is_member[child])
    }

    /// Pairs of blocker and blocked.
    fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        self.members
            .iter()
            .flat_map(|&task| self.blockers(task).map(move |blocker| (blocker, task)))
    }

    fn is_cluster(&self, task: usize) -> bool {
        self.children(task).next().is_some()
    }

    /// How to draw all members, each step with its depth.
    fn steps(&self) -> Vec<(usize, Step)> {
        let step = |task| if self.is_cluster(task) { Step::Open(task) } else { Step::Node(task) };
        let is_outer = |&&task: &&usize| {
            self.snapshot.parent(task).is_none_or(|parent| !self.is_member[parent])
        };
        let mut stack: Vec<(usize, Step)> =
            self.members.iter().rev().filter(is_outer).map(|&task| (0, step(task))).collect();
        let mut steps = Vec::new();
        while let Some((depth, next)) = stack.pop() {
            steps.push((depth, next));
            if let Step::Open(task) = next {
                stack.push((depth, Step::Close));
                let first = stack.len();
                stack.extend(self.children(task).map(|child| (depth + 1, step(child))));
                stack[first..].reverse();
            }
        }
        steps
    }

    /// For each member a node that is drawn: itself, or the first inside.
    fn representatives(&self) -> Vec<usize> {
        let mut inner: Vec<usize> = (0..self.snapshot.tasks.len()).collect();
        for (_, step) in self.steps().into_iter().rev() {
            if let Step::Open(task) = step {
                let first = self.children(task).next().expect("a cluster has children");
                inner[task] = inner[first];
            }
        }
        inner
    }
}

/// How a state is coloured in a picture.
struct Colours {
    fill: &'static str,
    stroke: &'static str,
}

impl Colours {
    fn of(snapshot: &Snapshot, task: usize) -> Colours {
        Colours::new(snapshot.state(task))
    }

    fn new(state: State) -> Colours {
        let (fill, stroke) = match state {
            State::Ready => ("#ffffff", "#444444"),
            State::Waiting => ("#eeeeee", "#aaaaaa"),
            State::InProgress => ("#d0ebf7", "#2a7fa8"),
            State::Blocked => ("#fdf0c4", "#b58900"),
            State::Done => ("#d7f2da", "#3a8a45"),
            State::Failed => ("#f9d4d4", "#c03030"),
        };
        Colours { fill, stroke }
    }
}

fn dot_text(snapshot: &Snapshot, task: usize) -> String {
    printable(&snapshot.tasks[task].title).replace('\\', r"\\").replace('"', "\\\"")
}

fn cluster(snapshot: &Snapshot, task: usize) -> String {
    format!("cluster_{}", safe(snapshot.tasks[task].id))
}

/// The id where a dash has a meaning.
fn safe(id: TaskId) -> String {
    id.to_string().replace('-', "_")
}

/// A title in which Mermaid finds no syntax: no quotes, tags, Markdown, comments or directives.
fn mermaid_text(snapshot: &Snapshot, task: usize) -> String {
    let title = printable(&snapshot.tasks[task].title);
    if title.trim().is_empty() {
        return snapshot.tasks[task].id.to_string(); // Nothing is an error.
    }
    // A number or a dash in front would begin a list.
    let first_word = title.find(' ').unwrap_or(title.len());
    let mut escaped = String::with_capacity(title.len());
    for (at, character) in title.char_indices() {
        match character {
            '"' => escaped.push_str("#quot;"),
            ' ' | ',' | '\'' | '(' | ')' | '/' | '?' | '!' | '=' => escaped.push(character),
            '.' | '-' if at > first_word => escaped.push(character),
            _ if character.is_ascii_punctuation() => {
                escaped.push_str(&format!("#{};", character as u32));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::ui::testing::{PIPE, all, columns, sample, snapshot, written};

    const NESTED: &str = r#"
        a done: Say "hi" \ <b>`x`</b>
        g group after a: 1. Group #1
        h group in g: - [ ] %%{init}%%
        x in h claimed: fa:fa-x 東京; end
        y in g after h: plain.title - (really)
        e group blocked: Empty
        z failed after g after e: z"#;

    #[test]
    fn a_line_of_text_names_what_a_task_waits_for() {
        let sample = sample();
        assert_snapshot!(written(|out| text(out, &sample, &all(&sample), PIPE)), @r#"
        ✓ t-000000  Set up the project
        ✗ t-000008  Send mail
        ? t-000010  Choose a database
        ○ t-000012  Try again later
        ● t-000013  \u{1b}[31mred\u{202e}desrever "quoted" <b>
        ○ t-000014  Documentation
        ► t-000001  The HTTP API  <- t-000000
        ○ t-000009  Newsletter  <- t-000008
        ✓ t-000002  Log in with a password
        ► t-000003  Log in with OAuth
        ○ t-000004  Reset a forgotten password by mail, with a token that expires  <- t-000003
        ○ t-000005  The web pages  <- t-000001
        ○ t-000006  ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café
        ○ t-000007  Pay  <- t-000006, t-000003, t-000004
        ○ t-000011  Ship it  <- t-000007, t-000009, t-000010
        "#);
        assert_snapshot!(written(|out| text(out, &sample, &all(&sample), columns(50))), @r#"
        ✓ t-000000  Set up the project
        ✗ t-000008  Send mail
        ? t-000010  Choose a database
        ○ t-000012  Try again later
        ● t-000013  \u{1b}[31mred\u{202e}desrever "quoted…
        ○ t-000014  Documentation
        ► t-000001  The HTTP API  <- t-000000
        ○ t-000009  Newsletter  <- t-000008
        ✓ t-000002  Log in with a password
        ► t-000003  Log in with OAuth
        ○ t-000004  Reset a forgotten passwo…  <- t-000003
        ○ t-000005  The web pages  <- t-000001
        ○ t-000006  ホームページ 👩‍👩‍👧‍👦 🇩🇪 Café
        ○ t-000007  Pay  <- t-000006, t-000003, t-000004
        ○ t-000011  Ship it  <- t-000007, t-000009 +1
        "#);
    }

    #[test]
    fn only_members_and_the_edges_between_them_are_drawn() {
        let sample = sample();
        assert_snapshot!(written(|out| text(out, &sample, &[4, 7], PIPE)), @r"
        ○ t-000004  Reset a forgotten password by mail, with a token that expires
        ○ t-000007  Pay  <- t-000004
        ");
        assert_snapshot!(written(|out| mermaid(out, &sample, &[4, 7])), @r#"
        flowchart TD
          t_000004["Reset a forgotten password by mail, with a token that expires"]
          t_000007["Pay"]
          t_000004 --> t_000007
          classDef waiting fill:#eeeeee,stroke:#aaaaaa,color:#222222
          class t_000004,t_000007 waiting
        "#);
        assert_snapshot!(written(|out| text(out, &sample, &[], PIPE)), @"no tasks here yet");
    }

    #[test]
    fn graphviz_gets_clusters_and_edges_that_end_at_them() {
        let nested = snapshot(NESTED);
        assert_snapshot!(written(|out| dot(out, &nested, &all(&nested))), @r##"
        digraph ralph {
          compound=true;
          graph [fontname="Helvetica"];
          node [fontname="Helvetica", shape=box, style="rounded,filled"];
          edge [color="#888888"];
          "t-000000" [label="Say \"hi\" \\ <b>`x`</b>\nt-000000", fillcolor="#d7f2da", color="#3a8a45"];
          subgraph cluster_t_000001 {
            label="1. Group #1";
            style=rounded;
            color="#2a7fa8";
            subgraph cluster_t_000002 {
              label="- [ ] %%{init}%%";
              style=rounded;
              color="#2a7fa8";
              "t-000003" [label="fa:fa-x 東京; end\nt-000003", fillcolor="#d0ebf7", color="#2a7fa8"];
            }
            "t-000004" [label="plain.title - (really)\nt-000004", fillcolor="#eeeeee", color="#aaaaaa"];
          }
          "t-000005" [label="Empty\nt-000005", fillcolor="#fdf0c4", color="#b58900"];
          "t-000006" [label="z\nt-000006", fillcolor="#f9d4d4", color="#c03030"];
          "t-000000" -> "t-000003" [lhead=cluster_t_000001];
          "t-000003" -> "t-000004" [ltail=cluster_t_000002];
          "t-000003" -> "t-000006" [ltail=cluster_t_000001];
          "t-000005" -> "t-000006";
        }
        "##);
    }

    #[test]
    fn mermaid_gets_subgraphs_and_titles_without_syntax() {
        let nested = snapshot(NESTED);
        assert_snapshot!(written(|out| mermaid(out, &nested, &all(&nested))), @r##"
        flowchart TD
          t_000000["Say #quot;hi#quot; #92; #60;b#62;#96;x#96;#60;/b#62;"]
          subgraph t_000001["1#46; Group #35;1"]
            subgraph t_000002["#45; #91; #93; #37;#37;#123;init#125;#37;#37;"]
              t_000003["fa#58;fa#45;x 東京#59; end"]
            end
            t_000004["plain#46;title - (really)"]
          end
          t_000005["Empty"]
          t_000006["z"]
          t_000000 --> t_000001
          t_000002 --> t_000004
          t_000001 --> t_000006
          t_000005 --> t_000006
          classDef waiting fill:#eeeeee,stroke:#aaaaaa,color:#222222
          class t_000004 waiting
          classDef in_progress fill:#d0ebf7,stroke:#2a7fa8,color:#222222
          class t_000001,t_000002,t_000003 in_progress
          classDef blocked fill:#fdf0c4,stroke:#b58900,color:#222222
          class t_000005 blocked
          classDef done fill:#d7f2da,stroke:#3a8a45,color:#222222
          class t_000000 done
          classDef failed fill:#f9d4d4,stroke:#c03030,color:#222222
          class t_000006 failed
        "##);
    }
}
