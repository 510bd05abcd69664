//! The mask of unbound workqueues, which the kernel itself changes for isolated partitions.

use super::kind::PerformedChange;
use crate::change::Change;
use cpushield_linux::{CpuSet, Host, Result};

/// The mask in force, and the requested mask.
const UNBOUND: &str = "/sys/devices/virtual/workqueue/cpumask";
const REQUESTED: &str = "/sys/devices/virtual/workqueue/cpumask_requested";
/// The CPUs of all isolated partitions of cgroup v2 (since 6.8).
const ISOLATED: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// Returns the file that shows what was last written to `path`. Since 6.8, the mask of unbound
/// workqueues shows what was written without the CPUs of isolated partitions; another file, which
/// is read-only, shows all of it (workqueue_unbound_exclude_cpumask() and wq_sysfs_cpumask_attrs in
/// kernel/workqueue.c, commit fe28f631fa94).
pub(super) fn shown_by<'a>(host: &Host, path: &'a str) -> &'a str {
    if path == UNBOUND && host.exists(REQUESTED) { REQUESTED } else { path }
}

/// The result of a change of the mask of unbound workqueues that must not be written now, because
/// partitions keep the mask in force smaller than the requested one, and the kernel applies a
/// written mask as it is.
/// - A partition that is not of `shielded`, the CPUs of the active shields: when undo restores the
///   requested mask, unbound work would run on its CPUs. The change is refused.
/// - Only the wanted CPUs that are shielded are missing: the version of a shield that leaves has
///   them still. The kernel adds them when that version leaves.
///
/// CPUs that are no longer in a partition are missing for another reason; see [`write_stale_mask`].
///
/// # Errors
/// The files cannot be read.
pub(super) fn without_writing(
    host: &Host,
    change: &Change,
    shielded: &CpuSet,
) -> Result<Option<PerformedChange>> {
    let Change::Write { path, value, .. } = change else { return Ok(None) };
    if shown_by(host, path) == path {
        return Ok(None);
    }
    let (requested_text, text) = (host.read_line(REQUESTED)?, host.read_line(UNBOUND)?);
    let masks = [&requested_text, &text, value].map(|mask| CpuSet::parse_mask(mask));
    let [Ok(requested), Ok(in_force), Ok(wanted)] = masks else { return Ok(None) };
    let mut excluded = requested.difference(&in_force);
    if let Some(isolated) = isolated(host)? {
        excluded = excluded.intersection(&isolated);
    }
    if wanted == in_force || excluded.is_empty() {
        return Ok(None);
    }
    if !excluded.is_subset(shielded) {
        return Ok(Some(PerformedChange::refused(format!(
            "mask {requested_text} was requested, but another partition keeps the mask at {text}: \
             restoring the mask would let unbound work run on the CPUs of that partition"
        ))));
    }
    let is_kept = in_force.is_subset(&wanted) && wanted.difference(&in_force).is_subset(&excluded);
    Ok(is_kept.then(|| PerformedChange { left: Some(text), ..PerformedChange::already_so() }))
}

/// Writes the requested mask again where the mask in force is smaller without a partition as the
/// reason. Returns the mask in force where that did not help.
///
/// A process that is killed while it dissolves a partition can leave the kernel so: the new pools
/// need new kworkers, which a killed process cannot have (`__kthread_create_on_node()` waits
/// killably and answers EINTR), and `update_unbound_workqueue_cpumask()` only warns
/// (kernel/kthread.c, kernel/workqueue.c, kernel/cgroup/cpuset.c, 6.12). Writing the same mask
/// again makes the pools, because it is compared with the mask in force
/// (`workqueue_set_unbound_cpumask()`).
///
/// # Errors
/// The mask cannot be written.
pub(super) fn write_stale_mask(host: &Host) -> Result<Option<String>> {
    if stale_mask(host)?.is_some() {
        host.write(UNBOUND, &host.read_line(REQUESTED)?)?;
    }
    stale_mask(host)
}

/// Returns the mask in force where no isolated partition explains what it lacks.
fn stale_mask(host: &Host) -> Result<Option<String>> {
    if [UNBOUND, REQUESTED].iter().any(|path| !host.exists(path)) {
        return Ok(None);
    }
    let (requested, in_force) = (host.read_line(REQUESTED)?, host.read_line(UNBOUND)?);
    let sets = (CpuSet::parse_mask(&requested), CpuSet::parse_mask(&in_force));
    let (Ok(requested), Ok(mask)) = sets else { return Ok(None) };
    let Some(isolated) = isolated(host)? else { return Ok(None) };
    let missing = requested.difference(&mask);
    let unexplained = !missing.is_empty() && !missing.intersects(&isolated);
    Ok(unexplained.then_some(in_force))
}

/// The CPUs of all isolated partitions; `None` where the kernel does not show them.
fn isolated(host: &Host) -> Result<Option<CpuSet>> {
    if !host.exists(ISOLATED) {
        return Ok(None);
    }
    Ok(host.read_line(ISOLATED)?.parse().ok())
}
