//! Survey → lines: which CPUs are isolated, and by what. Pure.

use super::blocks::TextLine;
use crate::documents::machine::Machine;
use crate::survey::{exclusive_cpusets, is_of_cset};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;

/// A line for each kind of isolation.
pub(super) fn isolation_lines(machine: &Machine) -> Vec<TextLine> {
    let now = &machine.isolation;
    let kernel = now.isolated.as_ref().filter(|cpus| !cpus.is_empty());
    let domain = kernel.unwrap_or(&now.isolcpus_domain);
    let somehow = machine.isolated_somehow();
    let isolated = match somehow.is_empty() {
        true => (Some(domain), "excluded from load balancing since boot (isolcpus)"),
        false => (
            Some(&somehow),
            "reported as isolated by the kernel; the reason is unknown without the kernel command \
             line",
        ),
    };
    let facts = [
        isolated,
        (now.nohz_full.as_ref(), "the tick stops while the scheduler does not need it (nohz_full)"),
        (Some(&now.rcu_nocbs), "RCU callbacks run elsewhere (rcu_nocbs)"),
        (Some(&now.managed_irq), "managed interrupts avoid these CPUs (isolcpus=managed_irq)"),
        (now.partitions.as_ref(), "isolated by a cgroup partition"),
    ];
    let mut lines = Vec::new();
    for (cpus, what) in facts {
        if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
            lines.push(format!("CPU {cpus}: {what}"));
        }
    }
    lines.extend(held_by_others(machine));
    let online = &machine.topology.online;
    let restricted = [
        (&machine.irq_default, "new interrupts go to"),
        (&now.unbound_work, "unbound workqueues run on"),
    ];
    for (cpus, what) in restricted {
        if let Some(cpus) = cpus.as_ref().filter(|cpus| !online.is_subset(cpus)) {
            lines.push(format!("{what} CPU {cpus} only"));
        }
    }
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    if now.nohz_full.as_ref().is_none_or(CpuSet::is_empty) {
        lines.push(match machine.can_stop_tick() {
            Some(true) => match booted_nohz_full(machine) {
                Some(word) => format!(
                    "the kernel can stop the tick, but {word} is not in force (`survey --lint`)"
                ),
                None => {
                    "the kernel can stop the tick, but only when booted with nohz_full=".to_owned()
                }
            },
            Some(false) => {
                "this kernel cannot stop the tick (CONFIG_NO_HZ_FULL, since 3.10)".to_owned()
            }
            None => "it is unknown whether the kernel can stop the tick".to_owned(),
        });
    }
    lines.into_iter().map(TextLine::new).collect()
}

/// The `nohz_full=` that the running kernel was booted with, if the kernel shows that its list is
/// empty.
fn booted_nohz_full(machine: &Machine) -> Option<String> {
    machine.isolation.nohz_full.as_ref()?;
    let mut parameters = cmdline::parse(machine.kernel.cmdline.as_deref()?).into_iter();
    let list = parameters.find(|it| cmdline::same_name(&it.name, "nohz_full"))?.value?;
    Some(format!("nohz_full={list}"))
}

/// The exclusive cpusets of other programs, without those that have the boot CPU, which are for all
/// other tasks, and those that the line about partitions has.
fn held_by_others(machine: &Machine) -> Vec<String> {
    let boot = machine.topology.online.first();
    let none = CpuSet::new();
    let partitions = machine.isolation.partitions.as_ref().unwrap_or(&none);
    let sets = exclusive_cpusets(machine).filter(|group| {
        !boot.is_some_and(|cpu| group.cpus.contains(cpu)) && !group.cpus.is_subset(partitions)
    });
    sets.map(|group| {
        let owner = if is_of_cset(machine, group) { " (cset)" } else { "" };
        format!("CPU {}: in the exclusive cpuset {}{owner}", group.cpus, group.path)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nohz_full_that_is_booted_but_empty_is_not_in_force() {
        let mut machine = Machine::default();
        let last = |machine: &Machine| format!("{:?}", isolation_lines(machine).last());
        machine.isolation.nohz_full = Some(CpuSet::new());
        machine.kernel.cmdline = Some("quiet".to_owned());
        assert!(last(&machine).contains("but only when booted with nohz_full="));
        machine.kernel.cmdline = Some("quiet nohz-full=2-3".to_owned());
        assert!(last(&machine).contains("but nohz_full=2-3 is not in force"));
    }
}
