//! The value of a key that is a time: a text with a unit. Pure.

use super::parse_span;
use serde::{Deserialize, Deserializer};

/// Reads a time in nanoseconds.
pub(super) fn deserialize_span<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a time with its unit, such as \"5us\"")]
    enum SpanText {
        Text(String),
        Nanoseconds(u64),
    }
    match Option::<SpanText>::deserialize(deserializer)? {
        None => Ok(None),
        Some(SpanText::Nanoseconds(ns)) => Ok(Some(ns)),
        Some(SpanText::Text(text)) => parse_span(&text).map(Some).map_err(serde::de::Error::custom),
    }
}
