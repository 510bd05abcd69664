//! Where a value stands in a TOML text. Pure.

use toml::de::{DeTable, DeValue};

/// A wrong value: its keys from the table of the shield on, and what is wrong.
pub(super) type WrongValue = (&'static [&'static str], String);

/// The line of a byte, from 1.
pub(super) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|b| *b == b'\n').count()
}

/// The byte where a key or an item of a list begins; `None` if it is not there. The path has a
/// name for each table and a number for each list.
pub(super) fn find_byte(text: &str, path: &[&str]) -> Option<usize> {
    let mut value = &DeValue::Table(DeTable::parse(text).ok()?.into_inner());
    let mut byte = 0;
    for step in path {
        (byte, value) = match value {
            DeValue::Array(list) => {
                let item = list.get(step.parse::<usize>().ok()?)?;
                (item.span().start, item.get_ref())
            }
            DeValue::Table(table) => {
                let (key, value) = table.get_key_value(*step)?;
                (key.span().start, value.get_ref())
            }
            _ => return None,
        };
    }
    Some(byte)
}
