//! Kernel parameters that other programs, or an administrator, have set in a file, and how to
//! remove them. Pure.

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum WordRemoval {
    /// An edit of the file, and a program that generates `grub.cfg` from it.
    Generator {
        /// The command.
        command: String,
    },
    /// An edit of the file, and a program that changes the existing entries, which have their own
    /// copy.
    Entries {
        /// The command.
        command: String,
    },
    /// An edit of the file, and a new boot entry or image for each kernel.
    NewEntries,
    /// tuned removes its words only when its profile changes (`_instance_unapply_static()`,
    /// tuned/plugins/plugin_bootloader.py, 2.x).
    TunedProfile,
}

impl fmt::Display for WordRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WordRemoval::Generator { command } => {
                write!(f, "to remove it, edit that file and run `{command}`")
            }
            WordRemoval::Entries { command } => {
                write!(
                    f,
                    "to remove it, edit that file and run `{command}`, which updates the \
                     existing boot entries"
                )
            }
            WordRemoval::NewEntries => f.write_str(
                "to remove it, edit that file and regenerate the boot entries or images of the \
                 kernels",
            ),
            WordRemoval::TunedProfile => f.write_str(
                "to remove it, choose another profile (`tuned-adm profile NAME`) and reboot",
            ),
        }
    }
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
