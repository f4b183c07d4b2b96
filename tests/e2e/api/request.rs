//! What a session asks the API, and which session it is: told by what ralph has written into it.

use serde_json::Value;

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Build,
    Work,
    Verify,
    Loop,
    Interview,
}

/// What the prompt of a loop contains.
pub(crate) const LOOP: &str = "Do the next thing of the loop";

/// What a subagent is told begins like this; the task follows.
pub(super) const PART: &str = "Do a part of the task `";

/// A request for the next message of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) role: Role,
    /// The task it is about; a build is about the root of its feature.
    pub(crate) task: String,
    /// The title of the task.
    pub(crate) title: String,
    /// The how-manieth session of this role on this task, from 1.
    pub(crate) session: usize,
    /// The how-manieth message of the session, from 1.
    pub(crate) turn: usize,
    /// How often this message was asked for, from 1.
    pub(crate) attempt: usize,
    pub(crate) model: String,
    /// How the agent is told to work.
    pub(crate) system: String,
    /// What it is told to work on.
    pub(crate) prompt: String,
    /// The names of the tools it has.
    pub(crate) tools: Vec<String>,
    /// What the last tool printed.
    pub(crate) printed: String,
    /// It asks for a summary of the conversation, which then goes on with the summary alone.
    pub(crate) compacting: bool,
    /// All that was sent.
    pub(crate) body: Value,
    pub(super) streamed: bool,
    /// Whether a subagent asks, which the agent of the task has started.
    pub(crate) is_subagent: bool,
}

impl Request {
    /// A request without its place among others; none for what is no conversation of ours.
    pub(super) fn read(body: &Value) -> Option<Request> {
        let messages = body["messages"].as_array()?;
        let of_role = |role: &'static str| messages.iter().filter(move |it| it["role"] == role);
        let system = text_of(&body["system"]);
        let prompt = of_role("user").next().map(|it| text_of(&it["content"])).unwrap_or_default();
        let part = between(&prompt, PART, "`").map(str::to_owned);
        // After a compaction the first message is a summary.
        let texts: Vec<String> = messages.iter().map(|it| text_of(&it["content"])).collect();
        let everything = texts.join("\n");
        let id = |text| between(text, "\nId: `", "`");
        let (role, task) = if let Some(task) = &part {
            (Role::Work, task.as_str())
        } else if system.contains("# Your job: check that a task is done") {
            (Role::Verify, id(&prompt).or_else(|| id(&everything))?)
        } else if system.contains("# How this session works") {
            // In a terminal of its own the task may stand in the system prompt.
            (Role::Work, id(&prompt).or_else(|| id(&system)).or_else(|| id(&everything))?)
        } else if system.contains("# Your job: the spec of the feature") {
            (Role::Interview, "")
        } else if prompt.contains(LOOP) {
            (Role::Loop, "")
        } else {
            (Role::Build, between(&system, "below the root group `", "`")?)
        };
        Some(Request {
            role,
            task: task.to_owned(),
            title: title(&prompt).or_else(|| title(&system)).unwrap_or_default().to_owned(),
            session: 0,
            turn: of_role("assistant").count() + 1,
            attempt: 0,
            model: body["model"].as_str()?.to_owned(),
            tools: body["tools"]
                .as_array()?
                .iter()
                .filter_map(|it| Some(it["name"].as_str()?.to_owned()))
                .collect(),
            printed: of_role("user").next_back().map(printed_by).unwrap_or_default(),
            streamed: body["stream"] == true,
            is_subagent: part.is_some(),
            compacting: texts.last().is_some_and(|it| it.contains("detailed summary")),
            body: body.clone(),
            system,
            prompt,
        })
    }
}

/// The text of a message, which is a string or a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// What the tools printed whose results are in a message.
fn printed_by(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|block| text_of(&block["content"])).collect::<Vec<_>>().join("\n")
}

/// The title of the task that a session works on or checks.
fn title(prompt: &str) -> Option<&str> {
    let headings = ["# Your task in this session: ", "# The task that is to be checked: "];
    headings.into_iter().find_map(|heading| between(prompt, heading, "\n"))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
