//! What differs between two measured configurations, and what a search can do about it. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A difference between two documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What differs.
    #[serde(with = "crate::with_text::WithText::<DifferenceSubject>")]
    pub what: DifferenceSubject,
    /// Its value in the good document; `None` when that document does not have it.
    pub good: Option<String>,
    /// Its value in the bad document; `None` when that document does not have it.
    pub bad: Option<String>,
    /// What the search does about it.
    #[serde(with = "crate::with_text::WithText::<DifferenceRole>")]
    pub role: DifferenceRole,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "differs", rename_all = "kebab-case")]
pub enum DifferenceSubject {
    /// The kernel's release.
    Kernel,
    /// A word of the kernel command line.
    Parameter {
        /// Its name.
        name: String,
    },
    /// Whether the CPUs are shielded.
    Shield,
    /// A tunable.
    Tunable {
        /// Its name.
        name: String,
    },
    /// The hardware, the firmware, or another property of the machine.
    Machine {
        /// Its name.
        name: String,
    },
    /// How it was measured.
    Method {
        /// Its name.
        name: String,
    },
    /// Something that interrupted the CPUs.
    Interruption {
        /// Its cause and its culprit, without the number of a task.
        name: String,
    },
    /// Less frequent interruptions, which are not listed.
    MoreInterruptions {
        /// How many causes with different culprits they have.
        count: usize,
    },
}

impl fmt::Display for DifferenceSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DifferenceSubject::Kernel => f.write_str("kernel"),
            DifferenceSubject::Parameter { name } => write!(f, "kernel parameter {name}"),
            DifferenceSubject::Shield => f.write_str("shield"),
            DifferenceSubject::Tunable { name } => write!(f, "tunable {name}"),
            DifferenceSubject::Machine { name } | DifferenceSubject::Method { name } => {
                f.write_str(name)
            }
            DifferenceSubject::Interruption { name } => write!(f, "interrupted by {name}"),
            DifferenceSubject::MoreInterruptions { count: 1 } => {
                f.write_str("and 1 more source of interruptions")
            }
            DifferenceSubject::MoreInterruptions { count } => {
                write!(f, "and {count} more sources of interruptions")
            }
        }
    }
}

/// What a search does about a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum DifferenceRole {
    /// It is tried, by options of the search.
    Tried,
    /// cpushield can set it, but nothing is tried on this machine.
    Settable,
    /// It needs a reboot, which was not permitted.
    NeedsReboot,
    /// The running boot has it, and `experiment` only adds words to a boot.
    NotRemovable,
    /// One of the kernels is not in the boot menu, so no boot can try it.
    KernelNotInstalled,
    /// The boot menu could not be read. The other kernel has to be booted by hand, if there is one.
    BootMenuUnknown,
    /// cpushield cannot set it.
    Suspect,
    /// It follows from another difference, or it is what the cause does.
    Symptom,
}

impl fmt::Display for DifferenceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DifferenceRole::Tried => "tried",
            DifferenceRole::Settable => "not tried; cpushield can set it",
            DifferenceRole::NeedsReboot => "not tried: needs a reboot (--reboot)",
            DifferenceRole::NotRemovable => {
                "not tried: the running boot has it, but experiment can only add parameters; boot \
                 without it and repeat the search"
            }
            DifferenceRole::BootMenuUnknown => {
                "not tried: the boot menu could not be read; boot the other kernel and measure \
                 again"
            }
            DifferenceRole::KernelNotInstalled => {
                "suspect: this machine does not have both kernels in its boot menu, so they \
                 cannot be tried"
            }
            DifferenceRole::Suspect => "suspect: cpushield cannot set it",
            DifferenceRole::Symptom => "an effect, not a cause",
        })
    }
}

/// Why the differences are listed only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "listed", rename_all = "kebab-case")]
pub enum ListedReason {
    /// The documents are of another machine.
    OtherMachine {
        /// What differs from this machine.
        what: String,
        /// Its value in the documents.
        theirs: String,
        /// Its value here.
        ours: String,
    },
    /// Changes need root.
    NotRoot,
    /// Nothing differs.
    NoDifference,
    /// Nothing that differs can be set without a reboot.
    NothingToSet,
}

impl fmt::Display for ListedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListedReason::OtherMachine { what, theirs, ours } => {
                write!(f, "the documents are from another machine ({what}: {theirs}, here: {ours})")
            }
            ListedReason::NotRoot => f.write_str("only root can change this machine"),
            ListedReason::NoDifference => f.write_str("the documents show no difference"),
            ListedReason::NothingToSet => {
                f.write_str("none of the differences can be set here without a reboot")
            }
        }
    }
}
