//! [`SavedRefusal`]: why a saved plan is not applied on this machine now.

use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;

/// Why a saved plan is not applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[serde(tag = "tag", rename_all = "kebab-case")]
pub enum SavedRefusal {
    /// the plan names another boot, or none.
    OtherBoot,
    /// the plan leaves CPU {found} to other programs, but here that is now CPU {needed}.
    OtherHousekeeping {
        /// Those of the plan.
        found: CpuSet,
        /// Those that the shield would have now.
        needed: CpuSet,
    },
    /// step {step}: on this machine, {tunable} does not want this change now: {change}.
    NotWanted {
        /// The step, from 1.
        step: usize,
        /// Its tunable.
        tunable: String,
        /// The change, as a shell command.
        change: String,
    },
}
