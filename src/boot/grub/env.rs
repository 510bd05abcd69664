//! The environment block of GRUB, `/boot/grub/grubenv`: lines `name=value` in a file of a fixed
//! size, padded with `#`, which GRUB itself rewrites in place while it boots. Pure.
//!
//! Source: util/grub-editenv.c and grub-core/lib/envblk.c (2.12): `\` escapes a line feed and
//! itself.

use cpushield_sentence::Sentence;

const SIGNATURE: &str = "# GRUB Environment Block\n";

/// Why a block is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Sentence)]
pub enum EnvError {
    /// line 1: expected "# GRUB Environment Block".
    Signature,
    /// expected text.
    Text,
}

/// The variables of a block, in order.
///
/// # Errors
/// It is not a valid block.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, EnvError> {
    let text = std::str::from_utf8(bytes).map_err(|_| EnvError::Text)?;
    let rest = text.strip_prefix(SIGNATURE).ok_or(EnvError::Signature)?;
    let mut variables = Vec::new();
    for line in unescape_lines(rest) {
        if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            variables.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(variables)
}

/// The value of a variable; an empty value counts as unset, as in `grub.cfg`.
#[must_use]
pub fn value<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = variables.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
}

/// The lines, with escapes resolved.
fn unescape_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => line.extend(chars.next()),
            '\n' => lines.push(std::mem::take(&mut line)),
            c => line.push(c),
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn variables_are_read_and_padding_is_ignored() {
        // Written by grub-editenv 2.06.
        let block = "# GRUB Environment Block\nsaved_entry=Debian > a\\\\b\nnext_entry=\n########";
        let found = parse(block.as_bytes()).unwrap();
        assert_eq!(value(&found, "saved_entry"), Some("Debian > a\\b"));
        assert_eq!(value(&found, "next_entry"), None);
        assert_eq!(found.len(), 2);
        assert_eq!(parse(b"saved_entry=1\n"), Err(EnvError::Signature));
    }

    proptest! {
        #[test]
        fn no_block_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = parse(&[SIGNATURE.as_bytes(), &bytes].concat());
        }
    }
}
