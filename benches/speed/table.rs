//! What was measured and what it may be, as one table.

use std::fmt;
use std::time::Duration;

/// One line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) measured: Amount,
    pub(crate) limit: Limit,
}

/// Something that was counted or timed.
#[derive(Clone, Copy)]
pub(crate) enum Amount {
    Time(Duration),
    Bytes(u64),
    Percent(f64),
    PerSecond(f64),
    /// It can't be measured here.
    Missing(&'static str),
}

/// What an amount may be.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// At most this many times the baseline.
    Times(f64, Amount),
    AtMost(Amount),
    AtLeast(Amount),
    /// It is only told.
    None,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, measured: Amount, limit: Limit) -> Row {
        Row { name: name.into(), measured, limit }
    }

    /// Two times and how often the second may go into the first.
    pub(crate) fn ratio(
        name: impl Into<String>,
        measured: Duration,
        baseline: Duration,
        most: f64,
    ) -> Row {
        Row::new(name, Amount::Time(measured), Limit::Times(most, Amount::Time(baseline)))
    }

    fn is_over(&self) -> bool {
        let measured = self.measured.number();
        match self.limit {
            Limit::Times(most, baseline) => measured > most * baseline.number(),
            Limit::AtMost(most) => measured > most.number(),
            Limit::AtLeast(least) => measured < least.number(),
            Limit::None => false,
        }
    }

    fn cells(&self) -> [String; 6] {
        let (baseline, ratio, limit) = match self.limit {
            Limit::Times(most, baseline) => {
                let ratio = self.measured.number() / baseline.number();
                (baseline.to_string(), format!("{ratio:.2}"), format!("≤ {most:.2}"))
            }
            Limit::AtMost(most) => (String::new(), String::new(), format!("< {most}")),
            Limit::AtLeast(least) => (String::new(), String::new(), format!("≥ {least}")),
            Limit::None => Default::default(),
        };
        let verdict = match (self.measured, self.limit) {
            (Amount::Missing(_), _) => "SKIPPED",
            (_, Limit::None) => "",
            _ if self.is_over() => "OVER",
            _ => "ok",
        };
        [self.name.clone(), self.measured.to_string(), baseline, ratio, limit, verdict.into()]
    }
}

impl Amount {
    fn number(self) -> f64 {
        match self {
            Amount::Time(time) => time.as_secs_f64(),
            Amount::Bytes(bytes) => bytes as f64,
            Amount::Percent(number) | Amount::PerSecond(number) => number,
            Amount::Missing(_) => f64::NAN,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Amount::Time(time) if time < Duration::from_millis(1) => {
                write!(f, "{:.1} µs", time.as_secs_f64() * 1e6)
            }
            Amount::Time(time) if time < Duration::from_secs(1) => {
                write!(f, "{:.2} ms", time.as_secs_f64() * 1e3)
            }
            Amount::Time(time) => write!(f, "{:.2} s", time.as_secs_f64()),
            Amount::Bytes(bytes) => write!(f, "{:.2} MB", bytes as f64 / f64::from(1 << 20)),
            Amount::Percent(percent) => write!(f, "{percent:.1} %"),
            Amount::PerSecond(number) => write!(f, "{number:.0}/s"),
            Amount::Missing(what) => write!(f, "no {what} here"),
        }
    }
}

/// All rows.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn extend(&mut self, rows: Vec<Row>) {
        self.0.extend(rows);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.iter().any(Row::is_over)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["name", "measured", "baseline", "ratio", "limit", ""].map(String::from);
        let lines: Vec<[String; 6]> =
            std::iter::once(head).chain(self.0.iter().map(Row::cells)).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
        for [name, measured, baseline, ratio, limit, verdict] in &lines {
            let [a, b, c, d, e] = widths;
            writeln!(
                f,
                "{name:a$}  {measured:>b$}  {baseline:>c$}  {ratio:>d$}  {limit:>e$}  {verdict}"
            )?;
        }
        Ok(())
    }
}
