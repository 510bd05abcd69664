//! What the machine says about single CPUs and nodes, as the choice needs it. Pure.

use crate::survey::{CoreKind, IrqMovability, Machine};
use cpushield_linux::CpuSet;

/// The CPU that booted the machine: 0, or the lowest one in use where 0 is not (deconfigured cores
/// of a Power machine).
pub(super) fn boot_cpu(machine: &Machine) -> Option<usize> {
    machine.topology.online.first()
}

/// A node that has CPUs, all of which are in the set.
pub(super) fn used_up_node(machine: &Machine, cpus: &CpuSet) -> Option<(usize, CpuSet)> {
    let online = &machine.topology.online;
    let nodes = machine.topology.nodes.iter().map(|node| (node.node, node.cpus.and(online)));
    nodes.into_iter().find(|(_, all)| !all.is_empty() && all.is_subset(cpus))
}

/// The nodes of the CPUs that have memory, else others with a warning.
pub(super) fn mems(machine: &Machine, cpus: &CpuSet) -> (CpuSet, Option<String>) {
    let nodes = &machine.topology.nodes;
    let here = nodes.iter().filter(|node| node.cpus.intersects(cpus));
    let own: CpuSet = here.clone().map(|node| node.node).collect();
    let local: CpuSet =
        here.filter(|node| node.memory_kib != Some(0)).map(|node| node.node).collect();
    let usable = &machine.cgroup.mems;
    let found = if usable.is_empty() { local.clone() } else { local.and(usable) };
    if !found.is_empty() {
        return (found, None);
    }
    let others = || nodes.iter().filter(|node| node.memory_kib != Some(0)).map(|node| node.node);
    let mems = match (usable.is_empty(), others().next()) {
        (false, _) => usable.clone(),
        (true, Some(_)) => others().collect(),
        (true, None) => CpuSet::one(0),
    };
    let why = match (own.is_empty(), local.is_empty()) {
        // A kernel without NUMA has node 0 alone.
        (true, _) if nodes.is_empty() => return (mems, None),
        (true, _) => format!("no node is known for CPU {cpus}; the shield uses node {mems}"),
        (false, true) => format!("node {own} of the shield has no memory; it uses node {mems}"),
        (false, false) => {
            format!("cpusets here may not use node {local} of the shield; it uses node {mems}")
        }
    };
    (mems, Some(format!("{why}, whose memory is slower from there")))
}

/// How many interrupts that cannot be moved are handled on these CPUs.
pub(super) fn immovable_on(machine: &Machine, cpus: &CpuSet) -> usize {
    let stays = |irq: &&crate::survey::Irq| {
        let place = match (&irq.effective, &irq.affinity) {
            (Some(effective), _) if !effective.is_empty() => Some(effective),
            (_, Some(affinity)) if affinity.len() == 1 => Some(affinity),
            _ => None,
        };
        matches!(irq.movable, IrqMovability::No(_))
            && !irq.actions.is_empty()
            && place.is_some_and(|place| place.intersects(cpus))
    };
    machine.irqs.iter().filter(stays).count()
}

/// CPUs that were prepared at boot: the tick can stop there, or the scheduler leaves them alone.
pub(super) fn prepared(machine: &Machine) -> CpuSet {
    let isolation = &machine.isolation;
    let none = CpuSet::new();
    let nohz = isolation.nohz_full.as_ref().unwrap_or(&none);
    let isolated = isolation.isolcpus_domain.union(&machine.isolated_somehow());
    if nohz.is_empty() { isolated } else { nohz.clone() }
}

/// CPUs that someone else's cpuset holds alone.
pub(super) fn held_by_others(machine: &Machine, group: &str) -> CpuSet {
    let ours = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with(group));
    machine
        .cgroup
        .groups
        .iter()
        .filter(|other| !ours(&other.path))
        .filter(|other| {
            let partition = other.partition.as_deref().unwrap_or("member");
            other.exclusive || (partition != "member" && !partition.contains("invalid"))
        })
        .fold(CpuSet::new(), |all, other| {
            all.union(other.effective.as_ref().unwrap_or(&other.cpus)).union(&other.cpus)
        })
}

/// 0 for the strongest CPUs of the machine, more for weaker ones.
pub(super) fn weakness(machine: &Machine, cpus: &CpuSet) -> u32 {
    let all = &machine.topology.cpus;
    let best = all.iter().filter_map(|cpu| cpu.capacity).max();
    let of = |cpu: &crate::survey::Cpu| match (cpu.kind, cpu.capacity, best) {
        (Some(CoreKind::Performance), ..) => 0,
        (Some(CoreKind::Efficiency), ..) => 1,
        (None, Some(capacity), Some(best)) => best.saturating_sub(capacity),
        (None, ..) => 0,
    };
    all.iter().filter(|cpu| cpus.contains(cpu.cpu)).map(of).max().unwrap_or(0)
}
