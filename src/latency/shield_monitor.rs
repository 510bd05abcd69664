//! Whether a shield is in force while something is measured in it. Read from a housekeeping CPU;
//! nothing here touches the shielded ones.

use super::GuardBreach;
use cpushield_linux::{CpuSet, Host};

/// A shield that is looked at now and then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShieldMonitor {
    /// Its name.
    pub name: String,
    /// The directory of its cgroup; `None` when affinities alone keep its CPUs.
    pub group: Option<String>,
    /// The CPUs it is to hold.
    pub cpus: CpuSet,
    /// What `cpuset.cpus.partition` was at first; `None` in version 1.
    partition: Option<String>,
}

/// What a look at a shield says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardState {
    /// It has no cgroup that could be looked at.
    NothingToSee,
    /// It is in force.
    InForce,
    /// It is not in force.
    Broken(GuardBreach),
}

const PARTITION: &str = "cpuset.cpus.partition";

impl ShieldMonitor {
    /// The shield as it is now.
    #[must_use]
    pub fn new(host: &Host, name: String, group: Option<String>, cpus: CpuSet) -> ShieldMonitor {
        let state = |group: &String| host.read_line(&format!("{group}/{PARTITION}")).ok();
        let partition = group.as_ref().and_then(state);
        ShieldMonitor { name, group, cpus, partition }
    }

    /// Whether it is in force now.
    pub(super) fn look(&self, host: &Host) -> GuardState {
        let Some(group) = &self.group else { return GuardState::NothingToSee };
        let line = |file: &str| host.read_line(&format!("{group}/{file}")).ok();
        if !host.exists(group) {
            return GuardState::Broken(GuardBreach::GroupGone);
        }
        let cpus = line("cpuset.cpus.effective").or_else(|| line("cpuset.cpus"));
        let Some(cpus) = cpus.and_then(|text| text.parse::<CpuSet>().ok()) else {
            return GuardState::Broken(GuardBreach::CpusUnreadable);
        };
        let missing = self.cpus.minus(&cpus);
        if !missing.is_empty() {
            return GuardState::Broken(GuardBreach::CpusLost { cpus: missing.to_string() });
        }
        // A partition of version 2 can turn invalid (Documentation/admin-guide/cgroup-v2.rst).
        let state = line(PARTITION).filter(|state| {
            state.contains("invalid") || self.partition.as_ref().is_some_and(|was| was != state)
        });
        state.map_or(GuardState::InForce, |state| {
            GuardState::Broken(GuardBreach::Partition { state })
        })
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
        let said = |guard: &ShieldMonitor| match guard.look(&host) {
            GuardState::Broken(how) => how.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(guard.look(&host), GuardState::InForce);
        write("cpuset.cpus.partition", "isolated invalid (Cpu list empty)\n");
        let why = said(&guard);
        assert_eq!(why, "its partition is isolated invalid (Cpu list empty)");
        write("cpuset.cpus.partition", "member\n");
        assert_eq!(said(&guard), "its partition is member");
        write("cpuset.cpus.effective", "3\n");
        assert_eq!(said(&guard), "its cgroup has lost CPU 2");
        std::fs::remove_dir_all(dir.join("sys/fs/cgroup/rt")).unwrap();
        assert_eq!(said(&guard), "its cgroup is gone");
        let bare = ShieldMonitor { group: None, ..guard };
        assert_eq!(bare.look(&host), GuardState::NothingToSee);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
