//! The notes of a measurement: facts that a reader of its figures has to know. Pure.

use crate::causes::{Cause, Culprit};
use crate::documents::evidence::AbsenceReason;
use crate::documents::load_done::SkippedLoad;
use crate::documents::time_text::exact_duration;
use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A fact that a reader of the figures has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum LatencyNote {
    /// Every CPU is measured.
    EveryCpuMeasured,
    /// The load runs on measured CPUs.
    LoadOnMeasuredCpus {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// An optional load cannot run here.
    LoadSkipped {
        /// The load, and why.
        skipped: SkippedLoad,
    },
    /// Timers of `nohz_full` CPUs may expire on other CPUs.
    TimersMayMigrate {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// The memory of the measuring threads is not locked.
    MemoryNotLocked {
        /// The kernel's error.
        answer: String,
    },
    /// The due times of the events are known only roughly, so every latency may be too long.
    LatenciesTooLong {
        /// The CPU of the thread.
        cpu: usize,
        /// By how much at most, in nanoseconds.
        blur_ns: u64,
    },
    /// A CPU handled the device interrupt of the HPET.
    HpetHandled {
        /// The number of the interrupt.
        irq: u32,
        /// The CPUs that handle it.
        handlers: CpuSet,
        /// The CPU of the thread.
        measured: CpuSet,
    },
    /// The kernel's tracer cannot measure the return to user mode.
    UserReturnNotMeasured,
    /// The tracer disabled interrupts.
    InterruptsDisabled {
        /// On these CPUs.
        cpus: CpuSet,
        /// For so many nanoseconds in each window.
        width_ns: u64,
        /// The length of a window in nanoseconds.
        window_ns: u64,
    },
    /// The SMIs cannot be counted.
    SmisNotCounted {
        /// On these CPUs.
        cpus: CpuSet,
        /// Why.
        why: AbsenceReason,
    },
    /// The kernel was traced.
    Traced,
    /// The kernel was not traced.
    CausesUnknown {
        /// Why.
        why: AbsenceReason,
    },
    /// Without a trace: the most frequent interrupts by the kernel's counters.
    FrequentInterrupts {
        /// On this CPU.
        cpu: usize,
        /// The interrupts, most frequent first.
        interrupts: Vec<FrequentInterrupt>,
    },
    /// The trace could not be removed.
    TraceLeft {
        /// The kernel's error.
        answer: String,
    },
    /// The document could not be saved at times.
    NotSaved {
        /// The first error.
        why: String,
        /// How often.
        times: u64,
    },
    /// A save of the document took long.
    SavedSlowly {
        /// The longest time in seconds.
        longest_s: u64,
    },
    /// The kernel refused a change of the shield.
    ChangeRefused {
        /// The tunable.
        tunable: String,
    },
}

/// An interrupt that the kernel counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FrequentInterrupt {
    /// How often it came.
    pub count: u64,
    /// Its cause.
    pub cause: Cause,
    /// Its culprit.
    #[serde(with = "crate::with_text::WithText::<Culprit>")]
    pub culprit: Culprit,
}

impl LatencyNote {
    /// What the reader can do about it, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            LatencyNote::TimersMayMigrate { .. } => Some("kernel.timer_migration=0 prevents that"),
            LatencyNote::LatenciesTooLong { .. } => Some("see `cpushield explain latency-rtc`"),
            LatencyNote::UserReturnNotMeasured => Some("Linux 6.5 or later measures it"),
            _ => None,
        }
    }
}

impl fmt::Display for LatencyNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LatencyNote::EveryCpuMeasured => {
                f.write_str("every CPU is measured, so cpushield itself runs on measured CPUs too")
            }
            LatencyNote::LoadOnMeasuredCpus { cpus } => {
                write!(f, "the load also runs on the measured CPU {cpus}, because of --load-cpus")
            }
            LatencyNote::LoadSkipped { skipped } => skipped.fmt(f),
            LatencyNote::TimersMayMigrate { cpus } => write!(
                f,
                "CPU {cpus} is nohz_full and kernel.timer_migration is 1: its timers may expire on \
                 a housekeeping CPU, and then the figures include the delays of that CPU"
            ),
            LatencyNote::MemoryNotLocked { answer } => write!(
                f,
                "cannot lock the memory of the measuring threads ({answer}): the figures may \
                 include page faults"
            ),
            LatencyNote::LatenciesTooLong { cpu, blur_ns } => {
                let blur = exact_duration(*blur_ns);
                write!(f, "CPU {cpu}: every latency may be up to {blur} too high")
            }
            LatencyNote::HpetHandled { irq, handlers, measured } => {
                write_hpet_handled(f, *irq, handlers, measured)
            }
            LatencyNote::UserReturnNotMeasured => f.write_str(
                "the return to user mode is not measured: on this kernel, timerlat has only kernel \
                 threads",
            ),
            LatencyNote::InterruptsDisabled { cpus, width_ns, window_ns } => {
                write_interrupts_disabled(f, cpus, *width_ns, *window_ns)
            }
            LatencyNote::SmisNotCounted { cpus, why } => {
                write!(f, "cannot count the SMIs of CPU {cpus}: {why}")
            }
            LatencyNote::Traced => f.write_str(
                "the figures include the overhead of the kernel trace on the measured CPUs, \
                 because of --why",
            ),
            LatencyNote::CausesUnknown { why } => {
                write!(f, "the causes are unknown, because nothing was traced: {why}")
            }
            LatencyNote::FrequentInterrupts { cpu, interrupts } => {
                let interrupts: Vec<String> = interrupts.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "most frequent interrupts on CPU {cpu}, according to the kernel's counters: {}",
                    interrupts.join(", ")
                )
            }
            LatencyNote::TraceLeft { answer } => write!(f, "could not remove the trace: {answer}"),
            LatencyNote::NotSaved { why, times } => write_not_saved(f, why, *times),
            LatencyNote::SavedSlowly { longest_s } => write!(
                f,
                "the slowest save of the document took {longest_s} s; a power failure in that time \
                 would have lost the data since the previous save"
            ),
            LatencyNote::ChangeRefused { tunable } => {
                write!(f, "the kernel refused a change to {tunable}")
            }
        }?;
        self.advice().iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

fn write_interrupts_disabled(
    f: &mut fmt::Formatter<'_>,
    cpus: &CpuSet,
    width_ns: u64,
    window_ns: u64,
) -> fmt::Result {
    let (width, window) = (exact_duration(width_ns), exact_duration(window_ns));
    write!(
        f,
        "interrupts were disabled on CPU {cpus} for {width} at a time, at most once every \
         {window}: everything else there waited, and the rest of the time was not observed"
    )
}

fn write_not_saved(f: &mut fmt::Formatter<'_>, why: &str, times: u64) -> fmt::Result {
    match times {
        1 => f.write_str("1 attempt to save the document failed")?,
        times => write!(f, "{times} attempts to save the document failed")?,
    }
    write!(f, " ({why}); a power failure then would have lost all data since the last save")
}

/// Writes which CPU handled the interrupt, and what that means for the figures.
fn write_hpet_handled(
    f: &mut fmt::Formatter<'_>,
    irq: u32,
    handlers: &CpuSet,
    measured: &CpuSet,
) -> fmt::Result {
    if handlers == measured {
        return write!(
            f,
            "CPU {handlers}, which also ran the thread, handled HPET interrupt {irq}"
        );
    }
    write!(
        f,
        "CPU {handlers} handled HPET interrupt {irq}: the figures include delays on that CPU and \
         the wakeup of CPU {measured} (/proc/irq/{irq}/smp_affinity_list sets the CPU)"
    )
}

impl fmt::Display for FrequentInterrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{} {}", self.cause, self.culprit);
        write!(f, "{} ({} times)", name.trim_end(), self.count)
    }
}
