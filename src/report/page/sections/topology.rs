//! Where the shield is: the map of the machine's CPUs and what each is for.

use crate::plan::Shield;
use crate::report::page::block::{
    Cluster, Core, CpuMap, Drawing, MapRole, NodeGroup, Package, Picture, ReportBlock, Table,
    TableCell, TableColumn,
};
use crate::report::page::material::ReportMaterial;
use crate::survey::{CoreKind, Cpu, Machine, Topology};
use cpushield_linux::CpuSet;

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let several = material.machines.len() > 1;
    let mut blocks = Vec::new();
    let shield = material.settings.last().map(|settings| &settings.it.plan);
    for (n, machine) in material.machines.iter().enumerate() {
        if several {
            blocks.push(ReportBlock::Heading(machine.label.clone()));
        }
        let picture = picture(&machine.it, shield.map(|plan| &plan.shield), n);
        blocks.push(ReportBlock::Picture(Box::new(picture)));
    }
    if let Some(plan) = shield {
        if material.machines.is_empty() {
            let (cpus, rest) = (&plan.shield.cpus, &plan.shield.housekeeping);
            blocks.push(ReportBlock::Text(format!(
                "Shielded: CPU {cpus}. Housekeeping: CPU {rest}."
            )));
        }
        if !plan.why.is_empty() {
            blocks.push(ReportBlock::Heading("Why these CPUs".to_owned()));
            blocks.push(ReportBlock::List(plan.why.clone()));
        }
    }
    blocks
}

fn picture(machine: &Machine, shield: Option<&Shield>, n: usize) -> Picture {
    let topology = &machine.topology;
    let role = |cpu: usize| role(machine, shield, cpu);
    let map = map(topology, &role);
    let listed = |wanted: MapRole| -> CpuSet {
        topology.cpus.iter().map(|cpu| cpu.cpu).filter(|cpu| role(*cpu) == wanted).collect()
    };
    let roles = [
        MapRole::Shielded,
        MapRole::Idle,
        MapRole::Housekeeping,
        MapRole::Isolated,
        MapRole::Used,
        MapRole::Offline,
    ];
    let mut parts = Vec::new();
    for wanted in roles {
        let cpus =
            if wanted == MapRole::Offline { topology.offline.clone() } else { listed(wanted) };
        if !cpus.is_empty() {
            parts.push(format!("CPU {cpus} {}", wanted.word()));
        }
    }
    Picture {
        id: if n == 0 { "map".to_owned() } else { format!("map-{}", n + 1) },
        title: "The CPUs of this machine".to_owned(),
        about: format!("{}.", parts.join("; ")),
        how: "A CPU lies inside of the core, the caches and the memory node it shares with its \
              neighbours; what a shielded CPU shares with others can still delay it a little."
            .to_owned(),
        drawing: Drawing::Map(map),
        table: table(topology, &role),
    }
}

fn role(machine: &Machine, shield: Option<&Shield>, cpu: usize) -> MapRole {
    let isolated = machine.isolation.isolated.as_ref().is_some_and(|set| set.contains(cpu));
    match shield {
        Some(shield) if shield.idle_siblings.contains(cpu) => MapRole::Idle,
        Some(shield) if shield.cpus.contains(cpu) => MapRole::Shielded,
        _ if isolated => MapRole::Isolated,
        Some(_) => MapRole::Housekeeping,
        None => MapRole::Used,
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
    let package = |(number, cpus): (Option<i64>, Vec<&Cpu>)| Package {
        name: number.map_or_else(String::new, |number| format!("package {number}")),
        groups: groups(topology, &cpus, role),
    };
    CpuMap {
        packages: packages.into_iter().map(package).collect(),
        offline: topology.offline.clone(),
    }
}

/// CPUs of a package by memory node and last cache.
fn groups(topology: &Topology, cpus: &[&Cpu], role: &dyn Fn(usize) -> MapRole) -> Vec<NodeGroup> {
    let nodes = topology.nodes.len() > 1;
    let mut groups: Vec<(String, Option<&CpuSet>, Vec<&Cpu>)> = Vec::new();
    for cpu in cpus {
        let node = cpu.node.filter(|_| nodes).map(|node| format!("NUMA node {node}"));
        let parts = [node, cache(cpu, 3)].into_iter().flatten();
        let name = parts.collect::<Vec<_>>().join(" · ");
        let shared = cpu.sharing(3);
        match groups.iter_mut().find(|(known, with, _)| *known == name && *with == shared) {
            Some((_, _, cpus)) => cpus.push(cpu),
            None => groups.push((name, shared, vec![cpu])),
        }
    }
    let group = |(name, _, cpus): (String, Option<&CpuSet>, Vec<&Cpu>)| NodeGroup {
        name,
        clusters: clusters(&cpus, role),
    };
    groups.into_iter().map(group).collect()
}

/// Cores by the L2 cache they share.
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
        // Some hypervisors say that the threads of a core do not share its caches: they do.
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

/// `L3 32 MiB` of a CPU; nothing when the kernel does not say.
fn cache(cpu: &Cpu, level: u32) -> Option<String> {
    let of_level = |cache: &&crate::survey::Cache| cache.level == level;
    let cache = cpu.caches.iter().find(|c| of_level(c) && c.kind != "Instruction")?;
    Some(match cache.size_kib {
        Some(kib) => format!("L{level} {}", crate::report::machine::size(kib)),
        None => format!("L{level}"),
    })
}

fn table(topology: &Topology, role: &dyn Fn(usize) -> MapRole) -> Table {
    let columns = ["CPU", "what it is for", "core", "siblings", "L2 with", "L3 with", "node"];
    let mut columns: Vec<TableColumn> = columns.map(TableColumn::words).to_vec();
    columns.push(TableColumn::words("package"));
    let dash = |text: Option<String>| TableCell::new(text.unwrap_or_else(|| "–".to_owned()));
    let row = |cpu: &Cpu| {
        let sharing = |level| dash(cpu.sharing(level).map(CpuSet::to_string));
        vec![
            TableCell::new(cpu.cpu.to_string()),
            TableCell::new(role(cpu.cpu).word()),
            dash(cpu.core.map(|core| core.to_string())),
            TableCell::new(cpu.siblings.to_string()),
            sharing(2),
            sharing(3),
            dash(cpu.node.map(|node| node.to_string())),
            dash(cpu.package.map(|package| package.to_string())),
        ]
    };
    let mut rows: Vec<Vec<TableCell>> = topology.cpus.iter().map(row).collect();
    rows.extend(topology.offline.iter().map(|cpu| {
        let mut row =
            vec![TableCell::new(cpu.to_string()), TableCell::new(MapRole::Offline.word())];
        row.resize(columns.len(), TableCell::new("–"));
        row
    }));
    Table { caption: "CPUs and what they share".to_owned(), columns, rows }
}
