//! CPU topology from `/sys/devices/system/{cpu,node}` (Documentation/admin-guide/cputopology.rst).
//! Sets come as masks and as lists. Masks are read first: kernels before 2.6.26 have nothing else,
//! and where real machines contradict themselves, the masks are right (early 2.6 kernels wrote
//! wrong `shared_cpu_list`s). `package_cpus` and `core_cpus` (5.3) have older names with the same
//! contents. Very old and some embedded kernels have no topology at all: then a CPU is its own core
//! and a note says so.

use super::reader::{Reader, Spelling::List, Spelling::Mask};
use super::{Cache, CoreKind, Cpu, Node, Topology};
use cpushield_linux::CpuSet;
use cpushield_linux::text::size;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// Neighbouring classes of cores differ at least so much in strength; less is binning of equal
/// cores (favoured cores of one part differ by up to 15 % in their highest frequency).
const CLASS_GAP_PERCENT: u64 = 120;

pub(super) fn topology(r: &Reader, cpuinfo: Option<&str>) -> Topology {
    let mut all = cpu_sets(r);
    all.model = cpuinfo.and_then(model);
    all.nodes = nodes(r, &all.online);
    all.cpus = all.online.iter().map(|cpu| one_cpu(r, cpu, &all)).collect();
    fill_packages(&mut all.cpus);
    if all.cpus.iter().all(|cpu| cpu.core.is_none() && cpu.package_cpus.is_empty()) {
        r.note(&format!("{CPU}/cpu*/topology"), "the kernel does not say which CPUs share a core");
    }
    classify(r, &mut all.cpus);
    all.smt_active = r.flag(&format!("{CPU}/smt/active"));
    all.smt_control = r.line(&format!("{CPU}/smt/control"));
    all
}

/// x86, loongarch and older ARM say `model name`; newer ARM have numbers only.
fn model(cpuinfo: &str) -> Option<String> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let mut names = fields.filter(|(key, _)| key.trim().eq_ignore_ascii_case("model name"));
    let words: Vec<&str> = names.next()?.1.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn cpu_sets(r: &Reader) -> Topology {
    let listed: CpuSet = r.numbered(CPU, "cpu").into_iter().collect();
    let online = r.list(&format!("{CPU}/online")).unwrap_or_else(|| {
        // Before 2.6.26 only the directories tell; `cpuN/online` is missing where a CPU cannot go.
        let on = |cpu: &usize| r.flag(&format!("{CPU}/cpu{cpu}/online")).unwrap_or(true);
        listed.iter().filter(on).collect()
    });
    if online.is_empty() {
        r.note(&format!("{CPU}/online"), "no CPU is listed");
    }
    let present = r.list(&format!("{CPU}/present")).unwrap_or_else(|| listed.union(&online));
    let possible = r.list(&format!("{CPU}/possible")).unwrap_or_else(|| present.clone());
    Topology { offline: present.minus(&online), possible, present, online, ..Topology::default() }
}

fn one_cpu(r: &Reader, cpu: usize, all: &Topology) -> Cpu {
    let dir = format!("{CPU}/cpu{cpu}/topology");
    let id = |name: &str| r.id(&format!("{dir}/{name}"));
    let set = |names: [&str; 4]| {
        let [a, b, c, d] = names.map(|name| format!("{dir}/{name}"));
        r.set(&[(&a, Mask), (&b, Mask), (&c, List), (&d, List)]).map(|cpus| cpus.and(&all.online))
    };
    let siblings = set(["core_cpus", "thread_siblings", "core_cpus_list", "thread_siblings_list"]);
    if siblings.as_ref().is_some_and(|siblings| !siblings.contains(cpu)) {
        r.note(&dir, "the SMT siblings of this CPU do not contain it: taken as a core of its own");
    }
    let siblings = siblings.filter(|siblings| siblings.contains(cpu));
    let package = ["package_cpus", "core_siblings", "package_cpus_list", "core_siblings_list"];
    let pair = |name: &str| {
        let (list, mask) = (format!("{dir}/{name}_list"), format!("{dir}/{name}"));
        r.set(&[(&mask, Mask), (&list, List)]).map(|cpus| cpus.and(&all.online))
    };
    Cpu {
        cpu,
        package: id("physical_package_id"),
        die: id("die_id"),
        // x86 prints 65535 (BAD_APICID of a u16) where it knows none.
        cluster: id("cluster_id").filter(|id| *id != 0xffff),
        core: id("core_id"),
        siblings: siblings.unwrap_or_else(|| CpuSet::one(cpu)),
        cluster_cpus: pair("cluster_cpus").unwrap_or_default(),
        package_cpus: set(package).unwrap_or_default(),
        die_cpus: pair("die_cpus").unwrap_or_default(),
        caches: caches(r, cpu, &all.online),
        node: all.nodes.iter().find(|node| node.cpus.contains(cpu)).map(|node| node.node),
        kind: None,
        capacity: r.number(&format!("{CPU}/cpu{cpu}/cpu_capacity")),
        max_khz: r.number(&format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq")),
    }
}

/// Where there are package numbers only, equal numbers make a package. Where there are sets too,
/// the sets count: some machines number packages of different nodes alike.
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
        let own = cpu.package.and_then(|package| packages.get(&package));
        cpu.package_cpus = own.cloned().unwrap_or_default();
    }
}

fn caches(r: &Reader, cpu: usize, online: &CpuSet) -> Vec<Cache> {
    let dir = format!("{CPU}/cpu{cpu}/cache");
    let mut caches: Vec<Cache> = r
        .numbered(&dir, "index")
        .into_iter()
        .filter_map(|index| {
            let file = |name: &str| format!("{dir}/index{index}/{name}");
            let (list, mask) = (file("shared_cpu_list"), file("shared_cpu_map"));
            let shared = r.set(&[(&mask, Mask), (&list, List)]).unwrap_or_default();
            let size = r.line(&file("size"));
            Some(Cache {
                level: r.number(&file("level"))?,
                kind: r.line(&file("type"))?,
                size_kib: size.and_then(|text| {
                    let kib = size::kib(&text).map_err(|e| e.at(&file("size")));
                    r.wanted(kib).filter(|kib| *kib > 0)
                }),
                // A machine that does not say who shares it: its own.
                shared: shared.union(&CpuSet::one(cpu)).and(online),
            })
        })
        .collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

fn nodes(r: &Reader, online: &CpuSet) -> Vec<Node> {
    let node = |node: usize| {
        let file = |name: &str| format!("{NODE}/node{node}/{name}");
        let (list, mask) = (file("cpulist"), file("cpumap"));
        // Without either file the links to its CPUs still tell.
        let linked = || r.numbered(&format!("{NODE}/node{node}"), "cpu").into_iter().collect();
        let cpus = r.set(&[(&mask, Mask), (&list, List)]).unwrap_or_else(linked);
        Node { node, cpus: cpus.and(online), memory_kib: memory_kib(r, &file("meminfo")) }
    };
    r.numbered(NODE, "node").into_iter().map(node).collect()
}

/// `Node 0 MemTotal:       32489480 kB`.
fn memory_kib(r: &Reader, path: &str) -> Option<u64> {
    let text = r.given(r.host.read(path))?;
    let total = |line: &str| -> Option<u64> {
        let (_, size) = line.split_once(" MemTotal:")?;
        size.trim().strip_suffix(" kB")?.trim().parse().ok()
    };
    let found = text.lines().find_map(total);
    if found.is_none() {
        r.note(path, "no line MemTotal: in it");
    }
    found
}

/// Tells strong cores from small ones: by the PMUs of hybrid x86 parts, else by capacity, else by
/// the highest frequency.
fn classify(r: &Reader, cpus: &mut [Cpu]) {
    let pmu = |name: &str| r.list(&format!("/sys/devices/{name}/cpus")).unwrap_or_default();
    let strong = pmu("cpu_core");
    let small = pmu("cpu_atom").union(&pmu("cpu_lowpower"));
    if !strong.is_empty() && !small.is_empty() {
        for cpu in cpus {
            cpu.kind = if strong.contains(cpu.cpu) {
                Some(CoreKind::Performance)
            } else if small.contains(cpu.cpu) {
                Some(CoreKind::Efficiency)
            } else {
                None
            };
        }
        return;
    }
    let capacity = |cpu: &Cpu| cpu.capacity.map(u64::from);
    let frequency = |cpu: &Cpu| cpu.max_khz;
    let limit = threshold(cpus, capacity).map(|limit| (limit, true));
    let limit = limit.or_else(|| threshold(cpus, frequency).map(|limit| (limit, false)));
    let Some((limit, by_capacity)) = limit else { return };
    for cpu in cpus {
        let strength = if by_capacity { capacity(cpu) } else { frequency(cpu) };
        cpu.kind = strength.map(|strength| {
            if strength >= limit { CoreKind::Performance } else { CoreKind::Efficiency }
        });
    }
}

/// The lowest strength of the strong class: above the widest gap, when that is wide enough.
fn threshold(cpus: &[Cpu], strength: impl Fn(&Cpu) -> Option<u64>) -> Option<u64> {
    let mut values: Vec<u64> = cpus.iter().filter_map(strength).collect();
    values.sort_unstable();
    values.dedup();
    let gap = |pair: &&[u64]| pair[1].saturating_mul(100) / pair[0].max(1);
    let widest = values.windows(2).max_by_key(gap)?;
    (gap(&widest) >= CLASS_GAP_PERCENT).then(|| widest[1])
}
