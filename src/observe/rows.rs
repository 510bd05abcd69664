//! What the rows of `/proc/interrupts` mean: which of them count entries, which only count details
//! of another row, and the cause of each. A row is recognized by its description where it has one,
//! because labels differ between architectures (arch/{x86,arm64,riscv,arm}/kernel, 4.17 to 6.18).
//! Pure.

use crate::causes::culprit::KernelEvent;
use crate::causes::{Cause, Culprit};
use cpushield_linux::text::interrupts::{InterruptRow, InterruptTable};

/// What a row counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMeaning {
    /// Entries into the kernel.
    Entry {
        /// Their cause.
        cause: Cause,
        /// Their culprit.
        culprit: Culprit,
        /// Whether a trace reports them too.
        tracepoint: Tracepoint,
    },
    /// TLB flushes: a part of the function-call row.
    Shootdown,
    /// A detail of other rows, or no entry at all (retries, polls by a timer).
    Detail,
}

/// Whether a tracepoint reports what a counter counts (arch/x86/include/asm/trace/irq_vectors.h,
/// 4.17 to 6.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracepoint {
    /// Each one.
    Present,
    /// That depends on the kernel, on the architecture or on the kind of event.
    Uncertain,
    /// None, but the trace reports what runs in it.
    Inside,
    /// None.
    Absent,
}

/// Classifies a row of this table.
#[must_use]
pub fn meaning(row: &InterruptRow, table: &InterruptTable) -> RowMeaning {
    if let Some(irq) = row.irq() {
        return device_row(row, irq);
    }

    match row.label.as_str() {
        // Counted inside NMI (arch/x86/events/core.c, `perf_event_nmi_handler`).
        "PMI" => return RowMeaning::Detail,
        // One for several device interrupts, which have their own rows (handle_pending_pir() in
        // arch/x86/kernel/irq.c).
        "PMN" => return RowMeaning::Detail,
        // Repeated reads of the ICR, and polls by a timer.
        "RTR" | "MCP" => return RowMeaning::Detail,
        "HYP" => return hypervisor_callback(table),
        // The trace reports the timer that it runs, and no entry.
        "HVS" => {
            let event = KernelEvent::HyperVTimer;
            return entry(event.cause(), event.into(), Tracepoint::Inside);
        }
        _ => {}
    }
    let text = row.name.to_ascii_lowercase();
    if text.contains("local timer") || text.contains("timer interrupts") {
        event_entry(KernelEvent::LocalTimer)
    } else if text.contains("timer broadcast") {
        event_entry(KernelEvent::TimerBroadcast)
    } else if text.contains("rescheduling") {
        unnamed_entry(Cause::IpiReschedule)
    } else if text.contains("tlb shootdown") {
        RowMeaning::Shootdown
    } else if text.contains("function call") {
        unnamed_entry(Cause::IpiCall)
    } else if text.contains("irq work") {
        unnamed_entry(Cause::IpiIrqWork)
    } else if text.contains("non-maskable") || text.contains("backtrace") {
        entry(Cause::Nmi, Culprit::Unknown, Tracepoint::Uncertain)
    } else if text.contains("machine check")
        || text.contains("thermal")
        || text.contains("threshold")
        || text.contains("deferred error")
    {
        named_entry(Cause::MachineCheck, &row.name, Tracepoint::Uncertain)
    } else if row.name.is_empty() {
        named_entry(Cause::Unattributed, &row.label, Tracepoint::Uncertain)
    } else if text.contains("spurious") || text.contains("platform") {
        named_entry(Cause::Irq, &row.name, Tracepoint::Present)
    } else if row.label.starts_with("IPI") {
        // arm64 and arm report IPIs in `ipi:ipi_entry`, riscv does not.
        named_entry(Cause::Irq, &row.name, Tracepoint::Uncertain)
    } else {
        // Those of Hyper-V and of KVM, such as `Posted-interrupt notification event`.
        named_entry(Cause::Irq, &row.name, Tracepoint::Absent)
    }
}

/// The callback of a hypervisor. With Xen it carries the interrupts of event channels, which have
/// rows of their own (drivers/xen/events/events_base.c, 6.12).
fn hypervisor_callback(table: &InterruptTable) -> RowMeaning {
    if table.rows.iter().any(|row| row.chip.starts_with("xen-")) {
        return RowMeaning::Detail;
    }
    let event = KernelEvent::HypervisorCallback;
    entry(event.cause(), event.into(), Tracepoint::Absent)
}

fn entry(cause: Cause, culprit: Culprit, tracepoint: Tracepoint) -> RowMeaning {
    RowMeaning::Entry { cause, culprit, tracepoint }
}

fn event_entry(event: KernelEvent) -> RowMeaning {
    entry(event.cause(), event.into(), Tracepoint::Present)
}

fn unnamed_entry(cause: Cause) -> RowMeaning {
    entry(cause, Culprit::Unknown, Tracepoint::Present)
}

fn named_entry(cause: Cause, name: &str, tracepoint: Tracepoint) -> RowMeaning {
    entry(cause, Culprit::Interrupt { name: name.into() }, tracepoint)
}

/// The meaning of a row with a number: a device interrupt, or the timer of the tick where that is
/// one (arm64, riscv, Exynos, the PIT).
fn device_row(row: &InterruptRow, irq: u32) -> RowMeaning {
    // The last word, because the name of riscv's controller, `RISC-V INTC`, is two.
    let device = row.name.split_whitespace().next_back().unwrap_or("");
    if ["arch_timer", "riscv-timer", "timer"].contains(&device) || device.starts_with("mct_tick") {
        return event_entry(KernelEvent::LocalTimer);
    }
    entry(Cause::Irq, Culprit::irq(irq, row.name.trim_end()), Tracepoint::Present)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::interrupts;

    #[test]
    fn rows_of_every_architecture_get_their_cause() {
        use Tracepoint::{Absent, Present, Uncertain};
        let local_timer = || event_entry(KernelEvent::LocalTimer);
        let irq = |irq, name| entry(Cause::Irq, Culprit::irq(irq, name), Present);
        for (line, expected) in [
            ("24: 1 IO-APIC   5-edge      ACPI:Ged", irq(24, "ACPI:Ged")),
            ("50: 1 PCI-MSI 524288-edge", irq(50, "")),
            ("49: 1 GICv3  23 Level     arm-pmu", irq(49, "arm-pmu")),
            ("10: 1 GICv3  27 Level     arch_timer", local_timer()),
            ("5: 1 RISC-V INTC  5 Edge  riscv-timer", local_timer()),
            ("153: 1 GIC  mct_tick1", local_timer()),
            ("0: 1 IO-APIC 2-edge timer", local_timer()),
            ("LOC: 1 Local timer interrupts", local_timer()),
            ("IPI0: 1 Timer broadcast interrupts", event_entry(KernelEvent::TimerBroadcast)),
            ("IPI1: 1 Rescheduling interrupts", unnamed_entry(Cause::IpiReschedule)),
            ("IPI3: 1 Single function call interrupts", unnamed_entry(Cause::IpiCall)),
            ("CAL: 1 Function call interrupts", unnamed_entry(Cause::IpiCall)),
            ("IPI5: 1 IRQ work interrupts", unnamed_entry(Cause::IpiIrqWork)),
            ("IPI5: 1 CPU backtrace", entry(Cause::Nmi, Culprit::Unknown, Uncertain)),
            ("TLB: 1 TLB shootdowns", RowMeaning::Shootdown),
            ("PMI: 1 Performance monitoring interrupts", RowMeaning::Detail),
            ("PMN: 1 Posted MSI notification event", RowMeaning::Detail),
            ("MCP: 1 Machine check polls", RowMeaning::Detail),
            ("DFR: 1 Deferred Error APIC interrupts", {
                named_entry(Cause::MachineCheck, "Deferred Error APIC interrupts", Uncertain)
            }),
            ("SPU: 1 Spurious interrupts", {
                named_entry(Cause::Irq, "Spurious interrupts", Present)
            }),
            ("IPI2: 1 CPU stop interrupts", {
                named_entry(Cause::Irq, "CPU stop interrupts", Uncertain)
            }),
            ("PIN: 1 Posted-interrupt notification event", {
                named_entry(Cause::Irq, "Posted-interrupt notification event", Absent)
            }),
            ("NEW: 1", named_entry(Cause::Unattributed, "NEW", Uncertain)),
        ] {
            let table = interrupts::parse(&format!(" CPU0\n {line}\n")).unwrap();
            assert_eq!(meaning(&table.rows[0], &table), expected, "{line}");
        }
    }

    #[test]
    fn the_callback_of_xen_carries_the_interrupts_of_other_rows() {
        let event_channel = " 67: 5 xen-dyn    -event     eth0\n";
        let callback = "HYP: 5 Hypervisor callback interrupts\n";
        for (others, is_detail) in [(event_channel, true), (" 24: 5 PCI-MSI 1-edge eth0\n", false)]
        {
            let table = interrupts::parse(&format!(" CPU0\n{others}{callback}")).unwrap();
            let found = meaning(&table.rows[1], &table);
            assert_eq!(found == RowMeaning::Detail, is_detail, "{others}{found:?}");
        }
    }
}
