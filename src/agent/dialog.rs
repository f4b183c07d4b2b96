//! The questions of Claude Code's first start, known by how they stand on the screen. It asks them before
//! anything else works, so there is no other way to know of them.

/// Words on the screen, and what is asked by them.
const DIALOGS: &[(&str, &str)] = &[
    ("Quick safety check:", "whether it may trust this directory"),
    ("Do you trust the files in this folder?", "whether it may trust this directory"),
    ("Detected a custom API key", "whether to use the API key in the environment"),
    ("running in Bypass Permissions mode", "whether it may skip all permissions"),
    ("Choose the text style", "how its text is to look"),
    ("Select login method", "how to log in"),
];

/// What is asked on this screen, if it is such a question.
pub(super) fn question(screen: &str) -> Option<&'static str> {
    DIALOGS.iter().find(|(words, _)| screen.contains(words)).map(|&(_, question)| question)
}

#[cfg(test)]
mod tests {
    use super::super::screen::Screen;
    use super::*;

    fn asked(name: &str) -> Option<&'static str> {
        let path = format!("{}/tests/fixtures/terminal/{name}.pty", env!("CARGO_MANIFEST_DIR"));
        let mut screen = Screen::new(24, 80);
        screen.feed(&std::fs::read(path).unwrap());
        question(&screen.visible())
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
}
