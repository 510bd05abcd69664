//! Parses words that are CPU lists or hexadecimal masks.

use crate::cpu_selection::{CpuNames, CpuSelection};
use crate::failure::Failure;
use cpushield_linux::CpuSet;

/// The notation of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordNotation {
    /// Each word is a list or a mask, by its form.
    Detected,
    /// Every word is a mask.
    Mask,
}

/// The digits of a group in a mask of the kernel.
const MASK_GROUP: usize = 8;

/// Parses a list or a mask. A word is a mask if it has `0x`, a hexadecimal letter, or groups of
/// eight digits, as in `smp_affinity`: no CPU has a number of eight digits.
///
/// # Errors
/// The word is neither.
pub fn parse_set(word: &str, notation: WordNotation, names: &CpuNames) -> Result<CpuSet, Failure> {
    let groups = word
        .split(',')
        .skip(usize::from(word.contains(',')))
        .all(|g| g.len() == MASK_GROUP && g.bytes().all(|b| b.is_ascii_hexdigit()));
    let letters = word.bytes().all(|b| b.is_ascii_hexdigit() || b == b',')
        && word.bytes().any(|b| b.is_ascii_alphabetic());
    let parsed = if notation == WordNotation::Mask || word.starts_with("0x") || groups || letters {
        CpuSet::parse_mask(word).map_err(|error| error.to_string())
    } else {
        let selection = CpuSelection::parse(word);
        let resolved = selection.and_then(|selection| selection.resolve(names));
        resolved.map_err(|error| error.to_string())
    };
    let hint = "a list looks like 0-3,8 or all,^0, and a mask like 0x10f or 8000,00000000";
    // A mask of zeros is a valid empty set. An empty word is usually an unset shell variable.
    let digits = word.bytes().any(|b| b.is_ascii_hexdigit());
    match parsed {
        Ok(cpus) if cpus.is_empty() && !digits => {
            Err(Failure::usage(format!("{word:?} names no CPU")).hint(hint))
        }
        parsed => parsed.map_err(|why| Failure::usage(why).hint(hint)),
    }
}

/// What a word of digits means as a mask, where it was read as a list: the files of small machines
/// have such masks, for example `3` in `smp_affinity`.
#[must_use]
pub fn other_reading(word: &str, notation: WordNotation) -> Option<CpuSet> {
    let digits = word.bytes().all(|b| b.is_ascii_digit()) && word.len() < MASK_GROUP;
    let ambiguous = digits && notation == WordNotation::Detected;
    ambiguous.then(|| CpuSet::parse_mask(word).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_word_decides_whether_it_is_a_list_or_a_mask() {
        let names = CpuNames::unknown();
        for (word, list) in [
            ("7", "7"),
            ("0x80", "7"),
            ("8000,00000000", "47"),
            ("ff", "0-7"),
            ("00000001", "0"),
            ("00000001,00000000", "32"),
            ("0-3,8", "0-3,8"),
            ("10,20", "10,20"),
        ] {
            assert_eq!(
                parse_set(word, WordNotation::Detected, &names).unwrap().to_string(),
                list,
                "{word}"
            );
        }
        let other = |word| other_reading(word, WordNotation::Detected).map(|cpus| cpus.to_string());
        assert_eq!(other("10"), Some("4".to_owned()));
        for word in ["0x10", "f", "0-3", "10,20", "00000010", ""] {
            assert_eq!(other(word), None, "{word}");
        }
        assert_eq!(other_reading("10", WordNotation::Mask), None);
        assert_eq!(parse_set("80", WordNotation::Mask, &names).unwrap().to_string(), "7");
        assert!(parse_set("0x0", WordNotation::Detected, &names).unwrap().is_empty());
        for wrong in ["x", "", " ", ","] {
            assert!(
                parse_set(wrong, WordNotation::Detected, &names).is_err()
                    && parse_set(wrong, WordNotation::Mask, &names).is_err(),
                "{wrong:?}"
            );
        }
    }
}
