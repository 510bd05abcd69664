//! The limits that `verify` checks. Pure.

use serde::{Deserialize, Serialize};

/// The limits that `verify` checks. A limit that is not given is not checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyLimits {
    /// The maximum number of entries into the kernel on one CPU.
    pub max_entries: Option<u64>,
    /// The maximum gap in nanoseconds.
    pub max_gap_ns: Option<u64>,
    /// Whether two witnesses must have watched every class of entry. Otherwise the verdict is
    /// unknown.
    pub two_witnesses: bool,
    /// The maximum number of foreign interruptions of a cyclic workload on one CPU, also harmless
    /// ones.
    pub max_foreign: Option<u64>,
    /// The maximum share of the time that may be taken below the kernel of a CPU, in parts per
    /// million.
    pub max_steal_ppm: Option<u64>,
    /// Whether a cyclic workload may be interrupted by the tick.
    pub tick: TickLimit,
}

/// Whether the tick counts against a cyclic workload.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TickLimit {
    /// It does.
    #[default]
    Counts,
    /// It does not.
    Allowed,
}
