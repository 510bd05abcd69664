//! Kernel parameters that other programs, or an administrator, have set in a file: whether the
//! next boot has them, and how to remove them. Pure.

use cpushield_sentence::Sentence;
use serde::Serialize;
use std::fmt;

/// Kernel parameters on one line of a file of another program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForeignWord {
    /// The words, which share their state.
    pub words: Vec<String>,
    /// The file.
    pub path: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The variable that has the words; `None`: the file has only the command line.
    pub variable: Option<String>,
    /// Whether the next boot has them.
    pub state: WordState,
    /// How they can be removed; `None` where nothing has them.
    pub removal: Option<WordRemoval>,
}

/// Whether the next boot has a word of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum WordState {
    /// in force.
    InForce,
    /// in the boot entries, from the next boot on.
    NextBoot,
    /// not in the boot entries, so not in the next boot: run `{command}`; if the entries stay
    /// without it, they are not made from this file.
    NotInEntries {
        /// The command that makes the entries.
        command: String,
    },
    /// not in force, and whether the next boot has it is unknown{command}.
    #[with(command = command.as_ref().map_or_else(String::new, |it| format!(": `{it}` makes the entries")))]
    NotBooted {
        /// The command that makes the entries or images; `None` when it is unknown.
        command: Option<String>,
    },
    /// not set: {path}:{line} replaces {variable}; to keep it, append it to {variable} there
    /// or in a later file.
    Replaced {
        /// The file.
        path: String,
        /// The line in it, from 1.
        line: usize,
        /// The variable.
        variable: String,
    },
    /// only other entries get it: those for recovery or for Xen.
    OtherEntries,
    /// not set: this machine has {reader}, which does not read that file.
    NotRead {
        /// What makes the entries.
        reader: String,
    },
    /// {path}:{line} cannot be known without running it.
    Unknown {
        /// The file.
        path: String,
        /// The line in it, from 1.
        line: usize,
    },
}

/// How a word of another program can be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum WordRemoval {
    /// to remove it, edit that file and run `{command}`.
    Generator {
        /// The command.
        command: String,
    },
    /// to remove it, edit that file and run `{command}`, which updates the existing boot entries.
    Entries {
        /// The command.
        command: String,
    },
    /// to remove it, edit that file and regenerate the boot entries or images of the kernels.
    NewEntries,
    /// to remove it, choose another profile (`tuned-adm profile NAME`) and reboot.
    ///
    /// tuned removes its words only when its profile changes (`_instance_unapply_static()`,
    /// tuned/plugins/plugin_bootloader.py, 2.x).
    TunedProfile,
}

impl fmt::Display for ForeignWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForeignWord { words, path, line, variable, state, removal } = self;
        let words = words.join(" ");
        match variable {
            Some(variable) => write!(f, "{path}:{line}: {variable} has {words}; {state}")?,
            None => write!(f, "{path}:{line} has {words}; {state}")?,
        }
        removal.iter().try_for_each(|removal| write!(f, "; {removal}"))
    }
}
