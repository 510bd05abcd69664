//! CPUs that the version of a shield before has already are not taken offline again: its programs
//! run there. Pure.

use crate::change::Change;
use crate::documents::plan::ActiveShields;
use crate::tunables::WantedChanges;
use cpushield_linux::CpuSet;

/// Counts the CPU cycles that the version before has made as made. Leaves out those that it has
/// not made on its CPUs, and returns these CPUs. `tunable` is the name of the one that wants the
/// changes.
pub(super) fn settle_cycles(
    tunable: &str,
    wants: WantedChanges,
    live: &ActiveShields,
) -> (WantedChanges, CpuSet) {
    let WantedChanges::Changes(mut wanted) = wants else { return (wants, CpuSet::new()) };
    let kept_cpu = |change: &Change| match change {
        Change::CycleCpu { cpu } if live.replaced_cpus.contains(*cpu) => Some(*cpu),
        _ => None,
    };
    // A version counts the cycles of the versions before it, without their CPUs.
    let counted = live.replaced_already.get(tunable).copied().unwrap_or_default();
    let unlisted =
        wanted.iter().filter(|it| kept_cpu(&it.change).is_some() && !live.has_made(&it.change));
    let are_counted = unlisted.count() <= counted;
    let mut left_out = Vec::new();
    wanted.retain_mut(|it| {
        let Some(cpu) = kept_cpu(&it.change) else { return true };
        it.already = live.has_made(&it.change) || are_counted;
        if !it.already {
            left_out.push(cpu);
        }
        it.already
    });
    (WantedChanges::Changes(wanted), left_out.into_iter().collect())
}
