//! Every thread and where it may run. Command lines are never read.

use super::PlacedThread;
use super::reader::SurveyReader;

pub(super) fn tasks(r: &SurveyReader) -> Vec<PlacedThread> {
    let tasks = r.wanted(r.host.tasks()).unwrap_or_default();
    let place = |task: cpushield_linux::Task| {
        // Tasks that ended meanwhile have no affinity any more.
        let affinity = r.given(r.host.thread_affinity(task.pid, task.id.tid))?;
        Some(PlacedThread { task, affinity })
    };
    tasks.into_iter().filter_map(place).collect()
}
