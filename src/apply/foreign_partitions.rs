//! The partitions of other programs. The kernel takes their CPUs out of the masks of all other
//! tasks, and gives them back when the partition ends (`update_tasks_cpumask()`,
//! kernel/cgroup/cpuset.c, 6.12). So such a mask was not set by another process.

use super::groups::is_valid_partition;
use super::hotplug_side_effects::TREES;
use cpushield_linux::{CpuSet, Host};

/// The CPUs that a group may use.
const EFFECTIVE: &str = "cpuset.cpus.effective";
/// The maximum depth of groups that are searched.
const DEPTH_MAX: usize = 16;

/// The CPUs that partitions of other programs have taken from all other tasks.
#[derive(Debug, Default)]
pub(super) struct ForeignPartitions {
    /// Their CPUs; empty if there is none, or if the kernel does not tell.
    pub(super) cpus: CpuSet,
    /// The CPUs outside of all partitions: those of a task that only cpusets restrict.
    rest: CpuSet,
}

impl ForeignPartitions {
    /// Reads the partitions. `own` are the CPUs of our shields, which may be in a partition, too.
    pub(super) fn read(host: &Host, own: &CpuSet) -> ForeignPartitions {
        let mut trees = TREES.iter();
        let found = trees.find_map(|tree| Some((tree, cpus_in(host, tree, EFFECTIVE)?)));
        let (Ok(online), Some((tree, rest))) = (host.online_cpus(), found) else {
            return ForeignPartitions::default();
        };
        let missing = online.difference(&rest).difference(own);
        // A CPU that has just come online joins the cpusets later, and is in no partition.
        let cpus = match missing.is_empty() {
            true => missing,
            false => missing.intersection(&partitioned_below(host, tree, 0)),
        };
        ForeignPartitions { cpus, rest }
    }

    /// Whether the kernel may have made `now` of a task's mask because of these partitions. A mask
    /// of which nothing would be left becomes all CPUs outside of them, and before 6.2 any mask.
    pub(super) fn may_have_narrowed(&self, mask: &CpuSet, now: &CpuSet) -> bool {
        let overlaps = !self.cpus.is_empty();
        overlaps && (*now == self.rest || *now == mask.difference(&self.cpus))
    }
}

fn cpus_in(host: &Host, group: &str, file: &str) -> Option<CpuSet> {
    host.read_value(&format!("{group}/{file}")).filter(|cpus: &CpuSet| !cpus.is_empty())
}

/// The CPUs of all valid partitions below a group.
fn partitioned_below(host: &Host, group: &str, depth: usize) -> CpuSet {
    let mut all = CpuSet::new();
    for name in host.list_directories(group).unwrap_or_default() {
        let below = format!("{group}/{name}");
        if is_valid_partition(host, &below) {
            let cpus = ["cpuset.cpus", EFFECTIVE].map(|file| cpus_in(host, &below, file));
            all = cpus.into_iter().flatten().fold(all, |all, cpus| all.union(&cpus));
        }
        if depth < DEPTH_MAX {
            all = all.union(&partitioned_below(host, &below, depth + 1));
        }
    }
    all
}
