//! The [`Policy`]: what the user wants, from flags or from `/etc/cpushield/policy.toml`.

use cpushield_linux::CpuSet;
use serde::{Deserialize, Serialize};

/// What kind of program will run in the shield.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Never enters the kernel: packet processing, busy loops.
    #[default]
    Polling,
    /// Wakes periodically: motion control, audio.
    Cyclic,
    /// A guest's vCPUs.
    Vm,
}

/// How much of the machine a shield does not share with everyone else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Whole cores; caches behind them are shared with everyone else.
    Core,
    /// Everything that shares a level-2 cache.
    L2,
    /// Everything that shares a level-3 cache.
    L3,
}

/// What the user wants for one shield.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The shield's name; its cgroup and slice are called after it.
    pub name: String,
    /// These CPUs exactly, or a choice by [`Wish::count`].
    pub cpus: Option<CpuSet>,
    /// How many CPUs, when the tool chooses. `None` is one CPU (or one whole core).
    pub count: Option<usize>,
    /// Take whole groups of CPUs that share this. `None`: whole cores, and whole L2 clusters where
    /// the tool chooses how many CPUs and the cluster is small.
    pub share: Option<Share>,
    /// Near this device (`eth0`, `nvme0n1`).
    pub near: Option<String>,
    /// On this NUMA node.
    pub node: Option<usize>,
    /// Shielding half a core (one SMT sibling) is accepted.
    pub half_core: bool,
    /// What will run there.
    pub workload: Workload,
    /// Tunables forced on (`true`) or off (`false`), by name.
    pub tunables: std::collections::BTreeMap<String, bool>,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish {
            name: "cpushield".to_owned(),
            cpus: None,
            count: None,
            share: None,
            near: None,
            node: None,
            half_core: false,
            workload: Workload::default(),
            tunables: std::collections::BTreeMap::new(),
        }
    }
}
