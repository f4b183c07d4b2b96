//! What is known of the terminal we write to.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

use crate::settings::Environment;

/// The width of a terminal that does not know it.
const USUAL: u16 = 80;
/// Less than this is treated as this: an id and some letters of a title must fit.
const NARROWEST: usize = 24;

/// How much fits in a line, and whether colours are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Its columns; none means that nothing is cut.
    pub width: Option<usize>,
    /// Whether to use colours.
    pub colour: bool,
}

impl Terminal {
    /// None: text as it is, of any width.
    pub const PLAIN: Terminal = Terminal { width: None, colour: false };

    /// Where standard output goes.
    pub fn stdout(environment: &Environment) -> Terminal {
        Terminal::of(&io::stdout(), environment)
    }

    /// Where standard error goes.
    pub fn stderr(environment: &Environment) -> Terminal {
        Terminal::of(&io::stderr(), environment)
    }

    fn of(stream: &(impl IsTerminal + AsFd), environment: &Environment) -> Terminal {
        let columns =
            stream.is_terminal().then(|| tcgetwinsize(stream).map_or(0, |size| size.ws_col));
        Terminal::decide(environment, columns)
    }

    /// `columns` is what the terminal says, and none if it is no terminal.
    fn decide(environment: &Environment, columns: Option<u16>) -> Terminal {
        let reported = columns.map(|columns| if columns == 0 { USUAL } else { columns });
        let is_set = |name| environment.var(name).is_some_and(|value| value != "0");
        let forced = is_set("CLICOLOR_FORCE") || is_set("FORCE_COLOR");
        let able = columns.is_some() && environment.term().is_some_and(|term| term != "dumb");
        Terminal {
            width: environment.columns().or(reported).map(usize::from),
            colour: (able || forced) && !environment.no_color(),
        }
    }

    /// How many columns a line may have.
    pub(super) fn columns(self) -> usize {
        self.width.map_or(usize::MAX, |width| width.max(NARROWEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], columns: Option<u16>, width: Option<usize>, colour: bool) {
        let environment = variables.iter().copied().collect();
        assert_eq!(Terminal::decide(&environment, columns), Terminal { width, colour });
    }

    #[test]
    fn the_width_is_what_the_user_says_or_else_the_terminal() {
        check(&[], None, None, false);
        check(&[], Some(100), Some(100), false);
        check(&[], Some(0), Some(80), false);
        check(&[("COLUMNS", "60")], Some(100), Some(60), false);
        check(&[("COLUMNS", "60")], None, Some(60), false);
        check(&[("COLUMNS", "wide")], None, None, false);
    }

    #[test]
    fn colours_need_an_able_terminal_or_force_and_no_veto() {
        let term = ("TERM", "xterm");
        check(&[term], Some(80), Some(80), true);
        check(&[term], None, None, false);
        check(&[("TERM", "dumb")], Some(80), Some(80), false);
        check(&[term, ("NO_COLOR", "1")], Some(80), Some(80), false);
        check(&[term, ("NO_COLOR", "")], Some(80), Some(80), true);
        check(&[("CLICOLOR_FORCE", "1")], None, None, true);
        check(&[("FORCE_COLOR", "3")], None, None, true);
        check(&[("FORCE_COLOR", "0")], None, None, false);
        check(&[("FORCE_COLOR", "")], None, None, false);
        check(&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], None, None, false);
    }
}
