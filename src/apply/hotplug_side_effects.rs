//! What else changes when a CPU goes offline and comes online again: the files that show it are
//! read before, and written again where they differ afterwards. Affinities of tasks are not in
//! here, they are kept by their own step; events of perf that count on that CPU end, and nobody can
//! start them again for their owners.

use crate::change::{ValueComparison, chosen_word};
use cpushield_linux::{CpuSet, Host, Result};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu/cpu";
const IRQ: &str = "/proc/irq";
/// Where v1 cpusets are, with and without the prefix of their files.
const CPUSETS: &[&str] = &["/sys/fs/cgroup/cpuset", "/dev/cpuset"];
/// Where the v2 tree is, alone and beside v1.
const TREES: &[&str] = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const RESCTRL: &str = "/sys/fs/resctrl";
/// How deep groups are looked through.
const DEPTH_MAX: usize = 16;
/// How often all is written again: one value may have to go before another.
const ROUNDS: usize = 2;

/// Settings of a CPU's frequency. `scaling_setspeed` is forgotten with the last CPU of a policy
/// (drivers/cpufreq/cpufreq_userspace.c, 6.12); the others the kernel keeps today.
const FREQUENCY: &[&str] = &[
    "scaling_governor",
    "scaling_setspeed",
    "scaling_min_freq",
    "scaling_max_freq",
    "energy_performance_preference",
];

/// The files, with what they say.
struct SideEffectFiles<'a> {
    host: &'a Host,
    cpu: usize,
    texts: BTreeMap<String, String>,
}

/// What the kernel and its drivers may change besides.
pub(super) fn besides(host: &Host, cpu: usize) -> BTreeMap<String, String> {
    let mut files = SideEffectFiles { host, cpu, texts: BTreeMap::new() };
    files.interrupts();
    files.queues();
    for dir in CPUSETS {
        files.below(dir, &["cpuset.cpus", "cpus"], "tasks", 0);
    }
    // A partition without a CPU for a moment may stay invalid (remote_partition_disable() in
    // kernel/cgroup/cpuset.c, 6.12).
    for dir in TREES {
        files.below(dir, &["cpuset.cpus.partition"], "cgroup.controllers", 0);
    }
    // The CPU leaves its groups and comes back into the default one (resctrl_offline_cpu() and
    // resctrl_online_cpu() in arch/x86/kernel/cpu/resctrl/, 6.12).
    files.below(RESCTRL, &["cpus_list"], "cpus_list", 0);
    files.settings();
    files.texts
}

impl SideEffectFiles<'_> {
    fn keep(&mut self, path: String) {
        if let Ok(text) = self.host.read_line(&path)
            && !text.starts_with('<')
        {
            self.texts.insert(path, text);
        }
    }

    fn names(&self, dir: &str) -> Vec<String> {
        self.host.list(dir).unwrap_or_default()
    }

    /// An interrupt that may be handled nowhere else may then be handled everywhere
    /// (migrate_one_irq() in kernel/irq/cpuhotplug.c), and drivers spread theirs anew over the CPUs
    /// that are there (virtnet_set_affinity() in drivers/net/virtio_net.c, 6.12).
    fn interrupts(&mut self) {
        for irq in self.names(IRQ) {
            self.keep(format!("{IRQ}/{irq}/smp_affinity_list"));
        }
    }

    /// The same function of the driver tells which CPUs send on which queue.
    fn queues(&mut self) {
        for device in self.names("/sys/class/net") {
            let dir = format!("/sys/class/net/{device}/queues");
            for queue in self.names(&dir) {
                self.keep(format!("{dir}/{queue}/xps_cpus"));
            }
        }
    }

    /// Groups that name the CPU, and partitions. The group at the top is the kernel's own.
    fn below(&mut self, dir: &str, wanted: &[&str], mark: &str, depth: usize) {
        for name in self.names(dir) {
            let below = format!("{dir}/{name}");
            let is_group = self.host.exists(&format!("{below}/{mark}"));
            // Groups that only watch are in a directory of their own, which is none.
            if depth >= DEPTH_MAX || !(is_group || name == "mon_groups") {
                continue;
            }
            for path in wanted.iter().map(|file| format!("{below}/{file}")) {
                let Ok(text) = self.host.read_line(&path) else { continue };
                if text.parse::<CpuSet>().map_or(text != "member", |cpus| cpus.contains(self.cpu)) {
                    self.texts.insert(path, text);
                }
            }
            self.below(&below, wanted, mark, depth + 1);
        }
    }

    fn settings(&mut self) {
        let own = format!("{CPU}{}", self.cpu);
        for name in FREQUENCY {
            self.keep(format!("{own}/cpufreq/{name}"));
        }
        // Kept by the kernel itself, but not by every driver that makes its states anew.
        for state in self.names(&format!("{own}/cpuidle")) {
            self.keep(format!("{own}/cpuidle/{state}/disable"));
        }
        // Made anew when the CPU comes back (arch/x86/kernel/cpu/mce/amd.c, 6.12).
        let banks = format!("/sys/devices/system/machinecheck/machinecheck{}", self.cpu);
        for bank in self.names(&banks) {
            for block in self.names(&format!("{banks}/{bank}")) {
                for name in ["threshold_limit", "interrupt_enable"] {
                    self.keep(format!("{banks}/{bank}/{block}/{name}"));
                }
            }
        }
    }
}

/// A v1 cpuset that has no other CPU: the kernel moves its programs out of it for good
/// (cpuset1_hotplug_update_tasks() in kernel/cgroup/cpuset-v1.c, 6.12).
pub(super) fn would_be_emptied(cpu: usize, files: &BTreeMap<String, String>) -> Option<&str> {
    let one = CpuSet::one(cpu);
    let mut alone = files.iter().filter(|(path, text)| {
        is_v1_cpuset(path) && text.parse::<CpuSet>().is_ok_and(|cpus| cpus == one)
    });
    alone.next().and_then(|(path, _)| path.rsplit_once('/')).map(|(dir, _)| dir)
}

fn is_v1_cpuset(path: &str) -> bool {
    path.ends_with("/cpuset.cpus") || path.ends_with("/cpus")
}

/// A file that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotBack {
    pub(super) path: String,
    pub(super) why: String,
}

/// Writes what differs; says what could not be put back.
pub(super) fn put_back(
    host: &Host,
    cpu: usize,
    files: &BTreeMap<String, String>,
) -> Result<Vec<NotBack>> {
    // A group lies within the one above it, so those above come first.
    let mut files: Vec<(&String, &String)> = files.iter().collect();
    files.sort_by_key(|(path, _)| path.matches('/').count());
    let mut failed = Vec::new();
    for _ in 0..ROUNDS {
        failed.clear();
        for (path, text) in &files {
            match one(host, cpu, path, text) {
                Ok(None) => {}
                Ok(Some(why)) => failed.push(NotBack { path: (*path).clone(), why }),
                Err(error) if error.is_stop() => return Err(error),
                Err(error) => failed.push(NotBack { path: (*path).clone(), why: error.reason() }),
            }
        }
    }
    Ok(failed)
}

/// Puts one file back; why it is not.
fn one(host: &Host, cpu: usize, path: &str, text: &str) -> Result<Option<String>> {
    let now = host.read_line(path)?;
    let value = match () {
        () if now == text => return Ok(None),
        // Only this CPU was taken away; what else became of the group is others' business.
        () if path.ends_with("/cpus_list") || is_v1_cpuset(path) => match now.parse::<CpuSet>() {
            Ok(cpus) if cpus.contains(cpu) => return Ok(None),
            Ok(cpus) => cpus.union(&CpuSet::one(cpu)).to_string(),
            Err(_) => text.to_owned(),
        },
        () if ValueComparison::List.same(&now, text) => return Ok(None),
        () if path.ends_with(".partition") => chosen_word(text).to_owned(),
        () => text.to_owned(),
    };
    host.write(path, &value)?;
    let left = host.read_line(path)?;
    let same = left == value || left == text || ValueComparison::List.same(&left, &value);
    Ok((!same).then(|| format!("the kernel made it {left:?}, it was {text:?}")))
}
