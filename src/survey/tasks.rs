//! Every thread and where it may run. Command lines are never read.

use super::Placed;
use super::reader::Reader;

pub(super) fn tasks(r: &Reader) -> Vec<Placed> {
    let tasks = r.wanted(r.host.tasks()).unwrap_or_default();
    let place = |task: cpushield_linux::Task| {
        // Tasks that ended meanwhile have no affinity any more.
        let affinity = r.given(r.host.affinity_of(task.pid, task.id.tid))?;
        Some(Placed { task, affinity })
    };
    tasks.into_iter().filter_map(place).collect()
}
