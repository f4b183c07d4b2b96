//! What an agent asks a person by the tool that Claude Code has for it.

use serde_json::Value;

/// The tool by which Claude Code asks the person at its terminal.
pub(super) const ASK: &str = "AskUserQuestion";

/// The questions in what that tool is given, each with its choices.
pub(super) fn asked(input: &str) -> String {
    let input: Value = serde_json::from_str(input).unwrap_or_default();
    let questions = input["questions"].as_array().into_iter().flatten();
    let questions: Vec<String> = questions.filter_map(in_words).collect();
    match questions.as_slice() {
        [] => "it asked something without words".to_owned(),
        questions => questions.join("\n"),
    }
}

fn in_words(question: &Value) -> Option<String> {
    let text = question["question"].as_str()?;
    let options = question["options"].as_array().into_iter().flatten();
    let labels: Vec<&str> = options.filter_map(|it| it["label"].as_str()).collect();
    Some(match labels.as_slice() {
        [] => text.to_owned(),
        labels => format!("{text} ({})", labels.join(" / ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_told_with_their_choices() {
        let check = |input: &str, expected: &str| {
            assert_eq!(asked(&input.replace('\'', "\"")), expected, "{input}");
        };
        check("{'questions':[{'question':'Which colour?'}]}", "Which colour?");
        check(
            "{'questions':[{'question':'Which colour?','header':'Colour','options':[{'label':'Red',\
             'description':'x'},{'label':'Blue'}]},{'question':'When?','options':[]}]}",
            "Which colour? (Red / Blue)\nWhen?",
        );
        for nothing in ["{}", "", "{'questions':7}", "{'questions':[]}"] {
            check(nothing, "it asked something without words");
        }
    }
}
