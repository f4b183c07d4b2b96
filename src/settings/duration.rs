//! Durations in the settings.

use std::time::Duration;

use toml::Value;

use crate::time::parse_duration;

/// A duration in the settings: text, or a whole number of seconds.
pub(super) fn duration_of(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse_duration(text).ok(),
        Value::Integer(seconds) => parse_duration(&seconds.to_string()).ok(),
        _ => None,
    }
}
