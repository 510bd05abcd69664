//! The doubts about a measurement: as a whole, about one thread, about its shield. Pure.

use crate::documents::count_text::many;
use crate::documents::evidence::CircumstanceChange;
use crate::documents::load_doubt::LoadDoubt;
use crate::documents::time_text::exact_duration;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A millisecond, in nanoseconds.
const MS: u64 = 1_000_000;

/// A reason to doubt a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "about", rename_all = "kebab-case")]
pub enum LatencyDoubt {
    /// The machine changed during the measurement.
    #[delegate]
    CircumstanceChanged {
        /// What changed.
        change: CircumstanceChange,
    },
    /// CPU {cpus} was offline.
    CpusOffline {
        /// Which.
        cpus: CpuSet,
    },
    /// the threads ended by themselves {late_ns} before cpushield got CPU time to stop them.
    #[with(late_ns = exact_duration(*late_ns))]
    NotStopped {
        /// How long ago the threads ended when it noticed, in nanoseconds.
        late_ns: u64,
    },
    /// The kernel thread that looks for gaps had too little CPU time.
    #[print(write_starved(f, thread, *ran_ns, span_ns / MS))]
    TracerThreadStarved {
        /// The thread.
        thread: String,
        /// How long it ran, in nanoseconds; `None` when that cannot be read.
        ran_ns: Option<u64>,
        /// Of how long, in nanoseconds.
        span_ns: u64,
    },
    /// the records of CPU {cpu} cannot be read: {answer}.
    RecordsUnreadable {
        /// The CPU.
        cpu: usize,
        /// The kernel's answer.
        answer: String,
    },
    /// the kernel lost {count} records of CPU {cpu}.
    RecordsLost {
        /// The CPU.
        cpu: usize,
        /// How many.
        count: u64,
    },
    /// could not stop the tracer: {answer}.
    TracerNotStopped {
        /// The kernel's answer.
        answer: String,
    },
    /// could not remove the trace: {answer}.
    TraceLeft {
        /// The kernel's answer.
        answer: String,
    },
    /// could not restore a setting of the kernel's tracer: {answer}.
    SettingLeft {
        /// The kernel's answer.
        answer: String,
    },
    /// the shield was broken {breach}.
    ShieldBroken {
        /// When and how.
        breach: ShieldBreach,
    },
    /// {thread}: {doubt}.
    ThreadDoubtful {
        /// Which: `CPU 3, 1 ms`.
        thread: String,
        /// Why.
        doubt: ThreadDoubt,
    },
    /// the load {load}: {doubt}.
    LoadDoubtful {
        /// Its name.
        load: String,
        /// Why.
        doubt: LoadDoubt,
    },
    /// a thread is not periodic, so it has no max jitter.
    JitterUnknown,
    /// the measurement is incomplete: {span} of {asked}.
    #[with(span = rounded(*span_ns), asked = rounded(*asked_ns))]
    Incomplete {
        /// The time measured so far, in nanoseconds.
        span_ns: u64,
        /// The requested time, in nanoseconds.
        asked_ns: u64,
    },
    /// the measurement was stopped after {span_ns} of {asked_ns}.
    #[with(span_ns = rounded(*span_ns), asked_ns = rounded(*asked_ns))]
    Stopped {
        /// The time measured until then, in nanoseconds.
        span_ns: u64,
        /// The requested time, in nanoseconds.
        asked_ns: u64,
    },
}

fn write_starved(
    f: &mut fmt::Formatter<'_>,
    thread: &str,
    ran_ns: Option<u64>,
    span_ms: u64,
) -> fmt::Result {
    match ran_ns {
        Some(ns) => write!(
            f,
            "the kernel thread {thread} ran for {} of {span_ms} ms, which is too little to rule \
             out gaps",
            ns / MS
        ),
        None => write!(
            f,
            "it is unknown how long the kernel thread {thread} ran in {span_ms} ms, so gaps cannot \
             be ruled out"
        ),
    }
}

/// Formats a time of at least a millisecond in whole milliseconds.
fn rounded(ns: u64) -> String {
    exact_duration(if ns < MS { ns } else { ns / MS * MS })
}

/// A reason to doubt the figures of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum ThreadDoubt {
    /// another process moved it to CPU {cpus}.
    Moved {
        /// To these CPUs.
        cpus: CpuSet,
    },
    /// it ended early.
    Gone,
    /// another process set its policy to {policy}.
    PolicyChanged {
        /// To this one.
        policy: String,
    },
    /// it never started.
    NeverBegan,
    /// no event came: its period is longer than the measurement.
    PeriodNotOver,
    /// it saw no event until the end of the measurement.
    SawNothing,
    /// it did not run again: at the end of the measurement, its next event was {late_ns} ms
    /// overdue.
    #[with(late_ns = late_ns / MS)]
    DidNotRunAgain {
        /// By how many nanoseconds.
        late_ns: u64,
    },
    /// it ended early: it could not keep up with its period for a second, and it would starve every
    /// other task on its CPU; use a longer --thread period.
    Overrun,
    /// it ended early: {answer}.
    Failed {
        /// The kernel's answer.
        answer: String,
    },
    /// no event came.
    NoEvent,
    /// it saw {count} on another CPU.
    #[with(count = many(*count, "event"))]
    Elsewhere {
        /// How many.
        count: u64,
    },
    /// it missed more events than it saw: this machine cannot keep up with the period.
    MostlyMissed,
    /// {count} came before the due time: the other latencies may be too short.
    #[with(count = many(*count, "event"))]
    EventsEarly {
        /// How many.
        count: u64,
    },
    /// the thread that wakes it was itself delayed {times}, by up to {longest_ns}: this may explain
    /// the worst latency.
    #[with(times = many(*times, "time"), longest_ns = exact_duration(*longest_ns))]
    WakerLate {
        /// How often.
        times: u64,
        /// The longest delay in nanoseconds.
        longest_ns: u64,
    },
    /// the due times of its events are known only to within {blur_ns}.
    #[with(blur_ns = exact_duration(*blur_ns))]
    DueBlurred {
        /// The uncertainty in nanoseconds.
        blur_ns: u64,
    },
    /// the trace lacks {count} of its events.
    EventsMissing {
        /// How many.
        count: u64,
    },
    /// Records of its CPU were lost.
    #[print(write_records_lost(f, count))]
    RecordsLost {
        /// How many; `None` when the kernel did not say.
        count: Option<u64>,
    },
    /// {why}.
    HistogramUnreadable {
        /// Why.
        why: String,
    },
}

fn write_records_lost(f: &mut fmt::Formatter<'_>, count: &Option<u64>) -> fmt::Result {
    match count {
        Some(count) => {
            write!(f, "{count} records of its CPU were lost")
        }
        None => f.write_str("some records of its CPU were lost"),
    }
}

/// When a shield was found broken, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShieldBreach {
    /// Seconds since the start of the measurement.
    pub after_s: u64,
    /// How.
    pub how: GuardBreach,
}

impl fmt::Display for ShieldBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} s: {}", self.after_s, self.how)
    }
}

/// How a shield is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "breach", rename_all = "kebab-case")]
pub enum GuardBreach {
    /// its cgroup is gone.
    GroupGone,
    /// the CPUs of its cgroup cannot be read.
    CpusUnreadable,
    /// its cgroup has lost CPU {cpus}.
    CpusLost {
        /// The lost CPUs.
        cpus: CpuSet,
    },
    /// its cpuset.cpus.partition is now {state}.
    Partition {
        /// The content of `cpuset.cpus.partition`.
        state: String,
    },
}
