//! The [`TimeBreakdown`] document: what ran on a CPU while a thread waited for it.

use crate::causes::{Cause, Culprit};
use crate::tunables::Remedy;
use serde::{Deserialize, Serialize};

/// What ran on a CPU between two moments: who had how much of the time. What is named, `unseen_ns`
/// and `rest_ns` together are the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeBreakdown {
    /// By cause and culprit, longest first.
    pub shares: Vec<TimeShare>,
    /// For so long after the first moment no event came from the CPU, in nanoseconds: an idle
    /// state, a timer that expired elsewhere, the hypervisor, firmware.
    pub unseen_ns: u64,
    /// All between the others, in nanoseconds: the scheduler, the way into the kernel and out of
    /// it, the thread itself.
    pub rest_ns: u64,
    /// How far the two moments may lie from where the trace has them, in nanoseconds: the thread
    /// has another clock than the trace.
    pub error_ns: u64,
    /// Why it is not known; the other fields say nothing then.
    pub unknown: Option<String>,
}

/// Who had a part of the time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeShare {
    /// The kind.
    pub cause: Cause,
    /// Who.
    #[serde(with = "crate::with_text")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::with_text::WithText<Culprit>"))]
    pub culprit: Culprit,
    /// For how long, without what interrupted it, in nanoseconds.
    pub took_ns: u64,
    /// How to remove it; `None` when nothing is known that could here.
    pub remedy: Option<Remedy>,
}

impl TimeBreakdown {
    /// It is not known.
    #[must_use]
    pub fn unknown(why: impl Into<String>) -> TimeBreakdown {
        TimeBreakdown { unknown: Some(why.into()), ..TimeBreakdown::default() }
    }
}
