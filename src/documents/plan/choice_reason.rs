//! [`ChoiceReason`]: why a plan has these CPUs. Pure.

use super::{VersionSettings, named};
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What prepared CPUs at boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BootPreparation {
    /// `nohz_full=`: the tick can stop there.
    NohzFull,
    /// `isolcpus=`: the scheduler does not balance load there.
    Isolcpus,
    /// Unknown: the kernel shows isolated CPUs, and its command line could not be read.
    Unknown,
}

/// Why a plan has these CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
#[stop]
pub enum ChoiceReason {
    /// {cpus}: as requested.
    #[with(cpus = named(cpus))]
    Listed {
        /// The list.
        cpus: CpuSet,
    },
    /// Near {device}: {cpus}.
    #[with(cpus = named(cpus))]
    NearDevice {
        /// The device.
        device: String,
        /// The CPUs near it.
        cpus: CpuSet,
    },
    /// Every CPU is equally near {device}.
    EquallyNear {
        /// The device.
        device: String,
    },
    /// {cpus} exclusively to {group}, a cpuset of another program.
    #[with(cpus = belongs(cpus))]
    HeldByCpuset {
        /// These CPUs.
        cpus: CpuSet,
        /// The cgroup.
        group: String,
    },
    /// {cpus}: no other CPU shares the L2 cache, so other programs cannot evict the workload's data
    /// from it.
    #[with(cpus = named(cpus))]
    OwnCache {
        /// The CPUs of the cache.
        cpus: CpuSet,
    },
    /// CPU {cpu} is the boot CPU and stays a housekeeping CPU.
    BootCpuKept {
        /// The boot CPU.
        cpu: usize,
    },
    /// CPUs were prepared at boot.
    #[print(write_preparation(f, cpus, prepared, *by))]
    PreparedAtBoot {
        /// The chosen CPUs.
        cpus: CpuSet,
        /// The prepared CPUs.
        prepared: CpuSet,
        /// What prepared them.
        by: BootPreparation,
    },
    /// The user has isolated CPUs at boot.
    #[print(write_isolated(f, cpus, isolated))]
    IsolatedAtBoot {
        /// The chosen CPUs.
        cpus: CpuSet,
        /// The CPUs of `isolcpus=`.
        isolated: CpuSet,
    },
    /// {cpus}: the fastest kind of core in this machine.
    #[with(cpus = named(cpus))]
    FastestKind {
        /// The chosen CPUs.
        cpus: CpuSet,
    },
    /// {cpus}: fewer immovable interrupts are handled there than elsewhere.
    #[with(cpus = named(cpus))]
    FewerImmovableIrqs {
        /// The chosen CPUs.
        cpus: CpuSet,
    },
    /// The cores are taken whole, and some siblings run no programs.
    #[print(write_whole_cores(f, work, idle, *offline))]
    WholeCores {
        /// The CPUs that run programs.
        work: CpuSet,
        /// Their siblings.
        idle: CpuSet,
        /// Whether the siblings are taken offline.
        offline: bool,
    },
    /// All CPUs share one L2 cache, so the shield cannot have a cache of its own: memory accesses
    /// of housekeeping CPUs can slow it down.
    OneCache,
    /// The shield has a CPU of every L2 cache ({caches} of them). So it shares each cache with
    /// other CPUs, whose memory accesses can slow the shield down.
    EveryCache {
        /// The number of caches.
        caches: usize,
    },
    /// All in node {node}, which also keeps a housekeeping CPU.
    OneNode {
        /// The node.
        node: usize,
    },
    /// All online CPUs of node {node}, as requested: {cpus}.
    #[with(cpus = named(cpus))]
    WholeNode {
        /// The node.
        node: usize,
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// The highest of several equally suitable CPUs: {cpus}.
    #[with(cpus = named(cpus))]
    HighestNumber {
        /// The CPU.
        cpus: CpuSet,
    },
    /// {cpus}: kept from the active version of this shield.
    #[with(cpus = named(cpus))]
    KeptFromActive {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Shield {shield} is active and already has CPU {cpus}.
    SameVersion {
        /// The shield.
        shield: String,
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// Shield {shield} is active on CPU {cpus}; this plan replaces it.
    NewVersion {
        /// The shield.
        shield: String,
        /// Its CPUs until then.
        cpus: CpuSet,
    },
    /// Settings {0}.
    Settings(VersionSettings),
}

fn belongs(cpus: &CpuSet) -> String {
    format!("{} {}", named(cpus), if cpus.len() == 1 { "belongs" } else { "belong" })
}

fn write_isolated(f: &mut fmt::Formatter<'_>, cpus: &CpuSet, isolated: &CpuSet) -> fmt::Result {
    write!(f, "{}: isolated at boot (isolcpus={isolated}).", named(cpus))?;
    let unused = isolated.difference(cpus);
    match unused.len() {
        0 => Ok(()),
        1 => write!(f, " {} stays unused.", named(&unused)),
        _ => write!(f, " {} stay unused.", named(&unused)),
    }
}

fn write_preparation(
    f: &mut fmt::Formatter<'_>,
    cpus: &CpuSet,
    prepared: &CpuSet,
    by: BootPreparation,
) -> fmt::Result {
    let lacking = cpus.difference(prepared);
    let (no, cpus) = if lacking.is_empty() { ("", cpus) } else { (" not", &lacking) };
    let (is, was) = if cpus.len() == 1 { ("is", "was") } else { ("are", "were") };
    let named = named(cpus);
    match by {
        BootPreparation::NohzFull => {
            write!(f, "{named} {was}{no} prepared at boot (nohz_full={prepared}).")
        }
        BootPreparation::Isolcpus => write!(f, "{named} {is}{no} in isolcpus={prepared}."),
        BootPreparation::Unknown => write!(
            f,
            "{named} {is}{no} among the isolated CPUs ({prepared}) of the kernel. Its command line \
             could not be read."
        ),
    }
}

fn write_whole_cores(
    f: &mut fmt::Formatter<'_>,
    work: &CpuSet,
    idle: &CpuSet,
    offline: bool,
) -> fmt::Result {
    let what = match (offline, idle.len()) {
        (true, 1) => "is an SMT sibling and is taken offline",
        (true, _) => "are SMT siblings and are taken offline",
        (false, 1) => "is an SMT sibling and stays idle",
        (false, _) => "are SMT siblings and stay idle",
    };
    write!(f, "Whole cores: programs run on {}. {} {what}.", named(work), named(idle))
}

#[cfg(test)]
mod tests {
    use super::super::SettingsFate;
    use super::*;
    use crate::with_text;

    #[test]
    fn each_reason_has_its_own_tag() {
        let set = |list: &str| -> CpuSet { list.parse().unwrap() };
        let (cpus, device) = (set("3"), "eth0".to_owned());
        let (work, idle) = (set("3"), set("7"));
        let prepared = set("2-3");
        with_text::check_saved(
            "reason",
            &[
                ChoiceReason::Listed { cpus: cpus.clone() },
                ChoiceReason::NearDevice { device: device.clone(), cpus: cpus.clone() },
                ChoiceReason::EquallyNear { device },
                ChoiceReason::HeldByCpuset { cpus: cpus.clone(), group: "/g".to_owned() },
                ChoiceReason::OwnCache { cpus: cpus.clone() },
                ChoiceReason::BootCpuKept { cpu: 0 },
                ChoiceReason::PreparedAtBoot {
                    cpus: cpus.clone(),
                    prepared,
                    by: BootPreparation::NohzFull,
                },
                ChoiceReason::IsolatedAtBoot { cpus: cpus.clone(), isolated: cpus.clone() },
                ChoiceReason::FastestKind { cpus: cpus.clone() },
                ChoiceReason::FewerImmovableIrqs { cpus: cpus.clone() },
                ChoiceReason::WholeCores { work, idle, offline: false },
                ChoiceReason::OneCache,
                ChoiceReason::EveryCache { caches: 2 },
                ChoiceReason::OneNode { node: 1 },
                ChoiceReason::HighestNumber { cpus: cpus.clone() },
                ChoiceReason::KeptFromActive { cpus: cpus.clone() },
                ChoiceReason::SameVersion { shield: "a".to_owned(), cpus: cpus.clone() },
                ChoiceReason::NewVersion { shield: "a".to_owned(), cpus },
                ChoiceReason::Settings(VersionSettings {
                    fate: SettingsFate::Added,
                    tunable: "ksm".to_owned(),
                    settings: vec!["/sys/kernel/mm/ksm/run".to_owned()],
                }),
            ],
        );
    }
}
