//! Checks whether a shield is in force during a measurement. A housekeeping CPU does the reading;
//! nothing here touches the shielded CPUs.

use super::GuardBreach;
use cpushield_linux::text::partition::PartitionState;
use cpushield_linux::{CpuSet, Host};

/// A shield that is checked regularly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShieldMonitor {
    /// Its name.
    pub name: String,
    /// The directory of its cgroup; `None` for a shield that consists of affinities only.
    pub group: Option<String>,
    /// The shielded CPUs.
    pub cpus: CpuSet,
    /// The original content of `cpuset.cpus.partition`; `None` in version 1.
    partition: Option<String>,
}

const PARTITION: &str = "cpus.partition";

impl ShieldMonitor {
    /// Records the current state of the shield.
    #[must_use]
    pub fn new(host: &Host, name: String, group: Option<String>, cpus: CpuSet) -> ShieldMonitor {
        let partition =
            group.as_ref().and_then(|group| host.read_cpuset_file(group, PARTITION).ok());
        ShieldMonitor { name, group, cpus, partition }
    }

    /// The CPUs that its cpuset has for itself: those of a valid partition, or of an exclusive
    /// cpuset of version 1. `None` when it shares them, or when that cannot be read.
    pub(super) fn exclusive_cpus(&self, host: &Host) -> Option<CpuSet> {
        let group = self.group.as_ref()?;
        let (list, is_exclusive) = match host.read_cpuset_file(group, PARTITION) {
            Ok(shown) => ("cpus.effective", PartitionState::from_text(&shown).is_valid_partition()),
            Err(_) => {
                let flag = host.read_cpuset_file(group, "cpu_exclusive");
                ("cpus", flag.is_ok_and(|flag| flag == "1"))
            }
        };
        let cpus = host.read_cpuset_file(group, list).ok().filter(|_| is_exclusive)?;
        cpus.parse().ok()
    }

    /// Checks whether it is in force now; `None` if it is, or has no cgroup to check.
    pub(super) fn check(&self, host: &Host) -> Option<GuardBreach> {
        let group = self.group.as_ref()?;
        if !host.exists(group) {
            return Some(GuardBreach::GroupGone);
        }
        let effective = host.read_cpuset_file(group, "cpus.effective");
        let cpus = effective.or_else(|_| host.read_cpuset_file(group, "cpus"));
        let Some(cpus) = cpus.ok().and_then(|text| text.parse::<CpuSet>().ok()) else {
            return Some(GuardBreach::CpusUnreadable);
        };
        let missing = self.cpus.difference(&cpus);
        if !missing.is_empty() {
            return Some(GuardBreach::CpusLost { cpus: missing });
        }
        // A partition of version 2 can turn invalid (Documentation/admin-guide/cgroup-v2.rst).
        let state = host.read_cpuset_file(group, PARTITION).ok().filter(|shown| {
            PartitionState::from_text(shown) == PartitionState::Invalid
                || self.partition.as_ref().is_some_and(|was| was != shown)
        });
        state.map(|state| GuardBreach::Partition { state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shield_that_lost_a_cpu_its_partition_or_its_group_is_noticed() {
        let dir = std::env::temp_dir().join(format!("cpushield-guard-{}", std::process::id()));
        let group = dir.join("sys/fs/cgroup/rt");
        std::fs::create_dir_all(&group).unwrap();
        let host = Host::recorded(&dir).unwrap();
        let write = |file: &str, text: &str| std::fs::write(group.join(file), text).unwrap();
        write("cpuset.cpus.effective", "2-3\n");
        write("cpuset.cpus.partition", "isolated\n");
        let group = Some("/sys/fs/cgroup/rt".to_owned());
        let guard = ShieldMonitor::new(&host, "rt".to_owned(), group, "2-3".parse().unwrap());
        let breach = |guard: &ShieldMonitor| guard.check(&host).unwrap().to_string();
        assert_eq!(guard.check(&host), None);
        write("cpuset.cpus.partition", "isolated invalid (Cpu list empty)\n");
        let why = breach(&guard);
        assert_eq!(why, "its cpuset.cpus.partition is now isolated invalid (Cpu list empty)");
        write("cpuset.cpus.partition", "member\n");
        assert_eq!(breach(&guard), "its cpuset.cpus.partition is now member");
        write("cpuset.cpus.effective", "3\n");
        assert_eq!(breach(&guard), "its cgroup has lost CPU 2");
        std::fs::remove_dir_all(dir.join("sys/fs/cgroup/rt")).unwrap();
        std::fs::create_dir_all(dir.join("sys/fs/cgroup/rt")).unwrap();
        write("cpus", "2-3\n");
        write("cpu_exclusive", "1\n");
        let of_cset = ShieldMonitor { partition: None, ..guard.clone() };
        assert_eq!(of_cset.check(&host), None, "v1 without prefix");
        assert_eq!(of_cset.exclusive_cpus(&host), Some("2-3".parse().unwrap()));
        std::fs::remove_dir_all(dir.join("sys/fs/cgroup/rt")).unwrap();
        assert_eq!(breach(&guard), "its cgroup is gone");
        let bare = ShieldMonitor { group: None, ..guard };
        assert_eq!(bare.check(&host), None);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
