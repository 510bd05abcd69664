//! The notes of a measurement: facts that a reader of its figures has to know. Pure.

use crate::causes::{Cause, Culprit};
use crate::documents::evidence::AbsenceReason;
use crate::documents::load_done::SkippedLoad;
use crate::documents::time_text::exact_duration;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A fact that a reader of the figures has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum LatencyNote {
    /// every CPU is measured, so cpushield itself runs on measured CPUs too.
    EveryCpuMeasured,
    /// the load also runs on the measured CPU {cpus}, because of --load-cpus.
    LoadOnMeasuredCpus {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// An optional load cannot run here.
    #[delegate]
    LoadSkipped {
        /// The load, and why.
        skipped: SkippedLoad,
    },
    /// CPU {cpus} is nohz_full and kernel.timer_migration is 1: its timers may expire on a
    /// housekeeping CPU, and then the figures include the delays of that CPU;
    /// kernel.timer_migration=0 prevents that.
    TimersMayMigrate {
        /// These CPUs.
        cpus: CpuSet,
    },
    /// cannot lock the memory of the measuring threads ({answer}): the figures may include page
    /// faults.
    MemoryNotLocked {
        /// The kernel's error.
        answer: String,
    },
    /// CPU {cpu}: every latency may be up to {blur} too high; see `cpushield explain latency-rtc`.
    #[with(blur = exact_duration(*blur_ns))]
    LatenciesTooLong {
        /// The CPU of the thread.
        cpu: usize,
        /// By how much at most, in nanoseconds.
        blur_ns: u64,
    },
    /// A CPU handled the device interrupt of the HPET.
    #[print(write_hpet_handled(f, *irq, handlers, measured))]
    HpetHandled {
        /// The number of the interrupt.
        irq: u32,
        /// The CPUs that handle it.
        handlers: CpuSet,
        /// The CPU of the thread.
        measured: CpuSet,
    },
    /// the return to user mode is not measured: on this kernel, timerlat has only kernel threads;
    /// Linux 6.5 or later measures it.
    UserReturnNotMeasured,
    /// The tracer disabled interrupts.
    #[print(write_interrupts_disabled(f, cpus, *width_ns, *window_ns))]
    InterruptsDisabled {
        /// On these CPUs.
        cpus: CpuSet,
        /// For so many nanoseconds in each window.
        width_ns: u64,
        /// The length of a window in nanoseconds.
        window_ns: u64,
    },
    /// cannot count the SMIs of CPU {cpus}: {why}.
    SmisNotCounted {
        /// On these CPUs.
        cpus: CpuSet,
        /// Why.
        why: AbsenceReason,
    },
    /// the figures include the overhead of the kernel trace on the measured CPUs, because of --why.
    Traced,
    /// the causes are unknown, because nothing was traced: {why}.
    CausesUnknown {
        /// Why.
        why: AbsenceReason,
    },
    /// Without a trace: the most frequent interrupts by the kernel's counters.
    #[print(write_frequent_interrupts(f, cpu, interrupts))]
    FrequentInterrupts {
        /// On this CPU.
        cpu: usize,
        /// The interrupts, most frequent first.
        interrupts: Vec<FrequentInterrupt>,
    },
    /// could not remove the trace: {answer}.
    TraceLeft {
        /// The kernel's error.
        answer: String,
    },
    /// The document could not be saved at times.
    #[print(write_not_saved(f, why, *times))]
    NotSaved {
        /// The first error.
        why: String,
        /// How often.
        times: u64,
    },
    /// the slowest save of the document took {longest_s} s; a power failure in that time would have
    /// lost the data since the previous save.
    SavedSlowly {
        /// The longest time in seconds.
        longest_s: u64,
    },
    /// the kernel refused a change to {tunable}.
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

fn write_frequent_interrupts(
    f: &mut fmt::Formatter<'_>,
    cpu: &usize,
    interrupts: &[FrequentInterrupt],
) -> fmt::Result {
    let interrupts: Vec<String> = interrupts.iter().map(ToString::to_string).collect();
    write!(
        f,
        "most frequent interrupts on CPU {cpu}, according to the kernel's counters: {}",
        interrupts.join(", ")
    )
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
