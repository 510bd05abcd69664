//! Whether a shield is in force while something is measured in it. Read from a housekeeping CPU;
//! nothing here touches the shielded ones.

use cpushield_linux::{CpuSet, Host};

/// A shield that is looked at now and then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// Its name.
    pub name: String,
    /// The directory of its cgroup; `None` when affinities alone keep its CPUs.
    pub group: Option<String>,
    /// The CPUs it is to hold.
    pub cpus: CpuSet,
    /// What `cpuset.cpus.partition` was at first; `None` in version 1.
    partition: Option<String>,
}

const PARTITION: &str = "cpuset.cpus.partition";

impl Guard {
    /// The shield as it is now.
    #[must_use]
    pub fn new(host: &Host, name: String, group: Option<String>, cpus: CpuSet) -> Guard {
        let state = |group: &String| host.read_line(&format!("{group}/{PARTITION}")).ok();
        let partition = group.as_ref().and_then(state);
        Guard { name, group, cpus, partition }
    }

    /// Why it is not in force now; the outer `None` when there is nothing to look at.
    pub(super) fn broken(&self, host: &Host) -> Option<Option<String>> {
        let group = self.group.as_ref()?;
        let line = |file: &str| host.read_line(&format!("{group}/{file}")).ok();
        if !host.exists(group) {
            return Some(Some("its cgroup is gone".to_owned()));
        }
        let cpus = line("cpuset.cpus.effective").or_else(|| line("cpuset.cpus"));
        let Some(cpus) = cpus.and_then(|text| text.parse::<CpuSet>().ok()) else {
            return Some(Some("the CPUs of its cgroup cannot be read".to_owned()));
        };
        let missing = self.cpus.minus(&cpus);
        if !missing.is_empty() {
            return Some(Some(format!("its cgroup has lost CPU {missing}")));
        }
        // A partition of version 2 can turn invalid (Documentation/admin-guide/cgroup-v2.rst).
        let state = line(PARTITION).filter(|state| {
            state.contains("invalid") || self.partition.as_ref().is_some_and(|was| was != state)
        });
        Some(state.map(|state| format!("its partition is {state}")))
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
        let guard = Guard::new(&host, "rt".to_owned(), group, "2-3".parse().unwrap());
        assert_eq!(guard.broken(&host), Some(None));
        write("cpuset.cpus.partition", "isolated invalid (Cpu list empty)\n");
        let why = guard.broken(&host).flatten().unwrap();
        assert_eq!(why, "its partition is isolated invalid (Cpu list empty)");
        write("cpuset.cpus.partition", "member\n");
        assert_eq!(guard.broken(&host).flatten().unwrap(), "its partition is member");
        write("cpuset.cpus.effective", "3\n");
        assert_eq!(guard.broken(&host).flatten().unwrap(), "its cgroup has lost CPU 2");
        std::fs::remove_dir_all(dir.join("sys/fs/cgroup/rt")).unwrap();
        assert_eq!(guard.broken(&host).flatten().unwrap(), "its cgroup is gone");
        let bare = Guard { group: None, ..guard };
        assert_eq!(bare.broken(&host), None);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
