//! Chooses CPUs by topology: ranks units (cores, or whole caches) and takes the best. Pure.

use super::choice_notes::ChoiceNotes;
use super::groups::{CpuGroup, groups, touched_groups};
use super::node_refusal::NodeRefusal;
use super::refused::PlanRefusal;
use super::siblings::{SplitCpus, working_siblings};
use super::sites::{
    boot_preparation, count_immovable_irqs, cpus_of_group, cpus_prepared_at_boot,
    cpusets_in_the_way, exhausted_nodes, online_of_nodes, weakness,
};
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, ChoiceReason, ChoiceWarning};
use crate::policy::{ShareLevel, ShieldRequest, Siblings};
use crate::survey::{exclusive_cpusets, is_of_cset};
use cpushield_linux::CpuSet;
use std::cmp::Reverse;

/// By default a level-2 cluster is taken whole if it has at most this many cores, or at most a
/// quarter of the machine, and never more than half of it. Modules of four small cores and clusters
/// of phones are larger, so taking them by default would cost too many CPUs.
const CLUSTER_CORES: usize = 2;

/// The rank of a unit, best first: outside the active version of the shield, preparation at boot,
/// weakness, immovable interrupts. The last is not known where a shield is active, and a repeated
/// request must not move a shield.
type UnitRank = (bool, UnitPreparation, u32, usize);

/// Which CPUs of a unit were prepared at boot, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnitPreparation {
    /// All of them, or no CPU of the machine.
    Whole,
    /// Those that programs run on.
    Working,
    /// Others, or none.
    Lacking,
}

struct CpuPicker<'a> {
    machine: &'a Machine,
    request: &'a ShieldRequest,
    cores: Vec<CpuSet>,
    clusters: Vec<CpuSet>,
    prepared: CpuSet,
    /// The CPUs of the active version of this shield; empty if there is none.
    active: &'a CpuSet,
    /// The CPUs that are taken: those of the other shields at least.
    others: CpuSet,
}

/// Chooses CPUs by topology, outside of those that are taken.
pub(super) fn choose_by_topology(
    machine: &Machine,
    request: &ShieldRequest,
    taken: &CpuSet,
    live: &ActiveShields,
    notes: &mut ChoiceNotes,
) -> Result<SplitCpus, PlanRefusal> {
    let has_halves = request.siblings == Some(Siblings::Share);
    let picker = CpuPicker {
        machine,
        request,
        cores: groups(
            &machine.topology,
            if has_halves { CpuGroup::Thread } else { CpuGroup::Core },
        ),
        clusters: groups(&machine.topology, CpuGroup::L2),
        prepared: cpus_prepared_at_boot(machine),
        active: &live.replaced_cpus,
        others: taken.clone(),
    };
    if request.whole_node && (request.count.is_some() || request.share.is_some()) {
        return Err(NodeRefusal::WholeAndPart.into());
    }
    if let Some(level @ (ShareLevel::L2 | ShareLevel::L3)) = request.share {
        check_cache_shown(machine, level)?;
    }
    let (allowed, place) = picker.find_allowed(notes)?;
    let allowed = allowed.difference(&picker.others);
    let units = picker.rank_units(&allowed);
    if let (true, Some(level @ (ShareLevel::L2 | ShareLevel::L3))) =
        (units.is_empty(), request.share)
    {
        return Err(PlanRefusal::NoOwnCache { level: cache_level(level), place });
    }
    if request.whole_node && units.is_empty() {
        let refusal = picker.boot_node().unwrap_or(NodeRefusal::NoneWhole { place });
        return Err(refusal.into());
    }
    let count = request.count.unwrap_or(1).max(1);
    let taken = match request.count {
        None if request.whole_node => units.iter().take(1).cloned().collect(),
        None if request.share.is_none() && !has_halves => picker.take_one(&units, notes),
        _ => picker.take_from_one_node(&units, count, notes),
    };
    let cpus: CpuSet = taken.iter().collect();
    let work = picker.working_cpus(&cpus);
    if work.len() < count {
        let sets = cpusets_in_the_way(machine);
        if !sets.is_empty() {
            let of_cset = sets.iter().any(|group| is_of_cset(machine, group));
            let sets = sets.into_iter().map(|group| group.path.clone()).collect();
            return Err(PlanRefusal::HeldByCpusets { count, possible: work.len(), sets, of_cset });
        }
        let halves = !has_halves && picker.cores.iter().any(|core| core.len() > 1);
        return Err(PlanRefusal::TooMany {
            count,
            possible: work.len(),
            place,
            halves,
            several_nodes: online_of_nodes(machine).count() > 1,
            whole_node: picker.is_whole_free_node(&allowed, count),
        });
    }
    picker.explain(&units, &cpus, &work, notes);
    Ok(SplitCpus { idle: cpus.difference(&work), cpus })
}

fn cache_level(share: ShareLevel) -> u32 {
    if share == ShareLevel::L3 { 3 } else { 2 }
}

/// Refuses to choose by caches that the machine does not show. Without a level-3 cache, level 2
/// counts instead.
fn check_cache_shown(machine: &Machine, share: ShareLevel) -> Result<(), PlanRefusal> {
    match share {
        ShareLevel::L3 if shows_cache(machine, 3) || shows_cache(machine, 2) => Ok(()),
        ShareLevel::L2 if shows_cache(machine, 2) => Ok(()),
        ShareLevel::L2 | ShareLevel::L3 => {
            Err(PlanRefusal::NoCacheShown { level: cache_level(share) })
        }
        ShareLevel::Core => Ok(()),
    }
}

fn shows_cache(machine: &Machine, level: u32) -> bool {
    machine.topology.cpus.iter().any(|cpu| cpu.sharing(level).is_some())
}

impl CpuPicker<'_> {
    /// The CPUs that may be chosen, and the text for that place (` on node 1`).
    fn find_allowed(&self, notes: &mut ChoiceNotes) -> Result<(CpuSet, String), PlanRefusal> {
        let topology = &self.machine.topology;
        let mut allowed = topology.online.clone();
        let mut place = String::new();
        if let Some(node) = self.request.node {
            let nodes: Vec<usize> =
                topology.nodes.iter().filter(|n| !n.cpus.is_empty()).map(|n| n.node).collect();
            let found = topology.nodes.iter().find(|n| n.node == node && !n.cpus.is_empty());
            allowed = match found {
                Some(found) => allowed.intersection(&found.cpus),
                None => return Err(NodeRefusal::NoSuch { node, nodes }.into()),
            };
            place = format!(" on node {node}");
        }
        if let Some(name) = &self.request.near {
            let devices = &self.machine.devices;
            let Some(device) = devices.iter().find(|device| device.name == *name) else {
                let known = devices.iter().map(|device| device.name.clone()).collect();
                return Err(PlanRefusal::NoSuchDevice { name: name.clone(), known });
            };
            let local = device.local.intersection(&topology.online);
            let placed = device.node.is_some() || !device.local.is_empty();
            if local.is_empty() && placed {
                let (device, node, local) = (name.clone(), device.node, device.local.clone());
                notes.warnings.push(ChoiceWarning::NoneNear { device, node, local });
            } else if local.is_empty() || local == topology.online {
                notes.add_reason(ChoiceReason::EquallyNear { device: name.clone() });
            } else {
                allowed = allowed.intersection(&local);
                let device = name.clone();
                notes.add_reason(ChoiceReason::NearDevice { device, cpus: local });
                place.push_str(&format!(" near {name}"));
            }
        }
        for group in exclusive_cpusets(self.machine) {
            let held = cpus_of_group(group).collect::<CpuSet>().intersection(&allowed);
            if !held.is_empty() {
                allowed = allowed.difference(&held);
                let group = group.path.clone();
                notes.add_reason(ChoiceReason::HeldByCpuset { cpus: held, group });
            }
        }
        Ok((allowed, place))
    }

    /// The units that may be taken, best first.
    fn rank_units(&self, allowed: &CpuSet) -> Vec<CpuSet> {
        let topology = &self.machine.topology;
        let mut units = match self.request.share {
            None if self.request.whole_node => {
                online_of_nodes(self.machine).map(|(_, cpus)| cpus).collect()
            }
            Some(ShareLevel::L2) => self.clusters.clone(),
            Some(ShareLevel::L3) => groups(topology, CpuGroup::L3),
            Some(ShareLevel::Core) | None => self.cores.clone(),
        };
        let boot = self.machine.topology.boot_cpu();
        units.retain(|unit| {
            unit.is_subset(allowed)
                && !boot.is_some_and(|cpu| unit.contains(cpu))
                && !self.takes_too_much(unit)
        });
        units.sort_by_key(|unit| (self.rank(unit), Reverse(unit.last())));
        units
    }

    /// The refusal to shield the boot CPU's node as a whole, if it is requested or the only one.
    fn boot_node(&self) -> Option<NodeRefusal> {
        let boot = self.machine.topology.boot_cpu()?;
        let (node, cpus) = online_of_nodes(self.machine).find(|(_, cpus)| cpus.contains(boot))?;
        let only = online_of_nodes(self.machine).count() == 1;
        let cpus = (!only).then_some(cpus);
        (only || self.request.node == Some(node)).then_some(NodeRefusal::BootNode { node, cpus })
    }

    /// Whether these CPUs are a node without the boot CPU that has as many CPUs for programs.
    fn is_whole_free_node(&self, allowed: &CpuSet, count: usize) -> bool {
        let node = online_of_nodes(self.machine).find(|(_, cpus)| cpus == allowed);
        let boot = self.machine.topology.boot_cpu();
        node.is_some_and(|(_, cpus)| !boot.is_some_and(|boot| cpus.contains(boot)))
            && self.working_cpus(allowed).len() >= count
    }

    /// Whether a node would keep no housekeeping CPU, and that is not requested.
    fn takes_too_much(&self, cpus: &CpuSet) -> bool {
        let mut exhausted = exhausted_nodes(self.machine, cpus, &self.others);
        !self.request.whole_node && exhausted.next().is_some()
    }

    fn rank(&self, unit: &CpuSet) -> UnitRank {
        let inactive = !unit.intersects(self.active);
        let irqs = count_immovable_irqs(self.machine, unit);
        (inactive, self.preparation(unit), weakness(self.machine, unit), irqs)
    }

    fn preparation(&self, unit: &CpuSet) -> UnitPreparation {
        if self.prepared.is_empty() || unit.is_subset(&self.prepared) {
            UnitPreparation::Whole
        } else if self.working_cpus(unit).is_subset(&self.prepared) {
            UnitPreparation::Working
        } else {
            UnitPreparation::Lacking
        }
    }

    /// The CPUs that programs run on: the first sibling of each core, or all of them.
    fn working_cpus(&self, cpus: &CpuSet) -> CpuSet {
        match self.request.siblings {
            Some(Siblings::Use) => cpus.clone(),
            Some(Siblings::Idle | Siblings::Offline | Siblings::Share) | None => {
                working_siblings(&self.cores, cpus, &self.prepared)
            }
        }
    }

    /// One small level-2 cluster of the best rank, or else the best core.
    fn take_one(&self, units: &[CpuSet], notes: &mut ChoiceNotes) -> Vec<CpuSet> {
        let Some(best) = units.first() else { return Vec::new() };
        let rank = self.rank(best);
        let online = self.machine.topology.online.len();
        let same: Vec<&CpuSet> = units.iter().filter(|unit| self.rank(unit) == rank).collect();
        let cluster = same.iter().find_map(|unit| {
            let cluster = touched_groups(&self.clusters, unit);
            let cores = working_siblings(&self.cores, &cluster, &self.prepared).len();
            let small = cores <= CLUSTER_CORES || cluster.len() * 4 <= online;
            let free = cluster
                == same.iter().copied().filter(|u| u.is_subset(&cluster)).collect::<CpuSet>();
            let fits = small && free && cluster.len() * 2 <= online;
            (fits && !self.takes_too_much(&cluster)).then_some(cluster)
        });
        match cluster {
            Some(cluster) if cluster.len() > best.len() => {
                notes.add_reason(ChoiceReason::OwnCache { cpus: cluster.clone() });
                vec![cluster]
            }
            Some(cluster) => vec![cluster],
            None => vec![best.clone()],
        }
    }

    /// Units with `count` working CPUs in total, inside one node if possible.
    fn take_from_one_node(
        &self,
        units: &[CpuSet],
        count: usize,
        notes: &mut ChoiceNotes,
    ) -> Vec<CpuSet> {
        let nodes = &self.machine.topology.nodes;
        let mut order: Vec<&CpuSet> = Vec::new();
        for unit in units {
            let node = nodes.iter().map(|node| &node.cpus).find(|cpus| unit.is_subset(cpus));
            order.extend(node.filter(|node| !order.contains(node)));
        }
        // Prepared CPUs come before the node, except that a shield keeps its active CPUs.
        let prepared: Vec<CpuSet> = match self.prepared.is_empty() || !self.active.is_empty() {
            true => Vec::new(),
            false => {
                let is_whole = |unit: &&CpuSet| self.preparation(unit) == UnitPreparation::Whole;
                units.iter().filter(is_whole).cloned().collect()
            }
        };
        for units in [prepared.as_slice(), units] {
            for node in &order {
                let local = units.iter().filter(|unit| unit.is_subset(node)).cloned().collect();
                let taken = self.take_units(local, count);
                if self.working_cpus(&taken.iter().collect()).len() >= count {
                    return taken;
                }
            }
        }
        let taken = self.take_units(units.to_vec(), count);
        if order.len() > 1 && self.working_cpus(&taken.iter().collect()).len() >= count {
            notes.warnings.push(ChoiceWarning::SeveralNodes);
        }
        taken
    }

    /// Takes units, whole clusters first, until they have `count` working CPUs or no unit is left.
    fn take_units(&self, mut units: Vec<CpuSet>, count: usize) -> Vec<CpuSet> {
        let mut taken = CpuSet::new();
        let mut result = Vec::new();
        loop {
            let missing = count.saturating_sub(self.working_cpus(&taken).len());
            units.retain(|unit| !self.takes_too_much(&taken.union(unit)));
            let Some(best) = units.first() else { return result };
            if missing == 0 {
                return result;
            }
            let rank = self.rank(best);
            let same: Vec<&CpuSet> = units.iter().filter(|u| self.rank(u) == rank).collect();
            let next = self.next_unit(&same, &taken, missing).unwrap_or(best).clone();
            units.retain(|unit| *unit != next);
            taken = taken.union(&next);
            result.push(next);
        }
    }

    /// The unit to take next among those of the same rank: one of a cluster that is already partly
    /// taken, or else one of a cluster that can be taken whole. Requested whole groups have no
    /// preference.
    fn next_unit<'a>(
        &self,
        same_rank: &[&'a CpuSet],
        taken: &CpuSet,
        missing: usize,
    ) -> Option<&'a CpuSet> {
        if matches!(self.request.share, Some(ShareLevel::L2 | ShareLevel::L3)) {
            return None;
        }
        let mut units = same_rank.iter().copied();
        let of_open_cluster =
            units.find(|unit| touched_groups(&self.clusters, unit).intersects(taken));
        of_open_cluster.or_else(|| {
            same_rank.iter().copied().find(|unit| {
                let cluster = touched_groups(&self.clusters, unit);
                self.working_cpus(&cluster).len() <= missing
                    && cluster
                        == same_rank
                            .iter()
                            .copied()
                            .filter(|u| u.is_subset(&cluster))
                            .collect::<CpuSet>()
            })
        })
    }

    fn explain(&self, units: &[CpuSet], cpus: &CpuSet, work: &CpuSet, notes: &mut ChoiceNotes) {
        let topology = &self.machine.topology;
        let idle = cpus.difference(work);
        if let Some(cpu) = self.machine.topology.boot_cpu() {
            notes.add_reason(ChoiceReason::BootCpuKept { cpu });
        }
        if !self.prepared.is_empty() {
            // An idle sibling needs no preparation.
            let named = if cpus.is_subset(&self.prepared) { cpus } else { work };
            notes.add_reason(ChoiceReason::PreparedAtBoot {
                cpus: named.clone(),
                prepared: self.prepared.clone(),
                by: boot_preparation(self.machine),
            });
        }
        if weakness(self.machine, cpus) == 0
            && units.iter().any(|unit| weakness(self.machine, unit) > 0)
        {
            notes.add_reason(ChoiceReason::FastestKind { cpus: cpus.clone() });
        }
        let kept = cpus.intersection(self.active);
        if !kept.is_empty() && (kept != *self.active || kept != *cpus) {
            notes.add_reason(ChoiceReason::KeptFromActive { cpus: kept });
        }
        let immovable = count_immovable_irqs(self.machine, cpus);
        let ranked = self.active.is_empty();
        if ranked && units.iter().any(|unit| count_immovable_irqs(self.machine, unit) > immovable) {
            notes.add_reason(ChoiceReason::FewerImmovableIrqs { cpus: cpus.clone() });
        }
        notes.explain_idle_siblings(work, &idle, self.request.siblings);
        if self.request.siblings == Some(Siblings::Use) {
            for core in self.cores.iter().filter(|core| core.len() > 1 && core.is_subset(work)) {
                notes.warn_of_busy_siblings(core);
            }
        }
        if self.request.siblings == Some(Siblings::Share) {
            let others = touched_groups(&groups(topology, CpuGroup::Core), cpus).difference(cpus);
            if !others.is_empty() {
                notes.warn_of_half_core(cpus, &others);
            }
        }
        let touched = topology.nodes.iter().filter(|node| node.cpus.intersects(cpus));
        let nodes: Vec<usize> = touched.map(|node| node.node).collect();
        if let ([node], true, false) =
            (nodes.as_slice(), topology.nodes.len() > 1, self.request.whole_node)
        {
            notes.add_reason(ChoiceReason::OneNode { node: *node });
        }
        if ranked && cpus.last() == topology.online.last() && work.len() == 1 {
            notes.add_reason(ChoiceReason::HighestNumber { cpus: work.clone() });
        }
    }
}
