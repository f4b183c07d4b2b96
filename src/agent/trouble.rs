//! Why a session did not end well, from what the API and the program said: from their fields where they
//! have one for it, from their words where they have none.

use std::fmt;
use std::time::Duration;

use crate::event::Finished;

/// How much of what the API says is kept.
const MAX_WORDS: usize = 2_000;

/// Why a session did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The account has used up what it may use.
    UsageLimit {
        /// Which window, in the words of the API: `five_hour`, `seven_day`, `seven_day_opus`, …
        window: Option<String>,
        /// When it begins anew, in seconds since 1970.
        resets_at: Option<i64>,
    },
    /// Too many requests at a time.
    RateLimited,
    /// The API is overloaded.
    Overloaded,
    /// The API failed.
    Server(u16),
    /// The API could not be reached, for this reason.
    Connection(String),
    /// Something else answered in place of the API, and said this: the login page of a network, a proxy,
    /// a gateway.
    Intercepted(String),
    /// The API was asked, and then there was silence.
    Unanswered,
    /// The key is wrong, or may not do this.
    Authentication,
    /// There is no credit left.
    NoCredit,
    /// There is no model of this name, or not for this account.
    ModelNotFound(String),
    /// The prompt is longer than the model can read, in the words of the API.
    PromptTooLong(String),
    /// The API did not accept the request for another reason, in its words.
    InvalidRequest(String),
    /// The model refused to do it, in its words and those of the API.
    Refusal(String),
    /// The answer was longer than the model can write.
    MaxTokens,
    /// What was said in the session is more than the model can keep in mind.
    ContextFull,
    /// The limit on turns was reached.
    MaxTurns,
    /// The limit on cost was reached.
    Budget,
    /// It was stopped.
    Aborted,
    /// It ended with an error of another kind.
    Error(String),
    /// It asked a person this, and nobody answered.
    Question(String),
    /// The program was never set up on this machine, and can't set itself up: it asks this, or has no network.
    NotSetUp(String),
    /// The program asks at its first start for a person's consent, and there was none.
    NoConsent(String),
    /// It ended without a result.
    NoResult,
    /// It was ended because there was no activity for this long.
    Idle(Duration),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut with = |what: &str, words: &str| match words {
            "" => f.write_str(what),
            words => write!(f, "{what}: {words}"),
        };
        match self {
            Trouble::UsageLimit { .. } => f.write_str("the usage limit is reached"),
            Trouble::RateLimited => f.write_str("too many requests at a time"),
            Trouble::Overloaded => f.write_str("the API is overloaded"),
            Trouble::Server(status) => write!(f, "the API failed with status {status}"),
            Trouble::Connection(words) => with("the API could not be reached", words),
            Trouble::Intercepted(words) => {
                with("something else answered in place of the API", words)
            }
            Trouble::Unanswered => f.write_str("the API was asked and did not answer"),
            Trouble::Authentication => f.write_str("the API key or login was not accepted"),
            Trouble::NoCredit => f.write_str("there is no credit left"),
            Trouble::ModelNotFound(model) => {
                write!(f, "there is no model `{model}` for this account")
            }
            Trouble::PromptTooLong(words) => with("the prompt is too long for the model", words),
            Trouble::InvalidRequest(words) => with("the API did not accept the request", words),
            Trouble::Refusal(words) => with("the model refused", words),
            Trouble::MaxTokens => {
                f.write_str("the answer was cut off: it is longer than the model can write")
            }
            Trouble::ContextFull => f.write_str("the context window of the model is full"),
            Trouble::MaxTurns => f.write_str("the limit on turns was reached"),
            Trouble::Budget => f.write_str("the limit on cost was reached"),
            Trouble::Aborted => f.write_str("the session was stopped"),
            Trouble::Error(words) => f.write_str(words),
            Trouble::Question(question) => {
                write!(f, "the agent asked a question, and nobody answered: {question}")
            }
            Trouble::NotSetUp(words) => {
                write!(f, "the agent was never set up here, and {words}: start it once by hand")
            }
            Trouble::NoConsent(words) => write!(
                f,
                "the agent was never started here, and {words}: start it once by hand in this directory"
            ),
            Trouble::NoResult => f.write_str("the session ended without a result"),
            Trouble::Idle(time) => {
                let seconds = time.as_secs_f64();
                write!(f, "no activity for {seconds} s (--idle-timeout): session ended")
            }
        }
    }
}

impl Trouble {
    /// Whether its words are those of the API: how the process ended adds nothing to them.
    pub fn is_told_by_the_api(&self) -> bool {
        matches!(
            self,
            Trouble::PromptTooLong(_)
                | Trouble::InvalidRequest(_)
                | Trouble::Refusal(_)
                | Trouble::MaxTokens
                | Trouble::ContextFull
                | Trouble::Unanswered
        )
    }
}

/// How the program tells that the API has refused for good.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What kind it is.
    pub(super) kind: String,
    /// More precisely, where it says so.
    pub(super) detail: String,
    /// The HTTP status, if there was an answer.
    pub(super) status: Option<u16>,
}

/// What is known of a session that ended with an error.
pub(super) struct Evidence<'a> {
    pub(super) finished: &'a Finished<'a>,
    pub(super) refusal: Option<&'a Refusal>,
    /// Why the model refused, if it did; empty if no reason is given.
    pub(super) declined: Option<&'a str>,
    /// What the model itself said last.
    pub(super) own_words: &'a str,
    /// The window that is used up, and when it begins anew.
    pub(super) limit: Option<&'a (Option<String>, Option<i64>)>,
    /// The model of the session.
    pub(super) model: &'a str,
}

impl Evidence<'_> {
    pub(super) fn trouble(&self) -> Trouble {
        let finished = self.finished;
        let text = finished.text.as_deref().unwrap_or_default();
        let (kind, detail, status) = match self.refusal {
            Some(it) => (it.kind.as_str(), it.detail.as_str(), it.status),
            None => ("", "", None),
        };
        let status = status.or(finished.api_status).or_else(|| status_in(text));
        // Versions that tell the type of an error end a session with this reason; only the API has types.
        let tells_types = finished.terminal_reason.as_deref() == Some("api_error");
        match (&*finished.subtype, finished.terminal_reason.as_deref().unwrap_or_default()) {
            ("error_max_turns", _) => return Trouble::MaxTurns,
            ("error_max_budget_usd", _) => return Trouble::Budget,
            (_, "aborted_streaming" | "aborted_tools") => return Trouble::Aborted,
            (_, "prompt_too_long") => return Trouble::PromptTooLong(words_of(text, status)),
            _ => {}
        }
        if detail == "usage_limit_reached" || is_usage_limit(text) {
            let (window, resets_at) = self.limit.cloned().unwrap_or_default();
            return Trouble::UsageLimit { window, resets_at: resets_at.or(epoch_in(text)) };
        }
        if self.declined.is_some() || finished.stop_reason.as_deref() == Some("refusal") {
            return Trouble::Refusal(self.words_of_the_refusal(text));
        }
        if finished.api_error.is_none() && is_not_of_the_api(text, status, tells_types) {
            return Trouble::Intercepted(first_sentence(&words_of(text, status)));
        }
        match (kind, status) {
            ("max_output_tokens", _) if text.contains("context window") => Trouble::ContextFull,
            ("max_output_tokens", _) => Trouble::MaxTokens,
            ("billing_error", _) => Trouble::NoCredit,
            ("authentication_failed", _) | (_, Some(401 | 403)) => Trouble::Authentication,
            ("model_not_found", _) => Trouble::ModelNotFound(self.model.to_owned()),
            ("overloaded", _) | (_, Some(529)) => Trouble::Overloaded,
            ("rate_limit", _) | (_, Some(429)) => Trouble::RateLimited,
            (_, Some(status)) if status >= 500 => Trouble::Server(status),
            (_, Some(408)) | ("server_error", None) => {
                Trouble::Connection(first_sentence(&words_of(text, status)))
            }
            ("invalid_request", _) | (_, Some(_)) => {
                Trouble::InvalidRequest(words_of(text, status))
            }
            _ => Trouble::Error(describe(finished, text)),
        }
    }

    /// What the model said itself, and why it was stopped.
    fn words_of_the_refusal(&self, text: &str) -> String {
        let why = match self.declined.unwrap_or_default().trim() {
            // What follows is advice for a person at the terminal.
            "" => words_of(text, None).split("\n\n").next().unwrap_or_default().to_owned(),
            why => why.to_owned(),
        };
        let said = [self.own_words.trim(), &why];
        let said: Vec<&str> = said.into_iter().filter(|it| !it.is_empty()).collect();
        cut(&said.join("\n"))
    }
}

/// Whether something between here and the API has answered: the API never sends a page or such a status.
fn is_not_of_the_api(text: &str, status: Option<u16>, tells_types: bool) -> bool {
    let Some(words) = text.split_once("API Error: ").map(|(_, words)| words.trim_start()) else {
        return false;
    };
    match status {
        None => words.starts_with("API returned an empty or malformed response"),
        Some(300..=399 | 407 | 511) => true,
        // These mean the same from a gateway, and a broken gateway sends pages, too.
        Some(401 | 429 | 500..) => false,
        Some(status) => {
            let lower = words.to_ascii_lowercase();
            // Of a page they say the title; older versions without the status that they put before anything else.
            let rest = words.strip_prefix(&status.to_string()).map(str::trim_start);
            let is_title = rest.is_none_or(|rest| tells_types && !rest.starts_with('{'));
            is_title || lower.contains("<html") || lower.contains("<!doctype")
        }
    }
}

/// The status that the program says before the words of the API, where it has no field for it.
fn status_in(text: &str) -> Option<u16> {
    let (_, words) = text.split_once("API Error: ")?;
    let status = words.split_whitespace().next()?.parse().ok()?;
    (100..600).contains(&status).then_some(status)
}

/// What the API said, without what the program puts before it.
fn words_of(text: &str, status: Option<u16>) -> String {
    let words = text.split_once("API Error: ").map_or(text, |(_, words)| words).trim();
    let status = status.map(|it| it.to_string()).unwrap_or_default();
    cut(words.strip_prefix(status.as_str()).unwrap_or(words).trim())
}

/// What is said before all advice and detail.
fn first_sentence(words: &str) -> String {
    let line = words.lines().next().unwrap_or_default();
    let end = [". ", " — check for "].iter().filter_map(|it| line.find(it)).min();
    line[..end.unwrap_or(line.len())].to_owned()
}

fn cut(words: &str) -> String {
    match words.char_indices().nth(MAX_WORDS) {
        None => words.to_owned(),
        Some((end, _)) => format!("{}…", &words[..end]),
    }
}

fn is_usage_limit(text: &str) -> bool {
    text.contains("usage limit reached")
        || (text.starts_with("You've hit your ") && text.contains(" limit"))
}

/// The time in `Claude AI usage limit reached|1794798343`, as older programs say it.
fn epoch_in(text: &str) -> Option<i64> {
    let (_, time) = text.split_once("limit reached|")?;
    let digits: String = time.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|seconds| (1..100_000_000_000).contains(seconds))
}

fn describe(finished: &Finished<'_>, text: &str) -> String {
    let first = finished.errors.first().map_or(text, |error| error);
    if first.is_empty() { finished.subtype.to_string() } else { first.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the real program said: kind, status, stop reason and text.
    #[track_caller]
    fn check(kind: &str, status: Option<u16>, text: &str, expected: &str) {
        let finished = Finished {
            subtype: "success".into(),
            text: Some(text.into()),
            api_status: status,
            ..Finished::default()
        };
        let refusal = Refusal { kind: kind.into(), detail: String::new(), status: None };
        let evidence = Evidence {
            finished: &finished,
            refusal: Some(&refusal),
            declined: None,
            own_words: "",
            limit: None,
            model: "claude-nope",
        };
        assert_eq!(evidence.trouble().to_string(), expected, "{text}");
    }

    #[test]
    fn an_answer_that_is_not_from_the_api_is_told_apart() {
        let page = "API returned an empty or malformed response (HTTP 200)";
        let portal = format!("something else answered in place of the API: {page}");
        for detail in ["", ". Response: content-type html, body is an HTML page, 99 bytes"] {
            let text = format!(
                "API Error: {page} — check for a proxy or gateway intercepting the request{detail}"
            );
            check("unknown", None, &text, &portal);
        }
        let login = "something else answered in place of the API: Hotel Wi-Fi login";
        check("unknown", Some(407), "API Error: 407 Hotel Wi-Fi login", login);
        check("unknown", Some(407), "API Error: Hotel Wi-Fi login", login);
        check("unknown", Some(400), "API Error: Hotel Wi-Fi login", login);
        check("server_error", Some(511), "API Error: 511 Hotel Wi-Fi login. Advice.", login);
        let denied = "Failed to authenticate. API Error: Hotel Wi-Fi login";
        check("authentication_failed", Some(403), denied, login);
        let html = "something else answered in place of the API: <html><body>";
        check("unknown", Some(400), "API Error: 400 <html><body>", html);
    }

    #[test]
    fn an_error_without_a_type_is_not_from_the_api_where_errors_have_types() {
        let trouble = |terminal_reason: Option<&'static str>, api_error, text: &'static str| {
            let finished = Finished {
                text: Some(text.into()),
                terminal_reason: terminal_reason.map(Into::into),
                api_error,
                ..Finished::default()
            };
            let refusal =
                Refusal { kind: "authentication_failed".into(), detail: "".into(), status: None };
            let (declined, own_words, limit, model) = (None, "", None, "");
            let refusal = Some(&refusal);
            Evidence { finished: &finished, refusal, declined, own_words, limit, model }.trouble()
        };
        let page = "Please run /login · API Error: 403 Hotel Wi-Fi login";
        let login = Trouble::Intercepted("Hotel Wi-Fi login".into());
        assert_eq!(trouble(Some("api_error"), None, page), login);
        let typed = Some("permission_error".into());
        assert_eq!(trouble(Some("api_error"), typed, page), Trouble::Authentication);
        assert_eq!(trouble(None, None, page), Trouble::Authentication, "an older version");
        let gateway = "Failed to authenticate. API Error: 403 {\"detail\":\"no\"}";
        assert_eq!(trouble(Some("api_error"), None, gateway), Trouble::Authentication);
    }

    #[test]
    fn what_the_api_says_itself_is_its_own() {
        let denied = "Failed to authenticate. API Error: 403 not allowed";
        let wrong = "the API key or login was not accepted";
        check("authentication_failed", Some(403), denied, wrong);
        check("authentication_failed", Some(401), "Invalid API key", wrong);
        let odd = "the API did not accept the request: messages: too odd";
        check("unknown", Some(400), "API Error: 400 messages: too odd", odd);
        let large = "the API did not accept the request: Request too large (max 32MB).";
        check("invalid_request", Some(413), "Request too large (max 32MB).", large);
        check(
            "model_not_found",
            Some(404),
            "There's an issue with the selected model (claude-nope).",
            "there is no model `claude-nope` for this account",
        );
        let gateway = "API Error: Hotel Wi-Fi login. This is a server-side issue";
        check("server_error", Some(502), gateway, "the API failed with status 502");
    }

    #[test]
    fn a_line_that_is_dead_says_how() {
        for words in [
            "Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
            "Can't reach the API server — check your internet or DNS (ENOTFOUND)",
            "Unable to connect to API (UNKNOWN_CERTIFICATE_VERIFICATION_ERROR)",
            "Couldn't connect through your proxy (ERR_PROXY_TUNNEL)",
        ] {
            let expected = format!("the API could not be reached: {words}");
            check("server_error", None, &format!("API Error: {words}"), &expected);
        }
    }

    #[test]
    fn an_answer_that_is_too_long_is_told_from_a_session_that_is() {
        let cut = "the answer was cut off: it is longer than the model can write";
        let long = "API Error: Claude's response exceeded the 64000 output token maximum.";
        check("max_output_tokens", None, long, cut);
        let full = "API Error: The model has reached its context window limit.";
        check("max_output_tokens", None, full, "the context window of the model is full");
    }

    #[test]
    fn a_refusal_has_the_words_of_the_model_and_those_of_the_api() {
        let text = "API Error: Opus's safeguards flagged this message.\n\nTry rephrasing.";
        for (own_words, declined, expected) in [
            ("I will not.", Some("It is cyber."), "I will not.\nIt is cyber."),
            ("", Some("It is cyber."), "It is cyber."),
            ("I will not.", None, "I will not.\nOpus's safeguards flagged this message."),
            ("", Some(""), "Opus's safeguards flagged this message."),
        ] {
            let finished = Finished {
                subtype: "success".into(),
                text: Some(text.into()),
                stop_reason: Some("refusal".into()),
                ..Finished::default()
            };
            let (refusal, limit, model) = (None, None, "opus");
            let evidence =
                Evidence { finished: &finished, refusal, declined, own_words, limit, model };
            assert_eq!(evidence.trouble(), Trouble::Refusal(expected.into()));
        }
    }
}
