//! Chooses CPUs by the user's list or by topology. Pure. Each rule that decides something adds a
//! reason.
//!
//! The rules, strongest first: the boot CPU stays a housekeeping CPU; each NUMA node keeps a
//! housekeeping CPU, unless whole nodes are requested; cores are taken whole, their extra siblings
//! idle (`siblings`); CPUs of `isolcpus=` (`isolated`); a shield keeps the CPUs of its active
//! version; CPUs prepared at boot (`nohz_full=`) first; big cores first; away from interrupts that
//! cannot be moved; inside one NUMA node; whole level-2 clusters; the highest number.

use super::choice_notes::ChoiceNotes;
use super::groups::{CpuGroup, groups, touched_groups};
use super::isolated::choose_isolated;
use super::node_refusal::NodeRefusal;
use super::pick::choose_by_topology;
use super::refused::PlanRefusal;
use super::siblings::{SplitCpus, split_list};
use super::sites::{choose_mems, closed_cpus, exhausted_nodes, online_of_nodes, tickless_cpus};
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, ChoiceReason, ChoiceWarning, Shield};
use crate::policy::{ShieldRequest, Siblings};
use cpushield_linux::CpuSet;

/// The CPUs of a shield, and why they were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuChoice {
    /// The shield.
    pub shield: Shield,
    /// Why they were chosen.
    pub why: Vec<ChoiceReason>,
    /// What speaks against the choice.
    pub warnings: Vec<ChoiceWarning>,
}

/// Chooses the CPUs of a shield on a machine without shields.
///
/// # Errors
/// The request is unsafe or impossible on this machine.
pub fn choose(machine: &Machine, request: &ShieldRequest) -> Result<CpuChoice, PlanRefusal> {
    choose_with_others(machine, request, &ActiveShields::default())
}

/// Chooses the CPUs of a shield that joins active ones.
///
/// # Errors
/// The request is unsafe or impossible on this machine, or conflicts with an active shield.
pub fn choose_with_others(
    machine: &Machine,
    request: &ShieldRequest,
    live: &ActiveShields,
) -> Result<CpuChoice, PlanRefusal> {
    let online = &machine.topology.online;
    if online.is_empty() {
        return Err(PlanRefusal::NoTopology);
    } else if request.count == Some(0) {
        return Err(PlanRefusal::EmptyList);
    }
    check_others(online, request, live)?;
    let mut notes = ChoiceNotes::default();
    let SplitCpus { cpus, idle } = match &request.cpus {
        Some(list) => check_list(machine, request, (list, live), &mut notes)?,
        None if online.len() == 1 => return Err(PlanRefusal::OneCpu),
        None => match choose_isolated(machine, request, live, &mut notes)? {
            Some(isolated) => isolated,
            None => choose_by_topology(machine, request, &live.cpus(), live, &mut notes)?,
        },
    };
    let housekeeping = find_housekeeping(machine, &cpus, live)?;
    notes.explain_caches(machine, &cpus);
    notes.warn_of_core_kinds(machine, &cpus);
    notes.explain_whole_nodes(machine, &cpus, &live.cpus());
    let (mems, warning) = choose_mems(machine, &cpus);
    notes.warnings.extend(warning);
    let takes_whole_node = exhausted_nodes(machine, &cpus, &live.cpus()).next().is_some();
    let shield = Shield {
        name: request.name.clone(),
        shares_core: shares_core(machine, &cpus),
        takes_whole_node,
        housekeeping,
        closed: closed_cpus(machine).difference(&cpus),
        tickless: tickless_cpus(machine).difference(&cpus),
        mems,
        cpus,
        offline_siblings: match request.siblings {
            Some(Siblings::Offline) => idle.clone(),
            _ => CpuSet::new(),
        },
        idle_siblings: idle,
        workload: request.workload,
        max_latency_ns: request.max_latency_ns,
        balanced: request.balance,
        evict: request.evict,
        tunables: request.tunables.clone(),
    };
    Ok(CpuChoice { shield, why: notes.why, warnings: notes.warnings })
}

/// Whether an SMT sibling of one of these CPUs is not among them.
fn shares_core(machine: &Machine, cpus: &CpuSet) -> bool {
    let cores = groups(&machine.topology, CpuGroup::Core);
    cores.iter().any(|core| core.intersects(cpus) && !core.is_subset(cpus))
}

/// The online CPUs that are in no shield, with these CPUs shielded too, and not closed.
///
/// # Errors
/// No housekeeping CPU would be left.
fn find_housekeeping(
    machine: &Machine,
    cpus: &CpuSet,
    live: &ActiveShields,
) -> Result<CpuSet, PlanRefusal> {
    let free = machine.topology.online.difference(&live.cpus());
    let closed = closed_cpus(machine).difference(cpus);
    let housekeeping = free.difference(cpus).difference(&closed);
    if housekeeping.is_empty() {
        return Err(PlanRefusal::NoHousekeeping { free, closed });
    }
    Ok(housekeeping)
}

impl CpuChoice {
    /// The same choice together with these active shields, which may be others than those it was
    /// made with.
    ///
    /// # Errors
    /// CPUs of the choice are in one of them, or no housekeeping CPU would be left.
    pub(super) fn together_with(
        mut self,
        machine: &Machine,
        live: &ActiveShields,
    ) -> Result<CpuChoice, PlanRefusal> {
        check_overlap(&self.shield.cpus, live)?;
        let shield = &mut self.shield;
        shield.housekeeping = find_housekeeping(machine, &shield.cpus, live)?;
        shield.closed = closed_cpus(machine).difference(&shield.cpus);
        shield.tickless = tickless_cpus(machine).difference(&shield.cpus);
        Ok(self)
    }
}

/// Checks that these CPUs are in no active shield.
fn check_overlap(cpus: &CpuSet, live: &ActiveShields) -> Result<(), PlanRefusal> {
    match live.shields.iter().find(|shield| shield.cpus.intersects(cpus)) {
        Some(other) => Err(PlanRefusal::InOtherShield {
            cpus: other.cpus.intersection(cpus),
            shield: other.name.clone(),
        }),
        None => Ok(()),
    }
}

/// Checks the request against the active shields.
fn check_others(
    online: &CpuSet,
    request: &ShieldRequest,
    live: &ActiveShields,
) -> Result<(), PlanRefusal> {
    if let Some(list) = &request.cpus {
        check_overlap(list, live)?;
    }
    let free = online.difference(&live.cpus());
    if !live.shields.is_empty() && free.len() < 2 {
        return Err(PlanRefusal::NoHousekeeping { free, closed: CpuSet::new() });
    }
    Ok(())
}

/// Checks that all CPUs of a list exist on this machine and are online.
///
/// # Errors
/// Some CPUs do not exist or are offline; the error names them.
pub fn check_online(machine: &Machine, list: &CpuSet) -> Result<(), PlanRefusal> {
    let topology = &machine.topology;
    let known = topology.present.union(&topology.online);
    let unknown = list.difference(&known);
    let offline = list.difference(&topology.online);
    if !unknown.is_empty() {
        return Err(PlanRefusal::NoSuchCpu { cpus: unknown, present: known });
    } else if !offline.is_empty() {
        // Then writing to `online` of a sibling fails (`cpu_smt_allowed()`, kernel/cpu.c, 6.12).
        let smt_off = topology.smt_control.as_deref() == Some("off");
        return Err(PlanRefusal::Offline { cpus: offline, smt_off });
    }
    Ok(())
}

/// All online CPUs but the core of the boot CPU, and one core of each other node.
fn most_cpus(machine: &Machine) -> CpuSet {
    let cores = groups(&machine.topology, CpuGroup::Core);
    let boot = machine.topology.boot_cpu().map(CpuSet::single).unwrap_or_default();
    let mut kept = touched_groups(&cores, &boot);
    for (_, cpus) in online_of_nodes(machine) {
        if !cpus.intersects(&kept) {
            let first = cpus.first().map(CpuSet::single).unwrap_or_default();
            kept = kept.union(&touched_groups(&cores, &first));
        }
    }
    machine.topology.online.difference(&kept)
}

/// Returns the user's list and the siblings that join it, if they are safe to shield.
fn check_list(
    machine: &Machine,
    request: &ShieldRequest,
    (list, live): (&CpuSet, &ActiveShields),
    notes: &mut ChoiceNotes,
) -> Result<SplitCpus, PlanRefusal> {
    let topology = &machine.topology;
    if list.is_empty() {
        return Err(PlanRefusal::EmptyList);
    }
    check_online(machine, list)?;
    if topology.online.len() == 1 {
        return Err(PlanRefusal::OneCpu);
    }
    let all_cpus = |joined| {
        let (online, most) = (topology.online.clone(), most_cpus(machine));
        PlanRefusal::AllCpus { online, joined, most }
    };
    if *list == topology.online {
        return Err(all_cpus(CpuSet::new()));
    }
    notes.why.push(ChoiceReason::Listed { cpus: list.clone() });
    let split = split_list(machine, request, list, live, notes)?;
    if split.cpus == topology.online {
        return Err(all_cpus(split.cpus.difference(list)));
    }
    if !live.shields.is_empty() {
        find_housekeeping(machine, &split.cpus, live)?;
    }
    let others = live.cpus();
    if let (false, Some((node, all))) =
        (request.whole_node, exhausted_nodes(machine, &split.cpus, &others).next())
    {
        let (cpus, others) = (all.intersection(&split.cpus), all.intersection(&others));
        return Err(NodeRefusal::Exhausted { node, cpus, others }.into());
    }
    let boot_cpu = machine.topology.boot_cpu().filter(|cpu| split.cpus.contains(*cpu));
    notes.warnings.extend(boot_cpu.map(|cpu| ChoiceWarning::BootCpu { cpu }));
    Ok(split)
}

#[cfg(test)]
mod tests {
    use super::super::fake::{irq, machine, plain, set};
    use super::*;
    use crate::documents::machine::{CoreKind, IrqMovability, KindSource};
    use crate::documents::plan::RemoteMemoryReason;
    use crate::policy::ShareLevel;
    use crate::refusal::UserError;

    fn chosen(machine: &Machine, request: &ShieldRequest) -> String {
        match choose(machine, request) {
            Ok(CpuChoice { shield, .. }) if shield.idle_siblings.is_empty() => {
                shield.cpus.to_string()
            }
            Ok(CpuChoice { shield, .. }) => {
                format!("{} idle {}", shield.cpus, shield.idle_siblings)
            }
            Err(refused) => refused.to_string(),
        }
    }

    fn request() -> ShieldRequest {
        ShieldRequest::default()
    }

    fn count(n: usize) -> ShieldRequest {
        ShieldRequest { count: Some(n), ..request() }
    }

    fn list(cpus: &str) -> ShieldRequest {
        ShieldRequest { cpus: Some(set(cpus)), ..request() }
    }

    #[test]
    fn the_last_cpu_of_a_plain_machine_is_chosen() {
        for (cpus, last) in [(2, "1"), (4, "3"), (6, "5"), (64, "63")] {
            assert_eq!(chosen(&plain(cpus), &request()), last);
        }
        assert_eq!(chosen(&plain(1), &request()), PlanRefusal::OneCpu.to_string());
        assert_eq!(chosen(&plain(4), &count(3)), "1-3");
        assert!(chosen(&plain(4), &count(4)).contains("the maximum is 3"));
    }

    #[test]
    fn a_shield_keeps_the_cpus_of_its_active_version() {
        let mut four = plain(4);
        // While a shield is active, only its own interrupts are known to be immovable.
        four.irqs = vec![irq(24, "nvme0q3", "3", IrqMovability::No("EPERM".to_owned()))];
        let again = |active: &str, n: usize| {
            let live = ActiveShields { replaced_cpus: set(active), ..ActiveShields::default() };
            choose_with_others(&four, &count(n), &live).unwrap()
        };
        assert_eq!(chosen(&four, &count(1)), "2");
        for (active, n, expected) in
            [("3", 1, "3"), ("1", 1, "1"), ("3", 2, "2-3"), ("1", 2, "1-2"), ("1-2", 1, "2")]
        {
            let CpuChoice { shield, why, .. } = again(active, n);
            assert_eq!(shield.cpus, set(expected), "{active}, then --count {n}");
            let irqs = why.iter().any(|why| matches!(why, ChoiceReason::FewerImmovableIrqs { .. }));
            assert!(!irqs, "{active}, then --count {n}: {why:?}");
        }
        let kept = ChoiceReason::KeptFromActive { cpus: set("3") };
        assert!(again("3", 2).why.contains(&kept));
        assert!(!again("3", 1).why.contains(&kept));
    }

    #[test]
    fn a_j1900_gives_the_pair_that_shares_an_l2_cache() {
        let j1900 = machine(&["0", "1", "2", "3"], &["0-1", "2-3"], &["0-3"]);
        assert_eq!(chosen(&j1900, &request()), "2-3");
        assert_eq!(chosen(&j1900, &count(1)), "3");
        assert_eq!(chosen(&j1900, &count(2)), "2-3");
        assert_eq!(
            chosen(&j1900, &ShieldRequest { share: Some(ShareLevel::L2), ..request() }),
            "2-3"
        );
        let alone = choose(&j1900, &list("3")).unwrap();
        let (cpus, others, cluster) = (set("3"), set("2"), set("2-3"));
        assert_eq!(alone.warnings, [ChoiceWarning::CacheShared { cpus, others, cluster }]);
        let two = machine(&["0", "1"], &["0-1"], &["0-1"]);
        let two = choose(&two, &request()).unwrap();
        assert_eq!(two.shield.cpus, set("1"));
        assert!(two.why.contains(&ChoiceReason::OneCache), "{:?}", two.why);
    }

    #[test]
    fn modules_of_four_small_cores_are_taken_only_on_request() {
        let singles = ["0", "1", "2", "3", "4", "5", "6", "7"];
        let n305 = machine(&singles, &["0-3", "4-7"], &["0-7"]);
        assert_eq!(chosen(&n305, &request()), "7");
        assert_eq!(
            chosen(&n305, &ShieldRequest { share: Some(ShareLevel::L2), ..request() }),
            "4-7"
        );
        assert_eq!(chosen(&n305, &count(4)), "4-7");
    }

    #[test]
    fn cores_are_taken_whole_and_their_extra_siblings_stay_idle() {
        let smt = machine(&["0,4", "1,5", "2,6", "3,7"], &["0,4", "1,5", "2,6", "3,7"], &["0-7"]);
        assert_eq!(chosen(&smt, &request()), "3,7 idle 7");
        assert_eq!(chosen(&smt, &count(2)), "2-3,6-7 idle 6-7");
        let by = |siblings, n| ShieldRequest { siblings: Some(siblings), ..count(n) };
        assert_eq!(chosen(&smt, &by(Siblings::Idle, 2)), "2-3,6-7 idle 6-7");
        assert_eq!(chosen(&smt, &by(Siblings::Share, 1)), "7");
        assert_eq!(chosen(&smt, &by(Siblings::Use, 2)), "3,7");
        assert_eq!(chosen(&smt, &by(Siblings::Use, 3)), "2-3,6-7");
        let offline = choose(&smt, &by(Siblings::Offline, 1)).unwrap().shield;
        assert_eq!((offline.cpus, offline.offline_siblings), (set("3,7"), set("7")));
        let one_core = machine(&["0-1"], &["0-1"], &["0-1"]);
        assert!(matches!(
            choose(&one_core, &request()),
            Err(PlanRefusal::TooMany { possible: 0, halves: true, .. })
        ));
    }

    #[test]
    fn unsafe_lists_are_refused_with_the_reason() {
        let mut four = plain(4);
        four.topology.present = set("0-5");
        four.topology.offline = set("4-5");
        assert_eq!(chosen(&four, &list("")), "the request names no CPU");
        assert_eq!(chosen(&four, &list("3,8")), "this machine has no CPU 8; it has CPU 0-5");
        assert_eq!(chosen(&four, &list("3-4")), "CPU 4 is offline");
        assert!(chosen(&four, &list("0-3")).starts_with("cannot shield all CPUs (0-3)"));
        let boot = choose(&four, &list("0")).unwrap();
        assert_eq!(boot.warnings, [ChoiceWarning::BootCpu { cpu: 0 }]);
        let two_nodes = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        assert!(matches!(
            choose(&two_nodes, &list("2-3")),
            Err(PlanRefusal::Node(NodeRefusal::Exhausted { node: 1, .. }))
        ));
    }

    #[test]
    fn the_hint_about_all_cpus_is_a_list_that_can_be_shielded() {
        let smt = machine(&["0-1", "2-3", "4-5", "6-7"], &[], &["0-7"]);
        let nodes = machine(&["0-1", "2-3", "4-5", "6-7"], &[], &["0-3", "4-7"]);
        let singles = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        for (machine, most) in
            [(plain(4), "1-3"), (smt, "2-7"), (nodes, "2-3,6-7"), (singles, "1,3")]
        {
            let all = list(&machine.topology.online.to_string());
            let hint = format!("omit some CPUs; this list is possible: {most}");
            assert_eq!(choose(&machine, &all).unwrap_err().hints(), [hint]);
            assert!(choose(&machine, &list(most)).is_ok(), "{most}");
        }
        let one_core = machine(&["0-1"], &[], &["0-1"]);
        assert_eq!(choose(&one_core, &list("0-1")).unwrap_err().hints(), [""; 0]);
    }

    #[test]
    fn a_count_that_is_too_large_is_refused_with_one_that_is_possible() {
        let refused = |machine: &Machine, request: ShieldRequest| {
            let refused = choose(machine, &request).unwrap_err();
            (refused.to_string(), refused.is_usage(), refused.hints())
        };
        let (text, usage, hints) = refused(&plain(2), count(2));
        assert!(text.ends_with("1: the core of the boot CPU remains a housekeeping CPU"), "{text}");
        assert!(usage);
        assert_eq!(hints, ["request fewer CPUs: --count 1"]);
        let nodes = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        let of_node = ShieldRequest { node: Some(1), ..count(2) };
        let (text, _, hints) = refused(&nodes, of_node.clone());
        assert!(text.contains("one CPU of each node"), "{text}");
        let whole = "or shield the whole node: --whole-node instead of --count";
        assert_eq!(hints, ["request fewer CPUs: --count 1", whole]);
        let (_, _, hints) = refused(&nodes, ShieldRequest { count: Some(3), ..of_node });
        assert_eq!(hints, ["request fewer CPUs: --count 1"]);
    }

    #[test]
    fn an_offline_sibling_comes_online_with_smt() {
        let mut four = plain(4);
        (four.topology.present, four.topology.offline) = (set("0-4"), set("4"));
        let hint = |machine: &Machine| choose(machine, &list("4")).unwrap_err().hints().remove(0);
        assert!(hint(&four).ends_with("echo 1 > /sys/devices/system/cpu/cpu4/online"));
        four.topology.smt_control = Some("off".to_owned());
        assert!(hint(&four).ends_with("echo on > /sys/devices/system/cpu/smt/control"));
    }

    #[test]
    fn shields_together_leave_each_node_a_housekeeping_cpu() {
        let two = machine(&["0", "1", "2", "3", "4", "5", "6", "7"], &[], &["0-3", "4-7"]);
        let other = choose(&two, &ShieldRequest { name: "a".to_owned(), ..list("6-7") });
        let live = ActiveShields { shields: vec![other.unwrap().shield], ..Default::default() };
        let with_other = |request| choose_with_others(&two, &request, &live);
        let refused = with_other(list("4-5")).unwrap_err();
        let (cpus, others) = (set("4-5"), set("6-7"));
        assert_eq!(refused, NodeRefusal::Exhausted { node: 1, cpus, others }.into());
        let of_node = |n| ShieldRequest { node: Some(1), ..count(n) };
        let refused = with_other(of_node(2)).unwrap_err();
        assert!(matches!(refused, PlanRefusal::TooMany { count: 2, possible: 1, .. }));
        let CpuChoice { shield, why, .. } = with_other(of_node(1)).unwrap();
        assert_eq!((shield.cpus, shield.takes_whole_node), (set("5"), false));
        assert!(why.contains(&ChoiceReason::OneNode { node: 1 }), "{why:?}");
        // CPUs of a node that the other shields do not touch.
        assert_eq!(with_other(list("2-3")).unwrap().shield.cpus, set("2-3"));
        // On request, together.
        let whole = with_other(ShieldRequest { whole_node: true, ..list("4-5") }).unwrap();
        assert!(whole.shield.takes_whole_node);
        assert!(whole.warnings.contains(&ChoiceWarning::WholeNode { node: 1 }));
        let all = |why: &ChoiceReason| matches!(why, ChoiceReason::WholeNode { .. });
        assert!(!whole.why.iter().any(all), "{:?}", whole.why);
    }

    #[test]
    fn a_whole_node_is_shielded_only_on_request() {
        let whole = |of: ShieldRequest| ShieldRequest { whole_node: true, ..of };
        let two = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        for asked in [whole(request()), whole(list("2-3"))] {
            let CpuChoice { shield, why, warnings } = choose(&two, &asked).unwrap();
            assert_eq!((shield.cpus, shield.housekeeping), (set("2-3"), set("0-1")));
            assert_eq!(shield.mems, set("1"));
            assert!(why.contains(&ChoiceReason::WholeNode { node: 1, cpus: set("2-3") }));
            assert!(warnings.contains(&ChoiceWarning::WholeNode { node: 1 }), "{warnings:?}");
        }
        let part = choose(&two, &whole(list("3"))).unwrap();
        assert!(!part.warnings.contains(&ChoiceWarning::WholeNode { node: 1 }));
        // A node of whose CPUs one is offline.
        let mut offline = two.clone();
        offline.topology.online = set("0-2");
        assert_eq!(chosen(&offline, &whole(request())), "2");
        // The boot CPU's node, the only node, and a part of a node.
        let of_boot = ShieldRequest { node: Some(0), ..request() };
        for (machine, asked) in [(&two, of_boot), (&plain(4), request())] {
            let refused = choose(machine, &whole(asked)).unwrap_err();
            assert!(matches!(refused, PlanRefusal::Node(NodeRefusal::BootNode { node: 0, .. })));
            assert!(refused.is_usage());
        }
        // The hint about a list is a request that can be planned.
        let of_boot = whole(ShieldRequest { node: Some(0), ..request() });
        let hints = choose(&two, &of_boot).unwrap_err().hints();
        assert_eq!(hints.last().unwrap(), "or list its CPUs: --whole-node --cpus 0-1");
        assert!(choose(&two, &whole(list("0-1"))).is_ok());
        assert_eq!(choose(&two, &whole(count(1))), Err(NodeRefusal::WholeAndPart.into()));
        // Idle siblings are in the node too.
        let smt = machine(&["0,4", "1,5", "2,6", "3,7"], &[], &["0-1,4-5", "2-3,6-7"]);
        assert_eq!(chosen(&smt, &whole(request())), "2-3,6-7 idle 6-7");
    }

    #[test]
    fn a_device_without_an_online_cpu_near_it_is_not_called_equally_near() {
        let device = |node, local: &str| {
            let mut m = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
            let (name, local) = ("eth0".to_owned(), set(local));
            m.devices.push(crate::documents::machine::Device {
                name,
                node,
                local,
                ..Default::default()
            });
            choose(&m, &ShieldRequest { near: Some("eth0".to_owned()), ..request() }).unwrap()
        };
        let equal = ChoiceReason::EquallyNear { device: "eth0".to_owned() };
        for (node, local, why) in [
            (Some(2), "", "no online CPU is near eth0 (node 2 has no CPUs), "),
            (Some(2), "4-7", "no online CPU is near eth0 (offline: CPUs 4-7), "),
            (None, "4-7", "no online CPU is near eth0 (offline: CPUs 4-7), "),
        ] {
            let choice = device(node, local);
            let [warning] = choice.warnings.as_slice() else { panic!("{:?}", choice.warnings) };
            assert_eq!(warning.to_string(), format!("{why}so --near does not limit the choice"));
            assert!(!choice.why.contains(&equal), "{:?}", choice.why);
        }
        for (node, local) in [(None, ""), (None, "0-3"), (Some(0), "0-3")] {
            let choice = device(node, local);
            assert_eq!(choice.warnings, []);
            assert!(choice.why.contains(&equal), "{:?}", choice.why);
        }
    }

    #[test]
    fn nodes_devices_core_kinds_and_stuck_interrupts_decide() {
        let mut m = machine(&["0", "1", "2", "3", "4", "5"], &[], &["0-2", "3-5"]);
        assert_eq!(chosen(&m, &count(2)), "4-5");
        assert_eq!(chosen(&m, &ShieldRequest { node: Some(0), ..request() }), "2");
        assert!(
            chosen(&m, &ShieldRequest { node: Some(7), ..request() })
                .contains("node 7 has no CPUs")
        );
        m.devices.push(crate::documents::machine::Device {
            name: "eth0".to_owned(),
            local: set("0-2"),
            ..Default::default()
        });
        assert_eq!(chosen(&m, &ShieldRequest { near: Some("eth0".to_owned()), ..request() }), "2");
        assert!(
            chosen(&m, &ShieldRequest { near: Some("eth1".to_owned()), ..request() })
                .contains("eth0")
        );
        m.irqs.push(irq(24, "nvme0q5", "5", IrqMovability::No("EPERM".to_owned())));
        assert_eq!(chosen(&m, &request()), "4");
        m.topology.cpus[3].kind = Some(CoreKind::Performance);
        m.topology.cpus[4].kind = Some(CoreKind::Efficiency);
        m.topology.cpus[5].kind = Some(CoreKind::Efficiency);
        assert_eq!(chosen(&m, &request()), "3");
        m.isolation.nohz_full = Some(set("4"));
        assert_eq!(chosen(&m, &request()), "4");
    }

    #[test]
    fn cpus_prepared_at_boot_come_before_caches_and_nodes() {
        let prepared = |mut machine: Machine, cpus: &str| {
            machine.isolation.nohz_full = Some(set(cpus));
            machine
        };
        let pairs = machine(&["0", "1", "2", "3"], &["0-1", "2-3"], &["0-3"]);
        assert_eq!(chosen(&prepared(pairs.clone(), "3"), &request()), "3");
        assert_eq!(chosen(&prepared(pairs, "2-3"), &request()), "2-3");
        let singles = ["0", "1", "2", "3", "4", "5", "6", "7"];
        let nodes = prepared(machine(&singles, &[], &["0-3", "4-7"]), "2-3,7");
        assert_eq!(chosen(&nodes, &count(2)), "2-3");
        assert_eq!(chosen(&nodes, &count(1)), "7");
        let three = choose(&nodes, &count(3)).unwrap();
        assert_eq!(three.shield.cpus, set("5-7"));
        let text = "CPUs 5-6 were not prepared at boot (nohz_full=2-3,7).";
        assert!(three.why.iter().any(|why| why.to_string() == text), "{:?}", three.why);
        // Programs run on the prepared sibling.
        let smt = machine(&["0-1", "2-3", "4-5", "6-7"], &[], &["0-7"]);
        assert_eq!(chosen(&prepared(smt.clone(), "3,5,7"), &request()), "6-7 idle 6");
        assert_eq!(chosen(&prepared(smt.clone(), "3"), &request()), "2-3 idle 2");
        assert_eq!(chosen(&prepared(smt.clone(), "2-3,5"), &request()), "2-3 idle 3");
        assert_eq!(chosen(&smt, &request()), "6-7 idle 7");
        let idle = ShieldRequest { siblings: Some(Siblings::Idle), ..list("6-7") };
        assert_eq!(chosen(&prepared(smt, "3,5,7"), &idle), "6-7 idle 6");
    }

    #[test]
    fn a_cache_level_that_the_machine_does_not_show_is_refused() {
        let bare = machine(&["0", "1", "2", "3"], &[], &["0-3"]);
        for (share, level) in [(ShareLevel::L2, 2), (ShareLevel::L3, 3)] {
            let refused =
                choose(&bare, &ShieldRequest { share: Some(share), ..request() }).unwrap_err();
            assert_eq!(refused, PlanRefusal::NoCacheShown { level });
            assert_eq!(refused.hints(), ["omit --share, or use --share core"]);
        }
        assert_eq!(
            chosen(&bare, &ShieldRequest { share: Some(ShareLevel::Core), ..request() }),
            "3"
        );
    }

    #[test]
    fn one_shared_cache_is_reported_only_if_there_is_one() {
        let said = |machine: &Machine, cpus: &str| {
            let about_cache = |why: &ChoiceReason| {
                matches!(why, ChoiceReason::OneCache | ChoiceReason::EveryCache { .. })
            };
            choose(machine, &list(cpus)).unwrap().why.into_iter().find(about_cache)
        };
        let pairs = machine(&["0", "1", "2", "3"], &["0-1", "2-3"], &["0-3"]);
        assert_eq!(said(&pairs, "1,3"), Some(ChoiceReason::EveryCache { caches: 2 }));
        let one = machine(&["0", "1"], &["0-1"], &["0-1"]);
        assert_eq!(said(&one, "1"), Some(ChoiceReason::OneCache));
    }

    #[test]
    fn a_shield_with_both_kinds_of_cores_gets_a_warning() {
        let mut hybrid = plain(4);
        for (cpu, kind) in
            [CoreKind::Performance, CoreKind::Efficiency].iter().cycle().take(4).enumerate()
        {
            hybrid.topology.cpus[cpu].kind = Some(*kind);
        }
        hybrid.topology.kind_source = Some(KindSource::Capacity);
        let warned = |cpus: &str| choose(&hybrid, &list(cpus)).unwrap().warnings;
        let (performance, efficiency) = (set("2"), set("3"));
        let source = Some("capacity".to_owned());
        let mixed = ChoiceWarning::CoreKindsMixed { performance, efficiency, source };
        assert_eq!(warned("2-3"), [mixed]);
        assert_eq!(warned("3"), []);
    }

    #[test]
    fn memory_of_other_nodes_is_used_with_a_warning() {
        let with = |node1: Option<u64>, usable: &str| {
            let mut m = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
            m.topology.nodes[1].memory_kib = node1;
            m.cgroup.mems = set(usable);
            let CpuChoice { shield, warnings, .. } = choose(&m, &list("3")).unwrap();
            (shield.mems.to_string(), warnings)
        };
        let remote =
            |why| ("0".to_owned(), vec![ChoiceWarning::RemoteMemory { mems: set("0"), why }]);
        assert_eq!(with(Some(1 << 20), "0-1"), ("1".to_owned(), vec![]));
        let nodes = set("1");
        let why = RemoteMemoryReason::NoMemory { nodes: nodes.clone() };
        assert_eq!(with(Some(0), "0"), remote(why));
        let why = RemoteMemoryReason::NotAllowed { nodes };
        assert_eq!(with(Some(1 << 20), "0"), remote(why));
        // A machine that shows no nodes has one, so there is nothing to warn about.
        let mut bare = plain(2);
        bare.topology.nodes.clear();
        bare.cgroup.mems = CpuSet::new();
        let bare = choose(&bare, &list("1")).unwrap();
        assert_eq!((bare.shield.mems.to_string(), bare.warnings), ("0".to_owned(), vec![]));
    }
}
