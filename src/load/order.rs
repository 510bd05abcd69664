//! The requested loads, and the errors that prevent them. Pure.

use super::LoadRefusal;
use super::kinds::{self, KINDS, LoadKind};
use crate::documents::load_done::load_word;
use crate::refusal::suggest;
use crate::registry::{names, nearest};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use std::path::PathBuf;

/// The word for every kind of cpushield itself.
const ALL: &str = "all";
/// The word for no load.
pub const NONE: &str = "none";
/// The kind that runs a command of the user's own, whose text stays whole.
pub const COMMAND: &str = "command";

/// A requested load.
#[derive(Debug, Clone)]
pub struct WantedLoad {
    /// Its kind.
    pub kind: &'static LoadKind,
    /// The user's arguments for a program.
    pub arguments: Vec<String>,
    /// It is skipped, with a note, where it cannot run.
    pub optional: bool,
}

impl WantedLoad {
    /// The load as a request names it: `messages`, `stress-ng:--cpu 2`.
    #[must_use]
    pub fn word(&self) -> String {
        load_word(self.kind.name, &self.arguments)
    }
}

/// The load to run on the machine.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The loads; there may be none.
    pub wanted: Vec<WantedLoad>,
    /// The CPUs that all loads share.
    pub cpus: CpuSet,
    /// The directory for temporary files.
    pub dir: PathBuf,
}

impl LoadRequest {
    /// Requests no load.
    #[must_use]
    pub fn none() -> LoadRequest {
        LoadRequest { wanted: Vec::new(), cpus: CpuSet::new(), dir: PathBuf::new() }
    }
}

/// Why a load is not possible.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
#[kind(Usage)]
pub enum LoadError {
    /// there is no load {word:?}; the loads are {ALL}, {NONE}, {names}.
    #[with(names = names(KINDS).join(", "))]
    #[hint(suggest(near))]
    #[hint("read about a load: cpushield explain load-messages")]
    Unknown {
        /// The requested name.
        word: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// {NONE} cannot be combined with other loads.
    NoneCombined,
    /// {word:?}: only a load that runs a program takes arguments after a colon.
    UnexpectedArguments {
        /// The requested load with its arguments.
        word: String,
    },
    /// the load {COMMAND} needs a command, as in "{COMMAND}:make -j4".
    NoCommand,
    /// only one command can be a load; join them, as in "command:make & glxgears".
    SeveralCommands,
    /// the load {load} cannot run: {why}.
    #[kind(Machine)]
    #[hint("read about this load: cpushield explain load-{load}")]
    #[hint("or use another --load; `all` skips loads that cannot run")]
    Impossible {
        /// The name of the load.
        load: &'static str,
        /// Why.
        why: LoadRefusal,
    },
}

impl std::error::Error for LoadError {}

impl LoadError {
    /// The name that was probably meant, after `; `; empty when there is none.
    #[must_use]
    pub fn suggestion(&self) -> String {
        let LoadError::Unknown { near, .. } = self else { return String::new() };
        near.first().map_or_else(String::new, |near| format!("; did you mean {near}?"))
    }

    /// Whether the error is about this word of several.
    #[must_use]
    pub fn is_about(&self, given: &str) -> bool {
        match self {
            LoadError::Unknown { word, .. } | LoadError::UnexpectedArguments { word } => {
                word == given
            }
            _ => false,
        }
    }
}

/// Parses the names of loads: `messages`, `all`, `stress-ng:--cpu 2`. The result has each kind
/// once.
///
/// # Errors
/// There is no such kind, or the loads cannot be combined.
pub fn parse_loads(words: &[String]) -> Result<Vec<WantedLoad>, LoadError> {
    if words.iter().any(|word| word == NONE) {
        return match words {
            [_] => Ok(Vec::new()),
            _ => Err(LoadError::NoneCombined),
        };
    }
    let mut wanted: Vec<WantedLoad> = Vec::new();
    for word in words {
        let (name, arguments) = word.split_once(':').unwrap_or((word, ""));
        let kinds = match name {
            ALL => KINDS.iter().copied().filter(|kind| !kind.is_program).collect(),
            name => {
                vec![kinds::named(name).ok_or_else(|| unknown(word, name))?]
            }
        };
        let arguments = parse_arguments(name, arguments)?;
        if !arguments.is_empty() && kinds.iter().any(|kind| !kind.is_program) {
            return Err(LoadError::UnexpectedArguments { word: word.clone() });
        }
        for kind in kinds {
            match wanted.iter_mut().find(|known| known.kind.name == kind.name) {
                Some(_) if name == COMMAND => return Err(LoadError::SeveralCommands),
                Some(known) => known.optional &= name == ALL,
                None => {
                    let (arguments, optional) = (arguments.clone(), name == ALL);
                    wanted.push(WantedLoad { kind, arguments, optional });
                }
            }
        }
    }
    Ok(wanted)
}

fn unknown(word: &str, name: &str) -> LoadError {
    LoadError::Unknown { word: word.to_owned(), near: nearest(name, &names(KINDS)) }
}

/// The arguments of a load: words, or the whole text of a command.
fn parse_arguments(name: &str, text: &str) -> Result<Vec<String>, LoadError> {
    match text.trim() {
        "" if name == COMMAND => Err(LoadError::NoCommand),
        command if name == COMMAND => Ok(vec![command.to_owned()]),
        text => Ok(text.split_whitespace().map(str::to_owned).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the parsed loads, with `?` for optional ones, and their arguments.
    fn parse(words: &[&str]) -> Result<Vec<String>, LoadError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let loads = parse_loads(&words)?;
        Ok(loads.iter().map(describe).collect())
    }

    fn describe(load: &WantedLoad) -> String {
        let optional = if load.optional { "?" } else { "" };
        format!("{}{optional}{}", load.kind.name, load.arguments.join("+"))
    }

    #[test]
    fn words_become_loads() {
        assert_eq!(parse(&[]), Ok(vec![]));
        assert_eq!(parse(&["none"]), Ok(vec![]));
        assert_eq!(parse(&["disk", "fork", "disk"]), Ok(vec!["disk".into(), "fork".into()]));
        assert_eq!(
            parse(&["stress-ng:--cpu 2  --vm 1"]),
            Ok(vec!["stress-ng--cpu+2+--vm+1".into()])
        );
        let all = parse(&["all", "disk"]).unwrap();
        assert_eq!(all.iter().filter(|name| name.ends_with('?')).count(), all.len() - 1);
        assert!(all.contains(&"disk".to_owned()) && !all.iter().any(|name| name.contains("ng")));
        assert_eq!(parse(&["command: a  'b:c' "]), Ok(vec!["commanda  'b:c'".into()]));
        assert!(parse(&["command"]).unwrap_err().to_string().contains("needs a command"));
        assert!(
            parse(&["command:a", "command:b"])
                .unwrap_err()
                .to_string()
                .contains("only one command")
        );
        assert!(
            parse(&["none", "disk"]).unwrap_err().to_string().contains("combined with other loads")
        );
        assert!(parse(&["sundial"]).unwrap_err().to_string().contains("all, none, messages"));
        assert!(parse(&["disk:--fast"]).unwrap_err().to_string().contains("only a load that runs"));
    }
}
