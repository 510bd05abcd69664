//! The [`Verdict`] document: what the evidence shows.

use crate::documents::evidence::{
    EntryClass, Evidence, Gate, InterruptionCount, JudgeReason, SCHEMA, TickShare,
};
pub use crate::documents::remedy::{Remedy, RemedyObstacle};
use crate::policy::TickLimit;
use serde::{Deserialize, Serialize};

/// What `verify --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifyDocument {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// The observations.
    pub evidence: Evidence,
    /// The verdict on them.
    pub verdict: Verdict,
}

impl VerifyDocument {
    /// The document of a watch and its verdict.
    #[must_use]
    pub fn new(evidence: Evidence, verdict: Verdict) -> VerifyDocument {
        VerifyDocument { schema: SCHEMA, evidence, verdict }
    }
}

/// What the evidence shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The version of this format: [`SCHEMA`].
    pub schema: u32,
    /// One entry for each CPU.
    pub cpus: Vec<CpuVerdict>,
    /// The limits that the user set, with what was found.
    pub gates: Vec<Gate>,
    /// Whether a cyclic workload may be interrupted by the tick.
    pub tick: TickLimit,
}

/// The verdict on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuVerdict {
    /// The CPU.
    pub cpu: usize,
    /// The verdict by the evidence alone; limits do not change it.
    pub state: VerdictState,
    /// The ticks that a state of `holds` leaves out; `None` for any other state, and without ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<TickShare>>")
    )]
    pub apart_from: Option<TickShare>,
    /// Whether this CPU keeps every limit; `None` when none was given. The limits decide the exit
    /// code; without limits, the states do.
    pub limits: Option<LimitsKept>,
    /// What interrupted the CPU, with the remedies.
    pub leaks: Vec<Leak>,
    /// Classes of entries that only one witness watched on this CPU.
    pub one_witness: Vec<EntryClass>,
    /// Classes of entries that no witness watched on this CPU.
    pub unwatched: Vec<EntryClass>,
    /// Why the verdict is unknown; empty when it is known.
    #[serde(with = "crate::with_text::list")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<crate::with_text::WithText<JudgeReason>>")
    )]
    pub unknown: Vec<JudgeReason>,
}

/// Whether limits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitsKept {
    /// All limits are certainly kept.
    Within,
    /// At least one limit is broken.
    Beyond,
    /// No limit is seen to be broken, but the evidence does not prove that all are kept.
    Unknown,
}

/// The state of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VerdictState {
    /// Nothing interrupted the CPU, and the positive control proves that the instruments see.
    Holds,
    /// The CPU was interrupted.
    Leaks,
    /// The evidence is not sufficient for a claim.
    Unknown,
}

/// One leak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leak {
    /// What was seen.
    pub interruptions: InterruptionCount,
    /// How to remove it; `None` when no tunable is known to remove it on this machine.
    pub remedy: Option<Remedy>,
    /// Why there is no remedy; `None` when that is unknown.
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<RemedyObstacle>>")
    )]
    pub why_none: Option<RemedyObstacle>,
    /// For an interrupt, the device that raises it and its driver: `vda, virtio_blk`. `None` where
    /// the bus does not name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}
