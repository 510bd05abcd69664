//! Sizes with a unit letter, as in `/sys/devices/system/cpu/cpu0/cache/index0/size`: `48K`.

use super::TextError;

/// Parses a size with the unit K, M or G, in KiB (`size_show()`, drivers/base/cacheinfo.c, 6.12,
/// prints `%uK`; older ones did the same).
///
/// # Errors
/// The text is not a number with the unit K, M or G.
pub fn kib(text: &str) -> Result<u64, TextError> {
    let malformed = || TextError::new(0, "a size such as 48K", text);
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1),
        Some(b'M') => (&text[..text.len() - 1], 1 << 10),
        Some(b'G') => (&text[..text.len() - 1], 1 << 20),
        _ => return Err(malformed()),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(malformed)
}

/// Whether `buffer_size_kb` of tracefs says that the buffer is expanded at its first use:
/// `7 (expanded: 1408)` (tracing_entries_read(), kernel/trace/trace.c, 4.17 to 6.18).
#[must_use]
pub fn will_grow(buffer_size_kb: &str) -> bool {
    buffer_size_kb.contains("expanded")
}

#[cfg(test)]
mod tests {
    use super::kib;

    #[test]
    fn sizes_are_parsed_with_their_unit() {
        assert_eq!(kib("48K\n").unwrap(), 48);
        assert_eq!(kib("24M").unwrap(), 24 << 10);
        for text in ["", "K", "-1K", "48", "4 8K", "99999999999999999999K", "18446744073709551615G"]
        {
            assert!(kib(text).is_err(), "{text:?}");
        }
    }
}
