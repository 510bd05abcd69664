//! What makes the figures of a CPU doubtful. Pure.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What makes the figures of one CPU doubtful.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "doubt", rename_all = "kebab-case")]
pub enum CpuDoubt {
    /// The machine did not stay as it was.
    CircumstanceChanged {
        /// What changed.
        change: CircumstanceChange,
    },
    /// CPUs were offline meanwhile.
    CpusOffline {
        /// Which.
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cpus: CpuSet,
    },
    /// A thread of the workload left the watched CPUs.
    WorkloadMoved {
        /// Its name.
        comm: String,
        /// Its number.
        tid: i32,
        /// Where it went.
        cpu: usize,
    },
    /// The counters of the kernel could not be read.
    CountersUnreadable {
        /// The answer of the kernel.
        answer: String,
    },
    /// The counters have no column for this CPU.
    NoColumn {
        /// The CPU.
        cpu: usize,
    },
    /// A counter was less at the end than at the beginning.
    CounterWentBack {
        /// Its name.
        counter: String,
        /// The file that it is in.
        file: String,
    },
    /// The counters saw more than the trace, whose time encloses theirs.
    CountersSawMore {
        /// Interrupts that were counted.
        counted: u64,
        /// Entries that were traced.
        traced: u64,
    },
    /// The gap sampler was the workload and did not watch this CPU.
    NoSampler,
    /// The clock of the sampler went back.
    SamplerClockBackwards {
        /// How often.
        times: u64,
    },
    /// The sampler was moved off this CPU.
    SamplerMoved,
    /// The sampler did not look all the time.
    SamplerAway {
        /// For how long it looked, in nanoseconds.
        looked_ns: u64,
        /// Of how long, in nanoseconds.
        span_ns: u64,
    },
    /// The trace lost events.
    EventsLost {
        /// How many.
        count: u64,
    },
    /// The decoder did not understand a part of the trace.
    BytesNotUnderstood {
        /// How much.
        count: u64,
    },
    /// Events came with a time before the one before them.
    EventsBackwards {
        /// How many.
        count: u64,
    },
    /// A task ran that no event had announced.
    TaskNotAnnounced {
        /// How often.
        times: u64,
        /// The thread after which it was seen first; `None` when that is not known.
        after: Option<String>,
    },
    /// No event was seen, and the workload had no CPU time.
    WorkloadDidNotRun,
    /// The rate of the clock of the trace is not known well enough.
    ClockInaccurate {
        /// How far it may be off, in parts per million.
        error_ppm: f64,
    },
}

impl fmt::Display for CpuDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: &u64| ns / 1_000_000;
        match self {
            CpuDoubt::CircumstanceChanged { change } => change.fmt(f),
            CpuDoubt::CpusOffline { cpus } => write!(f, "CPU {cpus} was offline"),
            CpuDoubt::WorkloadMoved { comm, tid, cpu } => {
                write!(f, "the workload's {comm} ({tid}) moved to CPU {cpu}")
            }
            CpuDoubt::CountersUnreadable { answer } => f.write_str(answer),
            CpuDoubt::NoColumn { cpu } => {
                write!(f, "CPU {cpu} has no column in /proc/interrupts: it was offline")
            }
            CpuDoubt::CounterWentBack { counter, file } => {
                write!(f, "counter {counter} of {file} went back")
            }
            CpuDoubt::CountersSawMore { counted, traced } => {
                write!(f, "the counters saw {counted} interrupts, the trace {traced} entries")
            }
            CpuDoubt::NoSampler => f.write_str("the gap sampler did not watch this CPU"),
            CpuDoubt::SamplerClockBackwards { times } => {
                write!(f, "the sampler's clock went back {times} times")
            }
            CpuDoubt::SamplerMoved => f.write_str("the sampler was moved off this CPU"),
            CpuDoubt::SamplerAway { looked_ns, span_ns } => {
                write!(f, "the sampler looked for {} ms of {} ms only", ms(looked_ns), ms(span_ns))
            }
            CpuDoubt::EventsLost { count } => write!(f, "{count} events of the trace were lost"),
            CpuDoubt::BytesNotUnderstood { count } => {
                write!(f, "{count} bytes of the trace were not understood")
            }
            CpuDoubt::EventsBackwards { count } => {
                write!(f, "{count} events came with a time before the one before them")
            }
            CpuDoubt::TaskNotAnnounced { times, after } => {
                write!(f, "{times} times a task ran that no event had announced")?;
                after.iter().try_for_each(|thread| write!(f, ", first after {thread}"))
            }
            CpuDoubt::WorkloadDidNotRun => {
                f.write_str("no event was seen, but the workload did not run either")
            }
            CpuDoubt::ClockInaccurate { error_ppm } => {
                write!(f, "the clock is known to {error_ppm:.0} ppm only")
            }
        }
    }
}

/// What did not stay as it was while CPUs were watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum CircumstanceChange {
    /// The kernel changed its clock source.
    Clocksource {
        /// It was this.
        from: String,
        /// It is this now.
        to: String,
    },
    /// The wall clock was set.
    ClockSet {
        /// By so many nanoseconds.
        by_ns: u64,
    },
    /// The time stamp counter changed its rate.
    CounterRate {
        /// By so many parts per million.
        by_ppm: f64,
    },
    /// Another process enabled or disabled trace events.
    TraceEvents,
    /// Another process has a tracer running.
    TracerRuns {
        /// Its name.
        tracer: String,
    },
    /// Another process switched a tracer on or off.
    TracerSwitched {
        /// Its name.
        tracer: String,
    },
}

impl fmt::Display for CircumstanceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CircumstanceChange::Clocksource { from, to } => {
                write!(f, "the kernel changed its clock source from {from} to {to}")
            }
            CircumstanceChange::ClockSet { by_ns } => {
                write!(f, "the clock was set, by {} ms", by_ns / 1_000_000)
            }
            CircumstanceChange::CounterRate { by_ppm } => {
                write!(f, "the time stamp counter changed its rate by {by_ppm:.0} ppm")
            }
            CircumstanceChange::TraceEvents => {
                f.write_str("another process enabled or disabled trace events during the run")
            }
            CircumstanceChange::TracerRuns { tracer } => {
                write!(f, "another process runs the tracer {tracer}, which makes the kernel slower")
            }
            CircumstanceChange::TracerSwitched { tracer } => {
                write!(f, "another process switched the tracer {tracer} on or off during the run")
            }
        }
    }
}
