//! Facts about single CPUs and nodes that the choice needs. Pure.

use crate::documents::machine::{CgroupMode, CoreKind, CpusetGroup, Irq, IrqMovability, Machine};
use crate::documents::plan::{BootPreparation, ChoiceWarning, RemoteMemoryReason};
use crate::survey::exclusive_cpusets;
use cpushield_linux::CpuSet;

/// The nodes with CPUs of the set that keep no housekeeping CPU, and their online CPUs. `others`
/// are the CPUs of the other shields.
pub(super) fn exhausted_nodes<'a>(
    machine: &'a Machine,
    cpus: &'a CpuSet,
    others: &CpuSet,
) -> impl Iterator<Item = (usize, CpuSet)> + 'a {
    let shielded = cpus.union(others);
    online_of_nodes(machine)
        .filter(move |(_, all)| all.intersects(cpus) && all.is_subset(&shielded))
}

/// The nodes with online CPUs, and these CPUs.
pub(super) fn online_of_nodes(machine: &Machine) -> impl Iterator<Item = (usize, CpuSet)> + '_ {
    let topology = &machine.topology;
    let nodes = topology.nodes.iter();
    nodes
        .map(|node| (node.node, node.cpus.intersection(&topology.online)))
        .filter(|(_, cpus)| !cpus.is_empty())
}

/// Chooses the memory nodes: those of the CPUs, or other nodes and a warning if these have no
/// usable memory.
pub(super) fn choose_mems(machine: &Machine, cpus: &CpuSet) -> (CpuSet, Option<ChoiceWarning>) {
    let nodes = &machine.topology.nodes;
    let shielded = nodes.iter().filter(|node| node.cpus.intersects(cpus));
    let own: CpuSet = shielded.clone().map(|node| node.node).collect();
    let with_memory: CpuSet =
        nodes.iter().filter(|node| node.memory_kib != Some(0)).map(|node| node.node).collect();
    let local = own.intersection(&with_memory);
    let usable = &machine.cgroup.mems;
    let found = if usable.is_empty() { local.clone() } else { local.intersection(usable) };
    if !found.is_empty() {
        return (found, None);
    }
    let mems = match (usable.is_empty(), with_memory.is_empty()) {
        (false, _) => usable.clone(),
        (true, false) => with_memory,
        (true, true) => CpuSet::single(0),
    };
    let why = match (own.is_empty(), local.is_empty()) {
        // A kernel without NUMA has only node 0.
        (true, _) if nodes.is_empty() => return (mems, None),
        (true, _) => RemoteMemoryReason::NodeUnknown { cpus: cpus.clone() },
        (false, true) => RemoteMemoryReason::NoMemory { nodes: own },
        (false, false) => RemoteMemoryReason::NotAllowed { nodes: local },
    };
    (mems.clone(), Some(ChoiceWarning::RemoteMemory { mems, why }))
}

/// Counts the immovable interrupts that are handled on these CPUs.
pub(super) fn count_immovable_irqs(machine: &Machine, cpus: &CpuSet) -> usize {
    machine.irqs.iter().filter(|irq| is_immovable_on(irq, cpus)).count()
}

fn is_immovable_on(irq: &Irq, cpus: &CpuSet) -> bool {
    let handled_on = match (&irq.effective, &irq.affinity) {
        (Some(effective), _) if !effective.is_empty() => Some(effective),
        (_, Some(affinity)) if affinity.len() == 1 => Some(affinity),
        _ => None,
    };
    matches!(irq.movable, IrqMovability::No(_))
        && !irq.actions.is_empty()
        && handled_on.is_some_and(|handled_on| handled_on.intersects(cpus))
}

/// CPUs that were prepared at boot: the tick can stop there, or they are not load-balanced and can
/// be a partition.
pub(super) fn cpus_prepared_at_boot(machine: &Machine) -> CpuSet {
    let isolation = &machine.isolation;
    match boot_preparation(machine) {
        BootPreparation::NohzFull => isolation.nohz_full.clone().unwrap_or_default(),
        BootPreparation::Unknown => machine.isolated_somehow(),
        BootPreparation::Isolcpus => {
            isolation.isolcpus_domain.difference(&cpus_without_partition(machine))
        }
    }
}

/// What prepared them.
pub(super) fn boot_preparation(machine: &Machine) -> BootPreparation {
    if machine.isolation.nohz_full.as_ref().is_some_and(|cpus| !cpus.is_empty()) {
        BootPreparation::NohzFull
    } else if machine.isolated_somehow().is_empty() {
        BootPreparation::Isolcpus
    } else {
        BootPreparation::Unknown
    }
}

/// The CPUs of `isolcpus=` that this kernel cannot make a partition, as far as is known.
pub(super) fn cpus_without_partition(machine: &Machine) -> CpuSet {
    match machine.may_refuse_partition(machine.kernel.version) {
        true => machine.isolation.isolcpus_domain.clone(),
        false => CpuSet::new(),
    }
}

/// The CPUs that the user or another program has isolated: nothing is moved there.
pub(super) fn closed_cpus(machine: &Machine) -> CpuSet {
    let boot = machine.topology.boot_cpu();
    // cset keeps the housekeeping programs in an exclusive set too, together with the boot CPU.
    let of_sets = exclusive_cpusets(machine).map(|group| match machine.cgroup.mode {
        // The list of a partition may have more CPUs than it has for itself.
        CgroupMode::V2 => group.effective.as_ref().unwrap_or(&group.cpus),
        _ => &group.cpus,
    });
    let of_sets = of_sets.filter(|cpus| !boot.is_some_and(|cpu| cpus.contains(cpu)));
    let of_sets: CpuSet = of_sets.collect();
    let isolated = machine.isolation.isolcpus_domain.union(&machine.isolated_somehow());
    of_sets.union(&isolated).intersection(&machine.topology.online)
}

/// The online CPUs whose tick can stop.
pub(super) fn tickless_cpus(machine: &Machine) -> CpuSet {
    let tickless = machine.isolation.nohz_full.clone().unwrap_or_default();
    tickless.intersection(&machine.topology.online)
}

/// The CPUs of a group, also those that it gave to a partition.
pub(super) fn cpus_of_group(group: &CpusetGroup) -> impl Iterator<Item = &CpuSet> {
    group.effective.iter().chain([&group.cpus])
}

/// The cpusets that keep CPUs from a shield: those of other programs that have more than the core
/// of the boot CPU.
pub(super) fn cpusets_in_the_way(machine: &Machine) -> Vec<&CpusetGroup> {
    let topology = &machine.topology;
    let boot = topology.boot_cpu().and_then(|cpu| topology.cpu(cpu));
    let core = boot.map(|boot| boot.siblings.clone()).unwrap_or_default();
    let is_in_the_way = |group: &&CpusetGroup| !group.cpus.difference(&core).is_empty();
    exclusive_cpusets(machine).filter(is_in_the_way).collect()
}

/// How much slower the slowest of these CPUs is: 0 for the fastest kind of core in the machine.
pub(super) fn weakness(machine: &Machine, cpus: &CpuSet) -> u32 {
    let all = &machine.topology.cpus;
    let best = all.iter().filter_map(|cpu| cpu.capacity).max();
    let chosen = all.iter().filter(|cpu| cpus.contains(cpu.cpu));
    let weaknesses = chosen.map(|cpu| match (cpu.kind, cpu.capacity, best) {
        (Some(CoreKind::Performance), ..) => 0,
        (Some(CoreKind::Efficiency), ..) => 1,
        (None, Some(capacity), Some(best)) => best.saturating_sub(capacity),
        (None, ..) => 0,
    });
    weaknesses.max().unwrap_or(0)
}
