//! A [`Machine`] for people, one screen: what it is, how its CPUs lie, what is isolated, what
//! stands in the way, what could not be read. Pure.

use super::table::{Align, fit, fold};
use crate::survey::{CgroupMode, CoreKind, Irq, IrqMovability, Machine, SurveyFinding, Topology};
use cpushield_linux::CpuSet;
use std::collections::BTreeMap;

/// Groups of one kind in a row of the tree; more are counted together.
const ROWS_MAX: usize = 8;
/// Machines with more CPUs than this are shown in few rows.
const CPUS_MAX: usize = 32;
/// Names in one line; more are counted.
const NAMES_MAX: usize = 6;

/// The text of `cpushield survey`, no wider than `width` where that is possible.
#[must_use]
pub fn machine_text(machine: &Machine, width: usize) -> String {
    let mut text = head(machine, width);
    text.push_str("\nCPUs\n");
    text.push_str(&tree(&machine.topology));
    text.push_str("\nIsolated now\n");
    for line in isolation(machine) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str("\nWhat runs\n");
    for line in activity(machine) {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&findings("In the way", &machine.conflicts));
    text.push_str(&findings("Firmware and hardware", &machine.firmware));
    if !machine.notes.is_empty() {
        text.push_str("\nNot read, and why\n");
        for note in &machine.notes {
            text.push_str(&format!("  {}: {}\n", note.what, note.why));
        }
    }
    fold(&text, width)
}

/// `1 core`, `2 cores`.
fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

fn head(machine: &Machine, width: usize) -> String {
    let row = |(name, text): (&str, String)| vec![format!("{name:<8}"), text];
    let rows = [
        ("Machine", identity(machine)),
        ("Kernel", kernel(machine)),
        ("Cgroups", cgroups(machine)),
        ("Power", power(machine)),
        ("Tracing", tracing(machine)),
    ];
    fit("", &[Align::Left, Align::Left], &rows.map(row), width)
}

fn identity(machine: &Machine) -> String {
    let topology = &machine.topology;
    let cores = topology.groups(|cpu| Some(&cpu.siblings)).len();
    let threads = topology.cpus.iter().map(|cpu| cpu.siblings.len()).max().unwrap_or(1);
    let mut parts = Vec::new();
    parts.extend(topology.model.clone());
    parts.extend(machine.kernel.arch.clone().filter(|_| topology.model.is_none()));
    let each = if threads > 1 { format!(" of up to {threads} threads") } else { String::new() };
    parts.push(format!(
        "{} in {}{each}",
        count(topology.online.len(), "CPU"),
        count(cores, "core")
    ));
    let packages = topology.groups(|cpu| Some(&cpu.package_cpus)).len();
    if packages > 1 {
        parts.push(count(packages, "package"));
    }
    if topology.nodes.len() > 1 {
        parts.push(count(topology.nodes.len(), "NUMA node"));
    }
    parts.extend(topology.kind_source.map(|source| format!("kinds of cores by {source}")));
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
        None => "real-time or not: unknown".to_owned(),
    });
    parts.extend(kernel.hz.map(|hz| format!("{hz} ticks/s")));
    parts.extend(kernel.clocksource.as_ref().map(|clock| format!("clock {clock}")));
    parts.join(", ")
}

fn cgroups(machine: &Machine) -> String {
    let cgroup = &machine.cgroup;
    let (mode, beside) = match cgroup.mode {
        CgroupMode::None => return "no cpusets to be had".to_owned(),
        CgroupMode::V1 => ("v1", ""),
        CgroupMode::Hybrid => ("v1 for cpusets", ", together with v2"),
        CgroupMode::V2 => ("v2", ""),
    };
    let owner = if cgroup.systemd { "systemd owns the tree" } else { "no systemd" };
    let mount = cgroup.mount.as_deref().unwrap_or("?");
    format!("{mode} at {mount}{beside}, {owner}, {}", count(cgroup.groups.len(), "cpuset"))
}

fn power(machine: &Machine) -> String {
    let power = &machine.power;
    let mut parts = Vec::new();
    for (governor, cpus) in &power.governors {
        parts.push(format!("governor {governor} on CPU {cpus}"));
    }
    parts.push(match &power.cpufreq_driver {
        Some(driver) => format!("frequency by {driver}"),
        None => "frequency not controlled here".to_owned(),
    });
    let states: Vec<String> = power
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .map(|state| format!("{} {} µs", state.name, state.latency_us))
        .collect();
    if !states.is_empty() {
        parts.push(format!("idle states {}", states.join(", ")));
    }
    parts.join("; ")
}

fn tracing(machine: &Machine) -> String {
    let tracing = &machine.tracing;
    match (&tracing.tracefs, tracing.supported) {
        (Some(mount), _) => {
            let wanted = ["osnoise", "timerlat", "hwlat", "function"];
            let has = |name: &&str| tracing.tracers.iter().any(|tracer| tracer == name);
            let tracers: Vec<&str> = wanted.into_iter().filter(has).collect();
            let clock = if tracing.tsc_clock { ", clock on the TSC" } else { "" };
            let tracers = if tracers.is_empty() { "none".to_owned() } else { tracers.join(", ") };
            format!("{mount}; tracers: {tracers}{clock}")
        }
        (None, Some(true)) => "the kernel can, tracefs is not mounted".to_owned(),
        (None, Some(false)) => "the kernel cannot".to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

/// Packages, the far caches in them, the near caches in these with their cores.
fn tree(topology: &Topology) -> String {
    let mut text = String::new();
    let packages = topology.groups(|cpu| Some(&cpu.package_cpus));
    let all = [&topology.online];
    for package in if packages.is_empty() { &all[..] } else { &packages[..] } {
        text.push_str(&package_tree(topology, package));
    }
    let out: CpuSet = topology.cpus.iter().map(|cpu| cpu.cpu).collect();
    let lost = topology.online.minus(&packages.iter().fold(CpuSet::new(), |a, b| a.union(b)));
    if !packages.is_empty() && !lost.is_empty() {
        text.push_str(&format!("  CPU {}: package unknown\n", lost.and(&out)));
    }
    if !topology.offline.is_empty() {
        text.push_str(&format!("  CPU {}: offline\n", topology.offline));
    }
    for node in topology.nodes.iter().filter(|node| node.cpus.is_empty()) {
        let size = node.memory_kib.map(|kib| format!(" ({})", size(kib))).unwrap_or_default();
        text.push_str(&format!("  node {}: memory only{size}\n", node.node));
    }
    text
}

fn package_tree(topology: &Topology, package: &CpuSet) -> String {
    let inside = |set: &&&CpuSet| set.is_subset(package);
    let far = topology.groups(|cpu| cpu.sharing(3));
    let far: Vec<&CpuSet> = far.iter().filter(inside).copied().collect();
    let number = package.first().and_then(|cpu| topology.cpu(cpu)).and_then(|cpu| cpu.package);
    let number = number.map(|n| format!("package {n}: ")).unwrap_or_default();
    // One far cache for the whole package is said in the same line.
    if far.len() == 1 && far[0] == package {
        let l3 = cache_name(topology, package, 3);
        let text = format!("  {number}CPU {}{}{l3}\n", list(package), nodes_of(topology, package));
        return text + &near(topology, package, "    ");
    }
    let mut text = format!("  {number}CPU {}{}\n", list(package), nodes_of(topology, package));
    if far.is_empty() {
        return text + &near(topology, package, "    ");
    }
    for set in far {
        let l3 = cache_name(topology, set, 3);
        text.push_str(&format!("    CPU {}{}{l3}\n", list(set), nodes_of(topology, set)));
        text.push_str(&near(topology, set, "      "));
    }
    text
}

/// `, node 0 (16 GiB)`; nothing on machines of one node.
fn nodes_of(topology: &Topology, cpus: &CpuSet) -> String {
    if topology.nodes.len() < 2 {
        return String::new();
    }
    let here = topology.nodes.iter().filter(|node| node.cpus.intersects(cpus));
    here.map(|node| match node.memory_kib {
        Some(kib) => format!(", node {} ({})", node.node, size(kib)),
        None => format!(", node {}", node.node),
    })
    .collect()
}

/// `, L3 32 MiB` of a set of CPUs.
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

/// What makes rows of the tree alike: kind of core, L2, cores in it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TreeRowShape {
    kind: Option<CoreKind>,
    l2: String,
    cores: usize,
    threads: usize,
}

/// The L2 clusters among these CPUs; many alike become one row.
fn near(topology: &Topology, cpus: &CpuSet, indent: &str) -> String {
    let mut rows: Vec<(TreeRowShape, Vec<CpuSet>)> = Vec::new();
    let mut seen = CpuSet::new();
    for cpu in topology.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)) {
        if seen.contains(cpu.cpu) {
            continue;
        }
        // Some hypervisors say that the threads of a core do not share its caches: they do.
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
    let rows = rows.iter().flat_map(|(shape, groups)| near_rows(topology, shape, groups));
    // What is all of the line above is not listed again.
    rows.map(|(group, what)| {
        if group == *cpus {
            format!("{indent}{what}\n")
        } else {
            format!("{indent}CPU {}: {what}\n", list(&group))
        }
    })
    .collect()
}

/// The cores that a set of CPUs consists of.
fn cores_in<'a>(topology: &'a Topology, cpus: &CpuSet) -> Vec<&'a CpuSet> {
    topology.groups(|cpu| Some(&cpu.siblings).filter(|_| cpus.contains(cpu.cpu)))
}

/// Rows for clusters of one shape: what each is, or what all are together.
fn near_rows(
    topology: &Topology,
    shape: &TreeRowShape,
    groups: &[CpuSet],
) -> Vec<(CpuSet, String)> {
    let kind = match shape.kind {
        Some(CoreKind::Performance) => "performance ",
        Some(CoreKind::Efficiency) => "efficiency ",
        None => "",
    };
    let threads = match shape.threads {
        0 | 1 => String::new(),
        n => format!(" of {n} threads"),
    };
    let cores = |n: usize| match n {
        1 => format!("one {kind}core{threads}"),
        n => format!("{n} {kind}cores{threads}"),
    };
    let alone = shape.cores == 1;
    let many = groups.len() > ROWS_MAX || topology.online.len() > CPUS_MAX;
    if groups.len() > 1 && (many || (alone && shape.threads < 2)) {
        let all = groups.iter().fold(CpuSet::new(), |all, group| all.union(group));
        let clusters = format!(" in {} clusters", groups.len());
        let clusters = if alone { "" } else { &clusters };
        let each = if shape.l2.is_empty() { "" } else { " each" };
        let what = cores(shape.cores * groups.len());
        return vec![(all, format!("{what}{clusters}{}{each}", shape.l2))];
    }
    let row = |group: &CpuSet| {
        let sets: Vec<String> = cores_in(topology, group).iter().map(ToString::to_string).collect();
        // Several cores of several threads: say which threads are one core.
        let pairs = format!(" ({})", sets.join(" | "));
        let pairs = if !alone && shape.threads > 1 { &pairs } else { "" };
        (group.clone(), format!("{}{pairs}{}", cores(shape.cores), shape.l2))
    };
    groups.iter().map(row).collect()
}

/// A list of CPUs; long ones in regular steps are said as such.
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
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let of = |unit: u64| kib as f64 / unit as f64;
    let (value, unit) = match kib {
        0..1024 => return format!("{kib} KiB"),
        1024..1_048_576 => (of(1024), "MiB"),
        _ => (of(1_048_576), "GiB"),
    };
    let digits = if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") };
    format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

fn isolation(machine: &Machine) -> Vec<String> {
    let now = &machine.isolation;
    let mut lines = Vec::new();
    let mut say = |cpus: Option<&CpuSet>, what: &str| {
        if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
            lines.push(format!("CPU {cpus}: {what}"));
        }
    };
    let kernel = now.isolated.as_ref().filter(|cpus| !cpus.is_empty());
    let domain = kernel.unwrap_or(&now.isolcpus_domain);
    match machine.isolated_somehow() {
        somehow if somehow.is_empty() => {
            say(Some(domain), "out of load balancing since boot (isolcpus)");
        }
        somehow => say(
            Some(&somehow),
            "shown as isolated by the kernel; how is not known, for the command line is not",
        ),
    }
    say(now.nohz_full.as_ref(), "the tick stops while one task runs (nohz_full)");
    say(Some(&now.rcu_nocbs), "RCU callbacks run elsewhere (rcu_nocbs)");
    say(Some(&now.managed_irq), "managed interrupts avoid these CPUs (isolcpus=managed_irq)");
    say(now.partitions.as_ref(), "isolated by a cgroup partition");
    let online = &machine.topology.online;
    let mut only = |cpus: Option<&CpuSet>, what: &str| {
        if let Some(cpus) = cpus.filter(|cpus| !online.is_subset(cpus)) {
            lines.push(format!("{what} CPU {cpus} only"));
        }
    };
    only(machine.irq_default.as_ref(), "new interrupts go to");
    only(now.unbound_work.as_ref(), "unbound work queues run on");
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    if now.nohz_full.as_ref().is_none_or(CpuSet::is_empty) {
        lines.push(match machine.can_stop_tick() {
            Some(true) => {
                "the kernel can stop the tick, but only when booted with nohz_full=".to_owned()
            }
            Some(false) => "this kernel cannot stop the tick (built without NO_HZ_FULL)".to_owned(),
            None => "whether the kernel can stop the tick is not known".to_owned(),
        });
    }
    lines
}

fn activity(machine: &Machine) -> Vec<String> {
    let kthreads = machine.tasks.iter().filter(|placed| placed.task.kthread);
    let bound = kthreads.clone().filter(|placed| placed.task.bound).count();
    let kernel = kthreads.count();
    let user = machine.tasks.len() - kernel;
    let mut lines = vec![format!(
        "{}; {}, {bound} of them bound to their CPUs by the kernel",
        count(user, "user thread"),
        count(kernel, "kernel thread"),
    )];
    lines.extend(interrupts(&machine.irqs));
    for device in machine.devices.iter().take(NAMES_MAX) {
        let node = device.node.map(|node| format!(", node {node}")).unwrap_or_default();
        let everywhere = machine.topology.online.is_subset(&device.local);
        let near = format!(", near CPU {}", list(&device.local));
        let near = if everywhere || device.local.is_empty() { "" } else { &near };
        let irqs = count(device.irqs.len(), "interrupt");
        let driver = device.driver.iter().map(|driver| format!(", {driver}")).collect::<String>();
        lines.push(format!("{} ({}{driver}): {irqs}{near}{node}", device.name, device.class));
    }
    if machine.devices.len() > NAMES_MAX {
        lines.push(format!("and {} more devices", machine.devices.len() - NAMES_MAX));
    }
    lines
}

fn interrupts(irqs: &[Irq]) -> Vec<String> {
    let used: Vec<&Irq> = irqs.iter().filter(|irq| !irq.actions.is_empty()).collect();
    let movable = used.iter().filter(|irq| irq.movable == IrqMovability::Yes).count();
    let mut lines =
        vec![format!("{} in use, {movable} can be moved", count(used.len(), "interrupt"))];
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
        let what = if unknown { "not known to move" } else { "placed by the kernel alone" };
        let shown = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(NAMES_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("  {what} ({why}): {shown}{more}"));
    }
    lines
}

fn findings(title: &str, findings: &[SurveyFinding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    for finding in findings {
        text.push_str(&format!("  {}\n      {}\n", finding.seen, finding.advice));
    }
    text
}
