//! [`ValueComparison`]: how the value of a kernel file is compared with what was written, and what
//! restores it. Pure.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How a value read back is compared with the value written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ValueComparison {
    /// The same text, without the white space around it.
    Text,
    /// The same set in list form (`0-2,5`).
    List,
    /// The same set in mask form, whatever the leading zeros (`00000007`, `7`).
    Mask,
    /// The bracketed word of a choice (`always [madvise] never`), or the first word of the text
    /// (`15 (expanded: 1408)`), is the value.
    Word,
    /// After a write of `+word`, the file contains the word (`cgroup.subtree_control`). After
    /// `-word`, it does not.
    Member,
    /// The same text, but it is written even if it is already there, because the kernel acts on
    /// each write.
    Again,
}

impl ValueComparison {
    /// Whether the value is a set of CPUs or memory nodes.
    #[must_use]
    pub fn is_set(self) -> bool {
        matches!(self, ValueComparison::List | ValueComparison::Mask)
    }

    /// Parses a value as a set of CPUs; `None` if it is not one.
    #[must_use]
    pub fn parse_set(self, text: &str) -> Option<CpuSet> {
        match self {
            ValueComparison::Mask => CpuSet::parse_mask(text.trim()).ok(),
            ValueComparison::List => text.trim().parse().ok(),
            ValueComparison::Text
            | ValueComparison::Word
            | ValueComparison::Member
            | ValueComparison::Again => None,
        }
    }

    /// A set of CPUs as such a value: a mask, otherwise a list.
    #[must_use]
    pub fn spell_set(self, cpus: &CpuSet) -> String {
        if self == ValueComparison::Mask { cpus.to_mask() } else { cpus.to_string() }
    }

    /// Whether a file that shows `found` already has the wanted value and need not be written.
    #[must_use]
    pub fn already(self, found: &str, wanted: &str) -> bool {
        self != ValueComparison::Again && self.same(found, wanted)
    }

    /// Whether `found` (read back) means the same as `wanted` (written).
    #[must_use]
    pub fn same(self, found: &str, wanted: &str) -> bool {
        let (found, wanted) = (found.trim(), wanted.trim());
        match self {
            ValueComparison::Text | ValueComparison::Again => found == wanted,
            ValueComparison::List => match (found.parse::<CpuSet>(), wanted.parse::<CpuSet>()) {
                (Ok(a), Ok(b)) => a == b,
                _ => false,
            },
            ValueComparison::Mask => {
                match (CpuSet::parse_mask(found), CpuSet::parse_mask(wanted)) {
                    (Ok(a), Ok(b)) => a == b,
                    _ => false,
                }
            }
            ValueComparison::Word => chosen_word(found) == wanted,
            ValueComparison::Member => wanted.split_whitespace().all(|word| {
                let (present, name) = match word.strip_prefix('-') {
                    Some(name) => (false, name),
                    None => (true, word.trim_start_matches('+')),
                };
                found.split_whitespace().any(|known| known == name) == present
            }),
        }
    }

    /// Whether the kernel took a part of the set that was written: it leaves out CPUs that are
    /// offline or outside of a parent's set.
    #[must_use]
    pub fn is_narrowed(self, left: &str, value: &str) -> bool {
        let sets = match self {
            ValueComparison::List => (left.parse::<CpuSet>(), value.parse::<CpuSet>()),
            ValueComparison::Mask => (CpuSet::parse_mask(left), CpuSet::parse_mask(value)),
            ValueComparison::Text
            | ValueComparison::Word
            | ValueComparison::Member
            | ValueComparison::Again => return false,
        };
        matches!(sets, (Ok(left), Ok(value)) if !left.is_empty() && left.is_subset(&value))
    }

    /// Returns what must be written so that a file that shows `now` shows `original` again; nothing
    /// when it does.
    #[must_use]
    pub fn values_to_restore(self, original: &str, now: &str) -> Vec<String> {
        match self {
            ValueComparison::Member => {
                let original: BTreeSet<&str> = original.split_whitespace().collect();
                let now: BTreeSet<&str> = now.split_whitespace().collect();
                let on = original.difference(&now).map(|word| format!("+{word}"));
                on.chain(now.difference(&original).map(|word| format!("-{word}"))).collect()
            }
            _ if self.is_original(now, original) => Vec::new(),
            ValueComparison::Word => vec![chosen_word(original).to_owned()],
            ValueComparison::Text
            | ValueComparison::List
            | ValueComparison::Mask
            | ValueComparison::Again => {
                vec![original.trim().to_owned()]
            }
        }
    }

    /// Whether a file that shows `now` has the same value as when it showed `original`.
    #[must_use]
    pub fn is_original(self, now: &str, original: &str) -> bool {
        match self {
            ValueComparison::Word => self.same(now, chosen_word(original)),
            ValueComparison::Member => self.values_to_restore(original, now).is_empty(),
            _ => self.same(now, original) || now.trim() == original.trim(),
        }
    }
}

/// The word in brackets, or else the first word.
#[must_use]
pub fn chosen_word(text: &str) -> &str {
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((word, _)) => word,
        None => text.split_whitespace().next().unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_are_compared_by_meaning() {
        assert!(ValueComparison::Mask.same("00000000,00000007\n", "7"));
        assert!(!ValueComparison::Mask.same("f", "7"));
        assert!(ValueComparison::List.same("0-2\n", "0,1,2"));
        assert!(ValueComparison::Word.same("always [madvise] never\n", "madvise"));
        assert!(!ValueComparison::Word.same("always [madvise] never\n", "never"));
        assert!(ValueComparison::Word.same("1408 (expanded: 1408)", "1408"));
        assert!(ValueComparison::Text.same("-1\n", "-1"));
        assert!(ValueComparison::Member.same("cpu cpuset io\n", "+cpuset"));
        assert!(!ValueComparison::Member.same("cpu io\n", "+cpuset"));
        assert!(ValueComparison::Member.same("cpu io\n", "-cpuset"));
    }
}
