//! Reads lines of JSON, and names the line that is wrong.

use std::io::{BufRead, Read};

use anyhow::{Context, Result, anyhow, ensure};
use serde::de::DeserializeOwned;

/// A line longer than this can't be meant.
const MAX_LINE: u64 = 64 << 20;

/// Every line that is not blank, with its number.
pub fn read<T: DeserializeOwned>(mut lines: impl BufRead) -> Result<Vec<(usize, T)>> {
    let (mut values, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        (&mut lines)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .with_context(|| format!("can't read line {number}"))?;
        ensure!((line.len() as u64) < MAX_LINE, "line {number} has more than {MAX_LINE} bytes");
        if line.is_empty() {
            break;
        }
        line.pop_if(|last| *last == b'\n');
        if !line.trim_ascii().is_empty() {
            let value = serde_json::from_slice(&line);
            values.push((number, value.map_err(|e| anyhow!("line {number}: {}", describe(&e)))?));
        }
    }
    Ok(values)
}

/// What an error says, without the line number, which counts lines inside our line.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) if error.column() > 0 => {
            format!("{} (column {})", shorten(what), error.column())
        }
        Some((what, _)) => shorten(what),
        None => shorten(&text),
    }
}

/// It quotes what stands there, however long that is. What was expected instead comes last.
fn shorten(text: &str) -> String {
    let beginning = text.char_indices().nth(200).map(|(at, _)| at);
    let end = text.char_indices().rev().nth(600).map(|(at, _)| at);
    match (beginning, end) {
        (Some(beginning), Some(end)) if beginning < end => {
            format!("{}…{}", &text[..beginning], &text[end..])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_count_but_are_not_read() {
        let values: Vec<(usize, u32)> = read("1\n\n  \n2".as_bytes()).unwrap();
        assert_eq!(values, [(1, 1), (4, 2)]);
    }

    #[test]
    fn a_bad_line_is_named() {
        fn check(text: &[u8], expected: &str) {
            assert_eq!(read::<u32>(text).unwrap_err().to_string(), expected);
        }
        check(b"1\n{", "line 2: invalid type: map, expected u32");
        check(b"1\n\n\"x\"", "line 3: invalid type: string \"x\", expected u32 (column 3)");
        check(b"\xff", "line 1: expected value (column 1)");
    }

    #[test]
    fn what_is_quoted_of_a_line_is_short_however_long_it_is() {
        let long = format!("\"{}\"", "東".repeat(100_000));
        let message = read::<u32>(long.as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("line 1: invalid type: string \"東東"), "{message}");
        assert!(message.ends_with("東東\", expected u32 (column 300002)"), "{message}");
        assert!(message.chars().count() < 900, "{message}");
    }
}
