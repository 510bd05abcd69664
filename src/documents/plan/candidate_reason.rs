//! [`CandidateReason`]: why a set of CPUs is worth trying. Pure.

use serde::Serialize;
use std::fmt;

/// Why a set of CPUs is worth trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum CandidateReason {
    /// `cpushield plan` would choose it.
    Recommended,
    /// It is one CPU.
    OneCpu,
    /// It has a level-2 cache of its own.
    WholeLevel2,
    /// It has a level-3 cache of its own.
    WholeLevel3,
    /// It has two CPUs.
    TwoCpus,
    /// It has all CPUs except one.
    AllExceptOne,
    /// It is another core.
    OtherCore,
}

impl fmt::Display for CandidateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CandidateReason::Recommended => "`cpushield plan` chooses this.",
            CandidateReason::OneCpu => {
                "A shield of one CPU leaves the most CPUs for the rest of the machine."
            }
            CandidateReason::WholeLevel2 => {
                "The shield does not share a level-2 cache with housekeeping CPUs."
            }
            CandidateReason::WholeLevel3 => {
                "The shield does not share a level-3 cache with housekeeping CPUs."
            }
            CandidateReason::TwoCpus => {
                "A shield of two CPUs can run two programs at the same time."
            }
            CandidateReason::AllExceptOne => {
                "A shield of all CPUs except one leaves one CPU for the rest of the machine."
            }
            CandidateReason::OtherCore => {
                "Another core may be quieter: firmware and devices affect cores differently."
            }
        })
    }
}
