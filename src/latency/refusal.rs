//! Why an instrument cannot run on a machine, and why it cannot have the requested threads. Pure.

use crate::documents::time_text::exact_duration;
use cpushield_linux::sys::hpet::HpetTimer;
use cpushield_linux::{Error, RtHog};
use cpushield_sentence::Sentence;
use std::fmt;

/// Why an instrument cannot run on this machine.
#[derive(Debug, Sentence)]
pub enum InstrumentRefusal {
    /// there is no {path}.
    NoDevice {
        /// Its file.
        path: &'static str,
    },
    /// another program uses {path}.
    DeviceBusy {
        /// Its file.
        path: &'static str,
    },
    /// cannot use {path}: {answer}.
    Device {
        /// Its file.
        path: &'static str,
        /// The kernel's answer.
        answer: String,
    },
    /// cannot create an eventfd: {answer}.
    NoEventFd {
        /// Its answer.
        answer: String,
    },
    /// the waker cannot get the sleeper's file, because pidfd_getfd(2) is missing (needs Linux 5.6)
    /// or not allowed: {answer}; `cpushield latency wakeup` needs no such file.
    NoPidfdGetfd {
        /// The kernel's answer.
        answer: String,
    },
    /// The HPET has no timer for it.
    #[delegate(from)]
    Hpet(HpetRefusal),
    /// Its tracer cannot be used.
    #[delegate(from)]
    Tracer(TracerRefusal),
    /// {0}; `cpushield latency spin` sees such gaps too, but cannot distinguish them from gaps that
    /// the kernel causes.
    GapTracer(TracerRefusal),
}

/// Why no timer of the HPET can be used.
#[derive(Debug, Sentence)]
pub enum HpetRefusal {
    /// there is no {path} (no HPET, or a kernel without CONFIG_HPET).
    #[with(path = HpetTimer::PATH)]
    NoHpet,
    /// no timer of {path} is free: the kernel or other programs use all of them.
    #[with(path = HpetTimer::PATH)]
    NoFreeTimer,
    /// the kernel denies access to the registers of {path}, so the due time of an interrupt is
    /// unknown; boot with hpet_mmap=1.
    #[with(path = HpetTimer::PATH)]
    RegistersDenied,
    /// cannot read the registers of {path} (no CONFIG_HPET_MMAP, or other registers in their page),
    /// so the due time of an interrupt is unknown.
    #[with(path = HpetTimer::PATH)]
    RegistersNotMapped,
    /// cannot use the registers of {path}: {answer}.
    #[with(path = HpetTimer::PATH)]
    Registers {
        /// The kernel's answer.
        answer: String,
    },
    /// the interrupt of the HPET timer is not free ({path}).
    #[with(path = HpetTimer::PATH)]
    InterruptNotFree,
    /// cannot use {path}: {answer}.
    #[with(path = HpetTimer::PATH)]
    Device {
        /// The kernel's answer.
        answer: String,
    },
}

/// Why a tracer of the kernel cannot measure.
#[derive(Debug, Sentence)]
pub enum TracerRefusal {
    /// cpushield cannot read traces of big-endian machines.
    BigEndian,
    /// this kernel has no {tracer} tracer ({config}).
    NoTracer {
        /// Its name.
        tracer: &'static str,
        /// The kernel's configuration option.
        config: &'static str,
    },
    /// this kernel's hwlat tracer has no per-cpu mode (needs 5.14): {error}.
    NoPerCpuMode {
        /// The error of its setting.
        error: Error,
    },
    /// cannot use tracefs ({error}): run cpushield as root, on a kernel that is not locked down.
    #[with(error = error.reason())]
    TracefsDenied {
        /// Why.
        error: Error,
    },
    /// another process uses the {tracer} tracer in {dir}, and this measurement would change its
    /// settings; wait until it ends (rtla?), or stop it: echo nop > {dir}/current_tracer.
    TracerInUse {
        /// The tracer.
        tracer: String,
        /// The directory of its instance.
        dir: String,
    },
    /// another cpushield process uses the kernel's tracers ({error}).
    SettingsInUse {
        /// The error of the claim.
        error: Error,
    },
    /// cannot save the original settings of the tracer, so they were not changed: {error}.
    SettingsNotSaved {
        /// Why.
        error: Error,
    },
    /// could not restore the tracer settings of a killed measurement, so they were not changed
    /// again: {error}.
    SettingsLeft {
        /// Why.
        error: Error,
    },
    /// this kernel's {tracer} records have no {part}.
    NoRecordPart {
        /// The tracer.
        tracer: &'static str,
        /// The name of a field, or `format` for the whole.
        part: &'static str,
    },
    /// the real-time task {hog} keeps CPU {hog} busy; this kernel must run a work item on every CPU
    /// before it can record, and would wait forever.
    #[with(hog = hog.task.cpu)]
    RecordingBlocked {
        /// The task.
        hog: Box<RtHog>,
    },
    /// cannot set up the trace: {error}.
    NoTrace {
        /// Why.
        error: Error,
    },
    /// another process uses a kernel tracer: {error}.
    TracerBusy {
        /// The error of the selection.
        error: Error,
    },
    /// this kernel's {tracer} tracer does not work in trace instances (needs 5.17).
    NoTracerInInstances {
        /// The tracer.
        tracer: &'static str,
    },
    /// The machine did not answer.
    #[delegate(from)]
    Linux(Error),
}

/// Why an instrument cannot have the requested threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Sentence)]
pub enum ThreadRefusal {
    /// it would keep every CPU busy; leave one CPU out of --cpus.
    EveryCpuBusy,
    /// real-time threads on every CPU could starve everything else, even the process that stops
    /// them; leave a CPU out of --cpus, or use --other or --force.
    RealTimeOnEveryCpu,
    /// a thread with a period of {asked} would never sleep and would starve the other tasks on its
    /// CPU; the shortest period is {least}.
    #[with(asked = exact_duration(*period_ns), least = exact_duration(*least_ns))]
    PeriodTooShort {
        /// The requested period in nanoseconds.
        period_ns: u64,
        /// The shortest one.
        least_ns: u64,
    },
    /// The period is not a part of a second that a device can have.
    #[print(write_not_part_of_second(f, most))]
    NotPartOfSecond {
        /// The most parts; `None` without a limit.
        most: Option<u64>,
    },
    /// its period must be a whole number of microseconds, 100us to 1s.
    NotTracerPeriod,
    /// it has one period for all CPUs; use a single --thread.
    SeveralPeriods,
    /// it can have at most {most} thread; use one CPU (--cpus) and one period.
    TooMany {
        /// The most that the instrument can have.
        most: usize,
    },
}

fn write_not_part_of_second(f: &mut fmt::Formatter<'_>, most: &Option<u64>) -> fmt::Result {
    f.write_str("its period must be a second divided by a whole number")?;
    if let Some(most) = most {
        write!(f, " up to {most}")?;
    }
    f.write_str(", such as 1ms or 10ms")
}
