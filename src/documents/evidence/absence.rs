//! Why a witness did not watch, and what a witness that did watch cannot see. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a witness did not watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "absence", rename_all = "kebab-case")]
pub enum AbsenceReason {
    /// It was not requested.
    NotAsked,
    /// The sampler does not run, because a given workload uses the CPU.
    WorkloadGiven,
    /// The perf event counters have no trace to compare with.
    NoTrace,
    /// The machine is a recording.
    RecordedMachine,
    /// The trace is big-endian, which the decoder does not support.
    BigEndian,
    /// The kernel does not let this process use tracefs.
    TracefsDenied {
        /// The kernel's error.
        answer: String,
    },
    /// The kernel was built without tracing, or is older than 3.10.
    NoTraceInstances,
    /// Tracefs is not mounted, and the kernel is too old to mount it privately.
    TracefsNotMounted,
    /// The kernel (3.10 to 4.0) has its trace in debugfs, which is not mounted.
    DebugfsNotMounted,
    /// The kernel is locked down and created no files in tracefs.
    LockedDown {
        /// The line in the kernel log.
        said: String,
    },
    /// The kernel has no event for task switches.
    NoSwitchEvent,
    /// This process is in a PID namespace of its own, as in a container. The trace has the task
    /// numbers of the initial one, so the workload cannot be recognized in it.
    PidNamespace,
    /// The trace cannot be armed while a real-time task never yields a CPU.
    WouldHang {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: String,
    },
    /// The kernel refused to set up the trace.
    TraceRefused {
        /// The kernel's error.
        answer: String,
    },
    /// The pipe of the trace could not be opened.
    TraceNotOpened {
        /// The kernel's error.
        answer: String,
    },
    /// The trace ended early.
    TraceEnded {
        /// The kernel's error.
        answer: String,
    },
    /// The cpuset of the sampler does not contain this CPU.
    OutsideCpuset {
        /// The CPU.
        cpu: usize,
    },
    /// The kernel does not let the sampler run on this CPU.
    CpuRefused {
        /// The CPU.
        cpu: usize,
        /// The kernel's error.
        answer: String,
    },
    /// The SMIs of a guest are those of the host.
    Guest,
    /// AMD processors have no SMI counter register, and this family has no known event.
    NoSmiEvent,
    /// The processor has no SMI counter register.
    NoSmiRegister,
    /// The registers cannot be read without the MSR device.
    NoMsrDevice,
    /// Other processes hold the performance counters of the processor.
    CountersInUse,
    /// The kernel has no performance counters.
    NoPerformanceCounters,
    /// A file or a system call of the kernel failed, or the witness process did.
    Failed {
        /// What failed and how.
        what: String,
    },
}

impl AbsenceReason {
    /// How to get the witness to watch; `None` when there is no advice.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            AbsenceReason::TracefsDenied { .. } => {
                Some("run cpushield as root, on a kernel that is not locked down")
            }
            AbsenceReason::TracefsNotMounted => {
                Some("mount -t tracefs tracefs /sys/kernel/tracing")
            }
            AbsenceReason::DebugfsNotMounted => Some("mount -t debugfs debugfs /sys/kernel/debug"),
            AbsenceReason::WouldHang { .. } => {
                Some("Start `verify` before the workload, or let `apply` enlarge the trace buffer")
            }
            AbsenceReason::PidNamespace => Some(
                "run cpushield outside the container, or in a container with the PID namespace of \
                 the host",
            ),
            AbsenceReason::OutsideCpuset { .. } => Some("name that cpuset with --cgroup DIR"),
            AbsenceReason::NoMsrDevice => Some("modprobe msr"),
            _ => None,
        }
    }

    /// A failure without a more specific reason.
    #[must_use]
    pub fn failed(what: impl fmt::Display) -> AbsenceReason {
        AbsenceReason::Failed { what: what.to_string() }
    }
}

const PID_NAMESPACE: &str =
    "this process is in its own PID namespace, so it cannot recognize the tasks in the trace";

impl fmt::Display for AbsenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = self.advice().unwrap_or_default();
        match self {
            AbsenceReason::NotAsked => f.write_str("it was not requested"),
            AbsenceReason::WorkloadGiven => {
                f.write_str("the sampler cannot share a CPU with the watched program")
            }
            AbsenceReason::NoTrace => f.write_str("there is no trace to compare with"),
            AbsenceReason::RecordedMachine => f.write_str("a recorded machine cannot be traced"),
            AbsenceReason::BigEndian => {
                f.write_str("traces of big-endian machines are not supported")
            }
            AbsenceReason::TracefsDenied { answer } => {
                write!(f, "cannot use tracefs ({answer}): {advice}")
            }
            AbsenceReason::NoTraceInstances => {
                f.write_str("this kernel has no trace instances (CONFIG_TRACING, since 3.10)")
            }
            AbsenceReason::TracefsNotMounted => write!(
                f,
                "tracefs is not mounted, and this kernel (before 5.2) cannot mount it for one \
                 process alone: {advice}"
            ),
            AbsenceReason::DebugfsNotMounted => {
                write!(
                    f,
                    "debugfs is not mounted, and kernels before 4.1 have their trace files there: \
                     {advice}"
                )
            }
            AbsenceReason::LockedDown { said } => {
                write!(f, "the kernel is locked down; its log says: {said}")
            }
            AbsenceReason::NoSwitchEvent => f.write_str(
                "this kernel has no trace event for task switches (CONFIG_EVENT_TRACING)",
            ),
            AbsenceReason::PidNamespace => write!(f, "{PID_NAMESPACE}: {advice}"),
            AbsenceReason::WouldHang { cpu, task } => write!(
                f,
                "CPU {cpu} is busy with the real-time task {task}: arming the trace would hang, \
                 because this kernel first runs a work item on every CPU. {advice}"
            ),
            AbsenceReason::TraceRefused { answer } => trace(f, "could not be set up", answer),
            AbsenceReason::TraceNotOpened { answer } => trace(f, "could not be opened", answer),
            AbsenceReason::TraceEnded { answer } => trace(f, "ended early", answer),
            AbsenceReason::OutsideCpuset { cpu } => {
                write!(f, "CPU {cpu} belongs to a cpuset that the sampler is not in: {advice}")
            }
            AbsenceReason::CpuRefused { cpu, answer } => {
                write!(f, "the kernel does not let the sampler run on CPU {cpu}: {answer}")
            }
            AbsenceReason::Guest => {
                f.write_str("this is a guest, and the firmware belongs to the host")
            }
            AbsenceReason::NoSmiEvent => f.write_str(
                "AMD processors have no SMI counter register, and this family has no event that is \
                 known to count SMIs",
            ),
            AbsenceReason::NoSmiRegister => f.write_str(
                "this processor has no SMI counter register (Intel processors have one)",
            ),
            AbsenceReason::NoMsrDevice => write!(f, "no MSR device: {advice}"),
            AbsenceReason::CountersInUse => {
                f.write_str("other processes use all of the processor's performance counters")
            }
            AbsenceReason::NoPerformanceCounters => {
                f.write_str("the kernel has no performance counters on this machine")
            }
            AbsenceReason::Failed { what } => f.write_str(what),
        }
    }
}

/// What happened to the trace, with the kernel's error.
fn trace(f: &mut fmt::Formatter<'_>, what: &str, answer: &str) -> fmt::Result {
    write!(f, "the trace {what}: {answer}")
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
    /// The trace has no event for the purpose of a function-call IPI.
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
    /// Tracing of system calls was not requested.
    SystemCalls,
    /// The decoder could not parse the fields of this event.
    EventFields {
        /// Its name.
        event: String,
    },
    /// The kernel hides the addresses of its functions.
    FunctionNames,
    /// The kernel was built without stack traces.
    Stacks,
    /// The trace buffer could not be enlarged, because a real-time task never yields a CPU.
    SmallBuffer {
        /// The CPU.
        cpu: usize,
        /// The task.
        task: String,
    },
    /// The senders of IPIs.
    Senders {
        /// Why.
        reason: BlindReason,
    },
    /// Whose the interruptions are.
    Owners {
        /// Why.
        reason: BlindReason,
    },
    /// Some senders of IPIs: there were too many, or they ended too soon.
    SomeSenders,
    /// The code that an interrupt hit.
    InterruptOrigin {
        /// Why.
        reason: BlindReason,
    },
    /// The counters of the kernel count only interrupts.
    Exceptions,
    /// The counters do not show the purpose of an interrupt.
    Purposes,
    /// The counters do not show how long an interrupt took.
    Durations,
    /// The counts of softirqs could not be read.
    SoftirqCounts {
        /// The kernel's error.
        answer: String,
    },
    /// How often tasks ran could not be read.
    TaskRuns {
        /// The kernel's error.
        answer: String,
    },
    /// The time that the hypervisor took could not be read.
    StolenTime {
        /// The kernel's error.
        answer: String,
    },
    /// Without a trace, the sampler names no culprit.
    GapCulprits,
    /// The kernel does not trust the clock that the sampler reads.
    UntrustedTsc,
    /// The times of the gaps on this CPU could not be read.
    GapMoments {
        /// The CPU.
        cpu: usize,
        /// The kernel's error.
        answer: String,
    },
    /// The memory of the sampler may be paged out.
    UnlockedMemory {
        /// Its CPU.
        cpu: usize,
    },
    /// The kernel refused the barrier of the positive control.
    NoBarrier {
        /// The kernel's error.
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
                "which timers expired in an interrupt, and so which interrupts are ticks"
            }
            BlindSpot::CallFunctions => {
                "the purpose of function-call IPIs (csd events need Linux 6.5)"
            }
            BlindSpot::WorkItems => "which work item a kworker runs",
            BlindSpot::TaskSwitches => "switches to other tasks (no sched:sched_switch)",
            BlindSpot::PageFaults => "page faults of the workload",
            BlindSpot::Signals => "signals of the workload (no signal:signal_deliver)",
            BlindSpot::Nmis => "NMIs (no nmi:nmi_handler)",
            BlindSpot::SystemCalls => "system calls of the workload (not requested)",
            BlindSpot::EventFields { event } => {
                return write!(f, "the event {event}, whose fields could not be parsed");
            }
            BlindSpot::FunctionNames => {
                "names of kernel functions (/proc/kallsyms hides the addresses)"
            }
            BlindSpot::Stacks => "stacks (no CONFIG_STACKTRACE)",
            BlindSpot::SmallBuffer { cpu, task } => {
                return write!(
                    f,
                    "more than the default trace buffer holds, because CPU {cpu} is busy with the \
                     real-time task {task}"
                );
            }
            BlindSpot::Senders { reason } => return write!(f, "the senders of IPIs ({reason})"),
            BlindSpot::Owners { reason } => return write!(f, "owners of interruptions ({reason})"),
            BlindSpot::SomeSenders => "some senders of IPIs",
            BlindSpot::InterruptOrigin { reason } => {
                return write!(
                    f,
                    "whether an interrupt came in user mode or during a page fault ({reason})"
                );
            }
            BlindSpot::Exceptions => "system calls, page faults and exceptions",
            BlindSpot::Purposes => {
                "the difference between ticks and other timers, and the purpose of timers and IPIs"
            }
            BlindSpot::Durations => "how long an interrupt took",
            BlindSpot::SoftirqCounts { answer } => return write!(f, "softirqs ({answer})"),
            BlindSpot::TaskRuns { answer } => return write!(f, "which tasks ran ({answer})"),
            BlindSpot::StolenTime { answer } => {
                return write!(f, "time taken by the hypervisor ({answer})");
            }
            BlindSpot::GapCulprits => "what caused a gap",
            BlindSpot::UntrustedTsc => {
                "reliable times (the kernel does not trust the TSC of this machine)"
            }
            BlindSpot::GapMoments { cpu, answer } => {
                return write!(f, "CPU {cpu}: the times of gaps ({answer})");
            }
            BlindSpot::UnlockedMemory { cpu } => {
                return write!(
                    f,
                    "CPU {cpu}: whether a gap is a page fault of the sampler (its memory could not \
                     be locked)"
                );
            }
            BlindSpot::NoBarrier { answer } => {
                return write!(f, "provoked IPIs that membarrier(2) sends ({answer})");
            }
        };
        f.write_str(text)
    }
}

/// Why a part of the trace could not be armed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum BlindReason {
    /// The kernel hides the addresses of its entry code.
    EntryCodeHidden,
    /// A stack trigger would write to the traces of other processes.
    SharedTrigger,
    /// A real-time task never yields a CPU.
    CpuBusy,
    /// The kernel was built without stack traces.
    NoStackTrace,
    /// The events need Linux 6.5.
    NoIpiEvents,
    /// This event, or one of its fields, does not exist.
    NoEvent {
        /// Its name.
        event: String,
    },
    /// The kernel refused.
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

impl fmt::Display for BlindReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            BlindReason::EntryCodeHidden => "/proc/kallsyms hides the addresses of the entry code",
            BlindReason::SharedTrigger => {
                "this kernel's stack trigger is not limited to one trace instance"
            }
            BlindReason::CpuBusy => "a CPU is busy with a real-time task",
            BlindReason::NoStackTrace => "no CONFIG_STACKTRACE",
            BlindReason::NoEvent { event } => return write!(f, "no {event}"),
            BlindReason::NoIpiEvents => "csd and ipi events need Linux 6.5",
            BlindReason::Refused { answer } => answer,
        };
        f.write_str(text)
    }
}
