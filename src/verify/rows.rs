//! What the rows of `/proc/interrupts` mean: which count entries, which only details of another
//! row, and which cause each is. By the description where there is one, as labels differ between
//! architectures (arch/{x86,arm64,riscv,arm}/kernel, 4.17 to 6.18). Pure.

use crate::causes::Cause;
use cpushield_linux::text::interrupts::Row;

/// What a row counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// Entries into the kernel, of this cause by this culprit.
    Entry(Cause, String),
    /// TLB flushes: a part of the function-call row.
    Shootdown,
    /// A detail of other rows, or no entry at all (retries, polls out of a timer).
    Detail,
}

/// What a row counts.
#[must_use]
pub fn meaning(row: &Row) -> Meaning {
    let entry = |cause, culprit: &str| Meaning::Entry(cause, culprit.to_owned());
    if row.irq().is_some() {
        return numbered(row);
    }
    match row.label.as_str() {
        // Counted inside NMI (arch/x86/events/core.c, `perf_event_nmi_handler`).
        "PMI" => return Meaning::Detail,
        // Reads of the ICR that had to be done again, and polls out of a timer.
        "RTR" | "MCP" => return Meaning::Detail,
        "HYP" => return entry(Cause::Irq, "hypervisor callback"),
        "HVS" => return entry(Cause::Tick, "Hyper-V timer"),
        _ => {}
    }
    let text = row.name.to_ascii_lowercase();
    let has = |word| text.contains(word);
    if has("local timer") || has("timer interrupts") {
        entry(Cause::Tick, "local timer")
    } else if has("timer broadcast") {
        entry(Cause::Tick, "timer broadcast")
    } else if has("rescheduling") {
        entry(Cause::IpiReschedule, "")
    } else if has("tlb shootdown") {
        Meaning::Shootdown
    } else if has("function call") {
        entry(Cause::IpiCall, "")
    } else if has("irq work") {
        entry(Cause::IpiIrqWork, "")
    } else if has("non-maskable") || has("backtrace") {
        entry(Cause::Nmi, "")
    } else if has("machine check") || has("thermal") || has("threshold") || has("deferred error") {
        entry(Cause::MachineCheck, &row.name)
    } else if row.name.is_empty() {
        entry(Cause::Unattributed, &row.label)
    } else {
        entry(Cause::Irq, &row.name)
    }
}

/// A device interrupt, or the timer of the tick where that is one (arm64, riscv, Exynos, the PIT).
fn numbered(row: &Row) -> Meaning {
    // The last word, because the name of riscv's controller, `RISC-V INTC`, is two.
    let device = row.name.split_whitespace().next_back().unwrap_or("");
    if ["arch_timer", "riscv-timer", "timer"].contains(&device) || device.starts_with("mct_tick") {
        return Meaning::Entry(Cause::Tick, "local timer".to_owned());
    }
    let culprit = format!("IRQ {} {}", row.label, row.name);
    Meaning::Entry(Cause::Irq, culprit.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::interrupts;

    #[test]
    fn rows_of_every_architecture_get_their_cause() {
        let entry = |cause, culprit: &str| Meaning::Entry(cause, culprit.to_owned());
        for (line, expected) in [
            ("24: 1 IO-APIC   5-edge      ACPI:Ged", entry(Cause::Irq, "IRQ 24 ACPI:Ged")),
            ("50: 1 PCI-MSI 524288-edge", entry(Cause::Irq, "IRQ 50")),
            ("49: 1 GICv3  23 Level     arm-pmu", entry(Cause::Irq, "IRQ 49 arm-pmu")),
            ("10: 1 GICv3  27 Level     arch_timer", entry(Cause::Tick, "local timer")),
            ("5: 1 RISC-V INTC  5 Edge  riscv-timer", entry(Cause::Tick, "local timer")),
            ("153: 1 GIC  mct_tick1", entry(Cause::Tick, "local timer")),
            ("0: 1 IO-APIC 2-edge timer", entry(Cause::Tick, "local timer")),
            ("LOC: 1 Local timer interrupts", entry(Cause::Tick, "local timer")),
            ("IPI0: 1 Timer broadcast interrupts", entry(Cause::Tick, "timer broadcast")),
            ("IPI1: 1 Rescheduling interrupts", entry(Cause::IpiReschedule, "")),
            ("IPI3: 1 Single function call interrupts", entry(Cause::IpiCall, "")),
            ("CAL: 1 Function call interrupts", entry(Cause::IpiCall, "")),
            ("IPI5: 1 IRQ work interrupts", entry(Cause::IpiIrqWork, "")),
            ("IPI5: 1 CPU backtrace", entry(Cause::Nmi, "")),
            ("TLB: 1 TLB shootdowns", Meaning::Shootdown),
            ("PMI: 1 Performance monitoring interrupts", Meaning::Detail),
            ("MCP: 1 Machine check polls", Meaning::Detail),
            ("DFR: 1 Deferred Error APIC interrupts", {
                entry(Cause::MachineCheck, "Deferred Error APIC interrupts")
            }),
            ("NEW: 1", entry(Cause::Unattributed, "NEW")),
        ] {
            let table = interrupts::parse(&format!(" CPU0\n {line}\n")).unwrap();
            assert_eq!(meaning(&table.rows[0]), expected, "{line}");
        }
    }
}
