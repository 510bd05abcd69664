//! The side effects of taking a CPU offline and online again: the files that show them are read
//! before, and written where they differ afterwards. Affinities of tasks have their own step. Perf
//! events that count on that CPU end, and only their owners can start them again.

use crate::change::{ValueComparison, chosen_word};
use crate::documents::applied::step_note::describe_unrestored;
use crate::documents::applied::{ChangeFate, StepNote};
use cpushield_linux::{CpuSet, Host, Result};
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu/cpu";
const IRQ: &str = "/proc/irq";
/// The mount points of v1 cpusets, with and without the prefix of their files.
const CPUSETS: &[&str] = &["/sys/fs/cgroup/cpuset", "/dev/cpuset"];
/// The mount points of cgroup v2, alone and in hybrid mode.
pub(super) const TREES: &[&str] = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const RESCTRL: &str = "/sys/fs/resctrl";
/// The maximum depth of groups that are searched.
const DEPTH_MAX: usize = 16;
/// The number of passes over all files: one value may depend on another.
const ROUNDS: usize = 2;

/// Settings of a CPU's frequency. `scaling_setspeed` is forgotten with the last CPU of a policy
/// (drivers/cpufreq/cpufreq_userspace.c, 6.12), and `boost` gets the state of the driver's switch
/// when a CPU comes online (`cpufreq_online()`, drivers/cpufreq/cpufreq.c, 6.11 and later); the
/// others the kernel keeps today.
const FREQUENCY: &[&str] = &[
    "scaling_governor",
    "scaling_setspeed",
    "scaling_min_freq",
    "scaling_max_freq",
    "energy_performance_preference",
    "boost",
];

/// The files, with their contents.
struct SideEffectFiles<'a> {
    host: &'a Host,
    cpu: usize,
    texts: BTreeMap<String, String>,
}

/// Reads the files that the kernel and its drivers may change.
pub(super) fn read_side_effects(host: &Host, cpu: usize) -> BTreeMap<String, String> {
    let mut files = SideEffectFiles { host, cpu, texts: BTreeMap::new() };
    files.add_interrupts();
    files.add_queues();
    for dir in CPUSETS {
        files.add_groups_below(dir, &["cpuset.cpus", "cpus"], "tasks", 0);
    }
    // A partition that has no CPU for a moment may stay invalid (remote_partition_disable() in
    // kernel/cgroup/cpuset.c, 6.12).
    for dir in TREES {
        files.add_groups_below(dir, &["cpuset.cpus.partition"], "cgroup.controllers", 0);
    }
    // The CPU leaves its groups and comes back into the default one (resctrl_offline_cpu() and
    // resctrl_online_cpu() in arch/x86/kernel/cpu/resctrl/, 6.12).
    files.add_groups_below(RESCTRL, &["cpus_list"], "cpus_list", 0);
    files.add_cpu_settings();
    files.texts
}

impl SideEffectFiles<'_> {
    fn add(&mut self, path: String) {
        if let Ok(text) = self.host.read_line(&path)
            && !text.starts_with('<')
        {
            self.texts.insert(path, text);
        }
    }

    fn names(&self, dir: &str) -> Vec<String> {
        self.host.list(dir).unwrap_or_default()
    }

    /// An interrupt with only this CPU in its affinity gets all CPUs (migrate_one_irq() in
    /// kernel/irq/cpuhotplug.c), and drivers spread their interrupts again over the online CPUs
    /// (virtnet_set_affinity() in drivers/net/virtio_net.c, 6.12).
    fn add_interrupts(&mut self) {
        for irq in self.names(IRQ) {
            self.add(format!("{IRQ}/{irq}/smp_affinity_list"));
        }
    }

    /// The same driver function sets which CPUs send on which queue.
    fn add_queues(&mut self) {
        for device in self.names("/sys/class/net") {
            let dir = format!("/sys/class/net/{device}/queues");
            for queue in self.names(&dir) {
                self.add(format!("{dir}/{queue}/xps_cpus"));
            }
        }
    }

    /// Groups with this CPU, and partitions. The root group belongs to the kernel.
    fn add_groups_below(&mut self, dir: &str, wanted: &[&str], mark: &str, depth: usize) {
        for name in self.names(dir) {
            let below = format!("{dir}/{name}");
            let is_group = self.host.exists(&format!("{below}/{mark}"));
            // Monitoring groups are in a directory that is not a group itself.
            if depth >= DEPTH_MAX || !(is_group || name == "mon_groups") {
                continue;
            }
            for path in wanted.iter().map(|file| format!("{below}/{file}")) {
                let Ok(text) = self.host.read_line(&path) else { continue };
                if text.parse::<CpuSet>().map_or(text != "member", |cpus| cpus.contains(self.cpu)) {
                    self.texts.insert(path, text);
                }
            }
            self.add_groups_below(&below, wanted, mark, depth + 1);
        }
    }

    fn add_cpu_settings(&mut self) {
        let dir = format!("{CPU}{}", self.cpu);
        for name in FREQUENCY {
            self.add(format!("{dir}/cpufreq/{name}"));
        }
        // The kernel keeps these, but not every driver that makes its states again does.
        for state in self.names(&format!("{dir}/cpuidle")) {
            self.add(format!("{dir}/cpuidle/{state}/disable"));
        }
        // Made again when the CPU comes online (arch/x86/kernel/cpu/mce/amd.c, 6.12).
        let banks = format!("/sys/devices/system/machinecheck/machinecheck{}", self.cpu);
        for bank in self.names(&banks) {
            for block in self.names(&format!("{banks}/{bank}")) {
                for name in ["threshold_limit", "interrupt_enable"] {
                    self.add(format!("{banks}/{bank}/{block}/{name}"));
                }
            }
        }
    }
}

/// Finds a v1 cpuset that has no other CPU: the kernel moves its programs out of it permanently
/// (cpuset1_hotplug_update_tasks() in kernel/cgroup/cpuset-v1.c, 6.12).
pub(super) fn cpuset_to_be_emptied(cpu: usize, files: &BTreeMap<String, String>) -> Option<&str> {
    let one = CpuSet::single(cpu);
    let mut alone = files.iter().filter(|(path, text)| {
        is_v1_cpuset(path) && text.parse::<CpuSet>().is_ok_and(|cpus| cpus == one)
    });
    alone.next().and_then(|(path, _)| path.rsplit_once('/')).map(|(dir, _)| dir)
}

fn is_v1_cpuset(path: &str) -> bool {
    path.ends_with("/cpuset.cpus") || path.ends_with("/cpus")
}

/// A file that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnrestoredFile {
    pub(super) path: String,
    pub(super) why: String,
}

/// What undo did with files of which it could not restore these.
pub(super) fn fate_of(failed: &[UnrestoredFile]) -> ChangeFate {
    match failed {
        [] => ChangeFate::Restored,
        [first, more @ ..] => {
            ChangeFate::Failed { reason: describe_unrestored(&first.path, &first.why, more.len()) }
        }
    }
}

/// The note of apply about files that could not be restored; `None` if there are none.
pub(super) fn note_unrestored(failed: &[UnrestoredFile]) -> Option<StepNote> {
    let first = failed.first()?;
    let (path, why) = (first.path.clone(), first.why.clone());
    Some(StepNote::FilesNotRestored { path, why, more: failed.len() - 1 })
}

/// The files that can be restored while the CPU is offline.
pub(super) fn without_cpu_files(
    cpu: usize,
    files: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let rest = files.iter().filter(|(path, text)| !needs_cpu(cpu, path, text));
    rest.map(|(path, text)| (path.clone(), text.clone())).collect()
}

/// What the files must be when the CPU is online again: their current texts, which another process
/// may have changed, except where only the CPU lets the kernel keep the original.
pub(super) fn files_to_restore(
    host: &Host,
    cpu: usize,
    files: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let texts = files.iter().map(|(path, text)| {
        let kept = host.read_line(path).ok().filter(|_| !needs_cpu(cpu, path, text));
        (path.clone(), kept.unwrap_or_else(|| text.clone()))
    });
    texts.collect()
}

/// Whether the file names only CPUs that are offline now. A step that brings one of them online
/// restores it: it has read the same text while that CPU was online.
pub(super) fn waits_for_other_cpu(host: &Host, path: &str, text: &str) -> bool {
    let online = host.online_cpus().ok();
    let cpus = text.parse::<CpuSet>().ok().filter(|_| is_irq(path));
    cpus.zip(online).is_some_and(|(cpus, online)| !cpus.intersects(&online))
}

/// Whether a file can have this text only while the CPU is online.
fn needs_cpu(cpu: usize, path: &str, text: &str) -> bool {
    let own = [format!("{CPU}{cpu}/"), format!("/machinecheck{cpu}/")];
    let cpus = text.parse::<CpuSet>();
    match () {
        () if own.iter().any(|dir| path.contains(dir.as_str())) => true,
        // A partition that has lost its last CPU.
        () if path.ends_with(".partition") => true,
        () if is_irq(path) => cpus.is_ok_and(|cpus| cpus == CpuSet::single(cpu)),
        () => is_cpu_list(path) && cpus.is_ok_and(|cpus| cpus.contains(cpu)),
    }
}

fn is_irq(path: &str) -> bool {
    path.ends_with("/smp_affinity_list")
}

/// Whether the kernel removes a CPU that goes offline from a file.
fn is_cpu_list(path: &str) -> bool {
    path.ends_with("/cpus_list") || is_v1_cpuset(path)
}

/// Writes the files that differ. Returns those that could not be restored.
pub(super) fn restore_side_effects(
    host: &Host,
    cpu: usize,
    files: &BTreeMap<String, String>,
) -> Result<Vec<UnrestoredFile>> {
    // A group's CPUs must be in its parent's, so parents come first.
    let mut files: Vec<(&String, &String)> = files.iter().collect();
    files.sort_by_key(|(path, _)| path.matches('/').count());
    let mut failed = Vec::new();
    for _ in 0..ROUNDS {
        failed.clear();
        for (path, text) in &files {
            match restore_file(host, cpu, path, text) {
                Ok(None) => {}
                Ok(Some(why)) => failed.push(UnrestoredFile { path: (*path).clone(), why }),
                Err(error) if error.is_stop() => return Err(error),
                Err(error) => {
                    failed.push(UnrestoredFile { path: (*path).clone(), why: error.reason() });
                }
            }
        }
    }
    Ok(failed)
}

/// Restores one file. Returns the reason when that failed.
fn restore_file(host: &Host, cpu: usize, path: &str, text: &str) -> Result<Option<String>> {
    let now = host.read_line(path)?;
    let value = match () {
        () if now == text => return Ok(None),
        // Only this CPU was removed; other changes of the group belong to other processes.
        () if is_cpu_list(path) => match now.parse::<CpuSet>() {
            Ok(cpus) if cpus.contains(cpu) => return Ok(None),
            Ok(cpus) => cpus.union(&CpuSet::single(cpu)).to_string(),
            Err(_) => text.to_owned(),
        },
        () if ValueComparison::List.same(&now, text) => return Ok(None),
        () if path.ends_with(".partition") => chosen_word(text).to_owned(),
        () => text.to_owned(),
    };
    host.write(path, &value)?;
    let left = host.read_line(path)?;
    let same = left == value || left == text || ValueComparison::List.same(&left, &value);
    Ok((!same).then(|| format!("the kernel set {left:?} instead of {text:?}")))
}
