//! Text without the characters that HTML, XML and terminals must not get. Pure.

/// Replaces the characters that HTML or XML forbids with U+FFFD.
#[must_use]
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if is_forbidden(c) { '\u{fffd}' } else { c }).collect()
}

fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f'..='\u{9f}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
        // Marks that change the text direction would let a name rewrite the text around it.
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
