//! Files of the user's that go into a prompt. They may be missing, huge, or no text at all: whatever
//! they are, something sensible is said in their place, and a cut is never hidden.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// What stands in place of a file that is not there.
pub(super) const NOT_FOUND: &str = "[Not found]";

/// How much of a spec or a plan is passed on: more than anybody writes, and less than harms.
pub const DOCUMENT_LIMIT: usize = 1_000_000;

/// The text of a file, cut after so many characters. `name` is where the reader finds the rest.
pub fn read(path: &Path, name: &str, limit: usize) -> String {
    match read_start(path, limit) {
        Ok((bytes, size)) => cut(&decode(&bytes), name, limit, size),
        Err(error) if error.kind() == io::ErrorKind::NotFound => NOT_FOUND.to_owned(),
        Err(error) => format!("[Can't be read: {error}]"),
    }
}

/// Whether there is something to read in a file.
pub fn has_text(path: &Path) -> bool {
    match read_start(path, 4_096) {
        // More than a screen of blanks before the first word is no document.
        Ok((bytes, _)) => !decode(&bytes).trim().is_empty(),
        // That it can't be read is told where it is needed.
        Err(_) => fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0),
    }
}

/// Wraps a text so that its end can't be mistaken, whatever it contains.
pub fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// As many bytes as so many characters may have, and how many bytes there are.
fn read_start(path: &Path, characters: usize) -> io::Result<(Vec<u8>, u64)> {
    // A pipe would be waited for, and a directory is no file.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    // A character has four bytes at the most; one more shows that there is more.
    File::open(path)?.take(4 * characters as u64 + 4).read_to_end(&mut bytes)?;
    Ok((bytes, found.len()))
}

/// Bytes as text, in the encodings that editors write. What is in none of them is replaced.
fn decode(bytes: &[u8]) -> String {
    let units = |from: fn([u8; 2]) -> u16| -> Vec<u16> {
        bytes[2..].chunks_exact(2).map(|pair| from([pair[0], pair[1]])).collect()
    };
    let text = match bytes {
        [0xFF, 0xFE, ..] => String::from_utf16_lossy(&units(u16::from_le_bytes)),
        [0xFE, 0xFF, ..] => String::from_utf16_lossy(&units(u16::from_be_bytes)),
        [0xEF, 0xBB, 0xBF, text @ ..] => String::from_utf8_lossy(text).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    };
    text.replace("\r\n", "\n").replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "")
}

/// The first characters of a text that comes from a file of this size.
fn cut(text: &str, name: &str, limit: usize, size: u64) -> String {
    let whole = text.len() as u64 >= size;
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}\n[Cut here: {}]", &text[..end], amount(name, limit, size)),
        None if whole || size <= 4 * limit as u64 + 4 => text.to_owned(),
        None => format!("{text}\n[Cut here: {}]", amount(name, limit, size)),
    }
}

fn amount(name: &str, limit: usize, size: u64) -> String {
    format!("the first {limit} characters of {size} bytes; read the rest in `{name}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(bytes: &[u8], check: impl FnOnce(&Path)) {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, bytes).unwrap();
        check(&path);
    }

    fn reads(bytes: &[u8], expected: &str) {
        with_file(bytes, |path| assert_eq!(read(path, "a.md", 10), expected));
    }

    #[test]
    fn a_text_within_the_limit_is_whole() {
        reads(b"", "");
        reads(b"0123456789", "0123456789");
        reads("größe 東京 x".as_bytes(), "größe 東京 x");
    }

    #[test]
    fn a_longer_one_is_cut_between_characters_and_says_so() {
        const CUT: &str = "[Cut here: the first 10 characters of";
        const REST: &str = "bytes; read the rest in `a.md`]";
        reads(b"0123456789a", &format!("0123456789\n{CUT} 11 {REST}"));
        reads(
            "東京東京東京東京東京東".as_bytes(),
            &format!("東京東京東京東京東京\n{CUT} 33 {REST}"),
        );
        reads("🎉".repeat(11).as_bytes(), &format!("{}\n{CUT} 44 {REST}", "🎉".repeat(10)));
        reads(&[b'x'; 1 << 20], &format!("xxxxxxxxxx\n{CUT} 1048576 {REST}"));
    }

    #[test]
    fn any_encoding_is_survived() {
        reads(b"\xEF\xBB\xBFbom\r\nline", "bom\nline");
        reads(b"\xFF\xFEh\0i\0", "hi");
        reads(b"\xFE\xFF\0h\0i", "hi");
        reads(b"caf\xE9 \xFF", "caf\u{FFFD} \u{FFFD}");
        reads(b"a\0b\x1b[31mc", "ab[31mc");
        let huge: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        with_file(&huge, |path| assert!(read(path, "a.md", 10_000).contains("[Cut here")));
    }

    #[test]
    fn what_is_no_file_is_said_to_be_none() {
        let directory = tempfile::TempDir::new().unwrap();
        assert_eq!(read(&directory.path().join("gone"), "gone", 10), "[Not found]");
        assert_eq!(read(directory.path(), "a", 10), "[Can't be read: it is not a file]");
    }

    #[test]
    fn blanks_are_no_text() {
        for (bytes, expected) in
            [(&b""[..], false), (b" \n\t", false), (b"\xEF\xBB\xBF", false), (b"x", true)]
        {
            with_file(bytes, |path| assert_eq!(has_text(path), expected, "{bytes:?}"));
        }
        assert!(!has_text(Path::new("/nowhere")));
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(fenced("a\n", "toml"), "```toml\na\n```");
        assert_eq!(fenced("````\nx\n````", ""), "`````\n````\nx\n````\n`````");
    }
}
