//! Where the shield is: the map of the CPUs and the role of each.

use crate::documents::count_text::joined;
use crate::documents::machine::{CoreKind, Cpu, Machine, Topology};
use crate::documents::plan::{Plan, Shield};
use crate::report::applied::shield_line;
use crate::report::blocks::{
    Cluster, Core, CpuMap, Drawing, MapRole, NodeGroup, Package, Picture, ReportBlock, Table,
    TableCell,
};
use crate::report::page::material::ReportMaterial;
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let several = material.machines.len() > 1;
    let mut blocks = Vec::new();
    let plans = plans(material);
    let shields: Vec<&Shield> = plans.iter().map(|plan| &plan.shield).collect();
    for (n, machine) in material.machines.iter().enumerate() {
        if several {
            blocks.push(ReportBlock::Heading(machine.label.clone()));
        }
        let picture = picture(&machine.document, &shields, n);
        blocks.push(ReportBlock::Picture(Box::new(picture)));
    }
    for plan in &plans {
        if material.machines.is_empty() {
            blocks.push(ReportBlock::Text(shield_line(&plan.shield).text()));
        }
        if !plan.why.is_empty() {
            let why = match plans.len() {
                1 => "Why these CPUs".to_owned(),
                _ => format!("Why CPU {} for shield {}", plan.shield.cpus, plan.shield.name),
            };
            blocks.push(ReportBlock::Heading(why));
            blocks.push(ReportBlock::List(plan.why.iter().map(ToString::to_string).collect()));
        }
    }
    blocks
}

/// The last plan of each shield, in order of name.
fn plans(material: &ReportMaterial) -> Vec<&Plan> {
    let plans = material.settings.iter().map(|settings| &settings.document.plan);
    let named: BTreeMap<&str, &Plan> = plans.map(|plan| (&*plan.shield.name, plan)).collect();
    named.into_values().collect()
}

fn picture(machine: &Machine, shields: &[&Shield], n: usize) -> Picture {
    let topology = &machine.topology;
    let roles = [
        MapRole::Shielded,
        MapRole::Idle,
        MapRole::Housekeeping,
        MapRole::Isolated,
        MapRole::Used,
        MapRole::Offline,
    ];
    let mut parts = Vec::new();
    for listed in roles {
        let online = topology.cpus.iter().map(|cpu| cpu.cpu);
        let cpus: CpuSet = match listed {
            MapRole::Offline => topology.offline.clone(),
            _ => online.filter(|cpu| role(machine, shields, *cpu) == listed).collect(),
        };
        if !cpus.is_empty() {
            parts.push(format!("CPU {cpus} {}", listed.word()));
        }
    }
    Picture {
        id: if n == 0 { "map".to_owned() } else { format!("map-{}", n + 1) },
        title: "The CPUs of this machine".to_owned(),
        about: format!("{}.", parts.join("; ")),
        how: "Each CPU is inside the core, the caches and the NUMA node that it shares with its \
              neighbours. What a shielded CPU shares with others can still delay it a little."
            .to_owned(),
        drawing: Drawing::Map(map(topology, &|cpu| role(machine, shields, cpu))),
        table: table(topology, &|cpu| role(machine, shields, cpu)),
    }
}

fn role(machine: &Machine, shields: &[&Shield], cpu: usize) -> MapRole {
    let isolated = machine.isolation.isolated.as_ref().is_some_and(|set| set.contains(cpu));
    if shields.iter().any(|shield| shield.idle_siblings.contains(cpu)) {
        return MapRole::Idle;
    }
    match shields.iter().any(|shield| shield.cpus.contains(cpu)) {
        true => MapRole::Shielded,
        false if isolated => MapRole::Isolated,
        false if shields.is_empty() => MapRole::Used,
        false => MapRole::Housekeeping,
    }
}

fn map(topology: &Topology, role: &dyn Fn(usize) -> MapRole) -> CpuMap {
    let mut packages: Vec<(Option<i64>, Vec<&Cpu>)> = Vec::new();
    for cpu in &topology.cpus {
        match packages.iter_mut().find(|(number, _)| *number == cpu.package) {
            Some((_, cpus)) => cpus.push(cpu),
            None => packages.push((cpu.package, vec![cpu])),
        }
    }
    let packages = packages.into_iter().map(|(number, cpus)| Package {
        name: number.map_or_else(String::new, |number| format!("package {number}")),
        groups: groups(topology, &cpus, role),
    });
    CpuMap { packages: packages.collect(), offline: topology.offline.clone() }
}

/// The CPUs of a package by NUMA node and last-level cache.
fn groups(topology: &Topology, cpus: &[&Cpu], role: &dyn Fn(usize) -> MapRole) -> Vec<NodeGroup> {
    let nodes = topology.nodes.len() > 1;
    let mut groups: Vec<(String, Option<&CpuSet>, Vec<&Cpu>)> = Vec::new();
    for cpu in cpus {
        let node = cpu.node.filter(|_| nodes).map(|node| format!("NUMA node {node}"));
        let parts = [node, cache(cpu, 3)].into_iter().flatten();
        let name = joined(parts, " · ");
        let shared = cpu.sharing(3);
        match groups.iter_mut().find(|(known, with, _)| *known == name && *with == shared) {
            Some((_, _, cpus)) => cpus.push(cpu),
            None => groups.push((name, shared, vec![cpu])),
        }
    }
    let groups = groups.into_iter();
    groups.map(|(name, _, cpus)| NodeGroup { name, clusters: clusters(&cpus, role) }).collect()
}

/// The cores by the L2 cache that they share.
fn clusters(cpus: &[&Cpu], role: &dyn Fn(usize) -> MapRole) -> Vec<Cluster> {
    let mut clusters: Vec<(CpuSet, Cluster)> = Vec::new();
    let mut seen = CpuSet::new();
    for cpu in cpus {
        if seen.contains(cpu.cpu) {
            continue;
        }
        let threads: Vec<usize> = match cpu.siblings.is_empty() {
            true => vec![cpu.cpu],
            false => cpu.siblings.iter().collect(),
        };
        seen = seen.union(&threads.iter().copied().collect());
        let kind = match cpu.kind {
            Some(CoreKind::Performance) => "P core",
            Some(CoreKind::Efficiency) => "E core",
            None => "core",
        };
        let name = cpu.core.map_or_else(|| kind.to_owned(), |core| format!("{kind} {core}"));
        let core = Core { name, cpus: threads.iter().map(|cpu| (*cpu, role(*cpu))).collect() };
        // Some hypervisors report that the threads of a core do not share its caches: they do.
        let shared = cpu.sharing(2).cloned().unwrap_or_default().union(&cpu.siblings);
        match clusters.iter_mut().find(|(known, _)| *known == shared) {
            Some((_, cluster)) => cluster.cores.push(core),
            None => {
                let name = cache(cpu, 2).unwrap_or_default();
                clusters.push((shared, Cluster { name, cores: vec![core] }));
            }
        }
    }
    clusters.into_iter().map(|(_, cluster)| cluster).collect()
}

/// The cache of a CPU: `L3 32 MiB`; `None` when the kernel does not report it.
fn cache(cpu: &Cpu, level: u32) -> Option<String> {
    let mut caches = cpu.caches.iter();
    let cache = caches.find(|c| c.level == level && c.kind != "Instruction")?;
    Some(match cache.size_kib {
        Some(kib) => format!("L{level} {}", crate::report::machine::size(kib)),
        None => format!("L{level}"),
    })
}

fn table(topology: &Topology, role: &dyn Fn(usize) -> MapRole) -> Table {
    let columns = ["CPU", "role", "core", "siblings", "L2 with", "L3 with", "node", "package"];
    let rows = topology.cpus.iter().map(|cpu| {
        vec![
            TableCell::new(cpu.cpu),
            TableCell::new(role(cpu.cpu).word()),
            text_or_dash(cpu.core),
            TableCell::new(&cpu.siblings),
            text_or_dash(cpu.sharing(2)),
            text_or_dash(cpu.sharing(3)),
            text_or_dash(cpu.node),
            text_or_dash(cpu.package),
        ]
    });
    let mut rows: Vec<Vec<TableCell>> = rows.collect();
    rows.extend(topology.offline.iter().map(|cpu| {
        let mut row = vec![TableCell::new(cpu), TableCell::new(MapRole::Offline.word())];
        row.resize(columns.len(), TableCell::new("–"));
        row
    }));
    Table::new("CPUs and what they share", columns, rows)
}

fn text_or_dash(value: Option<impl Display>) -> TableCell {
    value.map_or_else(|| TableCell::new("–"), TableCell::new)
}
