//! Hand-made machines for tests.

use crate::documents::machine::SCHEMA;
use crate::documents::machine::{Cache, Cpu, Irq, IrqMovability, Machine, Node, PlacedThread};
use cpushield_linux::{CpuSet, Task, TaskId};

/// Parses a CPU list.
pub(crate) fn set(list: &str) -> CpuSet {
    list.parse().expect("a CPU list in a test")
}

/// A machine with these cores, level-2 clusters and nodes.
pub(crate) fn machine(cores: &[&str], clusters: &[&str], nodes: &[&str]) -> Machine {
    let (cores, clusters, nodes) = (sets(cores), sets(clusters), sets(nodes));
    let mut machine = Machine { schema: SCHEMA, ..Machine::default() };
    let all: CpuSet = cores.iter().collect();
    for cpu in all.iter() {
        let core = cores.iter().find(|core| core.contains(cpu));
        let cluster = clusters.iter().find(|cluster| cluster.contains(cpu));
        machine.topology.cpus.push(Cpu {
            cpu,
            siblings: core.cloned().unwrap_or_default(),
            caches: cluster.map(l2_cache).into_iter().collect(),
            node: nodes.iter().position(|node| node.contains(cpu)),
            ..Cpu::default()
        });
    }
    for (node, cpus) in nodes.into_iter().enumerate() {
        machine.topology.nodes.push(Node { node, cpus, memory_kib: Some(1 << 20) });
    }
    machine.topology.possible = all.clone();
    machine.topology.present = all.clone();
    machine.topology.online = all;
    machine.cgroup.mems = machine.topology.nodes.iter().map(|node| node.node).collect();
    machine
}

fn sets(lists: &[&str]) -> Vec<CpuSet> {
    lists.iter().map(|list| set(list)).collect()
}

fn l2_cache(shared: &CpuSet) -> Cache {
    Cache { level: 2, kind: "Unified".to_owned(), size_kib: Some(1024), shared: shared.clone() }
}

/// A machine of plain CPUs: no SMT, no shared cache, one node.
pub(crate) fn plain(cpus: usize) -> Machine {
    let singles: Vec<String> = (0..cpus).map(|cpu| cpu.to_string()).collect();
    let singles: Vec<&str> = singles.iter().map(String::as_str).collect();
    machine(&singles, &singles, &[&format!("0-{}", cpus - 1)])
}

/// An interrupt on these CPUs.
pub(crate) fn irq(number: u32, actions: &str, affinity: &str, movable: IrqMovability) -> Irq {
    Irq {
        irq: number,
        actions: actions.to_owned(),
        chip: "PCI-MSI".to_owned(),
        affinity: Some(set(affinity)),
        effective: Some(CpuSet::single(set(affinity).first().unwrap_or_default())),
        hint: None,
        movable,
        counts: std::collections::BTreeMap::new(),
    }
}

/// A thread that may run on these CPUs.
pub(crate) fn thread(
    tid: i32,
    comm: &str,
    kthread: bool,
    bound: bool,
    affinity: &str,
) -> PlacedThread {
    let task = Task {
        id: TaskId { tid, started: 100 },
        pid: tid,
        parent: if kthread { 2 } else { 1 },
        comm: comm.to_owned(),
        kthread,
        bound,
        cpu: 0,
        state: 'S',
        nice: 0,
        rt_priority: 0,
        policy: 0,
    };
    PlacedThread { task, affinity: set(affinity), group: None }
}
