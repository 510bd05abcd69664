//! `irqbalance`: bans the shielded CPUs in the daemon. Pure.

use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;

pub(super) const IRQBALANCE: Tunable = Tunable {
    name: "irqbalance",
    summary: "ban the irqbalance daemon from the shielded CPUs",
    page: "\
The daemon irqbalance checks the interrupt load, by default every ten seconds, and moves interrupts
between CPUs. cpushield asks it over its socket not to use the shielded CPUs. cpushield neither
stops the daemon nor changes its configuration files. Undo lifts the ban. If the daemon is
restarted, it loses the ban, and `cpushield status` shows the drift. The daemon applies a request at
its next check. So an apply right after an undo may wait for the interval of the checks and two more
seconds.

Cost: irqbalance spreads the interrupts over fewer CPUs.

Source: Irqbalance/irqbalance: irqbalance.c (`settings cpus`, 1.2 to 1.9.5), irqbalance(1).",
    reads: &[],
    removes: &[Cause::Irq],
    risk: Risk::None,
    wants,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    let mut tasks = machine.tasks.iter().map(|placed| &placed.task);
    if !tasks.any(|task| task.comm == "irqbalance" && !task.kthread) {
        return WantedChanges::Nothing(InapplicableReason::NoIrqbalance);
    }
    let change = Change::BanFromIrqbalance { cpus: shield.cpus.clone() };
    WantedChanges::Changes(vec![WantedChange::new(
        change,
        "irqbalance would otherwise move interrupts back to the shield",
    )])
}
