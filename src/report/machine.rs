//! Survey → blocks: its identity, the topology of its CPUs, what is isolated, what
//! conflicts with a shield, and what could not be read. Pure.

use super::blocks::{ReportBlock, Table, TableCell, TableHead, TextLine, TextTone};
use super::isolated_now::isolation_lines;
use super::lint::lint_blocks;
use super::plan::list_names;
use crate::documents::boot::LintFinding;
use crate::documents::count_text::{joined, many};
use crate::documents::machine::{
    CgroupMode, CoreKind, IdleState, IdleStates, Irq, IrqMovability, Machine, SurveyFinding,
    Topology,
};
use crate::plan::Readiness;
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

/// Alike groups that get a row each in the tree; more become one row.
const ROWS_MAX: usize = 8;
/// On machines with more CPUs than this, alike groups always become one row.
const CPUS_MAX: usize = 32;
/// Names that one line lists; the others are counted.
const NAMES_MAX: usize = 6;

/// The blocks of `cpushield survey`; `findings` are those about the kernel command line.
#[must_use]
pub fn blocks(machine: &Machine, findings: &[LintFinding]) -> Vec<ReportBlock> {
    let mut blocks = lint_blocks(findings);
    blocks.push(facts(machine));
    blocks.extend(ReportBlock::section("CPUs", tree(&machine.topology)));
    blocks.extend(background(machine));
    blocks
}

/// The blocks of a machine without a shield: also whether it is ready for one, and what to do next.
#[must_use]
pub fn blocks_with_readiness(machine: &Machine, findings: &[LintFinding]) -> Vec<ReportBlock> {
    let readiness = Readiness::assess(machine);
    let tone = match readiness {
        Readiness::Ready => TextTone::Good,
        Readiness::AfterBoot { .. } | Readiness::TickRemains => TextTone::Doubt,
        Readiness::Cannot { .. } => TextTone::Bad,
    };
    let mut blocks = with_verdict(tone, &readiness.to_string(), blocks(machine, findings));
    if let Some(next) = readiness.next_step() {
        let next = TextLine::remark(TextTone::Plain, "Next", next);
        blocks.extend([ReportBlock::Space, ReportBlock::line(next)]);
    }
    blocks
}

/// The blocks of a machine with active shields on these CPUs. A plan for another shield would prove
/// nothing there.
#[must_use]
pub fn blocks_with_shield(
    machine: &Machine,
    findings: &[LintFinding],
    cpus: &CpuSet,
) -> Vec<ReportBlock> {
    let verdict = format!("CPU {cpus} is shielded; `cpushield status` shows the shield");
    with_verdict(TextTone::Good, &verdict, blocks(machine, findings))
}

/// The blocks of a machine of which it is unknown whether a shield is active.
#[must_use]
pub fn blocks_without_verdict(
    machine: &Machine,
    findings: &[LintFinding],
    why: &str,
) -> Vec<ReportBlock> {
    let verdict = format!("unknown, because the active shields are unknown: {why}");
    with_verdict(TextTone::Doubt, &verdict, blocks(machine, findings))
}

fn with_verdict(tone: TextTone, verdict: &str, blocks: Vec<ReportBlock>) -> Vec<ReportBlock> {
    let verdict = ReportBlock::line(TextLine::remark(tone, "Verdict", verdict));
    [verdict].into_iter().chain(blocks).collect()
}

/// The machine and its kernel.
pub fn facts(machine: &Machine) -> ReportBlock {
    let rows = [
        ("Hardware", identity(machine)),
        ("Kernel", kernel(machine)),
        ("Cgroups", cgroups(machine)),
        ("Power", power(machine)),
        ("Tracing", tracing(machine)),
    ];
    let rows = rows.map(|(name, text)| [name, &text].map(TableCell::new).to_vec());
    let table = Table::new("Machine", ["property", "value"], rows.to_vec());
    ReportBlock::Table(table.with_head(TableHead::Caption))
}

/// What is isolated, what runs, what conflicts with a shield, and what could not be read.
pub fn background(machine: &Machine) -> Vec<ReportBlock> {
    let mut blocks = ReportBlock::section("Isolated now", isolation_lines(machine));
    blocks.extend(ReportBlock::section("What runs", activity(machine)));
    blocks.extend(findings("Conflicts with a shield", &machine.conflicts));
    blocks.extend(findings("Firmware and hardware", &machine.firmware));
    let unread = machine.notes.iter().map(|note| format!("{}: {}", note.what, note.why));
    blocks.extend(ReportBlock::doubts("What could not be read", unread));
    if !machine.unobserved.is_empty() {
        let names = machine.unobserved.join(", ");
        let line = format!("Could not be observed: {names}");
        blocks.extend([ReportBlock::Space, ReportBlock::line(TextLine::new(line))]);
    }
    blocks
}

fn identity(machine: &Machine) -> String {
    let topology = &machine.topology;
    let cores = topology.groups(|cpu| Some(&cpu.siblings)).len();
    let threads = topology.threads_per_core();
    let mut parts = Vec::new();
    parts.extend(topology.model.clone());
    parts.extend(machine.kernel.arch.clone().filter(|_| topology.model.is_none()));
    let each = if threads > 1 { format!(" of up to {threads} threads") } else { String::new() };
    parts.push(format!("{} in {}{each}", many(topology.online.len(), "CPU"), many(cores, "core")));
    let packages = topology.groups(|cpu| Some(&cpu.package_cpus)).len();
    if packages > 1 {
        parts.push(many(packages, "package"));
    }
    if topology.nodes.len() > 1 {
        parts.push(many(topology.nodes.len(), "NUMA node"));
    }
    parts.extend(topology.kind_source.map(|source| format!("core types from {source}")));
    match (machine.virt.guest, &machine.virt.hypervisor) {
        (Some(true), Some(name)) => parts.push(format!("guest of {name}")),
        (Some(true), None) => parts.push("guest".to_owned()),
        _ => {}
    }
    if let Some(container) = &machine.virt.container {
        parts.push(format!("in a container: {container}"));
    }
    parts.join(", ")
}

fn kernel(machine: &Machine) -> String {
    let kernel = &machine.kernel;
    let mut parts = vec![kernel.release.clone().unwrap_or_else(|| "release unknown".to_owned())];
    let source = kernel.realtime_source.as_deref().unwrap_or("");
    parts.push(match kernel.realtime {
        Some(true) => format!("real-time ({source})"),
        Some(false) => "not real-time".to_owned(),
        None => "unknown whether real-time".to_owned(),
    });
    parts.extend(kernel.hz.map(|hz| format!("{hz} ticks/s")));
    parts.extend(kernel.clocksource.as_ref().map(|clock| format!("clock {clock}")));
    parts.join(", ")
}

fn cgroups(machine: &Machine) -> String {
    let cgroup = &machine.cgroup;
    let (mode, also) = match cgroup.mode {
        CgroupMode::None if machine.tasks.is_empty() => return "unknown".to_owned(),
        CgroupMode::None => return "no cpuset controller".to_owned(),
        CgroupMode::V1 => ("v1", ""),
        CgroupMode::Hybrid => ("v1 for cpusets", ", together with v2"),
        CgroupMode::V2 => ("v2", ""),
    };
    let owner = if cgroup.systemd { "systemd owns the tree" } else { "no systemd" };
    let mount = cgroup.mount.as_deref().unwrap_or("?");
    format!("{mode} at {mount}{also}, {owner}, {}", many(cgroup.groups.len(), "cpuset"))
}

fn power(machine: &Machine) -> String {
    let power = &machine.power;
    let mut parts = Vec::new();
    for (governor, cpus) in &power.governors {
        parts.push(format!("governor {governor} on CPU {cpus}"));
    }
    parts.push(match &power.cpufreq_driver {
        Some(driver) => format!("cpufreq driver {driver}"),
        None => "no cpufreq driver".to_owned(),
    });
    parts.extend(power.turbo.map(|on| format!("turbo {}", if on { "on" } else { "off" })));
    let several = power.idle_states.len() > 1;
    parts.extend(power.idle_states.iter().map(|states| idle_states(states, several)));
    parts.join("; ")
}

/// `idle states POLL 0 µs, C1 2 µs (off)`, with the CPUs where others differ.
fn idle_states(IdleStates { cpus, states }: &IdleStates, several: bool) -> String {
    let states = states.iter().map(|IdleState { name, latency_us, disabled, usage }| {
        let remark = match (disabled, usage) {
            (true, _) => " (off)",
            (false, Some(0)) => " (never entered)",
            (false, _) => "",
        };
        format!("{name} {latency_us} µs{remark}")
    });
    let cpus = if several { format!(" of CPU {cpus}:") } else { String::new() };
    format!("idle states{cpus} {}", joined(states, ", "))
}

fn tracing(machine: &Machine) -> String {
    let tracing = &machine.tracing;
    match (&tracing.tracefs, tracing.supported) {
        (Some(mount), _) => {
            let wanted = ["osnoise", "timerlat", "hwlat", "function"];
            let tracers: Vec<&str> = wanted
                .into_iter()
                .filter(|name| tracing.tracers.iter().any(|tracer| tracer == name))
                .collect();
            let clock = if tracing.tsc_clock { ", TSC as trace clock" } else { "" };
            let tracers = if tracers.is_empty() { "none".to_owned() } else { tracers.join(", ") };
            format!("{mount}; tracers: {tracers}{clock}")
        }
        (None, Some(true)) => "supported, but tracefs is not mounted".to_owned(),
        (None, Some(false)) => "the kernel has no trace instances (added in 3.10)".to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

/// The packages, the L3 caches in each, and below them the L2 clusters with their cores.
fn tree(topology: &Topology) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let packages = topology.groups(|cpu| Some(&cpu.package_cpus));
    let all = [&topology.online];
    for package in if packages.is_empty() { &all[..] } else { &packages[..] } {
        lines.extend(package_tree(topology, package));
    }
    let out: CpuSet = topology.cpus.iter().map(|cpu| cpu.cpu).collect();
    let lost = topology.online.difference(&packages.iter().copied().collect());
    if !packages.is_empty() && !lost.is_empty() {
        let lost = lost.intersection(&out);
        lines.push(TextLine::new(format!("CPU {lost}: package unknown")));
    }
    if !topology.offline.is_empty() {
        lines.push(TextLine::new(format!("CPU {}: offline", topology.offline)));
    }
    for node in topology.nodes.iter().filter(|node| node.cpus.is_empty()) {
        let size = node.memory_kib.map(|kib| format!(" ({})", size(kib))).unwrap_or_default();
        lines.push(TextLine::new(format!("node {}: memory only{size}", node.node)));
    }
    lines
}

fn package_tree(topology: &Topology, package: &CpuSet) -> Vec<TextLine> {
    let mut far = topology.groups(|cpu| cpu.sharing(3));
    far.retain(|set| set.is_subset(package));
    let number = package.first().and_then(|cpu| topology.cpu(cpu)).and_then(|cpu| cpu.package);
    let number = number.map(|n| format!("package {n}: ")).unwrap_or_default();
    let nodes = nodes_of(topology, package);
    // A single L3 cache of the whole package is shown on the package's line.
    let whole = far.len() == 1 && far[0] == package;
    let l3 = if whole { cache_name(topology, package, 3) } else { String::new() };
    let mut lines = vec![TextLine::new(format!("{number}CPU {}{nodes}{l3}", list(package)))];
    if whole || far.is_empty() {
        lines.extend(clusters(topology, package).into_iter().map(TextLine::below));
        return lines;
    }
    for set in far {
        let l3 = cache_name(topology, set, 3);
        let cache = format!("CPU {}{}{l3}", list(set), nodes_of(topology, set));
        lines.push(TextLine::new(cache).below());
        lines.extend(clusters(topology, set).into_iter().map(|line| line.below().below()));
    }
    lines
}

/// `, node 0 (16 GiB)`; empty on machines with one node.
fn nodes_of(topology: &Topology, cpus: &CpuSet) -> String {
    if topology.nodes.len() < 2 {
        return String::new();
    }
    let nodes = topology.nodes.iter().filter(|node| node.cpus.intersects(cpus));
    nodes
        .map(|node| match node.memory_kib {
            Some(kib) => format!(", node {} ({})", node.node, size(kib)),
            None => format!(", node {}", node.node),
        })
        .collect()
}

/// The cache of a set of CPUs: `, L3 32 MiB`.
fn cache_name(topology: &Topology, cpus: &CpuSet, level: u32) -> String {
    let cpu = cpus.first().and_then(|cpu| topology.cpu(cpu));
    let cache = cpu.and_then(|cpu| {
        cpu.caches.iter().find(|cache| cache.level == level && cache.kind != "Instruction")
    });
    match cache.map(|cache| cache.size_kib) {
        Some(Some(kib)) => format!(", L{level} {}", size(kib)),
        Some(None) => format!(", L{level}"),
        None => String::new(),
    }
}

/// The properties that alike L2 clusters share.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TreeRowShape {
    kind: Option<CoreKind>,
    l2: String,
    cores: usize,
    threads: usize,
}

/// The L2 clusters among these CPUs; many alike clusters become one row.
fn clusters(topology: &Topology, cpus: &CpuSet) -> Vec<TextLine> {
    let mut rows: Vec<(TreeRowShape, Vec<CpuSet>)> = Vec::new();
    let mut seen = CpuSet::new();
    for cpu in topology.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)) {
        if seen.contains(cpu.cpu) {
            continue;
        }
        // Some hypervisors report that the threads of a core do not share its caches: they do.
        let group = cpu.sharing(2).map_or_else(CpuSet::new, CpuSet::clone).union(&cpu.siblings);
        seen = seen.union(&group);
        let shape = TreeRowShape {
            kind: cpu.kind,
            l2: cache_name(topology, &group, 2),
            cores: cores_in(topology, &group).len(),
            threads: cpu.siblings.len(),
        };
        match rows.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, groups)) => groups.push(group),
            None => rows.push((shape, vec![group])),
        }
    }
    let rows = rows.iter().flat_map(|(shape, groups)| cluster_rows(topology, shape, groups));
    // A cluster of all CPUs of the line above does not list them again.
    let lines = rows.map(|(group, what)| match group == *cpus {
        true => TextLine::new(what),
        false => TextLine::new(format!("CPU {}: {what}", list(&group))),
    });
    lines.collect()
}

/// The cores that a set of CPUs consists of.
fn cores_in<'a>(topology: &'a Topology, cpus: &CpuSet) -> Vec<&'a CpuSet> {
    topology.groups(|cpu| Some(&cpu.siblings).filter(|_| cpus.contains(cpu.cpu)))
}

/// Rows for clusters of one shape: one for each, or one for all of them.
fn cluster_rows(
    topology: &Topology,
    shape: &TreeRowShape,
    groups: &[CpuSet],
) -> Vec<(CpuSet, String)> {
    let alone = shape.cores == 1;
    let many = groups.len() > ROWS_MAX || topology.online.len() > CPUS_MAX;
    if groups.len() > 1 && (many || (alone && shape.threads < 2)) {
        let all: CpuSet = groups.iter().collect();
        let clusters = format!(" in {} clusters", groups.len());
        let clusters = if alone { "" } else { &clusters };
        let each = if shape.l2.is_empty() { "" } else { " each" };
        let what = shape.describe(shape.cores * groups.len());
        return vec![(all, format!("{what}{clusters}{}{each}", shape.l2))];
    }
    let rows = groups.iter().map(|group| {
        // With several cores of several threads, the row shows which threads are one core.
        let pairs = format!(" ({})", joined(cores_in(topology, group), " | "));
        let pairs = if !alone && shape.threads > 1 { &pairs } else { "" };
        (group.clone(), format!("{}{pairs}{}", shape.describe(shape.cores), shape.l2))
    });
    rows.collect()
}

impl TreeRowShape {
    /// `4 performance cores of 2 threads`.
    fn describe(&self, cores: usize) -> String {
        let kind = match self.kind {
            Some(CoreKind::Performance) => "performance ",
            Some(CoreKind::Efficiency) => "efficiency ",
            None => "",
        };
        let threads = match self.threads {
            0 | 1 => String::new(),
            n => format!(" of {n} threads"),
        };
        match cores {
            1 => format!("one {kind}core{threads}"),
            n => format!("{n} {kind}cores{threads}"),
        }
    }
}

/// A list of CPUs; a long list in regular steps becomes `0-62 in steps of 2`.
fn list(cpus: &CpuSet) -> String {
    let text = cpus.to_string();
    let all: Vec<usize> = cpus.iter().collect();
    let step = all.windows(2).map(|pair| pair[1] - pair[0]);
    match (step.clone().min(), step.max(), all.first(), all.last()) {
        (Some(least), Some(most), Some(first), Some(last)) if text.len() > 24 && least == most => {
            format!("{first}-{last} in steps of {least}")
        }
        _ => text,
    }
}

/// KiB as `48 KiB`, `1.25 MiB`, `30.9 GiB`.
pub(super) fn size(kib: u64) -> String {
    let mib = kib as f64 / 1024.0;
    let (value, unit) = match kib {
        0..1024 => return format!("{kib} KiB"),
        1024..1_048_576 => (mib, "MiB"),
        _ => (mib / 1024.0, "GiB"),
    };
    let digits = if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

fn activity(machine: &Machine) -> Vec<TextLine> {
    // Every machine has tasks, but a recording may have none of them.
    if machine.tasks.is_empty() && machine.irqs.is_empty() {
        return vec![TextLine::new("tasks and interrupts are unknown")];
    }
    let kthreads = machine.tasks.iter().filter(|placed| placed.task.kthread);
    let bound = kthreads.clone().filter(|placed| placed.task.bound).count();
    let kernel = kthreads.count();
    let user = machine.tasks.len() - kernel;
    let (user, kernel) = (many(user, "user thread"), many(kernel, "kernel thread"));
    let bound = format!("{user}; {kernel}, {bound} of them bound to their CPUs by the kernel");
    let mut lines = vec![TextLine::new(bound)];
    lines.extend(interrupts(machine));
    for device in machine.devices.iter().take(NAMES_MAX) {
        let node = device.node.map(|node| format!(", node {node}")).unwrap_or_default();
        let everywhere = machine.topology.online.is_subset(&device.local);
        let near = format!(", near CPU {}", list(&device.local));
        let near = if everywhere || device.local.is_empty() { "" } else { &near };
        let irqs = many(device.irqs.len(), "interrupt");
        let driver = device.driver.iter().map(|driver| format!(", {driver}")).collect::<String>();
        let name = format!("{} ({}{driver})", device.name, device.class);
        lines.push(TextLine::new(format!("{name}: {irqs}{near}{node}")));
    }
    if machine.devices.len() > NAMES_MAX {
        let more = machine.devices.len() - NAMES_MAX;
        lines.push(TextLine::new(format!("and {more} more devices")));
    }
    lines
}

fn interrupts(machine: &Machine) -> Vec<TextLine> {
    // The reason is among what could not be read.
    if machine.notes.iter().any(|note| note.what == "/proc/interrupts") {
        return vec![TextLine::new("the interrupts in use are unknown")];
    }
    let used: Vec<&Irq> = machine.irqs.iter().filter(|irq| !irq.actions.is_empty()).collect();
    let movable = used.iter().filter(|irq| irq.movable == IrqMovability::Yes).count();
    let count = many(used.len(), "interrupt");
    let unknown = used
        .iter()
        .filter(|irq| matches!(irq.movable, IrqMovability::Unknown(_) | IrqMovability::Denied(_)));
    let counts = match (movable, unknown.count()) {
        (movable, 0) => format!("{movable} can be moved"),
        (0, unknown) => format!("for {unknown} it is unknown whether they can be moved"),
        (movable, unknown) => format!("{movable} can be moved, {unknown} unknown"),
    };
    let mut lines = vec![TextLine::new(format!("{count} in use, {counts}"))];
    let mut stuck: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    for irq in used {
        let (refused, why) = match &irq.movable {
            IrqMovability::Yes => continue,
            IrqMovability::No(why) => (true, why),
            IrqMovability::Unknown(why) | IrqMovability::Denied(why) => (false, why),
        };
        stuck.entry((!refused, why)).or_default().push(format!("{} {}", irq.irq, irq.actions));
    }
    for ((unknown, why), names) in stuck {
        let what = if unknown { "unknown whether they can be moved" } else { "cannot be moved" };
        lines.push(
            TextLine::new(format!("{what} ({why}): {}", list_names(&names, NAMES_MAX))).below(),
        );
    }
    lines
}

/// Each finding with its advice.
fn findings(title: &str, findings: &[SurveyFinding]) -> Vec<ReportBlock> {
    let lines = findings.iter().flat_map(|finding| {
        let seen = match finding.devices.is_empty() {
            true => finding.seen.clone(),
            false => format!("{}: {}", finding.seen, list_names(&finding.devices, NAMES_MAX)),
        };
        [TextLine::new(seen), TextLine::new(&finding.advice).below().below()]
    });
    ReportBlock::section(title, lines)
}
