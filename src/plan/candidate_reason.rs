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
            CandidateReason::Recommended => "This is the choice of cpushield plan.",
            CandidateReason::OneCpu => "One CPU leaves the most to the rest.",
            CandidateReason::WholeLevel2 => {
                "A whole level-2 cache is not shared with housekeeping CPUs."
            }
            CandidateReason::WholeLevel3 => {
                "A whole level-3 cache is not shared with housekeeping CPUs."
            }
            CandidateReason::TwoCpus => "Two CPUs can run two programs.",
            CandidateReason::AllExceptOne => {
                "All CPUs except one leave the rest of the machine a single CPU."
            }
            CandidateReason::OtherCore => {
                "Another core may be quieter: firmware and devices differ by core."
            }
        })
    }
}
