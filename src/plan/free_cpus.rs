//! `Machine` + active shields → [`FreeCpus`]: the online CPUs that are in no shield, by NUMA node
//! and last-level cache, and what holds the others. Pure.

use crate::documents::free_cpus::{CpuHolder, CpuHolding, FreeCpus, FreeGroup, SCHEMA};
use crate::documents::machine::{CpusetGroup, Machine};
use crate::survey::exclusive_cpusets;
use cpushield_linux::CpuSet;

/// Finds the CPUs that are in no shield. `shields` are the names and CPUs of the active shields;
/// `None` when the journal cannot be read: then the cgroups of cpushield name them.
#[must_use]
pub fn find_free_cpus(machine: &Machine, shields: Option<&[(String, CpuSet)]>) -> FreeCpus {
    let shields = match shields {
        Some(known) => known.to_vec(),
        None => machine.cgroup.groups.iter().filter_map(shield_of_group).collect(),
    };
    let of_shields = shields
        .into_iter()
        .map(|(name, cpus)| CpuHolding { cpus, holder: CpuHolder::Shield { name } });
    let of_cpusets = exclusive_cpusets(machine).map(|group| {
        let holder = CpuHolder::Cpuset { path: group.path.clone() };
        CpuHolding { cpus: group.cpus.clone(), holder }
    });
    let taken: Vec<CpuHolding> =
        of_shields.chain(of_cpusets).filter(|it| !it.cpus.is_empty()).collect();
    let all: CpuSet = taken.iter().map(|it| &it.cpus).collect();
    let free = machine.topology.online.difference(&all);
    let nohz_full = machine.isolation.nohz_full.clone().unwrap_or_default();
    let isolated = [
        (machine.isolation.isolcpus_domain.clone(), CpuHolder::Isolcpus),
        (nohz_full, CpuHolder::NohzFull),
    ];
    let isolated = isolated
        .into_iter()
        .map(|(cpus, holder)| CpuHolding { cpus: cpus.intersection(&free), holder })
        .filter(|it| !it.cpus.is_empty())
        .collect();
    FreeCpus { schema: SCHEMA, groups: group_cpus(machine, &free), free, taken, isolated }
}

/// The free CPUs by node and last-level cache.
fn group_cpus(machine: &Machine, free: &CpuSet) -> Vec<FreeGroup> {
    let mut groups: Vec<FreeGroup> = Vec::new();
    for cpu in free.iter() {
        let known = machine.topology.cpu(cpu);
        let node = known.and_then(|known| known.node);
        let cache = known.and_then(|known| known.caches.iter().max_by_key(|it| it.level)).cloned();
        match groups.iter_mut().find(|group| group.node == node && group.cache == cache) {
            Some(group) => group.cpus.insert(cpu),
            None => groups.push(FreeGroup { node, cache, cpus: CpuSet::single(cpu) }),
        }
    }
    groups
}

/// The name and the CPUs of the shield that a cgroup of cpushield is.
fn shield_of_group(group: &CpusetGroup) -> Option<(String, CpuSet)> {
    let name = group.name().trim_end_matches(".slice");
    let name = match name.strip_prefix("cpushield_") {
        Some("housekeeping") => return None,
        Some(name) => name,
        None => Some(name).filter(|name| *name == "cpushield")?,
    };
    Some((name.to_owned(), group.cpus.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::machine::Cache;
    use crate::documents::machine::Cpu;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn group(path: &str, cpus: &str, exclusive: bool) -> CpusetGroup {
        CpusetGroup { path: path.to_owned(), cpus: set(cpus), exclusive, ..Default::default() }
    }

    /// Two nodes; each has an L3 cache for two CPUs and one for two others.
    fn machine() -> Machine {
        let mut machine = Machine::default();
        machine.topology.online = (0..8).collect();
        machine.topology.cpus = (0..8)
            .map(|cpu| {
                let first = cpu / 2 * 2;
                let shared = (first..first + 2).collect();
                let cache = Cache { level: 3, kind: "Unified".into(), size_kib: None, shared };
                Cpu { cpu, node: Some(cpu / 4), caches: vec![cache], ..Cpu::default() }
            })
            .collect();
        machine
    }

    #[test]
    fn free_cpus_are_in_no_shield_and_no_exclusive_cpuset() {
        let mut machine = machine();
        machine.isolation.isolcpus_domain = set("5-6");
        machine.cgroup.groups = vec![
            group("/c/cpushield_a", "2", true),
            group("/c/cpushield_housekeeping", "0-1,3-7", true),
            group("/c/docker", "0-7", false),
            group("/c/user", "7", true),
        ];
        let free = find_free_cpus(&machine, Some(&[("a".to_owned(), set("2"))]));
        assert_eq!(free.free, set("0-1,3-6"));
        let groups: Vec<(Option<usize>, String)> =
            free.groups.iter().map(|it| (it.node, it.cpus.to_string())).collect();
        let expected = [(0, "0-1"), (0, "3"), (1, "4-5"), (1, "6")];
        assert_eq!(groups, expected.map(|(node, cpus)| (Some(node), cpus.to_owned())));
        let shown = |holdings: &[CpuHolding]| -> Vec<String> {
            holdings.iter().map(|it| format!("{} {}", it.cpus, it.holder)).collect()
        };
        assert_eq!(shown(&free.taken), ["2 shield a", "7 cpuset /c/user"]);
        assert_eq!(shown(&free.isolated), ["5-6 isolcpus= on the kernel command line"]);
        // Without the journal, the cgroups name the shields.
        assert_eq!(find_free_cpus(&machine, None), free);
    }

    #[test]
    fn a_machine_that_shows_neither_nodes_nor_caches_is_one_group() {
        let mut machine = Machine::default();
        machine.topology.online = (0..3).collect();
        let free = find_free_cpus(&machine, Some(&[]));
        let expected = FreeGroup { node: None, cache: None, cpus: (0..3).collect() };
        assert_eq!((free.groups, free.taken), (vec![expected], Vec::new()));
    }
}
