//! Output without what differs from run to run: numbers, durations, ids and temporary paths. What is
//! left tells whether two failures are the same one.

/// Where temporary files are.
const TEMPORARY: [&str; 4] = ["/tmp/", "/var/tmp/", "/private/", "/var/folders/"];
/// What follows a number that is a duration.
const UNITS: [&str; 14] = [
    "ns", "us", "µs", "ms", "s", "m", "h", "sec", "secs", "second", "seconds", "min", "minutes",
    "hours",
];
/// So many hexadecimal digits are an id or an address, if there is a digit among them.
const HEX: usize = 7;
/// So many decimal digits are an id or a time, even inside a name. A short number is part of the name:
/// `test_2` is another test than `test_1`.
const LONG: usize = 5;

/// The text with `#` in place of each number, duration and id, `<tmp>` in place of each temporary path,
/// and without colours and blank lines.
pub(super) fn normalised(text: &str) -> String {
    let lines = text.lines().map(line).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn line(line: &str) -> String {
    let mut found = String::new();
    let mut rest = line.trim();
    while let Some(next) = rest.chars().next() {
        let starts_word = !found.ends_with(|c: char| c.is_alphanumeric());
        rest = if next == '\x1b' {
            after_escape(rest)
        } else if starts_word && TEMPORARY.iter().any(|place| rest.starts_with(place)) {
            found.push_str("<tmp>");
            rest.trim_start_matches(|c: char| !c.is_whitespace() && !"\"'`,;:()[]<>".contains(c))
        } else if next.is_alphanumeric() {
            word(rest, &mut found)
        } else {
            found.push(next);
            &rest[next.len_utf8()..]
        };
    }
    found.trim_end().to_owned()
}

/// Reads a word from the beginning of `text`, and returns what comes after it.
fn word<'a>(text: &'a str, found: &mut String) -> &'a str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    if is_number && !word.split('_').next().is_some_and(is_id) {
        found.push('#');
        return after_number(text);
    }
    let parts: Vec<&str> =
        word.split('_').map(|part| if is_id(part) { "#" } else { part }).collect();
    found.push_str(&parts.join("_"));
    rest
}

fn is_id(word: &str) -> bool {
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    let is_hex = word.len() >= HEX && has_digit && word.chars().all(|c| c.is_ascii_hexdigit());
    let is_long = word.len() >= LONG && word.chars().all(|c| c.is_ascii_digit());
    is_hex || is_long || word.strip_prefix("0x").is_some_and(|it| !it.is_empty())
}

/// What comes after a number such as `12`, `1.5`, `12:30:01`, `250ms` or `2 seconds`.
fn after_number(text: &str) -> &str {
    let mut rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    while let Some(more) = rest.strip_prefix(['.', ',', ':'])
        && more.starts_with(|c: char| c.is_ascii_digit())
    {
        rest = more.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let unit = rest.strip_prefix(' ').unwrap_or(rest);
    let end = unit.find(|c: char| !c.is_alphanumeric()).unwrap_or(unit.len());
    if UNITS.contains(&&unit[..end]) { &unit[end..] } else { rest }
}

/// What comes after an escape sequence.
fn after_escape(text: &str) -> &str {
    let rest = &text[1..];
    match rest.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(|c: char| ('@'..='~').contains(&c));
            end.map_or("", |end| &rest[end + 1..])
        }
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        for (one, other) in [
            ("3 failed in 0.31s", "12 failed in 2 seconds"),
            ("finished in 980ms", "finished in 1.2 s"),
            ("at 12:30:01 panicked", "at 07:00:59 panicked"),
            ("commit 3f9a01c7 is bad", "commit 0000000 is bad"),
            ("at 0x7ffd1000", "at 0xdeadbeef"),
            ("open '/tmp/tmp.Xa91/log': denied", "open '/tmp/tmp.Qq/log': denied"),
            ("\x1b[31merror\x1b[0m: x", "error: x"),
            ("a\n\n  b  ", "a\nb"),
            ("made out_1794798343", "made out_1794799999"),
            ("made out_3f9a01c7", "made out_0000000"),
        ] {
            assert_eq!(normalised(one), normalised(other));
        }
    }

    #[test]
    fn what_is_another_failure_stays_another_one() {
        for (one, other) in [
            ("test parse ... FAILED", "test print ... FAILED"),
            ("test case12 ... FAILED", "test case7 ... FAILED"),
            ("test case_1 ... FAILED", "test case_2 ... FAILED"),
            ("error[E0308]: x", "error[E0425]: x"),
            ("no module `a`", "no module `b`"),
            ("src/main.rs:3: unused", "src/lib.rs:3: unused"),
            ("facade", "decade"),
            ("3 sheep", "3 goats"),
            ("", "x"),
        ] {
            assert_ne!(normalised(one), normalised(other));
        }
        assert_eq!(normalised("3 sheep at /home/x"), "# sheep at /home/x");
        normalised("\x1b[ \x1b é1é \x1b");
    }
}
