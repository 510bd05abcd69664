//! How the machine differs from what was written in boot files, and what undo could not leave as
//! it was. Pure.

use cpushield_sentence::Sentence;
use serde::Serialize;

/// A difference between what was written and what the machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "difference", rename_all = "kebab-case")]
pub enum BootDifference {
    /// writing the boot files was interrupted; `cpushield boot undo` restores the original files.
    Interrupted,
    /// no menu entry boots kernel {version} with the parameters: the kernel was removed, or the
    /// loader's configuration changed.
    EntryGone {
        /// The kernel's version.
        version: String,
    },
    /// the kernel was not booted with {words}; boot the menu entry that has them.
    #[with(words = words.join(" "))]
    EntryNotBooted {
        /// The missing parameters.
        words: Vec<String>,
    },
    /// the kernel was not booted with {words}: it is not one of the chosen kernels; boot a chosen
    /// kernel.
    #[with(words = words.join(" "))]
    OtherKernel {
        /// The missing parameters.
        words: Vec<String>,
    },
    /// the kernel was booted with {word}, but the parameter is not in force: the kernel shows
    /// {shows}.
    #[with(shows = shows.as_deref().unwrap_or("nothing"))]
    NotInForce {
        /// The parameter.
        word: String,
        /// What the kernel shows; `None` when it shows nothing.
        shows: Option<String>,
    },
    /// the kernel reported about {parameter}: {message}.
    Refused {
        /// The parameter's name.
        parameter: String,
        /// The kernel's message.
        message: String,
    },
}

/// What undo could not leave as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum UndoNote {
    /// could not unload the kernel that --kexec loaded ({answer}); the next reboot by systemd would
    /// start it with the parameters; to reboot without kexec: SYSTEMCTL_SKIP_AUTO_KEXEC=1 systemctl
    /// reboot.
    StillLoaded {
        /// The kernel's answer.
        answer: String,
    },
    /// {path} was removed, although another program had changed it.
    ChangedFileRemoved {
        /// The file.
        path: String,
    },
}
