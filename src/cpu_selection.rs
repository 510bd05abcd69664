//! [`CpuSelection`]: CPUs as users write them: the kernel's list format, names of sets, and what is
//! left out: `2-3`, `2-N`, `isolated`, `all,^0,^4-5`. Pure.

use crate::registry::nearest;
use cpushield_linux::CpuSet;
use cpushield_linux::cpuset::{CPUS_MAX, CpuSetError};
use cpushield_sentence::Sentence;
use std::fmt;

/// The form of a selection, as a hint.
pub const SELECTION_HINT: &str = "a list looks like 3, 2-3, 2-N, isolated or all,^0";

/// The names of sets of CPUs.
const NAMES: [&str; 4] = ["all", "active", "boot", "isolated"];

/// The hint for a text that is not a selection.
#[must_use]
pub fn selection_hint(text: &str) -> String {
    mask_hint(text).unwrap_or_else(|| SELECTION_HINT.to_owned())
}

/// The hint for a hexadecimal mask where a list is expected.
#[must_use]
pub fn mask_hint(text: &str) -> Option<String> {
    let cpus = CpuSet::parse_mask(text).ok().filter(|_| text.starts_with("0x"))?;
    Some(format!("{text} is the mask of the list {cpus}; to convert masks: cpushield mask {text}"))
}

/// What the names of a selection mean on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuNames {
    /// `all`: every present CPU. `N` is the last of them.
    pub all: CpuSet,
    /// `active`: the online CPUs.
    pub active: CpuSet,
    /// `isolated`: CPUs that `isolcpus=` or isolated partitions keep from load balancing.
    pub isolated: CpuSet,
}

impl CpuNames {
    /// The names on a machine that is not known: every CPU that Linux supports, for checks of the
    /// form.
    #[must_use]
    pub fn unknown() -> CpuNames {
        let all: CpuSet = (0..CPUS_MAX).collect();
        CpuNames { active: all.clone(), isolated: all.clone(), all }
    }

    /// `boot`: the CPU that booted the machine: CPU 0, or the lowest online CPU if CPU 0 is not
    /// online.
    fn boot(&self) -> CpuSet {
        self.active.first().map(CpuSet::single).unwrap_or_default()
    }

    fn find(&self, name: &str) -> Option<CpuSet> {
        match name {
            "all" => Some(self.all.clone()),
            "active" => Some(self.active.clone()),
            "boot" => Some(self.boot()),
            "isolated" => Some(self.isolated.clone()),
            _ => None,
        }
    }
}

/// Why a text selects no CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum CpuSelectionError {
    /// A part is neither a name nor a CPU list.
    #[delegate]
    NotList(CpuSetError),
    /// A part looks like a name, but no set has it.
    #[print(write_no_such_name(f, name))]
    NoSuchName {
        /// The part.
        name: String,
    },
    /// {text:?} names no CPU.
    Empty {
        /// The text.
        text: String,
    },
    /// It selects no CPU of the machine.
    #[print(write_none_of_machine(f, text))]
    NoneOfMachine {
        /// The text.
        text: String,
    },
}

fn write_no_such_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write!(f, "{name:?} is neither a CPU list nor one of {}", NAMES.join(", "))?;
    let near = nearest(name, &NAMES);
    near.first().map_or(Ok(()), |near| write!(f, "; did you mean {near}?"))
}

fn write_none_of_machine(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    match text {
        "isolated" => f.write_str("no CPU is isolated by isolcpus= or by an isolated partition"),
        text => {
            write!(f, "{text:?} names no CPU on this machine")
        }
    }
}

impl std::error::Error for CpuSelectionError {}

impl CpuSelectionError {
    /// What to do next, where the form of the text is right; `None` if the form is wrong.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            CpuSelectionError::NoneOfMachine { text } if text == "isolated" => {
                Some("let cpushield choose: cpushield plan --count 1".to_owned())
            }
            _ => None,
        }
    }
}

/// A selection of CPUs, as text with a valid form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSelection(String);

impl CpuSelection {
    /// Checks the form of a selection.
    ///
    /// # Errors
    /// The text is not a selection, or is empty.
    pub fn parse(text: &str) -> Result<CpuSelection, CpuSelectionError> {
        select(text, &CpuNames::unknown())?;
        let text = text.to_owned();
        match text.trim_matches([',', ' ']).is_empty() {
            true => Err(CpuSelectionError::Empty { text }),
            false => Ok(CpuSelection(text)),
        }
    }

    /// The CPUs on a machine.
    ///
    /// # Errors
    /// The selection names no CPU of this machine.
    pub fn resolve(&self, names: &CpuNames) -> Result<CpuSet, CpuSelectionError> {
        let cpus = select(&self.0, names)?;
        match cpus.is_empty() {
            true => Err(CpuSelectionError::NoneOfMachine { text: self.0.clone() }),
            false => Ok(cpus),
        }
    }
}

impl fmt::Display for CpuSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The CPUs of a text: those that its parts name, without those of the parts with `^`. Where all
/// parts have one, the others of the online CPUs.
fn select(text: &str, names: &CpuNames) -> Result<CpuSet, CpuSelectionError> {
    let (mut named, mut left_out) = (None, CpuSet::new());
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (is_left_out, list) = match part.strip_prefix('^') {
            Some(list) => (true, list.trim()),
            None => (false, part),
        };
        let cpus = match names.find(list) {
            Some(cpus) => cpus,
            None if list.len() > 1 && list.chars().all(|c| c.is_ascii_alphabetic()) => {
                return Err(CpuSelectionError::NoSuchName { name: list.to_owned() });
            }
            None => {
                CpuSet::parse_list(list, names.all.last()).map_err(CpuSelectionError::NotList)?
            }
        };
        match is_left_out {
            true => left_out = left_out.union(&cpus),
            false => named = Some(named.unwrap_or_default()).map(|all: CpuSet| all.union(&cpus)),
        }
    }
    let named = match named {
        None if !left_out.is_empty() => names.active.clone(),
        named => named.unwrap_or_default(),
    };
    Ok(named.difference(&left_out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> CpuNames {
        let set = |list: &str| list.parse().unwrap();
        CpuNames { all: set("0-7"), active: set("0-6"), isolated: set("2-3") }
    }

    fn selected(text: &str) -> Result<String, CpuSelectionError> {
        CpuSelection::parse(text)?.resolve(&names()).map(|cpus| cpus.to_string())
    }

    #[test]
    fn names_and_what_is_left_out_select_cpus() {
        for (text, cpus) in [
            ("3", "3"),
            ("2-N", "2-7"),
            ("0-7:2/4", "0-1,4-5"),
            ("all", "0-7"),
            ("active", "0-6"),
            ("boot", "0"),
            ("isolated,6", "2-3,6"),
            ("0-7,^3", "0-2,4-7"),
            ("^3,0-7", "0-2,4-7"),
            ("active, ^boot, ^isolated", "1,4-6"),
            ("^0-1", "2-6"),
        ] {
            assert_eq!(selected(text), Ok(cpus.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_wrong_part_is_named() {
        for (text, why) in [
            ("", "names no CPU"),
            (",", "names no CPU"),
            ("isolatd", "\"isolatd\" is neither a CPU list nor one of all, active, boot, isolated"),
            ("3,isolatd", "; did you mean isolated?"),
            ("n", "\"n\" is not a CPU number"),
            ("^", "names no CPU"),
            ("3-1", "runs backwards"),
            ("3,^3", "names no CPU on this machine"),
            ("~3", "is not a CPU number"),
        ] {
            let error = selected(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z0-9N^,:/ -]{0,30}|.{0,20}") {
            if let Ok(selection) = CpuSelection::parse(&text) {
                let _ = selection.resolve(&names());
            }
        }
    }
}
