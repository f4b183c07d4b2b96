//! The screen of a terminal as a picture.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// One cell, in pixels.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 18.0;
/// What is around the text.
const MARGIN: f32 = 14.0;

/// The colours of a terminal.
pub(crate) struct Theme {
    background: &'static str,
    foreground: &'static str,
    /// The eight colours, and the eight bright ones.
    palette: [&'static str; 16],
}

pub(crate) const DARK: Theme = Theme {
    background: "#16181d",
    foreground: "#d4d7dd",
    palette: [
        "#3b4048", "#ef6b73", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d4d7dd",
        "#6b7280", "#ff8087", "#b5e890", "#ffd68a", "#82c7ff", "#df9cf0", "#79d5e0", "#ffffff",
    ],
};

/// As terminals have it that are light from the start.
pub(crate) const LIGHT: Theme = Theme {
    background: "#ffffff",
    foreground: "#1f2328",
    palette: [
        "#000000", "#b00020", "#1a7f37", "#8a6d00", "#0550ae", "#8250df", "#0a7c86", "#bfbfbf",
        "#666666", "#e50000", "#00d900", "#c4a000", "#0000ff", "#e500e5", "#00a6b2", "#e6e6e6",
    ],
};

/// Draws everything above the last line that has something in it.
pub(crate) fn picture(screen: &Screen, theme: &Theme) -> String {
    let columns = screen.size().1.get();
    let lines: Vec<String> = screen.rows(0, columns).collect();
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).unwrap_or(0);
    let (width, height) =
        (2.0 * MARGIN + WIDTH * f32::from(columns), 2.0 * MARGIN + HEIGHT * (last + 1) as f32);
    let Theme { background, foreground, .. } = theme;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{background}\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" \
         font-size=\"14\" fill=\"{foreground}\" xml:space=\"preserve\">\n"
    );
    for row in 0..=last as u16 {
        for run in runs(screen, row) {
            run.draw(row, theme, &mut svg).expect("a string takes all");
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Cells side by side that look the same.
struct Run {
    column: u16,
    columns: u16,
    text: String,
    look: Look,
}

#[derive(Clone, Copy, PartialEq)]
struct Look {
    colour: Color,
    bold: bool,
    dim: bool,
}

impl Look {
    fn of(cell: &Cell) -> Look {
        Look { colour: cell.fgcolor(), bold: cell.bold(), dim: cell.dim() }
    }

    fn fill(self, theme: &Theme) -> &'static str {
        match self.colour {
            Color::Idx(index) => theme.palette.get(usize::from(index)).unwrap_or(&theme.foreground),
            Color::Default | Color::Rgb(..) => theme.foreground,
        }
    }
}

impl Run {
    fn draw(&self, row: u16, theme: &Theme, svg: &mut String) -> std::fmt::Result {
        let x = MARGIN + WIDTH * f32::from(self.column);
        let y = MARGIN + HEIGHT * (f32::from(row) + 0.75);
        let length = WIDTH * f32::from(self.columns);
        write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\"")?;
        let fill = self.look.fill(theme);
        if fill != theme.foreground {
            write!(svg, " fill=\"{fill}\"")?;
        }
        if self.look.bold {
            write!(svg, " font-weight=\"bold\"")?;
        }
        if self.look.dim {
            write!(svg, " opacity=\"0.6\"")?;
        }
        let text = self.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        writeln!(svg, ">{text}</text>")
    }
}

/// What stands in a row, without the blanks around it.
fn runs(screen: &Screen, row: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..screen.size().1.get() {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation())
        else {
            continue;
        };
        let (look, columns) = (Look::of(cell), if cell.is_wide() { 2 } else { 1 });
        let text = if cell.has_contents() { cell.contents() } else { " " };
        match runs.last_mut().filter(|run| run.look == look && run.column + run.columns == column) {
            Some(run) => {
                run.text.push_str(text);
                run.columns += columns;
            }
            None => runs.push(Run { column, columns, text: text.to_owned(), look }),
        }
    }
    for run in &mut runs {
        let text = run.text.trim_end();
        run.columns -= (run.text.len() - text.len()) as u16;
        run.text.truncate(text.len());
        let text = run.text.trim_start();
        let blanks = (run.text.len() - text.len()) as u16;
        run.column += blanks;
        run.columns -= blanks;
        run.text = text.to_owned();
    }
    runs.retain(|run| !run.text.is_empty());
    runs
}
