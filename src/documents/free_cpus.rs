//! [`FreeCpus`]: the online CPUs that are in no shield, and what holds the others. Plain data.

use super::machine::Cache;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::Serialize;

/// The version of the document's format.
pub(crate) const SCHEMA: u32 = 1;

/// The CPUs that are in no shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FreeCpus {
    /// The version of the document's format.
    pub schema: u32,
    /// The free CPUs.
    pub free: CpuSet,
    /// The free CPUs by node and cache, in the order of their lowest CPU. No group is empty.
    pub groups: Vec<FreeGroup>,
    /// CPUs of a shield or another exclusive cpuset; they are not free.
    pub taken: Vec<CpuHolding>,
    /// Free CPUs that the kernel keeps other work away from.
    pub isolated: Vec<CpuHolding>,
}

/// Free CPUs that share a node and a last-level cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FreeGroup {
    /// The NUMA node; `None` when the machine shows none.
    pub node: Option<usize>,
    /// The last-level cache; `None` when the machine shows none.
    pub cache: Option<Cache>,
    /// The free CPUs.
    pub cpus: CpuSet,
}

/// CPUs, and what holds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuHolding {
    /// The CPUs.
    pub cpus: CpuSet,
    /// What holds them.
    #[serde(flatten)]
    pub holder: CpuHolder,
}

/// What holds CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "holder", rename_all = "kebab-case")]
pub enum CpuHolder {
    /// shield {name}.
    Shield {
        /// Its name.
        name: String,
    },
    /// cpuset {path}.
    Cpuset {
        /// Its directory.
        path: String,
    },
    /// isolcpus= on the kernel command line.
    Isolcpus,
    /// nohz_full= on the kernel command line.
    NohzFull,
}
