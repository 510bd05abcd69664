//! Properties of the choice that hold for every machine and every request.

use super::groups::{CpuGroup, groups};
use super::{CpuChoice, PlanRefusal, choose};
use crate::documents::machine::{Cache, CoreKind, Cpu, Irq, IrqMovability, Machine, Node};
use crate::policy::{ShareLevel, ShieldRequest, Siblings};
use cpushield_linux::CpuSet;
use proptest::prelude::*;

/// The shape of a machine: nodes, cores per node, threads per core, cores per L2 cache.
#[derive(Debug, Clone)]
struct MachineShape {
    nodes: usize,
    cores: usize,
    threads: usize,
    share: usize,
    /// Whether siblings have distant numbers (`0,4`), as on x86, or adjacent ones (`0-1`).
    apart: bool,
    offline: Vec<usize>,
    small: Vec<usize>,
    nohz_full: Vec<usize>,
    stuck: Vec<usize>,
}

impl MachineShape {
    fn machine(&self) -> Machine {
        let cores = self.nodes * self.cores;
        let all: CpuSet = (0..cores * self.threads).collect();
        let off: CpuSet = self.offline.iter().copied().filter(|cpu| *cpu > 0).collect();
        let online = all.difference(&off);
        let mut machine = Machine::default();
        for core in 0..cores {
            let siblings = self.core_cpus(core..core + 1);
            let first = core - core % self.cores;
            let group = first + (core - first) / self.share * self.share;
            let group_end = (group + self.share).min(first + self.cores);
            let shared = self.core_cpus(group..group_end).intersection(&online);
            for cpu in siblings.intersection(&online).iter() {
                let l2 = Cache {
                    level: 2,
                    kind: "Unified".to_owned(),
                    size_kib: None,
                    shared: shared.clone(),
                };
                let small = self.small.contains(&core);
                machine.topology.cpus.push(Cpu {
                    cpu,
                    siblings: siblings.intersection(&online),
                    caches: vec![l2],
                    node: Some(core / self.cores),
                    kind: small.then_some(CoreKind::Efficiency),
                    ..Cpu::default()
                });
            }
        }
        machine.topology.cpus.sort_by_key(|cpu| cpu.cpu);
        for node in 0..self.nodes {
            let cores = node * self.cores..(node + 1) * self.cores;
            let cpus = self.core_cpus(cores).intersection(&online);
            machine.topology.nodes.push(Node { node, cpus, memory_kib: Some(1024) });
        }
        machine.isolation.nohz_full = Some(self.nohz_full.iter().copied().collect());
        machine.irqs = self.stuck.iter().map(|cpu| immovable_irq(*cpu)).collect();
        machine.topology.present = all.clone();
        machine.topology.possible = all;
        machine.topology.online = online;
        machine
    }

    /// All CPUs of these cores.
    fn core_cpus(&self, cores: std::ops::Range<usize>) -> CpuSet {
        let all_cores = self.nodes * self.cores;
        cores
            .flat_map(|core| (0..self.threads).map(move |thread| (core, thread)))
            .map(|(core, thread)| match self.apart {
                true => thread * all_cores + core,
                false => core * self.threads + thread,
            })
            .collect()
    }
}

fn immovable_irq(cpu: usize) -> Irq {
    Irq {
        irq: 100 + u32::try_from(cpu).unwrap(),
        actions: format!("nvme0q{cpu}"),
        chip: String::new(),
        affinity: Some(CpuSet::single(cpu)),
        effective: Some(CpuSet::single(cpu)),
        hint: None,
        movable: IrqMovability::No("EPERM".to_owned()),
        ..super::fake::irq(0, "", "0", IrqMovability::Yes)
    }
}

fn shapes() -> impl Strategy<Value = MachineShape> {
    let sizes = (1usize..4, 1usize..6, 1usize..4, 1usize..5, any::<bool>());
    (sizes, numbers(), numbers(), numbers(), numbers()).prop_map(
        |((nodes, cores, threads, share, apart), offline, small, nohz_full, stuck)| MachineShape {
            nodes,
            cores,
            threads,
            share,
            apart,
            offline,
            small,
            nohz_full,
            stuck,
        },
    )
}

fn numbers() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..32, 0..4)
}

fn requests() -> impl Strategy<Value = ShieldRequest> {
    let list = prop::option::weighted(0.3, prop::collection::vec(0usize..40, 0..5));
    let share = prop::option::of(prop::sample::select(vec![
        ShareLevel::Core,
        ShareLevel::L2,
        ShareLevel::L3,
    ]));
    let count = prop::option::of(0usize..8);
    let node = prop::option::weighted(0.3, 0usize..4);
    let siblings = prop::option::of(prop::sample::select(vec![
        Siblings::Idle,
        Siblings::Offline,
        Siblings::Use,
        Siblings::Share,
    ]));
    (list, count, node, share, siblings).prop_map(|(list, count, node, share, siblings)| {
        let cpus = list.map(|list| list.into_iter().collect());
        ShieldRequest { cpus, count, node, share, siblings, ..ShieldRequest::default() }
    })
}

/// Checks everything that must hold for a choice.
fn check(
    machine: &Machine,
    request: &ShieldRequest,
    choice: &CpuChoice,
) -> Result<(), TestCaseError> {
    let (shield, topology) = (&choice.shield, &machine.topology);
    prop_assert!(!shield.cpus.is_empty() && !shield.housekeeping.is_empty());
    prop_assert!(shield.cpus.is_subset(&topology.online));
    prop_assert_eq!(&shield.housekeeping, &topology.online.difference(&shield.cpus));
    prop_assert!(!choice.why.is_empty());
    for node in &topology.nodes {
        let all = node.cpus.intersection(&topology.online);
        prop_assert!(all.is_empty() || all.intersects(&shield.housekeeping), "{:?}", node);
    }
    for core in groups(topology, CpuGroup::Core) {
        let cut = core.intersects(&shield.cpus) && !core.is_subset(&shield.cpus);
        prop_assert!(!cut || request.siblings == Some(Siblings::Share), "half of core {core}");
        let work = core.intersection(&shield.cpus).difference(&shield.idle_siblings);
        let one = matches!(request.siblings, Some(Siblings::Idle | Siblings::Offline));
        prop_assert!(!one || work.len() <= 1, "both siblings of core {core}");
    }
    let offline = match request.siblings {
        Some(Siblings::Offline) => &shield.idle_siblings,
        _ => &CpuSet::new(),
    };
    prop_assert_eq!(&shield.offline_siblings, offline);
    let no_idle = matches!(request.siblings, Some(Siblings::Use | Siblings::Share));
    prop_assert!(!no_idle || shield.idle_siblings.is_empty());
    prop_assert!(shield.idle_siblings.is_subset(&shield.cpus));
    prop_assert!(shield.idle_siblings != shield.cpus);
    prop_assert!(!shield.mems.is_empty());
    if let Some(list) = &request.cpus {
        prop_assert!(list.is_subset(&shield.cpus));
        return Ok(());
    }
    prop_assert!(!shield.cpus.contains(topology.online.first().unwrap()));
    if let Some(node) = request.node {
        prop_assert!(shield.cpus.is_subset(&topology.nodes[node].cpus));
    }
    let work = shield.cpus.len() - shield.idle_siblings.len();
    match (request.count, request.share) {
        (Some(count), _) if request.siblings == Some(Siblings::Use) => prop_assert!(work >= count),
        (Some(count), None | Some(ShareLevel::Core)) => prop_assert_eq!(work, count.max(1)),
        (Some(count), Some(_)) => prop_assert!(work >= count),
        (None, _) => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_choice_is_safe_and_every_refusal_has_a_reason(
        shape in shapes(),
        request in requests(),
    ) {
        let machine = shape.machine();
        match choose(&machine, &request) {
            Ok(choice) => {
                check(&machine, &request, &choice)?;
                prop_assert_eq!(Ok(choice), choose(&machine, &request));
            }
            Err(refused) => {
                prop_assert!(!refused.to_string().is_empty());
                if let PlanRefusal::TooMany { count, possible, .. } = refused {
                    prop_assert!(possible < count.max(1));
                }
            }
        }
    }

    /// Two cores in one node are enough if one of them is not the boot CPU's core.
    #[test]
    fn a_machine_that_has_a_core_to_spare_gets_a_shield(shape in shapes()) {
        let machine = shape.machine();
        let topology = &machine.topology;
        let boot = topology.online.first().unwrap();
        let cores = groups(topology, CpuGroup::Core);
        let spare = topology.nodes.iter().any(|node| {
            let local: Vec<_> = cores.iter().filter(|core| core.is_subset(&node.cpus)).collect();
            local.len() > 1 && local.iter().any(|core| !core.contains(boot))
        });
        prop_assert_eq!(choose(&machine, &ShieldRequest::default()).is_ok(), spare);
    }

    /// A chosen list of CPUs is accepted as an explicit list.
    #[test]
    fn a_chosen_list_can_be_requested(shape in shapes(), request in requests()) {
        let machine = shape.machine();
        if let Ok(choice) = choose(&machine, &request) {
            let list = ShieldRequest {
                cpus: Some(choice.shield.cpus),
                siblings: request.siblings,
                ..ShieldRequest::default()
            };
            prop_assert!(choose(&machine, &list).is_ok());
        }
    }
}
