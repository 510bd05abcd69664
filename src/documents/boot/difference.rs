//! How the machine differs from what was written in boot files, and what undo could not leave as
//! it was. Pure.

use serde::Serialize;
use std::fmt;

/// A difference between what was written and what the machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "difference", rename_all = "kebab-case")]
pub enum BootDifference {
    /// Writing was interrupted.
    Interrupted,
    /// A kernel no longer has an entry with the parameters.
    EntryGone {
        /// The kernel's version.
        version: String,
    },
    /// The running kernel has an entry with the parameters, and another one was booted.
    EntryNotBooted {
        /// The missing parameters.
        words: Vec<String>,
    },
    /// The running kernel is not one of those that get the parameters.
    OtherKernel {
        /// The missing parameters.
        words: Vec<String>,
    },
    /// The kernel was booted with a parameter that is not in force.
    NotInForce {
        /// The parameter.
        word: String,
        /// What the kernel shows; `None` when it shows nothing.
        shows: Option<String>,
    },
    /// The kernel reported that it does not accept a parameter as written.
    Refused {
        /// The parameter's name.
        parameter: String,
        /// The kernel's message.
        message: String,
    },
}

impl BootDifference {
    /// What to do, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            BootDifference::Interrupted => {
                Some("`cpushield boot undo` restores the original files")
            }
            BootDifference::EntryNotBooted { .. } => Some("boot the menu entry that has them"),
            BootDifference::OtherKernel { .. } => Some("boot a chosen kernel"),
            _ => None,
        }
    }
}

impl fmt::Display for BootDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootDifference::Interrupted => {
                f.write_str("writing the boot files was interrupted")?;
            }
            BootDifference::EntryGone { version } => write!(
                f,
                "no menu entry boots kernel {version} with the parameters: the kernel was removed, \
                 or the loader's configuration changed"
            )?,
            BootDifference::EntryNotBooted { words } => {
                write!(f, "the kernel was not booted with {}", words.join(" "))?;
            }
            BootDifference::OtherKernel { words } => write!(
                f,
                "the kernel was not booted with {}: it is not one of the chosen kernels",
                words.join(" ")
            )?,
            BootDifference::NotInForce { word, shows } => {
                let shows = shows.as_deref().unwrap_or("nothing");
                write!(
                    f,
                    "the kernel was booted with {word}, but the parameter is not in force: \
                     the kernel shows {shows}"
                )?;
            }
            BootDifference::Refused { parameter, message } => {
                write!(f, "the kernel reported about {parameter}: {message}")?;
            }
        }
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// What undo could not leave as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum UndoNote {
    /// The kernel that `--kexec` loaded cannot be unloaded.
    StillLoaded {
        /// The kernel's answer.
        answer: String,
    },
    /// A file that cpushield wrote was removed although another program had changed it.
    ChangedFileRemoved {
        /// The file.
        path: String,
    },
}

impl UndoNote {
    /// What to do, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            UndoNote::StillLoaded { .. } => {
                Some("to reboot without kexec: SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl reboot")
            }
            UndoNote::ChangedFileRemoved { .. } => None,
        }
    }
}

impl fmt::Display for UndoNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UndoNote::StillLoaded { answer } => write!(
                f,
                "could not unload the kernel that --kexec loaded ({answer}); the next reboot by \
                 systemd would start it with the parameters"
            )?,
            UndoNote::ChangedFileRemoved { path } => {
                write!(f, "{path} was removed, although another program had changed it")?;
            }
        }
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}
