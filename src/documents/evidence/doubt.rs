//! What makes the figures of a CPU doubtful. Pure.

use crate::documents::count_text::many;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What makes the figures of one CPU doubtful.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum CpuDoubt {
    /// The machine changed during the watch.
    #[delegate]
    CircumstanceChanged {
        /// What changed.
        change: CircumstanceChange,
    },
    /// CPU {cpus} was offline.
    CpusOffline {
        /// The CPUs.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cpus: CpuSet,
    },
    /// the workload thread {comm} ({tid}) moved to CPU {cpu}.
    WorkloadMoved {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// The CPU that it moved to.
        cpu: usize,
    },
    /// {answer}.
    CountersUnreadable {
        /// The kernel's error.
        answer: String,
    },
    /// CPU {cpu} has no column in /proc/interrupts: it was offline.
    NoColumn {
        /// The CPU.
        cpu: usize,
    },
    /// counter {counter} of {file} went backwards.
    CounterWentBack {
        /// Its name.
        counter: String,
        /// The file that contains it.
        file: String,
    },
    /// the counters saw {counted} interrupts, the trace only {traced} entries.
    CountersSawMore {
        /// Interrupts that were counted.
        counted: u64,
        /// Entries that were traced.
        traced: u64,
    },
    /// the gap sampler did not watch this CPU.
    NoSampler,
    /// the sampler's clock went backwards {times}.
    #[with(times = many(*times, "time"))]
    SamplerClockBackwards {
        /// How often.
        times: u64,
    },
    /// the sampler was moved off this CPU.
    SamplerMoved,
    /// the sampler ran for only {ran_ns} ms of {span_ns} ms.
    #[with(ran_ns = ran_ns / 1_000_000, span_ns = span_ns / 1_000_000)]
    SamplerAway {
        /// How long it ran, in nanoseconds.
        ran_ns: u64,
        /// The length of the span, in nanoseconds.
        span_ns: u64,
    },
    /// the trace lost {count}.
    #[with(count = many(*count, "event"))]
    EventsLost {
        /// How many.
        count: u64,
    },
    /// cannot decode {count} of the trace.
    #[with(count = many(*count, "byte"))]
    BytesNotUnderstood {
        /// The number of bytes.
        count: u64,
    },
    /// the time stamp goes back at {count} of the trace.
    #[with(count = many(*count, "event"))]
    EventsBackwards {
        /// How many.
        count: u64,
    },
    /// A task ran without an event that announced it.
    #[print(write_task_not_announced(f, times, after))]
    TaskNotAnnounced {
        /// How often.
        times: u64,
        /// The thread that ran before the first such task; `None` when it is unknown.
        after: Option<String>,
    },
    /// a task that is not known to belong to the workload entered the kernel {count}.
    #[with(count = many(*count, "time"))]
    EntriesNotAttributed {
        /// How often.
        count: u64,
    },
    /// no event was seen, and the workload did not run.
    WorkloadDidNotRun,
    /// the rate of the trace clock is known only to within {error_ppm:.0} ppm.
    ClockInaccurate {
        /// How far it may be off, in parts per million.
        error_ppm: f64,
    },
}

fn write_task_not_announced(
    f: &mut fmt::Formatter<'_>,
    times: &u64,
    after: &Option<String>,
) -> fmt::Result {
    let times = many(*times, "time");
    write!(f, "a task ran {times}, but the trace has no switch to it")?;
    after.iter().try_for_each(|thread| write!(f, ", first after {thread}"))
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
