//! `irqbalance`: the daemon is told to leave the shield alone. Pure.

use super::{Tunable, WantedChange, WantedChanges};
use crate::causes::Cause;
use crate::change::{Change, Risk};
use crate::plan::Shield;
use crate::survey::Machine;

#[derive(Debug)]
pub(super) struct Irqbalance;

const PAGE: &str = "\
The daemon irqbalance looks at the load of interrupts every ten seconds and moves them about.
cpushield asks it over its socket not to use the shielded CPUs; it is neither stopped nor
reconfigured. Undo takes that back. A daemon that is restarted meanwhile has forgotten it
(`cpushield status` shows the drift).

Cost: none.

Source: Irqbalance/irqbalance: irqbalance.c (`settings cpus`), irqbalance(1).";

impl Tunable for Irqbalance {
    fn name(&self) -> &'static str {
        "irqbalance"
    }

    fn summary(&self) -> &'static str {
        "tell the daemon irqbalance to leave the shielded CPUs alone"
    }

    fn page(&self) -> &'static str {
        PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::Irq]
    }

    fn risk(&self) -> Risk {
        Risk::None
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        let runs = |comm: &str| comm == "irqbalance";
        if !machine.tasks.iter().any(|placed| runs(&placed.task.comm) && !placed.task.kthread) {
            return WantedChanges::Nothing("irqbalance is not running".to_owned());
        }
        let change = Change::BanFromIrqbalance { cpus: shield.cpus.clone() };
        WantedChanges::Changes(vec![WantedChange::new(
            change,
            "it would move interrupts back to the shield",
        )])
    }
}
