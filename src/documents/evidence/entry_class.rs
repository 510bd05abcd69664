//! The classes of entries into the kernel, and what sees each of them. One table has the events of
//! the trace, the rows of counters, and where either is missing. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A way into the kernel, or from one task to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum EntryClass {
    /// Any entry from user mode except an NMI, as context tracking reports it.
    UserModeExit,
    /// The timer of the local APIC.
    TimerInterrupt,
    /// The IPI that makes a CPU reschedule.
    RescheduleIpi,
    /// The IPIs that make a CPU call a function.
    FunctionCallIpi,
    /// The interrupt that a CPU sends to itself or to another CPU for `irq_work`.
    IrqWork,
    /// The IPI of a platform.
    PlatformIpi,
    /// The spurious and the error interrupt of the APIC.
    ApicInterrupt,
    /// The thermal interrupt and those of machine checks.
    HardwareAlarm,
    /// An interrupt of a device.
    DeviceInterrupt,
    /// A page fault from user mode.
    PageFault,
    /// Any other exception from user mode.
    OtherException,
    /// A system call.
    SystemCall,
    /// A non-maskable interrupt.
    Nmi,
    /// A switch to another task.
    TaskSwitch,
}

/// The witnesses of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassWitnesses {
    /// The class.
    pub class: EntryClass,
    /// Its name in the plural, as it is shown.
    pub name: &'static str,
    /// The events of the trace, which perf events count too.
    pub events: &'static [&'static str],
    /// The rows of `/proc/interrupts`; for device interrupts, all rows with a number.
    pub rows: &'static [&'static str],
    /// Where an event or a counter is missing, with the source.
    pub missing: &'static str,
}

/// The table, in the order of the classes.
const TABLE: [ClassWitnesses; 14] = [
    ClassWitnesses {
        class: EntryClass::UserModeExit,
        name: "entries from user mode",
        events: &["context_tracking:user_exit"],
        rows: &[],
        missing: "Only CPUs in nohz_full= have it, or all CPUs of a kernel with \
                  CONFIG_CONTEXT_TRACKING_USER_FORCE (ct_cpu_track_user() in \
                  kernel/context_tracking.c, 6.12; CONFIG_CONTEXT_TRACKING_FORCE before 6.0).",
    },
    ClassWitnesses {
        class: EntryClass::TimerInterrupt,
        name: "timer interrupts",
        events: &["irq_vectors:local_timer_entry"],
        rows: &["LOC"],
        missing: APIC_ONLY,
    },
    ClassWitnesses {
        class: EntryClass::RescheduleIpi,
        name: "reschedule IPIs",
        events: &["irq_vectors:reschedule_entry"],
        rows: &["RES"],
        missing: APIC_ONLY,
    },
    ClassWitnesses {
        class: EntryClass::FunctionCallIpi,
        name: "function-call IPIs",
        events: &["irq_vectors:call_function_entry", "irq_vectors:call_function_single_entry"],
        rows: &["CAL"],
        missing: APIC_ONLY,
    },
    ClassWitnesses {
        class: EntryClass::IrqWork,
        name: "irq_work interrupts",
        events: &["irq_vectors:irq_work_entry"],
        rows: &["IWI"],
        missing: APIC_ONLY,
    },
    ClassWitnesses {
        class: EntryClass::PlatformIpi,
        name: "platform IPIs",
        events: &["irq_vectors:x86_platform_ipi_entry"],
        rows: &["PLT"],
        missing: APIC_ONLY,
    },
    ClassWitnesses {
        class: EntryClass::ApicInterrupt,
        name: "spurious and error APIC interrupts",
        events: &["irq_vectors:spurious_apic_entry", "irq_vectors:error_apic_entry"],
        rows: &["SPU"],
        missing: APIC_ONLY,
    },
    ClassWitnesses {
        class: EntryClass::HardwareAlarm,
        name: "thermal and machine-check interrupts",
        events: &[
            "irq_vectors:thermal_apic_entry",
            "irq_vectors:threshold_apic_entry",
            "irq_vectors:deferred_error_apic_entry",
        ],
        rows: &["TRM", "THR", "DFR"],
        missing: "x86 kernels without CONFIG_X86_THERMAL_VECTOR, CONFIG_X86_MCE_THRESHOLD \
                  or CONFIG_X86_MCE_AMD lack the event and the row.",
    },
    ClassWitnesses {
        class: EntryClass::DeviceInterrupt,
        name: "device interrupts",
        events: &["irq:irq_handler_entry"],
        rows: &["numbered rows"],
        missing: "A shared interrupt has one event for each handler (kernel/irq/handle.c, \
                  6.12). An unhandled interrupt has none.",
    },
    ClassWitnesses {
        class: EntryClass::PageFault,
        name: "page faults",
        events: &["exceptions:page_fault_user"],
        rows: &[],
        missing: "Kernels for architectures other than x86 may lack it.",
    },
    ClassWitnesses {
        class: EntryClass::OtherException,
        name: "other exceptions",
        events: &[],
        rows: &[],
        missing: "No kernel has an event for each of them. On CPUs in nohz_full=, \
                  context_tracking:user_exit counts them.",
    },
    ClassWitnesses {
        class: EntryClass::SystemCall,
        name: "system calls",
        events: &["raw_syscalls:sys_enter"],
        rows: &[],
        missing: "Recorded only with --syscalls, because recording slows every process on the \
                  machine. On CPUs in nohz_full=, context_tracking:user_exit counts them at no \
                  cost.",
    },
    ClassWitnesses {
        class: EntryClass::Nmi,
        name: "NMIs",
        events: &["nmi:nmi_handler"],
        rows: &["NMI"],
        missing: "One event for each handler that is called, not for each NMI \
                  (arch/x86/kernel/nmi.c, 6.12).",
    },
    ClassWitnesses {
        class: EntryClass::TaskSwitch,
        name: "switches to other tasks",
        events: &["sched:sched_switch"],
        rows: &[],
        missing: "Kernels without CONFIG_EVENT_TRACING lack it.",
    },
];

impl EntryClass {
    /// Every class, in the order of the table.
    pub fn all() -> impl Iterator<Item = EntryClass> {
        TABLE.iter().map(|witnesses| witnesses.class)
    }

    /// The witnesses of this class.
    #[must_use]
    pub const fn witnesses(self) -> &'static ClassWitnesses {
        &TABLE[self as usize]
    }
}

const APIC_ONLY: &str = "Only x86 with CONFIG_X86_LOCAL_APIC has these events \
                         (arch/x86/include/asm/trace/irq_vectors.h).";

impl fmt::Display for EntryClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.witnesses().name)
    }
}

/// The table as Markdown, for the manual page of `verify`.
#[must_use]
pub fn table_of_classes() -> String {
    let mut text =
        "| class | trace events (perf counts them too) | rows of /proc/interrupts | limits \
                    |\n|---|---|---|---|\n"
            .to_owned();
    for ClassWitnesses { name, events, rows, missing, .. } in TABLE {
        let (events, rows) = (list_names(events), list_names(rows));
        text.push_str(&format!("| {name} | {events} | {rows} | {missing} |\n"));
    }
    text
}

fn list_names(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

/// The names of the classes, separated by commas.
#[must_use]
pub fn list_classes(classes: &[EntryClass]) -> String {
    classes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_classes() {
        for (place, class) in EntryClass::all().enumerate() {
            assert_eq!((class as usize, class.witnesses().class), (place, class));
        }
    }
}
