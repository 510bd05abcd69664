//! What a watch is asked for, how it tells of its progress, and why there may be none.

use crate::policy::VerifyLimits;
use crate::verify::trace::recording::TraceRecording;
use cpushield_linux::CpuSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// What is to be watched.
pub struct WatchOrder<'a> {
    /// The CPUs to watch.
    pub cpus: CpuSet,
    /// For how long.
    pub span: Duration,
    /// How long the workload runs before anything counts, so that what its start leaves behind
    /// (migration, deferred work, the tick's last rounds) is over.
    pub warmup: Duration,
    /// Gaps of the sampler from this many nanoseconds on count.
    pub threshold_ns: u64,
    /// The workload's system calls are traced too, which costs every process of the machine a
    /// little.
    pub syscalls: bool,
    /// Directory of the shield's cgroup, in which the sampler runs; `None` without a shield.
    pub cgroup: Option<String>,
    /// What runs on the CPUs; `None` is the sampler.
    pub workload: Option<GivenWorkload<'a>>,
    /// The stack behind each event is recorded too.
    pub stacks: bool,
    /// The watch ends with the first breach of a limit; `None` when it goes on.
    pub until: Option<UntilBreach>,
    /// Who wants the raw trace; `None` when nobody does.
    pub keep: Option<RawTraceUse<'a>>,
    /// Told about the progress several times a second.
    pub progress: &'a dyn Fn(WatchProgress),
    /// Asked several times a second whether to stop early.
    pub stop: &'a dyn Fn() -> bool,
}

/// A watch that ends with the first breach of a limit, and knows what led to it: only the end of
/// the trace is kept, so it may take days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntilBreach {
    /// The limits.
    pub limits: VerifyLimits,
    /// So many nanoseconds of the trace before the breach are kept.
    pub before_ns: u64,
}

/// Who wants the raw trace, beside what is counted in it.
pub struct RawTraceUse<'a> {
    /// Pages that do not fit into memory go into the directory of this file.
    pub beside: &'a Path,
    /// Given the recording at the end; not called without a trace.
    pub take: &'a dyn Fn(TraceRecording),
}

impl fmt::Debug for RawTraceUse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep").field("beside", &self.beside).finish_non_exhaustive()
    }
}

/// A workload that is not the sampler.
pub struct GivenWorkload<'a> {
    /// Starts it; called once, when the witnesses are armed.
    pub start: &'a dyn Fn() -> Result<(), String>,
    /// Its threads, as they are now.
    pub threads: &'a dyn Fn() -> Vec<i32>,
    /// How it ended, in words; `None` while it runs. The watch ends with it.
    pub ended: &'a dyn Fn() -> Option<String>,
}

impl fmt::Debug for GivenWorkload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").finish_non_exhaustive()
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

/// The worst that was seen so far on any of the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstSoFar {
    /// Entries into the kernel; `None` without a trace.
    pub entries: Option<u64>,
    /// The longest gap in nanoseconds; `None` without the sampler.
    pub gap_ns: Option<u64>,
}

impl WorstSoFar {
    /// Whether it is beyond one of the limits already.
    #[must_use]
    pub fn breaks(&self, limits: &VerifyLimits) -> bool {
        let over = |found: Option<u64>, most: Option<u64>| {
            found.zip(most).is_some_and(|(found, most)| found > most)
        };
        over(self.entries, limits.max_entries) || over(self.gap_ns, limits.max_gap_ns)
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchProgress {
    /// The witnesses are made ready.
    Arming,
    /// The workload warms up, and the control is provoked.
    Settling,
    /// The span goes by.
    Watching {
        /// How much of it is over.
        done: Duration,
        /// How long it is.
        of: Duration,
        /// The worst so far.
        worst: WorstSoFar,
    },
    /// The witnesses are heard.
    Gathering,
}

/// Why nothing can be watched.
#[derive(Debug)]
pub enum WatchError {
    /// There is nothing to watch.
    NoCpus,
    /// These CPUs are not online.
    Offline {
        /// Those that are not.
        cpus: CpuSet,
        /// Those that are.
        online: CpuSet,
    },
    /// Every online CPU would be watched, and none be left to watch from.
    NoneLeft {
        /// The online CPUs.
        online: CpuSet,
    },
    /// A recorded machine does not run.
    Recorded,
    /// The workload could not be started.
    Workload {
        /// Why.
        why: String,
    },
    /// The machine did not answer.
    Linux(cpushield_linux::Error),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchError::NoCpus => f.write_str("no CPUs to watch"),
            WatchError::Offline { cpus, online } => {
                write!(f, "CPU {cpus} is not online; online are {online}")
            }
            WatchError::NoneLeft { online } => {
                write!(
                    f,
                    "all online CPUs ({online}) would be watched, and none be left to watch from"
                )
            }
            WatchError::Recorded => {
                f.write_str("a recorded machine does not run: nothing to watch")
            }
            WatchError::Workload { why } => write!(f, "the workload could not be started: {why}"),
            WatchError::Linux(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WatchError {}

impl From<cpushield_linux::Error> for WatchError {
    fn from(error: cpushield_linux::Error) -> WatchError {
        WatchError::Linux(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_broken_by_what_was_seen_and_by_nothing_else() {
        let limits = |max_entries, max_gap_ns| VerifyLimits {
            max_entries,
            max_gap_ns,
            two_witnesses: false,
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
