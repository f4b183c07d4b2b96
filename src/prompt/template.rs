//! The prompts: prose in `prompts/`, with placeholders such as `{{name}}`. A file of the same name in
//! a project's `.ralph/prompts/` replaces one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::hint::{HintExt, Hinted};

/// Which prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// Interviews a person into a spec.
    FeatureSpec,
    /// Turns a spec into a plan, with a person.
    FeaturePlan,
    /// Turns a plan into tasks, alone.
    FeatureBuild,
    /// Interviews a person into one task.
    TaskCreate,
    /// Tells an agent how to work on a task.
    Work,
    /// Asks an agent to write down what it learned; a part of the one before.
    Learn,
    /// Has an agent check the work of another.
    Verify,
    /// Has an agent do one item of a plan: what `ralph loop --plan` says without a prompt.
    LoopPlan,
}

/// What the placeholders of a prompt stand for.
pub type Values<'a> = HashMap<&'static str, &'a str>;

impl Prompt {
    /// The name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            Prompt::FeatureSpec => "feature_spec.md",
            Prompt::FeaturePlan => "feature_plan.md",
            Prompt::FeatureBuild => "feature_build.md",
            Prompt::TaskCreate => "task_create.md",
            Prompt::Work => "work.md",
            Prompt::Learn => "learn.md",
            Prompt::Verify => "verify.md",
            Prompt::LoopPlan => "loop_plan.md",
        }
    }

    fn built_in(self) -> &'static str {
        match self {
            Prompt::FeatureSpec => include_str!("../../prompts/feature_spec.md"),
            Prompt::FeaturePlan => include_str!("../../prompts/feature_plan.md"),
            Prompt::FeatureBuild => include_str!("../../prompts/feature_build.md"),
            Prompt::TaskCreate => include_str!("../../prompts/task_create.md"),
            Prompt::Work => include_str!("../../prompts/work.md"),
            Prompt::Learn => include_str!("../../prompts/learn.md"),
            Prompt::Verify => include_str!("../../prompts/verify.md"),
            Prompt::LoopPlan => include_str!("../../prompts/loop_plan.md"),
        }
    }

    /// The text for these values, from the user's own file in `overrides` if there is one.
    pub fn render(self, overrides: &Path, values: &Values<'_>) -> Result<String> {
        let path = overrides.join(self.file_name());
        let given = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return fill(self.built_in(), values);
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("can't read the prompt `{}`", path.display()));
            }
        };
        let remedy = "repair it, or remove it to use the built-in prompt";
        let text = String::from_utf8(given)
            .map_err(|_| anyhow!("the prompt `{}` is not UTF-8 text", path.display()))
            .hint(remedy)?;
        if text.trim().is_empty() {
            return Err(anyhow!("the prompt `{}` is empty", path.display())).hint(remedy);
        }
        fill(&text, values).with_context(|| format!("the prompt `{}`", path.display()))
    }
}

/// Puts the values in place of the placeholders. What a value contains is not looked at again.
fn fill(template: &str, values: &Values<'_>) -> Result<String> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        let (before, after) = rest.split_at(start);
        text.push_str(before);
        match placeholder(after) {
            Some((name, end)) => {
                let value = values.get(name).ok_or_else(|| {
                    let line = 1 + template[..template.len() - after.len()].matches('\n').count();
                    unknown(name, line, values)
                })?;
                text.push_str(value);
                rest = &after[end..];
            }
            None => {
                text.push_str("{{");
                rest = &after[2..];
            }
        }
    }
    text.push_str(rest);
    Ok(text)
}

/// The name in a placeholder that `text` begins with, and where the placeholder ends. Braces around
/// anything but one word are just braces.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?.trim_start();
    // No further than the word goes: what is never closed is not looked through again and again.
    let is_end = |c: char| !c.is_alphanumeric() && c != '_' && c != '-';
    let (name, rest) = inner.split_at(inner.find(is_end)?);
    let rest = rest.trim_start().strip_prefix("}}")?;
    (!name.is_empty()).then_some((name, text.len() - rest.len()))
}

fn unknown(name: &str, line: usize, values: &Values<'_>) -> anyhow::Error {
    let mut known: Vec<String> = values.keys().map(|name| format!("{{{{{name}}}}}")).collect();
    known.sort();
    let name = match name.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    };
    Hinted {
        source: anyhow!("line {line}: there is no placeholder `{{{{{name}}}}}`"),
        hint: format!("it may use {}", known.join(", ")),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> Result<String> {
        fill(template, &Values::from([("name", "login"), ("context", "{{name}}")]))
    }

    #[test]
    fn a_placeholder_becomes_its_value_and_nothing_else_changes() {
        for (template, text) in [
            ("", ""),
            ("no placeholder", "no placeholder"),
            ("{{name}}", "login"),
            ("a {{ name }} b {{name}}", "a login b login"),
            ("{{context}}", "{{name}}"),
            ("{ {name} }", "{ {name} }"),
            ("{{ \"a\": {} }}", "{{ \"a\": {} }}"),
            ("{{", "{{"),
            ("{{{name}}}", "{{{name}}}"),
            ("größe {{name}} 東京", "größe login 東京"),
            ("{{name", "{{name"),
            ("{{name }", "{{name }"),
            ("{{na me}}", "{{na me}}"),
            ("{{}}{{ }}", "{{}}{{ }}"),
            ("{{\n name\t}}", "login"),
        ] {
            assert_eq!(filled(template).unwrap(), text, "{template:?}");
        }
    }

    #[test]
    fn braces_that_nothing_closes_take_no_time() {
        let braces = "{{ ".repeat(500_000);
        assert_eq!(filled(&braces).unwrap(), braces);
    }

    #[test]
    fn an_unknown_placeholder_is_an_error_that_names_it() {
        let error = filled("one\ntwo {{nmae}}").unwrap_err();
        assert_eq!(format!("{error:#}"), "line 2: there is no placeholder `{{nmae}}`");
        assert_eq!(crate::hint::hint_of(&error), Some("it may use {{context}}, {{name}}"));
        let error = filled(&format!("{{{{{}}}}}", "é".repeat(10_000))).unwrap_err();
        let named = format!("line 1: there is no placeholder `{{{{{}…}}}}`", "é".repeat(60));
        assert_eq!(format!("{error:#}"), named);
    }
}
