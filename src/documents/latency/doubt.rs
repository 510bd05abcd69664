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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "about", rename_all = "kebab-case")]
pub enum LatencyDoubt {
    /// The machine changed during the measurement.
    CircumstanceChanged {
        /// What changed.
        change: CircumstanceChange,
    },
    /// CPUs were offline during the measurement.
    CpusOffline {
        /// Which.
        cpus: CpuSet,
    },
    /// The process that should have stopped the threads got no CPU.
    NotStopped {
        /// How long ago the threads ended when it noticed, in nanoseconds.
        late_ns: u64,
    },
    /// The kernel thread that looks for gaps had too little CPU time.
    TracerThreadStarved {
        /// The thread.
        thread: String,
        /// How long it ran, in nanoseconds; `None` when that cannot be read.
        ran_ns: Option<u64>,
        /// Of how long, in nanoseconds.
        span_ns: u64,
    },
    /// The records of a CPU cannot be read.
    RecordsUnreadable {
        /// The CPU.
        cpu: usize,
        /// The kernel's answer.
        answer: String,
    },
    /// The kernel lost records of a CPU.
    RecordsLost {
        /// The CPU.
        cpu: usize,
        /// How many.
        count: u64,
    },
    /// The tracer could not be stopped.
    TracerNotStopped {
        /// The kernel's answer.
        answer: String,
    },
    /// The trace could not be removed.
    TraceLeft {
        /// The kernel's answer.
        answer: String,
    },
    /// A setting of the tracer could not be restored.
    SettingLeft {
        /// The kernel's answer.
        answer: String,
    },
    /// The shield was not in force all the time.
    ShieldBroken {
        /// When and how.
        breach: ShieldBreach,
    },
    /// The figures of a thread are doubtful.
    ThreadDoubtful {
        /// Which: `CPU 3, 1 ms`.
        thread: String,
        /// Why.
        doubt: ThreadDoubt,
    },
    /// The figures of a load are doubtful.
    LoadDoubtful {
        /// Its name.
        load: String,
        /// Why.
        doubt: LoadDoubt,
    },
    /// A thread has no max jitter.
    JitterUnknown,
    /// The measurement is not complete yet.
    Incomplete {
        /// The time measured so far, in nanoseconds.
        span_ns: u64,
        /// The requested time, in nanoseconds.
        asked_ns: u64,
    },
    /// It was stopped.
    Stopped {
        /// The time measured until then, in nanoseconds.
        span_ns: u64,
        /// The requested time, in nanoseconds.
        asked_ns: u64,
    },
}

impl LatencyDoubt {
    /// How to avoid the doubt, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            LatencyDoubt::ThreadDoubtful { doubt, .. } => doubt.advice(),
            _ => None,
        }
    }
}

impl fmt::Display for LatencyDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = self.advice().unwrap_or_default();
        match self {
            LatencyDoubt::CircumstanceChanged { change } => change.fmt(f),
            LatencyDoubt::CpusOffline { cpus } => write!(f, "CPU {cpus} was offline"),
            LatencyDoubt::NotStopped { late_ns } => write!(
                f,
                "the threads ended by themselves {} before cpushield got CPU time to stop them",
                exact_duration(*late_ns)
            ),
            LatencyDoubt::TracerThreadStarved { thread, ran_ns, span_ns } => {
                write_starved(f, thread, *ran_ns, span_ns / MS)
            }
            LatencyDoubt::RecordsUnreadable { cpu, answer } => {
                write!(f, "the records of CPU {cpu} cannot be read: {answer}")
            }
            LatencyDoubt::RecordsLost { cpu, count } => {
                write!(f, "the kernel lost {count} records of CPU {cpu}")
            }
            LatencyDoubt::TracerNotStopped { answer } => {
                write!(f, "could not stop the tracer: {answer}")
            }
            LatencyDoubt::TraceLeft { answer } => {
                write!(f, "could not remove the trace: {answer}")
            }
            LatencyDoubt::SettingLeft { answer } => {
                write!(f, "could not restore a setting of the kernel's tracer: {answer}")
            }
            LatencyDoubt::ShieldBroken { breach } => write!(f, "the shield was broken {breach}"),
            LatencyDoubt::ThreadDoubtful { thread, doubt } => write!(f, "{thread}: {doubt}"),
            LatencyDoubt::LoadDoubtful { load, doubt } => write!(f, "the load {load}: {doubt}"),
            LatencyDoubt::JitterUnknown => {
                f.write_str("a thread is not periodic, so it has no max jitter")
            }
            LatencyDoubt::Incomplete { span_ns, asked_ns } => {
                let (span, asked) = (rounded(*span_ns), rounded(*asked_ns));
                write!(f, "the measurement is incomplete: {span} of {asked}; {advice}")
            }
            LatencyDoubt::Stopped { span_ns, asked_ns } => {
                write!(
                    f,
                    "the measurement was stopped after {} of {}",
                    rounded(*span_ns),
                    rounded(*asked_ns)
                )
            }
        }
    }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum ThreadDoubt {
    /// Another process moved it.
    Moved {
        /// To these CPUs.
        cpus: CpuSet,
    },
    /// It is gone.
    Gone,
    /// Another process changed its scheduling policy.
    PolicyChanged {
        /// To this one.
        policy: String,
    },
    /// It never started.
    NeverBegan,
    /// Its period is longer than the measurement.
    PeriodNotOver,
    /// It saw no event, and was still there at the end.
    SawNothing,
    /// Its last event was late at the end.
    DidNotRunAgain {
        /// By how many nanoseconds.
        late_ns: u64,
    },
    /// It ended early, because it could not keep up.
    Overrun,
    /// One of its system calls failed.
    Failed {
        /// The kernel's answer.
        answer: String,
    },
    /// No event came.
    NoEvent,
    /// It saw events on another CPU.
    Elsewhere {
        /// How many.
        count: u64,
    },
    /// It missed more events than it saw.
    MostlyMissed,
    /// Events came before they were due.
    EventsEarly {
        /// How many.
        count: u64,
    },
    /// The thread that makes its events was itself late.
    WakerLate {
        /// How often.
        times: u64,
        /// The longest delay in nanoseconds.
        longest_ns: u64,
    },
    /// The due time of its events is known only roughly.
    DueBlurred {
        /// The uncertainty in nanoseconds.
        blur_ns: u64,
    },
    /// Its events are missing from the trace.
    EventsMissing {
        /// How many.
        count: u64,
    },
    /// Records of its CPU were lost.
    RecordsLost {
        /// How many; `None` when the kernel did not say.
        count: Option<u64>,
    },
    /// Its histogram cannot be read.
    HistogramUnreadable {
        /// Why.
        why: String,
    },
}

impl ThreadDoubt {
    /// How to avoid the doubt, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        matches!(self, ThreadDoubt::Overrun).then_some("use a longer --thread period")
    }
}

impl fmt::Display for ThreadDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadDoubt::Moved { cpus } => write!(f, "another process moved it to CPU {cpus}"),
            ThreadDoubt::Gone => f.write_str("it ended early"),
            ThreadDoubt::PolicyChanged { policy } => {
                write!(f, "another process set its policy to {policy}")
            }
            ThreadDoubt::NeverBegan => f.write_str("it never started"),
            ThreadDoubt::PeriodNotOver => {
                f.write_str("no event came: its period is longer than the measurement")
            }
            ThreadDoubt::SawNothing => {
                f.write_str("it saw no event until the end of the measurement")
            }
            ThreadDoubt::DidNotRunAgain { late_ns } => write!(
                f,
                "it did not run again: at the end of the measurement, its next event was {} ms \
                 overdue",
                late_ns / MS
            ),
            ThreadDoubt::Overrun => write!(
                f,
                "it ended early: it could not keep up with its period for a second, and it would \
                 starve every other task on its CPU; {}",
                self.advice().unwrap_or_default()
            ),
            ThreadDoubt::Failed { answer } => write!(f, "it ended early: {answer}"),
            ThreadDoubt::NoEvent => f.write_str("no event came"),
            ThreadDoubt::Elsewhere { count } => {
                write!(f, "it saw {} on another CPU", many(*count, "event"))
            }
            ThreadDoubt::MostlyMissed => f.write_str(
                "it missed more events than it saw: this machine cannot keep up with the period",
            ),
            ThreadDoubt::EventsEarly { count } => {
                write!(
                    f,
                    "{} came before the due time: the other latencies may be too short",
                    many(*count, "event")
                )
            }
            ThreadDoubt::WakerLate { times, longest_ns } => write!(
                f,
                "the thread that wakes it was itself delayed {}, by up to {}: this may explain the \
                 worst latency",
                many(*times, "time"),
                exact_duration(*longest_ns)
            ),
            ThreadDoubt::DueBlurred { blur_ns } => {
                write!(
                    f,
                    "the due times of its events are known only to within {}",
                    exact_duration(*blur_ns)
                )
            }
            ThreadDoubt::EventsMissing { count } => {
                write!(f, "the trace lacks {count} of its events")
            }
            ThreadDoubt::RecordsLost { count: Some(count) } => {
                write!(f, "{count} records of its CPU were lost")
            }
            ThreadDoubt::RecordsLost { count: None } => {
                f.write_str("some records of its CPU were lost")
            }
            ThreadDoubt::HistogramUnreadable { why } => f.write_str(why),
        }
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
