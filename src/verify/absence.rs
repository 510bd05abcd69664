//! Why a witness did not watch, and what a witness that did watch cannot see. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a witness did not watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "absence", rename_all = "kebab-case")]
pub enum AbsenceReason {
    /// Nothing asked for it.
    NotAsked,
    /// The sampler: a workload has the CPU.
    WorkloadGiven,
    /// The perf event counters: there is no trace to compare them with.
    NoTrace,
    /// There is no machine to watch.
    RecordedMachine,
    /// The bytes of the trace are in an order that the decoder does not know.
    BigEndian,
    /// The kernel lets this process use no tracefs.
    TracefsDenied {
        /// Its answer.
        answer: String,
    },
    /// The kernel was built without tracefs.
    NoTracefs,
    /// Tracefs is mounted nowhere, and the kernel is too old to mount it privately.
    TracefsNotMounted,
    /// The kernel is locked down and made no files of tracefs.
    LockedDown {
        /// The line of its log.
        said: String,
    },
    /// The kernel has no event for task switches.
    NoSwitchEvent,
    /// The trace cannot be armed while a real-time task never leaves a CPU.
    WouldHang {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: String,
    },
    /// The kernel refused to set up the trace.
    TraceRefused {
        /// Its answer.
        answer: String,
    },
    /// The pipe of the trace could not be opened.
    TraceNotOpened {
        /// The kernel's answer.
        answer: String,
    },
    /// The trace ended before its time.
    TraceEnded {
        /// The kernel's answer.
        answer: String,
    },
    /// The sampler is in a cpuset without this CPU.
    OutsideCpuset {
        /// The CPU.
        cpu: usize,
    },
    /// The kernel does not let the sampler run on this CPU.
    CpuRefused {
        /// The CPU.
        cpu: usize,
        /// Its answer.
        answer: String,
    },
    /// The SMI counter: the firmware is that of the host.
    Guest,
    /// AMD's processors have no register, and the family has no known event.
    NoSmiEvent,
    /// The processor has no register for it.
    NoSmiRegister,
    /// The registers cannot be read without their device.
    NoMsrDevice,
    /// Other processes hold the performance counters of the processor.
    CountersInUse,
    /// The kernel has no performance counters.
    NoPerformanceCounters,
    /// A file or a system call of the kernel, or the process that watches, failed.
    Failed {
        /// What failed and how.
        what: String,
    },
}

impl AbsenceReason {
    /// What makes the witness watch, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            AbsenceReason::TracefsDenied { .. } => {
                Some("it needs root, and a kernel that is not locked down")
            }
            AbsenceReason::TracefsNotMounted => {
                Some("mount -t tracefs tracefs /sys/kernel/tracing")
            }
            AbsenceReason::WouldHang { .. } => {
                Some("Start `verify` before the workload, or let `apply` enlarge the trace buffer")
            }
            AbsenceReason::OutsideCpuset { .. } => Some("--cgroup DIR names it"),
            AbsenceReason::NoMsrDevice => Some("modprobe msr"),
            _ => None,
        }
    }

    /// What failed, of something that has no reason of its own.
    #[must_use]
    pub fn failed(what: impl fmt::Display) -> AbsenceReason {
        AbsenceReason::Failed { what: what.to_string() }
    }
}

impl fmt::Display for AbsenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = self.advice().unwrap_or_default();
        match self {
            AbsenceReason::NotAsked => f.write_str("it was not asked"),
            AbsenceReason::WorkloadGiven => {
                f.write_str("a workload was given, and two cannot share a CPU")
            }
            AbsenceReason::NoTrace => f.write_str("there is no trace to count together with"),
            AbsenceReason::RecordedMachine => f.write_str("a recorded machine cannot be traced"),
            AbsenceReason::BigEndian => {
                f.write_str("traces of big-endian machines are not understood")
            }
            AbsenceReason::TracefsDenied { answer } => {
                write!(f, "not allowed to use tracefs ({answer}): {advice}")
            }
            AbsenceReason::NoTracefs => f.write_str("this kernel has no tracefs (CONFIG_TRACING)"),
            AbsenceReason::TracefsNotMounted => write!(
                f,
                "tracefs is not mounted, and this kernel (before 5.2) cannot mount it for one \
                 process alone: {advice}"
            ),
            AbsenceReason::LockedDown { said } => {
                write!(f, "the kernel is locked down, and said at boot: {said}")
            }
            AbsenceReason::NoSwitchEvent => {
                f.write_str("this kernel has no trace event for switches (CONFIG_EVENT_TRACING)")
            }
            AbsenceReason::WouldHang { cpu, task } => write!(
                f,
                "CPU {cpu} is busy with the real-time task {task}, and this kernel must run a \
                 work item on every CPU before it can record the first event: arming the trace \
                 would hang. {advice}"
            ),
            AbsenceReason::TraceRefused { answer } => {
                write!(f, "the trace could not be set up: {answer}")
            }
            AbsenceReason::TraceNotOpened { answer } => {
                write!(f, "the trace could not be opened: {answer}")
            }
            AbsenceReason::TraceEnded { answer } => {
                write!(f, "it ended before its time: {answer}")
            }
            AbsenceReason::OutsideCpuset { cpu } => {
                write!(f, "CPU {cpu} belongs to a cpuset that the sampler is not in; {advice}")
            }
            AbsenceReason::CpuRefused { cpu, answer } => {
                write!(f, "the kernel does not let the sampler run on CPU {cpu}: {answer}")
            }
            AbsenceReason::Guest => f.write_str("this is a guest, and the firmware is its host's"),
            AbsenceReason::NoSmiEvent => f.write_str(
                "AMD's have no register for it, and of their events of this family none is known \
                 to count it",
            ),
            AbsenceReason::NoSmiRegister => {
                f.write_str("this processor has no register for it (Intel's have)")
            }
            AbsenceReason::NoMsrDevice => write!(f, "no MSR device: {advice}"),
            AbsenceReason::CountersInUse => {
                f.write_str("others use all performance counters of the processor")
            }
            AbsenceReason::NoPerformanceCounters => {
                f.write_str("the kernel has no performance counters here")
            }
            AbsenceReason::Failed { what } => f.write_str(what),
        }
    }
}

/// What a witness that watches cannot see here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "blind", rename_all = "kebab-case")]
pub enum BlindSpot {
    /// The trace has no event for the interrupts of the local timer.
    TimerInterrupts,
    /// The trace has no event for inter-processor interrupts.
    Ipis,
    /// The trace has no event for device interrupts.
    DeviceInterrupts,
    /// The trace has no event for softirqs.
    Softirqs,
    /// The trace has no event that names timers.
    TimerFunctions,
    /// The trace has no event that names what a function call IPI was for.
    CallFunctions,
    /// The trace has no event that names work items.
    WorkItems,
    /// The trace has no event for task switches.
    TaskSwitches,
    /// The trace has no event for page faults.
    PageFaults,
    /// The trace has no event for signals.
    Signals,
    /// The trace has no event for NMIs.
    Nmis,
    /// System calls were not asked for.
    SystemCalls,
    /// The decoder does not understand the fields of this event.
    EventFields {
        /// Its name.
        event: String,
    },
    /// The kernel hides the addresses of its functions.
    FunctionNames,
    /// The kernel was built without stack traces.
    Stacks,
    /// The trace buffer could not be enlarged: a real-time task never leaves a CPU.
    SmallBuffer {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: String,
    },
    /// What sends IPIs.
    Senders {
        /// Why.
        reason: BlindReason,
    },
    /// There were too many senders, or they were too quick.
    SomeSenders,
    /// What an interrupt hit.
    InterruptOrigin {
        /// Why.
        reason: BlindReason,
    },
    /// The counters of the kernel count interrupts alone.
    Exceptions,
    /// The counters do not say what an interrupt was for.
    Purposes,
    /// The counters do not say how long an interrupt took.
    Durations,
    /// The counts of softirqs could not be read.
    SoftirqCounts {
        /// The answer of the kernel.
        answer: String,
    },
    /// The time that the hypervisor took could not be read.
    StolenTime {
        /// The answer of the kernel.
        answer: String,
    },
    /// The sampler alone names no culprit.
    GapCulprits,
    /// The kernel does not trust the clock that the sampler reads.
    UntrustedTsc,
    /// The moments of gaps on this CPU could not be read.
    GapMoments {
        /// The CPU.
        cpu: usize,
        /// The kernel's answer.
        answer: String,
    },
    /// The memory of the sampler may be paged out.
    UnlockedMemory {
        /// Its CPU.
        cpu: usize,
    },
    /// The kernel refused the barrier of the positive control.
    NoBarrier {
        /// Its answer.
        answer: String,
    },
}

impl fmt::Display for BlindSpot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            BlindSpot::TimerInterrupts => "timer interrupts (no irq_vectors events)",
            BlindSpot::Ipis => "IPIs (no irq_vectors events)",
            BlindSpot::DeviceInterrupts => "device interrupts (no irq:irq_handler_entry)",
            BlindSpot::Softirqs => "softirqs (no irq:softirq_entry)",
            BlindSpot::TimerFunctions => {
                "which timer an interrupt was for, and so what is the tick"
            }
            BlindSpot::CallFunctions => {
                "what a function call IPI was for (csd events need Linux 6.5)"
            }
            BlindSpot::WorkItems => "which work item a kworker runs",
            BlindSpot::TaskSwitches => "switches to other tasks (no sched:sched_switch)",
            BlindSpot::PageFaults => "page faults of the workload",
            BlindSpot::Signals => "signals of the workload (no signal:signal_deliver)",
            BlindSpot::Nmis => "NMIs (no nmi:nmi_handler)",
            BlindSpot::SystemCalls => "system calls of the workload (not asked for)",
            BlindSpot::EventFields { event } => {
                return write!(f, "{event}: its fields are not understood");
            }
            BlindSpot::FunctionNames => {
                "names of kernel functions (/proc/kallsyms hides the addresses)"
            }
            BlindSpot::Stacks => "stacks (CONFIG_STACKTRACE)",
            BlindSpot::SmallBuffer { cpu, task } => {
                return write!(
                    f,
                    "more than the kernel's default buffer holds, because CPU {cpu} is busy with \
                     the real-time task {task}"
                );
            }
            BlindSpot::Senders { reason } => return write!(f, "who sends IPIs ({reason})"),
            BlindSpot::SomeSenders => "some of those who sent IPIs",
            BlindSpot::InterruptOrigin { reason } => {
                return write!(
                    f,
                    "whether an interrupt came from user mode or inside a page fault ({reason})"
                );
            }
            BlindSpot::Exceptions => "system calls, page faults and exceptions",
            BlindSpot::Purposes => "the tick from other timers, and what a timer or an IPI was for",
            BlindSpot::Durations => "how long an interrupt took",
            BlindSpot::SoftirqCounts { answer } => return write!(f, "soft interrupts ({answer})"),
            BlindSpot::StolenTime { answer } => {
                return write!(f, "time taken by the hypervisor ({answer})");
            }
            BlindSpot::GapCulprits => "who or what made a gap",
            BlindSpot::UntrustedTsc => "time for certain: the kernel does not trust the TSC here",
            BlindSpot::GapMoments { cpu, answer } => {
                return write!(f, "CPU {cpu}: when gaps were: {answer}");
            }
            BlindSpot::UnlockedMemory { cpu } => {
                return write!(f, "CPU {cpu}: the sampler's memory could not be locked");
            }
            BlindSpot::NoBarrier { answer } => return write!(f, "membarrier: {answer}"),
        };
        f.write_str(text)
    }
}

/// Why a part of the trace could not be armed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BlindReason {
    /// The kernel hides where its entry code lies.
    EntryCodeHidden,
    /// A stack trigger would write into the trace of other processes.
    SharedTrigger,
    /// A real-time task never leaves a CPU.
    CpuBusy,
    /// The kernel was built without stack traces.
    NoStackTrace,
    /// The events came with Linux 6.5.
    NoIpiEvents,
    /// The list of online CPUs is none.
    NoCpuList,
    /// The kernel refused.
    Refused {
        /// Its answer.
        answer: String,
    },
}

impl From<cpushield_linux::Error> for BlindReason {
    fn from(error: cpushield_linux::Error) -> BlindReason {
        BlindReason::Refused { answer: error.to_string() }
    }
}

impl fmt::Display for BlindReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlindReason::EntryCodeHidden => "/proc/kallsyms does not say where the entry code lies",
            BlindReason::SharedTrigger => "the stack trigger of this kernel is not of one instance",
            BlindReason::CpuBusy => "a CPU is busy with a real-time task",
            BlindReason::NoStackTrace => "CONFIG_STACKTRACE",
            BlindReason::NoIpiEvents => "csd and ipi events need Linux 6.5",
            BlindReason::NoCpuList => "no list of CPUs",
            BlindReason::Refused { answer } => answer,
        })
    }
}
