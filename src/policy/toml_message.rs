//! Messages of the TOML parser in the words of a user, with a suggestion for a misspelled key or
//! value. Pure.

use super::WrittenShield;
use crate::registry::nearest;
use toml::{Table, Value};

/// Rewrites a message of the TOML parser about this text without Rust terms. Adds the name that was
/// meant, or the key that is set twice.
pub(crate) fn translate_toml_error(error: &toml::de::Error, text: &str) -> String {
    let key = error.span().and_then(|span| text.get(span)).filter(|key| !key.is_empty());
    match (error.message().trim(), key) {
        // The parser's place is that of the second key (`duplicate key` in
        // src/de/parser/document.rs of toml 1.2).
        ("duplicate key", Some(key)) => format!("the key {key} is already set"),
        (message, _) => translate_message(message),
    }
}

fn translate_message(message: &str) -> String {
    const TERMS: &[(&str, &str)] = &[
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected a string", "expected text in quotes"),
        ("expected a boolean", "expected true or false"),
        ("expected a map", "expected a table"),
        ("expected a sequence", "expected a list such as [\"nohlt\"]"),
        ("wanted string or table", "expected a word in quotes"),
        ("key with no value, expected `=`", "expected a line such as KEY = VALUE"),
    ];
    let message = message.to_owned();
    let near = find_meant(&message).or_else(|| find_other_type(&message));
    let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    let near = find_table(&message).map_or(near, |table| format!("; it belongs in {table}"));
    TERMS.iter().fold(message, |text, (rust, plain)| text.replace(rust, plain)) + &near
}

/// The table of a policy that has a key which is at the top level by mistake.
fn find_table(message: &str) -> Option<&'static str> {
    let unknown = message.strip_prefix("unknown field `")?.strip_suffix("`, expected `shield`")?;
    let is_known = |key: &Table| match key.clone().try_into::<WrittenShield>() {
        Ok(_) => true,
        Err(error) => !error.message().starts_with("unknown field"),
    };
    let of_shield = Table::from_iter([(unknown.to_owned(), Value::Integer(0))]);
    let of_boot = Table::from_iter([("boot".to_owned(), Value::Table(of_shield.clone()))]);
    let tables = [("[shield.NAME]", of_shield), ("[shield.NAME.boot]", of_boot)];
    tables.iter().find(|(_, key)| is_known(key)).map(|(table, _)| *table)
}

/// The known name that is most similar to an unknown one. serde's messages have the unknown name
/// and then the known ones, each between backticks (`unknown_field()` and `unknown_variant()`,
/// serde_core/src/de/mod.rs, 1.0).
fn find_meant(message: &str) -> Option<String> {
    let is_about_name = ["unknown field `", "unknown variant `"];
    if !is_about_name.iter().any(|start| message.starts_with(start)) {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next()?;
    let known: Vec<&str> = names.collect();
    // A policy has the kernel parameters under this key, and a row of a matrix under the other one.
    if unknown == "parameters" && known.contains(&"boot") {
        return Some("boot".to_owned());
    }
    nearest(unknown, &known).into_iter().next()
}

/// A number in quotes that must have none, or the other way round, as it should be written
/// (`invalid_type()`, serde_core/src/de/mod.rs, 1.0).
fn find_other_type(message: &str) -> Option<String> {
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let number = found.strip_prefix("integer `").and_then(|it| it.strip_suffix('`'));
    let text = found.strip_prefix("string \"").and_then(|it| it.strip_suffix('"'));
    match (number, text) {
        (Some(number), _) if expected == "a string" => Some(format!("{number:?}")),
        (_, Some(text)) if ["u32", "u64", "usize"].contains(&expected) => {
            text.parse::<u64>().is_ok().then(|| text.to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_key_and_what_was_expected() {
        for (text, wanted) in [
            ("a = 1\nb = 2\na = 3\n", "the key a is already set"),
            ("[t]\n\"x y\" = 1\n\"x y\" = 2\n", "the key \"x y\" is already set"),
            ("[t]\n[t]\n", "the key t is already set"),
            ("root:x:0:0\n", "expected a line such as KEY = VALUE"),
        ] {
            let error = toml::from_str::<toml::Table>(text).unwrap_err();
            assert_eq!(translate_toml_error(&error, text), wanted, "{text}");
        }
    }

    #[test]
    fn a_number_and_its_text_are_distinguished() {
        for (message, meant) in [
            ("invalid type: integer `3`, expected a string", Some("\"3\"")),
            ("invalid type: string \"80\", expected u32", Some("80")),
            ("invalid type: string \"high\", expected u32", None),
            ("invalid type: integer `3`, expected a boolean", None),
            ("invalid type: sequence, expected a string", None),
        ] {
            assert_eq!(find_other_type(message).as_deref(), meant, "{message}");
        }
    }

    #[test]
    fn the_name_that_was_meant_is_one_of_the_known_ones() {
        for (message, meant) in [
            ("unknown field `gruop`, expected one of `users`, `group`", Some("group")),
            ("unknown field `sheild`, expected `shield`", Some("shield")),
            ("unknown variant `offlin`, expected `idle` or `offline`", Some("offline")),
            ("unknown field `parameters`, expected one of `name`, `boot`", Some("boot")),
            ("unknown field `colour`, expected one of `name`, `boot`", None),
            ("unknown field ``, expected `name`", None),
            ("missing field `name`", None),
            ("unknown field `a", None),
        ] {
            assert_eq!(find_meant(message).as_deref(), meant, "{message}");
        }
    }
}
