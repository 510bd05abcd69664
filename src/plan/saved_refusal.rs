//! [`SavedRefusal`]: why a saved plan is not applied on this machine now.

use cpushield_linux::CpuSet;
use serde::Serialize;
use std::fmt;

/// Why a saved plan is not applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum SavedRefusal {
    /// It is of another boot.
    OtherBoot,
    /// It counts on other housekeeping CPUs than this machine has now.
    OtherHousekeeping {
        /// Those of the plan.
        found: CpuSet,
        /// Those that the shield would have now.
        needed: CpuSet,
    },
    /// A step is none that its tunable wants on this machine now.
    NotWanted {
        /// The step, from 1.
        step: usize,
        /// Its tunable.
        tunable: String,
        /// The change, as a shell command.
        change: String,
    },
}

impl fmt::Display for SavedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedRefusal::OtherBoot => f.write_str("the plan names another boot, or none"),
            SavedRefusal::OtherHousekeeping { found, needed } => write!(
                f,
                "the plan leaves CPU {found} to other programs, but here that is now CPU {needed}"
            ),
            SavedRefusal::NotWanted { step, tunable, change } => write!(
                f,
                "step {step}: on this machine, {tunable} does not want this change now: {change}"
            ),
        }
    }
}
