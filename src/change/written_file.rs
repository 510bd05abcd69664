//! [`WrittenFile`]: what a kernel file decides that a change writes. Pure.

use serde::{Deserialize, Serialize};

/// What a kernel file decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WrittenFile {
    /// Nothing about cpusets.
    #[default]
    Setting,
    /// The CPUs of a cpuset, or those that it has for itself.
    CpusetCpus,
    /// The memory nodes of a cpuset.
    CpusetMems,
    /// Whether a cpuset is a partition, and of which type.
    CpusetPartition,
    /// Whether other cpusets share its CPUs, and the balancing of load there (cgroup v1).
    CpusetFlag,
}

impl WrittenFile {
    /// Whether it belongs to a cpuset.
    #[must_use]
    pub fn is_of_cpuset(&self) -> bool {
        *self != WrittenFile::Setting
    }

    /// Whether it belongs to no cpuset.
    #[must_use]
    pub fn is_setting(&self) -> bool {
        !self.is_of_cpuset()
    }
}
