//! What Claude Code shows and tells nowhere else: the questions of its first start, which it asks before any
//! hook works, and why it asks the API again.

use super::trouble::Trouble;

/// Words on the screen, what is asked by them, and whether it is a part of the set-up.
const DIALOGS: &[(&str, &str, bool)] = &[
    ("Quick safety check:", "whether it may trust this directory", false),
    ("Do you trust the files in this folder?", "whether it may trust this directory", false),
    ("Detected a custom API key", "whether to use the API key in the environment", false),
    ("running in Bypass Permissions mode", "whether it may skip all permissions", false),
    ("Choose the text style", "how its text is to look", true),
    ("Select login method", "how to log in", true),
];

/// With these words the set-up ends where it can't reach Anthropic, whatever address the API has.
const UNREACHABLE: &str = "Unable to connect to Anthropic services";

/// A question of the first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    /// What is asked.
    pub(super) text: &'static str,
    /// Whether it is a part of the set-up, which only sessions in a terminal go through. The other questions
    /// ask for a person's consent.
    is_set_up: bool,
}

impl Question {
    /// Why a session ended in which nobody answered it.
    pub(super) fn trouble(self) -> Trouble {
        let asks = format!("it asks {}", self.text);
        if self.is_set_up { Trouble::NotSetUp(asks) } else { Trouble::NoConsent(asks) }
    }
}

/// What is asked on this screen, if it is such a question.
pub(super) fn question(screen: &str) -> Option<Question> {
    let (_, text, is_set_up) = *DIALOGS.iter().find(|(words, ..)| screen.contains(words))?;
    Some(Question { text, is_set_up })
}

/// Why the set-up could not reach Anthropic, if this screen says so.
pub(super) fn unreachable(screen: &str) -> Option<&str> {
    let (_, rest) = screen.split_once(UNREACHABLE)?;
    Some(rest.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}

/// Whether this screen says that the API has not accepted the key, and will be asked again. Claude Code 2.1.325
/// names the status from the third time on.
pub(super) fn is_rejected(screen: &str) -> bool {
    screen.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some("401")
            && line.contains(" · Retrying in ")
            && line.contains(" · attempt ")
    })
}

#[cfg(test)]
mod tests {
    use super::super::screen::Screen;
    use super::*;

    fn asked(name: &str) -> Option<&'static str> {
        let path = format!("{}/tests/fixtures/terminal/{name}.pty", env!("CARGO_MANIFEST_DIR"));
        let mut screen = Screen::new(24, 80);
        screen.feed(&std::fs::read(path).unwrap());
        question(&screen.visible()).map(|it| it.text)
    }

    #[test]
    fn the_questions_of_the_first_start_are_known() {
        assert_eq!(asked("dialogs"), Some("whether it may trust this directory"));
        assert_eq!(asked("dialog_key"), Some("whether to use the API key in the environment"));
        assert_eq!(asked("dialog_bypass"), Some("whether it may skip all permissions"));
    }

    #[test]
    fn work_is_no_question() {
        for name in ["tui", "tui_noalt", "tui_wrap", "permission_prompt", "exit_after_stop"] {
            assert_eq!(asked(name), None, "{name}");
        }
    }

    #[test]
    fn the_set_up_and_the_consent_of_a_person_are_told_apart() {
        let trouble = |screen: &str| question(screen).map(Question::trouble);
        let style = Trouble::NotSetUp("it asks how its text is to look".into());
        assert_eq!(trouble("Choose the text style that looks best"), Some(style));
        let trust = Trouble::NoConsent("it asks whether it may trust this directory".into());
        assert_eq!(trouble("Quick safety check: is this yours?"), Some(trust));
    }

    #[test]
    fn a_set_up_without_a_network_says_why() {
        let screen = " Unable to connect to Anthropic services\n\n Failed to connect to \
                      api.anthropic.com: ENOTFOUND\n\n Please check your internet connection\n";
        assert_eq!(unreachable(screen), Some("Failed to connect to api.anthropic.com: ENOTFOUND"));
        assert_eq!(unreachable("Choose the text style"), None);
    }

    #[test]
    fn a_key_that_is_not_accepted_is_seen_when_the_api_is_asked_again() {
        assert!(is_rejected("❯ Do it\n✻ 401 invalid x-api-key · Retrying in 3s · attempt 3/10\n"));
        for other in [
            "✻ API error · Retrying in 1s · attempt 1/10",
            "✻ 529 Overloaded · Retrying in 3s · attempt 3/10",
            "● The server says 401 and I am Retrying",
            "● 401 invalid x-api-key",
        ] {
            assert!(!is_rejected(other), "{other}");
        }
    }
}
