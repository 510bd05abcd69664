//! The events that are recorded, and what each of them means. One table; everything else in
//! `src/trace/` uses [`EventKind`] instead of names. Pure.

use crate::documents::evidence::{BlindSpot, EntryClass};

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A vector's handler begins.
    Vector(X86Vector),
    /// A vector's handler ends.
    VectorEnd(X86Vector),
    /// The handler of a device interrupt begins.
    Irq,
    /// The handler of a device interrupt ends.
    IrqEnd,
    /// A softirq begins.
    Softirq,
    /// A softirq ends.
    SoftirqEnd,
    /// A softirq was raised on this CPU.
    SoftirqRaise,
    /// The function of an hrtimer begins.
    Hrtimer,
    /// The function of an hrtimer ends.
    HrtimerEnd,
    /// The function of a timer of the wheel begins.
    Timer,
    /// The function of a timer of the wheel ends.
    TimerEnd,
    /// A function that another CPU requested begins.
    Call,
    /// A function that another CPU requested ends.
    CallEnd,
    /// A work item of a workqueue begins.
    Work,
    /// A work item of a workqueue ends.
    WorkEnd,
    /// The CPU switches to another task.
    Switch,
    /// A task creates a child.
    Fork,
    /// A page fault from user mode.
    PageFault,
    /// A page fault of the kernel.
    KernelFault,
    /// The tick was stopped on this CPU, or why it was not stopped.
    TickStop,
    /// A signal reaches the running task.
    Signal,
    /// The frequency of a CPU is changed from this CPU.
    Frequency,
    /// A machine check is reported.
    MachineCheck,
    /// The TLB of this CPU is flushed.
    TlbFlush,
    /// The handler of an NMI has ended.
    Nmi,
    /// A system call begins.
    Syscall,
    /// A system call ends.
    SyscallEnd,
    /// The kernel was entered from user mode (context tracking).
    UserExit,
    /// The kernel returns to user mode (context tracking).
    UserEnter,
}

impl EventKind {
    /// Whether it can be the first event after user mode; the end of something cannot.
    #[must_use]
    pub fn begins(self) -> bool {
        match self {
            EventKind::Vector(_)
            | EventKind::Irq
            | EventKind::Softirq
            | EventKind::SoftirqRaise
            | EventKind::Hrtimer
            | EventKind::Timer
            | EventKind::Call
            | EventKind::Work
            | EventKind::Switch
            | EventKind::Fork
            | EventKind::PageFault
            | EventKind::Signal
            | EventKind::Nmi
            | EventKind::Syscall
            | EventKind::UserExit => true,
            EventKind::VectorEnd(_)
            | EventKind::IrqEnd
            | EventKind::SoftirqEnd
            | EventKind::HrtimerEnd
            | EventKind::TimerEnd
            | EventKind::CallEnd
            | EventKind::WorkEnd
            | EventKind::SyscallEnd
            | EventKind::UserEnter
            | EventKind::KernelFault
            | EventKind::TickStop
            | EventKind::Frequency
            | EventKind::MachineCheck
            | EventKind::TlbFlush => false,
        }
    }
}

impl EventKind {
    /// The class of entry that it reports; `None` when it reports no entry.
    #[must_use]
    pub fn entry_class(self) -> Option<EntryClass> {
        Some(match self {
            EventKind::UserExit => EntryClass::UserModeExit,
            EventKind::Vector(X86Vector::LocalTimer) => EntryClass::TimerInterrupt,
            EventKind::Vector(X86Vector::Reschedule) => EntryClass::RescheduleIpi,
            EventKind::Vector(X86Vector::CallMany | X86Vector::CallOne) => {
                EntryClass::FunctionCallIpi
            }
            EventKind::Vector(X86Vector::IrqWork) => EntryClass::IrqWork,
            EventKind::Vector(X86Vector::Platform) => EntryClass::PlatformIpi,
            EventKind::Vector(X86Vector::Spurious | X86Vector::Error) => EntryClass::ApicInterrupt,
            EventKind::Vector(X86Vector::Thermal | X86Vector::Threshold | X86Vector::Deferred) => {
                EntryClass::HardwareAlarm
            }
            EventKind::Irq => EntryClass::DeviceInterrupt,
            EventKind::PageFault => EntryClass::PageFault,
            EventKind::Syscall => EntryClass::SystemCall,
            EventKind::Nmi => EntryClass::Nmi,
            EventKind::Switch => EntryClass::TaskSwitch,
            _ => return None,
        })
    }
}

/// The vectors of x86 that have events (arch/x86/include/asm/trace/irq_vectors.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum X86Vector {
    /// The timer of the local APIC: the tick and other hrtimers.
    LocalTimer,
    /// A request to reschedule.
    Reschedule,
    /// A function called on many CPUs.
    CallMany,
    /// A function called on this CPU only.
    CallOne,
    /// `irq_work`.
    IrqWork,
    /// The IPI of a platform.
    Platform,
    /// A spurious interrupt of the APIC.
    Spurious,
    /// An error interrupt of the APIC.
    Error,
    /// The thermal sensor.
    Thermal,
    /// A machine check threshold.
    Threshold,
    /// A deferred machine check.
    Deferred,
}

/// The fields that an event needs, by what they are decoded to (`EventValues` of `decode.rs`), in
/// the order in which they are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFields {
    /// None.
    Nothing,
    /// A function's address, a bit mask, or a number of something.
    Number([&'static str; 1]),
    /// The number and the name of a device interrupt.
    Irq([&'static str; 2]),
    /// The state of the previous task, the number and name of the next, and the priorities of both.
    Switch([&'static str; 5]),
    /// Whether the tick was stopped, and what it is needed for.
    Tick([&'static str; 2]),
    /// The number of a signal, and `si_code`.
    Signal([&'static str; 2]),
    /// The parent task and the new one.
    Fork([&'static str; 2]),
    /// The handler of an NMI, how long it ran, and whether the NMI was for it.
    Nmi([&'static str; 3]),
}

impl EventFields {
    /// The names of the fields in the format of the event.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        match self {
            EventFields::Nothing => &[],
            EventFields::Number(names) => names,
            EventFields::Irq(names)
            | EventFields::Tick(names)
            | EventFields::Signal(names)
            | EventFields::Fork(names) => names,
            EventFields::Nmi(names) => names,
            EventFields::Switch(names) => names,
        }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventSpec {
    /// Its directory below `events`.
    pub system: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: EventKind,
    /// The needed fields.
    pub fields: EventFields,
    /// What cannot be seen on a kernel without it; `None` when nothing is lost.
    pub blind: Option<&'static BlindSpot>,
    /// Whether it is recorded only when system calls are requested.
    pub syscalls_only: bool,
    /// A better event; this one is recorded only where the kernel lacks that.
    pub instead_of: Option<&'static str>,
}

const fn spec(
    system: &'static str,
    name: &'static str,
    kind: EventKind,
    fields: EventFields,
) -> EventSpec {
    EventSpec { system, name, kind, fields, blind: None, syscalls_only: false, instead_of: None }
}

/// The pair of events around the handler of a vector. Not every kernel has every vector.
const fn vector(entry: &'static str, exit: &'static str, vector: X86Vector) -> [EventSpec; 2] {
    let blind = match vector {
        X86Vector::LocalTimer => Some(&BlindSpot::TimerInterrupts),
        X86Vector::CallOne => Some(&BlindSpot::Ipis),
        _ => None,
    };
    [
        EventSpec {
            blind,
            ..spec("irq_vectors", entry, EventKind::Vector(vector), EventFields::Nothing)
        },
        spec("irq_vectors", exit, EventKind::VectorEnd(vector), EventFields::Nothing),
    ]
}

const VECTORS: &[[EventSpec; 2]] = &[
    vector("local_timer_entry", "local_timer_exit", X86Vector::LocalTimer),
    vector("reschedule_entry", "reschedule_exit", X86Vector::Reschedule),
    vector("call_function_entry", "call_function_exit", X86Vector::CallMany),
    vector("call_function_single_entry", "call_function_single_exit", X86Vector::CallOne),
    vector("irq_work_entry", "irq_work_exit", X86Vector::IrqWork),
    vector("x86_platform_ipi_entry", "x86_platform_ipi_exit", X86Vector::Platform),
    vector("spurious_apic_entry", "spurious_apic_exit", X86Vector::Spurious),
    vector("error_apic_entry", "error_apic_exit", X86Vector::Error),
    vector("thermal_apic_entry", "thermal_apic_exit", X86Vector::Thermal),
    vector("threshold_apic_entry", "threshold_apic_exit", X86Vector::Threshold),
    vector("deferred_error_apic_entry", "deferred_error_apic_exit", X86Vector::Deferred),
];

const OTHERS: &[EventSpec] = &[
    EventSpec {
        blind: Some(&BlindSpot::DeviceInterrupts),
        ..spec("irq", "irq_handler_entry", EventKind::Irq, EventFields::Irq(["irq", "name"]))
    },
    spec("irq", "irq_handler_exit", EventKind::IrqEnd, EventFields::Nothing),
    EventSpec {
        blind: Some(&BlindSpot::Softirqs),
        ..spec("irq", "softirq_entry", EventKind::Softirq, EventFields::Number(["vec"]))
    },
    spec("irq", "softirq_exit", EventKind::SoftirqEnd, EventFields::Nothing),
    spec("irq", "softirq_raise", EventKind::SoftirqRaise, EventFields::Number(["vec"])),
    EventSpec {
        blind: Some(&BlindSpot::TimerFunctions),
        ..spec(
            "timer",
            "hrtimer_expire_entry",
            EventKind::Hrtimer,
            EventFields::Number(["function"]),
        )
    },
    spec("timer", "hrtimer_expire_exit", EventKind::HrtimerEnd, EventFields::Nothing),
    spec("timer", "timer_expire_entry", EventKind::Timer, EventFields::Number(["function"])),
    spec("timer", "timer_expire_exit", EventKind::TimerEnd, EventFields::Nothing),
    EventSpec {
        blind: Some(&BlindSpot::CallFunctions),
        ..spec("csd", "csd_function_entry", EventKind::Call, EventFields::Number(["func"]))
    },
    spec("csd", "csd_function_exit", EventKind::CallEnd, EventFields::Nothing),
    EventSpec {
        blind: Some(&BlindSpot::WorkItems),
        ..spec(
            "workqueue",
            "workqueue_execute_start",
            EventKind::Work,
            EventFields::Number(["function"]),
        )
    },
    spec("workqueue", "workqueue_execute_end", EventKind::WorkEnd, EventFields::Nothing),
    EventSpec {
        blind: Some(&BlindSpot::TaskSwitches),
        ..spec(
            "sched",
            "sched_switch",
            EventKind::Switch,
            EventFields::Switch(["prev_state", "next_pid", "next_comm", "prev_prio", "next_prio"]),
        )
    },
    spec(
        "sched",
        "sched_process_fork",
        EventKind::Fork,
        EventFields::Fork(["parent_pid", "child_pid"]),
    ),
    EventSpec {
        blind: Some(&BlindSpot::PageFaults),
        ..spec(
            "exceptions",
            "page_fault_user",
            EventKind::PageFault,
            EventFields::Number(["error_code"]),
        )
    },
    spec(
        "exceptions",
        "page_fault_kernel",
        EventKind::KernelFault,
        EventFields::Number(["error_code"]),
    ),
    spec("timer", "tick_stop", EventKind::TickStop, EventFields::Tick(["success", "dependency"])),
    EventSpec {
        blind: Some(&BlindSpot::Signals),
        ..spec("signal", "signal_deliver", EventKind::Signal, EventFields::Signal(["sig", "code"]))
    },
    spec("power", "cpu_frequency", EventKind::Frequency, EventFields::Nothing),
    spec("mce", "mce_record", EventKind::MachineCheck, EventFields::Number(["bank"])),
    EventSpec {
        instead_of: Some("csd_function_entry"),
        ..spec("tlb", "tlb_flush", EventKind::TlbFlush, EventFields::Number(["reason"]))
    },
    EventSpec {
        blind: Some(&BlindSpot::Nmis),
        ..spec(
            "nmi",
            "nmi_handler",
            EventKind::Nmi,
            EventFields::Nmi(["handler", "delta_ns", "handled"]),
        )
    },
    EventSpec {
        syscalls_only: true,
        ..spec("raw_syscalls", "sys_enter", EventKind::Syscall, EventFields::Number(["id"]))
    },
    EventSpec {
        syscalls_only: true,
        ..spec("raw_syscalls", "sys_exit", EventKind::SyscallEnd, EventFields::Nothing)
    },
    spec("context_tracking", "user_exit", EventKind::UserExit, EventFields::Nothing),
    spec("context_tracking", "user_enter", EventKind::UserEnter, EventFields::Nothing),
];

/// Every event, in the order in which they are enabled.
pub fn events() -> impl Iterator<Item = &'static EventSpec> {
    VECTORS.iter().flatten().chain(OTHERS.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_named_once() {
        let mut names: Vec<_> = events().map(|spec| (spec.system, spec.name)).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_event_of_a_class_is_in_the_table_of_classes() {
        for class in EntryClass::all() {
            let mut events: Vec<String> = events()
                .filter(|spec| spec.kind.entry_class() == Some(class))
                .map(|spec| format!("{}:{}", spec.system, spec.name))
                .collect();
            let mut listed = class.witnesses().events.to_vec();
            events.sort_unstable();
            listed.sort_unstable();
            assert_eq!(events, listed, "{class}");
        }
    }
}
