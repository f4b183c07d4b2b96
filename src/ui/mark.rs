//! How each state looks: one symbol, one word and one colour, the same everywhere.

use owo_colors::Style;

use crate::dag::State;

/// How a state looks.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// One column wide.
    pub symbol: &'static str,
    /// What to call it.
    pub word: &'static str,
    /// The style of both.
    pub style: Style,
}

/// How `state` looks.
pub fn mark(state: State) -> Mark {
    let plain = Style::new();
    let (symbol, word, style) = match state {
        State::Ready => ("●", "ready", plain.bold()),
        State::Waiting => ("○", "waiting", plain.dimmed()),
        // Not U+25B6, which some terminals draw as a picture two columns wide.
        State::InProgress => ("►", "in progress", plain.cyan()),
        State::Blocked => ("?", "blocked", plain.yellow()),
        State::Done => ("✓", "done", plain.green()),
        State::Failed => ("✗", "failed", plain.red()),
    };
    Mark { symbol, word, style }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::text::width;

    #[test]
    fn every_symbol_is_one_column_and_there_are_no_two_alike() {
        let mut symbols: Vec<_> = State::ALL.iter().map(|&state| mark(state).symbol).collect();
        assert!(symbols.iter().all(|symbol| width(symbol) == 1));
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), State::ALL.len());
    }
}
