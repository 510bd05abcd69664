//! Suggestions for errors in a matrix file. Pure.

use super::CPUS;
use crate::cpu_selection::SELECTION_HINT;
use cpushield_linux::CpuSet;

/// What to write instead of a kernel parameter in the place of a tunable.
pub(super) fn advise_on_parameter(name: &str) -> String {
    format!("{name} is a kernel parameter, not a tunable; expected boot = [{name:?}] in the row")
}

/// What to write instead of a word that is not one plain kernel parameter.
pub(super) fn advise_on_word(word: &str) -> String {
    let expected = format!("expected one plain kernel parameter, such as \"nohz_full={CPUS}\"");
    match word.contains(['{', '}']) {
        true => format!("{expected}; did you mean {CPUS}?"),
        false => expected,
    }
}

/// What to write instead of a text that is not a CPU list.
pub(super) fn advise_on_list(text: &str) -> String {
    match CpuSet::parse_mask(text).ok().filter(|_| text.starts_with("0x")) {
        Some(cpus) => format!("it is the mask of the list \"{cpus}\""),
        None => SELECTION_HINT.to_owned(),
    }
}
