//! The lines of a session as they come: every field that is used, and nothing else.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{FromText, List, Number, Object, Text, Truth};

/// Every field of every event that we use. One pass over the line finds them in any order.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) subtype: Text<'a>,
    #[serde(borrow)]
    pub(super) parent_tool_use_id: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Object<Message<'a>>,
    #[serde(borrow)]
    pub(super) event: Object<Event<'a>>,
    #[serde(borrow)]
    pub(super) api_message_id: Text<'a>,
    #[serde(borrow)]
    pub(super) session_id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) claude_code_version: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_name: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Text<'a>,
    #[serde(borrow)]
    pub(super) api_error: Text<'a>,
    #[serde(borrow)]
    pub(super) rate_limit_info: Object<RateLimitInfo<'a>>,
    pub(super) attempt: Number,
    pub(super) max_retries: Number,
    pub(super) retry_delay_ms: Number,
    pub(super) error_status: Number,
    pub(super) is_error: Truth,
    #[serde(borrow)]
    pub(super) result: Text<'a>,
    #[serde(borrow)]
    pub(super) errors: List<Text<'a>>,
    #[serde(borrow)]
    pub(super) terminal_reason: Text<'a>,
    pub(super) api_error_status: Number,
    pub(super) permission_denials: List<Ignored>,
    pub(super) duration_ms: Number,
    pub(super) total_cost_usd: Number,
    pub(super) num_turns: Number,
    pub(super) usage: Object<Usage>,
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
    #[serde(borrow)]
    pub(super) delta: Object<Delta<'a>>,
    #[serde(borrow)]
    pub(super) message: Object<Announced<'a>>,
}

/// The message that `message_start` announces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Announced<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
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
}

/// Something that is only counted.
#[derive(Debug)]
pub(super) struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Ignored)
    }
}

impl<'de> FromText<'de> for Ignored {
    fn from_text(_: Text<'de>) -> Ignored {
        Ignored
    }
}
