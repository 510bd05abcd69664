//! The CPUs of a machine: packages, cores, caches, kinds of cores and NUMA nodes. Plain data.

use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// The CPUs, their cores, caches and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Topology {
    /// The processor's name (`/proc/cpuinfo`), if it has one.
    pub model: Option<String>,
    /// Possible CPUs (`/sys/devices/system/cpu/possible`).
    pub possible: CpuSet,
    /// CPUs that are plugged in.
    pub present: CpuSet,
    /// CPUs in use.
    pub online: CpuSet,
    /// Present but not in use.
    pub offline: CpuSet,
    /// One entry for each online CPU, ascending.
    pub cpus: Vec<Cpu>,
    /// NUMA nodes, those without CPUs too. Empty on machines without `/sys/devices/system/node`.
    pub nodes: Vec<Node>,
    /// The source of the core types; `None` when all cores are alike.
    pub kind_source: Option<KindSource>,
    /// `/sys/devices/system/cpu/smt/active`.
    pub smt_active: Option<bool>,
    /// `/sys/devices/system/cpu/smt/control`.
    pub smt_control: Option<String>,
}

impl Topology {
    /// The online CPU with this number.
    #[must_use]
    pub fn cpu(&self, cpu: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|known| known.cpu == cpu)
    }

    /// The CPU that booted the machine: CPU 0, or the lowest online CPU if CPU 0 is not online
    /// (deconfigured cores of a Power machine). `None` without an online CPU.
    #[must_use]
    pub fn boot_cpu(&self) -> Option<usize> {
        self.online.first()
    }

    /// The number of threads that a core has at most: 1 without SMT, 0 without online CPUs.
    #[must_use]
    pub fn threads_per_core(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.siblings.len()).max().unwrap_or(0)
    }

    /// The distinct sets that CPUs belong to, by their lowest CPU: all cores with
    /// `|cpu| Some(&cpu.siblings)`, all L2 clusters with `|cpu| cpu.sharing(2)`.
    pub fn groups<'a>(&'a self, set_of: impl Fn(&'a Cpu) -> Option<&'a CpuSet>) -> Vec<&'a CpuSet> {
        let mut groups: Vec<&CpuSet> = Vec::new();
        for set in self.cpus.iter().filter_map(set_of).filter(|set| !set.is_empty()) {
            if !groups.contains(&set) {
                groups.push(set);
            }
        }
        groups
    }
}

/// One online CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Physical package (socket).
    pub package: Option<i64>,
    /// Core within the package.
    pub core: Option<i64>,
    /// SMT siblings, itself included.
    pub siblings: CpuSet,
    /// CPUs of the same package, itself included; empty when unknown.
    pub package_cpus: CpuSet,
    /// Caches from near to far, from level 2 on.
    pub caches: Vec<Cache>,
    /// NUMA node.
    pub node: Option<usize>,
    /// Core type on hybrid machines; [`Topology::kind_source`] is its source.
    pub kind: Option<CoreKind>,
    /// `cpu_capacity` (1024 is the fastest CPU of the machine); not read when PMUs show the type.
    pub capacity: Option<u32>,
    /// Highest frequency in kHz (`cpuinfo_max_freq`); not read when there is a capacity.
    pub max_khz: Option<u64>,
}

/// Core types of hybrid machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CoreKind {
    /// Fast cores: P cores, big, prime.
    Performance,
    /// Small cores: E cores, LITTLE.
    Efficiency,
}

/// The source of the core types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KindSource {
    /// the kernel's PMUs.
    Pmu,
    /// part number.
    PartNumber,
    /// capacity.
    Capacity,
    /// highest frequency.
    Frequency,
    /// highest frequency and shared L2 caches.
    Clusters,
}

/// One cache of a CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// 2, 3, …
    pub level: u32,
    /// `Data` or `Unified`.
    pub kind: String,
    /// Size in KiB.
    pub size_kib: Option<u64>,
    /// CPUs that share it.
    pub shared: CpuSet,
}

impl Cpu {
    /// CPUs that share this CPU's data or unified cache of a level, itself included.
    #[must_use]
    pub fn sharing(&self, level: u32) -> Option<&CpuSet> {
        let cache = self.caches.iter().find(|c| c.level == level)?;
        Some(&cache.shared)
    }
}

/// A NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Its number.
    pub node: usize,
    /// Its online CPUs; empty for memory-only nodes.
    pub cpus: CpuSet,
    /// Memory in KiB.
    pub memory_kib: Option<u64>,
}
