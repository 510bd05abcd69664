//! The value of a key that is a time: a text with a unit. Pure.

use super::parse_span;
use serde::{Deserialize, Deserializer};

/// Reads a time in nanoseconds.
pub(super) fn deserialize_span<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a time with a unit, such as \"5us\"")]
    enum SpanText {
        Text(String),
        Number(i64),
    }
    let why = match SpanText::deserialize(deserializer)? {
        SpanText::Text(text) => match parse_span(&text) {
            Ok(0) => "the time must be longer than 0".to_owned(),
            Ok(ns) => return Ok(Some(ns)),
            Err(why) => why,
        },
        SpanText::Number(number) => {
            format!("{number} has no unit; write a time with a unit, such as \"5us\"")
        }
    };
    Err(serde::de::Error::custom(why))
}

#[cfg(test)]
mod tests {
    use super::super::{PolicyError, PolicyFile};

    #[test]
    fn a_time_without_a_unit_and_a_time_of_0_are_refused() {
        for (value, said) in [
            ("20", "20 has no unit; write a time with a unit, such as \"5us\""),
            ("0", "0 has no unit; write a time with a unit, such as \"5us\""),
            ("\"0us\"", "the time must be longer than 0"),
            ("\"0.0s\"", "the time must be longer than 0"),
            ("true", "expected a time with a unit, such as \"5us\""),
        ] {
            for key in ["max_gap", "max_latency"] {
                let text = format!("[shield.a.limits]\n{key} = {value}\n");
                let PolicyError { line, why, .. } = PolicyFile::parse(&text, "p").unwrap_err();
                assert_eq!((line, why.as_str()), (Some(2), said), "{text}");
            }
        }
    }
}
