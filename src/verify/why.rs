//! The [`TimeBreakdown`] document: what ran on a CPU while a thread waited for it.

use crate::causes::{Cause, Culprit};
use crate::tunables::Remedy;
use serde::{Deserialize, Serialize};

/// What ran on a CPU between two moments, and for how long. The shares, `unseen_ns` and `rest_ns`
/// add up to the whole time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeBreakdown {
    /// By cause and culprit, longest first.
    pub shares: Vec<TimeShare>,
    /// Time after the first moment without an event from the CPU, in nanoseconds: an idle state, a
    /// timer that expired elsewhere, the hypervisor, firmware.
    pub unseen_ns: u64,
    /// The remaining time, in nanoseconds: the scheduler, the way into the kernel and out of
    /// it, the thread itself.
    pub rest_ns: u64,
    /// How far the two moments may lie from their place in the trace, in nanoseconds: the thread
    /// and the trace use different clocks.
    pub error_ns: u64,
    /// Why the breakdown is unknown; the other fields mean nothing then.
    pub unknown: Option<String>,
}

/// The share of one culprit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeShare {
    /// The cause.
    pub cause: Cause,
    /// The culprit.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// For how long, without what interrupted it, in nanoseconds.
    pub took_ns: u64,
    /// How to remove it; `None` when no tunable is known to remove it on this machine.
    pub remedy: Option<Remedy>,
}

impl TimeBreakdown {
    /// An unknown breakdown, and why.
    #[must_use]
    pub fn unknown(why: impl Into<String>) -> TimeBreakdown {
        TimeBreakdown { unknown: Some(why.into()), ..TimeBreakdown::default() }
    }
}
