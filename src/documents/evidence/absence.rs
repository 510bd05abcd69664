//! Why a witness did not watch, and what a witness that did watch cannot see. Pure.

use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a witness did not watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "absence", rename_all = "kebab-case")]
pub enum AbsenceReason {
    /// it was not requested.
    NotAsked,
    /// the sampler cannot share a CPU with the watched program.
    WorkloadGiven,
    /// there is no trace to compare with.
    NoTrace,
    /// a recorded machine cannot be traced.
    RecordedMachine,
    /// traces of big-endian machines are not supported.
    BigEndian,
    /// cannot use tracefs ({answer}): run cpushield as root, on a kernel that is not locked down.
    TracefsDenied {
        /// The kernel's error.
        answer: String,
    },
    /// this kernel has no trace instances (CONFIG_TRACING, since 3.10).
    NoTraceInstances,
    /// tracefs is not mounted, and this kernel (before 5.2) cannot mount it for one process alone:
    /// mount -t tracefs tracefs /sys/kernel/tracing.
    TracefsNotMounted,
    /// debugfs is not mounted, and kernels before 4.1 have their trace files there: mount -t
    /// debugfs debugfs /sys/kernel/debug.
    DebugfsNotMounted,
    /// the kernel is locked down; its log says: {said}.
    LockedDown {
        /// The line in the kernel log.
        said: String,
    },
    /// this kernel has no trace event for task switches (CONFIG_EVENT_TRACING).
    NoSwitchEvent,
    /// this process is in its own PID namespace, so it cannot recognize the tasks in the trace: run
    /// cpushield outside the container, or in a container with the PID namespace of the host.
    ///
    /// The trace has the task numbers of the initial one, so the workload cannot be recognized in
    /// it.
    PidNamespace,
    /// CPU {cpu} is busy with the real-time task {task}: arming the trace would hang, because this
    /// kernel first runs a work item on every CPU. Start `verify` before the workload, or let
    /// `apply` enlarge the trace buffer.
    WouldHang {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: String,
    },
    /// The kernel refused to set up the trace.
    #[print(trace(f, "could not be set up", answer))]
    TraceRefused {
        /// The kernel's error.
        answer: String,
    },
    /// The pipe of the trace could not be opened.
    #[print(trace(f, "could not be opened", answer))]
    TraceNotOpened {
        /// The kernel's error.
        answer: String,
    },
    /// The trace ended early.
    #[print(trace(f, "ended early", answer))]
    TraceEnded {
        /// The kernel's error.
        answer: String,
    },
    /// CPU {cpu} belongs to a cpuset that the sampler is not in: name that cpuset with --cgroup
    /// DIR.
    OutsideCpuset {
        /// The CPU.
        cpu: usize,
    },
    /// the kernel does not let the sampler run on CPU {cpu}: {answer}.
    CpuRefused {
        /// The CPU.
        cpu: usize,
        /// The kernel's error.
        answer: String,
    },
    /// this is a guest, and the firmware belongs to the host.
    Guest,
    /// AMD processors have no SMI counter register, and this family has no event that is known to
    /// count SMIs.
    NoSmiEvent,
    /// this processor has no SMI counter register (Intel processors have one).
    NoSmiRegister,
    /// no MSR device: modprobe msr.
    NoMsrDevice,
    /// other processes use all of the processor's performance counters.
    CountersInUse,
    /// the kernel has no performance counters on this machine.
    NoPerformanceCounters,
    /// {what}.
    Failed {
        /// What failed and how.
        what: String,
    },
}

impl AbsenceReason {
    /// A failure without a more specific reason.
    #[must_use]
    pub fn failed(what: impl fmt::Display) -> AbsenceReason {
        AbsenceReason::Failed { what: what.to_string() }
    }
}

/// What happened to the trace, with the kernel's error.
fn trace(f: &mut fmt::Formatter<'_>, what: &str, answer: &str) -> fmt::Result {
    write!(f, "the trace {what}: {answer}")
}

/// What a witness that watches cannot see here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "blind", rename_all = "kebab-case")]
pub enum BlindSpot {
    /// timer interrupts (no irq_vectors events).
    TimerInterrupts,
    /// IPIs (no irq_vectors events).
    Ipis,
    /// device interrupts (no irq:irq_handler_entry).
    DeviceInterrupts,
    /// softirqs (no irq:softirq_entry).
    Softirqs,
    /// which timers expired in an interrupt, and so which interrupts are ticks.
    TimerFunctions,
    /// the purpose of function-call IPIs (csd events need Linux 6.5).
    CallFunctions,
    /// which work item a kworker runs.
    WorkItems,
    /// switches to other tasks (no sched:sched_switch).
    TaskSwitches,
    /// page faults of the workload.
    PageFaults,
    /// signals of the workload (no signal:signal_deliver).
    Signals,
    /// NMIs (no nmi:nmi_handler).
    Nmis,
    /// system calls of the workload (not requested).
    SystemCalls,
    /// the event {event}, whose fields could not be parsed.
    EventFields {
        /// Its name.
        event: String,
    },
    /// names of kernel functions (/proc/kallsyms hides the addresses).
    FunctionNames,
    /// stacks (no CONFIG_STACKTRACE).
    Stacks,
    /// more than the default trace buffer holds, because CPU {cpu} is busy with the real-time task
    /// {task}.
    SmallBuffer {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: String,
    },
    /// the senders of IPIs ({reason}).
    Senders {
        /// Why.
        reason: BlindReason,
    },
    /// owners of interruptions ({reason}).
    Owners {
        /// Why.
        reason: BlindReason,
    },
    /// some senders of IPIs.
    SomeSenders,
    /// whether an interrupt came in user mode or during a page fault ({reason}).
    InterruptOrigin {
        /// Why.
        reason: BlindReason,
    },
    /// system calls, page faults and exceptions.
    Exceptions,
    /// the difference between ticks and other timers, and the purpose of timers and IPIs.
    Purposes,
    /// how long an interrupt took.
    Durations,
    /// softirqs ({answer}).
    SoftirqCounts {
        /// The kernel's error.
        answer: String,
    },
    /// which tasks ran ({answer}).
    TaskRuns {
        /// The kernel's error.
        answer: String,
    },
    /// time taken by the hypervisor ({answer}).
    StolenTime {
        /// The kernel's error.
        answer: String,
    },
    /// what caused a gap.
    GapCulprits,
    /// reliable times (the kernel does not trust the TSC of this machine).
    UntrustedTsc,
    /// CPU {cpu}: the times of gaps ({answer}).
    GapMoments {
        /// The CPU.
        cpu: usize,
        /// The kernel's error.
        answer: String,
    },
    /// CPU {cpu}: whether a gap is a page fault of the sampler (its memory could not be locked).
    UnlockedMemory {
        /// Its CPU.
        cpu: usize,
    },
    /// provoked IPIs that membarrier(2) sends ({answer}).
    NoBarrier {
        /// The kernel's error.
        answer: String,
    },
}

/// Why a part of the trace could not be armed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BlindReason {
    /// /proc/kallsyms hides the addresses of the entry code.
    EntryCodeHidden,
    /// this kernel's stack trigger is not limited to one trace instance.
    SharedTrigger,
    /// a CPU is busy with a real-time task.
    CpuBusy,
    /// no CONFIG_STACKTRACE.
    NoStackTrace,
    /// csd and ipi events need Linux 6.5.
    ///
    /// The events need Linux 6.5.
    NoIpiEvents,
    /// no {event}.
    NoEvent {
        /// Its name.
        event: String,
    },
    /// {answer}.
    Refused {
        /// The kernel's error.
        answer: String,
    },
}

impl From<cpushield_linux::Error> for BlindReason {
    fn from(error: cpushield_linux::Error) -> BlindReason {
        BlindReason::Refused { answer: error.to_string() }
    }
}
