//! The value of a key that is a share of the time: a text with a percentage. Pure.

use serde::{Deserialize, Deserializer};

/// Parses a share of the time into parts per million: `1%`, `0.05 %`.
///
/// # Errors
/// The text is no share.
pub fn parse_share(text: &str) -> Result<u64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    let ppm = percent.and_then(|percent| format!("{:.0}", percent * 1e4).parse().ok());
    ppm.ok_or_else(|| {
        format!("{text:?} is not a share of the time; write a percentage from 0% to 100%")
    })
}

/// Reads a share in parts per million.
pub(super) fn deserialize_share<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_share(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        for (text, ppm) in [("1%", 10_000), ("0.05 %", 500), ("100%", 1_000_000), ("0%", 0)] {
            assert_eq!(parse_share(text), Ok(ppm));
        }
        for text in ["1", "101%", "-1%", "NaN%", "%", "1%%"] {
            assert!(parse_share(text).unwrap_err().contains("write a percentage"), "{text}");
        }
    }
}
