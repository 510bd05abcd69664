//! CPU topology from `/sys/devices/system/{cpu,node}` (Documentation/admin-guide/cputopology.rst).
//! Sets come as masks and as lists. Masks are read first: kernels before 2.6.26 have no lists, and
//! where the two differ on real machines, the masks are right (early 2.6 kernels wrote wrong
//! `shared_cpu_list`s). `package_cpus` and `core_cpus` (5.3) have older names with the same
//! contents. Very old and some embedded kernels have no topology at all: then each CPU is a core
//! and a note says so.

use super::caches::CacheReader;
use super::reader::{CpuSetSpelling::List, CpuSetSpelling::Mask, SurveyReader};
use super::{Cpu, Node, Topology, TunableReading, kinds};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cpuinfo::{self, Cpuinfo};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

pub(super) fn read_topology(r: &SurveyReader, cpuinfo: Option<&str>) -> Topology {
    let cpuinfo = cpuinfo.map(cpuinfo::parse).unwrap_or_default();
    let mut all = read_cpu_sets(r);
    all.model.clone_from(&cpuinfo.model);
    all.nodes = read_nodes(r, &all.online);
    let pmus = kinds::read_pmus(r);
    all.cpus = read_cpus(r, &all, &cpuinfo, pmus.as_ref());
    fill_packages(&mut all.cpus);
    if all.cpus.iter().all(|cpu| cpu.core.is_none() && cpu.package_cpus.is_empty()) {
        r.note(&format!("{CPU}/cpu*/topology"), "the kernel does not show which CPUs share a core");
    }
    all.kind_source = kinds::classify(&mut all.cpus, pmus.as_ref(), cpuinfo.parts().as_ref());
    all.smt_active = r.flag(&format!("{CPU}/smt/active"));
    all.smt_control = r.line(&format!("{CPU}/smt/control"));
    all
}

fn read_cpu_sets(r: &SurveyReader) -> Topology {
    let listed = list_cpu_directories(r);
    // Before 2.6.26 only the directories show it. A CPU that cannot go offline has no `online`.
    let online = r.list(&format!("{CPU}/online")).unwrap_or_else(|| {
        let cpus = listed.iter();
        cpus.filter(|cpu| r.flag(&format!("{CPU}/cpu{cpu}/online")).unwrap_or(true)).collect()
    });
    if online.is_empty() {
        r.note(&format!("{CPU}/online"), "no CPU is listed");
    }
    let present = r.list(&format!("{CPU}/present")).unwrap_or_else(|| listed.union(&online));
    let possible = r.list(&format!("{CPU}/possible")).unwrap_or_else(|| present.clone());
    Topology {
        offline: present.difference(&online),
        possible,
        present,
        online,
        ..Topology::default()
    }
}

/// CPUs that have a directory. When no file lists the CPUs, each directory is probed, because a
/// recording has only the paths that were read.
fn list_cpu_directories(r: &SurveyReader) -> CpuSet {
    let cpus = r.numbered(CPU, "cpu").into_iter();
    let files = ["online", "present"].map(|name| format!("{CPU}/{name}"));
    if files.iter().all(|file| r.host.exists(file)) {
        return cpus.collect();
    }
    cpus.filter(|cpu| r.host.exists(&format!("{CPU}/cpu{cpu}"))).collect()
}

fn read_cpus(
    r: &SurveyReader,
    all: &Topology,
    cpuinfo: &Cpuinfo,
    pmus: Option<&(CpuSet, CpuSet)>,
) -> Vec<Cpu> {
    let mut cores = SharingSets::new(r, &all.online, CORE, "core_id");
    let mut packages = SharingSets::new(r, &all.online, PACKAGE, "physical_package_id");
    let mut caches = CacheReader::new(r, &all.online);
    // The PMUs already show the core types.
    let mut strengths = pmus.is_none().then(|| CpuStrengths::new(r));
    let mut cpus = Vec::new();
    for cpu in all.online.iter() {
        let processor = cpuinfo.processors.get(&cpu);
        let core = cores.find(cpu, processor.and_then(|processor| processor.core));
        if core.cpus.as_ref().is_some_and(|siblings| !siblings.contains(cpu)) {
            let dir = format!("{CPU}/cpu{cpu}/topology");
            let why = "the list of SMT siblings of this CPU does not contain the CPU itself; it is \
                       treated as a separate core";
            r.note(&dir, why);
        }
        let siblings = core.cpus.filter(|siblings| siblings.contains(cpu));
        let siblings = siblings.unwrap_or_else(|| CpuSet::single(cpu));
        let package = packages.find(cpu, None);
        let strength = strengths.as_mut().map(|strengths| strengths.find(cpu, &siblings));
        let (capacity, max_khz) = strength.unwrap_or((None, None));
        let kind = pmus.map(|(fast, _)| fast.contains(cpu));
        let name_and_part = processor.map(|processor| (&processor.name, processor.part));
        let model = (name_and_part, kind, capacity, max_khz);
        cpus.push(Cpu {
            cpu,
            package: package.id,
            core: core.id,
            siblings,
            package_cpus: package.cpus.unwrap_or_default(),
            caches: caches.read(cpu, model),
            node: all.nodes.iter().find(|node| node.cpus.contains(cpu)).map(|node| node.node),
            kind: None,
            capacity,
            max_khz,
        });
    }
    cpus
}

/// The files with the CPUs of a core, with the older names and both spellings.
const CORE: [&str; 4] = ["core_cpus", "thread_siblings", "core_cpus_list", "thread_siblings_list"];
const PACKAGE: [&str; 4] =
    ["package_cpus", "core_siblings", "package_cpus_list", "core_siblings_list"];

/// A set of CPUs and its number; `None` when the kernel does not show it.
#[derive(Debug, Clone, Default)]
struct NumberedSet {
    cpus: Option<CpuSet>,
    id: Option<i64>,
}

/// Sets that partition the CPUs. Only the first CPU of a set is read; the kernel makes the relation
/// symmetric (`update_siblings_masks()` in drivers/base/arch_topology.c, `link_mask()` in
/// arch/x86/kernel/smpboot.c, 6.12).
struct SharingSets<'a> {
    r: &'a SurveyReader<'a>,
    online: &'a CpuSet,
    /// Names of the set's file, with the one that this kernel has first.
    names: [&'static str; 4],
    /// Name of the number's file.
    id: &'static str,
    known: BTreeMap<usize, NumberedSet>,
}

impl<'a> SharingSets<'a> {
    fn new(
        r: &'a SurveyReader<'a>,
        online: &'a CpuSet,
        names: [&'static str; 4],
        id: &'static str,
    ) -> SharingSets<'a> {
        SharingSets { r, online, names, id, known: BTreeMap::new() }
    }

    /// The set of a CPU; `id` is its number if another source has it.
    fn find(&mut self, cpu: usize, id: Option<i64>) -> NumberedSet {
        if let Some(known) = self.known.get(&cpu) {
            return known.clone();
        }
        let dir = format!("{CPU}/cpu{cpu}/topology");
        let mut found = None;
        for index in 0..self.names.len() {
            let name = self.names[index];
            let spelling = if name.ends_with("_list") { List } else { Mask };
            found = self.r.set(&[(&format!("{dir}/{name}"), spelling)]);
            if found.is_some() {
                self.names.swap(0, index);
                break;
            }
        }
        let cpus = found.map(|cpus| cpus.intersection(self.online));
        let id = id.or_else(|| self.r.id(&format!("{dir}/{}", self.id)));
        let set = NumberedSet { cpus, id };
        for member in set.cpus.iter().flat_map(CpuSet::iter) {
            self.known.entry(member).or_insert_with(|| set.clone());
        }
        set
    }
}

/// How fast CPUs are: `cpu_capacity`, which a kernel has for all CPUs or for none
/// (`register_cpu_capacity_sysctl()` in drivers/base/arch_topology.c, 6.12), else the highest
/// frequency. Both belong to a core, so only one of its threads is read. Where the first core has
/// no frequency either, there is no driver for frequencies, as in most guests.
struct CpuStrengths<'a> {
    r: &'a SurveyReader<'a>,
    has_capacity: Option<bool>,
    has_frequency: Option<bool>,
    /// The values that were read, by each thread of the core.
    by_thread: BTreeMap<usize, (Option<u32>, Option<u64>)>,
}

impl<'a> CpuStrengths<'a> {
    fn new(r: &'a SurveyReader<'a>) -> CpuStrengths<'a> {
        CpuStrengths { r, has_capacity: None, has_frequency: None, by_thread: BTreeMap::new() }
    }

    fn find(&mut self, cpu: usize, siblings: &CpuSet) -> (Option<u32>, Option<u64>) {
        if let Some(strength) = self.by_thread.get(&cpu) {
            return *strength;
        }
        let strength = self.read(cpu);
        self.by_thread.extend(siblings.iter().map(|sibling| (sibling, strength)));
        strength
    }

    fn read(&mut self, cpu: usize) -> (Option<u32>, Option<u64>) {
        let dir = format!("{CPU}/cpu{cpu}");
        if self.has_capacity != Some(false) {
            let capacity = self.r.number(&format!("{dir}/cpu_capacity"));
            self.has_capacity = self.has_capacity.or(Some(capacity.is_some()));
            if capacity.is_some() {
                return (capacity, None);
            }
        }
        if self.has_frequency == Some(false) {
            return (None, None);
        }
        let path = format!("{dir}/cpufreq/cpuinfo_max_freq");
        self.r.line_and_cache(&path);
        let absent = self.r.cached(&path) == Some(TunableReading::Absent);
        self.has_frequency = self.has_frequency.or(Some(!absent));
        (None, self.r.number(&path))
    }
}

/// Forms packages from equal package numbers, when the kernel shows no sets. Sets win over numbers:
/// some machines number packages of different nodes alike.
fn fill_packages(cpus: &mut [Cpu]) {
    if cpus.iter().any(|cpu| !cpu.package_cpus.is_empty()) {
        return;
    }
    let mut packages: BTreeMap<i64, CpuSet> = BTreeMap::new();
    for cpu in cpus.iter() {
        if let Some(package) = cpu.package {
            packages.entry(package).or_default().insert(cpu.cpu);
        }
    }
    for cpu in cpus {
        let package = cpu.package.and_then(|package| packages.get(&package));
        cpu.package_cpus = package.cloned().unwrap_or_default();
    }
}

fn read_nodes(r: &SurveyReader, online: &CpuSet) -> Vec<Node> {
    let mut nodes = Vec::new();
    for node in r.numbered(NODE, "node") {
        let dir = format!("{NODE}/node{node}");
        let (list, mask) = (format!("{dir}/cpulist"), format!("{dir}/cpumap"));
        let cpus = r.set(&[(&mask, Mask), (&list, List)]).unwrap_or_else(|| linked_cpus(r, node));
        let memory_kib = read_memory_kib(r, &format!("{dir}/meminfo"));
        nodes.push(Node { node, cpus: cpus.intersection(online), memory_kib });
    }
    nodes
}

/// The CPUs that a node links to. Each link is probed, because a recording has only the paths that
/// were read.
fn linked_cpus(r: &SurveyReader, node: usize) -> CpuSet {
    let dir = format!("{NODE}/node{node}");
    let cpus = r.numbered(&dir, "cpu").into_iter();
    cpus.filter(|cpu| r.host.exists(&format!("{dir}/cpu{cpu}"))).collect()
}

/// `Node 0 MemTotal:       32489480 kB`.
fn read_memory_kib(r: &SurveyReader, path: &str) -> Option<u64> {
    let text = r.optional(r.host.read(path))?;
    let total = text.lines().find_map(|line| {
        let (_, size) = line.split_once(" MemTotal:")?;
        size.trim().strip_suffix(" kB")?.trim().parse().ok()
    });
    if total.is_none() {
        r.note(path, "it has no `MemTotal:` line");
    }
    total
}
