//! The lines of a session as they come: every field that is used, and nothing else.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::dag::Tokens;
use crate::event;
use crate::lenient::{FromText, List, Number, Object, Text, Truth};

/// Declares a struct whose fields are read into their places one by one. A line has so many fields that
/// moving it as often as a derived reader does took a tenth of the time it takes to read it.
macro_rules! read_in_place {
    ($(#[$doc:meta])* struct $name:ident { $($json:literal => $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name<'a> { $(pub(super) $field: $type,)* }

        #[derive(Deserialize)]
        #[serde(field_identifier)]
        #[expect(non_camel_case_types, reason = "the variants are called like the fields")]
        enum Field {
            $(#[serde(rename = $json)] $field,)*
            #[serde(other)]
            Unused,
        }

        impl<'de: 'a, 'a> Visitor<'de> for &mut $name<'a> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some(field) = map.next_key()? {
                    match field {
                        $(Field::$field => self.$field = map.next_value()?,)*
                        Field::Unused => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(())
            }
        }
    };
}

read_in_place! {
    /// Every field of every event that we use. One pass over the line finds them in any order.
    struct Line {
        "type" => kind: Text<'a>,
        "subtype" => subtype: Text<'a>,
        "parent_tool_use_id" => parent_tool_use_id: Text<'a>,
        "message" => message: Object<Message<'a>>,
        "event" => event: Object<Event<'a>>,
        "api_message_id" => api_message_id: Text<'a>,
        "session_id" => session_id: Text<'a>,
        "model" => model: Text<'a>,
        "claude_code_version" => claude_code_version: Text<'a>,
        "content" => content: Text<'a>,
        "text" => text: Text<'a>,
        "tool_name" => tool_name: Text<'a>,
        "error" => error: Text<'a>,
        "api_error" => api_error: Text<'a>,
        "rate_limit_info" => rate_limit_info: Object<RateLimitInfo<'a>>,
        "attempt" => attempt: Number,
        "max_retries" => max_retries: Number,
        "retry_delay_ms" => retry_delay_ms: Number,
        "error_status" => error_status: Number,
        "is_error" => is_error: Truth,
        "result" => result: Text<'a>,
        "errors" => errors: List<Text<'a>>,
        "stop_reason" => stop_reason: Text<'a>,
        "terminal_reason" => terminal_reason: Text<'a>,
        "status" => status: Text<'a>,
        "api_refusal_explanation" => api_refusal_explanation: Text<'a>,
        "api_error_type" => api_error_type: Text<'a>,
        "api_error_status" => api_error_status: Number,
        "permission_denials" => permission_denials: List<Ignored>,
        "duration_ms" => duration_ms: Number,
        "total_cost_usd" => total_cost_usd: Number,
        "num_turns" => num_turns: Number,
        "usage" => usage: Object<Box<Usage>>,
        "modelUsage" => model_usage: Object<BTreeMap<String, Object<ModelUsage>>>,
        "apiKeySource" => api_key_source: Text<'a>,
    }
}

impl<'a> Line<'a> {
    /// Reads a line of JSON.
    pub(super) fn read(&mut self, json: &'a str) -> serde_json::Result<()> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        deserializer.deserialize_map(self)?;
        deserializer.end()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) content: List<Object<Block<'a>>>,
    pub(super) usage: Object<Box<Usage>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Text<'a>,
    pub(super) is_error: Truth,
    #[serde(borrow)]
    pub(super) content: List<Object<Block<'a>>>,
}

/// Content that is a plain text is one block of text.
impl<'de: 'a, 'a> FromText<'de> for Block<'a> {
    fn from_text(text: Text<'de>) -> Block<'a> {
        Block { kind: Text(Some("text".into())), text, ..Block::default() }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) delta: Object<Delta<'a>>,
    #[serde(borrow)]
    pub(super) message: Object<Announced<'a>>,
    /// What the message has used, at its end.
    pub(super) usage: Object<Box<Usage>>,
}

/// The message that `message_start` announces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Announced<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    pub(super) usage: Object<Box<Usage>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimitInfo<'a> {
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow, rename = "rateLimitType")]
    pub(super) window: Text<'a>,
    #[serde(rename = "resetsAt")]
    pub(super) resets_at: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) input_tokens: Number,
    pub(super) cache_creation_input_tokens: Number,
    pub(super) cache_read_input_tokens: Number,
    pub(super) output_tokens: Number,
    pub(super) cache_creation: Object<CacheCreation>,
}

/// How long what was written into the cache is kept there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CacheCreation {
    pub(super) ephemeral_1h_input_tokens: Number,
}

impl Usage {
    pub(super) fn tokens(&self) -> Tokens {
        Tokens {
            input: self.input_tokens.count(),
            cache_read: self.cache_read_input_tokens.count(),
            cache_write: self.cache_creation_input_tokens.count(),
            output: self.output_tokens.count(),
        }
    }

    /// What this says of a message.
    pub(super) fn of<'a>(
        &self,
        message: impl Into<Cow<'a, str>>,
        model: impl Into<Cow<'a, str>>,
        complete: bool,
    ) -> event::Usage<'a> {
        let kept = self.cache_creation.0.as_ref();
        event::Usage {
            message: message.into(),
            model: model.into(),
            tokens: self.tokens(),
            cache_write_1h: kept.map_or(0, |kept| kept.ephemeral_1h_input_tokens.count()),
            complete,
        }
    }
}

/// What a session has used of one model so far.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    input_tokens: Number,
    output_tokens: Number,
    cache_read_input_tokens: Number,
    cache_creation_input_tokens: Number,
}

/// What a session has used of all models; none if that is not said.
pub(super) fn sum(models: &Object<BTreeMap<String, Object<ModelUsage>>>) -> Option<Tokens> {
    let tokens = |usage: &ModelUsage| Tokens {
        input: usage.input_tokens.count(),
        cache_read: usage.cache_read_input_tokens.count(),
        cache_write: usage.cache_creation_input_tokens.count(),
        output: usage.output_tokens.count(),
    };
    let models = models.0.as_ref()?.values().filter_map(|usage| usage.0.as_ref());
    models.map(tokens).reduce(Tokens::plus)
}

/// Something that is only counted.
#[derive(Debug)]
pub(super) struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Ignored)
    }
}

impl<'de> FromText<'de> for Ignored {
    fn from_text(_: Text<'de>) -> Ignored {
        Ignored
    }
}
