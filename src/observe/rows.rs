//! What the rows of `/proc/interrupts` mean: which of them count entries, which only count details
//! of another row, and the cause of each. A row is recognized by its description where it has one,
//! because labels differ between architectures (arch/{x86,arm64,riscv,arm}/kernel, 4.17 to 6.18).
//! Pure.

use crate::causes::culprit::KernelEvent;
use crate::causes::{Cause, Culprit};
use cpushield_linux::text::interrupts::InterruptRow;

/// What a row counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMeaning {
    /// Entries into the kernel, of this cause by this culprit.
    Entry(Cause, Culprit),
    /// TLB flushes: a part of the function-call row.
    Shootdown,
    /// A detail of other rows, or no entry at all (retries, polls by a timer).
    Detail,
}

/// Classifies a row.
#[must_use]
pub fn meaning(row: &InterruptRow) -> RowMeaning {
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
        "HYP" => return event_entry(KernelEvent::HypervisorCallback),
        "HVS" => return event_entry(KernelEvent::HyperVTimer),
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
        unnamed_entry(Cause::Nmi)
    } else if text.contains("machine check")
        || text.contains("thermal")
        || text.contains("threshold")
        || text.contains("deferred error")
    {
        named_entry(Cause::MachineCheck, &row.name)
    } else if row.name.is_empty() {
        named_entry(Cause::Unattributed, &row.label)
    } else {
        named_entry(Cause::Irq, &row.name)
    }
}

/// Whether no tracepoint reports what this row of the counters counts (arch/x86: `trace_*_entry()`
/// in arch/x86/include/asm/trace/irq_vectors.h, 4.17 to 6.18; the interrupts of Hyper-V and of KVM
/// have none).
#[must_use]
pub fn has_no_tracepoint(cause: Cause, culprit: &Culprit) -> bool {
    match culprit {
        Culprit::Event { event } => *event == KernelEvent::HypervisorCallback,
        Culprit::Interrupt { name } => {
            let name = name.to_ascii_lowercase();
            cause == Cause::Irq && !["spurious", "platform"].iter().any(|word| name.contains(word))
        }
        _ => matches!(cause, Cause::Nmi | Cause::MachineCheck),
    }
}

fn event_entry(event: KernelEvent) -> RowMeaning {
    RowMeaning::Entry(event.cause(), event.into())
}

fn unnamed_entry(cause: Cause) -> RowMeaning {
    RowMeaning::Entry(cause, Culprit::Unknown)
}

fn named_entry(cause: Cause, name: &str) -> RowMeaning {
    RowMeaning::Entry(cause, Culprit::Interrupt { name: name.into() })
}

/// The meaning of a row with a number: a device interrupt, or the timer of the tick where that is
/// one (arm64, riscv, Exynos, the PIT).
fn device_row(row: &InterruptRow, irq: u32) -> RowMeaning {
    // The last word, because the name of riscv's controller, `RISC-V INTC`, is two.
    let device = row.name.split_whitespace().next_back().unwrap_or("");
    if ["arch_timer", "riscv-timer", "timer"].contains(&device) || device.starts_with("mct_tick") {
        return event_entry(KernelEvent::LocalTimer);
    }
    RowMeaning::Entry(Cause::Irq, Culprit::irq(irq, row.name.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::interrupts;

    #[test]
    fn rows_of_every_architecture_get_their_cause() {
        let local_timer = || RowMeaning::Entry(Cause::Tick, KernelEvent::LocalTimer.into());
        let irq = |irq, name| RowMeaning::Entry(Cause::Irq, Culprit::irq(irq, name));
        let unnamed = |cause| RowMeaning::Entry(cause, Culprit::Unknown);
        let named = |cause, name: &str| {
            RowMeaning::Entry(cause, Culprit::Interrupt { name: name.to_owned() })
        };
        for (line, expected) in [
            ("24: 1 IO-APIC   5-edge      ACPI:Ged", irq(24, "ACPI:Ged")),
            ("50: 1 PCI-MSI 524288-edge", irq(50, "")),
            ("49: 1 GICv3  23 Level     arm-pmu", irq(49, "arm-pmu")),
            ("10: 1 GICv3  27 Level     arch_timer", local_timer()),
            ("5: 1 RISC-V INTC  5 Edge  riscv-timer", local_timer()),
            ("153: 1 GIC  mct_tick1", local_timer()),
            ("0: 1 IO-APIC 2-edge timer", local_timer()),
            ("LOC: 1 Local timer interrupts", local_timer()),
            (
                "IPI0: 1 Timer broadcast interrupts",
                RowMeaning::Entry(Cause::Tick, KernelEvent::TimerBroadcast.into()),
            ),
            ("IPI1: 1 Rescheduling interrupts", unnamed(Cause::IpiReschedule)),
            ("IPI3: 1 Single function call interrupts", unnamed(Cause::IpiCall)),
            ("CAL: 1 Function call interrupts", unnamed(Cause::IpiCall)),
            ("IPI5: 1 IRQ work interrupts", unnamed(Cause::IpiIrqWork)),
            ("IPI5: 1 CPU backtrace", unnamed(Cause::Nmi)),
            ("TLB: 1 TLB shootdowns", RowMeaning::Shootdown),
            ("PMI: 1 Performance monitoring interrupts", RowMeaning::Detail),
            ("PMN: 1 Posted MSI notification event", RowMeaning::Detail),
            ("MCP: 1 Machine check polls", RowMeaning::Detail),
            ("DFR: 1 Deferred Error APIC interrupts", {
                named(Cause::MachineCheck, "Deferred Error APIC interrupts")
            }),
            ("NEW: 1", named(Cause::Unattributed, "NEW")),
        ] {
            let table = interrupts::parse(&format!(" CPU0\n {line}\n")).unwrap();
            assert_eq!(meaning(&table.rows[0]), expected, "{line}");
        }
    }
}
