//! Registries: slices of entries with unique names, such as tunables, boot parameters, instruments
//! and loads. One lookup serves all, and an entry that `explain` knows makes its own page. Pure.

use crate::change::{EffectTime, Risk};
use serde::Serialize;
use std::borrow::Cow;

/// The version of the format of [`ExplainPage`].
const SCHEMA: u32 = 1;

/// An entry of a registry.
pub trait RegistryEntry: Copy {
    /// Its name in the registry.
    fn key(self) -> &'static str;
}

/// An entry that has a page for `explain`.
pub trait ExplainedEntry: Copy {
    /// Its page.
    fn explain(self) -> ExplainPage;
}

/// A page of `explain`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainPage {
    /// The version of this format.
    pub schema: u32,
    /// The name of the page.
    pub name: Cow<'static, str>,
    /// What it is about.
    pub kind: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The text (Markdown).
    pub text: Cow<'static, str>,
    /// Causes that a tunable removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removes: Option<Vec<&'static str>>,
    /// Tunables and boot parameters that remove a cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_by: Option<Vec<&'static str>>,
    /// The risk of a tunable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// When a tunable takes effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<EffectTime>,
}

impl ExplainPage {
    /// A page about something that is neither a tunable nor a cause.
    #[must_use]
    pub fn new(
        kind: &'static str,
        name: impl Into<Cow<'static, str>>,
        summary: &'static str,
        text: impl Into<Cow<'static, str>>,
    ) -> ExplainPage {
        ExplainPage {
            schema: SCHEMA,
            name: name.into(),
            kind,
            summary,
            text: text.into(),
            removes: None,
            removed_by: None,
            risk: None,
            when: None,
        }
    }
}

/// The entry with this name.
#[must_use]
pub fn find<E: RegistryEntry>(registry: &[E], name: &str) -> Option<E> {
    registry.iter().copied().find(|entry| entry.key() == name)
}

/// The names of all entries, in order.
#[must_use]
pub fn names<E: RegistryEntry>(registry: &[E]) -> Vec<&'static str> {
    registry.iter().map(|entry| entry.key()).collect()
}

/// The names most similar to a word, best first; empty when none is similar.
#[must_use]
pub fn nearest(word: &str, names: &[&str]) -> Vec<String> {
    select_near(word, names, |edits, name| edits <= 1 + name.len() / 3 || name.contains(word))
}

/// The names of which a word may be a misspelling, best first. For thousands of names, of which
/// some always resemble a word.
#[must_use]
pub fn nearest_spelling(word: &str, names: &[&str]) -> Vec<String> {
    select_near(word, names, |edits, name| edits <= 1 + word.len().min(name.len()) / 4)
}

/// Whether a word differs from a name by one slip: a letter that is missing, wrong or one too many,
/// or two that are swapped.
#[must_use]
pub fn is_one_slip(word: &str, name: &str) -> bool {
    strsim::osa_distance(word, name) == 1
}

fn select_near(word: &str, names: &[&str], is_near: impl Fn(usize, &str) -> bool) -> Vec<String> {
    if word.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .map(|name| (strsim::levenshtein(word, name), *name))
        .filter(|(edits, name)| is_near(*edits, name))
        .collect();
    near.sort();
    // A module may declare a parameter twice.
    near.dedup();
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_suggested_once() {
        assert_eq!(nearest_spelling("copybrake", &["copybreak", "copybreak"]), ["copybreak"]);
    }

    #[test]
    fn a_part_of_a_name_is_near_it_and_no_misspelling_of_it() {
        let names = ["scftorture.weight_single", "isolcpus", "nohz_full", "nosmt"];
        assert_eq!(nearest("single", &names), ["scftorture.weight_single"]);
        assert!(nearest_spelling("single", &names).is_empty());
        for (word, meant) in
            [("isol_cpu", "isolcpus"), ("nohz-ful", "nohz_full"), ("nosmp", "nosmt")]
        {
            assert_eq!(nearest_spelling(word, &names), [meant]);
        }
        assert!(nearest_spelling("", &names).is_empty());
    }
}
