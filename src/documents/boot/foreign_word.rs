//! Kernel parameters that other programs, or an administrator, have set in a file, and how to
//! remove them. Pure.

use cpushield_sentence::Sentence;
use serde::Serialize;
use std::fmt;

/// A kernel parameter that a file of another program sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForeignWord {
    /// The word.
    pub word: String,
    /// The file.
    pub path: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The variable that has the word; `None`: the file has only the command line.
    pub variable: Option<String>,
    /// How it can be removed.
    pub removal: WordRemoval,
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
        let ForeignWord { word, path, line, variable, removal } = self;
        match variable {
            Some(variable) => write!(f, "{path}:{line}: {variable} has {word}; {removal}"),
            None => write!(f, "{path}:{line} has {word}; {removal}"),
        }
    }
}
