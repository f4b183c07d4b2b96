//! Values that take what they can use and ignore anything else, so that a field of an unexpected kind
//! costs that field and not the line it stands in.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Hands what these bytes say to `read`; and if that can make nothing of it, once more with what no
/// reader of JSON takes replaced. A broken character or a number out of range costs no more than itself.
pub(crate) fn read_json<T>(bytes: &[u8], mut read: impl FnMut(&str) -> Option<T>) -> Option<T> {
    // One check of all is cheaper than one of each text in it.
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    read(&text).or_else(|| {
        let mended = mend_numbers(&mend_surrogates(&text));
        (mended != text).then(|| read(&mended))?
    })
}

/// A text, or nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Option<Cow<'a, str>>);

/// A number, or nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Number(pub(crate) Option<f64>);

/// True, or nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Truth(pub(crate) bool);

/// An object, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Object(None)
    }
}

/// A list; what is no list is empty. Of a text it is a list of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

/// What a list element is made of where there is a text instead of a list.
pub(crate) trait FromText<'de> {
    fn from_text(text: Text<'de>) -> Self;
}

impl<'de: 'a, 'a> FromText<'de> for Text<'a> {
    fn from_text(text: Text<'de>) -> Text<'a> {
        text
    }
}

impl<'de, T: FromText<'de>> FromText<'de> for Object<T> {
    fn from_text(text: Text<'de>) -> Object<T> {
        Object(Some(T::from_text(text)))
    }
}

impl<'a> Text<'a> {
    pub(crate) fn or_empty(self) -> Cow<'a, str> {
        self.0.unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Number {
    /// The number as one that counts things; zero for nonsense.
    pub(crate) fn count(self) -> u64 {
        self.0.unwrap_or_default().max(0.0) as u64
    }
}

/// What every visitor here does with kinds it has no use for.
macro_rules! ignore {
    ($($method:ident($type:ty)),* $(,)?) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> { Ok(Self::Value::default()) })*
    };
    (unit) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("anything") }
    };
    (seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Text<'de>;
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
            ignore!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64));
            ignore!(unit);
            ignore!(seq);
            ignore!(map);
        }
        deserializer.deserialize_any(Take)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Number;
            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(Some(number as f64)))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(Some(number as f64)))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(Some(number)))
            }
            ignore!(visit_bool(bool), visit_str(&str));
            ignore!(unit);
            ignore!(seq);
            ignore!(map);
        }
        deserializer.deserialize_any(Take)
    }
}

impl<'de> Deserialize<'de> for Truth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Truth;
            fn visit_bool<E>(self, truth: bool) -> Result<Truth, E> {
                Ok(Truth(truth))
            }
            ignore!(visit_str(&str), visit_i64(i64), visit_u64(u64), visit_f64(f64));
            ignore!(unit);
            ignore!(seq);
            ignore!(map);
        }
        deserializer.deserialize_any(Take)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Take<T> {
            type Value = Object<T>;
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
            }
            ignore!(
                visit_bool(bool),
                visit_str(&str),
                visit_i64(i64),
                visit_u64(u64),
                visit_f64(f64)
            );
            ignore!(unit);
            ignore!(seq);
        }
        deserializer.deserialize_any(Take(PhantomData))
    }
}

impl<'de, T: Deserialize<'de> + FromText<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + FromText<'de>> Visitor<'de> for Take<T> {
            type Value = List<T>;
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = seq.next_element()? {
                    list.push(element);
                }
                Ok(List(list))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(List(vec![T::from_text(Text(Some(Cow::Borrowed(text))))]))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(List(vec![T::from_text(Text(Some(Cow::Owned(text.to_owned()))))]))
            }
            ignore!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64));
            ignore!(unit);
            ignore!(map);
        }
        deserializer.deserialize_any(Take(PhantomData))
    }
}

/// The JSON with every half of a surrogate pair replaced, as is left of an emoji that was cut in two.
fn mend_surrogates(json: &str) -> String {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let length = match unit(escape) {
            Some(0xd800..=0xdbff) if matches!(unit(&escape[6..]), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                mended.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            // Any other escape is two characters, of which the second may be longer than a byte.
            None => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    mended.push_str(rest);
    mended
}

/// The JSON with nothing in place of every number that is too large for any type.
fn mend_numbers(json: &str) -> String {
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '-' | '0'..='9')) {
        let (before, found) = rest.split_at(at);
        let length = match found.starts_with('"') {
            true => length_of_string(found),
            false => found.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')),
        };
        let (token, after) = found.split_at(length.unwrap_or(found.len()));
        mended.push_str(before);
        let is_too_large = token.parse().is_ok_and(f64::is_infinite);
        mended.push_str(if is_too_large { "null" } else { token });
        rest = after;
    }
    mended.push_str(rest);
    mended
}

/// How long the string is that a text begins with, its quotes included.
fn length_of_string(text: &str) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.as_bytes().get(at..)?)?;
        match text.as_bytes()[at] {
            b'"' => return Some(at + 1),
            // Whatever is escaped, it begins with a byte that is no quote, or is one.
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Line<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        number: Number,
        truth: Truth,
        #[serde(borrow)]
        object: Object<Inner<'a>>,
        #[serde(borrow)]
        list: List<Text<'a>>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Inner<'a> {
        #[serde(borrow)]
        text: Text<'a>,
    }

    #[test]
    fn a_field_of_the_wrong_kind_costs_that_field_alone() {
        for wrong in ["null", "true", "1", "-1", "1.5", "\"x\"", "[1, [2]]", "{\"a\": {\"b\": 1}}"]
        {
            for field in ["text", "number", "truth", "object", "list"] {
                let json = format!("{{\"{field}\": {wrong}, \"text\": \"kept\"}}");
                if field != "text" {
                    let line: Line<'_> = serde_json::from_str(&json).unwrap();
                    assert_eq!(line.text.as_str(), "kept", "{json}");
                }
            }
        }
    }

    #[test]
    fn a_number_that_nothing_can_hold_costs_that_field_alone() {
        let digits = "7".repeat(400);
        for huge in ["1e999", "-1e999", "0.5E+400", &digits] {
            for field in ["text", "number", "truth", "object", "list"] {
                let json = format!(
                    r#"{{"{field}": {huge}, "other": ["1e999", "\\"], "list": ["\"-1e999"]}}"#
                );
                let json = if field == "list" { json.replace("list\": [", "l\": [") } else { json };
                let read = read_json(json.as_bytes(), |json| {
                    let line: Line<'_> = serde_json::from_str(json).ok()?;
                    Some((line.text.0.is_some(), line.number, line.list.0.len()))
                });
                let items = if field == "list" { 0 } else { 1 };
                assert_eq!(read, Some((false, Number(None), items)), "{json}");
            }
        }
    }

    #[test]
    fn what_can_be_read_is_not_mended_and_what_is_no_json_stays_none() {
        for text in
            ["", "-", "1e", "--1", "\"", "\"\\", "\"\\\"", "{\"1e999", "größe \\é", "1e999\u{0}"]
        {
            let mended = mend_numbers(&mend_surrogates(text));
            assert_eq!(mended.replace("null", "1e999"), text);
        }
        for json in [r#""1e999""#, r#"{"a\"1e999": "\\"}"#, "[1e308, -0.0]"] {
            assert_eq!(mend_numbers(json), json);
        }
    }

    #[test]
    fn what_fits_is_taken() {
        let json =
            r#"{"text": "a\nb", "number": 7, "truth": true, "object": {"text": "c"}, "list": "d"}"#;
        let line: Line<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(line.text.as_str(), "a\nb");
        assert_eq!((line.number.count(), line.truth.0), (7, true));
        assert_eq!(line.object.0.unwrap().text.as_str(), "c");
        assert_eq!(line.list.0[0].as_str(), "d");
    }
}
