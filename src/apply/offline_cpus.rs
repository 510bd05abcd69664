//! The offline CPUs that matter for masks: the online part of a mask does not show whether the mask
//! has them. Pure.

use super::journal::ApplyJournal;
use crate::change::Change;
use cpushield_linux::CpuSet;

/// The CPUs that shields have taken offline, and shielded ones that are offline. A mask with one of
/// them is only known if it is read in full.
pub(super) fn offline_cpus(journal: &ApplyJournal, online: Option<&CpuSet>) -> CpuSet {
    let siblings = journal.header.plan.steps.iter().filter_map(|step| match step.change {
        Change::OfflineSibling { cpu, .. } => Some(cpu),
        _ => None,
    });
    siblings.collect::<CpuSet>().union(&offline_shield(&journal.shielded_cpus(), online))
}

/// The shielded CPUs that are offline, perhaps because another process took them offline.
pub(super) fn offline_shield(shielded: &CpuSet, online: Option<&CpuSet>) -> CpuSet {
    online.map_or_else(CpuSet::new, |online| shielded.difference(online))
}
