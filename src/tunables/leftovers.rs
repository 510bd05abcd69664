//! Finds the timers that were armed on CPUs before they are shielded. Pure.

use crate::documents::inapplicable::InapplicableReason;
use crate::documents::leftovers::Leftovers;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use std::collections::BTreeMap;

/// Timers that are not counted: those of the tick, and of sleeping tasks, which follow the task.
const IGNORED: &[&str] = &["tick_nohz_handler", "tick_sched_timer", "hrtimer_wakeup", "hrtick"];

/// Collects what the survey found on the CPUs of a shield. `obstacle` is why the CPUs cannot go
/// offline and online.
pub(super) fn collect(
    machine: &Machine,
    shield: &Shield,
    obstacle: Option<InapplicableReason>,
) -> Leftovers {
    let seen = machine.timers.as_ref().map(|timers| {
        let mut seen = BTreeMap::new();
        let on_shield = timers.iter().filter(|(cpu, _)| shield.cpus.contains(**cpu));
        for (name, count) in on_shield.flat_map(|(_, functions)| functions) {
            if !IGNORED.contains(&name.as_str()) {
                *seen.entry(name.clone()).or_default() += count;
            }
        }
        seen
    });
    Leftovers { cpus: shield.cpus.clone(), seen, obstacle, others: Vec::new() }
}
