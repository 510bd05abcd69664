//! [`CandidateReason`]: why a set of CPUs is worth trying. Pure.

use cpushield_sentence::Sentence;
use serde::Serialize;

/// Why a set of CPUs is worth trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
#[stop]
pub enum CandidateReason {
    /// `cpushield plan` chooses this.
    Recommended,
    /// A shield of one CPU leaves the most CPUs for the rest of the machine.
    OneCpu,
    /// The shield does not share a level-2 cache with housekeeping CPUs.
    WholeLevel2,
    /// The shield does not share a level-3 cache with housekeeping CPUs.
    WholeLevel3,
    /// A shield of two CPUs can run two programs at the same time.
    TwoCpus,
    /// A shield of all CPUs except one leaves one CPU for the rest of the machine.
    AllExceptOne,
    /// Another core may be quieter: firmware and devices affect cores differently.
    OtherCore,
}
