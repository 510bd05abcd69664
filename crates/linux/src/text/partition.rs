//! `cpuset.cpus.partition`, the state of a cpuset of cgroup v2 (`sched_partition_show()`,
//! kernel/cgroup/cpuset.c, 6.12): `member`, `root`, `isolated`, or `isolated invalid (REASON)`.

/// Whether a cpuset has its CPUs for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionState {
    /// It is no partition.
    Member,
    /// A partition whose load is balanced.
    Root,
    /// A partition without load balancing.
    Isolated,
    /// It was requested to be a partition, and the kernel does not accept it now. Other states of
    /// newer kernels count as this one.
    Invalid,
}

impl PartitionState {
    /// The state that a text shows; the kernel ends it with a newline.
    #[must_use]
    pub fn from_text(shown: &str) -> PartitionState {
        match shown.trim_end() {
            "member" => PartitionState::Member,
            "root" => PartitionState::Root,
            "isolated" => PartitionState::Isolated,
            _ => PartitionState::Invalid,
        }
    }

    /// Whether it is a partition that the kernel accepts.
    #[must_use]
    pub fn is_valid_partition(self) -> bool {
        matches!(self, PartitionState::Root | PartitionState::Isolated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_with_a_reason_is_invalid() {
        let valid = |text| PartitionState::from_text(text).is_valid_partition();
        assert!(valid("root\n") && valid("isolated"));
        assert!(!valid("member\n") && !valid("root invalid (Cpu list not exclusive)\n"));
        let shown = "isolated invalid (Parent is not a partition root)";
        assert_eq!(PartitionState::from_text(shown), PartitionState::Invalid);
    }
}
