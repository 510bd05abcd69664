//! What to watch, how the watch reports its progress, and why it may fail.

use crate::documents::evidence::{ProgramEnd, WatchedWorkload};
use crate::policy::VerifyLimits;
use crate::trace::recording::TraceRecording;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Gaps of at least this many nanoseconds are counted, unless a limit is shorter.
pub const COUNTED_GAP_NS: u64 = 1_000;

/// What to watch, and how.
pub struct WatchOrder<'a> {
    /// The CPUs to watch.
    pub cpus: CpuSet,
    /// How long to watch.
    pub span: Duration,
    /// How long the workload runs before anything counts, so that the after-effects of its start
    /// (migration, deferred work, the last ticks) are over.
    pub warmup: Duration,
    /// The sampler counts gaps of at least this many nanoseconds.
    pub threshold_ns: u64,
    /// Whether the workload's system calls are traced too, which slows every process on the machine
    /// a little.
    pub syscalls: bool,
    /// Directory of the shield's cgroup, in which the sampler runs; `None` without a shield.
    pub cgroup: Option<String>,
    /// What runs on the CPUs; `None` for the sampler.
    pub workload: Option<GivenWorkload<'a>>,
    /// Whether the stack behind each event is recorded too.
    pub stacks: bool,
    /// Ends the watch at the first breach of a limit; `None` to watch for the whole span.
    pub until: Option<UntilBreach>,
    /// What to do with the raw trace; `None` to discard it.
    pub keep: Option<RawTraceUse<'a>>,
    /// Called with the progress several times a second.
    pub progress: &'a dyn Fn(WatchProgress),
    /// Called several times a second; the watch ends early when it returns true.
    pub stop: &'a dyn Fn() -> bool,
}

impl<'a> WatchOrder<'a> {
    /// Watches CPUs with the gap sampler for this long, without a warm-up.
    #[must_use]
    pub fn of_sampler(
        cpus: CpuSet,
        span: Duration,
        progress: &'a dyn Fn(WatchProgress),
        stop: &'a dyn Fn() -> bool,
    ) -> WatchOrder<'a> {
        WatchOrder {
            cpus,
            span,
            warmup: Duration::ZERO,
            threshold_ns: COUNTED_GAP_NS,
            syscalls: false,
            cgroup: None,
            workload: None,
            stacks: false,
            until: None,
            keep: None,
            progress,
            stop,
        }
    }
}

/// Ends the watch at the first breach of a limit. Only the end of the trace is kept, so the watch
/// may take days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntilBreach {
    /// The limits.
    pub limits: VerifyLimits,
    /// How much of the trace before the breach is kept, in nanoseconds.
    pub before_ns: u64,
}

/// What to do with the raw trace.
pub struct RawTraceUse<'a> {
    /// Pages that do not fit into memory are written to the directory of this file.
    pub next_to: &'a Path,
    /// Called with the recording at the end; not called without a trace.
    pub take: &'a dyn Fn(TraceRecording),
}

impl fmt::Debug for RawTraceUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawTraceUse").field("next_to", &self.next_to).finish_non_exhaustive()
    }
}

/// A workload that is not the sampler.
pub struct GivenWorkload<'a> {
    /// Starts the workload. Called once, after the witnesses are armed.
    pub start: &'a dyn Fn() -> Result<(), String>,
    /// Returns its current threads.
    pub threads: &'a dyn Fn() -> Vec<i32>,
    /// Returns how it ended; `None` while it runs. The watch ends with it.
    pub ended: &'a dyn Fn() -> Option<ProgramEnd>,
    /// As what it is judged: of a cyclic one, only foreign interruptions count.
    pub kind: WatchedWorkload,
}

impl fmt::Debug for GivenWorkload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenWorkload").finish_non_exhaustive()
    }
}

impl fmt::Debug for WatchOrder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchOrder")
            .field("cpus", &self.cpus)
            .field("span", &self.span)
            .field("warmup", &self.warmup)
            .field("threshold_ns", &self.threshold_ns)
            .field("syscalls", &self.syscalls)
            .field("cgroup", &self.cgroup)
            .field("workload", &self.workload)
            .field("stacks", &self.stacks)
            .field("until", &self.until)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

/// The worst figures so far on any of the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstSoFar {
    /// Entries into the kernel; `None` without a trace.
    pub entries: Option<u64>,
    /// The longest gap in nanoseconds; `None` without the sampler.
    pub gap_ns: Option<u64>,
}

impl WorstSoFar {
    /// Whether one of the limits is broken.
    #[must_use]
    pub fn breaks(&self, limits: &VerifyLimits) -> bool {
        exceeds(self.entries, limits.max_entries) || exceeds(self.gap_ns, limits.max_gap_ns)
    }
}

fn exceeds(found: Option<u64>, most: Option<u64>) -> bool {
    found.zip(most).is_some_and(|(found, most)| found > most)
}

/// The progress of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchProgress {
    /// The witnesses are being armed.
    Arming,
    /// The workload warms up, and the positive control runs.
    Settling,
    /// The span is running.
    Watching {
        /// How much of it has passed.
        done: Duration,
        /// Its length.
        of: Duration,
        /// The worst figures so far.
        worst: WorstSoFar,
    },
    /// The results of the witnesses are being collected.
    Gathering {
        /// About how long that takes.
        about: Duration,
    },
}

/// Why a watch is not possible.
#[derive(Debug, Sentence)]
#[kind(Machine)]
pub enum WatchError {
    /// no CPUs are selected to watch.
    #[kind(Usage)]
    NoCpus,
    /// CPU {cpus} is not online (online: {online}).
    #[kind(Usage)]
    Offline {
        /// The CPUs that are not online.
        cpus: CpuSet,
        /// The CPUs that are online.
        online: CpuSet,
    },
    /// cannot watch all online CPUs ({online}): cpushield itself needs another CPU.
    #[kind(Usage)]
    #[hint("leave at least one CPU out of --cpus")]
    NoneLeft {
        /// The online CPUs.
        online: CpuSet,
    },
    /// cannot watch a recorded machine.
    #[kind(Usage)]
    Recorded,
    /// could not start the workload: {why}.
    Workload {
        /// Why.
        why: String,
    },
    /// A file or a system call of the kernel failed.
    #[delegate(from)]
    Linux(cpushield_linux::Error),
}

impl std::error::Error for WatchError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_broken_only_by_a_larger_known_figure() {
        let limits = |max_entries, max_gap_ns| VerifyLimits {
            max_entries,
            max_gap_ns,
            ..VerifyLimits::default()
        };
        let worst = |entries, gap_ns| WorstSoFar { entries, gap_ns };
        for (worst, limits, broken) in [
            (worst(Some(1), Some(5_000)), limits(Some(0), None), true),
            (worst(Some(1), Some(5_000)), limits(Some(1), Some(5_000)), false),
            (worst(Some(1), Some(5_001)), limits(None, Some(5_000)), true),
            (worst(None, None), limits(Some(0), Some(0)), false),
            (worst(Some(9), Some(9)), limits(None, None), false),
        ] {
            assert_eq!(worst.breaks(&limits), broken, "{worst:?} {limits:?}");
        }
    }
}
