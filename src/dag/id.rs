//! Short ids: a letter that says what it names, a dash, and six characters that are hard to misread.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Digits and lower-case letters without `i`, `l`, `o` and `u`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 6;

/// An id such as `t-3f9a01`; `P` is its first letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id<const P: char>([u8; LENGTH]);

/// Names a task.
pub type TaskId = Id<'t'>;
/// Names a feature.
pub type FeatureId = Id<'f'>;
/// Names an attempt.
pub type AttemptId = Id<'a'>;
/// Names a run.
pub type RunId = Id<'r'>;
/// Names a session.
pub type SessionId = Id<'s'>;

impl<const P: char> Id<P> {
    /// The id that the low thirty of these random bits spell.
    pub fn from_bits(bits: u32) -> Self {
        let mut characters = [0; LENGTH];
        for (i, character) in characters.iter_mut().enumerate() {
            *character = ALPHABET[(bits >> (5 * i)) as usize % ALPHABET.len()];
        }
        Id(characters)
    }

    /// Whether `text` could be an id of this kind or the beginning of one.
    pub fn is_prefix(text: &str) -> bool {
        text.strip_prefix(P).and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| {
            rest.len() <= LENGTH && rest.bytes().all(|byte| ALPHABET.contains(&byte))
        })
    }

    /// The id of another kind with the same characters.
    pub fn with_letter<const Q: char>(self) -> Id<Q> {
        Id(self.0)
    }

    fn characters(&self) -> &str {
        std::str::from_utf8(&self.0).expect("ids are made of ASCII characters alone")
    }
}

impl<const P: char> fmt::Display for Id<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{P}-{}", self.characters())
    }
}

impl<const P: char> fmt::Debug for Id<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIdError {
    text: String,
    prefix: char,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseIdError { text, prefix } = self;
        write!(f, "`{}` is not an id of the form `{prefix}-xxxxxx`", text.escape_debug())
    }
}

impl std::error::Error for ParseIdError {}

impl<const P: char> FromStr for Id<P> {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let wrong = || ParseIdError { text: text.chars().take(80).collect(), prefix: P };
        if !Self::is_prefix(text) {
            return Err(wrong());
        }
        text.as_bytes()[2..].try_into().map(Id).map_err(|_| wrong())
    }
}

impl<const P: char> Serialize for Id<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const P: char> Deserialize<'de> for Id<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_being_written_and_read() {
        for bits in [0, 1, 31, 32, 0x3fff_ffff, u32::MAX, 0x1234_5678] {
            let id = TaskId::from_bits(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(serde_json::from_str::<TaskId>(&format!("\"{id}\"")).unwrap(), id);
        }
    }

    #[test]
    fn only_ids_and_their_beginnings_look_like_one() {
        for (text, prefix, whole) in [
            ("t-", true, false),
            ("t-3f", true, false),
            ("t-3f9a01", true, true),
            ("t-3f9a012", false, false),
            ("t-shirt", false, false),
            ("f-3f9a01", false, false),
            ("T-3F9A01", false, false),
            ("t-3f9aé", false, false),
            ("", false, false),
        ] {
            assert_eq!(TaskId::is_prefix(text), prefix, "{text}");
            assert_eq!(text.parse::<TaskId>().is_ok(), whole, "{text}");
        }
    }
}
