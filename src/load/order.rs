//! The requested loads, and the errors that prevent them.

use super::kinds::{self, KINDS, LoadKind};
use cpushield_linux::CpuSet;
use std::fmt;
use std::path::PathBuf;

/// The word for every kind of cpushield itself.
const ALL: &str = "all";
/// The word for no load.
const NONE: &str = "none";

/// A requested load.
#[derive(Debug, Clone)]
pub struct WantedLoad {
    /// Its kind.
    pub kind: &'static dyn LoadKind,
    /// The user's arguments for a program.
    pub words: Vec<String>,
    /// Whether to skip it, with a note, where it cannot run.
    pub optional: bool,
}

/// The load to run on the machine.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The loads; none is fine.
    pub wanted: Vec<WantedLoad>,
    /// The CPUs that all loads share.
    pub cpus: CpuSet,
    /// The directory for temporary files.
    pub dir: PathBuf,
}

impl LoadRequest {
    /// No load.
    #[must_use]
    pub fn none() -> LoadRequest {
        LoadRequest { wanted: Vec::new(), cpus: CpuSet::new(), dir: PathBuf::new() }
    }
}

/// Why a load is not possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// There is no such kind.
    Unknown {
        /// The requested name.
        word: String,
    },
    /// `none` together with others, or arguments for a load that takes none.
    Senseless {
        /// Why.
        why: String,
    },
    /// It cannot run here.
    Impossible {
        /// The name of the load.
        load: &'static str,
        /// Why.
        why: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unknown { word } => {
                let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
                write!(f, "no load {word:?}; there are {ALL}, {NONE}, {}", names.join(", "))
            }
            LoadError::Senseless { why } => f.write_str(why),
            LoadError::Impossible { load, why } => write!(f, "the load {load} cannot run: {why}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Parses the names of loads: `messages`, `all`, `stress-ng:--cpu 2`. Each kind is there once.
///
/// # Errors
/// There is no such kind, or the words make no sense together.
pub fn wanted(words: &[String]) -> Result<Vec<WantedLoad>, LoadError> {
    if words.iter().any(|word| word == NONE) {
        return match words {
            [_] => Ok(Vec::new()),
            _ => Err(LoadError::Senseless {
                why: format!("{NONE} cannot be combined with other loads"),
            }),
        };
    }
    let mut wanted: Vec<WantedLoad> = Vec::new();
    for word in words {
        let (name, rest) = word.split_once(':').unwrap_or((word, ""));
        let more = match name {
            ALL => KINDS.iter().copied().filter(|kind| !kind.is_program()).collect(),
            name => {
                vec![
                    kinds::by_name(name)
                        .ok_or_else(|| LoadError::Unknown { word: word.clone() })?,
                ]
            }
        };
        let words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
        if !words.is_empty() && more.iter().any(|kind| !kind.is_program()) {
            let why = format!("{word:?}: only a program takes words after a colon");
            return Err(LoadError::Senseless { why });
        }
        for kind in more {
            match wanted.iter_mut().find(|known| known.kind.name() == kind.name()) {
                Some(known) => known.optional &= name == ALL,
                None => {
                    let (words, optional) = (words.clone(), name == ALL);
                    wanted.push(WantedLoad { kind, words, optional });
                }
            }
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let tell = |one: &WantedLoad| {
            format!("{}{}", one.kind.name(), if one.optional { "?" } else { "" })
                + &one.words.join("+")
        };
        wanted(&words).map(|all| all.iter().map(tell).collect()).map_err(|e| e.to_string())
    }

    #[test]
    fn words_become_loads() {
        assert_eq!(told(&[]), Ok(vec![]));
        assert_eq!(told(&["none"]), Ok(vec![]));
        assert_eq!(told(&["disk", "fork", "disk"]), Ok(vec!["disk".into(), "fork".into()]));
        assert_eq!(
            told(&["stress-ng:--cpu 2  --vm 1"]),
            Ok(vec!["stress-ng--cpu+2+--vm+1".into()])
        );
        let all = told(&["all", "disk"]).unwrap();
        assert_eq!(all.iter().filter(|name| name.ends_with('?')).count(), all.len() - 1);
        assert!(all.contains(&"disk".to_owned()) && !all.iter().any(|name| name.contains("ng")));
        assert!(told(&["none", "disk"]).unwrap_err().contains("combined with other loads"));
        assert!(told(&["sundial"]).unwrap_err().contains("all, none, messages"));
        assert!(told(&["disk:--fast"]).unwrap_err().contains("only a program"));
    }
}
