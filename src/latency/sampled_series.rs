//! The series of samples: the labels of their tallies ([`SeriesLabel`]), and what is known of them
//! only at the end ([`FinalFacts`]). Plain data.

use super::measurement_process::ThreadPlacement;
use super::{LatencyDoubt, LatencyNote, ThreadDoubt, WakeupStage};

/// Identifies the series of one tally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesLabel {
    /// The thread.
    pub(super) placement: ThreadPlacement,
    /// The stage, where wakeups are measured in stages.
    pub(super) stage: Option<WakeupStage>,
    /// Shorter latencies are no samples; 0 when all are.
    pub(super) threshold_ns: u64,
    /// The thread's number, once it has one.
    pub(super) tid: i32,
}

/// What is known only at the end.
#[derive(Debug, Default)]
pub(super) struct FinalFacts {
    /// The doubts of each series; fewer entries than series where there are none.
    pub(super) thread_doubts: Vec<Vec<ThreadDoubt>>,
    /// The doubts about all figures.
    pub(super) doubts: Vec<LatencyDoubt>,
    /// The number of SMIs of each series' CPU; fewer entries where SMIs were not counted.
    pub(super) smis: Vec<Option<u64>>,
    /// Notes for the document.
    pub(super) notes: Vec<LatencyNote>,
}
