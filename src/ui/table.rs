//! Rows below a heading, aligned. A column with nothing in it is not there, one column gives way to
//! the others, and those behind it go if it would become too narrow.

use std::io::{self, Write};

use owo_colors::Style;

use super::line::Line;
use super::terminal::Terminal;
use super::text::{cut, printable, width, wrap};

const GAP: usize = 2;
/// What the column that gives way should keep.
const ENOUGH: usize = 20;

/// One entry: its text and its style.
pub(super) type Cell = (String, Style);

/// Writes a row for each item; `flexible` is the column that gives way. Rows are made twice, to be
/// measured and to be written, so that a long table is never in memory as a whole.
pub(super) fn write<T, const N: usize>(
    out: &mut dyn Write,
    headings: [&str; N],
    flexible: usize,
    items: &[T],
    row: impl Fn(&T) -> [Cell; N],
    terminal: Terminal,
) -> io::Result<()> {
    let mut widths = measure(headings, items, &row);
    fit(&mut widths, flexible, terminal.columns());
    let mut draw = |cells: [(&str, Style); N]| Row { widths, terminal }.line(&cells).write(out);
    draw(headings.map(|heading| (heading, Style::new().dimmed())))?;
    items.iter().try_for_each(|item| {
        draw(row(item).each_ref().map(|(text, style)| (text.as_str(), *style)))
    })
}

/// The same, but nothing of the last column is cut: it is wrapped, or stands below the others where
/// there is too little room beside them.
pub(super) fn write_wrapped<T, const N: usize>(
    out: &mut dyn Write,
    headings: [&str; N],
    items: &[T],
    row: impl Fn(&T) -> [Cell; N],
    terminal: Terminal,
) -> io::Result<()> {
    let mut widths = measure(headings, items, &row);
    let natural = widths[N - 1];
    fit(&mut widths, N - 1, terminal.columns());
    let mut indent: usize =
        widths[..N - 1].iter().filter(|width| **width > 0).map(|width| width + GAP).sum();
    let is_beside = widths[N - 1] >= natural.min(ENOUGH);
    if !is_beside {
        (widths[N - 1], indent) = (0, GAP);
    }
    let shape = Row { widths, terminal };
    shape.line(&headings.map(|heading| (heading, Style::new().dimmed()))).write(out)?;
    items.iter().try_for_each(|item| {
        let cells = row(item);
        let (text, style) = &cells[N - 1];
        let lines = wrap(&printable(text), terminal.columns() - indent);
        let mut shown = cells.each_ref().map(|(text, style)| (text.as_str(), *style));
        shown[N - 1].0 = lines.first().map_or("", |first| first);
        shape.line(&shown).write(out)?;
        let below = &lines[usize::from(is_beside).min(lines.len())..];
        below
            .iter()
            .try_for_each(|text| Line::new(terminal).at(indent).push(text, *style).write(out))
    })
}

/// How wide each column would like to be; one with nothing in it has no width.
fn measure<T, const N: usize>(
    headings: [&str; N],
    items: &[T],
    row: &impl Fn(&T) -> [Cell; N],
) -> [usize; N] {
    let mut widths = [0; N];
    for item in items {
        for ((text, _), widest) in row(item).iter().zip(&mut widths) {
            *widest = width(&printable(text)).max(*widest);
        }
    }
    for (width, heading) in widths.iter_mut().zip(headings).filter(|(width, _)| **width > 0) {
        *width = heading.len().max(*width);
    }
    widths
}

struct Row<const N: usize> {
    widths: [usize; N],
    terminal: Terminal,
}

impl<const N: usize> Row<N> {
    fn line(&self, cells: &[(&str, Style); N]) -> Line {
        let mut line = Line::new(self.terminal);
        let mut column = 0;
        for ((text, style), width) in cells.iter().zip(self.widths).filter(|(_, width)| *width > 0)
        {
            line.at(column).push(&cut(&printable(text), width), *style);
            column += width + GAP;
        }
        line
    }
}

/// Makes the columns fit: the flexible one shrinks, and the last ones go to leave it enough.
fn fit(widths: &mut [usize], flexible: usize, columns: usize) {
    for last in (flexible..widths.len()).rev() {
        let others: usize = (0..=last)
            .filter(|&column| column != flexible && widths[column] > 0)
            .map(|column| widths[column] + GAP)
            .sum();
        let room = columns.saturating_sub(others);
        if room >= ENOUGH.min(widths[flexible]) || last == flexible {
            widths[flexible] = widths[flexible].min(room);
            return;
        }
        widths[last] = 0;
    }
}
