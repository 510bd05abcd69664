//! CPUs that belong together: cores, and what shares a cache. Pure.

use crate::survey::{Cpu, Topology};
use cpushield_linux::CpuSet;

/// What CPUs can have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuGroup {
    /// Nothing: each CPU alone.
    Thread,
    /// A core.
    Core,
    /// A level-2 cache.
    L2,
    /// A level-3 cache.
    L3,
}

/// The online CPUs, parted into groups, in the order of their first CPU. Sets that overlap are one
/// group: some firmware describes siblings from one side only.
#[must_use]
pub fn groups(topology: &Topology, by: CpuGroup) -> Vec<CpuSet> {
    let mut parts: Vec<CpuSet> = Vec::new();
    for cpu in topology.cpus.iter().filter(|cpu| topology.online.contains(cpu.cpu)) {
        let mut mine = with(cpu, by).and(&topology.online);
        mine.insert(cpu.cpu);
        if by == CpuGroup::Thread {
            mine = CpuSet::one(cpu.cpu);
        }
        parts.retain(|part| {
            let apart = !part.intersects(&mine);
            if !apart {
                mine = mine.union(part);
            }
            apart
        });
        parts.push(mine);
    }
    // An online CPU that the survey could not describe stands alone.
    let described = joined(parts.iter());
    parts.extend(topology.online.minus(&described).iter().map(CpuSet::one));
    parts.sort_by_key(CpuSet::first);
    parts
}

/// The CPUs one CPU says it shares this with; a shared cache always holds the whole core.
fn with(cpu: &Cpu, by: CpuGroup) -> CpuSet {
    let cache = |level| cpu.sharing(level).cloned().unwrap_or_default();
    match by {
        CpuGroup::Thread => CpuSet::new(),
        CpuGroup::Core => cpu.siblings.clone(),
        CpuGroup::L2 => cpu.siblings.union(&cache(2)),
        CpuGroup::L3 => cpu.siblings.union(&cache(2)).union(&cache(3)),
    }
}

/// The union of sets.
#[must_use]
pub fn joined<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> CpuSet {
    sets.fold(CpuSet::new(), |all, set| all.union(set))
}

/// The groups that a set touches, as one set.
#[must_use]
pub fn spread(groups: &[CpuSet], cpus: &CpuSet) -> CpuSet {
    joined(groups.iter().filter(|group| group.intersects(cpus)))
}

/// `CPU 3`, `CPUs 2-3`.
#[must_use]
pub fn named(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {cpus}") }
}
