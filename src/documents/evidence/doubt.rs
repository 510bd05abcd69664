//! What makes the figures of a CPU doubtful. Pure.

use crate::documents::count_text::many;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What makes the figures of one CPU doubtful.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum CpuDoubt {
    /// The machine changed during the watch.
    CircumstanceChanged {
        /// What changed.
        change: CircumstanceChange,
    },
    /// CPUs were offline during the watch.
    CpusOffline {
        /// The CPUs.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cpus: CpuSet,
    },
    /// A thread of the workload left the watched CPUs.
    WorkloadMoved {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The CPU that it moved to.
        cpu: usize,
    },
    /// The counters of the kernel could not be read.
    CountersUnreadable {
        /// The kernel's error.
        answer: String,
    },
    /// The counters have no column for this CPU.
    NoColumn {
        /// The CPU.
        cpu: usize,
    },
    /// A counter was lower at the end than at the beginning.
    CounterWentBack {
        /// Its name.
        counter: String,
        /// The file that contains it.
        file: String,
    },
    /// The counters saw more than the trace, whose span encloses theirs.
    CountersSawMore {
        /// Interrupts that were counted.
        counted: u64,
        /// Entries that were traced.
        traced: u64,
    },
    /// The gap sampler was the workload and did not watch this CPU.
    NoSampler,
    /// The clock of the sampler went backwards.
    SamplerClockBackwards {
        /// How often.
        times: u64,
    },
    /// The sampler was moved off this CPU.
    SamplerMoved,
    /// The sampler did not run for the whole span.
    SamplerAway {
        /// How long it ran, in nanoseconds.
        ran_ns: u64,
        /// The length of the span, in nanoseconds.
        span_ns: u64,
    },
    /// The trace lost events, which a watch counts apart.
    EventsLost {
        /// How many.
        count: u64,
    },
    /// A part of the trace could not be decoded.
    BytesNotUnderstood {
        /// The number of bytes.
        count: u64,
    },
    /// Events have an earlier time than the event before them.
    EventsBackwards {
        /// How many.
        count: u64,
    },
    /// A task ran without an event that announced it.
    TaskNotAnnounced {
        /// How often.
        times: u64,
        /// The thread that ran before the first such task; `None` when it is unknown.
        after: Option<String>,
    },
    /// The kernel was entered, but not from a task of the workload.
    EntriesNotAttributed {
        /// How often.
        count: u64,
    },
    /// No event was seen, and the workload had no CPU time.
    WorkloadDidNotRun,
    /// The rate of the trace clock is not known accurately enough.
    ClockInaccurate {
        /// How far it may be off, in parts per million.
        error_ppm: f64,
    },
}

impl fmt::Display for CpuDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuDoubt::CircumstanceChanged { change } => change.fmt(f),
            CpuDoubt::CpusOffline { cpus } => write!(f, "CPU {cpus} was offline"),
            CpuDoubt::WorkloadMoved { comm, tid, cpu } => {
                write!(f, "the workload thread {comm} ({tid}) moved to CPU {cpu}")
            }
            CpuDoubt::CountersUnreadable { answer } => f.write_str(answer),
            CpuDoubt::NoColumn { cpu } => {
                write!(f, "CPU {cpu} has no column in /proc/interrupts: it was offline")
            }
            CpuDoubt::CounterWentBack { counter, file } => {
                write!(f, "counter {counter} of {file} went backwards")
            }
            CpuDoubt::CountersSawMore { counted, traced } => {
                write!(f, "the counters saw {counted} interrupts, the trace only {traced} entries")
            }
            CpuDoubt::NoSampler => f.write_str("the gap sampler did not watch this CPU"),
            CpuDoubt::SamplerClockBackwards { times } => {
                write!(f, "the sampler's clock went backwards {}", many(*times, "time"))
            }
            CpuDoubt::SamplerMoved => f.write_str("the sampler was moved off this CPU"),
            CpuDoubt::SamplerAway { ran_ns, span_ns } => {
                write!(
                    f,
                    "the sampler ran for only {} ms of {} ms",
                    ran_ns / 1_000_000,
                    span_ns / 1_000_000
                )
            }
            CpuDoubt::EventsLost { count } => write!(f, "the trace lost {}", many(*count, "event")),
            CpuDoubt::BytesNotUnderstood { count } => {
                write!(f, "cannot decode {} of the trace", many(*count, "byte"))
            }
            CpuDoubt::EventsBackwards { count } => {
                write!(f, "the time stamp goes back at {} of the trace", many(*count, "event"))
            }
            CpuDoubt::TaskNotAnnounced { times, after } => {
                let times = many(*times, "time");
                write!(f, "a task ran {times}, but the trace has no switch to it")?;
                after.iter().try_for_each(|thread| write!(f, ", first after {thread}"))
            }
            CpuDoubt::EntriesNotAttributed { count } => write!(
                f,
                "a task that is not known to belong to the workload entered the kernel {}",
                many(*count, "time")
            ),
            CpuDoubt::WorkloadDidNotRun => {
                f.write_str("no event was seen, and the workload did not run")
            }
            CpuDoubt::ClockInaccurate { error_ppm } => {
                write!(f, "the rate of the trace clock is known only to within {error_ppm:.0} ppm")
            }
        }
    }
}

/// What changed on the machine while CPUs were watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum CircumstanceChange {
    /// the kernel changed its clock source from {from} to {to}.
    Clocksource {
        /// The old clock source.
        from: String,
        /// The new clock source.
        to: String,
    },
    /// the wall clock was stepped by {by_ns} ms.
    #[with(by_ns = by_ns / 1_000_000)]
    ClockSet {
        /// By how many nanoseconds.
        by_ns: u64,
    },
    /// the rate of the time stamp counter changed by {by_ppm:.0} ppm.
    CounterRate {
        /// By how many parts per million.
        by_ppm: f64,
    },
    /// the time stamp counter went backwards, as it does when the machine is suspended.
    CounterWentBack,
    /// another process enabled or disabled trace events during the run.
    TraceEvents,
    /// another process runs the tracer {tracer}, which slows the kernel down.
    TracerRuns {
        /// Its name.
        tracer: String,
    },
    /// another process switched the tracer {tracer} on or off during the run.
    TracerSwitched {
        /// Its name.
        tracer: String,
    },
}
