//! The part of a shield's policy for the next boot. A list, a word or another key in its place is
//! an error that shows where kernel parameters of the user's own belong. Pure.

use crate::registry::nearest;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// The part of a shield's policy for the next boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootPolicy {
    /// Kernel parameters of the user's own: `["nohlt", "radeon.modeset=0"]`.
    pub parameters: Vec<String>,
}

impl<'de> Deserialize<'de> for BootPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BootPolicy, D::Error> {
        deserializer.deserialize_any(BootPolicyVisitor)
    }
}

struct BootPolicyVisitor;

impl<'de> Visitor<'de> for BootPolicyVisitor {
    type Value = BootPolicy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table [shield.NAME.boot]")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<BootPolicy, E> {
        Err(E::custom(advise_on_place(&[word])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BootPolicy, A::Error> {
        let mut words: Vec<String> = Vec::new();
        while let Some(word) = list.next_element()? {
            words.push(word);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Err(A::Error::custom(advise_on_place(&words)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<BootPolicy, A::Error> {
        let mut policy = BootPolicy::default();
        while let Some(BootKey) = table.next_key()? {
            policy.parameters = table.next_value()?;
        }
        Ok(policy)
    }
}

/// The only key of the table.
struct BootKey;

impl<'de> Deserialize<'de> for BootKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BootKey, D::Error> {
        let key = String::deserialize(deserializer)?;
        match key.as_str() {
            "parameters" => Ok(BootKey),
            _ if !nearest(&key, &["parameters"]).is_empty() => {
                Err(D::Error::custom(format!("unknown field `{key}`, expected `parameters`")))
            }
            _ => Err(D::Error::custom(format!(
                "unknown field `{key}`, expected `parameters`; kernel parameters of your own are \
                 written as parameters = [\"{key}\"]"
            ))),
        }
    }
}

/// Where words belong that were written as the value of `boot`.
fn advise_on_place(words: &[&str]) -> String {
    format!(
        "boot is a table; kernel parameters of your own are written as boot.parameters = {words:?}"
    )
}
