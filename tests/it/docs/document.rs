//! A document in, what there is to do in it out: commands with what they print, settings, pictures.

use std::fmt;
use std::process::{Command, Stdio};

/// Something in a document that can be tried, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A command, and what is shown of its output.
    Run { command: String, shown: Option<Vec<String>> },
    /// Settings that must be accepted.
    Settings(String),
    /// What `ralph graph --format mermaid` prints here.
    Picture(Vec<String>),
    /// The story begins anew.
    NewProject,
    /// From here on agents play these scripts, one after the other; by default, when there are none.
    Agent(Vec<String>),
}

/// What a document says that nobody can try.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unclear {
    pub(super) line: usize,
    pub(super) why: String,
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.why)
    }
}

/// A fenced block.
struct Block<'a> {
    /// The line of its first line of content.
    line: usize,
    language: &'a str,
    content: Vec<&'a str>,
}

/// Everything in a document that can be tried, in order.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, Unclear> {
    let mut steps = Vec::new();
    let mut scripts: Vec<String> = Vec::new();
    let mut skip = false;
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        if let Some(directive) = directive(lines[at]) {
            let what = match directive.split_once(' ').unwrap_or((directive, "")) {
                ("new", "project") => Some(What::NewProject),
                ("first", command) => {
                    if !scripts.is_empty() {
                        let what = What::Agent(scripts.clone());
                        steps.push(Step { line: at + 1, what });
                    }
                    Some(What::Run { command: command.to_owned(), shown: None })
                }
                ("agent", script) => {
                    scripts.push(script.to_owned());
                    None
                }
                ("skip", why) if why.starts_with("because ") => {
                    skip = true;
                    None
                }
                _ => return unclear(at + 1, format!("`{directive}` is not known")),
            };
            steps.extend(what.map(|what| Step { line: at + 1, what }));
            at += 1;
        } else if let Some(block) = block_at(&lines, at)? {
            at = block.line + block.content.len();
            if std::mem::take(&mut skip) {
                continue;
            }
            let scripted = !scripts.is_empty();
            if scripted {
                let what = What::Agent(std::mem::take(&mut scripts));
                steps.push(Step { line: block.line, what });
            }
            steps.extend(read(&block)?);
            if scripted {
                steps.push(Step { line: at, what: What::Agent(Vec::new()) });
            }
        } else {
            at += 1;
        }
    }
    if skip || !scripts.is_empty() {
        return unclear(at, "no block follows the last `<!-- test: … -->`".to_owned());
    }
    Ok(steps)
}

fn unclear<T>(line: usize, why: String) -> Result<T, Unclear> {
    Err(Unclear { line, why })
}

/// What a line such as `<!-- test: new project -->` says.
fn directive(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix("<!-- test:")?.strip_suffix("-->")?.trim())
}

/// The block whose opening fence is this line; one in a list is indented.
fn block_at<'a>(lines: &[&'a str], at: usize) -> Result<Option<Block<'a>>, Unclear> {
    let indent = lines[at].len() - lines[at].trim_start_matches(' ').len();
    let Some(language) = lines[at][indent..].strip_prefix("```") else { return Ok(None) };
    let rest = &lines[at + 1..];
    let Some(length) = rest.iter().position(|line| line.trim() == "```") else {
        return unclear(at + 1, "this block has no end".to_owned());
    };
    let content = rest[..length].iter().map(|line| {
        let blanks = line.bytes().take(indent).take_while(|&byte| byte == b' ').count();
        &line[blanks..]
    });
    Ok(Some(Block { line: at + 2, language: language.trim(), content: content.collect() }))
}

fn read(block: &Block<'_>) -> Result<Vec<Step>, Unclear> {
    let one = |what| Ok(vec![Step { line: block.line, what }]);
    match block.language {
        "sh" => commands(&block.content, block.line),
        "console" => conversation(block),
        "yaml" => workflow(block),
        "toml" => one(What::Settings(block.content.join("\n"))),
        "mermaid" => one(What::Picture(block.content.iter().map(|it| (*it).to_owned()).collect())),
        "" | "json" | "text" => Ok(Vec::new()),
        other => unclear(block.line - 1, format!("nobody knows what to do with `{other}` blocks")),
    }
}

/// The commands of a script, one after the other.
fn commands(script: &[&str], line: usize) -> Result<Vec<Step>, Unclear> {
    let mut steps = Vec::new();
    let mut at = 0;
    while at < script.len() {
        if script[at].trim().is_empty() || script[at].trim_start().starts_with('#') {
            at += 1;
            continue;
        }
        let taken = length_of_command(&script[at..]);
        let Some(length) = taken else {
            return unclear(line + at, "this command has no end".to_owned());
        };
        let command = script[at..at + length].join("\n");
        steps.push(Step { line: line + at, what: What::Run { command, shown: None } });
        at += length;
    }
    Ok(steps)
}

/// How many of these lines are the first command.
fn length_of_command(lines: &[&str]) -> Option<usize> {
    (1..=lines.len()).find(|&length| is_complete(&lines[..length]))
}

fn is_complete(lines: &[&str]) -> bool {
    let last = lines.last().copied().unwrap_or_default();
    !last.ends_with('\\') && !has_open_heredoc(lines) && is_syntax(&lines.join("\n"))
}

/// Whether a heredoc that begins in these lines goes on after them.
fn has_open_heredoc(lines: &[&str]) -> bool {
    let mut end: Option<String> = None;
    for line in lines {
        match &end {
            Some(word) if line.trim() == word => end = None,
            Some(_) => {}
            None => {
                let word = line.split_once("<<").map(|(_, rest)| rest.trim_start_matches('-'));
                let word = word.and_then(|rest| rest.split_whitespace().next());
                end = word.map(|word| word.trim_matches(['\'', '"', ')']).to_owned());
            }
        }
    }
    end.is_some()
}

fn is_syntax(script: &str) -> bool {
    let mut shell = Command::new("bash");
    let status = shell.args(["-n", "-c", script]).stderr(Stdio::null()).status();
    status.expect("there is a bash").success()
}

/// Lines that begin with `$ ` are commands (`> ` goes on with one that is not complete), the others are
/// what they print.
fn conversation(block: &Block<'_>) -> Result<Vec<Step>, Unclear> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = block.content.iter().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let line_number = block.line + at;
        if let Some(first) = line.strip_prefix("$ ") {
            let mut command = vec![first];
            while !is_complete(&command) {
                let Some(more) = lines.next().and_then(|(_, line)| line.strip_prefix('>')) else {
                    return unclear(line_number, "this command has no end".to_owned());
                };
                command.push(more.strip_prefix(' ').unwrap_or(more));
            }
            let what = What::Run { command: command.join("\n"), shown: Some(Vec::new()) };
            steps.push(Step { line: line_number, what });
        } else if let Some(What::Run { shown: Some(shown), .. }) =
            steps.last_mut().map(|step| &mut step.what)
        {
            shown.push((*line).to_owned());
        } else {
            return unclear(line_number, "this is printed by no command".to_owned());
        }
    }
    Ok(steps)
}

/// What the steps of a workflow run.
fn workflow(block: &Block<'_>) -> Result<Vec<Step>, Unclear> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut steps = Vec::new();
    let mut at = 0;
    while at < block.content.len() {
        let line = block.content[at];
        let key = line.trim_start().trim_start_matches("- ");
        let depth = line.len() - key.len();
        at += 1;
        match key.strip_prefix("run:").map(str::trim) {
            None => {}
            Some("|") => {
                let rest = &block.content[at..];
                let is_inside = |line: &&&str| line.trim().is_empty() || indent(line) > depth;
                let inner: Vec<String> = rest
                    .iter()
                    .take_while(is_inside)
                    .map(|line| without_expressions(line))
                    .collect();
                let inner: Vec<&str> = inner.iter().map(|line| line.trim_start()).collect();
                steps.extend(commands(&inner, block.line + at)?);
                at += inner.len();
            }
            Some(command) => {
                let command = without_expressions(command);
                steps.extend(commands(&[&command], block.line + at - 1)?);
            }
        }
    }
    Ok(steps)
}

/// A line of a workflow in which something stands for each `${{ … }}`.
fn without_expressions(line: &str) -> String {
    let (mut rest, mut text) = (line, String::new());
    while let Some((before, after)) = rest.split_once("${{") {
        text.push_str(before);
        text.push_str("expression");
        rest = after.split_once("}}").map_or("", |(_, after)| after);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: usize, command: &str, shown: Option<&[&str]>) -> Step {
        let shown = shown.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect());
        Step { line, what: What::Run { command: command.to_owned(), shown } }
    }

    #[test]
    fn a_script_is_cut_into_commands() {
        let text = "a\n```sh\nls   # all\n# no\n\nralph task add --stdin <<'END'\n{\"title\": 1}\nEND\n\
                    for x in 1 2; do\n  echo $x\ndone\necho a \\\n  b\n```\n```\nnothing\n```\n";
        let expected = [
            run(3, "ls   # all", None),
            run(6, "ralph task add --stdin <<'END'\n{\"title\": 1}\nEND", None),
            run(9, "for x in 1 2; do\n  echo $x\ndone", None),
            run(12, "echo a \\\n  b", None),
        ];
        assert_eq!(steps(text).unwrap(), expected);
    }

    #[test]
    fn a_block_in_a_list_is_one_too() {
        let text = "- a\n  ```sh\n  echo a \\\n    b\n  ```\n";
        assert_eq!(steps(text).unwrap(), [run(3, "echo a \\\n  b", None)]);
    }

    #[test]
    fn a_conversation_shows_what_commands_print() {
        let text = "```console\n$ one\n1\n\n> 2\n$ cat <<E\n> x\n> E\nx\n$ three\n```\n";
        let expected = [
            run(2, "one", Some(&["1", "", "> 2"])),
            run(6, "cat <<E\nx\nE", Some(&["x"])),
            run(10, "three", Some(&[])),
        ];
        assert_eq!(steps(text).unwrap(), expected);
    }

    #[test]
    fn a_workflow_runs_commands() {
        let text = "```yaml\nsteps:\n  - run: one ${{ a.b }}\n  - name: x\n    run: |\n      two\n\n      \
                    three\n    env: {}\n```\n";
        let expected = [run(3, "one expression", None), run(6, "two", None), run(8, "three", None)];
        assert_eq!(steps(text).unwrap(), expected);
    }

    #[test]
    fn comments_say_what_a_reader_need_not_know() {
        let text = "<!-- test: new project -->\n<!-- test: first ls -->\n<!-- test: skip because of rain -->\n```sh\nno\n```\n\
                    <!-- test: agent fail x -->\n<!-- test: agent done -->\n```sh\nyes\n```\n";
        let agent = |line, scripts: &[&str]| {
            let scripts = scripts.iter().map(|it| (*it).to_owned()).collect();
            Step { line, what: What::Agent(scripts) }
        };
        let expected = [
            Step { line: 1, what: What::NewProject },
            run(2, "ls", None),
            agent(10, &["fail x", "done"]),
            run(10, "yes", None),
            agent(11, &[]),
        ];
        assert_eq!(steps(text).unwrap(), expected);
    }

    #[test]
    fn what_nobody_can_try_is_said_to_be_so() {
        for (text, line) in [
            ("```sh\necho 'a\n```\n", 2),
            ("```sh\ncat <<END\n```\n", 2),
            ("\n```sh\nls\n", 2),
            ("```ruby\nputs\n```\n", 1),
            ("```console\nnothing\n```\n", 2),
            ("<!-- test: sing -->\n", 1),
            ("<!-- test: agent done -->\n", 1),
            ("<!-- test: skip -->\n```sh\nls\n```\n", 1),
        ] {
            assert_eq!(steps(text).unwrap_err().line, line, "{text}");
        }
    }
}
