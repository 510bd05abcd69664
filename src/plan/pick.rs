//! The choice by topology: units (cores, or whole caches) are ranked and taken. Pure.

use super::choose::ChoiceNotes;
use super::groups::{CpuGroup, groups, joined, named, spread};
use super::refused::PlanRefusal;
use super::sites::{boot_cpu, held_by_others, immovable_on, prepared, used_up_node, weakness};
use crate::policy::{ShareLevel, ShieldRequest};
use crate::survey::Machine;
use cpushield_linux::CpuSet;
use std::cmp::Reverse;

/// A level-2 cluster is taken whole unasked when it has at most so many cores, or at most a quarter
/// of the machine, and never more than half of it. Modules of four small cores and clusters of
/// phones are larger: taking them unasked would cost more than was meant.
const CLUSTER_CORES: usize = 2;

/// What makes one unit better than another, smaller first: not prepared at boot, weakness,
/// interrupts that stay.
type UnitRank = (bool, u32, usize);

struct CpuPicker<'a> {
    machine: &'a Machine,
    request: &'a ShieldRequest,
    cores: Vec<CpuSet>,
    clusters: Vec<CpuSet>,
    prepared: CpuSet,
}

/// CPUs chosen by topology, and the siblings among them that stay idle.
pub(super) fn picked(
    machine: &Machine,
    request: &ShieldRequest,
    told: &mut ChoiceNotes,
) -> Result<(CpuSet, CpuSet), PlanRefusal> {
    let picker = CpuPicker {
        machine,
        request,
        cores: groups(
            &machine.topology,
            if request.half_core { CpuGroup::Thread } else { CpuGroup::Core },
        ),
        clusters: groups(&machine.topology, CpuGroup::L2),
        prepared: prepared(machine),
    };
    if let Some(level @ (ShareLevel::L2 | ShareLevel::L3)) = request.share {
        cache_is_shown(machine, level)?;
    }
    let (allowed, place) = picker.allowed(told)?;
    let units = picker.units(&allowed);
    if let (true, Some(level @ (ShareLevel::L2 | ShareLevel::L3))) =
        (units.is_empty(), request.share)
    {
        return Err(PlanRefusal::NoOwnCache { level: level_of(level), place });
    }
    let count = request.count.unwrap_or(1).max(1);
    let taken = match request.count {
        None if request.share.is_none() && !request.half_core => picker.alone(&units, told),
        _ => picker.fill_one_node(&units, count, told),
    };
    let cpus = joined(taken.iter());
    let work = picker.workers(&cpus);
    if work.len() < count {
        let halves = !request.half_core && picker.cores.iter().any(|core| core.len() > 1);
        return Err(PlanRefusal::TooMany { count, possible: work.len(), place, halves });
    }
    picker.explain(&units, &cpus, &work, told);
    Ok((cpus.clone(), cpus.minus(&work)))
}

fn level_of(share: ShareLevel) -> u32 {
    if share == ShareLevel::L3 { 3 } else { 2 }
}

/// Refuses to choose by caches that the machine does not show. A machine without a level-3 cache
/// shares its level 2.
fn cache_is_shown(machine: &Machine, share: ShareLevel) -> Result<(), PlanRefusal> {
    let shown = |level: u32| machine.topology.cpus.iter().any(|cpu| cpu.sharing(level).is_some());
    match share {
        ShareLevel::L3 if shown(3) || shown(2) => Ok(()),
        ShareLevel::L2 if shown(2) => Ok(()),
        ShareLevel::L2 | ShareLevel::L3 => {
            Err(PlanRefusal::NoCacheShown { level: level_of(share) })
        }
        ShareLevel::Core => Ok(()),
    }
}

impl CpuPicker<'_> {
    /// CPUs that may be chosen, and the words for where that is.
    fn allowed(&self, told: &mut ChoiceNotes) -> Result<(CpuSet, String), PlanRefusal> {
        let topology = &self.machine.topology;
        let mut allowed = topology.online.clone();
        let mut place = String::new();
        if let Some(node) = self.request.node {
            let nodes: Vec<usize> =
                topology.nodes.iter().filter(|n| !n.cpus.is_empty()).map(|n| n.node).collect();
            let found = topology.nodes.iter().find(|n| n.node == node && !n.cpus.is_empty());
            allowed = match found {
                Some(found) => allowed.and(&found.cpus),
                None => return Err(PlanRefusal::NoSuchNode { node, nodes }),
            };
            place = format!(" on node {node}");
        }
        if let Some(name) = &self.request.near {
            let devices = &self.machine.devices;
            let Some(device) = devices.iter().find(|device| device.name == *name) else {
                let known = devices.iter().map(|device| device.name.clone()).collect();
                return Err(PlanRefusal::NoSuchDevice { name: name.clone(), known });
            };
            let local = device.local.and(&topology.online);
            if local.is_empty() || local == topology.online {
                told.why(format!("Every CPU is equally near {name}."));
            } else {
                told.why(format!("Near {name}: {}.", named(&local)));
                allowed = allowed.and(&local);
                place.push_str(&format!(" near {name}"));
            }
        }
        let held = held_by_others(self.machine, "cpushield").and(&allowed);
        if !held.is_empty() {
            told.why(format!("In an exclusive cpuset of another program: {}.", named(&held)));
            allowed = allowed.minus(&held);
        }
        Ok((allowed, place))
    }

    /// What can be taken, best first.
    fn units(&self, allowed: &CpuSet) -> Vec<CpuSet> {
        let topology = &self.machine.topology;
        let mut units = match self.request.share {
            Some(ShareLevel::L2) => self.clusters.clone(),
            Some(ShareLevel::L3) => groups(topology, CpuGroup::L3),
            Some(ShareLevel::Core) | None => self.cores.clone(),
        };
        let boot = boot_cpu(self.machine);
        units.retain(|unit| {
            unit.is_subset(allowed)
                && !boot.is_some_and(|cpu| unit.contains(cpu))
                && used_up_node(self.machine, unit).is_none()
        });
        units.sort_by_key(|unit| (self.tier(unit), Reverse(unit.last())));
        units
    }

    fn tier(&self, unit: &CpuSet) -> UnitRank {
        let unprepared = !self.prepared.is_empty() && !unit.is_subset(&self.prepared);
        (unprepared, weakness(self.machine, unit), immovable_on(self.machine, unit))
    }

    /// CPUs that work: of each core the first sibling. The others stay idle.
    fn workers(&self, cpus: &CpuSet) -> CpuSet {
        self.cores.iter().filter_map(|core| core.and(cpus).first()).collect()
    }

    /// One small level-2 cluster of the best kind, else the best core.
    fn alone(&self, units: &[CpuSet], told: &mut ChoiceNotes) -> Vec<CpuSet> {
        let Some(best) = units.first() else { return Vec::new() };
        let tier = self.tier(best);
        let online = self.machine.topology.online.len();
        let mut same = units.iter().filter(|unit| self.tier(unit) == tier);
        let cluster = same.find_map(|unit| {
            let cluster = spread(&self.clusters, unit);
            let cores = self.workers(&cluster).len();
            let small = cores <= CLUSTER_CORES || cluster.len() * 4 <= online;
            let free = cluster == joined(units.iter().filter(|u| u.is_subset(&cluster)));
            let fits = small && free && cluster.len() * 2 <= online;
            (fits && used_up_node(self.machine, &cluster).is_none()).then_some(cluster)
        });
        match cluster {
            Some(cluster) if cluster.len() > best.len() => {
                told.why(format!(
                    "{} share an L2 cache with no other CPU: a program alone there has the whole \
                     cache.",
                    named(&cluster)
                ));
                vec![cluster]
            }
            Some(cluster) => vec![cluster],
            None => vec![best.clone()],
        }
    }

    /// As many units as give `count` working CPUs, inside one node if that can be.
    fn fill_one_node(&self, units: &[CpuSet], count: usize, told: &mut ChoiceNotes) -> Vec<CpuSet> {
        let nodes = &self.machine.topology.nodes;
        let mut order: Vec<&CpuSet> = Vec::new();
        for unit in units {
            let home = nodes.iter().map(|node| &node.cpus).find(|cpus| unit.is_subset(cpus));
            order.extend(home.filter(|home| !order.contains(home)));
        }
        for home in &order {
            let local: Vec<CpuSet> =
                units.iter().filter(|unit| unit.is_subset(home)).cloned().collect();
            let taken = self.fill(local, count);
            if self.workers(&joined(taken.iter())).len() >= count {
                return taken;
            }
        }
        let taken = self.fill(units.to_vec(), count);
        if order.len() > 1 && self.workers(&joined(taken.iter())).len() >= count {
            told.warnings.push(
                "no single NUMA node has enough free CPUs; memory of the other node is slower"
                    .to_owned(),
            );
        }
        taken
    }

    /// Takes units, whole clusters first, until they have `count` working CPUs or none is left.
    fn fill(&self, mut units: Vec<CpuSet>, count: usize) -> Vec<CpuSet> {
        let mut taken = CpuSet::new();
        let mut result = Vec::new();
        loop {
            let missing = count.saturating_sub(self.workers(&taken).len());
            units.retain(|unit| used_up_node(self.machine, &taken.union(unit)).is_none());
            let Some(best) = units.first() else { return result };
            if missing == 0 {
                return result;
            }
            let tier = self.tier(best);
            let same: Vec<&CpuSet> = units.iter().filter(|u| self.tier(u) == tier).collect();
            let open = |unit: &&&CpuSet| spread(&self.clusters, unit).intersects(&taken);
            let whole = |unit: &&&CpuSet| {
                let cluster = spread(&self.clusters, unit);
                self.workers(&cluster).len() <= missing
                    && cluster == joined(same.iter().copied().filter(|u| u.is_subset(&cluster)))
            };
            // Whole groups that were asked for are taken as they come.
            let asked = matches!(self.request.share, Some(ShareLevel::L2 | ShareLevel::L3));
            let next = match asked {
                true => None,
                false => same.iter().find(open).or_else(|| same.iter().find(whole)),
            };
            let next = (*next.unwrap_or(&best)).clone();
            units.retain(|unit| *unit != next);
            taken = taken.union(&next);
            result.push(next);
        }
    }

    fn explain(&self, units: &[CpuSet], cpus: &CpuSet, work: &CpuSet, told: &mut ChoiceNotes) {
        let topology = &self.machine.topology;
        let idle = cpus.minus(work);
        if let Some(boot) = boot_cpu(self.machine) {
            told.why(format!("CPU {boot} is the boot CPU and stays a housekeeping CPU."));
        }
        if !self.prepared.is_empty() {
            let no = if cpus.is_subset(&self.prepared) { "" } else { "not " };
            let prepared = named(&self.prepared);
            let doubt = match self.machine.isolated_somehow().is_empty() {
                true => "",
                false => " as the kernel shows it; the command line is not known",
            };
            told.why(format!("{} {no}prepared at boot ({prepared}){doubt}.", named(cpus)));
        }
        let weak = |unit: &CpuSet| weakness(self.machine, unit);
        if weak(cpus) == 0 && units.iter().any(|unit| weak(unit) > 0) {
            told.why(format!("{}: the fastest kind of core in this machine.", named(cpus)));
        }
        let stuck = |unit: &CpuSet| immovable_on(self.machine, unit);
        if units.iter().any(|unit| stuck(unit) > stuck(cpus)) {
            told.why(format!(
                "{}: fewer immovable interrupts are handled there than elsewhere.",
                named(cpus)
            ));
        }
        if !idle.is_empty() {
            let (work, siblings) = (named(work), named(&idle));
            let stay = if idle.len() == 1 { "its SMT sibling stays" } else { "SMT siblings stay" };
            told.why(format!("Whole cores: work runs on {work}; {stay} idle: {siblings}."));
        }
        if self.request.half_core {
            let others = spread(&groups(topology, CpuGroup::Core), cpus).minus(cpus);
            if !others.is_empty() {
                told.half_core(cpus, &others);
            }
        }
        let touched = topology.nodes.iter().filter(|node| node.cpus.intersects(cpus));
        let nodes: Vec<usize> = touched.map(|node| node.node).collect();
        if let ([node], true) = (nodes.as_slice(), topology.nodes.len() > 1) {
            told.why(format!("All in node {node}, which also keeps a housekeeping CPU."));
        }
        if cpus.last() == topology.online.last() && work.len() == 1 {
            told.why(format!(
                "Several CPUs are equally suitable; chose the highest: {}.",
                named(work)
            ));
        }
    }
}
