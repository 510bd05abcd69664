//! What a survey costs on a large machine, in file operations. Times are not asserted: machines are
//! shared.

use cpushield::survey::{Machine, survey};
use cpushield::tunables;
use cpushield_linux::{CpuSet, Host};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// CPUs of two packages; the second half of the numbers are the second threads of the cores.
const CPUS: usize = 64;
const IRQS: usize = 200;
/// Cores that share a level-3 cache.
const L3_CORES: usize = 8;
/// What is read once for the machine, its packages, its nodes and its level-3 caches, and for the
/// advice about firmware and devices.
const FIXED_MAX: usize = 110;
/// Files of tunables that do not belong to a CPU.
const WANTED_MAX: usize = 40;

/// Writes the files of a machine.
struct Tree {
    dir: PathBuf,
}

impl Tree {
    fn new(name: &str) -> Tree {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        Tree { dir }
    }

    fn put(&self, path: &str, text: impl std::fmt::Display) {
        let file = self.dir.join(path.trim_start_matches('/'));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{text}\n")).unwrap();
    }

    /// A set in both formats.
    fn put_set(&self, mask: &str, list: &str, cpus: &CpuSet) {
        self.put(mask, cpus.to_mask());
        self.put(list, cpus);
    }

    fn host(&self) -> Host {
        Host::recorded(&self.dir).unwrap()
    }
}

/// Both threads of these cores.
fn threads(cores: std::ops::Range<usize>) -> CpuSet {
    cores.flat_map(|core| [core, core + CPUS / 2]).collect()
}

fn put_cpu(tree: &Tree, cpu: usize, frequencies: Frequencies) {
    let core = cpu % (CPUS / 2);
    let (own, package) = (threads(core..core + 1), core / (CPUS / 4));
    let near = core / L3_CORES * L3_CORES;
    let l3 = threads(near..near + L3_CORES);
    let package_cpus = threads(package * CPUS / 4..(package + 1) * CPUS / 4);
    let dir = format!("/sys/devices/system/cpu/cpu{cpu}");
    let file = |name: &str| format!("{dir}/{name}");
    tree.put(&file("topology/physical_package_id"), package);
    tree.put(&file("topology/core_id"), core % (CPUS / 4));
    for (name, set) in [("core_cpus", &own), ("package_cpus", &package_cpus)] {
        let name = file(&format!("topology/{name}"));
        tree.put_set(&name, &format!("{name}_list"), set);
    }
    let caches =
        [(1, "Data", &own), (1, "Instruction", &own), (2, "Unified", &own), (3, "Unified", &l3)];
    for (index, (level, kind, shared)) in caches.into_iter().enumerate() {
        let file = |name: &str| format!("{dir}/cache/index{index}/{name}");
        tree.put(&file("level"), level);
        tree.put(&file("type"), kind);
        tree.put(&file("size"), "1024K");
        tree.put_set(&file("shared_cpu_map"), &file("shared_cpu_list"), shared);
    }
    if frequencies == Frequencies::Absent {
        return;
    }
    let policy = format!("/sys/devices/system/cpu/cpufreq/policy{cpu}");
    for (name, text) in [
        ("scaling_driver", "acpi-cpufreq".to_owned()),
        ("scaling_governor", "schedutil".to_owned()),
        ("affected_cpus", cpu.to_string()),
        ("cpuinfo_max_freq", "3500000".to_owned()),
    ] {
        tree.put(&format!("{policy}/{name}"), text);
    }
    symlink(format!("../cpufreq/policy{cpu}"), tree.dir.join(&file("cpufreq")[1..])).unwrap();
}

/// Whether the machine has a driver for frequencies.
#[derive(Clone, Copy, PartialEq)]
enum Frequencies {
    Driven,
    /// As in most guests.
    Absent,
}

/// A machine as a current kernel shows it.
fn large(name: &str, frequencies: Frequencies) -> Tree {
    let tree = Tree::new(name);
    let all: CpuSet = (0..CPUS).collect();
    for name in ["possible", "present", "online"] {
        tree.put(&format!("/sys/devices/system/cpu/{name}"), &all);
    }
    (0..CPUS).for_each(|cpu| put_cpu(&tree, cpu, frequencies));
    for node in 0..8 {
        let cpus = threads(node * CPUS / 16..(node + 1) * CPUS / 16);
        let file = |name: &str| format!("/sys/devices/system/node/node{node}/{name}");
        tree.put_set(&file("cpumap"), &file("cpulist"), &cpus);
        tree.put(&file("meminfo"), format!("Node {node} MemTotal:       64000000 kB"));
    }
    let processor = |cpu: usize| {
        let core = cpu % (CPUS / 4);
        format!("processor\t: {cpu}\nmodel name\t: AMD EPYC\ncore id\t\t: {core}\n\n")
    };
    tree.put("/proc/cpuinfo", (0..CPUS).map(processor).collect::<String>());
    let mut table = String::from("     CPU0\n");
    for n in 0..IRQS {
        let (irq, cpu) = (n + 24, CpuSet::single(n % CPUS));
        let file = |name: &str| format!("/proc/irq/{irq}/{name}");
        tree.put_set(&file("smp_affinity"), &file("smp_affinity_list"), &cpu);
        tree.put_set(&file("effective_affinity"), &file("effective_affinity_list"), &cpu);
        table.push_str(&format!(" {irq}: 1 PCI-MSIX-0000:01:00.0 {n}-edge nvme0q{n}\n"));
    }
    tree.put("/proc/interrupts", table);
    tree.put("/errors.tsv", "# nothing failed");
    tree
}

fn surveyed(host: &Host, wanted: &[&str]) -> (Machine, usize) {
    let before = host.operations();
    let machine = survey(host, wanted);
    (machine, host.operations() - before)
}

#[test]
fn a_survey_needs_two_file_operations_per_interrupt_and_five_per_core() {
    let tree = large("large", Frequencies::Driven);
    let host = tree.host();
    let (machine, operations) = surveyed(&host, &[]);
    // Per core of two threads: the threads, the level-2 cache, the highest frequency, and the
    // governor of each.
    let max = 5 * CPUS / 2 + 2 * IRQS + FIXED_MAX;
    assert!(operations <= max, "{operations} operations, {max} allowed");

    // Tunables ask whether a CPU can go offline and for its idle latency limit. Its governor is
    // known.
    let (_, all) = surveyed(&host, &tunables::reads());
    let max = 2 * CPUS + WANTED_MAX;
    assert!(all - operations <= max, "{} more operations, {max} allowed", all - operations);

    // Facts that were not read for each CPU are known all the same.
    let topology = &machine.topology;
    assert_eq!(topology.cpus.len(), CPUS);
    assert_eq!(topology.groups(|cpu| Some(&cpu.siblings)).len(), CPUS / 2);
    assert_eq!(topology.groups(|cpu| cpu.sharing(2)).len(), CPUS / 2);
    assert_eq!(topology.groups(|cpu| cpu.sharing(3)).len(), CPUS / 2 / L3_CORES);
    assert_eq!(topology.groups(|cpu| Some(&cpu.package_cpus)).len(), 2);
    let last = topology.cpu(CPUS - 1).unwrap();
    assert_eq!((last.package, last.core, last.node), (Some(1), Some(15), Some(7)));
    assert!(last.caches.iter().all(|cache| cache.size_kib == Some(1024)));
    assert_eq!(machine.power.governors["schedutil"].len(), CPUS);
    assert_eq!(machine.irqs.len(), IRQS);
    assert!(machine.irqs.iter().all(|irq| irq.effective.is_some()));
}

#[test]
fn without_a_driver_for_frequencies_a_survey_reads_no_frequency_file_of_each_cpu() {
    let tree = large("guest", Frequencies::Absent);
    let host = tree.host();
    let (machine, operations) = surveyed(&host, &[]);
    // Per core of two threads: the threads and the level-2 cache.
    let max = 2 * CPUS / 2 + 2 * IRQS + FIXED_MAX;
    assert!(operations <= max, "{operations} operations, {max} allowed");
    let (wanted, all) = surveyed(&host, &tunables::reads());
    let max = 2 * CPUS + WANTED_MAX;
    assert!(all - operations <= max, "{} more operations, {max} allowed", all - operations);
    assert!(machine.power.governors.is_empty());
    assert!(!wanted.settings.keys().any(|path| path.contains("scaling_governor")));
    assert!(machine.topology.cpus.iter().all(|cpu| cpu.max_khz.is_none()));
}
