//! [`ChoiceWarning`]: what speaks against the CPUs of a shield. Pure.

use super::named;
use crate::with_text;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What speaks against the CPUs of a shield.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum ChoiceWarning {
    /// CPU {cpu} is the boot CPU: firmware, timers and some drivers use it regardless of
    /// configuration; choose another CPU if possible.
    BootCpu {
        /// The boot CPU.
        cpu: usize,
    },
    /// housekeeping work on {siblings} slows {cpus} down, because they share a core (accepted by
    /// --siblings share).
    #[with(siblings = named(siblings), cpus = named(cpus))]
    CoreShared {
        /// The shielded CPUs.
        cpus: CpuSet,
        /// Their siblings.
        siblings: CpuSet,
    },
    /// {core} are SMT siblings of one core: two programs there slow each other down; to keep one
    /// idle: --siblings idle.
    #[with(core = named(core))]
    SiblingsBusy {
        /// The siblings.
        core: CpuSet,
    },
    /// {cpus} and the unshielded {others} share an L2 cache; for the lowest latency, take the whole
    /// cluster: --cpus {cluster}.
    #[with(cpus = named(cpus), others = named(others))]
    CacheShared {
        /// The shielded CPUs.
        cpus: CpuSet,
        /// The others.
        others: CpuSet,
        /// All CPUs of the cache.
        cluster: CpuSet,
    },
    /// the shield mixes performance cores ({performance}) and efficiency cores
    /// ({efficiency}){source}: the same work takes longer on efficiency cores.
    #[with(performance = named(performance), efficiency = named(efficiency), source = source.as_ref().map(|it| format!(" (according to {it})")).unwrap_or_default())]
    CoreKindsMixed {
        /// The performance cores.
        performance: CpuSet,
        /// The efficiency cores.
        efficiency: CpuSet,
        /// What the kinds are known by; `None` if the survey does not say.
        source: Option<String>,
    },
    /// no single NUMA node has enough free CPUs; access to the memory of another node is slower.
    SeveralNodes,
    /// No online CPU is near the requested device.
    #[print(write_none_near(f, device, node, local))]
    NoneNear {
        /// The device.
        device: String,
        /// Its NUMA node; `None` if its bus has none.
        node: Option<usize>,
        /// The CPUs near it, which are offline; empty if its node has none.
        local: CpuSet,
    },
    /// node {node} keeps no housekeeping CPU: interrupts of its devices and its kernel threads
    /// (kswapd{node}, kcompactd{node}) run on other nodes, which reach its memory more slowly;
    /// other programs still get memory from node {node} when theirs is full; to limit a service to
    /// other nodes, set AllowedMemoryNodes= in its unit.
    ///
    /// A NUMA node keeps no housekeeping CPU. kswapd and kcompactd of a node run on its CPUs
    /// (kswapd() in mm/vmscan.c, kcompactd() in mm/compaction.c, 6.12), unless they are moved.
    WholeNode {
        /// The node.
        node: usize,
    },
    /// {why}; the shield uses node {mems}, whose memory is slower to reach.
    RemoteMemory {
        /// The nodes that the shield uses.
        mems: CpuSet,
        /// Why.
        #[serde(with = "with_text::WithText::<RemoteMemoryReason>")]
        why: RemoteMemoryReason,
    },
}

fn write_none_near(
    f: &mut fmt::Formatter<'_>,
    device: &str,
    node: &Option<usize>,
    local: &CpuSet,
) -> fmt::Result {
    write!(f, "no online CPU is near {device}")?;
    match node {
        _ if !local.is_empty() => write!(f, " (offline: {})", named(local))?,
        Some(node) => write!(f, " (node {node} has no CPUs)")?,
        None => {}
    }
    f.write_str(", so --near does not limit the choice")?;
    Ok(())
}

/// Why a shield does not use the memory of its own nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum RemoteMemoryReason {
    /// the NUMA node of CPU {cpus} is unknown.
    NodeUnknown {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// node {nodes} of the shield has no memory.
    NoMemory {
        /// The nodes.
        nodes: CpuSet,
    },
    /// cpusets on this machine may not use node {nodes} of the shield.
    NotAllowed {
        /// The nodes with memory.
        nodes: CpuSet,
    },
}
