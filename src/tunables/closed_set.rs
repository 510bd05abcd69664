//! The parts of the closed set of changes that a tunable can want: a saved plan may have no other,
//! because apply writes as root what the plan says. Pure.

use crate::change::{Change, ValueComparison};
use crate::documents::plan::Shield;
use crate::glob;
use cpushield_linux::CpuSet;

/// Whether a change sets one of these files to this text, which is compared so. `*` matches any one
/// name in a path.
pub(super) fn sets(change: &Change, files: &[&str], text: &str, compared: ValueComparison) -> bool {
    matches!(change, Change::Write { value, .. } if value == text)
        && writes(change, files, compared)
}

/// Whether a change writes one of these files, and compares the value so.
fn writes(change: &Change, files: &[&str], compared: ValueComparison) -> bool {
    let Change::Write { path, compare, .. } = change else { return false };
    *compare == compared && files.iter().any(|file| glob::matches_path(file, path))
}

/// The same for words in files of a CPU (`…/cpu3/…`), which must be shielded.
pub(super) fn sets_of_shielded(
    change: &Change,
    shield: &Shield,
    files: &[&str],
    text: &str,
) -> bool {
    let Change::Write { path, .. } = change else { return false };
    let cpu = path.split('/').find_map(|name| name.strip_prefix("cpu")?.parse().ok());
    cpu.is_some_and(|cpu| shield.cpus.contains(cpu))
        && sets(change, files, text, ValueComparison::Text)
}

/// Whether a change sets one of these files to CPUs outside the shield.
pub(super) fn keeps_off(
    change: &Change,
    shield: &Shield,
    files: &[&str],
    compared: ValueComparison,
) -> bool {
    cpus_off(change, shield, files, compared).is_some_and(|cpus| !cpus.is_empty())
}

/// The CPUs outside the shield, or none, that a change sets one of these files to.
pub(super) fn cpus_off(
    change: &Change,
    shield: &Shield,
    files: &[&str],
    compared: ValueComparison,
) -> Option<CpuSet> {
    let cpus = written_cpus(change).filter(|cpus| !cpus.intersects(&shield.cpus))?;
    writes(change, files, compared).then_some(cpus)
}

/// Whether a change keeps a task on CPUs outside the shield.
pub(super) fn keeps_task_off(change: &Change, shield: &Shield) -> bool {
    matches!(change, Change::Affinity { cpus, .. } if !cpus.intersects(&shield.cpus))
}

/// The CPUs that a write sets; `None` for any other text.
pub(super) fn written_cpus(change: &Change) -> Option<CpuSet> {
    let Change::Write { value, compare, .. } = change else { return None };
    match compare {
        ValueComparison::List => value.parse().ok(),
        ValueComparison::Mask => CpuSet::parse_mask(value).ok(),
        _ => None,
    }
}
