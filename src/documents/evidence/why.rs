//! The [`TimeBreakdown`] document: what ran on a CPU while a thread waited for it.

use crate::causes::{Cause, Culprit};
use crate::documents::evidence::AbsenceReason;
use crate::documents::remedy::Remedy;
use cpushield_sentence::Sentence;
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
    #[serde(with = "crate::with_text::option")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::with_text::WithText<UnknownBreakdown>>")
    )]
    pub unknown: Option<UnknownBreakdown>,
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
    pub fn unknown(why: UnknownBreakdown) -> TimeBreakdown {
        TimeBreakdown { unknown: Some(why), ..TimeBreakdown::default() }
    }
}

/// Why it is unknown what ran while a thread waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum UnknownBreakdown {
    /// there was no trace: {absence}.
    NoTrace {
        /// Why.
        absence: AbsenceReason,
    },
    /// the trace for this period was not read.
    NotRead,
    /// the trace kept no history.
    NoHistory,
    /// the clocks of the thread and of the trace could not be synchronized.
    ClocksNotSynchronized,
    /// the CPU was not traced.
    CpuNotTraced,
    /// the wait began before the oldest record that was kept.
    RecordsDiscarded,
    /// the trace lost events at that time.
    EventsLost,
}
