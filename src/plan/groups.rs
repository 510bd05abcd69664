//! Groups of CPUs that share a core or a cache. Pure.

use crate::documents::machine::{Cpu, Topology};
use cpushield_linux::CpuSet;

/// What the CPUs of a group share.
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

/// The online CPUs in groups, ordered by the first CPU of each. Overlapping sets are merged,
/// because some firmware describes siblings from one side only.
#[must_use]
pub fn groups(topology: &Topology, by: CpuGroup) -> Vec<CpuSet> {
    let mut parts: Vec<CpuSet> = Vec::new();
    for cpu in topology.cpus.iter().filter(|cpu| topology.online.contains(cpu.cpu)) {
        let mut group = sharing_cpus(cpu, by).intersection(&topology.online);
        group.insert(cpu.cpu);
        if by == CpuGroup::Thread {
            group = CpuSet::single(cpu.cpu);
        }
        parts.retain(|part| {
            let disjoint = !part.intersects(&group);
            if !disjoint {
                group = group.union(part);
            }
            disjoint
        });
        parts.push(group);
    }
    // An online CPU that the survey could not describe is a group by itself.
    let described: CpuSet = parts.iter().collect();
    parts.extend(topology.online.difference(&described).iter().map(CpuSet::single));
    parts.sort_by_key(CpuSet::first);
    parts
}

/// The CPUs that share this with a CPU. The siblings of a core share every cache.
fn sharing_cpus(cpu: &Cpu, by: CpuGroup) -> CpuSet {
    let levels: &[u32] = match by {
        CpuGroup::Thread => return CpuSet::new(),
        CpuGroup::Core => &[],
        CpuGroup::L2 => &[2],
        CpuGroup::L3 => &[2, 3],
    };
    let caches = levels.iter().filter_map(|level| cpu.sharing(*level));
    caches.fold(cpu.siblings.clone(), |all, shared| all.union(shared))
}

/// The union of the groups that share a CPU with a set.
#[must_use]
pub fn touched_groups(groups: &[CpuSet], cpus: &CpuSet) -> CpuSet {
    groups.iter().filter(|group| group.intersects(cpus)).collect()
}
