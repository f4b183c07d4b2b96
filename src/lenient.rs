//! Values that take what they can use and ignore anything else, so that a field of an unexpected kind
//! costs that field and not the line it stands in.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

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
