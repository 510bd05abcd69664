//! Which events are recorded and what each of them means. One table; everything else in
//! `verify::trace` speaks of [`What`], not of names. Pure.

use crate::verify::{BlindSpot, EntryClass};

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// A vector's handler begins.
    Vector(Vector),
    /// A vector's handler ends.
    VectorEnd(Vector),
    /// The handler of a device interrupt begins.
    Irq,
    /// The handler of a device interrupt ends.
    IrqEnd,
    /// A softirq begins.
    Softirq,
    /// A softirq ends.
    SoftirqEnd,
    /// A softirq was asked for on this CPU.
    SoftirqRaise,
    /// The function of an hrtimer begins.
    Hrtimer,
    /// The function of an hrtimer ends.
    HrtimerEnd,
    /// The function of a timer of the wheel begins.
    Timer,
    /// The function of a timer of the wheel ends.
    TimerEnd,
    /// A function that another CPU asked for begins.
    Call,
    /// A function that another CPU asked for ends.
    CallEnd,
    /// A work item of a workqueue begins.
    Work,
    /// A work item of a workqueue ends.
    WorkEnd,
    /// The CPU goes from one task to another.
    Switch,
    /// A task makes a child.
    Fork,
    /// A page fault from user mode.
    PageFault,
    /// A page fault of the kernel.
    KernelFault,
    /// The tick was stopped on this CPU, or why it was not.
    TickStop,
    /// A signal reaches the task that runs.
    Signal,
    /// The frequency of a CPU is changed from here.
    Frequency,
    /// A machine check is told of.
    MachineCheck,
    /// The TLB is flushed here.
    TlbFlush,
    /// The handler of an NMI has ended.
    Nmi,
    /// A system call begins.
    Syscall,
    /// A system call ends.
    SyscallEnd,
    /// The kernel was entered from user mode (context tracking).
    UserExit,
    /// The kernel goes back to user mode (context tracking).
    UserEnter,
}

impl What {
    /// Whether it can be the first thing after user mode; the end of something is not.
    #[must_use]
    pub fn begins(self) -> bool {
        !matches!(
            self,
            What::VectorEnd(_)
                | What::IrqEnd
                | What::SoftirqEnd
                | What::HrtimerEnd
                | What::TimerEnd
                | What::CallEnd
                | What::WorkEnd
                | What::SyscallEnd
                | What::UserEnter
                | What::KernelFault
                | What::TickStop
                | What::Frequency
                | What::MachineCheck
                | What::TlbFlush
        )
    }
}

impl What {
    /// The class of entry that it reports; `None` when it is no entry of its own.
    #[must_use]
    pub fn entry_class(self) -> Option<EntryClass> {
        Some(match self {
            What::UserExit => EntryClass::UserModeExit,
            What::Vector(Vector::LocalTimer) => EntryClass::TimerInterrupt,
            What::Vector(Vector::Reschedule) => EntryClass::RescheduleIpi,
            What::Vector(Vector::CallMany | Vector::CallOne) => EntryClass::FunctionCallIpi,
            What::Vector(Vector::IrqWork) => EntryClass::IrqWork,
            What::Vector(Vector::Platform) => EntryClass::PlatformIpi,
            What::Vector(Vector::Spurious | Vector::Error) => EntryClass::ApicInterrupt,
            What::Vector(Vector::Thermal | Vector::Threshold | Vector::Deferred) => {
                EntryClass::HardwareAlarm
            }
            What::Irq => EntryClass::DeviceInterrupt,
            What::PageFault => EntryClass::PageFault,
            What::Syscall => EntryClass::SystemCall,
            What::Nmi => EntryClass::Nmi,
            What::Switch => EntryClass::TaskSwitch,
            _ => return None,
        })
    }
}

/// The vectors of x86 that have events (arch/x86/include/asm/trace/irq_vectors.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vector {
    /// The timer of the local APIC: the tick and other hrtimers.
    LocalTimer,
    /// Somebody wants this CPU to reschedule.
    Reschedule,
    /// A function called on many CPUs.
    CallMany,
    /// A function called on this CPU alone.
    CallOne,
    /// `irq_work`.
    IrqWork,
    /// A platform's own IPI.
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

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Its directory below `events`.
    pub system: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub what: What,
    /// Fields that are needed, in the order in which they are decoded.
    pub fields: &'static [&'static str],
    /// What cannot be seen where the kernel does not have it; `None` when nothing is lost.
    pub blind: Option<&'static BlindSpot>,
    /// It is recorded only when system calls are asked for.
    pub syscalls_only: bool,
    /// It is recorded only where the kernel lacks this event, which says more.
    pub instead_of: Option<&'static str>,
}

const fn spec(
    system: &'static str,
    name: &'static str,
    what: What,
    fields: &'static [&'static str],
) -> Spec {
    Spec { system, name, what, fields, blind: None, syscalls_only: false, instead_of: None }
}

/// A pair of events around the handler of a vector; not every kernel has every vector.
const fn vector(entry: &'static str, exit: &'static str, vector: Vector) -> [Spec; 2] {
    let blind = match vector {
        Vector::LocalTimer => Some(&BlindSpot::TimerInterrupts),
        Vector::CallOne => Some(&BlindSpot::Ipis),
        _ => None,
    };
    [
        Spec { blind, ..spec("irq_vectors", entry, What::Vector(vector), &[]) },
        spec("irq_vectors", exit, What::VectorEnd(vector), &[]),
    ]
}

const VECTORS: [[Spec; 2]; 11] = [
    vector("local_timer_entry", "local_timer_exit", Vector::LocalTimer),
    vector("reschedule_entry", "reschedule_exit", Vector::Reschedule),
    vector("call_function_entry", "call_function_exit", Vector::CallMany),
    vector("call_function_single_entry", "call_function_single_exit", Vector::CallOne),
    vector("irq_work_entry", "irq_work_exit", Vector::IrqWork),
    vector("x86_platform_ipi_entry", "x86_platform_ipi_exit", Vector::Platform),
    vector("spurious_apic_entry", "spurious_apic_exit", Vector::Spurious),
    vector("error_apic_entry", "error_apic_exit", Vector::Error),
    vector("thermal_apic_entry", "thermal_apic_exit", Vector::Thermal),
    vector("threshold_apic_entry", "threshold_apic_exit", Vector::Threshold),
    vector("deferred_error_apic_entry", "deferred_error_apic_exit", Vector::Deferred),
];

const OTHERS: [Spec; 27] = [
    Spec {
        blind: Some(&BlindSpot::DeviceInterrupts),
        ..spec("irq", "irq_handler_entry", What::Irq, &["irq", "name"])
    },
    spec("irq", "irq_handler_exit", What::IrqEnd, &[]),
    Spec {
        blind: Some(&BlindSpot::Softirqs),
        ..spec("irq", "softirq_entry", What::Softirq, &["vec"])
    },
    spec("irq", "softirq_exit", What::SoftirqEnd, &[]),
    spec("irq", "softirq_raise", What::SoftirqRaise, &["vec"]),
    Spec {
        blind: Some(&BlindSpot::TimerFunctions),
        ..spec("timer", "hrtimer_expire_entry", What::Hrtimer, &["function"])
    },
    spec("timer", "hrtimer_expire_exit", What::HrtimerEnd, &[]),
    spec("timer", "timer_expire_entry", What::Timer, &["function"]),
    spec("timer", "timer_expire_exit", What::TimerEnd, &[]),
    Spec {
        blind: Some(&BlindSpot::CallFunctions),
        ..spec("csd", "csd_function_entry", What::Call, &["func"])
    },
    spec("csd", "csd_function_exit", What::CallEnd, &[]),
    Spec {
        blind: Some(&BlindSpot::WorkItems),
        ..spec("workqueue", "workqueue_execute_start", What::Work, &["function"])
    },
    spec("workqueue", "workqueue_execute_end", What::WorkEnd, &[]),
    Spec {
        blind: Some(&BlindSpot::TaskSwitches),
        ..spec("sched", "sched_switch", What::Switch, &["prev_state", "next_pid", "next_comm"])
    },
    spec("sched", "sched_process_fork", What::Fork, &["parent_pid", "child_pid"]),
    Spec {
        blind: Some(&BlindSpot::PageFaults),
        ..spec("exceptions", "page_fault_user", What::PageFault, &["error_code"])
    },
    spec("exceptions", "page_fault_kernel", What::KernelFault, &["error_code"]),
    spec("timer", "tick_stop", What::TickStop, &["success", "dependency"]),
    Spec {
        blind: Some(&BlindSpot::Signals),
        ..spec("signal", "signal_deliver", What::Signal, &["sig", "code"])
    },
    spec("power", "cpu_frequency", What::Frequency, &[]),
    spec("mce", "mce_record", What::MachineCheck, &["bank"]),
    Spec {
        instead_of: Some("csd_function_entry"),
        ..spec("tlb", "tlb_flush", What::TlbFlush, &["reason"])
    },
    Spec {
        blind: Some(&BlindSpot::Nmis),
        ..spec("nmi", "nmi_handler", What::Nmi, &["handler", "delta_ns", "handled"])
    },
    Spec { syscalls_only: true, ..spec("raw_syscalls", "sys_enter", What::Syscall, &["id"]) },
    Spec { syscalls_only: true, ..spec("raw_syscalls", "sys_exit", What::SyscallEnd, &[]) },
    spec("context_tracking", "user_exit", What::UserExit, &[]),
    spec("context_tracking", "user_enter", What::UserEnter, &[]),
];

/// Every event, in the order in which they are enabled.
pub fn events() -> impl Iterator<Item = &'static Spec> {
    VECTORS.iter().flatten().chain(OTHERS.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_named_once_and_has_few_fields() {
        let mut names: Vec<_> = events().map(|spec| (spec.system, spec.name)).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(events().all(|spec| spec.fields.len() <= 3));
    }

    #[test]
    fn every_event_of_a_class_is_in_the_table_of_classes() {
        for class in EntryClass::all() {
            let mut events: Vec<String> = events()
                .filter(|spec| spec.what.entry_class() == Some(class))
                .map(|spec| format!("{}:{}", spec.system, spec.name))
                .collect();
            let mut listed = class.witnesses().events.to_vec();
            events.sort_unstable();
            listed.sort_unstable();
            assert_eq!(events, listed, "{class}");
        }
    }
}
