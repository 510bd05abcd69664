//! Chooses the CPUs that the user has isolated at boot with `isolcpus=`. Pure.

use super::choice_notes::ChoiceNotes;
use super::groups::{CpuGroup, groups, touched_groups};
use super::pick::choose_by_topology;
use super::refused::PlanRefusal;
use super::siblings::{SplitCpus, split_list, working_siblings};
use super::sites::{cpus_of_group, cpus_prepared_at_boot, cpus_without_partition, online_of_nodes};
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, ChoiceReason};
use crate::policy::{ShieldRequest, Siblings};
use crate::survey::exclusive_cpusets;
use cpushield_linux::CpuSet;
use std::cmp::Reverse;

/// The CPUs of `isolcpus=`: all that may be shielded, or as many as requested; more than these are
/// taken by topology. `None` where there are none, or where the request asks for whole groups.
///
/// # Errors
/// There are not as many CPUs as requested, or the siblings cannot be used as requested.
pub(super) fn choose_isolated(
    machine: &Machine,
    request: &ShieldRequest,
    live: &ActiveShields,
    notes: &mut ChoiceNotes,
) -> Result<Option<SplitCpus>, PlanRefusal> {
    let isolated = machine.isolation.isolcpus_domain.intersection(&machine.topology.online);
    let usable = usable_cpus(machine, request, live, &isolated);
    if usable.is_empty() || request.share.is_some() || request.whole_node {
        return Ok(None);
    }
    let count = request.count.unwrap_or(usable.len());
    let pool = ranked_cores(machine, live, &usable);
    let cores = pool.iter().take(count);
    let split = match request.siblings {
        None if request.count.is_some() && count <= pool.len() => {
            let cpus: CpuSet = cores.collect();
            let work = working_siblings(&pool[..count], &cpus, &cpus_prepared_at_boot(machine));
            notes.explain_idle_siblings(&work, &cpus.difference(&work), None);
            let all = touched_groups(&groups(&machine.topology, CpuGroup::Core), &cpus);
            if all != cpus {
                notes.warn_of_half_core(&cpus, &all.difference(&cpus));
            }
            SplitCpus { idle: cpus.difference(&work), cpus }
        }
        Some(Siblings::Idle | Siblings::Offline) => {
            split_list(machine, request, &cores.collect(), live, notes)?
        }
        Some(Siblings::Use) => {
            let mut cpus = CpuSet::new();
            for core in &pool {
                if cpus.len() < count {
                    cpus = cpus.union(core);
                }
            }
            split_list(machine, request, &cpus, live, notes)?
        }
        None | Some(Siblings::Share) => {
            let cpus = pool.iter().flat_map(CpuSet::iter).take(count).collect();
            // A sibling that is not isolated stays as it is.
            let siblings = Some(Siblings::Share);
            let request = ShieldRequest { siblings, ..request.clone() };
            split_list(machine, &request, &cpus, live, notes)?
        }
    };
    let cpus = split.cpus.intersection(&isolated);
    notes.add_reason(ChoiceReason::IsolatedAtBoot { cpus, isolated });
    let missing = count.saturating_sub(usable.len());
    if missing == 0 {
        return Ok(Some(split));
    }
    let more = ShieldRequest { count: Some(missing), ..request.clone() };
    let taken = live.cpus().union(&machine.isolation.isolcpus_domain);
    let more = choose_by_topology(machine, &more, &taken, live, notes).map_err(|mut refusal| {
        if let PlanRefusal::TooMany { count: wanted, possible, .. } = &mut refusal {
            (*wanted, *possible) = (count, *possible + usable.len());
        }
        refusal
    })?;
    let (cpus, idle) = (split.cpus.union(&more.cpus), split.idle.union(&more.idle));
    Ok(Some(SplitCpus { cpus, idle }))
}

/// Checks that no CPU of `isolcpus=` spoils the partition of the others.
///
/// # Errors
/// This kernel makes no partition with such a CPU, and the choice has both kinds.
pub(super) fn check_one_kind(
    machine: &Machine,
    request: &ShieldRequest,
    cpus: &CpuSet,
) -> Result<(), PlanRefusal> {
    let isolated = cpus.intersection(&cpus_without_partition(machine));
    let others = cpus.difference(&isolated);
    let has_both = !isolated.is_empty() && !others.is_empty();
    if has_both && request.tunables.choice("cpuset") != Some(false) {
        return Err(PlanRefusal::TwoLists { isolated, others });
    }
    Ok(())
}

/// The isolated CPUs that a shield may have: not the core of the boot CPU, not all of a node, and
/// near what the request names.
fn usable_cpus(
    machine: &Machine,
    request: &ShieldRequest,
    live: &ActiveShields,
    isolated: &CpuSet,
) -> CpuSet {
    let topology = &machine.topology;
    let boot = topology.boot_cpu().map(CpuSet::single).unwrap_or_default();
    let core = touched_groups(&groups(topology, CpuGroup::Core), &boot);
    let held: CpuSet = exclusive_cpusets(machine).flat_map(cpus_of_group).collect();
    let mut usable = isolated.difference(&core).difference(&held).difference(&live.cpus());
    for (_, cpus) in online_of_nodes(machine) {
        if cpus.is_subset(&usable.union(&live.cpus())) {
            let kept = cpus.intersection(&usable).first().map(CpuSet::single);
            usable = usable.difference(&kept.unwrap_or_default());
        }
    }
    // The usual choice refuses a node or a device that the machine has not.
    if let Some(node) = request.node {
        let found = topology.nodes.iter().find(|it| it.node == node);
        usable = usable.intersection(&found.map(|it| it.cpus.clone()).unwrap_or_default());
    }
    if let Some(near) = &request.near {
        let found = machine.devices.iter().find(|it| it.name == *near);
        let local = found.map(|it| it.local.clone()).unwrap_or_default();
        usable = if found.is_some_and(|it| it.local.is_empty()) {
            usable
        } else {
            usable.intersection(&local)
        };
    }
    usable
}

/// These CPUs by core: those of the active version first, then whole cores, then the highest.
fn ranked_cores(machine: &Machine, live: &ActiveShields, cpus: &CpuSet) -> Vec<CpuSet> {
    let mut cores = groups(&machine.topology, CpuGroup::Core);
    cores.retain(|core| core.intersects(cpus));
    cores.sort_by_key(|core| {
        let is_active = core.intersects(&live.replaced_cpus);
        (!is_active, !core.is_subset(cpus), Reverse(core.last()))
    });
    cores.iter().map(|core| core.intersection(cpus)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fake::{machine, plain, set};
    use super::super::{plan, plan_with_others};
    use super::*;
    use crate::documents::machine::{CgroupMode, CpusetGroup};
    use crate::refusal::UserError;
    use cpushield_linux::text::kernel_version::KernelVersion;

    /// A machine with these isolated CPUs, whose kernel makes a partition of them.
    fn isolated(mut machine: Machine, cpus: &str) -> Machine {
        machine.isolation.isolcpus_domain = set(cpus);
        machine.kernel.version = Some(KernelVersion::new(6, 6));
        machine.cgroup.mode = CgroupMode::V2;
        machine
    }

    fn planned(machine: &Machine, request: &ShieldRequest) -> String {
        match plan(machine, request).map(|plan| plan.shield) {
            Ok(shield) => {
                let sets = [
                    (" idle ", &shield.idle_siblings),
                    (" rest ", &shield.housekeeping),
                    (" closed ", &shield.closed),
                ];
                let sets = sets.iter().filter(|(_, cpus)| !cpus.is_empty());
                let sets = sets.map(|(word, cpus)| format!("{word}{cpus}"));
                format!("{}{}", shield.cpus, sets.collect::<String>())
            }
            Err(refusal) => format!("{refusal}; {}", refusal.hints().join("; ")),
        }
    }

    #[test]
    fn the_cpus_of_isolcpus_are_the_default_and_the_others_of_them_stay_closed() {
        let two_nodes = || machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        let smt = || machine(&["0,4", "1,5", "2,6", "3,7"], &[], &["0-7"]);
        let smt_nodes = || machine(&["0-1", "2-3", "4-5", "6-7"], &[], &["0-3", "4-7"]);
        let count = |n| ShieldRequest { count: Some(n), ..ShieldRequest::default() };
        let any = ShieldRequest::default;
        let with = |siblings| ShieldRequest { siblings: Some(siblings), ..count(1) };
        let share = || with(Siblings::Share);
        let on_node = |node| ShieldRequest { node: Some(node), ..any() };
        for (machine, isolcpus, request, expected) in [
            (plain(4), "3", any(), "3 rest 0-2"),
            (plain(4), "2-3", any(), "2-3 rest 0-1"),
            (plain(4), "1", any(), "1 rest 0,2-3"),
            // Not the boot CPU, which is closed nevertheless.
            (plain(4), "0-1", any(), "1 rest 2-3 closed 0"),
            (plain(4), "0", any(), "3 rest 1-2 closed 0"),
            (plain(4), "2-3", count(1), "3 rest 0-1 closed 2"),
            (plain(4), "2-3", count(2), "2-3 rest 0-1"),
            (plain(4), "3", count(2), "2-3 rest 0-1"),
            (plain(4), "3", count(3), "1-3 rest 0"),
            (plain(4), "1-3", any(), "1-3 rest 0"),
            // A node keeps one.
            (two_nodes(), "2-3", any(), "3 rest 0-1 closed 2"),
            (two_nodes(), "1,3", any(), "1,3 rest 0,2"),
            (two_nodes(), "3", on_node(1), "3 rest 0-2"),
            (two_nodes(), "3", on_node(0), "1 rest 0,2 closed 3"),
            (smt_nodes(), "4-7", any(), "5-7 rest 0-3 closed 4"),
            // A sibling that is not isolated stays as it is.
            (smt(), "3", any(), "3 rest 0-2,4-7"),
            (smt(), "3,7", any(), "3,7 rest 0-2,4-6"),
            (smt(), "2-3,6-7", count(1), "3,7 idle 7 rest 0-1,4-5 closed 2,6"),
            (smt(), "2-3,7", count(1), "3,7 idle 7 rest 0-1,4-6 closed 2"),
            (smt(), "2-3,7", count(2), "2-3,7 idle 7 rest 0-1,4-6"),
            (smt(), "2-3,6-7", count(3), "2-3,7 rest 0-1,4-5 closed 6"),
            (smt(), "2-3,6-7", share(), "3 rest 0-1,4-5 closed 2,6-7"),
            (smt(), "3", count(1), "3 rest 0-2,4-7"),
            (smt(), "3", with(Siblings::Idle), "3,7 idle 7 rest 0-2,4-6"),
            (smt(), "3,7", with(Siblings::Use), "3,7 rest 0-2,4-6"),
        ] {
            assert_eq!(planned(&isolated(machine, isolcpus), &request), expected, "{isolcpus}");
        }
    }

    #[test]
    fn more_cpus_than_isolcpus_has_are_two_lists_where_one_would_spoil_the_partition() {
        let mut machine = isolated(plain(4), "3");
        machine.kernel.version = Some(KernelVersion::new(6, 12));
        assert_eq!(planned(&machine, &ShieldRequest::default()), "3 rest 0-2");
        let two = ShieldRequest { count: Some(2), ..ShieldRequest::default() };
        let refused = planned(&machine, &two);
        let commands = "cpushield apply --cpus 3; cpushield apply --shield second --cpus 2";
        assert!(refused.ends_with(commands), "{refused}");
        let open = [("cpuset".to_owned(), false)].into_iter().collect();
        let open = ShieldRequest { tunables: open, ..two };
        assert_eq!(planned(&machine, &open), "2-3 rest 0-1");
        // The second list as its own shield: the first one's CPU is in no list of its.
        let first = plan(&machine, &ShieldRequest::default()).unwrap();
        let (cpus, name) = (Some(set("2")), "second".to_owned());
        let second = ShieldRequest { cpus, name, ..ShieldRequest::default() };
        let live = ActiveShields::new(&[first]);
        let second = plan_with_others(&machine, &second, &live).unwrap().shield;
        assert_eq!((second.housekeeping, second.closed), (set("0-1"), set("3")));
    }

    #[test]
    fn cpusets_of_others_are_closed_unless_they_hold_the_boot_cpu() {
        let mut machine = plain(6);
        machine.cgroup.mode = CgroupMode::V1;
        machine.cgroup.mount = Some("/c".to_owned());
        let group = |path: &str, cpus| CpusetGroup {
            path: path.to_owned(),
            cpus: set(cpus),
            exclusive: true,
            ..CpusetGroup::default()
        };
        machine.cgroup.groups =
            vec![group("/c", "0-5"), group("/c/system", "0-1"), group("/c/user", "5")];
        assert_eq!(planned(&machine, &ShieldRequest::default()), "4 rest 0-3 closed 5");
        let why = plan(&machine, &ShieldRequest::default()).unwrap().why;
        let named = "CPU 5 belongs exclusively to /c/user, a cpuset of another program.";
        assert!(why.iter().any(|why| why.to_string() == named), "{why:?}");
        // Nothing is left apart from the shield.
        let list = ShieldRequest { cpus: Some(set("0")), ..ShieldRequest::default() };
        let refused = planned(&isolated(plain(2), "1"), &list);
        assert!(refused.contains("isolcpus= or an exclusive cpuset closes CPU 1"), "{refused}");
    }
}
